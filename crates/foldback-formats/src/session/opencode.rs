//! Exports of opencode: one JSON document with messages and their parts.
//!
//! An assistant message can hold several steps, and a tool part is call and result in one. Read as
//! items, each step is what the model said and called, then the results, so that calls and results
//! stand as they were sent.
//!
//! A compaction is a user message with a part that says so, and an assistant message with the
//! summary. opencode shows these two first, then the tail that the part names, then what follows.
//! What foldback has to note stands in the metadata of a text part that opencode does not send.

mod part;
mod source;
mod write;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use foldback_core::{
    Dialect, FinishReason, Item, ItemId, ItemKind, Part, ResultPart, Text, Timestamp, Tokens, ToolResult,
    Usage,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::part::{Said, of_assistant, of_user};
use crate::attribution::attributed;
use crate::conversation::{Cleared, Conversation, Extension, FilePlace, Made, Seen, Sent, Shown};
use crate::detect::{Fit, Probe};
use crate::document::Document;
use crate::error::FormatError;
use crate::format::{Added, Codec, Committed, Format, Loss, Reading, SessionFile};
use crate::lowering::found_summary;

pub(crate) struct Opencode;

/// How the title of a session begins that has none yet.
const UNTITLED: &str = "New session - ";

#[derive(Deserialize)]
struct Export<'a> {
    #[serde(borrow, default)]
    info: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: &'a RawValue,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    info: Info<'a>,
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Info<'a> {
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "parentID")]
    parent_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "providerID")]
    provider_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "modelID")]
    model_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    /// Of a user message an object, of an assistant message whether it is a summary.
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Time {
    created: Option<i64>,
    completed: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TokenRecord {
    total: Option<u64>,
    input: u64,
    output: u64,
    reasoning: u64,
    cache: CacheRecord,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CacheRecord {
    read: u64,
    write: u64,
}

/// A value of a field that may be of any type, where it is of this one.
fn lenient<'a, T: Deserialize<'a>>(piece: Option<&'a RawValue>) -> Option<T> {
    piece.and_then(|piece| serde_json::from_str(piece.get()).ok())
}

impl Info<'_> {
    fn is_summary(&self) -> bool {
        self.role == "assistant" && lenient::<bool>(self.summary) == Some(true)
    }

    /// A summary that failed or is being written changes nothing.
    fn is_complete(&self) -> bool {
        let time: Time = lenient(self.time).unwrap_or_default();
        self.error.is_none() && (self.finish.is_some() || time.completed.is_some())
    }

    fn usage(&self) -> Option<Usage> {
        let tokens: TokenRecord = lenient(self.tokens)?;
        let cache = tokens.cache.read.saturating_add(tokens.cache.write);
        let without_reasoning = tokens.input.saturating_add(tokens.output).saturating_add(cache);
        let is_reasoning_apart = tokens.total != Some(without_reasoning);
        let reasoning_apart = if is_reasoning_apart { tokens.reasoning } else { 0 };
        let usage = Usage {
            input_tokens: Tokens(tokens.input),
            cached_tokens: Tokens(tokens.cache.read),
            cache_write_tokens: Tokens(tokens.cache.write),
            output_tokens: Tokens(tokens.output.saturating_add(reasoning_apart)),
            reasoning_tokens: Tokens(tokens.reasoning),
        };
        (usage != Usage::default()).then_some(usage)
    }

    fn finish_reason(&self) -> Option<FinishReason> {
        let error: Option<Value> = lenient(self.error);
        match (error, self.finish.as_deref()) {
            (Some(error), _) if error["name"] == "MessageAbortedError" => Some(FinishReason::Interrupted),
            (Some(_), _) | (None, Some("error")) => Some(FinishReason::Error),
            (None, Some("stop")) => Some(FinishReason::Stop),
            (None, Some("tool-calls")) => Some(FinishReason::ToolCalls),
            (None, Some("length")) => Some(FinishReason::Length),
            (None, Some("content-filter")) => Some(FinishReason::ContentFilter),
            (None, _) => None,
        }
    }
}

/// The items of a message, and where outputs were pruned, when.
#[derive(Default)]
struct Items {
    items: Vec<Item>,
    cleared: Vec<(ItemId, i64)>,
}

impl Items {
    fn of(message: &Message<'_>) -> Self {
        let mut read = Self::default();
        match &*message.info.role {
            "assistant" => read.assistant(message),
            _ => read.user(message),
        }
        let time: Time = lenient(message.info.time).unwrap_or_default();
        read.items.iter_mut().for_each(|item| item.created_at = time.created.map(Timestamp));
        if let Some(first) = read.items.first_mut() {
            first.id = (&*message.info.id).into();
        }
        read
    }

    /// Neighbouring parts of one kind are one item.
    fn user(&mut self, message: &Message<'_>) {
        for piece in &message.parts {
            let Some(mut item) = of_user(piece) else { continue };
            match self.items.last_mut() {
                Some(last) if last.kind == item.kind && last.summary.is_none() && item.summary.is_none() => {
                    last.parts.append(&mut item.parts);
                }
                _ => {
                    item.id = part_id(piece);
                    self.items.push(item);
                }
            }
        }
        self.items = self.items.drain(..).map(attributed).collect();
    }

    /// What each step says and calls, then what came of the calls.
    fn assistant(&mut self, message: &Message<'_>) {
        let mut step: Vec<Part> = Vec::new();
        let mut step_id: Option<ItemId> = None;
        let mut results: Vec<Item> = Vec::new();
        for piece in &message.parts {
            match of_assistant(piece) {
                Said::Nothing => {}
                Said::StepStart => self.step(&mut step, &mut step_id, &mut results),
                Said::Part(part) => {
                    step_id.get_or_insert_with(|| part_id(piece));
                    step.push(part);
                }
                Said::Called(called) => {
                    let id = part_id(piece);
                    let result_id = ItemId::from(format!("{id}/result"));
                    step_id.get_or_insert(id);
                    step.push(Part::ToolCall(called.call));
                    self.cleared.extend(called.cleared_at.map(|at| (result_id.clone(), at)));
                    results.extend(called.result.map(|result| Item::tool(result_id, result)));
                }
            }
        }
        self.step(&mut step, &mut step_id, &mut results);
        if let Some(last) = self.items.iter_mut().rfind(|item| item.kind == ItemKind::Assistant) {
            last.usage = message.info.usage();
            last.finish_reason = message.info.finish_reason();
        }
    }

    fn step(&mut self, step: &mut Vec<Part>, step_id: &mut Option<ItemId>, results: &mut Vec<Item>) {
        if let Some(id) = step_id.take() {
            self.items.push(Item::assistant(id, std::mem::take(step)));
        }
        self.items.append(results);
    }
}

fn part_id(piece: &RawValue) -> ItemId {
    part::record(piece).map_or_else(|| "".into(), |part| (&*part.id).into())
}

/// A compaction that was asked for.
struct Marker {
    message_id: String,
    tail_start_id: Option<String>,
    foldback: Option<Extension>,
    /// How many messages were placed before it.
    placed_count: usize,
}

impl Marker {
    fn of(message: &Message<'_>, placed_count: usize) -> Option<Self> {
        if message.info.role != "user" {
            return None;
        }
        #[derive(Deserialize)]
        struct Metadata {
            foldback: Extension,
        }
        let parts: Vec<part::PartRecord<'_>> =
            message.parts.iter().filter_map(|piece| part::record(piece)).collect();
        let marker = parts.iter().find(|part| part.kind == "compaction")?;
        let metadata = parts.iter().find_map(|part| lenient::<Metadata>(part.metadata));
        Some(Self {
            message_id: message.info.id.to_string(),
            tail_start_id: marker.tail_start_id.as_deref().map(str::to_owned),
            foldback: metadata.map(|metadata| metadata.foldback),
            placed_count,
        })
    }
}

/// Reads the messages one by one.
#[derive(Default)]
struct Reader {
    conversation: Conversation,
    /// Which items each message became, in order.
    placed: Vec<(String, Vec<Seen>)>,
    marker: Option<Marker>,
    cleared: HashMap<ItemId, i64>,
    cleared_line: Option<usize>,
}

impl Reader {
    fn message(&mut self, message: &Message<'_>, line: usize) {
        let read = Items::of(message);
        if !read.cleared.is_empty() {
            self.cleared_line.get_or_insert(line);
        }
        self.cleared.extend(read.cleared);
        let place = FilePlace::line(line);
        let seen = read.items.into_iter().map(|item| Seen::Item(self.conversation.push(item, place)));
        let seen = seen.collect();
        self.placed.push((message.info.id.to_string(), seen));
        self.marker = Marker::of(message, self.placed.len()).or_else(|| self.marker.take());
    }

    /// The summary and what is shown with it. Takes from `following` the copies behind it.
    fn compaction(
        &mut self,
        summary: &Message<'_>,
        line: usize,
        following: &mut VecDeque<(usize, Message<'_>)>,
    ) {
        let asked_by =
            |marker: &Marker| summary.info.parent_id.as_deref().is_none_or(|id| id == marker.message_id);
        let marker = self.marker.take().filter(asked_by);
        let own = marker.as_ref().and_then(|marker| marker.foldback.clone()).unwrap_or_default();
        let is_copy = |message: &Message<'_>| own.copies.iter().any(|(id, _)| **id == *message.info.id);
        if own.note.is_some() {
            self.prune();
        }
        if let Some(note) = own.note.clone()
            && self.conversation.take(note, None, FilePlace::line(line))
        {
            while let Some((_, copy)) = following.pop_front_if(|(_, message)| is_copy(message)) {
                let positions = own.copies.iter().filter(|(id, _)| **id == *copy.info.id);
                let seen = positions.filter_map(|(_, at)| self.conversation.visible().get(*at).copied());
                self.placed.push((copy.info.id.to_string(), seen.collect()));
            }
            return;
        }
        let tail_start = marker.as_ref().and_then(|marker| {
            let tail = marker.tail_start_id.as_ref()?;
            self.placed[..marker.placed_count].iter().position(|(id, _)| id == tail)
        });
        let after_marker = marker.as_ref().map_or(self.placed.len(), |marker| marker.placed_count);
        let kept = self.placed[tail_start.unwrap_or(after_marker)..].iter().flat_map(|(_, indices)| indices);
        let kept: Vec<Shown> = match self.conversation.left_at() {
            None => kept.map(|&seen| Shown::Kept(seen)).collect(),
            Some(_) => Vec::new(),
        };
        let by = if own.copies.is_empty() { "opencode" } else { "foldback" };
        let folded_count = self.conversation.visible().len().saturating_sub(kept.len());
        let tokens_before = summary.info.usage().map(|usage| usage.prompt_tokens());
        let mut shown = Vec::new();
        let said = Items::of(summary).items.into_iter().flat_map(|item| item.parts);
        let texts = said.filter(|part| matches!(part, Part::Text(text) if !text.is_empty()));
        let mut item = Item::new(&*summary.info.id, ItemKind::Context, texts.collect());
        item.created_at = lenient::<Time>(summary.info.time).and_then(|time| time.created).map(Timestamp);
        let mut made = Made::by(by, FilePlace::line(line));
        (made.created_at, made.tokens_before) = (item.created_at, tokens_before);
        if !item.parts.is_empty() {
            shown.push(Shown::New(found_summary(item, by, folded_count, tokens_before.unwrap_or_default())));
        }
        shown.extend(kept);
        let mut turn = 0;
        let mut copies = Vec::new();
        while let Some((_, message)) = following.pop_front_if(|(_, message)| is_copy(message)) {
            let items = Items::of(&message).items;
            copies.push((message.info.id.to_string(), shown.len()..shown.len() + items.len()));
            for mut item in items {
                turn += usize::from(item.kind == ItemKind::User);
                item.turn_id = Some(format!("{}-turn-{turn}", summary.info.id).into());
                shown.push(Shown::New(item));
            }
        }
        self.conversation.replace(&made, shown);
        // What is shown is what is visible now, one for one.
        let visible = self.conversation.visible();
        let placed = copies.into_iter().map(|(id, at)| (id, visible.get(at).unwrap_or_default().to_vec()));
        self.placed.extend(placed);
    }

    /// Names the newest message of each item.
    fn name_records(&mut self) {
        for (message_id, seen) in &self.placed {
            seen.iter().for_each(|&seen| self.conversation.repeat(seen, message_id.as_str()));
        }
    }

    /// Records which outputs were pruned so far, wherever the model still sees the call.
    fn prune(&mut self) {
        let placeholder = |result: &ToolResult| {
            let content = vec![ResultPart::Text(part::CLEARED.into())];
            Part::ToolResult(ToolResult { content, ..result.clone() })
        };
        let mut cleared = Vec::new();
        let mut cleared_at = None;
        for &seen in self.conversation.visible() {
            let Seen::Item(item_index) = seen else { continue };
            let Some(recorded) = self.conversation.recorded().get(item_index) else { continue };
            let Some(at) = self.cleared.remove(&recorded.item.id) else { continue };
            cleared_at = cleared_at.max(Some(at));
            cleared.extend(recorded.item.results().map(|(part_index, result)| Cleared {
                item_index,
                part_index,
                replacement: Some(placeholder(result)),
            }));
        }
        if !cleared.is_empty() {
            let mut made = Made::by("opencode", FilePlace::line(self.cleared_line.unwrap_or(1)));
            made.created_at = cleared_at.map(Timestamp);
            self.conversation.clear(&made, cleared);
        }
    }
}

impl Codec for Opencode {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_session = lenient::<Value>(probe.field("info"))
            .is_some_and(|info| info["id"].as_str().is_some_and(|id| id.starts_with("ses_")));
        let messages = probe.elements_of("messages");
        let is_message = |message: &Value| message["info"]["role"].is_string() && message["parts"].is_array();
        let fits = probe.field("messages").is_some() && (is_session || messages.iter().any(is_message));
        if fits { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::Opencode)?;
        let export: Export<'_> = document.parse()?;
        let pieces: Vec<&RawValue> = document.parse_piece(export.messages)?;
        let info: Value = lenient(export.info).unwrap_or_default();
        let title = text_field(&info, "title").filter(|title| !title.starts_with(UNTITLED));
        let mut reading = Reading { session_id: text_field(&info, "id"), title, ..Reading::default() };
        let (mut line, mut counted) = (1, 0);
        let mut messages = VecDeque::with_capacity(pieces.len());
        for piece in pieces {
            let start = document.range_of(piece).start;
            line += memchr::memchr_iter(b'\n', &bytes[counted..start.max(counted)]).count();
            counted = start.max(counted);
            match document.read_piece::<Message<'_>>(piece) {
                Ok(message) => messages.push_back((line, message)),
                Err(problem) => reading.problems.push(problem),
            }
        }
        let mut reader = Reader::default();
        while let Some((line, message)) = messages.pop_front() {
            if message.info.role == "assistant" && message.info.provider_id.is_some() {
                reading.model = message.info.model_id.as_deref().map(Text::from);
                reading.dialect = message.info.provider_id.as_deref().and_then(dialect_of);
            }
            match (message.info.is_summary(), message.info.is_complete()) {
                (true, true) => reader.compaction(&message, line, &mut messages),
                (true, false) => {}
                (false, _) => reader.message(&message, line),
            }
        }
        reader.prune();
        reader.name_records();
        reading.conversations.push(reader.conversation);
        Ok(reading)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        write::fresh(items, like)
    }

    fn arrange(&self, mut items: Vec<Sent>) -> Vec<Sent> {
        if let Some(index) = items.iter().position(|item| item.summary.is_some()) {
            items[..=index].rotate_right(1);
        }
        items
    }

    fn append(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<Added> {
        write::append(session, committed).map(Added::Within)
    }
}

fn text_field(value: &Value, name: &str) -> Option<Text> {
    value[name].as_str().map(Text::from)
}

fn dialect_of(provider_id: &str) -> Option<Dialect> {
    match provider_id {
        "anthropic" => Some(Dialect::Anthropic),
        "openai" => Some(Dialect::OpenaiResponses),
        "google" => Some(Dialect::Gemini),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
