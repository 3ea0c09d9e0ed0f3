//! What a module is told: the answers of the contract.

use foldback_core::Text;
use foldback_engine::Outcome;
use serde::Serialize;
use serde_json::value::RawValue;

use super::VERSION;
use super::fold::Shown;
use crate::backend::DIGEST;
use crate::terminal::{counted, number};

/// What became of a conversation.
#[derive(Debug, Default, Serialize)]
pub(super) struct CompactAnswer {
    version: u32,
    result: &'static str,
    /// Why nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// What stands in the place of everything that is folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Text>,
    /// What recalls all of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<Text>,
    /// The record at which the tail starts that stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_kept: Option<Text>,
    /// The record of the compaction: a host that stores it with its own can undo, explain and recall from its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Box<RawValue>>,
    /// The conversation to go on with, in the form that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Box<RawValue>>,
    tokens_before: u64,
    tokens_after: u64,
    /// One line for the person.
    line: String,
}

/// How large a conversation was and is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) before: u64,
    pub(super) after: u64,
}

impl CompactAnswer {
    pub(super) fn unchanged(why: impl Into<String>, tokens: u64) -> Self {
        let why = why.into();
        let line = format!("foldback left the conversation as it is: {why}");
        Self {
            version: VERSION,
            result: "unchanged",
            why: Some(why),
            tokens_before: tokens,
            tokens_after: tokens,
            line,
            ..Self::default()
        }
    }

    pub(super) fn compacted(outcome: &Outcome, sizes: Sizes) -> Self {
        Self {
            version: VERSION,
            result: "compacted",
            tokens_before: sizes.before,
            tokens_after: sizes.after,
            line: line(outcome, sizes),
            ..Self::default()
        }
    }

    pub(super) fn showing(self, shown: &Shown, details: Box<RawValue>) -> Self {
        Self {
            summary: Some(shown.summary.clone()),
            handle: shown.handle.clone(),
            first_kept: shown.first_kept.clone(),
            details: Some(details),
            ..self
        }
    }

    pub(super) fn with_messages(self, messages: Box<RawValue>) -> Self {
        Self { messages: Some(messages), ..self }
    }
}

/// What was kept and what was folded.
fn line(outcome: &Outcome, sizes: Sizes) -> String {
    let hidden: usize =
        outcome.compactions().flat_map(|block| block.folds()).map(|(fold, _)| fold.item_count()).sum();
    let summaries = outcome.view.items().filter(|item| item.summary.is_some()).count();
    let kept = outcome.view.len() - summaries;
    let by_model = outcome.summaries().filter_map(|item| item.summary.as_ref());
    let by_model = by_model.map(|origin| &*origin.written_by).find(|name| *name != DIGEST);
    let by_model = by_model.map_or_else(String::new, |name| format!(" by {name}"));
    format!(
        "foldback: {} → {} tokens; {} folded into a summary{by_model}, {kept} kept; the original text can be recalled",
        number(sizes.before),
        number(sizes.after),
        counted(hidden, "message"),
    )
}
