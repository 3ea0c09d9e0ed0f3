//! A scripted model for coding agents. It calls the agent's shell tool round after round, then says a final
//! text, and it refuses every request that its provider would refuse.
//!
//! ```
//! use foldback_testkit::server::{Model, Script};
//!
//! let model = Model::start(Script { rounds: 2, ..Script::default() });
//! // An agent that works against `model.url()` now runs two commands. Then:
//! assert_eq!(model.violations(), Vec::<String>::new());
//! ```

mod rules;
mod shell;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::{Answer, Request, Said, Server, Spoken};

/// How the last user message or the system prompt of a request for a summary reads, agent by agent.
const COMPACTION_MARKS: [&str; 3] = [
    // Claude Code
    "CRITICAL: Respond with TEXT ONLY",
    // opencode
    "context summarization agent",
    // pi
    "context summarization assistant",
];

/// What a call without a shell tool is answered with: titles, probes, labels.
const SIDE_TEXT: &str = "Scripted title";

/// What a model does, and how much it takes.
#[derive(Clone, Debug)]
pub struct Script {
    /// Commands that it runs before its final text.
    pub rounds: usize,
    /// Lines that each command prints; see [`Round::output`]. Agents cut off outputs of more than about
    /// 30 000 bytes or 2 000 lines.
    pub lines: usize,
    /// The largest request that is answered, in tokens of messages and system prompt.
    pub window_tokens: usize,
    /// Bytes of JSON that are counted as a token. A smaller figure fills a window with less work.
    pub token_bytes: usize,
    /// What stands in each summary that the agent asks for.
    pub summary: String,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            rounds: 5,
            lines: 20,
            window_tokens: 200_000,
            token_bytes: 4,
            summary: "The scripted summary: rounds were run, nothing is open.".to_owned(),
        }
    }
}

/// One command that the model had run. All its bytes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// From 1, over all prompts.
    pub number: usize,
    lines: usize,
}

impl Round {
    /// What stands in the output of this round and of no other.
    pub fn marker(self) -> String {
        format!("round {:04} line", self.number)
    }

    /// The command, for any POSIX shell with `seq`.
    pub fn command(self) -> String {
        format!("seq -f '{} %06.0f of the work' 1 {}", self.marker(), self.lines)
    }

    /// What the command prints, without the newline at its end.
    pub fn output(self) -> String {
        let lines = (1..=self.lines).map(|line| format!("{} {line:06} of the work", self.marker()));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A step of the work: the shell tool is offered.
    Turn,
    /// The agent asks for a summary of its past.
    Compaction,
    /// Anything else without a shell tool: a title, a probe.
    Side,
    /// Only the tokens are to be counted.
    Count,
    /// No call of a model.
    Other,
}

/// What the provider would say about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is answered.
    Accepted,
    /// It is valid and does not fit the window.
    TooLong,
    /// It breaks a rule of the provider; these are the words of the refusal.
    Invalid(String),
}

/// One request, and what was thought of it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// As it came in.
    pub request: Request,
    /// What it is for.
    pub kind: Kind,
    /// Its body; null if it has none, or none in JSON.
    pub body: Value,
    /// The tokens of its messages and system prompt.
    pub tokens: usize,
    /// Whether it was answered.
    pub verdict: Verdict,
}

impl Asked {
    /// Whether the text stands anywhere in the messages, as JSON writes it between quotes.
    pub fn holds(&self, text: &str) -> bool {
        let quoted = json!(text).to_string();
        self.body["messages"].to_string().contains(quoted.trim_matches('"'))
    }

    /// The names of the tools that it offers.
    pub fn tools(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().into_iter().flatten();
        let names = tools.filter_map(|tool| tool["name"].as_str().or(tool["function"]["name"].as_str()));
        names.map(str::to_owned).collect()
    }

    /// What tools answered, in order, as JSON.
    pub fn results(&self) -> Vec<String> {
        let messages = self.body["messages"].as_array().into_iter().flatten();
        let parts = messages.flat_map(|message| match message["role"].as_str() {
            Some("tool") => vec![message],
            _ => message["content"].as_array().into_iter().flatten().collect(),
        });
        let results = parts.filter(|part| part["role"] == "tool" || part["type"] == "tool_result");
        results.map(|result| result["content"].to_string()).collect()
    }
}

#[derive(Debug)]
struct State {
    script: Script,
    rounds_left: usize,
    rounds: Vec<Round>,
    /// Calls of other tools, and how many there were before them.
    calls: VecDeque<(String, Value)>,
    call_count: usize,
    asked: Vec<Asked>,
}

/// A model that is running, until the program ends.
#[derive(Clone, Debug)]
pub struct Model {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Model {
    /// Starts it on a free port of 127.0.0.1.
    pub fn start(script: Script) -> Self {
        let state = Arc::new(Mutex::new(State::new(script)));
        let of_server = Arc::clone(&state);
        let url = Server::apart(move |request| lock(&of_server).answer(request));
        Self { url, state }
    }

    /// The address, `http://127.0.0.1:PORT`: Anthropic's base URL. OpenAI's has `/v1` behind it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Has it run so many more commands before it says its final text again.
    pub fn add_rounds(&self, count: usize) {
        lock(&self.state).rounds_left += count;
    }

    /// Has it call another tool before anything else.
    pub fn call(&self, tool: &str, input: Value) {
        lock(&self.state).calls.push_back((tool.to_owned(), input));
    }

    /// Every command so far.
    pub fn rounds(&self) -> Vec<Round> {
        lock(&self.state).rounds.clone()
    }

    /// What it says once the rounds so far are done.
    pub fn final_text(&self) -> String {
        lock(&self.state).final_text()
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.state).asked.clone()
    }

    /// The requests of one kind.
    pub fn asked_for(&self, kind: Kind) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.kind == kind).collect()
    }

    /// Each request that the provider would have refused as invalid: its number, what it was for, and the
    /// refusal. Requests that were too long are not among them.
    pub fn violations(&self) -> Vec<String> {
        let state = lock(&self.state);
        let told = |asked: &Asked| match &asked.verdict {
            Verdict::Invalid(reason) => {
                Some(format!("request {} ({:?}): {reason}", asked.request.index, asked.kind))
            }
            Verdict::Accepted | Verdict::TooLong => None,
        };
        state.asked.iter().filter_map(told).collect()
    }
}

/// A poisoned state is still a state: the test that panicked has said why.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn new(script: Script) -> Self {
        Self {
            rounds_left: script.rounds,
            script,
            rounds: Vec::new(),
            calls: VecDeque::new(),
            call_count: 0,
            asked: Vec::new(),
        }
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let is_count = request.path.ends_with("/count_tokens");
        let spoken = if is_count { Some(Spoken::Messages) } else { Spoken::of(request) };
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let bytes = body["messages"].to_string().len() + body["system"].to_string().len();
        let tokens = bytes / self.script.token_bytes;
        let kind = match spoken {
            None => Kind::Other,
            Some(_) if is_count => Kind::Count,
            Some(spoken) => kind(spoken, &body),
        };
        let verdict = match spoken.map_or(Ok(()), |spoken| rules::check(spoken, &body)) {
            Err(reason) => Verdict::Invalid(reason),
            Ok(()) if kind != Kind::Count && tokens > self.script.window_tokens => Verdict::TooLong,
            Ok(()) => Verdict::Accepted,
        };
        let answer = match (spoken, &verdict) {
            (None, _) => Answer::status(404).body("not found"),
            (Some(spoken), Verdict::Invalid(reason)) => spoken.error(400, "invalid_request_error", reason),
            (Some(spoken), Verdict::TooLong) => {
                spoken.overflow(tokens as u64, self.script.window_tokens as u64)
            }
            (Some(_), Verdict::Accepted) if is_count => Answer::json(&json!({"input_tokens": tokens})),
            (Some(spoken), Verdict::Accepted) => self.say(spoken, request, kind, &body, tokens),
        };
        self.asked.push(Asked { request: request.clone(), kind, body, tokens, verdict });
        answer
    }

    fn say(&mut self, spoken: Spoken, request: &Request, kind: Kind, body: &Value, tokens: usize) -> Answer {
        let text = match kind {
            Kind::Turn if !self.calls.is_empty() => return self.call_other(spoken, request, tokens),
            Kind::Turn if self.rounds_left > 0 => {
                return self.call(spoken, request, body, tokens);
            }
            Kind::Turn => self.final_text(),
            // Claude Code wants both tags; the others take all of it.
            Kind::Compaction => {
                format!(
                    "<analysis>\nAs scripted.\n</analysis>\n<summary>\n{}\n</summary>",
                    self.script.summary
                )
            }
            Kind::Side | Kind::Count | Kind::Other => SIDE_TEXT.to_owned(),
        };
        spoken.answer_counted(request, &Said::Text(&text), tokens)
    }

    fn call(&mut self, spoken: Spoken, request: &Request, body: &Value, tokens: usize) -> Answer {
        let round = Round { number: self.rounds.len() + 1, lines: self.script.lines };
        let tool = shell::tool(spoken, body).expect("a turn offers a shell tool");
        let id = call_id(spoken, &format!("{:04}", round.number));
        self.rounds_left -= 1;
        self.rounds.push(round);
        let input = tool.input(&round.command());
        spoken.answer_counted(request, &Said::Call { id: &id, name: &tool.name, input: &input }, tokens)
    }

    fn call_other(&mut self, spoken: Spoken, request: &Request, tokens: usize) -> Answer {
        let (name, input) = self.calls.pop_front().expect("there is a call to make");
        self.call_count += 1;
        let id = call_id(spoken, &format!("other_{}", self.call_count));
        spoken.answer_counted(request, &Said::Call { id: &id, name: &name, input: &input }, tokens)
    }

    fn final_text(&self) -> String {
        format!("The work is done after round {:04}.", self.rounds.len())
    }
}

fn call_id(spoken: Spoken, name: &str) -> String {
    match spoken {
        Spoken::Messages => format!("toolu_{name}"),
        Spoken::Chat | Spoken::Responses => format!("call_{name}"),
    }
}

fn kind(spoken: Spoken, body: &Value) -> Kind {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_instruction = |message: &&Value| matches!(message["role"].as_str(), Some("system" | "developer"));
    let instructions = messages.iter().filter(is_instruction);
    let shown = instructions.chain(messages.last()).chain([&body["system"]]);
    let shown: Vec<String> = shown.map(Value::to_string).collect();
    match () {
        () if COMPACTION_MARKS.iter().any(|mark| shown.iter().any(|text| text.contains(mark))) => {
            Kind::Compaction
        }
        () if shell::tool(spoken, body).is_some() => Kind::Turn,
        () => Kind::Side,
    }
}

#[cfg(test)]
mod tests;
