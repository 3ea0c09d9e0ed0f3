//! Counts messages part by part: a step that says or calls something, each result, and the runs of
//! what the person said and of what was put in between.

use serde_json::Value;

use super::Counts;

const STATE: [&str; 7] = ["step-start", "step-finish", "snapshot", "patch", "retry", "agent", "compaction"];

pub(crate) fn count(bytes: &[u8]) -> Vec<Counts> {
    let export: Value = serde_json::from_slice(bytes).expect("an export is JSON");
    let messages = export["messages"].as_array().expect("an export has messages");
    let mut copies: Vec<&str> = Vec::new();
    for part in messages.iter().flat_map(|message| message["parts"].as_array().into_iter().flatten()) {
        let listed = part["metadata"]["foldback"]["copies"].as_array().into_iter().flatten();
        copies.extend(listed.filter_map(|copy| copy["id"].as_str()));
    }
    let (mut items, mut calls, mut results) = (0, Vec::new(), Vec::new());
    for message in messages {
        let is_copy = message["info"]["id"].as_str().is_some_and(|id| copies.contains(&id));
        let Some(parts) = message["parts"].as_array().filter(|_| !is_copy) else { continue };
        match message["info"]["role"].as_str() {
            Some("assistant") if message["info"]["summary"] == true => {}
            Some("assistant") => items += answer(parts, &mut calls, &mut results),
            Some(_) => items += asked(parts),
            None => {}
        }
    }
    vec![Counts::new(items, &calls, &results)]
}

fn answer(parts: &[Value], calls: &mut Vec<String>, results: &mut Vec<String>) -> usize {
    let mut items = 0;
    for step in parts.split(|part| part["type"] == "step-start") {
        let said = step.iter().filter(|part| {
            let kind = part["type"].as_str().unwrap_or_default();
            !STATE.contains(&kind) && !["file", "subtask"].contains(&kind)
        });
        items += usize::from(said.count() > 0);
        for tool in step.iter().filter(|part| part["type"] == "tool") {
            let id = tool["callID"].as_str().unwrap_or_default().to_owned();
            calls.push(id.clone());
            if ["completed", "error"].contains(&tool["state"]["status"].as_str().unwrap_or_default()) {
                items += 1;
                results.push(id);
            }
        }
    }
    items
}

fn asked(parts: &[Value]) -> usize {
    let kind = |part: &Value| match part["type"].as_str().unwrap_or_default() {
        "text" if part["ignored"] == true => None,
        "text" => Some(if part["synthetic"] == true { "context" } else { "user" }),
        "file" => {
            let is_text = ["text/plain", "application/x-directory"]
                .contains(&part["mime"].as_str().unwrap_or_default());
            (!is_text).then_some("user")
        }
        state if STATE.contains(&state) => None,
        _ => Some("context"),
    };
    let mut kinds: Vec<&str> = parts.iter().filter_map(kind).collect();
    kinds.dedup();
    kinds.len()
}
