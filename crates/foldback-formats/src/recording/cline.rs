//! Message files of Cline, in two forms.
//!
//! Its SDK writes an object with `system_prompt` and `messages` of Anthropic's blocks. A file that
//! was compacted holds what the model sees afterwards: messages marked as a summary, or notices
//! within the messages of the person, stand for what is not in the file any more. They are what
//! compaction put in, for a past that the file does not have.
//!
//! Older task files are a bare list of messages. Calls are XML in the assistant's text and stay
//! there; their results come back as user text (`[read_file for 'x'] Result:`), and Cline adds
//! `<environment_details>`. Nobody said those, so they are context and begin no turn.

use foldback_core::{Dialect, Item, ItemKind, Part, ResultPart, Text, Tokens, ToolResult, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::pieces::{Places, if_understood, items_of_blocks, of_recording, time_of_millis};
use crate::attribution::attributed;
use crate::conversation::{Conversation, FilePlace};
use crate::detect::{Fit, Probe};
use crate::dialect::anthropic::blocks::read_blocks;
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Reading};
use crate::lowering::found_summary;

pub(crate) struct Cline;

/// Who makes compactions.
const BY: &str = "cline";

/// The `metadata.kind` of a message that is a summary.
const SUMMARY_KIND: &str = "compaction_summary";

/// How a notice begins that stands for what was done after a request.
const COMPACTED_NOTICE: &str = "<SYSTEM_NOTICE>\nEarlier context was compacted.";

/// How text begins that only Cline adds to a user message: it shows whose file it is.
const ADDED: [&str; 4] = [
    "<environment_details>",
    "[ERROR] You did not use a tool",
    "[TASK RESUMPTION]",
    "<explicit_instructions",
];

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(rename = "sessionId", default, deserialize_with = "if_understood")]
    session_id: Option<Text>,
    #[serde(default)]
    system_prompt: Option<Text>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, deserialize_with = "if_understood")]
    id: Option<Text>,
    role: Text,
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(default, deserialize_with = "if_understood")]
    ts: Option<f64>,
    #[serde(rename = "modelInfo", default, deserialize_with = "if_understood")]
    model: Option<Model>,
    #[serde(default, deserialize_with = "if_understood")]
    metrics: Option<Metrics>,
    #[serde(default, deserialize_with = "if_understood")]
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default, deserialize_with = "if_understood")]
    id: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metrics {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    kind: Option<Text>,
    tokens_before: Option<u64>,
    messages_removed: Option<usize>,
    generated_at: Option<f64>,
}

impl Metrics {
    /// The input includes what the cache gave and took.
    fn usage(&self) -> Usage {
        let (read, written) = (self.cache_read_tokens.unwrap_or(0), self.cache_write_tokens.unwrap_or(0));
        let input = self.input_tokens.unwrap_or(0);
        Usage {
            input_tokens: Tokens(input.saturating_sub(read).saturating_sub(written)),
            cached_tokens: Tokens(read),
            cache_write_tokens: Tokens(written),
            output_tokens: Tokens(self.output_tokens.unwrap_or(0)),
            ..Usage::default()
        }
    }
}

impl Codec for Cline {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let has = |name: &str| probe.field(name).is_some();
        let is_sdk =
            has("version") && has("messages") && has("updated_at") && (has("agent") || has("sessionId"));
        let is_task_file = probe.elements().iter().any(is_marked);
        if is_sdk || is_task_file { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::Cline)?;
        let file = match bytes.trim_ascii_start().first() {
            Some(b'[') => File { messages: document.parse()?, session_id: None, system_prompt: None },
            _ => document.parse()?,
        };
        let mut reader = Reader::new(document.clone(), bytes);
        if let Some(prompt) = file.system_prompt.filter(|prompt| !prompt.is_empty()) {
            reader.push(Item::text("system", ItemKind::System, prompt), FilePlace::line(1));
        }
        for (index, piece) in file.messages.into_iter().enumerate() {
            let place = reader.places.of(piece);
            match document.read_piece::<Message<'_>>(piece) {
                Ok(message) => reader.message(index, message, place),
                Err(problem) => reader.problems.push(problem),
            }
        }
        Ok(Reading {
            conversations: vec![reader.conversation],
            problems: reader.problems,
            dialect: Some(Dialect::Anthropic),
            model: reader.model,
            session_id: file.session_id,
            ..Reading::default()
        })
    }
}

/// Whether a message has what only Cline puts there.
pub(crate) fn is_marked(message: &Value) -> bool {
    let is_said = |text: &Value| text.as_str().is_some_and(|text| is_added(text) || is_result(text));
    let content = &message["content"];
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    let mut texts = blocks.iter().map(|block| &block["text"]).chain([content]);
    message["role"] == "user" && texts.any(is_said)
}

fn is_added(text: &str) -> bool {
    ADDED.iter().any(|start| text.starts_with(start))
}

/// `[execute_command for 'ls'] Result:`, at the beginning of a line that is all of it.
fn is_result(text: &str) -> bool {
    let line = text.lines().next().unwrap_or("");
    let inside = line.strip_prefix('[').and_then(|line| line.split_once("] Result:"));
    inside.is_some_and(|(call, _)| call.starts_with(|first: char| first.is_ascii_lowercase()))
}

struct Reader<'a> {
    places: Places<'a>,
    conversation: Conversation,
    problems: Vec<Problem>,
    model: Option<Text>,
    document: Document<'a>,
}

impl<'a> Reader<'a> {
    fn new(document: Document<'a>, bytes: &'a [u8]) -> Self {
        Self {
            places: Places::new(bytes, document.clone()),
            conversation: Conversation::new(),
            problems: Vec::new(),
            model: None,
            document,
        }
    }

    fn push(&mut self, item: Item, place: FilePlace) {
        self.conversation.push(of_recording(item), place);
    }

    fn message(&mut self, index: usize, message: Message<'a>, place: FilePlace) {
        let mut parts = match read_blocks(message.content) {
            Ok(content) => content.parts,
            Err(_) => {
                let fault = self.document.read_piece::<Vec<&RawValue>>(message.content).err();
                return self.problems.extend(fault);
            }
        };
        parts.iter_mut().for_each(understand_result);
        let id = message.id.map_or_else(|| format!("m{index}"), |id| id.to_string());
        let created_at = message.ts.map(time_of_millis);
        let metadata = message.metadata.unwrap_or_default();
        if metadata.kind.as_deref() == Some(SUMMARY_KIND) {
            let item = Item { created_at, ..Item::new(id, ItemKind::Context, parts) };
            return self.put_in(item, &metadata, place);
        }
        let items = match &*message.role {
            "assistant" => items_of_blocks(&id, ItemKind::Assistant, parts),
            "user" => user_items(&id, parts),
            _ => items_of_blocks(&id, ItemKind::Context, parts),
        };
        self.model = message.model.and_then(|model| model.id).or_else(|| self.model.take());
        let mut usage = message.metrics.map(|metrics| metrics.usage());
        for mut item in items {
            item.created_at = created_at;
            item.usage = if item.kind == ItemKind::Assistant { usage.take() } else { None };
            match is_notice(&item) {
                true => self.put_in(item, &metadata, place),
                false => self.push(item, place),
            }
        }
    }

    /// Something that a compaction put in, for a past that the file does not have.
    fn put_in(&mut self, item: Item, metadata: &Metadata, place: FilePlace) {
        let tokens_before = metadata.tokens_before.map(Tokens).unwrap_or_default();
        let mut summary = found_summary(item, BY, metadata.messages_removed.unwrap_or(0), tokens_before);
        summary.created_at = summary.created_at.or(metadata.generated_at.map(time_of_millis));
        self.push(summary, place);
    }
}

fn is_notice(item: &Item) -> bool {
    item.kind == ItemKind::Context
        && matches!(&item.parts[..], [Part::Text(text)] if text.starts_with(COMPACTED_NOTICE))
}

/// A user message as items: results, then what was said and what was added, each on its own.
fn user_items(id: &str, parts: Vec<Part>) -> Vec<Item> {
    let starts_with_result = matches!(parts.first(), Some(Part::Text(text)) if is_result(text));
    let kind_of = |part: &Part| match part {
        Part::ToolResult(_) => ItemKind::Tool,
        _ if starts_with_result => ItemKind::Context,
        _ => attributed(Item::new("", ItemKind::User, vec![part.clone()])).kind,
    };
    let (results, others): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| kind_of(part) == ItemKind::Tool);
    let mut items: Vec<Item> = items_of_blocks(id, ItemKind::Tool, results);
    for part in others {
        let kind = kind_of(&part);
        match items.last_mut() {
            Some(last) if last.kind == kind && kind == ItemKind::User => last.parts.push(part),
            _ => {
                let own_id = if items.is_empty() { id.to_owned() } else { format!("{id}-{}", items.len()) };
                items.push(Item::new(own_id, kind, vec![part]));
            }
        }
    }
    items
}

/// Cline's own tools answer with objects `{query, result, success}`, alone or in a list.
fn understand_result(part: &mut Part) {
    #[derive(Deserialize)]
    struct Outcome {
        success: bool,
    }
    let Part::ToolResult(ToolResult { content, is_error, .. }) = part else { return };
    for piece in content {
        let own = match piece {
            ResultPart::Opaque(opaque) => opaque.json.as_str(),
            ResultPart::Text(text) if text.starts_with('{') => text,
            _ => continue,
        };
        let Ok(Outcome { success }) = serde_json::from_str(own) else { continue };
        *is_error |= !success;
        if let ResultPart::Opaque(opaque) = piece {
            *piece = ResultPart::Structured(opaque.json.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foldback_core::EstimatingCounter;

    use super::*;

    fn kinds(reading: &Reading) -> Vec<ItemKind> {
        reading.conversations[0].recorded().iter().map(|recorded| recorded.item.kind).collect()
    }

    #[test]
    fn a_summary_stands_for_a_past_that_the_file_does_not_have() {
        let text = r#"{"version":1,"updated_at":"x","agent":"lead","system_prompt":"be brief","messages":[
            {"role":"user","content":[{"type":"text","text":"Context summary:\n\nall of it"}],
             "metadata":{"kind":"compaction_summary","tokensBefore":21919,"generatedAt":1784245216178}},
            {"id":"a","role":"user","content":[{"type":"text","text":"hello"}],"ts":1783463091542}]}"#;
        let reading = Cline.read(text.as_bytes()).unwrap();
        let conversation = &reading.conversations[0];
        assert_eq!(conversation.history().count(), 3);
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), None);
        let view = conversation.view_of(&transcript);
        let seen: Vec<&str> = view.items().map(|item| item.id.as_str()).collect();
        assert_eq!(seen, ["system", "m0", "a"]);
        let summary = view.items().find_map(|item| item.summary.as_ref()).unwrap();
        assert_eq!(summary.tokens_before, Tokens(21919));
    }

    #[test]
    fn what_cline_adds_to_a_task_is_context() {
        let text = r#"[{"role":"user","content":[{"type":"text","text":"<task>\nfix\n</task>"},
               {"type":"text","text":"<environment_details>\nx\n</environment_details>"}]},
            {"role":"assistant","content":[{"type":"text","text":"<read_file><path>a</path></read_file>"}]},
            {"role":"user","content":[{"type":"text","text":"[read_file for 'a'] Result:"},{"type":"text","text":"1 | x"}]}]"#;
        let reading = Cline.read(text.as_bytes()).unwrap();
        use ItemKind::{Assistant, Context, User};
        assert_eq!(kinds(&reading), [User, Context, Assistant, Context, Context]);
    }

    #[test]
    fn a_message_that_is_not_understood_is_a_problem_on_its_line() {
        let text = "[{\"role\":\"user\",\"content\":\"a\"},\n{\"role\":\"user\"},\n{\"role\":\"user\",\"content\":{}}]";
        let reading = Cline.read(text.as_bytes()).unwrap();
        let lines: Vec<usize> = reading.problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
