//! Writing rollouts: a compaction added to one, and a fresh one.

use std::collections::HashMap;

use foldback_core::{Item, ItemKind, Part, Timestamp};

use super::ending::{Ending, ordinal_of};
use super::records::{SUMMARY_PREFIX, looks_failed};
use super::{Rollout, jsonl};
use crate::conversation::{Conversation, Extension, Sent};
use crate::dialect::openai_chat::content::{array, object, quoted};
use crate::dialect::openai_responses::write::{HasStatus, Style, TakesReasoning, Writer};
use crate::format::{Committed, Loss, SessionFile};
use crate::lowering::Tag;
use crate::new_ids::NewIds;
use crate::rfc3339;

const STYLE: Style =
    Style { reasoning: TakesReasoning::Any, tagged, looks_failed, statuses: HasStatus::OfAll };

/// Summaries get what Codex puts before its own, so that it knows them for what they are and does
/// not keep them as the person's words when it compacts again.
fn tagged(tag: Tag, text: &str) -> String {
    match tag {
        Tag::Summary => format!("{SUMMARY_PREFIX}\n{text}"),
        Tag::Context | Tag::Notification => tag.around(text),
    }
}

/// The session and a compaction.
pub(super) fn append(session: &SessionFile, committed: &Committed<'_>) -> Vec<u8> {
    let (conversation, items) = (committed.conversation, &committed.sent[..]);
    let rollout = Rollout::read(session.bytes());
    let texts = rollout.texts.iter().enumerate();
    let originals: HashMap<usize, &str> = texts.filter_map(|(index, text)| Some((index, (*text)?))).collect();
    let mut writer = Writer::new(STYLE, items, originals);
    let history: Vec<String> = items.iter().flat_map(|item| writer.lower(item)).collect();
    let summary = items.iter().find(|item| item.summary.is_some()).map(|item| text_of(item));
    let message = summary.filter(|text| !text.is_empty()).map(|text| tagged(Tag::Summary, &text));
    let payload = object(&[
        ("message", quoted(message.as_deref().unwrap_or_default())),
        ("replacement_history", array(&history)),
        ("foldback", Extension::new(&committed.note, Vec::new()).json()),
    ]);
    let time = rollout.time.as_deref().map_or_else(|| rfc3339::print(Timestamp(0)), ToOwned::to_owned);
    let event = object(&[("type", quoted("context_compacted"))]);
    let ending = Ending::of(session.bytes());
    let mut records =
        Records { ordinal: ending.ordinal.map(|ordinal| ordinal.saturating_add(1)), lines: Vec::new() };
    records.push(&time, "compacted", &payload);
    records.push(&time, "event_msg", &event);
    if keeps_what_was_told(conversation, items) {
        for (kind, payload) in ending.told {
            records.push(&time, kind, payload);
        }
    }
    jsonl::added(session.bytes(), records.lines)
}

/// Whether everything that Codex told the model about where it works is among `items` as it was.
fn keeps_what_was_told(conversation: &Conversation, items: &[Sent]) -> bool {
    let is_told = |item: &Item| match item.kind {
        ItemKind::System | ItemKind::Developer => true,
        ItemKind::Context => item.summary.is_none(),
        ItemKind::User | ItemKind::Assistant | ItemKind::Tool | ItemKind::Notification => false,
    };
    let seen = conversation.visible().iter().filter_map(|&seen| conversation.item(seen));
    let mut told = seen.filter(|item| is_told(item)).peekable();
    let mut kept = items.iter().filter(|item| is_told(item));
    told.peek().is_some() && told.all(|told| kept.any(|kept| kept.parts == told.parts))
}

/// Records in the order in which they are written.
struct Records {
    /// The number of the next one, in a file whose records are numbered.
    ordinal: Option<u64>,
    lines: Vec<String>,
}

impl Records {
    fn push(&mut self, time: &str, kind: &str, payload: &str) {
        let number = self.ordinal.map(|ordinal| ("ordinal", ordinal.to_string()));
        self.ordinal = self.ordinal.map(|ordinal| ordinal.saturating_add(1));
        let fields = [("timestamp", quoted(time))].into_iter().chain(number);
        let fields = fields.chain([("type", quoted(kind)), ("payload", payload.to_owned())]);
        self.lines.push(object(&fields.collect::<Vec<_>>()));
    }
}

/// A fresh rollout, of the same session where there is one.
pub(super) fn write(items: &[Sent], like: Option<&SessionFile>) -> (Vec<u8>, Vec<Loss>) {
    let reasoning = if like.is_some() { TakesReasoning::Any } else { TakesReasoning::Sealed };
    let mut writer = Writer::new(Style { reasoning, ..STYLE }, items, HashMap::new());
    let mut time = items.iter().find_map(|item| item.created_at).unwrap_or(Timestamp(0));
    let started = rfc3339::print(time);
    let meta = like.and_then(|like| session_line(like.bytes()));
    let ordinal = meta.as_deref().and_then(ordinal_of).map(|ordinal| ordinal.saturating_add(1));
    let mut records = Records { ordinal, lines: Vec::new() };
    for item in items {
        time = item.created_at.unwrap_or(time);
        let stamp = rfc3339::print(time);
        for payload in writer.lower(item) {
            records.push(&stamp, "response_item", &jsonl::one_line(payload));
        }
        if let Some(payload) = mirror(item) {
            records.push(&stamp, "event_msg", &payload);
        }
    }
    let main = like.and_then(|like| Some((like.bytes(), like.conversations().first()?)));
    if let Some((bytes, _)) = main.filter(|(_, main)| keeps_what_was_told(main, items)) {
        for (kind, payload) in Ending::of(bytes).told {
            records.push(&rfc3339::print(time), kind, payload);
        }
    }
    let meta = meta.unwrap_or_else(|| {
        let id = NewIds::for_file(records.lines.concat().as_bytes()).uuid();
        let payload = object(&[
            ("id", quoted(&id)),
            ("timestamp", quoted(&started)),
            ("cwd", quoted("")),
            ("originator", quoted("foldback")),
            ("cli_version", quoted("0.0.0")),
        ]);
        record(&started, "session_meta", payload)
    });
    (jsonl::added(b"", [meta].into_iter().chain(records.lines)), writer.losses)
}

/// The line that names the session.
fn session_line(bytes: &[u8]) -> Option<String> {
    let lines = jsonl::lines(bytes).filter_map(|line| std::str::from_utf8(line).ok());
    let is_meta = |line: &&str| {
        serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line["type"] == "session_meta")
    };
    lines.take(SESSION_LINES_MAX).find(is_meta).map(ToOwned::to_owned)
}

/// Lines in which the name of the session is looked for.
const SESSION_LINES_MAX: usize = 10;

fn record(time: &str, kind: &str, payload: String) -> String {
    object(&[("timestamp", quoted(time)), ("type", quoted(kind)), ("payload", payload)])
}

/// The event that Codex shows for a message when it resumes a session.
fn mirror(item: &Item) -> Option<String> {
    let kind = match item.kind {
        ItemKind::User => "user_message",
        ItemKind::Assistant => "agent_message",
        ItemKind::System
        | ItemKind::Developer
        | ItemKind::Tool
        | ItemKind::Context
        | ItemKind::Notification => return None,
    };
    let text = text_of(item);
    (!text.is_empty()).then(|| object(&[("type", quoted(kind)), ("message", quoted(&text))]))
}

fn text_of(item: &Item) -> String {
    let texts = item.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}
