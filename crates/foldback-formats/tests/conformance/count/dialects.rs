//! Requests of providers, one conversation each.

use serde_json::Value;

use super::Counts;

pub(crate) fn anthropic(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn openai_chat(bytes: &[u8]) -> Vec<Counts> {
    let body: Value = serde_json::from_slice(bytes).unwrap();
    let messages = body.as_array().or_else(|| body["messages"].as_array()).unwrap();
    let (mut calls, mut results, mut items) = (Vec::new(), Vec::new(), 0);
    for message in messages {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let is_known = ["system", "developer", "user", "assistant", "tool", "function"]
            .iter()
            .any(|role| message["role"] == **role);
        let is_result = message["role"] == "tool" || message["role"] == "function";
        let made = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        calls.extend(made.iter().map(|call| text(&call["id"])));
        calls.extend(message.get("function_call").map(|call| text(&call["name"])));
        if is_result {
            results.push(text(message.get("tool_call_id").unwrap_or(&message["name"])));
        }
        let has_content = match &message["content"] {
            Value::Array(parts) => parts.iter().any(|part| part["text"] != ""),
            content => !content.is_null() && content != "",
        };
        let said =
            has_content || ["refusal", "reasoning_content"].iter().any(|name| message[name].is_string());
        let has_calls = !made.is_empty() || message.get("function_call").is_some();
        items += usize::from(!is_known || is_result || said || has_calls);
    }
    vec![Counts::new(items, &calls, &results)]
}

pub(crate) fn openai_responses(bytes: &[u8]) -> Vec<Counts> {
    let body: Value = serde_json::from_slice(bytes).unwrap();
    let has_instructions = body.get("instructions").is_some_and(|instructions| !instructions.is_null());
    let input = body.as_array().or_else(|| body["input"].as_array());
    let mut counted =
        input.map_or_else(|| responses_items(&[Value::from("text")]), |input| responses_items(input));
    counted.items += usize::from(has_instructions);
    vec![counted]
}

/// Input items, as requests and Codex rollouts have them.
pub(crate) fn responses_items(input: &[Value]) -> Counts {
    let (mut calls, mut results, mut items) = (Vec::new(), Vec::new(), 0);
    for item in input {
        let kind = item["type"].as_str().unwrap_or("message");
        if let Some(call_id) = item["call_id"].as_str() {
            calls.extend(kind.ends_with("_call").then(|| call_id.to_owned()));
            results.extend(kind.ends_with("_output").then(|| call_id.to_owned()));
        }
        let is_empty = match &item["content"] {
            Value::Array(parts) => parts.iter().all(|part| part["text"] == ""),
            content => content == "",
        };
        items += usize::from(kind != "message" || !is_empty);
    }
    Counts::new(items, &calls, &results)
}

pub(crate) fn gemini(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}
