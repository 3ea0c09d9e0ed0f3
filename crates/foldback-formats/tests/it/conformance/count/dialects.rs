//! Requests of providers, one conversation each.

use serde_json::Value;

use super::Counts;

pub(crate) fn anthropic(bytes: &[u8]) -> Vec<Counts> {
    let body: Value = serde_json::from_slice(bytes).expect("the body is JSON");
    let messages = body.as_array().or_else(|| body["messages"].as_array()).expect("the body has messages");
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let system = &body["system"];
    let mut items = usize::from(system.as_str().map_or(system.is_array(), |text| !text.is_empty()));
    for message in messages {
        let Some(blocks) = message["content"].as_array() else {
            items += usize::from(message["content"] != "");
            continue;
        };
        // Tagged texts are items of their own, and so is each run of others between them.
        let is_tagged = |block: &&Value| {
            let text = block["text"].as_str().unwrap_or("");
            ["context", "notification", "conversation_summary"]
                .iter()
                .any(|tag| text.starts_with(&format!("<{tag}>\n")))
        };
        let (answers, others): (Vec<&Value>, Vec<&Value>) =
            blocks.iter().partition(|block| block["type"] == "tool_result");
        let runs = others.chunk_by(|one, next| !is_tagged(one) && !is_tagged(next)).count();
        items += usize::from(!answers.is_empty()) + runs;
        let text = |value: &Value| value.as_str().expect("ids are text").to_owned();
        let called = others.iter().filter(|block| block["type"] == "tool_use");
        calls.extend(called.map(|block| text(&block["id"])));
        results.extend(answers.iter().map(|block| text(&block["tool_use_id"])));
    }
    vec![Counts::new(items, &calls, &results)]
}

pub(crate) fn openai_chat(bytes: &[u8]) -> Vec<Counts> {
    let body: Value = serde_json::from_slice(bytes).expect("a request is JSON");
    let messages = body.as_array().or_else(|| body["messages"].as_array()).expect("messages are a list");
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
    let body: Value = serde_json::from_slice(bytes).expect("a request is JSON");
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

pub(crate) fn gemini(bytes: &[u8]) -> Vec<Counts> {
    let document: Value = serde_json::from_slice(bytes).expect("a fixture or session is JSON");
    let either = |value: &Value, names: [&str; 2]| {
        names.iter().find_map(|name| value.get(name).cloned()).unwrap_or(Value::Null)
    };
    let contents =
        if document.is_array() { document.clone() } else { either(&document, ["contents", "history"]) };
    let has_system = !either(&document, ["systemInstruction", "system_instruction"]).is_null();
    let (mut items, mut calls, mut results) = (usize::from(has_system), Vec::new(), Vec::new());
    let mut open: Vec<(String, String)> = Vec::new();
    for (place, content) in contents.as_array().expect("contents are a list").iter().enumerate() {
        let parts = content["parts"].as_array().cloned().unwrap_or_default();
        let is_model = content["role"] == "model";
        let mut has_response = false;
        for (index, part) in parts.iter().enumerate() {
            let call = either(part, ["functionCall", "function_call"]);
            let name = |value: &Value| value["name"].as_str().unwrap_or("").to_owned();
            if is_model && !call.is_null() {
                let id = call["id"].as_str().map_or_else(|| format!("{place}/{index}"), str::to_owned);
                open.push((id.clone(), name(&call)));
                calls.push(id);
            }
            let response = either(part, ["functionResponse", "function_response"]);
            if !is_model && !response.is_null() {
                has_response = true;
                let id = response["id"].as_str();
                let of_id = open.iter().position(|(call, _)| Some(call.as_str()) == id);
                let of_name = || open.iter().position(|(_, call)| id.is_none() && *call == name(&response));
                let found = of_id.or_else(of_name).map(|index| open.remove(index).0);
                results.push(found.unwrap_or_else(|| format!("unasked {place}/{index}")));
            }
        }
        let is_said = |part: &&Value| {
            let is_response = either(part, ["functionResponse", "function_response"]).is_object();
            part.as_object().is_some_and(|fields| !fields.is_empty()) && (is_model || !is_response)
        };
        let is_summary = |part: &&Value| {
            let text = part["text"].as_str().unwrap_or("").trim();
            text.starts_with("<state_snapshot>") || text.starts_with("<conversation_summary>\n")
        };
        let said: Vec<&Value> = parts.iter().filter(is_said).collect();
        items += usize::from(has_response);
        items += usize::from(!said.is_empty() && (is_model || !said.iter().any(is_summary)));
    }
    vec![Counts::new(items, &calls, &results)]
}
