//! The digest: a structured summary of folded items, written without a model.
//!
//! It quotes what the user said, says where the work stands, and for the rest chooses the lines and
//! names that are likeliest to be needed again, under the file or command they belong to. Nothing in
//! it is made up: every line is a quotation or a count.

mod choose;
mod earlier;
mod passages;
mod sources;
mod weigh;
mod words;
mod write;

use crate::ids::Text;
use crate::item::Item;
use crate::transcript::Meter;
use choose::Chooser;
use passages::Passages;
use sources::Sources;

/// A digest needs room for a section or two.
pub(crate) const DIGEST_TOKENS_MIN: u64 = 160;

/// Share of the room for chosen things that names without their line take.
const NAME_SHARE: f64 = 0.55;

/// Attempts at a digest that fits.
const ATTEMPTS_MAX: usize = 6;

/// How much less is chosen than seems to fit, when an attempt was too long.
const CAUTION: f64 = 0.98;

/// What a digest is made of.
pub(crate) struct Material<'r> {
    /// The folded items as they were recorded, with their transcript index.
    pub(crate) items: Vec<(usize, &'r Item)>,
    /// What stays visible beside the digest.
    pub(crate) kept: Vec<Text>,
    /// What to attend to.
    pub(crate) focus: Option<&'r str>,
    /// The transcript index from which the past is looked at.
    pub(crate) now: usize,
}

/// Writes a digest of at most `tokens_max`, without header. `None` where there is no room for one.
pub(crate) fn digest(material: &Material<'_>, tokens_max: u64, meter: &Meter) -> Option<String> {
    if tokens_max < DIGEST_TOKENS_MIN {
        return None;
    }
    let sources = Sources::read(material.items.iter().copied());
    let passages = Passages::of(&sources);
    let words = words::choose_words(&sources, tokens_max, meter);
    let frame = write::frame(&sources, &words);
    let frame_text = frame.text();
    let mut weights: Vec<f64> =
        passages.names.iter().map(|name| weigh::weight(name, material.now)).collect();
    if let Some(focus) = material.focus {
        passages.known_in(focus, |name| {
            weights[name.0 as usize] = weigh::focused(weights[name.0 as usize]);
        });
    }
    for visible in material.kept.iter().map(Text::as_str).chain([frame_text.as_str()]) {
        passages.known_in(visible, |name| weights[name.0 as usize] = 0.0);
    }
    let headings: Vec<String> = sources.topics.iter().map(write::heading).collect();
    let chooser = Chooser::new(&sources, &passages, weights, &headings, meter);
    let mut room = tokens_max.saturating_sub(meter.text(&frame_text)) as f64;
    for _ in 0..ATTEMPTS_MAX {
        let choice = chooser.choose(room, NAME_SHARE, &frame_text);
        let text = write::write(&frame, &sources, &passages, &headings, &choice);
        let tokens = meter.text(&text);
        if tokens <= tokens_max {
            return Some(text);
        }
        room = (room - (tokens - tokens_max) as f64) * CAUTION;
    }
    None
}
