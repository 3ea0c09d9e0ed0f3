//! Claude Code: the records that lead to the last thing said, and what hangs off them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Counts, records};

pub(crate) fn count(bytes: &[u8]) -> Vec<Counts> {
    let all = records(bytes);
    let is_side = |record: &Value| record["isSidechain"] == true;
    let has_main = all.iter().any(|record| is_said(record) && !is_side(record));
    let mut conversations: Vec<(String, Vec<&Value>)> = Vec::new();
    if has_main {
        conversations.push((String::new(), all.iter().filter(|record| !is_side(record)).collect()));
    }
    let mut agent_of_uuid: BTreeMap<&str, String> = BTreeMap::new();
    for record in all.iter().filter(|record| is_side(record)) {
        let agent = match (record["agentId"].as_str(), record["parentUuid"].as_str()) {
            (Some(agent), _) => agent.to_owned(),
            (None, Some(parent)) if agent_of_uuid.contains_key(parent) => agent_of_uuid[parent].clone(),
            (None, _) => format!("from {}", record["uuid"]),
        };
        agent_of_uuid.insert(record["uuid"].as_str().unwrap_or(""), agent.clone());
        match conversations.iter_mut().find(|(name, _)| *name == agent) {
            Some((_, members)) => members.push(record),
            None => conversations.push((agent, vec![record])),
        }
    }
    conversations.iter().map(|(_, members)| counts(members)).collect()
}

fn is_said(record: &Value) -> bool {
    record["type"] == "user" || record["type"] == "assistant"
}

fn is_boundary(record: &Value) -> bool {
    record["subtype"] == "compact_boundary"
}

fn blocks(record: &Value) -> Vec<&Value> {
    let content = &record["message"]["content"];
    content.as_array().map_or_else(Vec::new, |blocks| blocks.iter().collect())
}

fn ids_in(record: &Value, kind: &str, field: &str) -> Vec<String> {
    let of_kind = blocks(record).into_iter().filter(|block| block["type"] == kind);
    of_kind.filter_map(|block| block[field].as_str().map(str::to_owned)).collect()
}

/// The parent of each record, as a place in the list.
fn parents(members: &[&Value]) -> Vec<Option<usize>> {
    let first_said = members.iter().position(|record| is_said(record)).unwrap_or(0);
    let place_of = |uuid: &Value| {
        members.iter().position(|record| record["uuid"].is_string() && record["uuid"] == *uuid)
    };
    let mut parents = Vec::new();
    for (place, record) in members.iter().enumerate() {
        let named = match (&record["parentUuid"], &record["logicalParentUuid"]) {
            (Value::Null, Value::Null) => None,
            (Value::Null, logical) => place_of(logical),
            (parent, _) => place_of(parent),
        };
        let begins = record.get("parentUuid") == Some(&Value::Null)
            && record["logicalParentUuid"].is_null()
            && !is_boundary(record)
            && place > first_said;
        parents.push(named.or(if begins { None } else { place.checked_sub(1) }));
    }
    parents
}

/// The places of records that the model saw at some time.
fn seen(members: &[&Value]) -> BTreeSet<usize> {
    let parents = parents(members);
    let mut chain = BTreeSet::new();
    let mut next = members.iter().rposition(|record| is_said(record) || is_boundary(record));
    while let Some(place) = next {
        chain.insert(place);
        next = parents[place].filter(|parent| !chain.contains(parent));
    }
    let mut turned_from = BTreeSet::new();
    for (place, record) in members.iter().enumerate() {
        let mut above = parents[place]
            .filter(|_| is_said(record) && ids_in(record, "tool_result", "tool_use_id").is_empty());
        while let Some(ancestor) = above.filter(|&ancestor| turned_from.insert(ancestor)) {
            above = parents[ancestor];
        }
    }
    let mut seen = chain.clone();
    let messages: BTreeSet<&str> =
        chain.iter().filter_map(|&place| members[place]["message"]["id"].as_str()).collect();
    let answers_of = |place: usize| {
        let ids = ids_in(members[place], "tool_result", "tool_use_id").into_iter();
        ids.map(|id| (parents[place], id)).collect::<Vec<_>>()
    };
    let mut answered: BTreeSet<(Option<usize>, String)> =
        chain.iter().flat_map(|&place| answers_of(place)).collect();
    for (place, record) in members.iter().enumerate() {
        if seen.contains(&place) || !parents[place].is_some_and(|parent| seen.contains(&parent)) {
            continue;
        }
        let results = answers_of(place);
        let belongs = if record["type"] == "assistant" {
            record["message"]["id"].as_str().is_some_and(|id| messages.contains(id))
        } else if is_boundary(record) {
            let metadata = &record["compactMetadata"];
            metadata.get("preservedSegment").is_some() || metadata.get("preservedMessages").is_some()
        } else if record["isCompactSummary"] == true {
            parents[place].is_some_and(|parent| is_boundary(members[parent]))
        } else if record["type"] == "user" && record["isMeta"] == true {
            record["sourceToolUseID"].is_string()
        } else if record["type"] == "user" {
            !results.is_empty() && results.iter().all(|answer| !answered.contains(answer))
        } else {
            !turned_from.contains(&place)
        };
        if belongs {
            seen.insert(place);
            answered.extend(results);
        }
    }
    seen
}

fn counts(members: &[&Value]) -> Counts {
    let (mut calls, mut results, mut items) = (Vec::new(), Vec::new(), 0);
    let mut messages: BTreeSet<String> = BTreeSet::new();
    let mut put_in: BTreeSet<&str> = BTreeSet::new();
    for place in seen(members) {
        let record = members[place];
        let copies = record["compactMetadata"]["foldbackCopies"].as_array();
        put_in.extend(copies.into_iter().flatten().filter_map(Value::as_str));
        if is_boundary(record) {
            messages.clear();
        }
        if record["isCompactSummary"] == true
            || record["uuid"].as_str().is_some_and(|uuid| put_in.contains(uuid))
        {
            continue;
        }
        let answers = ids_in(record, "tool_result", "tool_use_id");
        let has_text = record["message"]["content"].as_str().is_some_and(|text| !text.is_empty());
        let has_others = has_text || blocks(record).iter().any(|block| block["type"] != "tool_result");
        match record["type"].as_str() {
            Some("assistant") => {
                let id =
                    record["message"]["id"].as_str().or(record["uuid"].as_str()).unwrap_or("").to_owned();
                items += usize::from(has_others && messages.insert(id));
            }
            Some("user") => items += usize::from(has_others) + usize::from(!answers.is_empty()),
            Some("attachment") => items += usize::from(is_shown(&record["attachment"])),
            _ => {}
        }
        calls.extend(ids_in(record, "tool_use", "id"));
        results.extend(answers);
    }
    Counts::new(items, &calls, &results)
}

/// Whether the model gets something of an attachment.
fn is_shown(attachment: &Value) -> bool {
    let is_blank = |value: &Value| match value {
        Value::String(text) => text.trim().is_empty(),
        Value::Array(list) => {
            list.iter().all(|entry| entry.as_str().is_some_and(|text| text.trim().is_empty()))
        }
        _ => false,
    };
    let given = ["prompt", "content", "addedLines", "addedBlocks"];
    let content = given.iter().find_map(|name| attachment.get(*name));
    let is_hidden = ["command_permissions", "hook_system_message", "hook_cancelled"].iter();
    is_hidden.clone().all(|kind| attachment["type"] != *kind) && !content.is_some_and(is_blank)
}
