//! `foldback session list`: which session is which, at a glance.

use std::sync::Arc;

use foldback_core::{EstimatingCounter, Item, ItemKind, Metadata, Part, Transcript};
use foldback_engine::Store;
use foldback_engine::store::{LoopInfo, Origin, Page, SessionInfo};
use serde::Serialize;

use super::import::{SOURCE_NOTE, TITLE_NOTE};
use crate::args::Shared;
use crate::failure::Failure;
use crate::output;
use crate::store::{SESSIONS_MAX, time};
use crate::terminal::{FAINT, STRONG, harmless, number, styled, width};

/// Items at the beginning that are looked at for the first prompt.
const FIRST_ITEMS: usize = 64;

/// A short id has so many letters at least.
const SHORT_ID_MIN: usize = 8;

/// A session as one that looks for it wants to see it.
#[derive(Serialize)]
struct Listed {
    id: String,
    title: Option<String>,
    first_prompt: Option<String>,
    /// What the model would see, estimated.
    tokens: u64,
    items: usize,
    loops: usize,
    /// When the first and the last item was recorded, where items say so.
    began_at: Option<String>,
    ended_at: Option<String>,
    updated_at: String,
    metadata: Metadata,
    #[serde(skip)]
    short_id: String,
}

pub(super) async fn run(shared: &Shared, store: &Arc<dyn Store>, limit: usize) -> Result<(), Failure> {
    let all = store.sessions(&Page::first(SESSIONS_MAX.max(limit))).await?;
    let mut text = String::new();
    for (place, info) in all.iter().take(limit).enumerate() {
        let session = listed(store, info, short_id(&all, place)).await?;
        match shared.json {
            true => output::print_json(&session)?,
            false => text.push_str(&session.lines()),
        }
    }
    if shared.json {
        return Ok(());
    }
    if all.len() > limit {
        let more = number((all.len() - limit) as u64);
        text.push_str(&format!("{more} more; `foldback session list --limit N` shows them\n"));
    }
    output::print(&text)
}

async fn listed(store: &Arc<dyn Store>, info: &SessionInfo, short_id: String) -> Result<Listed, Failure> {
    let loops = store.loops(&info.id).await?;
    let current = loops.iter().find(|each| each.id == info.current_loop);
    let head = store.head(&info.id, &info.current_loop).await?;
    let mut seen = Transcript::new(Arc::new(EstimatingCounter));
    seen.extend(head.context());
    let first = match loops.iter().find(|each| each.origin == Origin::Root) {
        Some(LoopInfo { id, .. }) => store.items(&info.id, id, 0..FIRST_ITEMS).await?,
        None => Vec::new(),
    };
    let recorded_at = |item: &Arc<Item>| item.created_at.map(time);
    Ok(Listed {
        id: info.id.to_string(),
        title: info.metadata.get(TITLE_NOTE).and_then(|title| title.as_str()).map(ToOwned::to_owned),
        first_prompt: first.iter().find_map(|item| prompt(item)),
        tokens: seen.tokens().0,
        items: current.map_or(0, |each| each.item_count),
        loops: loops.len(),
        began_at: first.iter().find_map(recorded_at),
        ended_at: head.visible.iter().rev().find_map(recorded_at),
        updated_at: time(info.updated_at),
        metadata: info.metadata.clone(),
        short_id,
    })
}

/// What a user asks for in this item, on one line.
fn prompt(item: &Item) -> Option<String> {
    if item.kind != ItemKind::User {
        return None;
    }
    let texts = item.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        _ => None,
    });
    let line = texts.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then_some(line)
}

impl Listed {
    /// Two lines: how large it is and when it was, then what it is about.
    fn lines(&self) -> String {
        let id = styled(STRONG, format!("{:<SHORT_ID_MIN$}", harmless(&self.short_id)));
        let when = match (&self.began_at, &self.ended_at) {
            (Some(began), Some(ended)) => format!("{began} to {ended}"),
            _ => format!("changed {}", self.updated_at),
        };
        let tokens = number(self.tokens);
        let size = format!("about {tokens} tokens in {} items", number(self.items as u64));
        let source = self.metadata.get(SOURCE_NOTE).and_then(|source| source.as_str()).unwrap_or("");
        let about = match (&self.title, &self.first_prompt) {
            (Some(title), Some(prompt)) => format!("{title}: {prompt}"),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => "no prompt".to_owned(),
        };
        let about = shortened(&harmless(&about), width().saturating_sub(2));
        format!("{id}  {when}  {size}  {}\n  {about}\n", styled(FAINT, harmless(source)))
    }
}

/// The beginning of a line that has to fit into so many columns.
fn shortened(line: &str, columns: usize) -> String {
    match line.char_indices().nth(columns) {
        None => line.to_owned(),
        Some(_) => line.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// The shortest beginning of an id that no other session has.
fn short_id(all: &[SessionInfo], place: usize) -> String {
    let id = all[place].id.as_str();
    let shared = |other: &SessionInfo| {
        let pairs = id.chars().zip(other.id.as_str().chars());
        pairs.take_while(|(one, other)| one == other).count()
    };
    let others = all.iter().enumerate().filter(|(other, _)| *other != place);
    let longest = others.map(|(_, other)| shared(other)).max().unwrap_or(0);
    id.chars().take((longest + 1).max(SHORT_ID_MIN)).collect()
}
