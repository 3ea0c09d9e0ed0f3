//! Items as events of Copilot CLI.

use std::borrow::Cow;

use foldback_core::{
    Blob, Item, ItemKind, Json, Media, Part, Reasoning, ResultPart, Text, ToolCall, ToolInput, ToolResult,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::BY;
use super::event::PutIn;
use crate::conversation::{Extension, Sent};
use crate::format::{Committed, Loss, SessionFile};
use crate::jsonl;
use crate::lowering::Tag;
use crate::new_ids::NewIds;
use crate::rfc3339;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    data: T,
    id: &'a str,
    timestamp: &'a str,
    parent_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AssistantData<'a> {
    message_id: &'a str,
    content: &'a str,
    tool_requests: Vec<Request<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_opaque: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted_content: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    tool_call_id: &'a str,
    name: &'a str,
    arguments: Json,
    #[serde(rename = "type")]
    kind: &'static str,
}

/// What stands for a summary where there is none.
const NO_SUMMARY: &str = "Older content was shortened or left out.";

/// The text of an item that a compaction event itself can carry.
pub(super) fn summary_text(item: &Item) -> Option<&Text> {
    match &item.parts[..] {
        [Part::Text(text)] if item.summary.is_some() && !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Writes events one after another, each with the one before as its parent.
struct Events {
    lines: Vec<String>,
    ids: NewIds,
    parent: Option<String>,
    timestamp: String,
    losses: Vec<Loss>,
}

impl Events {
    fn push(&mut self, kind: &str, data: impl Serialize) -> String {
        let id = self.ids.uuid();
        self.push_as(&id, kind, data);
        id
    }

    fn push_as(&mut self, id: &str, kind: &str, data: impl Serialize) {
        let parent_id = self.parent.as_deref();
        let event = Event { kind, data, id, timestamp: &self.timestamp, parent_id };
        let json = serde_json::to_string(&event).expect("an event has string keys and finite numbers");
        // Line breaks in JSON stand between its tokens only.
        self.lines.push(json.replace(['\n', '\r'], " "));
        self.parent = Some(id.to_owned());
    }

    fn lose(&mut self, item: &Item, what: String) {
        self.losses.push(Loss { item_id: item.id.clone(), what });
    }

    /// The events of an item.
    fn item(&mut self, item: &Item) {
        match item.kind {
            ItemKind::System => self.lose(item, "a system prompt: the agent has its own".to_owned()),
            ItemKind::Developer => {
                for text in item.parts.iter().filter_map(text_of) {
                    self.push("system.message", json!({ "role": "developer", "content": text }));
                }
                self.lose_unless(item, |part| text_of(part).is_some());
            }
            ItemKind::User | ItemKind::Context | ItemKind::Notification => self.user(item),
            ItemKind::Assistant => self.assistant(item),
            ItemKind::Tool => {
                for (_, result) in item.results() {
                    self.push("tool.execution_complete", result_data(result));
                }
            }
        }
    }

    fn lose_unless(&mut self, item: &Item, is_written: impl Fn(&Part) -> bool) {
        for part in item.parts.iter().filter(|part| !is_written(part)) {
            self.lose(item, format!("a {} part", part.kind_name()));
        }
    }

    /// A message has one text, which comes first: further texts are messages of their own.
    fn user(&mut self, item: &Item) {
        let tag = Tag::of(item);
        let is_text = |part: &Part| text_of(part).is_some();
        let mut rest = &item.parts[..];
        while !rest.is_empty() {
            let (text, after) = match rest.split_first() {
                Some((part, after)) if is_text(part) => (text_of(part).unwrap_or(""), after),
                _ => ("", rest),
            };
            let attached_count = after.iter().take_while(|part| !is_text(part)).count();
            let (attached, after) = after.split_at(attached_count);
            rest = after;
            let content = tag.map_or_else(|| text.to_owned(), |tag| tag.around(text));
            let attachments: Vec<Json> = attached.iter().filter_map(attachment).collect();
            if attachments.len() < attached.len() {
                self.lose(item, "an attachment that only another format knows".to_owned());
            }
            #[derive(Serialize)]
            struct UserData {
                content: String,
                attachments: Vec<Json>,
            }
            self.push("user.message", UserData { content, attachments });
        }
    }

    /// A message has its reasoning, then its text, then its calls: an answer in another order is
    /// several messages.
    fn assistant(&mut self, item: &Item) {
        let mut rest = &item.parts[..];
        while !rest.is_empty() {
            let (mut reasoning, mut text): (Option<&Reasoning>, Option<&str>) = (None, None);
            let mut calls: Vec<&ToolCall> = Vec::new();
            let mut taken = 0;
            for part in rest {
                match part {
                    Part::Reasoning(own) if reasoning.is_none() && text.is_none() && calls.is_empty() => {
                        reasoning = Some(own);
                    }
                    Part::ToolCall(call) => calls.push(call),
                    Part::Media(_) | Part::File(_) | Part::Opaque(_) | Part::ToolResult(_) => {
                        self.lose(item, format!("a {} part of an answer", part.kind_name()));
                    }
                    other if text.is_none() && calls.is_empty() && text_of(other).is_some() => {
                        text = text_of(other);
                    }
                    _ => break,
                }
                taken += 1;
            }
            rest = &rest[taken..];
            self.answer(reasoning, text, &calls);
        }
    }

    fn answer(&mut self, reasoning: Option<&Reasoning>, text: Option<&str>, calls: &[&ToolCall]) {
        let request = |call: &&ToolCall| {
            let (arguments, kind) = match &call.input {
                ToolInput::Json(json) => (json.clone(), "function"),
                ToolInput::Text(text) => (Json::from_value(&Value::from(&**text)), "custom"),
            };
            (call.id.to_string(), call.name.to_string(), arguments, kind)
        };
        let requests: Vec<_> = calls.iter().map(request).collect();
        let id = self.ids.uuid();
        let data = AssistantData {
            message_id: &id,
            content: text.unwrap_or(""),
            tool_requests: requests
                .iter()
                .map(|(id, name, arguments, kind)| Request {
                    tool_call_id: id,
                    name,
                    arguments: arguments.clone(),
                    kind,
                })
                .collect(),
            reasoning_text: reasoning.map(|reasoning| &*reasoning.text),
            reasoning_opaque: reasoning.and_then(|reasoning| reasoning.signature.as_deref()),
            encrypted_content: reasoning.and_then(|reasoning| reasoning.encrypted.as_deref()),
        };
        self.push("assistant.message", data);
    }
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        Part::Structured(json) => Some(json.as_str()),
        Part::Reasoning(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Opaque(_) => None,
    }
}

fn attachment(part: &Part) -> Option<Json> {
    match part {
        Part::Media(Media { media_type, data: Blob::Base64(data), .. }) => {
            let blob = json!({ "type": "blob", "data": &**data, "mimeType": &**media_type });
            Some(Json::from_value(&blob))
        }
        Part::Opaque(opaque) if opaque.source.starts_with(BY) => Some(opaque.json.clone()),
        _ => None,
    }
}

/// An answer in the agent's own fields, and as it is where they cannot hold it.
fn result_data(result: &ToolResult) -> impl Serialize {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        tool_call_id: String,
        success: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Content>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Value>,
    }
    #[derive(Serialize)]
    struct Content {
        content: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        contents: Vec<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        foldback: Option<Vec<ResultPart>>,
    }
    let texts: Vec<&str> = result.content.iter().filter_map(ResultPart::as_text).collect();
    let image = |part: &ResultPart| match part {
        ResultPart::Media(Media { media_type, data: Blob::Base64(data), pixels: None }) => {
            Some(json!({ "type": "image", "data": &**data, "mimeType": &**media_type }))
        }
        _ => None,
    };
    let contents: Vec<Value> = result.content.iter().filter_map(image).collect();
    let is_plain = matches!(result.content.first(), Some(ResultPart::Text(_)))
        && contents.len() + 1 == result.content.len();
    let is_empty = result.content.is_empty();
    let is_failure = result.is_error && is_plain && contents.is_empty();
    let content = Content {
        content: texts.join("\n"),
        contents,
        foldback: (!is_plain).then(|| result.content.clone()),
    };
    Data {
        tool_call_id: result.call_id.to_string(),
        success: !result.is_error,
        error: is_failure.then(|| json!({ "message": content.content })),
        result: (!is_failure && !is_empty).then_some(content),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CompletedOut<'a> {
    success: bool,
    foldback: PutIn,
    summary_content: &'a str,
}

/// Events that a compaction adds before the one that completes it.
const EVENTS_BEFORE: usize = 2;

/// The session with a compaction added; `None` where an item cannot be written.
pub(super) fn compaction(session: &SessionFile, committed: &Committed<'_>) -> Option<Vec<u8>> {
    let (conversation, items) = (committed.conversation, &committed.sent[..]);
    let recorded = || conversation.recorded().iter();
    let last = recorded().filter_map(|recorded| recorded.item.created_at).max();
    let mut events = Events {
        lines: Vec::new(),
        ids: session.new_ids(),
        parent: last_id(session.bytes()),
        timestamp: rfc3339::print(last.unwrap_or(foldback_core::Timestamp(0))),
        losses: Vec::new(),
    };
    let visible = conversation.visible().iter().filter_map(|&seen| conversation.item(seen));
    let shown = visible.filter(|item| item.kind.is_instruction());
    let instruction_count = items.iter().take_while(|item| item.kind.is_instruction()).count();
    let (instructions, rest) = items.split_at(instruction_count);
    let keeps_instructions = instructions.iter().map(|item| &item.parts).eq(shown.map(|item| &item.parts));
    let rest = if keeps_instructions { rest } else { items };
    let summary = rest.first().and_then(|item| summary_text(item));
    let copied = if summary.is_some() { &rest[1..] } else { rest };
    let cleared = json!({ "messagesCleared": conversation.visible().len(), "foldback": {} });
    events.push("session.context_cleared", cleared);
    events.push("session.compaction_start", json!({}));
    let id = events.ids.uuid();
    let start = events.parent.replace(id.clone());
    let mut copies = Vec::new();
    for item in copied {
        let first = events.lines.len();
        events.item(item);
        let ids = events.lines[first..].iter().filter_map(|line| id_of(line));
        copies.extend(ids.map(|id| (id, item.position)));
    }
    if !events.losses.is_empty() {
        return None;
    }
    let lines = std::mem::take(&mut events.lines);
    let made = Extension::new(&committed.note, copies);
    let (before, copies) = lines.split_at_checked(EVENTS_BEFORE)?;
    let put_in = PutIn { made, keeps_instructions, has_no_summary: summary.is_none() };
    let summary = summary.map_or(NO_SUMMARY, |summary| summary);
    let data = CompletedOut { success: true, foldback: put_in, summary_content: summary };
    events.parent = start;
    events.push_as(&id, "session.compaction_complete", data);
    let complete = events.lines.pop()?;
    let added = before.iter().cloned().chain([complete]).chain(copies.iter().cloned());
    Some(jsonl::added(session.bytes(), added))
}

fn id_of(line: &str) -> Option<Text> {
    #[derive(serde::Deserialize)]
    struct Id {
        id: Text,
    }
    serde_json::from_str::<Id>(line).ok().map(|event| event.id)
}

/// The id of the last event of a file.
fn last_id(bytes: &[u8]) -> Option<String> {
    let lines: Vec<&[u8]> = jsonl::lines(bytes).collect();
    let ids = lines.into_iter().rev().filter_map(|line| id_of(std::str::from_utf8(line).ok()?));
    ids.map(|id| id.to_string()).next()
}

/// A fresh file, of the same session where there is one.
pub(super) fn file(items: &[Sent], like: Option<&SessionFile>) -> (Vec<u8>, Vec<Loss>) {
    let names: Vec<&str> = items.iter().map(|item| &*item.id).collect();
    let mut events = Events {
        lines: Vec::new(),
        ids: NewIds::for_file(names.join("\n").as_bytes()),
        parent: None,
        timestamp: String::new(),
        losses: Vec::new(),
    };
    let first = items.iter().find_map(|item| item.created_at).unwrap_or(foldback_core::Timestamp(0));
    events.timestamp = rfc3339::print(first);
    match like.and_then(|like| start_of(like.bytes())) {
        Some((start, id)) => {
            events.lines.push(start.to_owned());
            events.parent = Some(id.to_string());
        }
        None => {
            let start = json!({
                "sessionId": events.ids.uuid(), "version": 1, "producer": "foldback",
                "copilotVersion": NO_VERSION, "startTime": events.timestamp,
            });
            events.push("session.start", start);
        }
    }
    for item in items {
        events.timestamp = item.created_at.map_or(events.timestamp, rfc3339::print);
        events.item(item);
    }
    (jsonl::added(b"", events.lines), events.losses)
}

/// The version of an agent that has not written anything yet: it refuses a file that names none.
const NO_VERSION: &str = "0.0.0";

/// Lines in which the start of a session is looked for.
const START_LINES_MAX: usize = 10;

/// The event that starts a session, and its id.
fn start_of(bytes: &[u8]) -> Option<(&str, Text)> {
    #[derive(serde::Deserialize)]
    struct Start<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        id: Text,
    }
    jsonl::lines(bytes).take(START_LINES_MAX).find_map(|line| {
        let (text, start) = jsonl::parse::<Start<'_>>(line, 1).ok().flatten()?;
        (start.kind == "session.start").then_some((text, start.id))
    })
}
