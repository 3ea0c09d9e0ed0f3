//! Requests of providers.

use serde_json::Value;

use super::Counts;

pub(crate) fn anthropic(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn openai_chat(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
}

pub(crate) fn openai_responses(_bytes: &[u8]) -> Vec<Counts> {
    panic!("no independent count yet")
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
