//! Whatever was recorded between calls and results, the request that is written after a repair is one
//! that the provider takes: its JSON is read here without foldback's own reader (T2).

use std::collections::BTreeSet;
use std::sync::Arc;

use foldback_core::{Dialect, Item, ItemKind, Part, ToolResult, repair};
use foldback_formats::{Format, Sent, write};
use serde_json::{Value, json};

/// Rounds with gaps: `+` and `=` begin calls and results, a word is an item.
const ROUNDS: [&str; 6] =
    ["+x _ =x _", "+x,y _ =x _ =y _", "+x,y _ =y _ =x _", "+x _ +y _ =x _ =y _", "+x _", "+x,y _ =y _"];

fn item(index: usize, word: &str, filling: Option<ItemKind>) -> Option<Item> {
    let id = format!("i{index}");
    let part = |id: &str| match word.starts_with('+') {
        true => Part::call(id, "run", &json!({})),
        false => Part::ToolResult(ToolResult::text(id, "done")),
    };
    match word {
        "_" => filling.map(|kind| Item::text(id, kind, "meanwhile")),
        word => {
            let kind = if word.starts_with('+') { ItemKind::Assistant } else { ItemKind::Tool };
            Some(Item::new(id, kind, word[1..].split(',').map(part).collect()))
        }
    }
}

/// The round with a gap filled, between what the person says.
fn conversation(round: &str, gap: usize, kind: ItemKind) -> Vec<Arc<Item>> {
    let mut gap_index = 0;
    let mut items = vec![Item::user("first", "go")];
    for (index, word) in round.split(' ').enumerate() {
        let filling = (word == "_" && gap_index == gap).then_some(kind);
        gap_index += usize::from(word == "_");
        items.extend(item(index, word, filling));
    }
    items.push(Item::user("last", "and now?"));
    items.into_iter().map(Arc::new).collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The names in these entries of those of one type.
fn names(entries: &[Value], kind: &str, name: &str) -> BTreeSet<String> {
    let of_kind = entries.iter().filter(|entry| entry["type"] == kind);
    of_kind.map(|entry| entry[name].as_str().unwrap().to_owned()).collect()
}

/// What is wrong with a request, as its provider reads it.
fn faults(dialect: Dialect, body: &Value) -> Vec<String> {
    match dialect {
        Dialect::Anthropic => anthropic(list(body, "messages")),
        Dialect::OpenaiChat => openai_chat(list(body, "messages")),
        Dialect::OpenaiResponses => openai_responses(list(body, "input")),
        Dialect::Gemini => gemini(list(body, "contents")),
    }
}

/// The results of a message come first in the next one.
fn anthropic(messages: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let called = names(list(message, "content"), "tool_use", "id");
        let next = messages.get(index + 1).map_or(&[][..], |next| list(next, "content"));
        let first = next.iter().take_while(|block| block["type"] == "tool_result").count();
        let answered = names(&next[..first], "tool_result", "tool_use_id");
        let late = next[first..].iter().any(|block| block["type"] == "tool_result");
        if called != answered || late {
            faults.push(format!("{called:?} is answered with {answered:?}"));
        }
    }
    faults
}

/// The results of a message are the next ones.
fn openai_chat(messages: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut answered_count = 0;
    for (index, message) in messages.iter().enumerate() {
        let calls = list(message, "tool_calls");
        let called: BTreeSet<&str> = calls.iter().filter_map(|call| call["id"].as_str()).collect();
        let results = messages[index + 1..].iter().take_while(|next| next["role"] == "tool");
        let answered: BTreeSet<&str> = results.filter_map(|next| next["tool_call_id"].as_str()).collect();
        if !called.is_empty() {
            answered_count += answered.len();
            if called != answered {
                faults.push(format!("{called:?} is answered with {answered:?}"));
            }
        }
    }
    let result_count = messages.iter().filter(|message| message["role"] == "tool").count();
    if result_count != answered_count {
        faults.push("a result follows no call".to_owned());
    }
    faults
}

/// Every call is answered once, later.
fn openai_responses(input: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, entry) in input.iter().enumerate().filter(|(_, entry)| entry["type"] == "function_call") {
        let is_answer =
            |later: &&Value| later["type"] == "function_call_output" && later["call_id"] == entry["call_id"];
        if input[index..].iter().filter(is_answer).count() != 1 {
            faults.push(format!("{} is not answered once", entry["call_id"]));
        }
    }
    faults
}

/// A message with calls is followed by one with as many responses, and nothing else.
fn gemini(contents: &[Value]) -> Vec<String> {
    let count = |content: &Value, key: &str| {
        list(content, "parts").iter().filter(|part| !part[key].is_null()).count()
    };
    let mut faults = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let call_count = count(content, "functionCall");
        let next = contents.get(index + 1).unwrap_or(&Value::Null);
        if call_count != count(next, "functionResponse") {
            faults.push(format!("{call_count} calls are answered with {next}"));
        }
        if call_count > 0 && list(next, "parts").len() != call_count {
            faults.push(format!("something stands beside the responses: {next}"));
        }
    }
    faults
}

#[test]
fn a_repaired_request_is_one_that_the_provider_takes() {
    for round in ROUNDS {
        for gap in 0..round.matches('_').count() {
            for kind in ItemKind::ALL {
                let items = conversation(round, gap, kind);
                for dialect in Dialect::ALL {
                    let repaired = repair(&items, Some(dialect)).items;
                    let written =
                        write(Format::from(dialect), &Sent::new(repaired), None).unwrap().to_bytes();
                    let body: Value = serde_json::from_slice(&written).unwrap();
                    let found = faults(dialect, &body);
                    assert!(
                        found.is_empty(),
                        "{dialect:?}, {kind} in gap {gap} of {round}: {found:?}\n{body}"
                    );
                }
            }
        }
    }
}
