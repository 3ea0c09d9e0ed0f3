//! Entries for pi: a compaction after which the model sees given items, and whole files.
//!
//! Every entry is read again before it is written. Where pi's form does not give back the same
//! parts, they stand beside it in a field that pi does not look at.

use std::collections::{HashMap, HashSet};

use foldback_core::{FinishReason, Item, ItemKind, Part, Timestamp, ToolResult};
use serde_json::value::RawValue;

use super::block::{block, result_block};
use super::{Body, CUSTOM_TYPE_PREFIX, Entry, NO_SUMMARY, Record, SUMMARY_KIND, lenient, stop_reason, time};
use crate::conversation::{Extension, Note, Sent};
use crate::fields::{Fields, Object, array, quoted};
use crate::format::{Committed, Loss, SessionFile};
use crate::new_ids::NewIds;
use crate::{jsonl, rfc3339};

/// The version of files with ids.
const SESSION_VERSION: &str = "3";

/// Digits of an entry's id.
const ID_DIGITS: usize = 8;

/// Nothing used: what copies cost was counted where they stood first, and pi takes a zero to mean
/// that the size of the context is not known yet.
const NO_USAGE: &str = r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}"#;

/// What a file has, for entries that are added to it or take over from it.
struct Source<'a> {
    /// The messages, by the id of their item; nothing where several have the same.
    messages: HashMap<String, Option<&'a RawValue>>,
    /// The message that says which model was asked last.
    last_assistant: Option<&'a RawValue>,
    header: Option<&'a str>,
    /// Entries that are no part of the conversation, but set what follows.
    settings: Vec<&'a str>,
    ids: HashSet<String>,
    /// The id of the last entry that was read: what follows hangs off it.
    last_id: Option<String>,
    last_time: Option<Timestamp>,
    record_count: usize,
    /// Whether what is added has ids. In a file where no entry names its parent they follow each
    /// other, and one that did would make of every other a beginning.
    has_ids: bool,
}

impl<'a> Source<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        // Only what the reader takes as an entry counts.
        let record = |json| Entry::parse(json).and_then(|_| serde_json::from_str::<Record<'a>>(json));
        let (lines, _) = jsonl::read_with(bytes, record);
        let mut source = Self {
            messages: HashMap::new(),
            last_assistant: None,
            header: None,
            settings: Vec::new(),
            ids: HashSet::new(),
            last_id: None,
            last_time: None,
            record_count: lines.len(),
            has_ids: true,
        };
        let (mut entry_count, mut is_tree) = (0, false);
        for line in lines {
            let record = line.record;
            source.last_time = time(record.timestamp).max(source.last_time);
            if record.kind == "session" {
                source.header.get_or_insert(line.text);
                continue;
            }
            if matches!(&*record.kind, "model_change" | "thinking_level_change" | "session_info" | "custom") {
                source.settings.push(line.text);
            }
            let id = record.id.map(|id| id.to_string());
            // Other records are read by their own fields, whatever else stands in them.
            if let Some(message) = record.message.filter(|_| record.kind == "message") {
                let item_id = id.clone().unwrap_or_else(|| format!("m{}", line.number));
                source.messages.entry(item_id).and_modify(|one| *one = None).or_insert(Some(message));
                if Fields::of(message).is_some_and(|fields| fields.get("api").is_some()) {
                    source.last_assistant = Some(message);
                }
            }
            (entry_count, is_tree) = (entry_count + 1, is_tree || record.parent_id.is_some());
            source.ids.extend(id.clone());
            source.last_id = id;
        }
        source.has_ids = match (entry_count, is_tree) {
            (0, _) => true,
            (1, false) | (_, true) => source.last_id.is_some(),
            (_, false) => false,
        };
        source
    }
}

/// Writes entries, one after another.
struct Writer<'a> {
    source: &'a Source<'a>,
    new_ids: NewIds,
    taken: HashSet<String>,
    /// The id of the next entry, where one before had to name it.
    next_id: Option<String>,
    /// The parent of the next entry; `None` at the root.
    parent: Option<String>,
    has_ids: bool,
    /// Where the item stands in the view, in entries that repeat what the file has.
    position: Option<usize>,
    time: Timestamp,
    tool_names: HashMap<String, String>,
    lines: Vec<String>,
    losses: Vec<Loss>,
}

pub(super) fn append(session: &SessionFile, committed: &Committed<'_>) -> Vec<u8> {
    let (conversation, items) = (committed.conversation, &committed.sent[..]);
    let source = Source::of(session.bytes());
    let mut writer = Writer {
        new_ids: session.new_ids(),
        taken: source.ids.clone(),
        next_id: None,
        // A branch is named after its leaf.
        parent: conversation.name().map(str::to_owned).or_else(|| source.last_id.clone()),
        has_ids: source.has_ids,
        position: None,
        time: source.last_time.unwrap_or(Timestamp(0)),
        tool_names: tool_names(items),
        lines: Vec::new(),
        losses: Vec::new(),
        source: &source,
    };
    let (summary, copies) = match items.split_first() {
        Some((first, rest)) if first.summary.is_some() => (Some(first), rest),
        _ => (None, items),
    };
    let compaction = writer.compaction(summary.map(|summary| &***summary), &committed.note);
    for item in copies {
        writer.position = Some(item.position);
        writer.item(item);
    }
    if let (None, Some(compaction)) = (summary, compaction) {
        writer.no_summary(&compaction);
    }
    jsonl::added(session.bytes(), writer.lines)
}

pub(super) fn fresh(items: &[Sent], like: Option<&SessionFile>) -> (Vec<u8>, Vec<Loss>) {
    let source = Source::of(like.map_or(&[], SessionFile::bytes));
    let seed: String = items.iter().map(|item| format!("{} {}\n", item.kind, item.id)).collect();
    let has_ids = source.header.is_none() || source.has_ids;
    let first_time = items.iter().find_map(|item| item.created_at);
    let mut writer = Writer {
        new_ids: NewIds::for_file(seed.as_bytes()),
        taken: source.ids.clone(),
        next_id: None,
        parent: None,
        has_ids,
        position: None,
        time: first_time.or(source.last_time).unwrap_or(Timestamp(0)),
        tool_names: tool_names(items),
        lines: Vec::new(),
        losses: Vec::new(),
        source: &source,
    };
    let header = source.header.map(str::to_owned).unwrap_or_else(|| writer.header());
    writer.lines.push(header);
    for settings in &source.settings {
        writer.settings(settings);
    }
    for item in items {
        writer.time = item.created_at.unwrap_or(writer.time);
        writer.item(item);
    }
    (jsonl::added(b"", writer.lines), writer.losses)
}

fn tool_names(items: &[Sent]) -> HashMap<String, String> {
    let calls = items.iter().flat_map(|item| item.calls());
    calls.map(|(_, call)| (call.id.to_string(), call.name.to_string())).collect()
}

impl Writer<'_> {
    fn header(&mut self) -> String {
        let mut header = Object::typed("session");
        header.json("version", SESSION_VERSION).text("id", &self.new_ids.uuid());
        header.text("timestamp", &rfc3339::print(self.time)).text("cwd", "");
        header.finish()
    }

    /// Takes over an entry that is no part of the conversation, behind the one written last.
    fn settings(&mut self, line: &str) {
        let Ok(fields) = serde_json::from_str::<Fields<'_>>(line) else { return };
        let parent = self.parent.as_deref().map_or_else(|| "null".to_owned(), quoted);
        self.lines.push(fields.with(&[("parentId", &parent)]).finish());
        self.parent = lenient(fields.get("id")).or_else(|| self.parent.take());
    }

    /// An entry of this type with its id, its parent and its time.
    fn entry(&mut self, kind: &str) -> Object {
        let mut entry = Object::typed(kind);
        if self.has_ids {
            let id = self.next_id.take().unwrap_or_else(|| self.new_id());
            entry.text("id", &id);
            entry.json("parentId", &self.parent.as_deref().map_or_else(|| "null".to_owned(), quoted));
            self.parent = Some(id);
        }
        entry.text("timestamp", &rfc3339::print(self.time));
        entry
    }

    fn new_id(&mut self) -> String {
        loop {
            // Each draw differs from those before, so this ends.
            let id = self.new_ids.hex(ID_DIGITS);
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }

    /// The entry that hides everything before it. It names the first copy as the first entry kept,
    /// and copies come after it, so nothing before is. Returns its id.
    fn compaction(&mut self, summary: Option<&Item>, note: &Note) -> Option<String> {
        let texts = summary.into_iter().flat_map(|item| &item.parts).filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n\n");
        let mut entry = self.entry("compaction");
        let id = self.parent.clone().filter(|_| self.has_ids);
        entry.text("summary", summary.map_or(NO_SUMMARY, |_| &text));
        if self.has_ids {
            let first_copy = self.new_id();
            entry.text("firstKeptEntryId", &first_copy);
            self.next_id = Some(first_copy);
        } else {
            entry.json("firstKeptEntryIndex", &(self.source.record_count + 1).to_string());
        }
        entry.json("tokensBefore", &note.tokens_before().0.to_string());
        let own = Extension::new(note, Vec::new()).json();
        entry.json("details", &format!("{{\"foldback\":{own}}}")).json("fromHook", "true");
        self.lines.push(jsonl::one_line(entry.finish()));
        id
    }

    /// The entry that keeps pi from showing a compaction where there is no summary: it shows even an empty one.
    fn no_summary(&mut self, compaction: &str) {
        let mut entry = self.entry("context_edit");
        entry.text("targetId", compaction).json("replacement", "null");
        self.lines.push(entry.finish());
    }

    fn item(&mut self, item: &Sent) {
        if item.parts.is_empty() {
            return;
        }
        let message = self.source.messages.get(&*item.id).copied().flatten();
        if let Some(message) = message.filter(|_| item.recorded.is_some()) {
            let copy = Fields::of(message).map(|fields| fields.with(&[("usage", NO_USAGE)]).finish());
            return self.message(item, &item.parts, copy.as_deref().unwrap_or(message.get()));
        }
        match item.kind {
            ItemKind::User => {
                let mut user = self.message_start("user");
                user.json("content", &blocks(&item.parts));
                let user = self.message_end(user, item);
                self.message(item, &item.parts, &user);
            }
            ItemKind::Assistant => {
                let assistant = self.assistant(item, message);
                self.message(item, &item.parts, &assistant);
            }
            ItemKind::Tool if item.results().count() == item.parts.len() => {
                for part in &item.parts {
                    let Part::ToolResult(result) = part else { continue };
                    let result = self.tool_result(item, result);
                    self.message(item, std::slice::from_ref(part), &result);
                }
            }
            ItemKind::Tool
            | ItemKind::System
            | ItemKind::Developer
            | ItemKind::Context
            | ItemKind::Notification => self.custom_message(item),
        }
    }

    fn message_start(&self, role: &str) -> Object {
        let mut message = Object::new();
        message.text("role", role);
        message
    }

    fn message_end(&self, mut message: Object, item: &Item) -> String {
        message.json("timestamp", &item.created_at.unwrap_or(self.time).0.to_string());
        message.finish()
    }

    /// As the model that answered then, or else the last one: pi shows reasoning again only to the
    /// model whose it is.
    fn assistant(&self, item: &Item, original: Option<&RawValue>) -> String {
        let mut message = self.message_start("assistant");
        message.json("content", &blocks(&item.parts));
        let like = original.or(self.source.last_assistant).and_then(Fields::of).unwrap_or_default();
        for (name, otherwise) in [("api", "anthropic-messages"), ("provider", "anthropic"), ("model", "")] {
            let value = like.get(name).map_or_else(|| quoted(otherwise), |value| value.get().to_owned());
            message.json(name, &value);
        }
        message.json("usage", NO_USAGE);
        let has_calls = item.calls().next().is_some();
        let otherwise = if has_calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        message.text("stopReason", stop_reason(item.finish_reason.unwrap_or(otherwise)));
        self.message_end(message, item)
    }

    fn tool_result(&self, item: &Item, result: &ToolResult) -> String {
        let mut message = self.message_start("toolResult");
        let name = self.tool_names.get(&*result.call_id).map_or("", String::as_str);
        message.text("toolCallId", &result.call_id).text("toolName", name);
        message.json("content", &array(result.content.iter().filter_map(result_block)));
        message.json("isError", if result.is_error { "true" } else { "false" });
        self.message_end(message, item)
    }

    fn message(&mut self, item: &Item, parts: &[Part], message: &str) {
        let mut entry = self.entry("message");
        entry.json("message", message);
        self.push(entry, item, parts);
    }

    /// What pi has no role for, as a message of an extension.
    fn custom_message(&mut self, item: &Item) {
        let kind = if item.summary.is_some() { SUMMARY_KIND } else { item.kind.as_str() };
        let mut entry = self.entry("custom_message");
        entry.text("customType", &format!("{CUSTOM_TYPE_PREFIX}{kind}"));
        entry.json("content", &blocks(&item.parts)).json("display", "true");
        if item.kind.is_instruction() {
            let what = format!("{} is shown with a user's authority", item.kind);
            self.losses.push(Loss { item_id: item.id.clone(), what });
        }
        self.push(entry, item, &item.parts);
    }

    /// Adds what the entry needs to be read as these parts again.
    fn push(&mut self, mut entry: Object, item: &Item, parts: &[Part]) {
        let is_told = reads_as(&entry, item.kind, parts);
        let copy = self.position.map(|position| format!("\"copy\":{position}"));
        let exact = (!is_told).then(|| format!("\"parts\":{}", native(parts)));
        let note: Vec<String> = copy.into_iter().chain(exact).collect();
        if !note.is_empty() {
            entry.json("foldback", &format!("{{{}}}", note.join(",")));
        }
        if !is_told {
            let what =
                "parts that pi has no blocks for are kept beside the entry, not shown by pi".to_owned();
            self.losses.push(Loss { item_id: item.id.clone(), what });
        }
        self.lines.push(jsonl::one_line(entry.finish()));
    }
}

fn reads_as(entry: &Object, kind: ItemKind, parts: &[Part]) -> bool {
    match Entry::parse(&entry.so_far()).map(|entry| entry.body) {
        Ok(Body::Item { item, .. }) => item.kind == kind && item.parts == parts,
        Ok(Body::Header | Body::Compaction(_) | Body::Edit(_) | Body::State) | Err(_) => false,
    }
}

fn blocks(parts: &[Part]) -> String {
    array(parts.iter().filter_map(block))
}

fn native(parts: &[Part]) -> String {
    serde_json::to_string(parts).expect("parts have only string keys and finite numbers")
}
