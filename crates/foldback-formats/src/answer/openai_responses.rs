//! Answers of OpenAI Responses. Output items come complete in events of their own, so that the
//! pieces before them are only told, not kept.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldback_core::{FinishReason, Item, ItemKind, Part, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Answer, AnswerError, Delta, OnDelta, Refusal, answer_of, name_of, refusal};
use crate::dialect::openai_chat::opaque;
use crate::dialect::openai_responses::items::{ITEM_SOURCE, read_item};
use crate::recording::pieces::{ReportedUsage, if_understood};

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "if_understood")]
    model: Option<String>,
    #[serde(borrow, default)]
    status: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default, deserialize_with = "if_understood")]
    usage: Option<ReportedUsage>,
    #[serde(borrow, default)]
    incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

/// A stream, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Output items that are complete, by their place.
    output: BTreeMap<u64, Box<RawValue>>,
    /// Set by the last event.
    answer: Option<Answer>,
}

impl Reader {
    pub(super) fn push(&mut self, data: &str, on_delta: &mut OnDelta<'_>) -> Result<(), AnswerError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| AnswerError::of_json(&error))?;
        let delta = || event.delta.and_then(|delta| serde_json::from_str::<String>(delta.get()).ok());
        match &*event.kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                delta().iter().for_each(|text| on_delta(Delta::Text(text)));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                delta().iter().for_each(|text| on_delta(Delta::Reasoning(text)));
            }
            "response.output_item.added" => {
                if let Some(name) = event.item.and_then(called) {
                    on_delta(Delta::Call { name: &name });
                }
            }
            "response.output_item.done" => {
                let place = event.output_index.or_else(|| u64::try_from(self.output.len()).ok());
                if let (Some(place), Some(item)) = (place, event.item) {
                    self.output.insert(place, item.to_owned());
                }
            }
            "response.completed" | "response.incomplete" | "response.done" => {
                let response = event.response.ok_or_else(|| AnswerError::malformed("it has no response"))?;
                self.answer = Some(read_response(response.get(), &self.output)?);
            }
            "response.failed" | "error" => {
                let refusal = event.response.and_then(|response| refusal::in_answer(response.get()));
                return Err(AnswerError::Refused(refusal.unwrap_or_else(|| refusal::of_event(data))));
            }
            // Events of tools that the provider runs, and of what is still to come.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn is_complete(&self) -> bool {
        self.answer.is_some()
    }

    pub(super) fn finish(self) -> Result<Answer, AnswerError> {
        self.answer.ok_or_else(AnswerError::cut)
    }
}

/// The tool that an output item calls.
fn called(item: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(default)]
        name: Option<String>,
    }
    let named: Named<'_> = serde_json::from_str(item.get()).ok()?;
    named.name.filter(|_| named.kind.ends_with("_call"))
}

/// A whole answer.
pub(super) fn read(body: &str) -> Result<Answer, AnswerError> {
    read_response(body, &BTreeMap::new())
}

/// A response, and what came of its output before it.
fn read_response(body: &str, earlier: &BTreeMap<u64, Box<RawValue>>) -> Result<Answer, AnswerError> {
    let response: Response<'_> = serde_json::from_str(body).map_err(|error| AnswerError::of_json(&error))?;
    let status = response.status.as_deref().unwrap_or("completed");
    if status == "failed" {
        return Err(AnswerError::Refused(Refusal::Server { status: 500, retry_after: None }));
    }
    let output = response.output.ok_or_else(|| AnswerError::malformed("it has no output"))?;
    // Some servers do not repeat what they streamed.
    let output: Vec<&RawValue> =
        if output.is_empty() { earlier.values().map(|raw| &**raw).collect() } else { output };
    let mut parts = Vec::new();
    for raw in output {
        let item = read_item(raw, "output").map_err(|error| AnswerError::of_json(&error))?;
        match item.kind {
            // A result beside its call is the provider's own business.
            ItemKind::Tool => parts.push(Part::Opaque(opaque(&format!("{ITEM_SOURCE}output"), raw))),
            ItemKind::System
            | ItemKind::Developer
            | ItemKind::User
            | ItemKind::Assistant
            | ItemKind::Context
            | ItemKind::Notification => parts.extend(item.parts),
        }
    }
    let reason = response.incomplete_details.as_ref().and_then(|details| details.reason.as_deref());
    let finish = match (status, reason) {
        ("incomplete", Some("content_filter")) => FinishReason::ContentFilter,
        ("incomplete", _) => FinishReason::Length,
        ("cancelled", _) => FinishReason::Interrupted,
        _ if parts.iter().any(|part| matches!(part, Part::ToolCall(_))) => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    };
    let usage: Option<Usage> = response.usage.map(ReportedUsage::disjoint);
    let item = Item::assistant(name_of(response.id.as_deref()).as_str(), parts);
    Ok(answer_of(item, usage, Some(finish), response.model.as_deref()))
}
