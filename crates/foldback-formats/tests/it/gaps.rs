//! T2, by what is sent: whatever was recorded between calls and results, the JSON of the request is judged
//! here by the rules that providers document, without foldback's own reader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldback_core::{
    CallId, Dialect, Item, ItemKind, Part, Rule, ToolResult, Violation, check, check_request, repair,
};
use foldback_formats::{Format, Sent, write};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

/// Rounds with gaps: `+` and `=` begin calls and results.
const ROUNDS: [&str; 10] = [
    "+x _ =x _",
    "+x,y _ =x _ =y _",
    "+x,y _ =y _ =x _",
    "+x,y _ =x,y _",
    "+x _ +y _ =x _ =y _",
    "+x _",
    "+x,y _ =y _",
    "+x _ +y _",
    "+x _ +y _ =y _",
    "+x _ =x _ +y _",
];

/// What may stand in a gap: every kind, and items of which nothing is sent.
const FILLINGS: [&str; 15] = [
    "",
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "context",
    "notification",
    "user:",
    "assistant:",
    "user:empty",
    "=nobody",
    "user: notification",
    "assistant: context",
    "system user:",
];

/// A word: calls, results, or a kind with a text, without parts or with an empty text.
fn item(index: usize, word: &str) -> Item {
    let id = format!("i{index}");
    if let Some(calls) = word.strip_prefix('+') {
        let calls = calls.split(',').map(|call| Part::call(call, "run", &json!({})));
        return Item::assistant(id, calls.collect());
    }
    if let Some(results) = word.strip_prefix('=') {
        let results = results.split(',').map(|call| Part::ToolResult(ToolResult::text(call, "done")));
        return Item::new(id, ItemKind::Tool, results.collect());
    }
    let (name, text) = word
        .split_once(':')
        .map_or((word, Some("meanwhile")), |(name, rest)| (name, (rest == "empty").then_some("")));
    let kind = ItemKind::ALL.into_iter().find(|kind| kind.as_str() == name).expect("a kind has this name");
    Item::new(id, kind, text.map(Part::text).into_iter().collect())
}

fn items(text: &str) -> Vec<Arc<Item>> {
    text.split_whitespace().enumerate().map(|(index, word)| Arc::new(item(index, word))).collect()
}

/// Rounds with the gaps filled in turn, after what the person said. No two calls share an id.
fn filled(rounds: &[&str], mut fillings: impl Iterator<Item = &'static str>) -> String {
    let mut words = vec!["user".to_owned()];
    for (number, round) in rounds.iter().enumerate() {
        for word in round.split(' ') {
            words.push(match word {
                "_" => fillings.next().unwrap_or_default().to_owned(),
                word => word.replace('x', &format!("x{number}")).replace('y', &format!("y{number}")),
            });
        }
    }
    words.join(" ")
}

fn gaps() -> impl Strategy<Value = String> {
    let rounds = prop::collection::vec(prop::sample::select(ROUNDS.to_vec()), 1..=3);
    let fillings = prop::collection::vec(prop::sample::select(FILLINGS.to_vec()), 12);
    (rounds, fillings).prop_map(|(rounds, fillings)| filled(&rounds, fillings.into_iter()))
}

/// The messages of the request that a dialect's format writes.
fn messages(dialect: Dialect, items: &[Arc<Item>]) -> Vec<Value> {
    let written = write(Format::from(dialect), &Sent::new(items.iter().cloned()), None).unwrap();
    let mut body: Value = serde_json::from_slice(&written.to_bytes()).unwrap();
    let key = match dialect {
        Dialect::Anthropic | Dialect::OpenaiChat => "messages",
        Dialect::OpenaiResponses => "input",
        Dialect::Gemini => "contents",
    };
    serde_json::from_value(body[key].take()).unwrap()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// What is wrong with a request, as its provider reads it.
fn faults(dialect: Dialect, messages: &[Value]) -> Vec<String> {
    match dialect {
        Dialect::Anthropic => anthropic(messages),
        Dialect::OpenaiChat => openai_chat(messages),
        Dialect::OpenaiResponses => openai_responses(messages),
        Dialect::Gemini => gemini(messages),
    }
}

/// The names of the blocks of one type, in order.
fn names(blocks: &[Value], kind: &str, name: &str) -> Vec<String> {
    blocks.iter().filter(|block| block["type"] == kind).map(|block| text_of(block, name)).collect()
}

/// "Tool result blocks must immediately follow their corresponding tool use blocks in the message history",
/// and "the tool_result blocks must come first in the content array".
fn anthropic(messages: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let mut called = names(list(message, "content"), "tool_use", "id");
        let next = messages.get(index + 1).map_or(&[][..], |next| list(next, "content"));
        let first = next.iter().take_while(|block| block["type"] == "tool_result").count();
        let mut answered = names(&next[..first], "tool_result", "tool_use_id");
        called.sort();
        answered.sort();
        if called != answered || !names(&next[first..], "tool_result", "tool_use_id").is_empty() {
            faults.push(format!("{called:?} is answered with {answered:?}"));
        }
    }
    if messages.first().is_some_and(|first| !names(list(first, "content"), "tool_result", "id").is_empty()) {
        faults.push("a result comes first".to_owned());
    }
    faults
}

/// "An assistant message with 'tool_calls' must be followed by tool messages responding to each
/// 'tool_call_id'", and a tool message "must be a response to a preceding message with 'tool_calls'".
fn openai_chat(messages: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = text_of(message, "tool_call_id");
            if !open.remove(&id) {
                faults.push(format!("{id} answers no call of the message before"));
            }
            continue;
        }
        faults.extend(open.iter().map(|id| format!("{id} is not answered")));
        open = list(message, "tool_calls").iter().map(|call| text_of(call, "id")).collect();
    }
    faults.extend(open.iter().map(|id| format!("{id} is not answered")));
    faults
}

/// "No tool output found for function call", and "No tool call found for function call output".
fn openai_responses(input: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut is_answered: BTreeMap<String, bool> = BTreeMap::new();
    for entry in input {
        let id = text_of(entry, "call_id");
        match entry["type"].as_str() {
            Some("function_call") => drop(is_answered.insert(id, false)),
            Some("function_call_output") if is_answered.insert(id.clone(), true) != Some(false) => {
                faults.push(format!("{id} answers no call"));
            }
            _ => {}
        }
    }
    let open = is_answered.into_iter().filter(|(_, is_answered)| !is_answered);
    faults.extend(open.map(|(id, _)| format!("{id} is not answered")));
    faults
}

/// "The number of function response parts is equal to the number of function call parts of the function call
/// turn", and "function response turn comes immediately after a function call turn".
fn gemini(contents: &[Value]) -> Vec<String> {
    let names = |content: &Value, key: &str| -> Vec<String> {
        let parts = list(content, "parts").iter().filter(|part| !part[key].is_null());
        parts.map(|part| text_of(&part[key], "id")).collect()
    };
    let mut faults = Vec::new();
    let mut called: Vec<String> = Vec::new();
    for content in contents {
        let answered = names(content, "functionResponse");
        if called != answered {
            faults.push(format!("{called:?} is answered with {answered:?}"));
        }
        if !answered.is_empty() && list(content, "parts").len() != answered.len() {
            faults.push(format!("something stands beside the responses: {content}"));
        }
        called = names(content, "functionCall");
    }
    if !called.is_empty() {
        faults.push(format!("{called:?} is not answered"));
    }
    faults
}

/// Calls without a result, and whether anything that is sent stands behind them but results and calls of
/// their message: then the messages are others than without it.
fn unanswered(dialect: Dialect, items: &[Arc<Item>]) -> Vec<(CallId, bool)> {
    let ids = |item: &Item| item.results().map(|(_, result)| result.call_id.clone()).collect::<Vec<_>>();
    let answered: BTreeSet<CallId> = items.iter().flat_map(|item| ids(item)).collect();
    let calls = |item: &Item| item.calls().map(|(_, call)| call.id.clone()).collect::<Vec<_>>();
    let called: BTreeSet<CallId> = items.iter().flat_map(|item| calls(item)).collect();
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let (before, behind) = items.split_at(index + 1);
        let is_of_round = |item: &Arc<Item>| !calls(item).is_empty() || !ids(item).is_empty();
        let others = behind.iter().filter(|item| !is_of_round(item)).cloned();
        let with_others: Vec<Arc<Item>> = before.iter().cloned().chain(others).collect();
        let is_followed = messages(dialect, before) != messages(dialect, &with_others);
        let is_over =
            behind.iter().skip_while(|item| ids(item).is_empty()).any(|item| !calls(item).is_empty());
        let has_strays = behind.iter().flat_map(|item| ids(item)).any(|id| !called.contains(&id));
        let open = calls(item).into_iter().filter(|call| !answered.contains(call));
        found.extend(open.map(|call| (call, is_followed || is_over || has_strays)));
    }
    found
}

/// The calls that are said to have no result.
fn named(violations: &[Violation], items: &[Arc<Item>]) -> Vec<CallId> {
    let unanswered = violations.iter().filter(|violation| violation.rule == Rule::UnansweredCall);
    let call = |violation: &Violation| {
        items[violation.item_index].calls().find(|(index, _)| Some(*index) == violation.part_index)
    };
    unanswered.filter_map(call).map(|(_, call)| call.id.clone()).collect()
}

/// The same items with a result for each of these calls at the end.
fn answered(items: &[Arc<Item>], open: &[CallId]) -> Vec<Arc<Item>> {
    let results =
        open.iter().map(|id| Item::tool(format!("late-{id}"), ToolResult::text(id.clone(), "late")));
    items.iter().cloned().chain(results.map(Arc::new)).collect()
}

fn judge(text: &str) -> Result<(), TestCaseError> {
    let items = items(text);
    for dialect in Dialect::ALL {
        let found = check(&items, Some(dialect));
        let written = messages(dialect, &items);
        if check_request(&items, Some(dialect)).is_empty() {
            prop_assert_eq!(faults(dialect, &written), Vec::<String>::new(), "{:?}: {}", dialect, text);
        }
        // Empty text is written as it is; where it is refused, it does not count.
        if !found.iter().any(|violation| violation.rule == Rule::EmptyText) {
            let over = unanswered(dialect, &items).into_iter().filter(|(_, is_over)| *is_over);
            let over: Vec<CallId> = over.map(|(id, _)| id).collect();
            prop_assert_eq!(named(&found, &items), over, "{:?}: {}", dialect, text);
        }
        let repaired = repair(&items, Some(dialect)).items;
        let open = unanswered(dialect, &repaired);
        let waiting: Vec<CallId> = open.iter().map(|(id, _)| id.clone()).collect();
        prop_assert!(open.iter().all(|(_, is_over)| !is_over), "{:?}: {}: {:?}", dialect, text, open);
        // The results of what waits are all that is missing. Gemini counts them in the order of the calls.
        let whole = repair(&answered(&repaired, &waiting), Some(dialect));
        let is_moved = whole.repairs.iter().any(|repair| repair.rule != Rule::ResultOrder);
        prop_assert!(!is_moved, "{:?}: {}: {:?}", dialect, text, whole.repairs);
        let written = messages(dialect, &whole.items);
        let found = faults(dialect, &written);
        prop_assert!(found.is_empty(), "{:?}: {}: {:?}\n{}", dialect, text, found, json!(written));
    }
    Ok(())
}

#[test]
fn a_request_with_every_kind_in_every_gap_is_taken_or_refused_as_its_provider_does() {
    for round in ROUNDS {
        let gap_count = round.matches('_').count();
        for gap in 0..gap_count {
            for filling in FILLINGS {
                let fillings = || (0..gap_count).map(move |index| if index == gap { filling } else { "" });
                let text = filled(&[round], fillings());
                for text in [text.clone(), format!("{text} user"), filled(&[round, "+x"], fillings())] {
                    judge(&text).unwrap();
                }
            }
        }
    }
}

#[test]
fn an_answer_behind_calls_ends_no_message() {
    judge("user +x +y assistant =x context =y").unwrap();
    judge("user +x assistant: +y tool assistant =x notification =y").unwrap();
}

proptest! {
    #![proptest_config(foldback_testkit::costly(4))]

    #[test]
    fn whatever_stands_in_the_gaps_a_request_is_judged_as_its_provider_does(text in gaps()) {
        judge(&text)?;
    }
}
