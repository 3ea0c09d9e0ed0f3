//! Answers of Chat Completions. Servers of this protocol differ in small things: what they call the
//! thinking, whether calls have an index or an id, whether the stream has a last word.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldback_core::{FinishReason, Item, ItemKind, Part, ResultPart, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Answer, AnswerError, Delta, OnDelta, answer_of, name_of, refusal};
use crate::dialect::openai_chat::content::{array, object, quoted};
use crate::dialect::openai_chat::{read_content, read_message};
use crate::recording::pieces::{ReportedUsage, if_understood};

/// The data of the last event.
const DONE: &str = "[DONE]";

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "if_understood")]
    model: Option<String>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default, deserialize_with = "if_understood")]
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow, default)]
    delta: Option<Said<'a>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

/// A message, or what is new in one.
#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallSaid<'a>>>,
}

impl Said<'_> {
    /// The thinking, under either of its names: some servers give both, with the same text.
    fn thinking(&self) -> Option<&str> {
        let named = |text: &Option<Cow<'_, str>>| text.as_deref().is_some_and(|text| !text.is_empty());
        if named(&self.reasoning_content) {
            self.reasoning_content.as_deref()
        } else {
            self.reasoning.as_deref().filter(|text| !text.is_empty())
        }
    }
}

#[derive(Deserialize)]
struct CallSaid<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<FunctionSaid<'a>>,
}

#[derive(Deserialize)]
struct FunctionSaid<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// A call that is being written.
#[derive(Debug, Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// A stream, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    id: String,
    model: Option<String>,
    content: String,
    reasoning: String,
    refusal: String,
    calls: BTreeMap<u64, Call>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    has_finished: bool,
    is_done: bool,
}

impl Reader {
    pub(super) fn push(&mut self, data: &str, on_delta: &mut OnDelta<'_>) -> Result<(), AnswerError> {
        let data = data.trim();
        if data == DONE {
            self.is_done = true;
            return Ok(());
        }
        if let Some(refusal) = refusal::in_answer(data) {
            return Err(AnswerError::Refused(refusal));
        }
        let body: Body<'_> = serde_json::from_str(data).map_err(|error| AnswerError::of_json(&error))?;
        if let Some(id) = body.id.filter(|_| self.id.is_empty()) {
            self.id = id.into_owned();
        }
        self.model = self.model.take().or(body.model);
        self.usage = body.usage.map(ReportedUsage::disjoint).or(self.usage);
        for choice in body.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.take(&delta, on_delta);
            }
            if let Some(reason) = choice.finish_reason {
                self.finish = finish_reason(&reason);
                self.has_finished = true;
            }
        }
        Ok(())
    }

    fn take(&mut self, said: &Said<'_>, on_delta: &mut OnDelta<'_>) {
        if let Some(text) = said.thinking() {
            self.reasoning.push_str(text);
            on_delta(Delta::Reasoning(text));
        }
        for piece in said.content.map_or_else(Vec::new, read_content) {
            if let ResultPart::Text(text) = piece {
                self.content.push_str(&text);
                on_delta(Delta::Text(&text));
            }
        }
        if let Some(text) = said.refusal.as_deref().filter(|text| !text.is_empty()) {
            self.refusal.push_str(text);
            on_delta(Delta::Text(text));
        }
        for call in said.tool_calls.iter().flatten() {
            self.take_call(call, on_delta);
        }
    }

    fn take_call(&mut self, said: &CallSaid<'_>, on_delta: &mut OnDelta<'_>) {
        let newest = self.calls.last_key_value().map(|(index, call)| (*index, call.id.as_str()));
        let index = said.index.unwrap_or_else(|| match (newest, said.id.as_deref()) {
            // Without an index, an id that is new begins a call.
            (Some((index, id)), Some(new)) if !new.is_empty() && id != new => index.saturating_add(1),
            (Some((index, _)), _) => index,
            (None, _) => 0,
        });
        let call = self.calls.entry(index).or_default();
        if let Some(id) = said.id.as_deref().filter(|_| call.id.is_empty()) {
            call.id = id.to_owned();
        }
        let Some(function) = &said.function else { return };
        if let Some(name) = function.name.as_deref().filter(|name| !name.is_empty() && call.name.is_empty()) {
            call.name = name.to_owned();
            on_delta(Delta::Call { name });
        }
        if let Some(arguments) = function.arguments {
            let text = serde_json::from_str::<Option<String>>(arguments.get());
            // Some servers give the arguments as they are, not as text.
            call.arguments
                .push_str(&text.map_or_else(|_| arguments.get().to_owned(), Option::unwrap_or_default));
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_done
    }

    pub(super) fn finish(self) -> Result<Answer, AnswerError> {
        if !self.is_done && !self.has_finished {
            return Err(AnswerError::cut());
        }
        let name = name_of(Some(&self.id));
        let mut fields = vec![("role", quoted("assistant")), ("content", quoted(&self.content))];
        if !self.reasoning.is_empty() {
            fields.push(("reasoning_content", quoted(&self.reasoning)));
        }
        if !self.refusal.is_empty() {
            fields.push(("refusal", quoted(&self.refusal)));
        }
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(|(index, call)| call.to_json(&name, *index));
            fields.push(("tool_calls", array(&calls.collect::<Result<Vec<_>, _>>()?)));
        }
        let item = read(&object(&fields), &name)?;
        Ok(answer_of(item, self.usage, self.finish, self.model.as_deref()))
    }
}

impl Call {
    fn to_json(&self, answer: &str, index: u64) -> Result<String, AnswerError> {
        if self.name.is_empty() {
            return Err(AnswerError::malformed("a call has no name"));
        }
        // Results are tied to calls by id, so that one which the server left out must be given.
        let id = if self.id.is_empty() { format!("{answer}-call-{index}") } else { self.id.clone() };
        let arguments = if self.arguments.is_empty() { "{}" } else { &self.arguments };
        let function = object(&[("name", quoted(&self.name)), ("arguments", quoted(arguments))]);
        Ok(object(&[("id", quoted(&id)), ("type", quoted("function")), ("function", function)]))
    }
}

fn read(message: &str, name: &str) -> Result<Item, AnswerError> {
    let raw: &RawValue = serde_json::from_str(message).map_err(|error| AnswerError::of_json(&error))?;
    read_message(raw, name).map_err(|error| AnswerError::of_json(&error))
}

/// A whole answer.
pub(super) fn read_whole(body: &str) -> Result<Answer, AnswerError> {
    let body: Body<'_> = serde_json::from_str(body).map_err(|error| AnswerError::of_json(&error))?;
    let choice = body.choices.into_iter().flatten().find(|choice| choice.index == 0);
    let choice = choice.ok_or_else(|| AnswerError::malformed("it has no choices"))?;
    let message = choice.message.ok_or_else(|| AnswerError::malformed("its choice has no message"))?;
    let name = name_of(body.id.as_deref());
    let mut item = read(message.get(), &name)?;
    if item.kind != ItemKind::Assistant {
        return Err(AnswerError::malformed("its message is not the assistant's"));
    }
    item.id = name.as_str().into();
    let said: Option<Said<'_>> = serde_json::from_str(message.get()).ok();
    let has_reasoning = item.parts.iter().any(|part| matches!(part, Part::Reasoning(_)));
    if let Some(text) = said.as_ref().and_then(Said::thinking).filter(|_| !has_reasoning) {
        item.parts.insert(0, Part::reasoning(text));
    }
    let finish = choice.finish_reason.as_deref().and_then(finish_reason);
    Ok(answer_of(item, body.usage.map(ReportedUsage::disjoint), finish, body.model.as_deref()))
}

fn finish_reason(reason: &str) -> Option<FinishReason> {
    match reason {
        "stop" | "eos" | "end_turn" => Some(FinishReason::Stop),
        "tool_calls" | "function_call" => Some(FinishReason::ToolCalls),
        "length" => Some(FinishReason::Length),
        "content_filter" => Some(FinishReason::ContentFilter),
        "error" => Some(FinishReason::Error),
        _ => None,
    }
}
