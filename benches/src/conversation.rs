//! A conversation that belongs to no library: what every side is given, each in its own types.
//!
//! It is valid (every call is answered directly after it was made), it ends with a finished turn,
//! and its items weigh about 1 KB in the mean.

use serde_json::{Value, json};

use crate::random::Random;
use crate::text::{self, Flavour};

/// One entry of a conversation.
#[derive(Clone, Debug)]
pub(crate) enum Neutral {
    System(String),
    Context(String),
    User(String),
    Assistant { reasoning: Option<String>, text: Option<String>, calls: Vec<NeutralCall> },
    ToolResult { call_id: String, tool_name: String, text: String, outcome: Outcome },
}

/// A request to run a tool.
#[derive(Clone, Debug)]
pub(crate) struct NeutralCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
}

/// Whether a tool did what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure,
}

const TOOLS: &[&str] = &["read_file", "run_command", "search", "edit_file", "list_directory"];

/// Calls that one assistant item makes at most, each answered in an item of its own.
const PARALLEL_CALLS_MAX: usize = 3;
const ROUNDS_MAX: usize = 12;
/// A user item and the answer to it.
const TURN_LEN_MIN: usize = 2;

const CONTEXT_PERCENT: usize = 6;
const REASONING_PERCENT: usize = 60;
const FAILURE_PERCENT: usize = 12;
const CJK_PERCENT: usize = 8;

/// Exactly `item_count` items, at least three. Call ids start with `name`, so that conversations can be joined.
pub(crate) fn conversation(name: &str, seed: u64, item_count: usize) -> Vec<Neutral> {
    assert!(item_count > TURN_LEN_MIN, "a system item and one turn");
    let mut writer = Writer { random: Random::seeded(seed), name, call_count: 0, items: Vec::new() };
    writer.items.push(Neutral::System(text::write(&mut writer.random, Flavour::Prose, 1500)));
    while writer.items.len() < item_count {
        match item_count - writer.items.len() {
            // Three items cannot be filled by turns of two: a context item comes first.
            3 => writer.context(),
            item_count_left if item_count_left > 3 && writer.random.chance(CONTEXT_PERCENT) => {
                writer.context()
            }
            item_count_left => writer.turn(item_count_left),
        }
    }
    assert_eq!(writer.items.len(), item_count, "the last turn is made to fit");
    writer.items
}

struct Writer<'a> {
    random: Random,
    name: &'a str,
    call_count: usize,
    items: Vec<Neutral>,
}

impl Writer<'_> {
    fn context(&mut self) {
        let flavour = self.random.pick(&[&Flavour::Code, &Flavour::Prose, &Flavour::Json]);
        let bytes = self.random.size(400, 3000);
        self.items.push(Neutral::Context(text::write(&mut self.random, *flavour, bytes)));
    }

    /// A user item, some rounds of tool use and the answer, in at most `item_count_max` items, and
    /// so that what is left afterwards is enough for another turn or nothing.
    fn turn(&mut self, item_count_max: usize) {
        let end = self.items.len() + item_count_max;
        let user = self.spoken(150, 1500);
        self.items.push(Neutral::User(user));
        for _ in 0..self.random.below(ROUNDS_MAX + 1) {
            // What is left for other turns if this one ended here: none, or enough for one.
            let item_count_left = end - self.items.len() - 1;
            let call_count = self.random.between(1, PARALLEL_CALLS_MAX);
            match item_count_left.checked_sub(1 + call_count) {
                None | Some(1) => break,
                Some(_) => {}
            }
            self.round(call_count);
        }
        let reasoning = self.reasoning();
        let text = Some(self.spoken(200, 2500));
        self.items.push(Neutral::Assistant { reasoning, text, calls: Vec::new() });
    }

    fn round(&mut self, call_count: usize) {
        let calls: Vec<NeutralCall> = (0..call_count).map(|_| self.call()).collect();
        let reasoning = self.reasoning();
        let text = self.random.chance(50).then(|| self.spoken(40, 400));
        let asked: Vec<(String, String)> =
            calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
        self.items.push(Neutral::Assistant { reasoning, text, calls });
        for (call_id, tool_name) in asked {
            let result = self.result(call_id, tool_name);
            self.items.push(result);
        }
    }

    fn call(&mut self) -> NeutralCall {
        self.call_count += 1;
        let random = &mut self.random;
        let input = match random.below(3) {
            0 => json!({ "path": text::path(random), "offset": random.below(2000), "limit": 200 }),
            1 => json!({ "command": format!("cargo test {} -- --nocapture", text::path(random)) }),
            _ => json!({ "path": text::path(random), "edit": text::record(random) }),
        };
        let name = self.random.pick(TOOLS).to_owned();
        NeutralCall { id: format!("call_{}_{}", self.name, self.call_count), name, input }
    }

    fn result(&mut self, call_id: String, tool_name: String) -> Neutral {
        let random = &mut self.random;
        let (outcome, flavour, bytes) = if random.chance(FAILURE_PERCENT) {
            (Outcome::Failure, &Flavour::Logs, random.size(80, 1000))
        } else {
            let flavour = random.pick(&[&Flavour::Code, &Flavour::Code, &Flavour::Logs, &Flavour::Json]);
            (Outcome::Success, flavour, random.size(150, 4500))
        };
        let text = text::write(random, *flavour, bytes);
        Neutral::ToolResult { call_id, tool_name, text, outcome }
    }

    fn reasoning(&mut self) -> Option<String> {
        let bytes = self.random.size(150, 1500);
        self.random.chance(REASONING_PERCENT).then(|| text::write(&mut self.random, Flavour::Prose, bytes))
    }

    fn spoken(&mut self, low: usize, high: usize) -> String {
        let flavour = if self.random.chance(CJK_PERCENT) { Flavour::Cjk } else { Flavour::Prose };
        let bytes = self.random.size(low, high);
        text::write(&mut self.random, flavour, bytes)
    }
}

/// Bytes of content, names and ids left out.
pub(crate) fn content_bytes(items: &[Neutral]) -> usize {
    let of_item = |item: &Neutral| match item {
        Neutral::System(text) | Neutral::Context(text) | Neutral::User(text) => text.len(),
        Neutral::Assistant { reasoning, text, calls } => {
            let spoken = [reasoning, text].into_iter().flatten().map(String::len).sum::<usize>();
            spoken + calls.iter().map(|call| call.input.to_string().len()).sum::<usize>()
        }
        Neutral::ToolResult { text, .. } => text.len(),
    };
    items.iter().map(of_item).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_answered_directly_after_it() {
        for item_count in (1000..1040).chain([10_000]) {
            let items = conversation("t", item_count as u64, item_count);
            assert_eq!(items.len(), item_count);
            let mut waiting = Vec::<String>::new();
            for item in &items {
                match item {
                    Neutral::ToolResult { call_id, .. } => assert_eq!(&waiting.remove(0), call_id),
                    Neutral::Assistant { calls, .. } => {
                        assert!(waiting.is_empty());
                        waiting.extend(calls.iter().map(|call| call.id.clone()));
                    }
                    Neutral::System(_) | Neutral::Context(_) | Neutral::User(_) => {
                        assert!(waiting.is_empty())
                    }
                }
            }
            assert!(matches!(items.last(), Some(Neutral::Assistant { calls, .. }) if calls.is_empty()));
        }
    }

    #[test]
    fn an_item_weighs_about_a_kilobyte() {
        let items = conversation("t", 1, 10_000);
        let mean = content_bytes(&items) / items.len();
        assert!((900..1300).contains(&mean), "{mean}");
    }

    #[test]
    fn the_same_seed_gives_the_same_conversation() {
        let print = |seed| format!("{:?}", conversation("t", seed, 200));
        assert_eq!(print(7), print(7));
        assert_ne!(print(7), print(8));
    }
}
