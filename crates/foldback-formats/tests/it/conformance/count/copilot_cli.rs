//! Events of Copilot CLI: the main conversation, then those of sub-agents by name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Counts, records};

#[derive(Default)]
struct Tally {
    items: usize,
    calls: Vec<String>,
    results: Vec<String>,
    instructions: Option<String>,
}

pub(crate) fn count(bytes: &[u8]) -> Vec<Counts> {
    let records = records(bytes);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let copies: BTreeSet<String> = records
        .iter()
        .filter_map(|record| record["data"]["foldback"]["copies"].as_array())
        .flat_map(|ids| ids.iter().map(text))
        .collect();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::from([(String::new(), Tally::default())]);
    for record in records.iter().filter(|record| !copies.contains(record["id"].as_str().unwrap_or(""))) {
        let data = &record["data"];
        let agent = record["agentId"].as_str().or(data["parentToolCallId"].as_str()).unwrap_or("");
        let has = |name: &str| data[name].as_str().is_some_and(|text| !text.is_empty());
        let kind = text(&record["type"]);
        if !["message", "notification", "execution_complete"]
            .iter()
            .any(|end| kind.ends_with(&format!(".{end}")))
        {
            continue;
        }
        let tally = tallies.entry(agent.to_owned()).or_default();
        match &*kind {
            "system.message" if data["role"] != "developer" => {}
            "system.message" if tally.instructions == Some(text(&data["content"])) => {}
            "system.message" => {
                tally.instructions = Some(text(&data["content"]));
                tally.items += 1;
            }
            "system.notification" => tally.items += 1,
            "user.message" => {
                let is_attached = data["attachments"].as_array().is_some_and(|all| !all.is_empty());
                tally.items += usize::from(has("content") || has("transformedContent") || is_attached);
            }
            "assistant.message" => {
                let requests = data["toolRequests"].as_array().cloned().unwrap_or_default();
                let is_said = ["content", "reasoningText", "reasoningOpaque"].into_iter().any(has);
                tally.items += usize::from(is_said || !requests.is_empty());
                tally.calls.extend(requests.iter().map(|request| text(&request["toolCallId"])));
            }
            "tool.execution_complete" => {
                tally.items += 1;
                tally.results.push(text(&data["toolCallId"]));
            }
            _ => {}
        }
    }
    tallies.into_values().map(|tally| Counts::new(tally.items, &tally.calls, &tally.results)).collect()
}
