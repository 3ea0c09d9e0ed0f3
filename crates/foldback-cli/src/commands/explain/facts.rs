//! The facts that a compaction took from the view, by name: which can be recalled and which cannot.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use foldback_core::account::{Account, Accounted, FactFate};
use foldback_core::reading::text_of;
use foldback_core::{Fact, FactKind, Item, View, redact, redact_item};
use foldback_formats::Conversation;
use serde::Serialize;

use crate::lab::runs::Fate as Names;
use crate::terminal::{FAINT, STRONG, styled};

/// Facts of one kind and fate that people are told one by one; the rest are counted. JSON has those
/// that an account lists.
const TOLD_MAX: usize = 10;

/// Columns of a fact.
const TEXT_COLUMNS: usize = 60;

/// What the view no longer tells, newest first; of each kind as many as an account lists.
#[derive(Serialize)]
pub(super) struct Facts {
    lost: Vec<Gone>,
    recoverable: Vec<Gone>,
}

/// One fact that the view no longer tells.
#[derive(Serialize)]
struct Gone {
    kind: &'static str,
    text: String,
    /// The item that told it last, by its position in the view before; none where it was hidden then.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
    /// The line of the file on which that item stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// What recalls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
}

impl Facts {
    pub(super) fn new(account: &Account<'_>, before: &View, conversation: &Conversation) -> Self {
        let positions: HashMap<usize, usize> =
            before.iter().enumerate().map(|(position, entry)| (entry.anchor(), position)).collect();
        let gone = |one: &Accounted<'_>, handle: Option<String>| {
            // The newest place that the view before showed, or else the newest.
            let places = || one.fact.mentions.iter().rev().map(|place| place.item_index);
            let index = places().find(|index| positions.contains_key(index)).or_else(|| places().next());
            let recorded = index.and_then(|index| conversation.recorded().get(index));
            Gone {
                kind: one.fact.kind.name(),
                text: said(one.fact, recorded.map(|recorded| &*recorded.item)),
                position: index.and_then(|index| positions.get(&index).copied()),
                line: recorded.map(|recorded| recorded.place.line),
                handle,
            }
        };
        let mut facts = Self { lost: Vec::new(), recoverable: Vec::new() };
        for one in &account.listed {
            match &one.fate {
                FactFate::Kept => {}
                FactFate::Recoverable(handle) => {
                    facts.recoverable.push(gone(one, Some(handle.to_string())));
                }
                FactFate::Lost => facts.lost.push(gone(one, None)),
            }
        }
        facts
    }

    /// For people: the facts under what became of them. `counts` says how many there are of each kind.
    pub(super) fn write(&self, text: &mut String, counts: &BTreeMap<&'static str, Names>) {
        let count = |kind: &str, of: fn(&Names) -> usize| counts.get(kind).map_or(0, of);
        write_all(text, "lost", &self.lost, |kind| count(kind, |names| names.lost));
        let recoverable = |kind: &str| count(kind, |names| names.recoverable);
        write_all(text, "no longer told, with the handle that recalls them", &self.recoverable, recoverable);
    }
}

fn write_all(text: &mut String, heading: &str, all: &[Gone], count: impl Fn(&str) -> usize) {
    let kinds = FactKind::ALL.iter().map(|kind| kind.name());
    let mut is_first = true;
    for kind in kinds.filter(|kind| all.iter().any(|gone| gone.kind == *kind)) {
        if std::mem::take(&mut is_first) {
            let _ = writeln!(text, "\n{}", styled(STRONG, heading));
        }
        for gone in all.iter().filter(|gone| gone.kind == kind).take(TOLD_MAX) {
            let shown = one_line(&gone.text);
            let _ = writeln!(text, "  {kind:<12} {shown:<TEXT_COLUMNS$}  {}", styled(FAINT, gone.place()));
        }
        let more = count(kind).saturating_sub(TOLD_MAX);
        if more > 0 {
            let _ = writeln!(text, "  {kind:<12} {}", styled(FAINT, format!("and {more} more")));
        }
    }
}

/// A fact as it may be told. It was cut from an item: where that has secrets, the fact stands as it is only
/// if the item still says it without them.
fn said(fact: &Fact, item: Option<&Item>) -> String {
    let redacted = item.map(redact_item);
    let is_open = match &redacted {
        Some(Cow::Owned(item)) => item.parts.iter().any(|part| text_of(part).contains(fact.text.as_str())),
        Some(Cow::Borrowed(_)) | None => true,
    };
    if is_open { redact(&fact.text).into_owned() } else { "(holds a secret)".to_owned() }
}

/// The beginning of a text on one line.
fn one_line(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(TEXT_COLUMNS) {
        words.truncate(end);
    }
    words
}

impl Gone {
    fn place(&self) -> String {
        let handle = self.handle.clone();
        let position = self.position.map(|position| format!("item {position}"));
        let line = self.line.map(|line| format!("line {line}"));
        [handle, position, line].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
