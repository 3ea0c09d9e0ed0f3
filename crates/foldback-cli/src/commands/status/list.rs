//! `foldback status --all`: the sessions that agents recorded for this folder.

use std::time::UNIX_EPOCH;

use foldback_core::{Timestamp, Tokens};
use serde::Serialize;

use crate::agents::{self, Found};
use crate::args::{Extent, Shared};
use crate::failure::{Exit, Failure};
use crate::scene::Scene;
use crate::terminal::{FAINT, STRONG, number, styled};
use crate::{input, output, store};

/// Sessions that are listed; older ones are counted.
const LISTED_MAX: usize = 40;

/// A session at a glance.
#[derive(Serialize)]
struct Listed {
    id: String,
    agent: &'static str,
    title: Option<String>,
    file: String,
    changed_at: String,
    /// What the provider reported of its context last; where it reported nothing, an estimate.
    context_tokens: Option<u64>,
    #[serde(skip)]
    line: String,
}

pub(super) fn run(shared: &Shared) -> Result<Exit, Failure> {
    let found: Vec<Found> = agents::of_this_folder().collect();
    if found.is_empty() {
        return Err(agents::none_here());
    }
    let quiet = Shared { quiet: true, ..shared.clone() };
    let newest = &found[..found.len().min(LISTED_MAX)];
    let threads = foldback_threads::threads(usize::MAX);
    let listed = foldback_threads::map(threads, newest, |found| Listed::new(&quiet, found));
    if shared.json {
        listed.iter().try_for_each(output::print_json)?;
        return Ok(Exit::Success);
    }
    let mut text: String = listed.iter().map(|listed| format!("{}\n", listed.line)).collect();
    if found.len() > LISTED_MAX {
        text.push_str(&format!("{} older\n", found.len() - LISTED_MAX));
    }
    output::print(&text)?;
    Ok(Exit::Success)
}

impl Listed {
    fn new(shared: &Shared, found: &Found) -> Self {
        let tokens = context_tokens(shared, found);
        let told = tokens.map_or_else(|| "unread".to_owned(), |tokens| number(tokens.0));
        let title = found.title.as_deref().unwrap_or("(nothing was asked yet)");
        let (id, agent) = (styled(STRONG, format!("{:<12}", found.short_id())), found.agent.name());
        let ago = agents::ago(found.changed_at);
        let line = format!("{id} {agent:<12} {told:>10} tokens  {:<16} {title}", styled(FAINT, ago));
        let millis = found.changed_at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        Self {
            id: found.id.clone(),
            agent: found.agent.name(),
            title: found.title.clone(),
            file: found.path.display().to_string(),
            changed_at: store::time(Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))),
            context_tokens: tokens.map(|tokens| tokens.0),
            line,
        }
    }
}

fn context_tokens(shared: &Shared, found: &Found) -> Option<Tokens> {
    let opened = input::look_at(shared, &found.path).ok()?;
    let conversation = opened.session.conversations().first()?;
    let start = conversation.steps().last().map_or(0, foldback_formats::Step::item_count);
    let since = conversation.recorded().get(start..).unwrap_or_default();
    let reported = since.iter().rev().filter_map(|recorded| recorded.item.usage);
    let mut reported = reported.map(|usage| usage.context_tokens()).filter(|tokens| *tokens > Tokens::ZERO);
    reported.next().or_else(|| {
        Some(Scene::estimated(conversation, opened.session.dialect()).view(Extent::View).tokens())
    })
}
