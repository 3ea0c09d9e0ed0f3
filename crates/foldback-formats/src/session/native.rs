//! foldback's own form: one [`Item`] per line, and a line for each compaction.
//!
//! A compaction line says what the model sees from there on: items recorded before, by their
//! index, and items that are new. Nothing before it changes, so taking the line out undoes it.
//! Where a file holds several conversations, a line begins each of them.

use std::sync::Arc;

use foldback_core::{Dialect, Item, Part, Text, Timestamp, Tokens};
use serde::{Deserialize, Serialize};

use crate::conversation::{Cleared, Compaction, Conversation, Place, Recorded, Shown};
use crate::detect::{Fit, Probe};
use crate::error::FormatError;
use crate::format::{Added, Codec, Format, Loss, Reading, Session};
use crate::jsonl;

pub(crate) struct Native;

/// Who writes compactions in this form, unless the line says otherwise.
const BY: &str = "foldback";

enum Record {
    Item(Item),
    Compaction(CompactionLine),
    Conversation(ConversationLine),
}

impl Record {
    fn parse(json: &str) -> Result<Self, serde_json::Error> {
        // Parts carry raw JSON, which serde cannot try twice; so the line's beginning decides.
        let start = json.trim_ascii_start();
        if start.starts_with(COMPACTION_START) {
            return serde_json::from_str(json)
                .map(|OfCompaction { compaction }| Self::Compaction(compaction));
        }
        if start.starts_with(CONVERSATION_START) {
            let begun = serde_json::from_str(json);
            return begun.map(|OfConversation { conversation }| Self::Conversation(conversation));
        }
        serde_json::from_str(json).map(Self::Item)
    }
}

/// How the line of a compaction begins.
const COMPACTION_START: &str = "{\"compaction\":";
/// How the line that begins a conversation begins.
const CONVERSATION_START: &str = "{\"conversation\":";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfConversation {
    conversation: ConversationLine,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConversationLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Text>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfCompaction {
    compaction: CompactionLine,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactionLine {
    by: Text,
    /// Which conversation of the file, counted from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    conversation: usize,
    /// Whose rules it keeps; images cost what they cost there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dialect: Option<Dialect>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens_before: Option<Tokens>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shown: Vec<ShownLine>,
    /// Where it replaced parts and hid nothing, those parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cleared: Vec<ClearedLine>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClearedLine {
    item: usize,
    part: usize,
    replacement: Option<Part>,
}

impl From<&Cleared> for ClearedLine {
    fn from(cleared: &Cleared) -> Self {
        let Cleared { item_index, part_index, replacement } = cleared;
        Self { item: *item_index, part: *part_index, replacement: replacement.clone() }
    }
}

#[expect(clippy::large_enum_variant, reason = "these lists live for a moment, and boxes would cost more")]
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ShownLine {
    /// Neighbouring items recorded before: the first index, and one past the last.
    Kept(usize, usize),
    New(Item),
}

impl Codec for Native {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_item = |record: &serde_json::Value| {
            record["id"].is_string() && record["kind"].is_string() && record["parts"].is_array()
        };
        if probe.any_record(is_item) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let (lines, problems) = jsonl::read_with(bytes, Record::parse);
        let mut conversations = vec![Conversation::new()];
        let mut dialect = None;
        for line in lines {
            let place = Place::line(line.number);
            match line.record {
                Record::Item(item) => {
                    conversations.last_mut().map(|conversation| conversation.push(item, place));
                }
                Record::Conversation(begun) => {
                    // A file's first line begins the conversation that is there already.
                    if conversations.last().is_some_and(|last| last.is_empty() && last.name().is_none()) {
                        conversations.pop();
                    }
                    let conversation = Conversation::new();
                    conversations.push(match begun.name {
                        Some(name) => conversation.named(name),
                        None => conversation,
                    });
                }
                Record::Compaction(made) => {
                    dialect = made.dialect.or(dialect);
                    if let Some(conversation) = conversations.get_mut(made.conversation) {
                        replace(conversation, made, place);
                    }
                }
            }
        }
        match (conversations.iter().all(Conversation::is_empty), problems.first()) {
            (true, Some(problem)) => {
                Err(FormatError::Broken { format: Format::Native, problem: problem.clone() })
            }
            _ => Ok(Reading { conversations, problems, dialect, ..Reading::default() }),
        }
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Arc<Item>], _like: Option<&Session>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some((jsonl::added(b"", items.iter().map(|item| line(&**item))), Vec::new()))
    }

    fn append(&self, session: &Session, conversation: &Conversation, items: &[Arc<Item>]) -> Option<Added> {
        let same = |other: &Conversation| std::ptr::eq(other, conversation);
        let index = session.conversations().iter().position(same).unwrap_or(0);
        let line = compaction_line(index, session.dialect(), conversation, items);
        Some(Added::Behind(jsonl::added(session.bytes(), [line])))
    }
}

fn replace(conversation: &mut Conversation, made: CompactionLine, place: Place) {
    let mut compaction = Compaction::new(made.by, place);
    (compaction.created_at, compaction.tokens_before) = (made.created_at, made.tokens_before);
    if !made.cleared.is_empty() {
        let cleared = made.cleared.into_iter().map(|ClearedLine { item, part, replacement }| Cleared {
            item_index: item,
            part_index: part,
            replacement,
        });
        return conversation.clear(compaction, cleared.collect());
    }
    let recorded = conversation.len();
    let shown = made.shown.into_iter().flat_map(|entry| {
        let (kept, new) = match entry {
            ShownLine::Kept(start, end) => (start.min(recorded)..end.min(recorded), None),
            ShownLine::New(item) => (0..0, Some(Shown::New(item))),
        };
        kept.map(Shown::Kept).chain(new)
    });
    conversation.replace(compaction, shown);
}

/// Conversations of another format as a fresh file, each with a compaction where there is one.
pub(crate) fn write_compacted(
    dialect: Option<Dialect>,
    conversations: &[(&Conversation, Option<&[Arc<Item>]>)],
) -> Vec<u8> {
    let mut lines = Vec::new();
    for (index, (conversation, shown)) in conversations.iter().enumerate() {
        if conversations.len() > 1 {
            let begun = ConversationLine { name: conversation.name().map(Text::from) };
            lines.push(line(&OfConversation { conversation: begun }));
        }
        lines.extend(recorded_lines(index, dialect, conversation));
        lines.extend(shown.map(|items| compaction_line(index, dialect, conversation, items)));
    }
    jsonl::added(b"", lines)
}

fn is_zero(index: &usize) -> bool {
    *index == 0
}

fn line(record: &impl Serialize) -> String {
    let json = serde_json::to_string(record).expect("an item has only string keys and finite numbers");
    // Line breaks in what serde writes stand between the tokens of raw JSON: in strings they are
    // escaped.
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

/// The items of a conversation and the compactions among them. What those put in comes back in the
/// same places when the lines are read.
fn recorded_lines(index: usize, dialect: Option<Dialect>, conversation: &Conversation) -> Vec<String> {
    let recorded = conversation.recorded();
    let item_line = |recorded: &Recorded| line(&*recorded.item);
    let mut lines = Vec::with_capacity(recorded.len());
    let (mut next, mut visible) = (0, Vec::<usize>::new());
    for made in conversation.compactions() {
        let inserted = made.inserted.clone();
        lines.extend(recorded[next..inserted.start].iter().map(item_line));
        visible.extend(next..inserted.start);
        next = inserted.end;
        visible.retain(|seen| !made.hidden.iter().any(|range| range.contains(seen)));
        let kept = visible.iter().map(|&seen| ShownLine::Kept(seen, seen + 1));
        let put_in = recorded[inserted.clone()].iter().map(|new| ShownLine::New(Item::clone(&new.item)));
        let mut compaction = CompactionLine {
            by: made.by.clone(),
            conversation: index,
            dialect,
            created_at: made.created_at,
            tokens_before: made.tokens_before,
            shown: joined(kept.chain(put_in)),
            cleared: made.cleared.iter().map(ClearedLine::from).collect(),
        };
        if !compaction.cleared.is_empty() {
            compaction.shown.clear();
        }
        lines.push(line(&OfCompaction { compaction }));
        visible.extend(inserted);
    }
    lines.extend(recorded[next..].iter().map(item_line));
    lines
}

/// Neighbouring items that are kept as one entry.
fn joined(shown: impl Iterator<Item = ShownLine>) -> Vec<ShownLine> {
    let mut joined: Vec<ShownLine> = Vec::new();
    for entry in shown {
        match (joined.last_mut(), entry) {
            (Some(ShownLine::Kept(_, end)), ShownLine::Kept(start, new_end)) if *end == start => {
                *end = new_end
            }
            (_, entry) => joined.push(entry),
        }
    }
    joined
}

fn compaction_line(
    index: usize,
    dialect: Option<Dialect>,
    conversation: &Conversation,
    items: &[Arc<Item>],
) -> String {
    let indices = conversation.indices();
    let shown = items.iter().map(|item| match indices.get(&Arc::as_ptr(item)) {
        Some(&index) => ShownLine::Kept(index, index + 1),
        None => ShownLine::New(Item::clone(item)),
    });
    let compaction = CompactionLine {
        by: BY.into(),
        conversation: index,
        dialect,
        created_at: None,
        tokens_before: None,
        shown: joined(shown),
        cleared: Vec::new(),
    };
    line(&OfCompaction { compaction })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: Vec<u8>) -> Session {
        Session::read_as(Format::Native, bytes).unwrap()
    }

    #[test]
    fn a_conversation_of_another_format_keeps_its_history_and_its_view() {
        let place = Place::line(1);
        let mut conversation = Conversation::new();
        for name in ["a", "b", "c"] {
            conversation.push(Item::user(name, name), place);
        }
        let replacement = Some(Part::text("cleared"));
        let cleared = vec![Cleared { item_index: 1, part_index: 0, replacement }];
        conversation.clear(Compaction::new("agent", place), cleared);
        let shown = [Shown::Kept(0), Shown::New(Item::user("s", "in short")), Shown::Kept(2)];
        conversation.replace(Compaction::new("agent", place), shown);
        conversation.push(Item::user("d", "d"), place);
        let session = read(write_compacted(None, &[(&conversation, None)]));
        let again = &session.conversations()[0];
        let names = |conversation: &Conversation| {
            conversation.history().map(|recorded| recorded.item.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(again), names(&conversation));
        assert_eq!(again.visible(), conversation.visible());
        assert_eq!(again.compactions()[0].cleared.len(), 1);
    }
}
