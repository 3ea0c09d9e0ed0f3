//! What providers refuse, as their documentation words it. Written apart from foldback-core's dialects, which
//! are tested against it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::Spoken;

/// Marks for the cache that Anthropic takes in one request.
const CACHE_MARKS_MAX: usize = 4;

type Checked = Result<(), String>;

/// The first rule that a request breaks.
pub(super) fn check(spoken: Spoken, body: &Value) -> Checked {
    let Some(messages) = body["messages"].as_array().filter(|messages| !messages.is_empty()) else {
        return Err("messages: at least one message is required".to_owned());
    };
    match spoken {
        Spoken::Messages => check_anthropic(body, messages),
        Spoken::Chat => check_chat(messages),
        Spoken::Responses => Err("this model does not speak Responses".to_owned()),
    }
}

fn check_anthropic(body: &Value, messages: &[Value]) -> Checked {
    for (index, block) in blocks(&body["system"]).iter().enumerate() {
        ensure(!is_blank(&block["text"]), || {
            format!("system.{index}: text content blocks must be non-empty")
        })?;
    }
    let marks = count_cache_marks(body);
    let told = || {
        format!("A maximum of {CACHE_MARKS_MAX} blocks with cache_control may be provided. Found {marks}.")
    };
    ensure(marks <= CACHE_MARKS_MAX, told)?;
    ensure(messages[0]["role"] == "user", || {
        "messages: first message must use the \"user\" role".to_owned()
    })?;
    let mut used = BTreeSet::new();
    for (index, message) in messages.iter().enumerate() {
        check_message(index, message)?;
        let ids = ids(message, "tool_use", "id");
        for id in &ids {
            let told = || format!("messages.{index}: `tool_use` ids must be unique: {id}");
            ensure(!id.is_empty() && used.insert((*id).to_owned()), told)?;
        }
        let answered = messages.get(index + 1).map(|next| self::ids(next, "tool_result", "tool_use_id"));
        check_pairs(index, &ids, &answered.unwrap_or_default())?;
    }
    let orphans = ids(&messages[0], "tool_result", "tool_use_id");
    ensure(orphans.is_empty(), || {
        format!("messages.0: unexpected `tool_use_id` in `tool_result`: {orphans:?}")
    })?;
    let is_prefilled = messages.last().is_some_and(|last| last["role"] == "assistant");
    ensure(!is_prefilled, || "the conversation must end with a user message: no assistant prefill".to_owned())
}

fn check_message(index: usize, message: &Value) -> Checked {
    let role = message["role"].as_str().unwrap_or_default();
    let is_known = matches!(role, "user" | "assistant" | "system");
    ensure(is_known, || format!("messages.{index}: unexpected role {}", message["role"]))?;
    if let Some(text) = message["content"].as_str() {
        return ensure(!text.trim().is_empty(), || format!("messages.{index}: content must be non-empty"));
    }
    let blocks = blocks(&message["content"]);
    ensure(!blocks.is_empty(), || format!("messages.{index}: all messages must have non-empty content"))?;
    let mut is_past_results = false;
    for (place, block) in blocks.iter().enumerate() {
        let told = |what: &str| format!("messages.{index}.content.{place}: {what}");
        let kind = block["type"].as_str().unwrap_or_default();
        match kind {
            "text" => {
                ensure(!is_blank(&block["text"]), || {
                    told("text content blocks must contain non-whitespace text")
                })?;
            }
            "tool_use" => {
                ensure(role == "assistant", || {
                    told("`tool_use` blocks can only be in `assistant` messages")
                })?;
                ensure(block["input"].is_object(), || told("tool_use.input: Input should be an object"))?;
                ensure(!is_blank(&block["name"]), || told("tool_use.name: Field required"))?;
            }
            "tool_result" => {
                ensure(role == "user", || told("`tool_result` blocks can only be in `user` messages"))?;
                ensure(!is_past_results, || told("tool_result blocks must come first in the content"))?;
            }
            "thinking" => {
                ensure(role == "assistant", || {
                    told("`thinking` blocks can only be in `assistant` messages")
                })?;
                ensure(!is_blank(&block["signature"]), || told("thinking.signature: Field required"))?;
            }
            "" => return Err(told("type: Field required")),
            _ => {}
        }
        is_past_results |= kind != "tool_result";
    }
    Ok(())
}

/// Each call of a message is answered once in the next one, and nothing else is.
fn check_pairs(index: usize, called: &[&str], answered: &[&str]) -> Checked {
    let without: Vec<_> = called.iter().filter(|id| !answered.contains(id)).collect();
    let told = || {
        format!(
            "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {without:?}"
        )
    };
    ensure(without.is_empty(), told)?;
    let next = index + 1;
    let orphans: Vec<_> = answered.iter().filter(|id| !called.contains(id)).collect();
    let told =
        || format!("messages.{next}: unexpected `tool_use_id` found in `tool_result` blocks: {orphans:?}");
    ensure(orphans.is_empty(), told)?;
    let distinct: BTreeSet<_> = answered.iter().collect();
    let told = || format!("messages.{next}: each `tool_use` must have a single result: {answered:?}");
    ensure(distinct.len() == answered.len(), told)
}

fn check_chat(messages: &[Value]) -> Checked {
    let is_instruction = |message: &&Value| matches!(message["role"].as_str(), Some("system" | "developer"));
    let first = messages.iter().find(|message| !is_instruction(message));
    let told = || "messages: the first message behind the system prompt must be of the user".to_owned();
    ensure(first.is_some_and(|first| first["role"] == "user"), told)?;
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<String> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let told = |what: &str| format!("messages.[{index}]: {what}");
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let place = waiting.iter().position(|waiting| waiting == id).ok_or_else(|| {
                told("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'")
            })?;
            waiting.remove(place);
            let is_text = message["content"].is_string() || message["content"].is_array();
            ensure(is_text, || told("content of a tool message must be a text or an array"))?;
            continue;
        }
        let unanswered = || format!("tool_call_ids did not have response messages: {waiting:?}");
        ensure(waiting.is_empty(), || told(&unanswered()))?;
        let is_known = matches!(role, "system" | "developer" | "user" | "assistant");
        ensure(is_known, || told(&format!("invalid role {}", message["role"])))?;
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        ensure(calls.is_empty() || role == "assistant", || told("only the assistant calls tools"))?;
        ensure(!calls.is_empty() || has_text(&message["content"]), || told("content must be non-empty"))?;
        for call in calls {
            let id = call["id"].as_str().unwrap_or_default();
            ensure(!id.is_empty() && seen.insert(id.to_owned()), || {
                told(&format!("tool call ids must be unique: {id}"))
            })?;
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let is_object = serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
            ensure(is_object, || told("the arguments of a call must be an object in JSON"))?;
            waiting.push(id.to_owned());
        }
    }
    ensure(waiting.is_empty(), || format!("tool_call_ids did not have response messages: {waiting:?}"))
}

fn ensure(holds: bool, told: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(told()) }
}

fn blocks(content: &Value) -> &[Value] {
    content.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

fn has_text(content: &Value) -> bool {
    let parts = blocks(content);
    !is_blank(content)
        || !parts.is_empty() && parts.iter().all(|part| part["type"] != "text" || !is_blank(&part["text"]))
}

fn ids<'a>(message: &'a Value, kind: &str, field: &str) -> Vec<&'a str> {
    let of_kind = blocks(&message["content"]).iter().filter(|block| block["type"] == kind);
    of_kind.map(|block| block[field].as_str().unwrap_or_default()).collect()
}

/// Tools, the system prompt and messages may carry them. A tool's input may hold anything, and none there.
fn count_cache_marks(body: &Value) -> usize {
    let has = |value: &&Value| value.get("cache_control").is_some_and(|mark| !mark.is_null());
    let of_list = |list: &Value| blocks(list).iter().filter(has).count();
    let of_messages = blocks(&body["messages"]).iter().map(|message| of_list(&message["content"]));
    of_list(&body["tools"]) + of_list(&body["system"]) + of_messages.sum::<usize>()
}
