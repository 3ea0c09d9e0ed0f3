//! The same session as each agent and each provider has it: rounds written behind what a file holds.

mod bodies;
mod claude_code;
mod codex;
mod copilot_cli;
mod gemini_cli;
mod native;
mod opencode;
mod pi;
mod recordings;

use foldback_formats::Format;
use serde_json::{Value, json};

use super::scene::{Answer, Event, Message, Tool};

/// The formats that foldback reads and writes.
pub(super) const WRITTEN: [Format; 11] = [
    Format::Native,
    Format::ClaudeCode,
    Format::Codex,
    Format::Opencode,
    Format::Pi,
    Format::CopilotCli,
    Format::GeminiCli,
    Format::Anthropic,
    Format::OpenaiChat,
    Format::OpenaiResponses,
    Format::Gemini,
];

/// Formats that foldback only reads; these stand for the others of their kind.
pub(super) const ONLY_READ: [Format; 3] = [Format::Cline, Format::Atif, Format::TauBench];

/// How an agent or a client records what happens.
trait Scribe {
    fn asked(&mut self, message: &Message);
    fn answered(&mut self, answer: &Answer);
    /// The agent's own compaction; requests have none.
    fn compacted(&mut self, _summary: &str) {}
    /// All of the file.
    fn file(self) -> Vec<u8>;
}

fn record<S: Scribe>(mut scribe: S, events: &[Event]) -> Vec<u8> {
    for event in events {
        match event {
            Event::Asked(message) => scribe.asked(message),
            Event::Answered(answer) => scribe.answered(answer),
            Event::Compacted(summary) => scribe.compacted(summary),
        }
    }
    scribe.file()
}

/// The file with these events behind what it holds; empty before the first. A recording that is only read
/// is never gone on with.
pub(super) fn with_events(format: Format, file: &[u8], events: &[Event]) -> Vec<u8> {
    match format {
        Format::Native => record(native::Native::behind(file), events),
        Format::ClaudeCode => record(claude_code::ClaudeCode::behind(file), events),
        Format::Codex => record(codex::Codex::behind(file), events),
        Format::Pi => record(pi::Pi::behind(file), events),
        Format::CopilotCli => record(copilot_cli::CopilotCli::behind(file), events),
        Format::GeminiCli => record(gemini_cli::GeminiCli::behind(file), events),
        Format::Opencode => record(opencode::Opencode::behind(file), events),
        Format::Anthropic => record(bodies::Anthropic::behind(file), events),
        Format::OpenaiChat => record(bodies::OpenaiChat::behind(file), events),
        Format::OpenaiResponses => record(bodies::OpenaiResponses::behind(file), events),
        Format::Gemini => record(bodies::Gemini::behind(file), events),
        Format::Cline => record(recordings::Cline::default(), events),
        Format::Atif => record(recordings::Atif::default(), events),
        Format::TauBench => record(recordings::TauBench::default(), events),
        other => unreachable!("nobody writes {other} here"),
    }
}

/// A file of a record in each line, with ids and times for what is written: they go on where it ends.
struct Records {
    file: Vec<u8>,
    serial: usize,
}

impl Records {
    fn behind(file: &[u8]) -> Self {
        let mut file = file.to_vec();
        if !file.is_empty() && !file.ends_with(b"\n") {
            file.push(b'\n');
        }
        Self { serial: file.len(), file }
    }

    fn push(&mut self, record: &Value) {
        self.file.extend(record.to_string().into_bytes());
        self.file.push(b'\n');
    }

    /// The last text of that name in the records of the file.
    fn last(&self, name: &str) -> Value {
        let text = std::str::from_utf8(&self.file).unwrap();
        let records = text.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.map(|record| record[name].clone()).find(Value::is_string).unwrap_or_default()
    }

    fn next(&mut self) -> usize {
        self.serial += 1;
        self.serial
    }

    fn uuid(&mut self) -> Value {
        let serial = self.next();
        format!("{serial:08x}-0000-4000-8000-{serial:012x}").into()
    }

    fn time(&mut self) -> Value {
        let seconds = self.next();
        format!("2026-03-02T{:02}:{:02}:{:02}.000Z", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
            .into()
    }
}

/// How an agent names its tools and their fields.
struct Spelling {
    run: (&'static str, &'static str),
    read: (&'static str, &'static str),
    write: (&'static str, &'static str, &'static str),
    todo: (&'static str, &'static str, &'static str),
    fetch: &'static str,
}

impl Spelling {
    fn call(&self, tool: &Tool) -> (String, Value) {
        let entry = |(index, text): (usize, &String)| {
            let status = if index == 0 { "in_progress" } else { "pending" };
            json!({self.todo.2: text, "status": status, "activeForm": text})
        };
        match tool {
            Tool::Run(command) => (self.run.0.to_owned(), json!({self.run.1: command})),
            Tool::Read(path) => (self.read.0.to_owned(), json!({self.read.1: path})),
            Tool::Write { path, content } => {
                (self.write.0.to_owned(), json!({self.write.1: path, self.write.2: content}))
            }
            Tool::Todo(entries) => {
                let entries: Vec<Value> = entries.iter().enumerate().map(entry).collect();
                (self.todo.0.to_owned(), json!({self.todo.1: entries}))
            }
            Tool::Fetch(url) => (self.fetch.to_owned(), json!({"url": url, "prompt": "what does it say?"})),
            Tool::Other { name, note } => (name.clone(), json!({"note": note})),
        }
    }
}

const CLAUDE: Spelling = Spelling {
    run: ("Bash", "command"),
    read: ("Read", "file_path"),
    write: ("Write", "file_path", "content"),
    todo: ("TodoWrite", "todos", "content"),
    fetch: "WebFetch",
};

const CODEX: Spelling = Spelling {
    run: ("exec_command", "cmd"),
    read: ("read_file", "file_path"),
    write: ("write_file", "path", "content"),
    todo: ("update_plan", "plan", "step"),
    fetch: "web_fetch",
};

const SMALL: Spelling = Spelling {
    run: ("bash", "command"),
    read: ("read", "path"),
    write: ("write", "path", "content"),
    todo: ("todowrite", "todos", "content"),
    fetch: "webfetch",
};

const OPENCODE: Spelling =
    Spelling { read: ("read", "filePath"), write: ("write", "filePath", "content"), ..SMALL };

const GEMINI: Spelling = Spelling {
    run: ("run_shell_command", "command"),
    read: ("read_file", "file_path"),
    write: ("write_file", "file_path", "content"),
    todo: ("write_todos", "todos", "description"),
    fetch: "web_fetch",
};

/// A text that a host put beside the user's, between its tags.
fn reminding(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}
