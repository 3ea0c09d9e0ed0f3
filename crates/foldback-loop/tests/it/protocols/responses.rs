//! OpenAI's rules for the input of Responses, written down here independently, and its answers.

use foldback_testkit::server::{Answer, Request};
use serde_json::{Value, json};

use crate::protocols::server::{Block, PERSON, demand, list_of, text_of};

/// What is wrong with a request, if anything.
pub(crate) fn judge(_request: &Request, body: &Value, issued: &[Vec<Value>]) -> Result<(), String> {
    demand(body["store"] == json!(false), || "the server is asked to remember".to_owned())?;
    let include = list_of(body, "include").contains(&json!("reasoning.encrypted_content"));
    demand(include, || "sealed reasoning is not asked for, so it cannot come back".to_owned())?;
    let is_function = |tool: &Value| tool["type"] == "function" && tool["parameters"].is_object();
    let tools = list_of(body, "tools");
    demand(!tools.is_empty() && tools.iter().all(is_function), || "no functions".to_owned())?;
    let input = list_of(body, "input");
    let newest = input.iter().rposition(is_the_persons).ok_or("nobody has asked anything")?;
    let mut ids: Vec<&str> = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, item) in input.iter().enumerate() {
        let kind = text_of(item, "type");
        let is_between =
            !open.is_empty() && !matches!(kind, "function_call" | "function_call_output" | "reasoning");
        demand(!is_between, || format!("input {index} ({kind}) stands before the outputs of {open:?}"))?;
        match kind {
            "message" => judge_message(index, item)?,
            "reasoning" => judge_reasoning(index, item, input.get(index + 1), issued)?,
            "function_call" => {
                let id = text_of(item, "call_id");
                demand(!id.is_empty() && !ids.contains(&id), || format!("{id:?} is no new call"))?;
                let arguments: Option<Value> = serde_json::from_str(text_of(item, "arguments")).ok();
                let is_object = arguments.is_some_and(|arguments| arguments.is_object());
                demand(is_object, || format!("the arguments of {id} are no object: {item}"))?;
                ids.push(id);
                open.push(id);
                if index > newest {
                    judge_in_flight(id, input, issued)?;
                }
            }
            "function_call_output" => {
                let id = text_of(item, "call_id");
                let place = open.iter().position(|open| *open == id);
                open.remove(place.ok_or_else(|| format!("input {index} answers {id}, which is not open"))?);
                let is_said = !text_of(item, "output").is_empty() || !list_of(item, "output").is_empty();
                demand(is_said, || format!("the output of {id} is empty"))?;
            }
            other => return Err(format!("input {index} is of an unknown type {other:?}: {item}")),
        }
    }
    demand(open.is_empty(), || format!("{open:?} have no outputs"))
}

fn is_the_persons(item: &Value) -> bool {
    let said = |part: &Value| text_of(part, "text").starts_with(PERSON);
    item["role"] == "user" && list_of(item, "content").iter().any(said)
}

fn judge_message(index: usize, message: &Value) -> Result<(), String> {
    let kind = match text_of(message, "role") {
        "user" | "system" | "developer" => "input_text",
        "assistant" => "output_text",
        other => return Err(format!("input {index} has the role {other:?}")),
    };
    let content = list_of(message, "content");
    demand(!content.is_empty(), || format!("input {index} is empty"))?;
    let is_said = |part: &Value| part["type"] == kind && !text_of(part, "text").is_empty();
    demand(content.iter().all(is_said), || format!("input {index} has other content than {kind}: {message}"))
}

/// Whether an item of a request is what the server once put out. Messages and calls lose their ids.
fn is_same(item: &Value, output: &Value) -> bool {
    match text_of(output, "type") {
        "function_call" => item["call_id"] == output["call_id"] && item["type"] == output["type"],
        "message" => {
            let text = |message: &Value| text_of(&message["content"][0], "text").to_owned();
            item["role"] == "assistant" && text(item) == text(output)
        }
        _ => item == output,
    }
}

/// Reasoning is what it was, and what it led to follows it.
fn judge_reasoning(
    index: usize,
    item: &Value,
    next: Option<&Value>,
    issued: &[Vec<Value>],
) -> Result<(), String> {
    let find = |output: &&Vec<Value>| output.iter().any(|own| own == item);
    let output = issued.iter().find(find);
    let output = output.ok_or_else(|| format!("input {index} is reasoning of nobody: {item}"))?;
    let place = output.iter().position(|own| own == item).expect("it was found in it");
    let led_to = output.get(place + 1).expect("no output ends in reasoning");
    demand(next.is_some_and(|next| is_same(next, led_to)), || {
        format!("reasoning {} is not followed by what it led to, {led_to}, but by {next:?}", item["id"])
    })
}

/// In the loop that is running, the reasoning of an answer stands before each of its calls.
fn judge_in_flight(id: &str, input: &[Value], issued: &[Vec<Value>]) -> Result<(), String> {
    let of_call = |output: &&Vec<Value>| output.iter().any(|own| own["call_id"] == *id);
    let Some(output) = issued.iter().find(of_call) else {
        return Err(format!("nobody made the call {id}"));
    };
    let is_reasoning = |item: &&Value| item["type"] == "reasoning";
    let mut missing = output.iter().filter(is_reasoning).filter(|reasoning| !input.contains(reasoning));
    match missing.next() {
        None => Ok(()),
        Some(reasoning) => Err(format!("the call {id} is there without {reasoning}")),
    }
}

fn item_of(number: usize, place: usize, block: &Block) -> Value {
    let name = |kind: &str| format!("{kind}_{number}_{place}");
    match block {
        Block::Thought { text, seal } => {
            let summary = [json!({"type": "summary_text", "text": text})];
            json!({"type": "reasoning", "id": name("rs"), "summary": summary, "encrypted_content": seal})
        }
        Block::Sealed { data } => {
            json!({"type": "reasoning", "id": name("rs"), "summary": [], "encrypted_content": data})
        }
        Block::Said(text) => {
            let part = json!({"type": "output_text", "text": text, "annotations": []});
            json!({
                "type": "message", "id": name("msg"), "role": "assistant", "status": "completed",
                "content": [part],
            })
        }
        Block::Call { id, arguments } => json!({
            "type": "function_call", "id": name("fc"), "call_id": id, "name": "shell",
            "arguments": arguments, "status": "completed",
        }),
    }
}

/// An answer, and its output as it must come back.
pub(crate) fn answer(
    number: usize,
    blocks: &[Block],
    (input, output): (u64, u64),
    is_streamed: bool,
) -> (Vec<Value>, Answer) {
    let items: Vec<Value> =
        blocks.iter().enumerate().map(|(place, block)| item_of(number, place, block)).collect();
    let response = json!({
        "id": format!("resp_{number}"), "object": "response", "model": "strict-2", "status": "completed",
        "output": items,
        "usage": {"input_tokens": input, "output_tokens": output, "total_tokens": input + output},
    });
    if !is_streamed {
        return (items, Answer::json(&response));
    }
    let created = json!({"id": response["id"], "status": "in_progress", "output": []});
    let mut events = vec![json!({"type": "response.created", "response": created})];
    for (index, item) in items.iter().enumerate() {
        events
            .push(json!({"type": "response.output_item.added", "output_index": index, "item": begun(item)}));
        let delta = match text_of(item, "type") {
            "reasoning" => ("response.reasoning_summary_text.delta", text_of(&item["summary"][0], "text")),
            "message" => ("response.output_text.delta", text_of(&item["content"][0], "text")),
            _ => ("response.function_call_arguments.delta", text_of(item, "arguments")),
        };
        events.push(json!({"type": delta.0, "output_index": index, "delta": delta.1}));
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": response}));
    let named = |event: &Value| format!("event: {}\ndata: {event}", text_of(event, "type"));
    (items, Answer::events(events.iter().map(named)))
}

fn begun(item: &Value) -> Value {
    let mut begun = item.clone();
    for (field, empty) in [("content", json!([])), ("arguments", json!("")), ("summary", json!([]))] {
        if begun.get(field).is_some() {
            begun[field] = empty;
        }
    }
    begun
}
