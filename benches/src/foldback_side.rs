//! foldback's side of every case but counting (`count.rs`): the only file that calls its planning.
//!
//! The bodies of [`pipeline`], [`three_level`] and [`trigger_fires`] are stand-ins until planning
//! exists in `foldback-core`; numbers printed with them say nothing about foldback.

use std::sync::Arc;

use foldback_core::{Item, ItemKind, Json, Part, ToolCall, ToolInput, ToolResult, Transcript};

use crate::conversation::{Neutral, NeutralCall, Outcome};
use crate::pairing::{Half, Pairing};

/// Whether the functions below are still stand-ins; printed as a warning by every run.
pub(crate) const IS_STAND_IN: bool = true;

/// Drop reasoning, drop failed tool results, keep the recent eight (System and Context stay):
/// planned, checked, and the finished list of items.
pub(crate) fn pipeline(transcript: &Transcript) -> Vec<Arc<Item>> {
    transcript.items().map(Arc::clone).collect()
}

/// Shorten tool outputs, summarise older turns, drop the middle: as much of it as brings the
/// view to `max_tokens`. Planned, checked, and the finished list of items.
pub(crate) fn three_level(transcript: &Transcript, max_tokens: u64) -> Vec<Arc<Item>> {
    let _ = max_tokens;
    transcript.items().map(Arc::clone).collect()
}

/// Tokens at which [`trigger_fires`] says yes.
const TRIGGER_TOKENS: u64 = 90_000;

/// Whether compaction is due. Asked after every push.
pub(crate) fn trigger_fires(transcript: &Transcript) -> bool {
    transcript.tokens().0 >= TRIGGER_TOKENS
}

/// The conversation as foldback's items.
pub(crate) fn items(conversation: &[Neutral]) -> Vec<Arc<Item>> {
    let named = conversation.iter().enumerate();
    named.map(|(index, neutral)| Arc::new(item(format!("item_{index}"), neutral))).collect()
}

fn item(id: String, neutral: &Neutral) -> Item {
    match neutral {
        Neutral::System(text) => Item::text(id, ItemKind::System, text.as_str()),
        Neutral::Context(text) => Item::text(id, ItemKind::Context, text.as_str()),
        Neutral::User(text) => Item::user(id, text.as_str()),
        Neutral::Assistant { reasoning, text, calls } => {
            let reasoning = reasoning.iter().map(|text| Part::reasoning(text.as_str()));
            let text = text.iter().map(|text| Part::text(text.as_str()));
            Item::assistant(id, reasoning.chain(text).chain(calls.iter().map(call)).collect())
        }
        Neutral::ToolResult { call_id, text, outcome, tool_name: _ } => {
            let result = match outcome {
                Outcome::Success => ToolResult::text(call_id.as_str(), text.as_str()),
                Outcome::Failure => ToolResult::error(call_id.as_str(), text.as_str()),
            };
            Item::tool(id, result)
        }
    }
}

fn call(call: &NeutralCall) -> Part {
    Part::ToolCall(ToolCall {
        id: call.id.as_str().into(),
        name: call.name.as_str().into(),
        input: ToolInput::Json(Json::from_value(&call.input)),
        signature: None,
    })
}

/// Whether calls and results in `items` pair up.
pub(crate) fn pairing(items: &[Arc<Item>]) -> Pairing {
    Pairing::of(items.iter().flat_map(|item| &item.parts).filter_map(|part| match part {
        Part::ToolCall(call) => Some(Half::Call(&call.id)),
        Part::ToolResult(result) => Some(Half::Result(&result.call_id)),
        Part::Text(_)
        | Part::Reasoning(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Structured(_)
        | Part::Opaque(_) => None,
    }))
}

/// What `items` cost by the transcript's own counter.
pub(crate) fn tokens(transcript: &Transcript, items: &[Arc<Item>]) -> u64 {
    items.iter().map(|item| transcript.meter().item(item).total.0).sum()
}
