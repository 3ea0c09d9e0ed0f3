//! Gemini messages as items: which kind a message is, and which call a response answers.

use std::collections::VecDeque;

use foldback_core::{CallId, Item, ItemKind, Json, Opaque, Part, Text, Tokens, ToolCall, ToolResult};
use serde_json::Value;

use super::part::{self, Piece};
use super::response::{self, Response};

use crate::attribution::attributed;
use crate::lowering::{Tag, found_summary};

/// How Gemini CLI begins a summary of what was before.
const SNAPSHOT_START: &str = "<state_snapshot>";
/// How it ends one.
const SNAPSHOT_END: &str = "</state_snapshot>";

/// Who writes summaries in this form.
pub(crate) const BY: &str = "gemini-cli";

/// Whose message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Model,
    System,
}

impl Role {
    pub(crate) fn named(name: Option<&str>) -> Self {
        match name {
            Some("model" | "assistant" | "gemini") => Self::Model,
            Some("system") => Self::System,
            Some(_) | None => Self::User,
        }
    }
}

/// Reads messages in order, and remembers which calls wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    open: VecDeque<OpenCall>,
}

/// Calls that wait for an answer at the same time. An answer to one that waited longer is tied to it
/// by its id only.
const OPEN_CALL_COUNT_MAX: usize = 1_000;

#[derive(Debug)]
struct OpenCall {
    id: CallId,
    name: Text,
    has_own_id: bool,
}

impl Messages {
    /// The items of one message: the results first where a message has results and text.
    pub(crate) fn items(&mut self, role: Role, id: &str, pieces: Vec<Piece>) -> Vec<Item> {
        match role {
            Role::Model => vec![self.answer(id, pieces)],
            Role::System => vec![Item::new(id, ItemKind::System, self.said(id, pieces).1)],
            Role::User => {
                let (results, said) = self.said(id, pieces);
                let said_id = if results.is_empty() { id.to_owned() } else { format!("{id}-said") };
                let tool = (!results.is_empty()).then(|| Item::new(id, ItemKind::Tool, results));
                let is_said = !said.is_empty() || tool.is_none();
                tool.into_iter().chain(is_said.then(|| user_item(&said_id, said))).collect()
            }
        }
    }

    fn answer(&mut self, id: &str, pieces: Vec<Piece>) -> Item {
        let mut parts = Vec::with_capacity(pieces.len());
        for (index, piece) in pieces.into_iter().enumerate() {
            match piece {
                Piece::Content(content) => parts.extend(content),
                Piece::Call { id: own_id, name, input, signature } => {
                    let has_own_id = own_id.is_some();
                    let id = own_id.unwrap_or_else(|| format!("{id}-{index}").into());
                    self.called(id.clone(), name.clone(), has_own_id);
                    parts.push(Part::ToolCall(ToolCall { id, name, input, signature }));
                }
                Piece::Response(Response { id, name, content, is_error }) => {
                    let written = response::write(id.as_deref().unwrap_or(""), &name, &content, is_error);
                    let entry = format!("{{\"functionResponse\":{written}}}");
                    parts.push(out_of_place("functionResponse", &entry));
                }
            }
        }
        Item::assistant(id, parts)
    }

    /// Notes a call that waits for its answer.
    pub(crate) fn called(&mut self, id: CallId, name: Text, has_own_id: bool) {
        if self.open.len() == OPEN_CALL_COUNT_MAX {
            self.open.pop_front();
        }
        self.open.push_back(OpenCall { id, name, has_own_id });
    }

    /// Results, and everything else.
    fn said(&mut self, id: &str, pieces: Vec<Piece>) -> (Vec<Part>, Vec<Part>) {
        let (mut results, mut said) = (Vec::new(), Vec::new());
        for (index, piece) in pieces.into_iter().enumerate() {
            match piece {
                Piece::Response(response) => {
                    results.push(Part::ToolResult(self.answered(response, &format!("{id}-{index}"))));
                }
                Piece::Call { id, name, input, signature } => {
                    let id = id.unwrap_or_else(|| "".into());
                    let call = Part::ToolCall(ToolCall { id, name, input, signature });
                    let entry = part::write(&call, None).json.unwrap_or_default();
                    said.push(out_of_place("functionCall", &entry));
                }
                // A person thinks aloud at most: thoughts with a user's role are text.
                Piece::Content(parts) => said.extend(parts.into_iter().filter_map(|part| match part {
                    Part::Reasoning(reasoning) if reasoning.text.is_empty() => None,
                    Part::Reasoning(reasoning) => Some(Part::Text(reasoning.text)),
                    other => Some(other),
                })),
            }
        }
        (results, said)
    }

    /// The result, tied to its call: by id, else to the first open call of that name.
    pub(crate) fn answered(&mut self, response: Response, place: &str) -> ToolResult {
        let Response { id, name, content, is_error } = response;
        let of_id = |call: &OpenCall| id.as_ref() == Some(&call.id);
        let of_name = |call: &OpenCall| call.name == name && (id.is_none() || !call.has_own_id);
        let found = self.open.iter().position(of_id).or_else(|| self.open.iter().position(of_name));
        let call_id = match found.and_then(|index| self.open.remove(index)) {
            Some(call) => call.id,
            None => id.unwrap_or_else(|| place.into()),
        };
        ToolResult { call_id, content, is_error }
    }
}

/// A call by the user or an answer by the model: kept as it is, and never paired.
fn out_of_place(kind: &str, entry: &str) -> Part {
    let json = Json::from_value(&Value::Null);
    let json = Json::parse(entry).unwrap_or(json);
    Part::Opaque(Opaque { source: format!("gemini/{kind}").into(), json })
}

/// What a person said, or what is sent with a person's authority and marked as what it is.
pub(crate) fn user_item(id: &str, parts: Vec<Part>) -> Item {
    let item = Item::new(id, ItemKind::User, parts);
    match mark_of(&item.parts) {
        Some(Mark::Snapshot) => found_summary(item, BY, 0, Tokens::ZERO),
        Some(Mark::Tagged(tag)) => {
            let untagged = item.parts.into_iter().filter_map(without_tag).collect();
            let item = Item { kind: tag.kind(), parts: untagged, ..Item::user(id, "") };
            if tag == Tag::Summary { found_summary(item, BY, 0, Tokens::ZERO) } else { item }
        }
        None => attributed(item),
    }
}

enum Mark {
    /// By the element in which Gemini CLI itself sums up.
    Snapshot,
    /// By a tag around every text.
    Tagged(Tag),
}

fn mark_of(parts: &[Part]) -> Option<Mark> {
    let mut texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        _ => None,
    });
    let first = texts.next()?;
    if is_snapshot(first) {
        return Some(Mark::Snapshot);
    }
    let (tag, _) = Tag::split(first)?;
    let is_same = |text: &str| Tag::split(text).is_some_and(|(other, _)| other == tag);
    texts.all(is_same).then_some(Mark::Tagged(tag))
}

/// Whether a text is a summary by the way it begins or ends.
fn is_snapshot(text: &str) -> bool {
    let text = text.trim_ascii();
    text.starts_with(SNAPSHOT_START) || text.ends_with(SNAPSHOT_END)
}

/// A tag around nothing marks a message without text.
fn without_tag(part: Part) -> Option<Part> {
    let Part::Text(text) = &part else { return Some(part) };
    match Tag::split(text) {
        Some((_, "")) => None,
        Some((_, inside)) => Some(Part::text(inside)),
        None => Some(part),
    }
}

/// The entries of `parts` for an item with a user's authority, and what they cannot hold.
pub(crate) fn write_user_parts(item: &Item) -> (Vec<String>, Vec<String>) {
    let tag = Tag::of(item);
    let marks_itself = |text: &Text| tag == Some(Tag::Summary) && is_snapshot(text);
    let first_text = item.parts.iter().find_map(|part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    let tag = tag.filter(|_| !first_text.is_some_and(marks_itself));
    let (mut entries, mut lost) = (Vec::new(), Vec::new());
    if let (Some(tag), None) = (tag, first_text) {
        entries.extend(part::write(&Part::text(tag.around("")), None).json);
    }
    for part in &item.parts {
        let text = match (part, tag) {
            (Part::Text(text), Some(tag)) => Some(tag.around(text)),
            _ => None,
        };
        let written = part::write(part, text);
        entries.extend(written.json);
        lost.extend(written.lost.or_else(|| is_only_said(item, part)));
    }
    (entries, lost)
}

/// What only the model says is read as text where a person says it.
fn is_only_said(item: &Item, part: &Part) -> Option<String> {
    match part {
        Part::Reasoning(_) | Part::ToolCall(_) if item.kind != ItemKind::Assistant => {
            Some(format!("that its {} part is one", part.kind_name()))
        }
        _ => None,
    }
}
