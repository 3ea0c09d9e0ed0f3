//! Sessions of Gemini CLI: a list of messages, or a log in which messages are written again.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Counts, records};

pub(crate) fn count(bytes: &[u8]) -> Vec<Counts> {
    let messages = match serde_json::from_slice::<Value>(bytes) {
        Ok(file) => file["messages"].as_array().expect("messages are a list").clone(),
        Err(_) => said(records(bytes)),
    };
    let (mut items, mut calls, mut results) = (0, Vec::new(), Vec::new());
    for message in &messages {
        let content = &message["content"];
        let first = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or("").trim();
        let is_summary = first.starts_with("<state_snapshot>") || first.starts_with("<conversation_summary>");
        let has_content = content.as_array().map_or(!first.is_empty(), |parts| !parts.is_empty());
        if message["type"] == "user" {
            items += usize::from(has_content && !is_summary);
        }
        if message["type"] == "gemini" {
            let of = |name: &str| message[name].as_array().cloned().unwrap_or_default();
            items += usize::from(has_content || !of("thoughts").is_empty() || !of("toolCalls").is_empty());
            let is_answered =
                |call: &&Value| call["result"].as_array().is_some_and(|result| !result.is_empty());
            let id = |call: &Value| call["id"].as_str().expect("calls have ids").to_owned();
            items += usize::from(of("toolCalls").iter().any(|call| is_answered(&call)));
            calls.extend(of("toolCalls").iter().map(id));
            results.extend(of("toolCalls").iter().filter(is_answered).map(id));
        }
    }
    vec![Counts::new(items, &calls, &results)]
}

/// The messages of a log, each in its last form before the list was set anew.
fn said(records: Vec<Value>) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    let mut set: BTreeSet<String> = BTreeSet::new();
    for record in records {
        if let Some(list) = record["$set"]["messages"].as_array() {
            set.extend(
                list.iter().map(|message| message["id"].as_str().expect("messages have ids").to_owned()),
            );
        }
        let Some(id) = record["id"].as_str() else { continue };
        match messages.iter_mut().find(|message| message["id"] == id) {
            _ if set.contains(id) => {}
            Some(message) => *message = record,
            None => messages.push(record),
        }
    }
    messages
}
