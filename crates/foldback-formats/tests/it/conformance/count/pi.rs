//! Follows the parents from the last entry up, and counts what pi shows of the entries on the way.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Counts, records};

pub(crate) fn count(bytes: &[u8]) -> Vec<Counts> {
    let entries: Vec<Value> = records(bytes).into_iter().filter(|entry| entry["type"] != "session").collect();
    let (mut items, mut calls, mut results) = (0, Vec::new(), Vec::new());
    for entry in path(&entries) {
        if entry["foldback"]["copy"] == true {
            continue;
        }
        let message = &entry["message"];
        let has_content = |holder: &Value| match &holder["content"] {
            Value::String(_) => true,
            Value::Array(blocks) => !blocks.is_empty(),
            _ => false,
        };
        let counted = match (entry["type"].as_str().unwrap_or(""), message["role"].as_str().unwrap_or("")) {
            ("message", "toolResult") => {
                results.push(message["toolCallId"].as_str().unwrap_or_default().to_owned());
                true
            }
            ("message", "bashExecution") => message["excludeFromContext"] != true,
            ("message", "user" | "assistant" | "custom" | "hookMessage") => has_content(message),
            ("message", _) => true,
            ("custom_message", _) => has_content(entry),
            ("branch_summary", _) => entry["summary"].as_str().is_some_and(|summary| !summary.is_empty()),
            _ => false,
        };
        items += usize::from(counted);
        let blocks = message["content"].as_array().into_iter().flatten();
        let called = blocks.filter(|block| block["type"] == "toolCall");
        calls.extend(called.map(|block| block["id"].as_str().unwrap_or_default().to_owned()));
    }
    vec![Counts::new(items, &calls, &results)]
}

/// The entries from the root to the last one.
fn path(entries: &[Value]) -> Vec<&Value> {
    if entries.iter().all(|entry| entry["parentId"].is_null()) {
        return entries.iter().collect();
    }
    let by_id: BTreeMap<&str, usize> = entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| Some((entry["id"].as_str()?, index)))
        .collect();
    let mut path = Vec::new();
    let mut next = entries.len().checked_sub(1);
    while let Some(index) = next.filter(|_| path.len() <= entries.len()) {
        path.push(&entries[index]);
        next = match entries[index]["parentId"].as_str() {
            Some(parent) => by_id.get(parent).copied().or(index.checked_sub(1)),
            None => None,
        };
    }
    path.reverse();
    path
}
