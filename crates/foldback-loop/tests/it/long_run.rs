//! Two thousand tool rounds in a window of 16K tokens, judged by what a strict server was sent.
//!
//! The server counts with OpenAI's own vocabulary and checks the messages itself; nothing of
//! foldback's counting or checking is used on its side.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use foldback_backends::{Endpoint, ModelClient, Protocol};
use foldback_core::{Policy, Room, SessionId, Tokens};
use foldback_engine::StrategyCompactor;
use foldback_loop::{Agent, AgentBuilderCompactorExt, AgentEvent, AgentLimits, RecallTool};
use foldback_testkit::server::{Answer, Request, Server};
use serde_json::{Value, json};

use crate::shell::Shell;

const WINDOW: u64 = 16_384;
const ANSWER_TOKENS_MAX: u64 = 1_024;
const ROUNDS: usize = 2_000;
const ROUNDS_PER_TURN: usize = 200;

const CONSTRAINTS: [&str; 3] = [
    "Never edit anything under generated/, not even to fix a typo.",
    "Every public function must keep its #[must_use] attribute.",
    "Use the port 48213 for the test server and no other.",
];

/// What the server has seen.
#[derive(Debug, Default)]
struct Seen {
    round_count: usize,
    request_count: usize,
    faults: Vec<String>,
    rejection_count: usize,
    tokens_most: u64,
    prefix_reset_count: usize,
    messages: Vec<String>,
    counts: HashMap<String, u64>,
    last: Value,
}

impl Seen {
    fn fault(&mut self, what: impl Into<String>) {
        let what = format!("request {}: {}", self.request_count, what.into());
        self.faults.push(what);
    }

    fn count(&mut self, text: &str) -> u64 {
        if let Some(count) = self.counts.get(text) {
            return *count;
        }
        let count = bpe_openai::o200k_base().count(text) as u64;
        self.counts.insert(text.to_owned(), count);
        count
    }

    /// As OpenAI counts a message: its strings, and a few tokens around them.
    fn message_tokens(&mut self, message: &Value) -> u64 {
        let mut tokens = 4;
        let mut strings = Vec::new();
        strings_in(message, &mut strings);
        for text in strings {
            tokens += self.count(&text);
        }
        tokens
    }

    /// The answer to one request.
    fn answer(&mut self, request: &Request) -> Answer {
        self.request_count += 1;
        let body = request.json();
        self.last = body.clone();
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        if let Err(why) = judge(&messages) {
            self.fault(why);
        }
        let tools = body["tools"].to_string();
        let counts: Vec<u64> = messages.iter().map(|message| self.message_tokens(message)).collect();
        let prompt = counts.iter().sum::<u64>() + self.count(&tools);
        let answer_max = body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64()).unwrap_or(0);
        if prompt + answer_max > WINDOW {
            self.rejection_count += 1;
            self.fault(format!("{prompt} tokens and {answer_max} for the answer are over the window"));
            return overflow(prompt + answer_max);
        }
        self.tokens_most = self.tokens_most.max(prompt);
        let cached = self.cached(&messages, &counts);
        self.reply(prompt, cached)
    }

    /// What a prompt cache would have of this request, and whether it had to begin anew.
    fn cached(&mut self, messages: &[Value], counts: &[u64]) -> u64 {
        let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
        let shared = messages.iter().zip(&self.messages).take_while(|(new, old)| new == old).count();
        if shared < self.messages.len() {
            self.prefix_reset_count += 1;
        }
        self.messages = messages;
        counts[..shared].iter().sum()
    }

    fn reply(&mut self, prompt: u64, cached: u64) -> Answer {
        let round = self.round_count;
        let is_turns_end = round > 0 && round.is_multiple_of(ROUNDS_PER_TURN) && !self.is_answered(round);
        let (message, finish) = if is_turns_end {
            let text = format!("Done up to round {round}.");
            (json!({"role": "assistant", "content": text}), "stop")
        } else {
            self.round_count += 1;
            let calls: Vec<Value> = (0..1 + round % 3 / 2).map(|call| tool_call(round, call)).collect();
            let text = format!("Round {round}: looking at module {}.", round % 37);
            (json!({"role": "assistant", "content": text, "tool_calls": calls}), "tool_calls")
        };
        Answer::json(&json!({
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": 40,
                "total_tokens": prompt + 40,
                "prompt_tokens_details": {"cached_tokens": cached}
            }
        }))
    }

    /// Whether the turn that ended at this round was answered already: the newest message is then
    /// the person's.
    fn is_answered(&self, round: usize) -> bool {
        let newest = self.messages.last().map(String::as_str).unwrap_or_default();
        newest.contains(&next_task(round / ROUNDS_PER_TURN))
    }
}

fn next_task(turn: usize) -> String {
    format!("Now go on with part {turn} of the migration.")
}

fn tool_call(round: usize, call: usize) -> Value {
    let command =
        format!("cat src/module_{}/part_{call}.rs && cargo test -p module_{}", round % 37, round % 11);
    json!({
        "id": format!("call_{call}"),
        "type": "function",
        "function": {"name": "shell", "arguments": json!({"command": command, "round": round}).to_string()}
    })
}

fn overflow(tokens: u64) -> Answer {
    let message = format!("This model's maximum context length is {WINDOW} tokens, you requested {tokens}");
    let error = json!({"error": {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}});
    Answer::status(400).json_body(&error)
}

fn strings_in(value: &Value, strings: &mut Vec<String>) {
    match value {
        Value::String(text) => strings.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| strings_in(value, strings)),
        Value::Object(values) => values.values().for_each(|value| strings_in(value, strings)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// OpenAI's rules for chat messages, written down here independently.
fn judge(messages: &[Value]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut is_user_seen = false;
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            return Err(format!("message {index} ({role}) stands before the results of {open:?}"));
        }
        match role {
            "system" | "developer" | "user" => {
                is_user_seen |= role == "user";
                let has_content = match &message["content"] {
                    Value::String(text) => !text.is_empty(),
                    Value::Array(parts) => !parts.is_empty(),
                    _ => false,
                };
                if !has_content {
                    return Err(format!("message {index} ({role}) is empty"));
                }
            }
            "assistant" => {
                if !is_user_seen {
                    return Err(format!("message {index} is an assistant's before any user's"));
                }
                let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
                if calls.is_empty() && !message["content"].is_string() && !message["content"].is_array() {
                    return Err(format!("message {index} says and calls nothing"));
                }
                for call in calls {
                    let id = call["id"].as_str().filter(|id| !id.is_empty());
                    let id = id.ok_or_else(|| format!("a call of message {index} has no id"))?;
                    let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
                    if serde_json::from_str::<Value>(arguments).is_err() {
                        return Err(format!("the arguments of {id} are not JSON: {arguments}"));
                    }
                    if open.contains(&id) {
                        return Err(format!("message {index} uses the id {id} twice"));
                    }
                    open.push(id);
                }
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let place = open.iter().position(|open| *open == id);
                let place =
                    place.ok_or_else(|| format!("message {index} answers {id}, which nobody called"))?;
                open.remove(place);
            }
            other => return Err(format!("message {index} has the role {other:?}")),
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("{open:?} have no results")),
    }
}

/// Its outputs differ: some are long, some fail, some are in another script.
fn shell(input: &Value) -> Result<String, String> {
    let round = input["round"].as_u64().unwrap_or_default();
    if round % 17 == 3 {
        return Err(format!("error[E0{}]: mismatched types in round {round}", 300 + round % 99));
    }
    let line = match round % 5 {
        0 => "移行中のモジュールを確認しました。テストは成功です。",
        1 => "{\"level\":\"info\",\"target\":\"migrate\",\"rows\":1024,\"took_ms\":17}",
        _ => "test parser::tests::accepts_trailing_commas ... ok",
    };
    let lines = if round % 41 == 7 { 300 } else { 6 + round % 24 };
    let output: Vec<String> = (0..lines).map(|n| format!("{n:04} {line}")).collect();
    Ok(output.join("\n"))
}

#[tokio::test]
async fn two_thousand_rounds_stay_valid_within_the_window_and_true_to_the_first_turn() {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let server = Server::unrecorded({
        let seen = Arc::clone(&seen);
        move |request| seen.lock().unwrap().answer(request)
    })
    .await;
    let endpoint = Endpoint::new(&server.url()).unwrap();
    let model = ModelClient::new(endpoint, Protocol::OpenAiChat, "strict").unwrap().whole_answers();
    let policy = Policy::default();
    let room = Room::new(Tokens(WINDOW - ANSWER_TOKENS_MAX)).output_max(Tokens(ANSWER_TOKENS_MAX));
    let budget = policy.budget(room).unwrap();
    let compactor = StrategyCompactor::builder().policy(&policy, room).build().unwrap();
    let events: Arc<Mutex<(usize, Vec<String>)>> = Arc::default();
    let log = Arc::clone(&events);
    let agent = Agent::builder()
        .model(model)
        .tool(Shell::of_input(shell))
        .tool(RecallTool::new())
        .system("You migrate a code base, one module after the other.")
        .compactor(compactor)
        .budget(budget)
        .limits(AgentLimits {
            rounds_max: ROUNDS_PER_TURN + 1,
            answer_tokens_max: Some(Tokens(ANSWER_TOKENS_MAX)),
            ..AgentLimits::default()
        })
        .observer(move |_: &SessionId, event: &AgentEvent| {
            if let AgentEvent::MutationFinished { dirty, failure, .. } = event {
                let mut log = log.lock().unwrap();
                log.0 += usize::from(*dirty);
                log.1.extend(failure.clone());
            }
        })
        .build()
        .unwrap();
    let session = agent.session("long-run");
    let mut task = format!("Migrate the code base to the new parser. {}", CONSTRAINTS.join(" "));
    for turn in 1..=ROUNDS / ROUNDS_PER_TURN {
        session.send(task).await.unwrap();
        task = next_task(turn);
    }
    let seen = seen.lock().unwrap();
    let (compaction_count, failures) = events.lock().unwrap().clone();
    println!(
        "{} rounds, {} requests, {} compactions, {} prefix resets, {} rejections, at most {} of {WINDOW} tokens",
        seen.round_count,
        seen.request_count,
        compaction_count,
        seen.prefix_reset_count,
        seen.rejection_count,
        seen.tokens_most
    );
    assert_eq!(seen.round_count, ROUNDS);
    assert_eq!(seen.faults, Vec::<String>::new());
    assert_eq!(failures, Vec::<String>::new());
    assert!(compaction_count > 10, "the session outgrew its window many times: {compaction_count}");
    assert!(seen.prefix_reset_count <= compaction_count, "only a compaction rewrites the prefix");
    let last = seen.last["messages"].to_string();
    for constraint in CONSTRAINTS {
        assert!(last.contains(constraint), "{constraint} is gone from the last request: {last}");
    }
}
