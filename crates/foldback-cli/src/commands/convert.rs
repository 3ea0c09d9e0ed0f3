//! `foldback convert`: a session in another format.

use std::collections::HashMap;

use foldback_core::{Repair, Rule};
use foldback_engine::mend;
use foldback_formats::{Format, Loss, Sent, Written, write};
use serde::Serialize;

use crate::args::{Convert, Extent, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::output::{self, Destination};
use crate::places::Places;
use crate::requests::{spoken, tell_waiting, unanswered_calls};
use crate::scene::Scene;
use crate::terminal::{counted, note, warning};

/// Kinds of losses that are told; the rest are counted.
const KINDS_TOLD_MAX: usize = 10;

pub(crate) fn run(shared: &Shared, arguments: &Convert) -> Result<Exit, Failure> {
    let is_single = input::is_single(&arguments.inputs);
    let destination = Destination::of(shared, arguments.output.as_deref(), false, is_single)?;
    input::for_each(shared, &arguments.inputs, |opened| {
        let Converted { written, losses, left_out, waiting_count } = convert(opened, arguments)?;
        let is_lossy = !losses.is_empty() || left_out > 0;
        if !shared.quiet && !shared.json {
            tell(opened, arguments.to, &losses, left_out);
            tell_waiting(&opened.path.display().to_string(), waiting_count, arguments.to);
        }
        let is_refused = arguments.strict && is_lossy;
        let place = match is_refused {
            true => None,
            false => destination.write(opened, Some(&written), None)?,
        };
        if shared.json {
            output::print_json(&ConvertReport {
                file: opened.path.display().to_string(),
                from: opened.session.format().as_str(),
                to: arguments.to.as_str(),
                written: place.map(|place| place.path.display().to_string()),
                losses: losses.into_iter().map(|lost| format!("{}: {}", lost.at, lost.what)).collect(),
                conversations_left_out: left_out,
                waiting_calls: waiting_count,
            })?;
        }
        match is_refused {
            true => Err(Failure::Write {
                path: opened.path.clone(),
                error: std::io::Error::other(format!("{} cannot hold all of it", arguments.to)),
                hint: Some("leave --strict out, or choose native, which holds everything".to_owned()),
            }),
            false => Ok(Exit::Success),
        }
    })
}

#[derive(Serialize)]
struct ConvertReport {
    file: String,
    from: &'static str,
    to: &'static str,
    written: Option<String>,
    losses: Vec<String>,
    conversations_left_out: usize,
    waiting_calls: usize,
}

/// The session in the other format.
struct Converted {
    written: Written<'static>,
    losses: Vec<Lost>,
    /// Conversations that do not fit into it.
    left_out: usize,
    /// Calls of a request that no result follows yet.
    waiting_count: usize,
}

impl Converted {
    /// Everything that there was.
    fn whole(written: Written<'static>) -> Self {
        Self { written, losses: Vec::new(), left_out: 0, waiting_count: 0 }
    }
}

/// What the format cannot hold, and where it stands in the session.
struct Lost {
    at: String,
    /// The same for every item that loses the same thing.
    kind: String,
    /// With the item.
    what: String,
}

fn convert(opened: &Opened, arguments: &Convert) -> Result<Converted, Failure> {
    let session = &opened.whole()?;
    let conversations = session.conversations();
    let holds_all = arguments.from == Extent::View || conversations.len() > 1;
    if arguments.to == Format::Native && holds_all {
        let each: Vec<_> = conversations.iter().map(|conversation| (conversation, None)).collect();
        return Ok(Converted::whole(session.compacted_native(&each)));
    }
    let failed = |error| Failure::Format { path: opened.path.clone(), error };
    let Some(conversation) = conversations.first() else {
        return write(arguments.to, &[], Some(session)).map_err(failed).map(Converted::whole);
    };
    let scene = Scene::estimated(conversation, session.dialect());
    let view = scene.view(arguments.from);
    let places = Places::new(&opened.path, conversation, &view);
    let lost = |loss: &Loss| {
        let (at, what) = (places.of(&loss.item_id), places.loss(loss));
        Lost { at, kind: loss.what.clone(), what }
    };
    let mut losses = Vec::new();
    let items = match arguments.to {
        Format::Native => Sent::of(&view, conversation),
        // What another provider would reject is no conversion.
        to => {
            let mended = mend(&view, spoken(to));
            let omitted = places.repairs(&mended.view, &mended.repairs).into_iter().filter(omits_media);
            let loss = |repair: Repair| Loss { item_id: repair.item_id, what: repair.detail };
            losses.extend(omitted.map(loss).map(|loss| lost(&loss)));
            Sent::of(&mended.view, conversation)
        }
    };
    let written = write(arguments.to, &items, Some(session)).map_err(failed)?;
    losses.extend(written.losses.iter().map(lost));
    let waiting_count = unanswered_calls(items.iter().map(|sent| &sent.item), arguments.to.dialect());
    Ok(Converted { written, losses, left_out: conversations.len() - 1, waiting_count })
}

/// Whether a repair left out an image, a sound or a document: other repairs lose nothing that was said.
fn omits_media(repair: &Repair) -> bool {
    matches!(repair.rule, Rule::MediaNotAllowed | Rule::MediaOverLimit)
}

fn tell(opened: &Opened, to: Format, losses: &[Lost], left_out: usize) {
    let path = opened.path.display();
    let kinds = by_kind(losses);
    for (first, count) in kinds.iter().take(KINDS_TOLD_MAX) {
        let Lost { at, kind, what } = first;
        warning(&match count {
            1 => format!("{at}: not the same in {to}: {what}"),
            _ => format!("{path}: not the same in {to}, {count} times: {kind}; first at {at}"),
        });
    }
    if kinds.len() > KINDS_TOLD_MAX {
        let rest = &kinds[KINDS_TOLD_MAX..];
        let kinds = counted(rest.len(), "more kind");
        warning(&format!("{path}: {kinds} of losses in {to}; --json lists all"));
    }
    if left_out > 0 {
        let others = counted(left_out, "other conversation");
        note(&format!("{path}: without {others} of the file; native holds them all"));
    }
}

/// The first loss of each kind and how many there are, in the order of the session.
fn by_kind(losses: &[Lost]) -> Vec<(&Lost, usize)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut kinds: Vec<(&Lost, usize)> = Vec::new();
    for lost in losses {
        let place = *places.entry(&lost.kind).or_insert(kinds.len());
        match kinds.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => kinds.push((lost, 1)),
        }
    }
    kinds
}
