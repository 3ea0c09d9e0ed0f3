//! A server that thinks, speaks and calls tools by a script, and judges every request it is sent.

use std::collections::HashMap;

use foldback_testkit::server::{Answer, Request, Spoken};
use serde_json::{Value, json};

use crate::protocols::{anthropic, responses};

/// What everything the person says begins with; quotations of it begin otherwise.
pub(crate) const PERSON: &str = "PERSON:";

/// What the model holds.
pub(crate) const WINDOW: u64 = 12_288;

/// Rounds with calls in each turn.
pub(crate) const ROUNDS_PER_TURN: usize = 60;

/// The round in which the server claims a smaller window than it has, once.
const REJECTED_ROUND: usize = 25;

/// The window that it claims then.
pub(crate) const WINDOW_CLAIMED: u64 = 9_000;

/// Tokens that are reported for every answer.
const OUTPUT_TOKENS: u64 = 60;

/// Whose protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    Responses,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Block {
    /// Thinking that is shown, and the seal that proves whose it is.
    Thought { text: String, seal: String },
    /// Thinking that is not shown.
    Sealed { data: String },
    /// Text.
    Said(String),
    /// A call of the tool `shell`; what it is given need not be JSON.
    Call { id: String, arguments: String },
}

/// The server's memory.
#[derive(Debug)]
pub(crate) struct Strict {
    wire: Wire,
    /// Every answer, as it stood on the wire.
    issued: Vec<Vec<Value>>,
    pub(crate) faults: Vec<String>,
    pub(crate) round_count: usize,
    pub(crate) request_count: usize,
    pub(crate) overflow_count: usize,
    pub(crate) rejection_count: usize,
    /// Requests that began otherwise than the one before went on.
    pub(crate) reset_count: usize,
    /// Requests that brought thinking back.
    pub(crate) thoughtful_count: usize,
    /// Calls of one answer at most.
    pub(crate) parallel_most: usize,
    is_turn_due: bool,
    entries: Vec<String>,
    counts: HashMap<String, u64>,
}

impl Strict {
    pub(crate) fn new(wire: Wire) -> Self {
        Self {
            wire,
            issued: Vec::new(),
            faults: Vec::new(),
            round_count: 0,
            request_count: 0,
            overflow_count: 0,
            rejection_count: 0,
            reset_count: 0,
            thoughtful_count: 0,
            parallel_most: 0,
            is_turn_due: false,
            entries: Vec::new(),
            counts: HashMap::new(),
        }
    }

    fn spoken(&self) -> Spoken {
        match self.wire {
            Wire::Anthropic => Spoken::Messages,
            Wire::Responses => Spoken::Responses,
        }
    }

    pub(crate) fn answer(&mut self, request: &Request) -> Answer {
        self.request_count += 1;
        let body = request.json();
        let judged = match self.wire {
            Wire::Anthropic => anthropic::judge(request, &body, &self.issued),
            Wire::Responses => responses::judge(request, &body, &self.issued),
        };
        if let Err(why) = judged {
            self.faults.push(format!("request {}: {why}", self.request_count));
            return self.spoken().error(400, "invalid_request_error", &why);
        }
        let (entries, answer_max) = match self.wire {
            Wire::Anthropic => (&body["messages"], body["max_tokens"].as_u64()),
            Wire::Responses => (&body["input"], body["max_output_tokens"].as_u64()),
        };
        let entries: Vec<Value> = entries.as_array().cloned().unwrap_or_default();
        let around = [&body["tools"], &body["system"], &body["instructions"]].map(Value::to_string);
        let tokens = entries.iter().map(|entry| self.tokens(entry) + 4).sum::<u64>()
            + around.iter().map(|text| self.count(text)).sum::<u64>();
        if tokens + answer_max.unwrap_or_default() > WINDOW {
            self.overflow_count += 1;
            return self.spoken().overflow(tokens, WINDOW);
        }
        if self.round_count == REJECTED_ROUND && self.rejection_count == 0 {
            self.rejection_count += 1;
            return self.spoken().overflow(tokens.max(WINDOW_CLAIMED + 1), WINDOW_CLAIMED);
        }
        self.compare(&entries);
        self.reply(&body, tokens)
    }

    fn compare(&mut self, entries: &[Value]) {
        let thinks = |text: &String| text.contains("\"thinking\"") || text.contains("\"reasoning\"");
        let entries: Vec<String> = entries.iter().map(|entry| without_markers(entry).to_string()).collect();
        self.thoughtful_count += usize::from(entries.iter().any(thinks));
        let shared = entries.iter().zip(&self.entries).take_while(|(new, old)| new == old).count();
        self.reset_count += usize::from(shared < self.entries.len());
        self.entries = entries;
    }

    fn reply(&mut self, body: &Value, tokens: u64) -> Answer {
        let blocks = self.next_blocks();
        let calls = blocks.iter().filter(|block| matches!(block, Block::Call { .. })).count();
        self.parallel_most = self.parallel_most.max(calls);
        let is_streamed = body["stream"] == json!(true);
        let (number, usage) = (self.issued.len(), (tokens, OUTPUT_TOKENS));
        let (issued, answer) = match self.wire {
            Wire::Anthropic => anthropic::answer(number, &blocks, usage, is_streamed),
            Wire::Responses => responses::answer(number, &blocks, usage, is_streamed),
        };
        self.issued.push(issued);
        answer
    }

    /// What the model says next.
    fn next_blocks(&mut self) -> Vec<Block> {
        let round = self.round_count;
        let thought = |part: usize| Block::Thought {
            text: format!("Round {round}, thought {part}: module {} comes next.", round % 23),
            seal: format!("seal-{round}-{part}-{}", "0f".repeat(24)),
        };
        if self.is_turn_due {
            self.is_turn_due = false;
            return vec![thought(0), Block::Said(format!("Done up to round {round}."))];
        }
        self.round_count += 1;
        self.is_turn_due = self.round_count.is_multiple_of(ROUNDS_PER_TURN);
        let call = |part: usize| Block::Call {
            id: format!("call_{round}_{part}"),
            arguments: arguments(round, part),
        };
        match round % 5 {
            0 => vec![thought(0), call(0)],
            1 => vec![call(0), call(1), call(2)],
            2 => vec![
                thought(0),
                Block::Said(format!("Round {round}: looking at two files.")),
                call(0),
                thought(1),
                call(1),
            ],
            3 => {
                vec![Block::Sealed { data: format!("hidden-{round}-{}", "a7".repeat(40)) }, call(0), call(1)]
            }
            _ => vec![Block::Said(format!("Round {round}: one more.")), call(0)],
        }
    }

    fn count(&mut self, text: &str) -> u64 {
        if let Some(count) = self.counts.get(text) {
            return *count;
        }
        let count = bpe_openai::o200k_base().count(text) as u64;
        self.counts.insert(text.to_owned(), count);
        count
    }

    fn tokens(&mut self, value: &Value) -> u64 {
        match value {
            Value::String(text) => self.count(text),
            Value::Array(values) => values.iter().map(|value| self.tokens(value)).sum(),
            Value::Object(fields) => fields.values().map(|value| self.tokens(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
    }
}

/// What a call is given: mostly an object, sometimes nothing, sometimes what broke off.
fn arguments(round: usize, part: usize) -> String {
    match (round, part) {
        (7, 0) => String::new(),
        (11, 0) => "{\"command\": \"cat src/mod".to_owned(),
        _ => {
            let command = format!("cat src/module_{}/part_{part}.rs", round % 23);
            json!({"command": command, "round": round}).to_string()
        }
    }
}

/// Breakpoints of the cache move on with each request; they are no part of the prefix.
fn without_markers(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(without_markers).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "cache_control");
            Value::Object(kept.map(|(name, value)| (name.clone(), without_markers(value))).collect())
        }
        other => other.clone(),
    }
}

/// Fails with a reason.
pub(crate) fn demand(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

pub(crate) fn text_of<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

pub(crate) fn list_of<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value[field].as_array().map(Vec::as_slice).unwrap_or_default()
}
