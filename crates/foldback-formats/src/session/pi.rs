//! Session files of pi and of OpenClaw, which is built on it.
//!
//! Entries form a tree: each names its parent, and the last entry of the file is where the
//! conversation stands. The way from there to the root is the conversation, the ways from other
//! leaves are branches. Older files have no ids and are one line of entries.
//!
//! After a compaction pi shows its summary first, then the entries from the first kept one on, then
//! what came later. A compaction by foldback keeps nothing by reference: what the model still sees
//! follows it as copies, marked with a field that pi does not look at.

mod along;
mod block;
mod tree;
mod write;

use std::borrow::Cow;

use foldback_core::{
    Dialect, FinishReason, Item, ItemKind, Part, Text, Timestamp, Tokens, ToolResult, Usage,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use self::tree::{Tree, conversation_along, item_id};
use crate::attribution::attributed;
use crate::conversation::{Conversation, Extension, Sent};
use crate::detect::{Fit, Probe};
use crate::error::FormatError;
use crate::fields::Fields;
use crate::format::{Added, Codec, Committed, Format, Loss, Reading, SessionFile};
use crate::lowering::found_summary;
use crate::{jsonl, rfc3339};

pub(crate) struct Pi;

/// The custom types of messages that foldback adds begin with this and end with a kind.
const CUSTOM_TYPE_PREFIX: &str = "foldback.";

/// What a custom type says instead of a kind where the item is a summary.
const SUMMARY_KIND: &str = "summary";

/// What stands for a summary where there is none: true of every view, because versions of pi that know no
/// context edits show it.
const NO_SUMMARY: &str = "The conversation so far follows.";

/// One line, as far as it is looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    parent_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    first_kept_entry_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    first_kept_entry_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tokens_before: Option<&'a RawValue>,
    #[serde(borrow, default)]
    details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    custom_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    system_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    target_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    replacement: Option<&'a RawValue>,
    #[serde(borrow, default)]
    foldback: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow, default)]
    api: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(borrow, default)]
    custom_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    sections: Option<&'a RawValue>,
}

/// A command that the person ran.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct BashExecution {
    command: String,
    output: String,
    exit_code: Option<i64>,
    cancelled: bool,
    truncated: bool,
    full_output_path: Option<String>,
    exclude_from_context: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct UsageRecord {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// What foldback notes beside an entry it added.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Beside {
    /// The entry repeats what the model sees at this place of the view.
    copy: Option<usize>,
    /// The parts exactly, where pi's own form has no room for them.
    parts: Option<Vec<Part>>,
}

/// An entry as the conversation needs it.
struct Entry<'a> {
    id: Option<Cow<'a, str>>,
    parent_id: Option<Cow<'a, str>>,
    timestamp: Option<Timestamp>,
    /// Where in the view the item stands that it repeats.
    copy: Option<usize>,
    body: Body<'a>,
}

enum Body<'a> {
    Header,
    Item {
        item: Box<Item>,
        api: Option<Cow<'a, str>>,
        model: Option<Cow<'a, str>>,
    },
    Compaction(Box<CompactionEntry>),
    Edit(ContextEdit<'a>),
    /// Settings, labels, the state of extensions: not shown to the model.
    State,
}

struct CompactionEntry {
    foldback: Option<Extension>,
    /// The system prompt by then, which pi shows in the place of all before.
    system: Option<Text>,
    summary: Vec<Part>,
    first_kept: FirstKept,
    tokens_before: Option<Tokens>,
}

/// An entry that another one is shown differently from now on, or not at all.
struct ContextEdit<'a> {
    target: Cow<'a, str>,
    /// What it is replaced by; nothing where it is left out.
    content: Option<&'a RawValue>,
}

enum FirstKept {
    Id(String),
    /// Counted over all records of the file, its header included.
    RecordIndex(usize),
    Nothing,
}

/// A value of a field that may be of any type, where it is of this one.
fn lenient<'a, T: Deserialize<'a>>(piece: Option<&'a RawValue>) -> Option<T> {
    piece.and_then(|piece| serde_json::from_str(piece.get()).ok())
}

/// Times are text in entries and milliseconds in messages.
fn time(piece: Option<&RawValue>) -> Option<Timestamp> {
    lenient::<String>(piece)
        .and_then(|text| rfc3339::parse(&text))
        .or_else(|| lenient::<i64>(piece).map(Timestamp))
}

impl<'a> Entry<'a> {
    fn parse(json: &'a str) -> Result<Self, serde_json::Error> {
        let record: Record<'a> = serde_json::from_str(json)?;
        let timestamp = time(record.timestamp);
        let note: Beside = lenient(record.foldback).unwrap_or_default();
        let mut body = match &*record.kind {
            "session" => Body::Header,
            "message" => match record.message {
                Some(message) => message_body(message)?,
                None => Body::State,
            },
            "compaction" => Body::Compaction(Box::new(CompactionEntry::of(&record))),
            "context_edit" => match record.target_id {
                Some(target) => Body::Edit(ContextEdit { target, content: replacement(record.replacement) }),
                None => Body::State,
            },
            "custom_message" => {
                custom_item(record.custom_type, block::parts(record.content)).into_body(timestamp)
            }
            "branch_summary" => match lenient::<String>(record.summary) {
                Some(summary) if !summary.is_empty() => branch_summary(&summary).into_body(timestamp),
                _ => Body::State,
            },
            _ => Body::State,
        };
        if let Body::Item { item, .. } = &mut body {
            item.id = record.id.as_deref().unwrap_or_default().into();
            item.parts = note.parts.unwrap_or_else(|| std::mem::take(&mut item.parts));
            item.created_at = timestamp.or(item.created_at);
            if item.kind == ItemKind::User {
                **item = attributed(Item::clone(item));
            }
        }
        Ok(Self { id: record.id, parent_id: record.parent_id, timestamp, copy: note.copy, body })
    }
}

trait IntoBody {
    fn into_body<'a>(self, timestamp: Option<Timestamp>) -> Body<'a>;
}

impl IntoBody for Item {
    fn into_body<'a>(mut self, timestamp: Option<Timestamp>) -> Body<'a> {
        self.created_at = timestamp;
        Body::Item { item: Box::new(self), api: None, model: None }
    }
}

impl CompactionEntry {
    /// Who made it.
    fn by(&self) -> &'static str {
        if self.foldback.is_some() { "foldback" } else { "pi" }
    }

    fn of(record: &Record<'_>) -> Self {
        #[derive(Deserialize)]
        struct Details {
            foldback: Extension,
        }
        let details: Option<Details> = lenient(record.details);
        let is_said = |summary: &String| !(summary.is_empty() || details.is_some() && summary == NO_SUMMARY);
        let summary = lenient::<String>(record.summary).filter(is_said);
        Self {
            foldback: details.map(|details| details.foldback),
            system: lenient(record.system_message)
                .map(|message| system_text(&message))
                .filter(|text| !text.is_empty())
                .map(Text::from),
            summary: summary.map(Part::text).into_iter().collect(),
            first_kept: match (
                lenient::<String>(record.first_kept_entry_id),
                lenient::<usize>(record.first_kept_entry_index),
            ) {
                (Some(id), _) => FirstKept::Id(id),
                (None, Some(index)) => FirstKept::RecordIndex(index),
                (None, None) => FirstKept::Nothing,
            },
            tokens_before: lenient::<u64>(record.tokens_before).map(Tokens),
        }
    }
}

/// The content that a context edit puts in.
fn replacement(piece: Option<&RawValue>) -> Option<&RawValue> {
    Fields::of(piece?)?.get("content")
}

fn message_body(piece: &RawValue) -> Result<Body<'_>, serde_json::Error> {
    let message: Message<'_> = serde_json::from_str(piece.get())?;
    let mut item = match &*message.role {
        "user" => Item::new("", ItemKind::User, block::parts(message.content)),
        "assistant" => Item::assistant("", block::parts(message.content)),
        "toolResult" => Item::tool(
            "",
            ToolResult {
                call_id: message.tool_call_id.as_deref().unwrap_or_default().into(),
                content: block::result_parts(message.content),
                is_error: message.is_error.unwrap_or(false),
            },
        ),
        "bashExecution" => match lenient::<BashExecution>(Some(piece)) {
            Some(ran) if ran.exclude_from_context => return Ok(Body::State),
            Some(ran) => Item::text("", ItemKind::Context, ran.as_sent()),
            None => Item::new("", ItemKind::Context, vec![block::opaque("bashExecution", piece)]),
        },
        // What it says beside the text are tools, which requests list apart.
        "system" => match system_text(&message) {
            text if text.is_empty() => return Ok(Body::State),
            text => Item::text("", ItemKind::System, text),
        },
        "custom" | "hookMessage" => custom_item(message.custom_type, block::parts(message.content)),
        "branchSummary" => branch_summary(&lenient::<String>(message.summary).unwrap_or_default()),
        "compactionSummary" => {
            let summary: String = lenient(message.summary).unwrap_or_default();
            found_summary(Item::text("", ItemKind::Context, summary), "pi", 0, Tokens::ZERO)
        }
        other => Item::new("", ItemKind::Context, vec![block::opaque(other, piece)]),
    };
    item.created_at = time(message.timestamp);
    item.usage =
        lenient::<UsageRecord>(message.usage).map(Usage::from).filter(|usage| *usage != Usage::default());
    item.finish_reason = message.stop_reason.as_deref().and_then(finish_reason);
    Ok(Body::Item { item: Box::new(item), api: message.api, model: message.model })
}

/// A system prompt as pi sends it: its text, or its sections with a blank line between them.
fn system_text(message: &Message<'_>) -> String {
    let whole = lenient::<String>(message.content).filter(|text| !text.is_empty());
    whole.unwrap_or_else(|| {
        let sections = message.sections.and_then(Fields::of).unwrap_or_default();
        let texts = sections.0.iter().filter_map(|(_, section)| lenient::<String>(Some(section)));
        texts.collect::<Vec<_>>().join("\n\n")
    })
}

impl From<UsageRecord> for Usage {
    fn from(usage: UsageRecord) -> Self {
        Self {
            input_tokens: Tokens(usage.input),
            cached_tokens: Tokens(usage.cache_read),
            cache_write_tokens: Tokens(usage.cache_write),
            output_tokens: Tokens(usage.output),
            reasoning_tokens: Tokens::ZERO,
        }
    }
}

fn finish_reason(stop_reason: &str) -> Option<FinishReason> {
    match stop_reason {
        "stop" => Some(FinishReason::Stop),
        "length" => Some(FinishReason::Length),
        "toolUse" => Some(FinishReason::ToolCalls),
        "error" => Some(FinishReason::Error),
        "aborted" => Some(FinishReason::Interrupted),
        _ => None,
    }
}

fn stop_reason(finish_reason: FinishReason) -> &'static str {
    match finish_reason {
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "toolUse",
        FinishReason::ContentFilter | FinishReason::Error => "error",
        FinishReason::Interrupted => "aborted",
        _ => "stop",
    }
}

fn dialect_of(api: &str) -> Option<Dialect> {
    match api {
        "anthropic-messages" => Some(Dialect::Anthropic),
        "openai-responses" | "openai-codex-responses" | "azure-openai-responses" => {
            Some(Dialect::OpenaiResponses)
        }
        "openai-completions" => Some(Dialect::OpenaiChat),
        google if google.starts_with("google-") => Some(Dialect::Gemini),
        _ => None,
    }
}

/// A message that an extension put in, or one of foldback's own.
fn custom_item(custom_type: Option<&RawValue>, parts: Vec<Part>) -> Item {
    let custom_type: String = lenient(custom_type).unwrap_or_default();
    let item = Item::new("", ItemKind::Context, parts);
    match custom_type.strip_prefix(CUSTOM_TYPE_PREFIX) {
        Some(SUMMARY_KIND) => found_summary(item, "foldback", 0, Tokens::ZERO),
        Some(name) => {
            let kind = ItemKind::ALL.into_iter().find(|kind| kind.as_str() == name);
            Item { kind: kind.unwrap_or(item.kind), ..item }
        }
        None => item,
    }
}

/// A branch that was left, in the words with which pi shows it.
fn branch_summary(summary: &str) -> Item {
    let text = format!(
        "The following is a summary of a branch that this conversation came back from:\n\n\
         <summary>\n{summary}</summary>"
    );
    Item::text("", ItemKind::Context, text)
}

impl BashExecution {
    /// In the words with which pi shows it.
    fn as_sent(&self) -> String {
        let mut text = format!("Ran `{}`\n", self.command);
        match &*self.output {
            "" => text.push_str("(no output)"),
            output => text.push_str(&format!("```\n{output}\n```")),
        }
        match self.exit_code {
            _ if self.cancelled => text.push_str("\n\n(command cancelled)"),
            Some(code) if code != 0 => text.push_str(&format!("\n\nCommand exited with code {code}")),
            _ => {}
        }
        if let (true, Some(path)) = (self.truncated, &self.full_output_path) {
            text.push_str(&format!("\n\n[Output truncated. Full output: {path}]"));
        }
        text
    }
}

impl Codec for Pi {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_header = |record: &serde_json::Value| {
            record["type"] == "session" && record["id"].is_string() && record["cwd"].is_string()
        };
        let is_message = |record: &serde_json::Value| {
            record["type"] == "message"
                && record["message"]["role"].is_string()
                && record["timestamp"].is_string()
        };
        if probe.any_record(|record| is_header(record) || is_message(record)) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let (lines, problems) = jsonl::read_with(bytes, Entry::parse);
        if let (true, Some(problem)) = (lines.is_empty(), problems.first()) {
            return Err(FormatError::Broken { format: Format::Pi, problem: problem.clone() });
        }
        let tree = Tree::of(lines);
        let mut reading = Reading { problems, session_id: tree.session_id.clone(), ..Reading::default() };
        let active = tree.nodes.len().checked_sub(1).map_or_else(Vec::new, |last| tree.path_to(last));
        for node in &active {
            if let Body::Item { api: Some(api), model, .. } = &node.entry.body {
                reading.dialect = dialect_of(api);
                reading.model = model.as_deref().map(Text::from);
            }
        }
        reading.conversations.push(conversation_along(&active));
        for leaf in tree.other_leaves() {
            let branch = conversation_along(&tree.path_to(leaf)).named(item_id(&tree.nodes[leaf]));
            if !branch.is_empty() {
                reading.branches.push(branch);
            }
        }
        Ok(reading)
    }

    fn conversation_at(&self, bytes: &[u8], record: &str) -> Option<Conversation> {
        let tree = Tree::of(jsonl::read_with(bytes, Entry::parse).0);
        let leaf = tree.nodes.iter().rposition(|node| node.entry.id.as_deref() == Some(record))?;
        Some(conversation_along(&tree.path_to(leaf)).named(record))
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some(write::fresh(items, like))
    }

    fn arrange(&self, mut items: Vec<Sent>) -> Vec<Sent> {
        if let Some(index) = items.iter().position(|item| item.summary.is_some()) {
            items[..=index].rotate_right(1);
        }
        items
    }

    fn append(&self, session: &SessionFile, committed: &Committed<'_>) -> Option<Added> {
        Some(Added::Behind(write::append(session, committed)))
    }
}

#[cfg(test)]
mod tests;
