//! The session files of Claude Code: one record per line, linked to a tree by `parentUuid`.
//!
//! Only user, assistant and attachment records are context. One message of the API is several
//! records that share `message.id`, with results of its first calls between them; they become one
//! item. `toolUseResult` repeats results for the user interface and is not read.
//!
//! A compaction is a boundary, a summary and a list of what was preserved; foldback writes its own
//! in the same form (see `append`), and both are read as what they hide and what they show.

mod append;
mod attachment;
mod build;
mod items;
mod name;
mod record;
pub(crate) mod rows;
mod tree;

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{Dialect, Item, Text};
use foldhash::HashMap;
use serde_json::Value;

use crate::conversation::{Conversation, Sent};
use crate::detect::{Fit, Probe};
use crate::error::{FormatError, Problem};
use crate::file_end::FileEnd;
use crate::format::{Added, Codec, Committed, Contents, End, Format, Loss, Reading, SessionFile, SubAgentOf};
use crate::pieces::{self, Line, Lines, Source};
use name::{Key, Name};
use record::Record;

pub(crate) struct ClaudeCode;

/// The model of messages that the agent wrote itself.
const SYNTHETIC: &str = "<synthetic>";

impl Codec for ClaudeCode {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        if probe.any_record(is_own_record) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let (lines, problems) =
            pieces::read(&Lines::Held(bytes), Record::parse).expect("what is in memory can be read");
        read(lines, problems)
    }

    fn read_from(&self, source: &dyn Source) -> Option<Reading> {
        let (lines, problems) = pieces::read(&Lines::At(source), Record::parse).ok()?;
        read(lines, problems).ok()
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, sent: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some(append::write(sent, like))
    }

    fn append(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<Added> {
        let end = FileEnd::whole(session.bytes());
        self.append_behind(session, &end, committed).map(Added::Behind)
    }

    fn append_behind(
        &self,
        contents: &Contents,
        end: &FileEnd<'_>,
        committed: &Committed<'_>,
    ) -> Option<Vec<u8>> {
        is_main(contents, committed.conversation).then(|| append::append(contents, end, committed))?
    }
}

fn read(mut lines: Vec<Line<Record>>, problems: Vec<Problem>) -> Result<Reading, FormatError> {
    let mut items: Vec<Vec<Arc<Item>>> = lines.iter_mut().map(Line::take_items).collect();
    let mut conversations = Vec::new();
    let mut branches = Vec::new();
    let mut main_branch = Vec::new();
    let mut end = None;
    for (index, (name, members)) in tree::groups(&lines).into_iter().enumerate() {
        let tree = tree::Tree::new(&lines, members);
        let (active, others) = tree.branches();
        if index == 0 {
            end = tree.end().map(|(line, can_go_on)| End {
                range: lines[line].range.clone(),
                can_go_on,
                attachments: attachments(&lines),
            });
            let build = |branch| build::conversation(&lines, branch, |line| items[line].clone());
            branches = others.iter().map(|branch| build(branch)).collect();
        }
        // Every record is in one active branch at most, and in those that were left before.
        let conversation = build::conversation(&lines, &active, |line| std::mem::take(&mut items[line]));
        conversations.push(match name {
            Some(name) => conversation.named(name),
            None => conversation,
        });
        if index == 0 {
            main_branch = active;
        }
    }
    match (conversations.iter().all(Conversation::is_empty), problems.first()) {
        (true, Some(problem)) => {
            Err(FormatError::Broken { format: Format::ClaudeCode, problem: problem.clone() })
        }
        _ => Ok(Reading {
            conversations,
            problems,
            dialect: Some(Dialect::Anthropic),
            model: model_of(&lines, &main_branch),
            context_window: None,
            session_id: session_of(&lines, &main_branch),
            title: lines.iter().rev().find_map(|line| line.record.title.as_deref()).map(Text::from),
            sub_agent_of: sub_agent_of(&lines, &main_branch),
            branches,
            end,
        }),
    }
}

impl Line<Record> {
    /// The items of the record, with names of their own.
    fn take_items(&mut self) -> Vec<Arc<Item>> {
        let mut items = std::mem::take(&mut self.record.items);
        if self.record.uuid.is_none() {
            items::name_after_line(&mut items, self.number);
        }
        items
    }
}

/// Where attachments are, by the uuids of their records; not those whose uuid another record has, too.
fn attachments(lines: &[Line<Record>]) -> HashMap<Text, Range<usize>> {
    let is_attachment = |line: &Line<Record>| line.record.kind == record::Kind::Attachment;
    if !lines.iter().any(is_attachment) {
        return HashMap::default();
    }
    let mut found: HashMap<Key<'_>, Option<&Line<Record>>> = HashMap::default();
    for line in lines {
        if let Some(uuid) = &line.record.uuid {
            let attachment = is_attachment(line).then_some(line);
            found.entry(uuid.key()).and_modify(|one| *one = None).or_insert(attachment);
        }
    }
    let place = |line: &Line<Record>| Some((line.record.uuid.as_ref()?.to_text(), line.range.clone()));
    found.into_values().flatten().filter_map(place).collect()
}

/// Sub-agents and other branches that share a file have no end to go on from.
fn is_main(contents: &Contents, conversation: &Conversation) -> bool {
    contents.conversations().first().is_some_and(|main| std::ptr::eq(main, conversation))
}

fn is_own_record(record: &Value) -> bool {
    let has = |name: &str| record.get(name).is_some();
    let is_linked = has("uuid") && (has("sessionId") || has("parentUuid"));
    match record["type"].as_str() {
        Some("user" | "assistant") => is_linked && record["message"].is_object(),
        Some("attachment") => is_linked && record["attachment"].is_object(),
        Some("system") => is_linked && has("subtype"),
        Some("progress") => is_linked && has("data"),
        Some("file-history-snapshot") => has("messageId") && has("snapshot"),
        Some("queue-operation") => has("operation") && has("sessionId"),
        Some("summary") => has("leafUuid"),
        _ => false,
    }
}

fn model_of(lines: &[Line<Record>], branch: &[usize]) -> Option<Text> {
    let models = branch.iter().rev().filter_map(|&index| lines[index].record.model.as_deref());
    models.into_iter().find(|model| *model != SYNTHETIC).map(Text::from)
}

fn session_of(lines: &[Line<Record>], branch: &[usize]) -> Option<Text> {
    branch.iter().rev().find_map(|&index| lines[index].record.session_id.as_ref()).map(Name::to_text)
}

fn sub_agent_of(lines: &[Line<Record>], branch: &[usize]) -> Option<SubAgentOf> {
    let of_agent = branch.iter().map(|&index| &lines[index].record).find(|record| record.is_sidechain)?;
    let agent_id = Text::from(of_agent.agent_id.as_deref()?);
    Some(SubAgentOf { session_id: of_agent.session_id.as_ref()?.to_text(), agent_id })
}

#[cfg(test)]
mod tests;
