//! What the model is to see, as Claude Code takes it from a module that answers a compaction.
//!
//! Claude Code writes these messages behind a boundary of its own. A message that is one of its own is named
//! by its handle, the uuid of its record. Only prompts are: what was copied with its tools drags the
//! conversation before the boundary along when the session is resumed. Thinking stays behind: its signature
//! holds only behind what it was signed with.

use foldback_core::reading::text_of;
use foldback_core::{ItemKind, Part, ToolCall, ToolInput, ToolResult};
use serde::Serialize;
use serde_json::Value;

use super::record::ATTACHMENT_SOURCE;
use crate::conversation::Sent;
use crate::dialect::anthropic::blocks::json_text;
use crate::lowering::Tag;

/// What stands for a result or a prompt of which nothing is text.
const NO_TEXT: &str = "[no text]";

/// Bytes of a uuid as text.
const UUID_BYTES: usize = 36;

/// A message of Claude Code's modules.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Row {
    Own { handle: String },
    Written(Written),
}

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    role: &'static str,
    text: String,
    tool_uses: Vec<ToolUse>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_results: Vec<Answered>,
}

#[derive(Debug, PartialEq, Serialize)]
struct ToolUse {
    tool_use_id: String,
    tool: String,
    input: Value,
}

#[derive(Debug, PartialEq, Serialize)]
struct Answered {
    tool_use_id: String,
    text: String,
    #[serde(rename = "isError")]
    is_error: bool,
}

/// The messages as a JSON list.
pub(crate) fn rows(sent: &[Sent]) -> Vec<u8> {
    let mut rows: Vec<Row> = Vec::with_capacity(sent.len());
    for item in sent {
        match item.kind {
            ItemKind::Assistant => push_assistant(&mut rows, &item.parts),
            ItemKind::Tool => rows.extend(results(&item.parts).map(|result| {
                Row::Written(Written { role: "user", tool_results: vec![result], ..Written::default() })
            })),
            ItemKind::User if is_own(item) => rows.push(Row::Own { handle: item.id.to_string() }),
            _ => rows.extend(text_row(item)),
        }
    }
    json_text(&rows).into_bytes()
}

/// Whether all of a record is this prompt. Where a record holds results too, the prompt has a name of its own.
fn is_own(item: &Sent) -> bool {
    item.recorded.is_some() && item.summary.is_none() && item.id.len() == UUID_BYTES
}

/// What the model said in one go is one message, in however many records it stands.
fn push_assistant(rows: &mut Vec<Row>, parts: &[Part]) {
    let said = joined(parts.iter().filter(|part| matches!(part, Part::Text(_) | Part::Structured(_))));
    let uses = parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(tool_use(call)),
        _ => None,
    });
    let uses: Vec<ToolUse> = uses.collect();
    if said.is_empty() && uses.is_empty() {
        return;
    }
    match rows.last_mut() {
        Some(Row::Written(last)) if last.role == "assistant" => {
            if !last.text.is_empty() && !said.is_empty() {
                last.text.push('\n');
            }
            last.text.push_str(&said);
            last.tool_uses.extend(uses);
        }
        _ => rows.push(Row::Written(Written {
            role: "assistant",
            text: said,
            tool_uses: uses,
            ..Written::default()
        })),
    }
}

fn tool_use(call: &ToolCall) -> ToolUse {
    let input = match &call.input {
        ToolInput::Json(json) => serde_json::from_str(json.as_str()).unwrap_or_default(),
        ToolInput::Text(text) => {
            Value::Object([("input".to_owned(), Value::from(&**text))].into_iter().collect())
        }
    };
    ToolUse { tool_use_id: call.id.to_string(), tool: call.name.to_string(), input }
}

fn results(parts: &[Part]) -> impl Iterator<Item = Answered> + '_ {
    parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(answered(part, result)),
        _ => None,
    })
}

fn answered(part: &Part, result: &ToolResult) -> Answered {
    let text = text_of(part);
    let text = if text.trim().is_empty() { NO_TEXT.to_owned() } else { text.into_owned() };
    Answered { tool_use_id: result.call_id.to_string(), text, is_error: result.is_error }
}

/// Anything else, as text that says whose it is. Attachments are left to Claude Code, which attaches anew
/// what still holds.
fn text_row(item: &Sent) -> Option<Row> {
    let is_text = |part: &&Part| match part {
        Part::Opaque(opaque) => !opaque.source.starts_with(ATTACHMENT_SOURCE),
        Part::Reasoning(_) => false,
        _ => true,
    };
    let text = joined(item.parts.iter().filter(is_text));
    if text.trim().is_empty() {
        return None;
    }
    let text = match Tag::of(item).filter(|tag| *tag != Tag::Summary) {
        Some(tag) => tag.around(&text),
        None => text,
    };
    Some(Row::Written(Written { role: "user", text, ..Written::default() }))
}

fn joined<'p>(parts: impl Iterator<Item = &'p Part>) -> String {
    parts.map(text_of).collect::<Vec<_>>().join("\n")
}
