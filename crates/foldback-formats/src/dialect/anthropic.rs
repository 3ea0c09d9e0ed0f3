//! Requests of the Anthropic Messages API: a body with `messages`, or the bare list of messages.
//!
//! A user message that answers tool calls is a tool item, followed by items for what else it says.
//! Written again, neighbouring items of one role are one message, with the results first; context
//! and notifications are text in a tag, and instructions stand in `system`.

pub(crate) mod blocks;
mod write;

use foldback_core::{Dialect, Item, ItemKind, Json, Part};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::attribution::attributed;
use crate::conversation::{Conversation, FilePlace, Sent};
use crate::detect::{Fit, Probe};
use crate::document::Document;
use crate::error::FormatError;
use crate::format::{Codec, Format, Loss, Reading, SessionFile};
use crate::lowering::{self, Tag};
use crate::recording::cline::is_marked as is_of_cline;
use blocks::{Content, Str};
use foldback_core::{Text, Tokens};

pub(crate) struct Anthropic;

/// Where an item keeps a `cache_control` that says more than that there is one.
pub(crate) const CACHE_CONTROL: &str = "cache_control";

/// The plainest `cache_control`.
const CACHE_CONTROL_PLAIN: &str = r#"{"type":"ephemeral"}"#;

/// The pieces of a request body that hold the conversation.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Str<'a>>,
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: &'a RawValue,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Str<'a>,
    #[serde(borrow)]
    content: &'a RawValue,
}

impl Codec for Anthropic {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let has = |name: &str| probe.field(name).is_some();
        match &probe.document {
            // Task files of Cline are such lists, too, and show it in what Cline adds for the model.
            Some(crate::detect::Top::Array(messages)) if messages.iter().any(is_of_cline) => Fit::No,
            Some(crate::detect::Top::Array(messages)) => fit_of_messages(messages),
            // Session files of agents wrap messages of the same form in fields of their own.
            Some(crate::detect::Top::Object(_)) if OTHERS.iter().any(|name| has(name)) => Fit::No,
            Some(crate::detect::Top::Object(_)) if has("messages") => {
                let fit = fit_of_messages(&probe.elements_of("messages"));
                let is_own = has("anthropic_version") || has("anthropic_beta") || has("system");
                if is_own && fit == Fit::Possible { Fit::Sure } else { fit }
            }
            Some(crate::detect::Top::Object(_)) | None => Fit::No,
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::Anthropic)?;
        let body = body_of(&document, bytes)?;
        let mut reader = Reader::new(document.clone(), bytes);
        if let Some(system) = body.system {
            reader.push_system(system)?;
        }
        let messages: Vec<&RawValue> = document.parse_piece(body.messages)?;
        for message in &messages {
            reader.push_message(message);
        }
        let Reader { conversation, problems, .. } = reader;
        match (conversation.is_empty(), problems.first()) {
            (true, Some(problem)) => {
                Err(FormatError::Broken { format: Format::Anthropic, problem: problem.clone() })
            }
            _ => Ok(Reading {
                conversations: vec![conversation],
                problems,
                dialect: Some(Dialect::Anthropic),
                model: body.model.map(Text::from),
                ..Reading::default()
            }),
        }
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some(write::write(items, like))
    }

    fn arrange(&self, items: Vec<Sent>) -> Vec<Sent> {
        write::arrange(items)
    }
}

/// Fields of files that hold messages of this form without being a request.
const OTHERS: [&str; 12] = [
    "version",
    "updated_at",
    "sessionId",
    "system_prompt",
    "nodes",
    "info",
    "input",
    "contents",
    "trajectory",
    "history",
    "steps",
    "kwargs",
];

fn fit_of_messages(messages: &[Value]) -> Fit {
    let is_message = |message: &Value| {
        matches!(message["role"].as_str(), Some("user" | "assistant" | "system"))
            && (message["content"].is_string()
                || message["content"].as_array().is_some_and(|blocks| is_blocks(blocks)))
            && OTHER_MESSAGE_FIELDS.iter().all(|name| message.get(name).is_none())
    };
    if messages.is_empty() || !messages.iter().all(is_message) {
        return Fit::No;
    }
    // Instructions may follow something said here; in other APIs they may come first, too.
    let has_instructions = messages.iter().any(|message| message["role"] == "system");
    let begins_with_them = messages.first().is_some_and(|message| message["role"] == "system");
    let mut blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    match blocks.any(|block| OWN_BLOCKS.iter().any(|kind| block["type"] == *kind)) {
        _ if begins_with_them => Fit::No,
        true => Fit::Sure,
        false if has_instructions => Fit::No,
        false => Fit::Possible,
    }
}

fn is_blocks(blocks: &[Value]) -> bool {
    blocks.iter().all(|block| block["type"].as_str().is_some_and(|kind| !OTHER_BLOCKS.contains(&kind)))
}

/// Fields of messages in other formats.
const OTHER_MESSAGE_FIELDS: [&str; 9] = [
    "tool_calls",
    "tool_call_id",
    "function_call",
    "reasoning_content",
    "ts",
    "timestamp",
    "action",
    "agent",
    "message_type",
];

/// Blocks that only this format has.
const OWN_BLOCKS: [&str; 7] =
    ["tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "server_tool_use"];

/// Blocks that this format does not have.
const OTHER_BLOCKS: [&str; 10] = [
    "image_url",
    "input_audio",
    "input_text",
    "output_text",
    "input_image",
    "file",
    "refusal",
    "toolCall",
    "tool-call",
    "reasoning",
];

fn body_of<'a>(document: &Document<'a>, bytes: &'a [u8]) -> Result<Body<'a>, FormatError> {
    let start = bytes.trim_ascii_start();
    let start = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start).trim_ascii_start();
    if start.starts_with(b"[") {
        let messages: &RawValue = document.parse()?;
        return Ok(Body { model: None, system: None, messages });
    }
    document.parse()
}

/// Puts messages into a conversation.
struct Reader<'a> {
    document: Document<'a>,
    bytes: &'a [u8],
    /// Where the last piece began, and on which line: counting on from there keeps a long file
    /// from being counted again for each message.
    counted: (usize, usize),
    conversation: Conversation,
    problems: Vec<crate::error::Problem>,
    message_count: usize,
}

impl<'a> Reader<'a> {
    fn new(document: Document<'a>, bytes: &'a [u8]) -> Self {
        Self {
            document,
            bytes,
            counted: (0, 1),
            conversation: Conversation::new(),
            problems: Vec::new(),
            message_count: 0,
        }
    }

    fn place_of(&mut self, piece: &RawValue) -> FilePlace {
        let start = self.document.range_of(piece).start;
        let (from, line) = if start >= self.counted.0 { self.counted } else { (0, 1) };
        let between = self.bytes.get(from..start).unwrap_or(&[]);
        self.counted = (start, line + memchr::memchr_iter(b'\n', between).count());
        FilePlace::line(self.counted.1)
    }

    fn push_system(&mut self, system: &'a RawValue) -> Result<(), FormatError> {
        let place = self.place_of(system);
        // Parsed as a piece once more where it fails, so that the fault has its place.
        let Ok(content) = blocks::read_blocks(system) else {
            return self.document.parse_piece::<Vec<&RawValue>>(system).map(drop);
        };
        if !content.parts.is_empty() {
            self.push("system", ItemKind::System, content, place);
        }
        Ok(())
    }

    fn push_message(&mut self, message: &'a RawValue) {
        let place = self.place_of(message);
        let id = format!("m{}", self.message_count);
        self.message_count += 1;
        let read: Message<'a> = match self.document.read_piece(message) {
            Ok(read) => read,
            Err(problem) => return self.problems.push(problem),
        };
        let content = match blocks::read_blocks(read.content) {
            Ok(content) => content,
            Err(_) => {
                let fault = self.document.read_piece::<Vec<&RawValue>>(read.content).err();
                return self.problems.extend(fault);
            }
        };
        match &*read.role {
            "assistant" => self.push_said(&id, ItemKind::Assistant, content, place),
            "system" => self.push(&id, ItemKind::System, content, place),
            "user" => self.push_said(&id, ItemKind::User, content, place),
            other => {
                let reason = format!("unknown role `{other}`");
                let fault = crate::error::Fault::NotUnderstood { reason };
                self.problems.push(crate::error::Problem { line: place.line, column: None, fault });
            }
        }
    }

    /// A message of the user or the assistant: its results first, then the rest.
    fn push_said(&mut self, id: &str, kind: ItemKind, mut content: Content, place: FilePlace) {
        let cache_control = content.cache_control.take();
        let (results, others): (Vec<Part>, Vec<Part>) =
            content.parts.into_iter().partition(|part| matches!(part, Part::ToolResult(_)));
        let mut items: Vec<Item> = Vec::new();
        if !results.is_empty() {
            items.push(Item::new(id, ItemKind::Tool, results));
        }
        match kind {
            ItemKind::User => items.extend(split_by_tag(id, others).into_iter().map(attributed)),
            _ if others.is_empty() => {}
            _ => items.push(Item::new(id, kind, others)),
        }
        for (index, item) in items.iter_mut().enumerate().skip(1) {
            item.id = format!("{id}-{index}").into();
        }
        if let Some(last) = items.last_mut() {
            mark_cached(last, cache_control.as_ref());
        }
        for item in items {
            self.conversation.push(item, place);
        }
    }

    fn push(&mut self, id: &str, kind: ItemKind, content: Content, place: FilePlace) {
        let mut item = Item::new(id, kind, content.parts);
        mark_cached(&mut item, content.cache_control.as_ref());
        self.conversation.push(item, place);
    }
}

fn mark_cached(item: &mut Item, cache_control: Option<&Json>) {
    let Some(cache_control) = cache_control else { return };
    item.cache_marker = true;
    if cache_control.as_str() != CACHE_CONTROL_PLAIN
        && let Some(value) = cache_control.value()
    {
        item.metadata.insert(CACHE_CONTROL.to_owned(), value);
    }
}

/// What a user message says, without results: tagged texts are items of their own.
fn split_by_tag(id: &str, parts: Vec<Part>) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut is_open = false;
    for part in parts {
        let tagged = match &part {
            Part::Text(text) => Tag::split(text),
            _ => None,
        };
        if let Some((tag, text)) = tagged {
            let item = Item::text(id, tag.kind(), text);
            items.push(match tag {
                Tag::Summary => lowering::found_summary(item, "anthropic", 0, Tokens::ZERO),
                Tag::Context | Tag::Notification => item,
            });
            is_open = false;
            continue;
        }
        match items.last_mut().filter(|_| is_open) {
            Some(item) => item.parts.push(part),
            None => items.push(Item::new(id, ItemKind::User, vec![part])),
        }
        is_open = true;
    }
    items
}

#[cfg(test)]
mod tests;
