//! foldback's own form: one [`Item`] per line, and a line for each compaction, undo and redo.
//!
//! Such a line holds the blocks that it puts in force. Nothing before it changes, so taking the line
//! out undoes it. Where a file holds several conversations, a line begins each of them.

use std::sync::Arc;

use foldback_core::{Dialect, Item, Text, Tokens, View};
use serde::{Deserialize, Serialize};

use crate::conversation::{Conversation, FilePlace, Note, Sent};
use crate::detect::{Fit, Probe};
use crate::error::FormatError;
use crate::format::{Added, Codec, Committed, Format, Loss, Reading, SessionFile};
use crate::jsonl;

pub(crate) struct Native;

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
    /// Which conversation of the file, counted from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    conversation: usize,
    /// Whose rules it keeps; images cost what they cost there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dialect: Option<Dialect>,
    /// What the agent that made it says the context held before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens_before: Option<Tokens>,
    made: Note,
}

fn is_zero(index: &usize) -> bool {
    *index == 0
}

impl Codec for Native {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_item = |record: &serde_json::Value| {
            record["id"].is_string() && record["kind"].is_string() && record["parts"].is_array()
        };
        if probe.any_record(is_item) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let (lines, mut problems) = jsonl::read_with(bytes, Record::parse);
        let mut conversations = vec![Conversation::new()];
        let mut dialect = None;
        for line in lines {
            let place = FilePlace::line(line.number);
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
                Record::Compaction(line) => {
                    dialect = line.dialect.or(dialect);
                    let taken = conversations
                        .get_mut(line.conversation)
                        .is_some_and(|conversation| conversation.take(line.made, line.tokens_before, place));
                    if !taken {
                        problems.push(place.other_items());
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

    fn write(&self, sent: &[Sent], _like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some((jsonl::added(b"", sent.iter().map(|item| line(&***item))), Vec::new()))
    }

    fn append(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<Added> {
        let same = |other: &Conversation| std::ptr::eq(other, committed.conversation);
        let index = session.conversations().iter().position(same).unwrap_or(0);
        let line = compaction_line(index, session.dialect(), None, committed.note.clone());
        Some(Added::Behind(jsonl::added(session.bytes(), [line])))
    }
}

/// Conversations of another format as a fresh file, each with a compaction where there is one.
pub(crate) fn write_compacted(
    dialect: Option<Dialect>,
    conversations: &[(&Conversation, Option<&Committed<'_>>)],
) -> Vec<u8> {
    let mut lines = Vec::new();
    for (index, (conversation, committed)) in conversations.iter().enumerate() {
        if conversations.len() > 1 {
            let begun = ConversationLine { name: conversation.name().map(Text::from) };
            lines.push(line(&OfConversation { conversation: begun }));
        }
        lines.extend(recorded_lines(index, dialect, conversation));
        let made = committed.map(|committed| committed.note.clone());
        lines.extend(made.map(|made| compaction_line(index, dialect, None, made)));
    }
    jsonl::added(b"", lines)
}

/// A file of everything that lies behind a view, with the blocks in force.
pub fn native_file(view: &View) -> Vec<u8> {
    let mut conversation = Conversation::new();
    for item in view.transcript().items() {
        conversation.push(Arc::clone(item), FilePlace::default());
    }
    let made = Note::of(&conversation, view, 0);
    let lines = view.transcript().items().map(|item| line(&**item));
    let is_compacted = !view.overlay().blocks().is_empty();
    let made = is_compacted.then(|| compaction_line(0, view.transcript().meter().dialect(), None, made));
    jsonl::added(b"", lines.chain(made))
}

fn line(record: &impl Serialize) -> String {
    jsonl::one_line(serde_json::to_string(record).expect("an item has only string keys and finite numbers"))
}

/// The items of a conversation and what changed what the model sees of them.
fn recorded_lines(index: usize, dialect: Option<Dialect>, conversation: &Conversation) -> Vec<String> {
    let recorded = conversation.recorded();
    let mut lines = Vec::with_capacity(recorded.len());
    let mut next = 0;
    for step in conversation.steps() {
        let (made, recorded_end) = conversation.note_of(step, next);
        lines.extend(recorded[next..made.item_count()].iter().map(|recorded| line(&*recorded.item)));
        next = recorded_end;
        lines.push(compaction_line(index, dialect, step.tokens_before, made));
    }
    lines.extend(recorded[next..].iter().map(|recorded| line(&*recorded.item)));
    lines
}

fn compaction_line(
    conversation: usize,
    dialect: Option<Dialect>,
    tokens_before: Option<Tokens>,
    made: Note,
) -> String {
    line(&OfCompaction { compaction: CompactionLine { conversation, dialect, tokens_before, made } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Cleared, Made, Seen, Shown};
    use crate::lowering::found_summary;
    use foldback_core::{ItemKind, Part};

    #[test]
    fn a_conversation_of_another_format_keeps_its_history_and_its_view() {
        let place = FilePlace::line(1);
        let mut conversation = Conversation::new();
        for name in ["a", "b", "c"] {
            conversation.push(Item::user(name, name), place);
        }
        let replacement = Some(Part::text("cleared"));
        let cleared = vec![Cleared { item_index: 1, part_index: 0, replacement }];
        conversation.clear(&Made::by("agent", place), cleared);
        let summary = found_summary(Item::text("s", ItemKind::Context, "in short"), "agent", 1, Tokens(9));
        let shown = [Shown::Kept(Seen::Item(0)), Shown::New(summary), Shown::Kept(Seen::Item(2))];
        conversation.replace(&Made::by("agent", place), shown);
        let changed = [Shown::New(Item::user("a2", "a, in short")), Shown::Kept(Seen::Item(2))];
        conversation.replace(&Made::by("agent", place), changed);
        conversation.push(Item::user("d", "d"), place);
        let file = write_compacted(None, &[(&conversation, None)]);
        let session = SessionFile::read_as(Format::Native, file).unwrap();
        assert!(session.problems().is_empty());
        let again = &session.conversations()[0];
        let names = |conversation: &Conversation| {
            conversation.history().map(|recorded| recorded.item.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(&conversation), ["a", "b", "c", "d"]);
        assert_eq!(names(again), names(&conversation));
        assert_eq!(again.visible(), conversation.visible());
        assert_eq!(again.steps().len(), 3);
    }
}
