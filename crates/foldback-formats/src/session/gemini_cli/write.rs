//! Items as messages of Gemini CLI.

use std::collections::HashMap;

use foldback_core::{Item, ItemKind, Json, Part, Text, ToolCall, ToolResult, Usage};
use serde::Serialize;

use super::message::thought_of;
use crate::conversation::Sent;
use crate::dialect::gemini::content::write_user_parts;
use crate::dialect::gemini::{lost_beside_results, part, response, write_results};
use crate::format::Loss;
use crate::new_ids::NewIds;
use crate::rfc3339;

/// A message as JSON.
#[derive(Debug)]
pub(super) struct WrittenMessage {
    pub(super) json: String,
    /// Its id, for each of its items with where that stands in the view.
    pub(super) copies: Vec<(Text, usize)>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: &'static str,
    content: Json,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    thoughts: Vec<WrittenThought<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<WrittenTokens>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WrittenCall<'a>>,
}

#[derive(Serialize)]
struct WrittenThought<'a> {
    subject: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
}

#[derive(Serialize)]
struct WrittenTokens {
    input: u64,
    output: u64,
    cached: u64,
    thoughts: u64,
    tool: u64,
    total: u64,
}

#[derive(Serialize)]
struct WrittenCall<'a> {
    id: &'a str,
    name: &'a str,
    args: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Vec<Json>>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
}

/// The messages of these items, and what they cannot hold.
pub(super) fn messages(items: &[Sent]) -> (Vec<WrittenMessage>, Vec<Loss>) {
    let (mut messages, mut losses) = (Vec::new(), Vec::new());
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut index = 0;
    while let Some(item) = items.get(index) {
        let first = index;
        index += 1;
        names.extend(item.calls().map(|(_, call)| (&*call.id, &*call.name)));
        let message = match item.kind {
            ItemKind::System | ItemKind::Developer => {
                let what = "instructions: Gemini CLI sends its own".to_owned();
                losses.push(Loss { item_id: item.id.clone(), what });
                continue;
            }
            ItemKind::Assistant => {
                let results = results_after(item, &items[index..]);
                index += results.item_count;
                answer(item, &results.results, &mut losses)
            }
            // Results that do not directly follow their calls in order stand by themselves.
            ItemKind::Tool => {
                let lost = lost_beside_results(item).into_iter();
                losses.extend(lost.map(|what| Loss { item_id: item.id.clone(), what }));
                from_user(item, &write_results(item, &names))
            }
            ItemKind::User | ItemKind::Context | ItemKind::Notification => {
                let (entries, lost) = write_user_parts(item);
                losses.extend(lost.into_iter().map(|what| Loss { item_id: item.id.clone(), what }));
                from_user(item, &entries)
            }
        };
        messages.extend(message.map(|json| {
            let copies = items[first..index].iter().map(|one| (Text::from(&*item.id), one.position));
            WrittenMessage { json, copies: copies.collect() }
        }));
    }
    (messages, losses)
}

struct Following<'a> {
    results: Vec<&'a ToolResult>,
    item_count: usize,
}

/// The results directly behind an item that answer its calls in their order.
fn results_after<'a>(item: &Item, items: &'a [Sent]) -> Following<'a> {
    let mut following = Following { results: Vec::new(), item_count: 0 };
    let mut calls = item.calls().map(|(_, call)| &call.id);
    for tool in items.iter().take_while(|item| item.kind == ItemKind::Tool) {
        let answers_next = |result: &ToolResult| calls.by_ref().any(|id| *id == result.call_id);
        let is_only_results = tool.results().count() == tool.parts.len();
        if !is_only_results || !tool.results().map(|(_, result)| result).all(answers_next) {
            break;
        }
        following.results.extend(tool.results().map(|(_, result)| result));
        following.item_count += 1;
    }
    following
}

fn from_user(item: &Item, entries: &[String]) -> Option<String> {
    let content = Json::parse(format!("[{}]", entries.join(","))).ok()?;
    (!entries.is_empty()).then(|| written(item, "user", content, Vec::new(), Vec::new()))
}

fn answer(item: &Item, results: &[&ToolResult], losses: &mut Vec<Loss>) -> Option<String> {
    let is_thought = |part: &&Part| matches!(part, Part::Reasoning(reasoning) if !reasoning.is_sealed());
    let thought_count = item.parts.iter().take_while(is_thought).count();
    let (thoughts, rest) = item.parts.split_at(thought_count);
    let timestamp = item.created_at.map(rfc3339::print);
    let thoughts = thoughts.iter().filter_map(|part| {
        let Part::Reasoning(reasoning) = part else { return None };
        let (subject, description) = thought_of(&reasoning.text);
        Some(WrittenThought { subject, description, timestamp: timestamp.clone() })
    });
    let result_of = |call: &ToolCall| results.iter().find(|result| result.call_id == call.id);
    let calls = item.calls().map(|(_, call)| {
        let result = result_of(call);
        let response = result.map(|result| {
            let response = response::write(&call.id, &call.name, &result.content, result.is_error);
            format!("{{\"functionResponse\":{response}}}")
        });
        WrittenCall {
            id: &call.id,
            name: &call.name,
            args: part::arguments(call),
            result: response.and_then(|response| Json::parse(response).ok()).map(|response| vec![response]),
            status: match result {
                Some(result) if result.is_error => "error",
                Some(_) => "success",
                None => "executing",
            },
            timestamp: timestamp.clone(),
        }
    });
    let content = said(item, rest, losses)?;
    let message = (!item.parts.is_empty()).then(|| (thoughts.collect(), calls.collect()));
    message.map(|(thoughts, calls)| written(item, "gemini", content, thoughts, calls))
}

/// The `content` of an answer: a text where the calls simply follow it, else a list of all parts.
fn said(item: &Item, parts: &[Part], losses: &mut Vec<Loss>) -> Option<Json> {
    let is_plain = |part: &Part| matches!(part, Part::ToolCall(call) if call.signature.is_none());
    match parts {
        [Part::Text(text), calls @ ..] if !text.is_empty() && calls.iter().all(is_plain) => {
            return Some(Json::from_value(&serde_json::Value::from(&**text)));
        }
        calls if calls.iter().all(is_plain) => return Json::parse("\"\"").ok(),
        _ => {}
    }
    let mut entries = Vec::new();
    for part in parts {
        let written = part::write(part, None);
        entries.extend(written.json);
        losses.extend(written.lost.map(|what| Loss { item_id: item.id.clone(), what }));
    }
    Json::parse(format!("[{}]", entries.join(","))).ok()
}

fn written(
    item: &Item,
    kind: &'static str,
    content: Json,
    thoughts: Vec<WrittenThought<'_>>,
    tool_calls: Vec<WrittenCall<'_>>,
) -> String {
    let timestamp = item.created_at.map(rfc3339::print);
    let tokens = item.usage.as_ref().map(tokens_of);
    let message = Written { id: &item.id, timestamp, kind, content, thoughts, tokens, tool_calls };
    part::json(&message)
}

fn tokens_of(usage: &Usage) -> WrittenTokens {
    WrittenTokens {
        input: usage.prompt_tokens().0,
        output: usage.output_tokens.saturating_sub(usage.reasoning_tokens).0,
        cached: usage.cached_tokens.0,
        thoughts: usage.reasoning_tokens.0,
        tool: 0,
        total: usage.context_tokens().0,
    }
}

/// The messages as a JSON list, one on each line.
pub(super) fn list(messages: &[WrittenMessage]) -> String {
    let messages: Vec<&str> = messages.iter().map(|message| message.json.as_str()).collect();
    format!("[\n{}\n]", messages.join(",\n"))
}

/// A session file of its own.
pub(super) fn file(messages: &[WrittenMessage], items: &[Sent]) -> Vec<u8> {
    let list = list(messages);
    let mut ids = NewIds::for_file(list.as_bytes());
    let times = || items.iter().filter_map(|item| item.created_at);
    let start = rfc3339::print(times().min().unwrap_or(foldback_core::Timestamp(0)));
    let end = rfc3339::print(times().max().unwrap_or(foldback_core::Timestamp(0)));
    let (session_id, project_hash) = (ids.uuid(), format!("{}{}", ids.hex(32), ids.hex(32)));
    format!(
        "{{\n\"sessionId\": \"{session_id}\",\n\"projectHash\": \"{project_hash}\",\n\"startTime\": \"{start}\",\n\
         \"lastUpdated\": \"{end}\",\n\"messages\": {list}\n}}\n"
    )
    .into_bytes()
}
