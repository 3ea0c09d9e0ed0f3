//! What the model is to see, as Claude Code takes it from a module that answers a compaction.
//!
//! Claude Code writes these messages behind a boundary of its own. A message that is one of its own is named
//! by its handle, the uuid of its record. Only prompts are: what was copied with its tools drags the
//! conversation before the boundary along when the session is resumed. Thinking stays behind: its signature
//! holds only behind what it was signed with.

use foldback_core::reading::text_of;
use foldback_core::{ItemKind, Part, Text, ToolCall, ToolInput, ToolResult};
use foldhash::HashSet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{ATTACHMENT_SOURCE, RECORD_TYPE};
use crate::conversation::{Extension, Sent};
use crate::dialect::anthropic::blocks::{Str, json_text};
use crate::format::{Committed, SessionFile};
use crate::jsonl;
use crate::lowering::Tag;

/// Attachments that list what the agent has. Claude Code gives them anew behind a compaction, so that
/// with a copy of the old ones there would be one more of each after every compaction.
const GIVEN_ANEW: [&str; 4] =
    ["agent_listing_delta", "deferred_tools_delta", "mcp_instructions_delta", "skill_listing"];

/// What stands for a result or a prompt of which nothing is text.
const NO_TEXT: &str = "[no text]";

/// Bytes of a uuid as text.
const UUID_BYTES: usize = 36;

/// A message of Claude Code's modules.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// Of a prompt, the record that may stand for it whole. Claude Code does not offer every prompt to its
    /// modules: what was typed while it worked is an attachment. So the text is there as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    role: &'static str,
    text: String,
    tool_uses: Vec<ToolUse>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_results: Vec<Answered>,
    /// Where the items that it shows stand in the view.
    #[serde(skip)]
    positions: Vec<usize>,
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

/// The messages as a JSON list. `like` is the session.
pub(crate) fn messages(sent: &[Sent], like: &SessionFile) -> Vec<u8> {
    json_text(&rows(sent, like)).into_bytes()
}

/// A line of the session that stands before the boundary which Claude Code writes when it is given these
/// messages: it has no field for the record of the compaction. Claude Code passes over lines of other types.
pub(crate) fn record_line(committed: &Committed<'_>, like: &SessionFile) -> Vec<u8> {
    let rows = rows(&committed.sent, like);
    let numbered = rows.iter().enumerate().flat_map(|(number, row)| {
        row.positions.iter().map(move |&position| (Text::from(number.to_string()), position))
    });
    let record = Extension::new(&committed.note, numbered.collect()).json();
    let is_ended = like.bytes().last().is_none_or(|&last| last == b'\n');
    format!("{}{{\"type\":\"{RECORD_TYPE}\",\"foldback\":{record}}}\n", if is_ended { "" } else { "\n" })
        .into_bytes()
}

fn rows(sent: &[Sent], like: &SessionFile) -> Vec<Row> {
    let listings = listings(like.bytes());
    let mut rows: Vec<Row> = Vec::with_capacity(sent.len());
    for item in sent {
        let row_count = rows.len();
        match item.kind {
            ItemKind::Context if item.recorded.is_some() && listings.contains(&*item.id) => {}
            ItemKind::Assistant => push_assistant(&mut rows, &item.parts),
            ItemKind::Tool => {
                let row = |result| Row { role: "user", tool_results: vec![result], ..Row::default() };
                rows.extend(results(&item.parts).map(row));
            }
            _ => rows.extend(text_row(item)),
        }
        let said_on = item.kind == ItemKind::Assistant && rows.len() == row_count;
        let first = if said_on { row_count.saturating_sub(1) } else { row_count };
        rows[first..].iter_mut().for_each(|row| row.positions.push(item.position));
    }
    rows
}

/// The uuids of the records that list what the agent has.
fn listings(session: &[u8]) -> HashSet<String> {
    #[derive(Deserialize)]
    struct Line<'l> {
        #[serde(borrow)]
        uuid: Str<'l>,
        #[serde(borrow)]
        attachment: Attachment<'l>,
    }
    #[derive(Deserialize)]
    struct Attachment<'l> {
        #[serde(borrow, rename = "type")]
        kind: Str<'l>,
    }
    // Records without an attachment are no such line.
    let attached = jsonl::lines(session).filter_map(|line| serde_json::from_slice::<Line<'_>>(line).ok());
    let listing = attached.filter(|line| GIVEN_ANEW.contains(&&*line.attachment.kind));
    listing.map(|line| line.uuid.to_string()).collect()
}

/// The record that is this prompt. Where a record holds results too, the prompt has a name of its own.
fn handle(item: &Sent) -> Option<String> {
    let is_prompt = item.kind == ItemKind::User && item.summary.is_none();
    (is_prompt && item.recorded.is_some() && item.id.len() == UUID_BYTES).then(|| item.id.to_string())
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
        Some(last) if last.role == "assistant" => {
            if !last.text.is_empty() && !said.is_empty() {
                last.text.push('\n');
            }
            last.text.push_str(&said);
            last.tool_uses.extend(uses);
        }
        _ => rows.push(Row { role: "assistant", text: said, tool_uses: uses, ..Row::default() }),
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
    let (handle, text) = (handle(item), joined(item.parts.iter().filter(is_text)));
    let text = match text.trim().is_empty() {
        true if handle.is_none() => return None,
        true => NO_TEXT.to_owned(),
        false => text,
    };
    let text = match Tag::of(item).filter(|tag| *tag != Tag::Summary) {
        Some(tag) => tag.around(&text),
        None => text,
    };
    Some(Row { handle, role: "user", text, ..Row::default() })
}

fn joined<'p>(parts: impl Iterator<Item = &'p Part>) -> String {
    parts.map(text_of).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversation::testing::sent;
    use crate::format::SessionFile;

    const PROMPT: &str = "11111111-1111-4111-8111-111111111111";
    const QUEUED: &str = "22222222-2222-4222-8222-222222222222";

    /// The rows of a session that nobody compacted.
    fn rows_of(records: &[Value]) -> Value {
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        let session = SessionFile::read(lines.join("\n").into_bytes()).unwrap();
        let items: Vec<_> =
            session.conversations()[0].recorded().iter().map(|recorded| recorded.item.clone()).collect();
        serde_json::from_slice(&messages(&sent(&items, Some(&session)), &session)).unwrap()
    }

    fn user(uuid: &str, parent: Option<&str>, content: &Value) -> Value {
        let message = json!({"role": "user", "content": content});
        json!({"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message})
    }

    fn assistant(uuid: &str, parent: &str, block: &Value) -> Value {
        let message = json!({"role": "assistant", "id": "m", "model": "x", "content": [block]});
        json!({"type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message})
    }

    fn attached(uuid: &str, parent: &str, attachment: &Value) -> Value {
        json!({"type": "attachment", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "attachment": attachment})
    }

    #[test]
    fn what_claude_code_gives_anew_is_left_out_and_what_it_does_not_is_told() {
        let rows = rows_of(&[
            user(PROMPT, None, &json!("Fix the parser.")),
            attached("b1", PROMPT, &json!({"type": "skill_listing", "content": "- prune: cuts branches"})),
            attached("b2", "b1", &json!({"type": "agent_listing_delta", "addedLines": ["- gardener: digs"]})),
            attached("b3", "b2", &json!({"type": "edited_text_file", "content": "1: fn main"})),
        ]);
        let told = json!({"role": "user", "text": "<context>\n1: fn main\n</context>", "toolUses": []});
        assert_eq!(rows.as_array().unwrap()[1..], [told]);
    }

    #[test]
    fn every_prompt_is_written_out_beside_its_handle() {
        let queued = json!({"type": "queued_command", "prompt": "and the tests"});
        let rows = rows_of(&[
            user(PROMPT, None, &json!("Fix the parser.")),
            attached(QUEUED, PROMPT, &queued),
            assistant("a", QUEUED, &json!({"type": "text", "text": "Done."})),
        ]);
        let prompt = |handle: &str, text: &str| json!({"handle": handle, "role": "user", "text": text, "toolUses": []});
        let said = json!({"role": "assistant", "text": "Done.", "toolUses": []});
        assert_eq!(rows, json!([prompt(PROMPT, "Fix the parser."), prompt(QUEUED, "and the tests"), said]));
    }

    #[test]
    fn a_message_and_its_calls_are_one_row_without_thinking_and_results_follow() {
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "ls", "input": {"at": id}});
        let result = |id: &str| json!([{"type": "tool_result", "tool_use_id": id, "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}], "is_error": true}]);
        let rows = rows_of(&[
            user(PROMPT, None, &json!("List.")),
            assistant("a1", PROMPT, &json!({"type": "thinking", "thinking": "hm", "signature": "x"})),
            assistant("a2", "a1", &json!({"type": "text", "text": "Two."})),
            assistant("a3", "a2", &call("c1")),
            assistant("a4", "a3", &call("c2")),
            user("r1", Some("a3"), &result("c1")),
            user("r2", Some("a4"), &result("c2")),
        ]);
        let used = |id: &str| json!({"tool_use_id": id, "tool": "ls", "input": {"at": id}});
        let said = json!({"role": "assistant", "text": "Two.", "toolUses": [used("c1"), used("c2")]});
        let answered = |id: &str| {
            let result = json!({"tool_use_id": id, "text": NO_TEXT, "isError": true});
            json!({"role": "user", "text": "", "toolUses": [], "toolResults": [result]})
        };
        let prompt = json!({"handle": PROMPT, "role": "user", "text": "List.", "toolUses": []});
        assert_eq!(rows, json!([prompt, said, answered("c1"), answered("c2")]));
    }
}
