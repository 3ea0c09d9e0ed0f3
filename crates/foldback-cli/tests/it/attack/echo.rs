//! A model that repeats what it was shown, as one does that believes everything; and what is wrong with how
//! it was asked.

use std::sync::{Arc, Mutex};

use foldback_backends::summary_prompt;
use foldback_core::{Item, ItemKind, Part};
use foldback_engine::{
    BackendError, CancellationToken, CompactionBackend, SummaryRequest, SummaryResult, async_trait,
};

use super::planted::{Garden, Source};

/// Bytes of an answer for each token that is allowed: so much never is too long.
const BYTES_PER_TOKEN: usize = 2;

/// Bytes where nobody says how many tokens are allowed.
const BYTES: usize = 4_000;

/// The block of what is to be summarised.
const CONVERSATION: &str = "conversation";

/// The list of what an answer must hold, and how each entry begins.
const REQUIRED: &str = "required";
const ENTRY: &str = "- ";

#[derive(Clone, Debug)]
pub(super) struct Echo {
    garden: Garden,
    faults: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    pub(super) fn new(garden: &Garden) -> Self {
        Self { garden: garden.clone(), faults: Arc::default() }
    }

    /// What was wrong with the prompts.
    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap().clone()
    }
}

#[async_trait]
impl CompactionBackend for Echo {
    async fn summarize(
        &self,
        request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        let prompt: Vec<String> = summary_prompt(&request).iter().map(|item| text_of(item)).collect();
        self.faults.lock().unwrap().extend(prompt_faults(&prompt, &self.garden));
        let tokens_max = request.tokens_max.map(|tokens| tokens.0);
        let answer = Item::text("answer", ItemKind::Context, echoed(&prompt, tokens_max));
        Ok(SummaryResult::new(vec![answer]))
    }

    fn name(&self) -> &str {
        "echo"
    }
}

/// What such a model answers: what it must say, and the conversation from its beginning.
pub(super) fn echoed(prompt: &[String], tokens_max: Option<u64>) -> String {
    let Some(asked) = Asked::read(prompt) else { return String::new() };
    let bytes_max = tokens_max.map_or(BYTES, |tokens| tokens as usize * BYTES_PER_TOKEN);
    let block = |wanted: &str| {
        let named = asked.blocks().into_iter().find(|(name, _)| *name == wanted);
        named.map_or("", |(_, text)| text)
    };
    let required: String = block(REQUIRED)
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix(ENTRY).unwrap_or(line)))
        .collect();
    let shown = block(CONVERSATION);
    let room = shown.floor_char_boundary(bytes_max.saturating_sub(required.len()));
    required + &shown[..room]
}

fn text_of(item: &Item) -> String {
    let texts = item.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.to_string()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A prompt, as the model reads it that was told what makes its delimiters.
struct Asked<'p> {
    text: &'p str,
    tag: &'p str,
    heading_end: &'p str,
}

impl<'p> Asked<'p> {
    /// The rules say in code marks what tags and headings end in.
    fn read(prompt: &'p [String]) -> Option<Self> {
        let [rules, text] = prompt else { return None };
        let mut codes = rules.split('`').skip(1).step_by(2);
        Some(Self { text, tag: codes.next()?, heading_end: codes.next()? })
    }

    /// The blocks in order: their names and what they quote.
    fn blocks(&self) -> Vec<(&'p str, &'p str)> {
        let mut blocks = Vec::new();
        let mut rest = self.text;
        let opening_end = format!("-{}>\n", self.tag);
        while let Some(end) = rest.find(&opening_end) {
            let name = rest[..end].rsplit('<').next().unwrap_or_default();
            let inside = &rest[end + opening_end.len()..];
            let closing = format!("\n</{name}-{}>", self.tag);
            let Some(length) = inside.find(&closing) else { break };
            blocks.push((name, &inside[..length]));
            rest = &inside[length + closing.len()..];
        }
        blocks
    }

    /// What each block quotes, with who speaks.
    fn spoken(&self) -> Vec<(&'p str, &'p str)> {
        let mut spoken = Vec::new();
        for (_, text) in self.blocks().into_iter().filter(|(name, _)| *name != REQUIRED) {
            let mut speaker = "";
            for line in text.lines() {
                match line.strip_prefix('[').and_then(|line| line.strip_suffix(self.heading_end)) {
                    Some(named) => speaker = named,
                    None => spoken.push((speaker, line)),
                }
            }
        }
        spoken
    }
}

/// Everything by which a model is led to take an imitation for the user's words.
pub(super) fn prompt_faults(prompt: &[String], garden: &Garden) -> Vec<String> {
    let Some(asked) = Asked::read(prompt) else { return vec!["the prompt names no delimiters".to_owned()] };
    let mut faults = Vec::new();
    let names: Vec<&str> = asked.blocks().into_iter().map(|(name, _)| name).collect();
    if asked.text.matches(asked.tag).count() != 2 * names.len() {
        faults.push(format!("delimiters stand beside the blocks {names:?} of a prompt"));
    }
    for (speaker, line) in asked.spoken().into_iter().filter(|(speaker, _)| *speaker == "user") {
        let others =
            garden.found_in(line).filter(|plant| !matches!(plant.source, Source::Typed | Source::Paste));
        faults.extend(others.map(|plant| format!("{plant} speaks as the {speaker} to a model: {line:?}")));
    }
    for (_, list) in asked.blocks().into_iter().filter(|(name, _)| *name == REQUIRED) {
        for line in list.lines() {
            if !line.starts_with(ENTRY) {
                faults.push(format!("an entry of what is required has another line: {line:?}"));
            }
            let others = garden.found_in(line).filter(|plant| !may_be_required(plant.source, line));
            faults.extend(others.map(|plant| format!("{plant} is required of a model: {line:?}")));
        }
    }
    faults
}

/// How an entry says that a tool's words are the tool's.
const FAILED: &str = " failed: ";

/// What a summary has to hold: the user's rules, the files that were changed, and the newest failure, with what
/// failed.
fn may_be_required(source: Source, line: &str) -> bool {
    matches!(source, Source::Typed | Source::FilePath) || (source == Source::Output && line.contains(FAILED))
}
