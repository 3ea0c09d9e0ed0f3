//! foldback's own form: one [`Item`] per line, and a line for each compaction.
//!
//! A compaction line says what the model sees from there on: items recorded before, by their
//! index, and items that are new. Nothing before it changes, so taking the line out undoes it.

use std::sync::Arc;

use foldback_core::{Item, Text, Timestamp, Tokens};
use serde::{Deserialize, Serialize};

use crate::conversation::{Compaction, Conversation, Place, Shown};
use crate::detect::{Fit, Probe};
use crate::error::FormatError;
use crate::format::{Codec, Format, Loss, Reading, Session};
use crate::jsonl;

pub(crate) struct Native;

/// Who writes compactions in this form, unless the line says otherwise.
const BY: &str = "foldback";

enum Record {
    Item(Item),
    Compaction(CompactionLine),
}

impl Record {
    fn parse(json: &str) -> Result<Self, serde_json::Error> {
        // Parts carry raw JSON, which serde cannot try twice; so the line's beginning decides.
        match json.trim_ascii_start().starts_with(COMPACTION_START) {
            true => {
                serde_json::from_str(json).map(|OfCompaction { compaction }| Self::Compaction(compaction))
            }
            false => serde_json::from_str(json).map(Self::Item),
        }
    }
}

/// How the line of a compaction begins.
const COMPACTION_START: &str = "{\"compaction\":";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfCompaction {
    compaction: CompactionLine,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompactionLine {
    by: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens_before: Option<Tokens>,
    shown: Vec<ShownLine>,
}

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
        let mut conversation = Conversation::new();
        for line in lines {
            let place = Place::line(line.number);
            match line.record {
                Record::Item(item) => drop(conversation.push(item, place)),
                Record::Compaction(made) => {
                    let mut compaction = Compaction::new(made.by, place);
                    (compaction.created_at, compaction.tokens_before) = (made.created_at, made.tokens_before);
                    let recorded = conversation.len();
                    let shown = made.shown.into_iter().flat_map(|shown| match shown {
                        ShownLine::Kept(start, end) => {
                            (start.min(recorded)..end.min(recorded)).map(Shown::Kept).collect()
                        }
                        ShownLine::New(item) => vec![Shown::New(item)],
                    });
                    conversation.replace(compaction, shown.collect::<Vec<_>>());
                }
            }
        }
        match (conversation.is_empty(), problems.first()) {
            (true, Some(problem)) => {
                Err(FormatError::Broken { format: Format::Native, problem: problem.clone() })
            }
            _ => Ok(Reading { conversations: vec![conversation], problems, ..Reading::default() }),
        }
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Arc<Item>], _like: Option<&Session>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some((jsonl::with_records(b"", items.iter().map(|item| line(&**item))), Vec::new()))
    }

    fn append(&self, session: &Session, conversation: &Conversation, items: &[Arc<Item>]) -> Option<Vec<u8>> {
        Some(jsonl::with_records(session.bytes(), [compaction_line(conversation, items)]))
    }
}

/// A conversation of another format, and a compaction of it, as a fresh file.
pub(crate) fn write_compacted(conversation: &Conversation, items: &[Arc<Item>]) -> Vec<u8> {
    let recorded = conversation.recorded().iter().map(|recorded| line(&*recorded.item));
    jsonl::with_records(b"", recorded.chain([compaction_line(conversation, items)]))
}

fn line(record: &impl Serialize) -> String {
    let json = serde_json::to_string(record).expect("an item has only string keys and finite numbers");
    // Line breaks in what serde writes stand between the tokens of raw JSON: in strings they are
    // escaped.
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

fn compaction_line(conversation: &Conversation, items: &[Arc<Item>]) -> String {
    let mut shown: Vec<ShownLine> = Vec::new();
    let indices = conversation.indices();
    for item in items {
        match (indices.get(&Arc::as_ptr(item)), shown.last_mut()) {
            (Some(&index), Some(ShownLine::Kept(_, end))) if *end == index => *end += 1,
            (Some(&index), _) => shown.push(ShownLine::Kept(index, index + 1)),
            (None, _) => shown.push(ShownLine::New(Item::clone(item))),
        }
    }
    let compaction = CompactionLine { by: BY.into(), created_at: None, tokens_before: None, shown };
    line(&OfCompaction { compaction })
}
