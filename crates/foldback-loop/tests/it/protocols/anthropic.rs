//! Anthropic's rules for messages, written down here independently, and its answers.

use foldback_testkit::server::{Answer, Request};
use serde_json::{Value, json};

use crate::protocols::server::{Block, PERSON, demand, list_of, text_of};

/// Breakpoints of the cache that a request may have.
const BREAKPOINTS_MAX: usize = 4;

/// What is wrong with a request, if anything.
pub(crate) fn judge(request: &Request, body: &Value, issued: &[Vec<Value>]) -> Result<(), String> {
    demand(request.header("anthropic-version").is_some(), || "no version".to_owned())?;
    demand(body["max_tokens"].as_u64().is_some_and(|tokens| tokens > 0), || "no max_tokens".to_owned())?;
    demand(!list_of(body, "tools").is_empty(), || "no tools are defined".to_owned())?;
    let breakpoints = body.to_string().matches("\"cache_control\"").count();
    demand(breakpoints <= BREAKPOINTS_MAX, || format!("{breakpoints} breakpoints"))?;
    let messages = list_of(body, "messages");
    let role = |index: usize| messages.get(index).map_or("", |message| text_of(message, "role"));
    demand(role(0) == "user", || "the first message is not the user's".to_owned())?;
    demand(role(messages.len() - 1) == "user", || "the last message is not the user's".to_owned())?;
    let newest = messages.iter().rposition(is_the_persons).ok_or("nobody has asked anything")?;
    let mut ids: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let blocks = list_of(message, "content");
        demand(!blocks.is_empty(), || format!("message {index} is empty"))?;
        demand(index == 0 || role(index) != role(index - 1), || format!("message {index} repeats a role"))?;
        match role(index) {
            "user" => {
                let calls = if index == 0 { Vec::new() } else { calls_of(&messages[index - 1]) };
                judge_user(index, blocks, &calls)?;
            }
            "assistant" => {
                judge_assistant(index, blocks, issued)?;
                if index > newest {
                    judge_in_flight(index, blocks, issued)?;
                }
                for id in calls_of(message) {
                    demand(!ids.contains(&id), || format!("message {index} uses the id {id} again"))?;
                    ids.push(id);
                }
            }
            other => return Err(format!("message {index} has the role {other:?}")),
        }
    }
    Ok(())
}

fn is_the_persons(message: &Value) -> bool {
    let said = |block: &Value| text_of(block, "text").starts_with(PERSON);
    text_of(message, "role") == "user" && list_of(message, "content").iter().any(said)
}

fn calls_of(message: &Value) -> Vec<&str> {
    let blocks = list_of(message, "content").iter();
    blocks.filter(|block| block["type"] == "tool_use").map(|block| text_of(block, "id")).collect()
}

/// Results come first and answer each call of the message before, and nothing else.
fn judge_user(index: usize, blocks: &[Value], calls: &[&str]) -> Result<(), String> {
    let mut open = calls.to_vec();
    let mut is_past_results = false;
    for block in blocks {
        match text_of(block, "type") {
            "tool_result" => {
                let id = text_of(block, "tool_use_id");
                demand(!is_past_results, || format!("in message {index} the result of {id} comes too late"))?;
                let place = open.iter().position(|open| *open == id);
                open.remove(place.ok_or_else(|| format!("message {index} answers {id}, which is not open"))?);
                demand(has_content(&block["content"]), || format!("the result of {id} is empty"))?;
            }
            "text" => {
                is_past_results = true;
                demand(!text_of(block, "text").trim().is_empty(), || {
                    format!("blank text in message {index}")
                })?;
            }
            other => return Err(format!("message {index} has a block {other:?}")),
        }
    }
    demand(open.is_empty(), || format!("message {index} does not answer {open:?}"))
}

fn has_content(content: &Value) -> bool {
    match content {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(blocks) => !blocks.is_empty(),
        _ => false,
    }
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

fn judge_assistant(index: usize, blocks: &[Value], issued: &[Vec<Value>]) -> Result<(), String> {
    for block in blocks {
        match text_of(block, "type") {
            "thinking" | "redacted_thinking" => {
                let is_own = issued.iter().flatten().any(|own| own == block);
                demand(is_own, || format!("message {index} has thinking that nobody thought: {block}"))?;
            }
            "text" => {
                demand(!text_of(block, "text").trim().is_empty(), || {
                    format!("blank text in message {index}")
                })?;
            }
            "tool_use" => {
                let id = text_of(block, "id");
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                demand(!id.is_empty() && id.chars().all(is_name), || format!("{id:?} is no id"))?;
                demand(block["input"].is_object(), || format!("the input of {id} is no object: {block}"))?;
            }
            other => return Err(format!("message {index} has a block {other:?}")),
        }
    }
    let last = blocks.last().expect("an empty message was refused");
    demand(!is_thinking(last), || format!("message {index} ends in thinking"))
}

/// In the loop that is running, the thinking of every answer is there as it was, in its order.
fn judge_in_flight(index: usize, blocks: &[Value], issued: &[Vec<Value>]) -> Result<(), String> {
    let is_call = |block: &&Value| block["type"] == "tool_use";
    for call in blocks.iter().filter(is_call) {
        let is_it = |own: &&Vec<Value>| own.iter().any(|own| own["id"] == call["id"]);
        let Some(answer) = issued.iter().find(is_it) else {
            return Err(format!("message {index} has a call that nobody made: {call}"));
        };
        let thought: Vec<&Value> = answer.iter().filter(|block| is_thinking(block)).collect();
        let kept: Vec<&Value> =
            blocks.iter().filter(|block| is_thinking(block) && thought.contains(block)).collect();
        demand(thought == kept, || format!("message {index}: of {thought:?} there is {kept:?}"))?;
        let begins_so = answer.first().is_none_or(|first| !is_thinking(first) || is_thinking(&blocks[0]));
        demand(begins_so, || format!("message {index} does not begin with its thinking"))?;
    }
    Ok(())
}

fn block_of(block: &Block) -> Value {
    match block {
        Block::Thought { text, seal } => json!({"type": "thinking", "thinking": text, "signature": seal}),
        Block::Sealed { data } => json!({"type": "redacted_thinking", "data": data}),
        Block::Said(text) => json!({"type": "text", "text": text}),
        Block::Call { id, arguments } => {
            let input = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            json!({"type": "tool_use", "id": id, "name": "shell", "input": input})
        }
    }
}

/// An answer, and its blocks as they must come back.
pub(crate) fn answer(
    number: usize,
    blocks: &[Block],
    (input, output): (u64, u64),
    is_streamed: bool,
) -> (Vec<Value>, Answer) {
    let content: Vec<Value> = blocks.iter().map(block_of).collect();
    let is_call = |block: &Block| matches!(block, Block::Call { .. });
    let stop_reason = if blocks.iter().any(is_call) { "tool_use" } else { "end_turn" };
    let mut message = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "strict-2",
        "content": content, "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": input, "output_tokens": output},
    });
    if !is_streamed {
        return (content, Answer::json(&message));
    }
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    let mut events = vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    for (index, block) in blocks.iter().enumerate() {
        let (start, deltas) = pieces(block);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    events.push(json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}));
    events.push(json!({"type": "message_stop"}));
    let named = |event: &Value| format!("event: {}\ndata: {event}", text_of(event, "type"));
    (content, Answer::events(events.iter().map(named)))
}

/// How a block begins, and what is then added to it.
fn pieces(block: &Block) -> (Value, Vec<Value>) {
    let halves = |text: &str| {
        let (one, other) = text.split_at(text.len() / 2);
        [one.to_owned(), other.to_owned()]
    };
    match block {
        Block::Thought { text, seal } => {
            let mut deltas: Vec<Value> =
                halves(text).iter().map(|half| json!({"type": "thinking_delta", "thinking": half})).collect();
            deltas.push(json!({"type": "signature_delta", "signature": seal}));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
        }
        Block::Sealed { .. } => (block_of(block), Vec::new()),
        Block::Said(text) => {
            let deltas =
                halves(text).iter().map(|half| json!({"type": "text_delta", "text": half})).collect();
            (json!({"type": "text", "text": ""}), deltas)
        }
        Block::Call { id, arguments } => {
            let deltas = halves(arguments);
            let deltas = deltas.iter().map(|half| json!({"type": "input_json_delta", "partial_json": half}));
            (json!({"type": "tool_use", "id": id, "name": "shell", "input": {}}), deltas.collect())
        }
    }
}
