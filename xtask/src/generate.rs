//! `cargo xtask generate`: a large Claude Code session, for measuring.
//!
//! Records as the agent writes them: prompts, thinking, text, calls, results and the copy of each
//! result that is kept for the screen. Words, code, logs and JSON in the proportions of real
//! sessions; no two runs differ.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::Failure;

/// Writes a session of about so many megabytes.
pub(crate) fn run(megabytes: u32, path: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    let mut session = Generator::new();
    let wanted = u64::from(megabytes) * 1_000_000;
    let mut written = 0;
    while written < wanted {
        for record in session.turn() {
            let line = record.to_string();
            writeln!(file, "{line}").map_err(failed)?;
            written += line.len() as u64 + 1;
        }
    }
    file.flush().map_err(failed)?;
    eprintln!("{}: {written} bytes", path.display());
    Ok(())
}

/// Draws records; a linear congruential generator is random enough for sizes and words.
struct Generator {
    state: u64,
    record: u64,
    parent: Option<String>,
}

const WORDS: [&str; 24] = [
    "the",
    "parser",
    "returns",
    "an",
    "error",
    "when",
    "input",
    "is",
    "empty",
    "and",
    "tests",
    "cover",
    "window",
    "edges",
    "because",
    "session",
    "state",
    "must",
    "stay",
    "valid",
    "after",
    "each",
    "compaction",
    "run",
];

impl Generator {
    fn new() -> Self {
        Self { state: 0x9E37_79B9_7F4A_7C15, record: 0, parent: None }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below.max(1)
    }

    fn words(&mut self, count: u64) -> String {
        let words = (0..count).map(|_| WORDS[self.next(WORDS.len() as u64) as usize]);
        words.collect::<Vec<_>>().join(" ")
    }

    /// One prompt and what followed.
    fn turn(&mut self) -> Vec<Value> {
        let words = 10 + self.next(60);
        let prompt = self.words(words);
        let mut records = vec![self.record("user", &json!({"role": "user", "content": prompt}), Value::Null)];
        for _ in 0..3 + self.next(12) {
            self.round(&mut records);
        }
        let words = 60 + self.next(120);
        let text = self.words(words);
        records.push(self.answer(&json!([{"type": "text", "text": text}]), "end_turn"));
        records
    }

    /// Thinking, a call, its result.
    fn round(&mut self, records: &mut Vec<Value>) {
        if self.next(3) == 0 {
            let words = 40 + self.next(150);
            let thinking = self.words(words);
            let signature = format!("{:016x}", self.state).repeat(20);
            let block = json!([{"type": "thinking", "thinking": thinking, "signature": signature}]);
            records.push(self.answer(&block, "tool_use"));
        }
        let call_id = format!("toolu_{:024x}", self.record);
        let path = format!("/work/project/src/module_{}.rs", self.next(400));
        let (name, input) = match self.next(3) {
            0 => ("Read", json!({"file_path": path})),
            1 => ("Bash", json!({"command": format!("cargo test -p parser -- --seed {}", self.record)})),
            _ => ("Grep", json!({"pattern": "fn window", "path": path})),
        };
        let call = json!([{"type": "tool_use", "id": call_id, "name": name, "input": input}]);
        records.push(self.answer(&call, "tool_use"));
        let output = self.output(name);
        let shown = json!({"type": "text", "file": {"filePath": path, "content": output, "numLines": 40}});
        let is_error = self.next(20) == 0;
        let result =
            json!([{"type": "tool_result", "tool_use_id": call_id, "content": output, "is_error": is_error}]);
        records.push(self.record("user", &json!({"role": "user", "content": result}), shown));
    }

    fn output(&mut self, tool: &str) -> String {
        let lines = 10 + self.next(120);
        let line = |number: u64, generator: &mut Self| match tool {
            "Read" => {
                let (name, value) = (generator.words(2).replace(' ', "_"), generator.next(10_000));
                format!("{number:>6}→    let {name} = compute(\"{value}\", &state.window[{number}..])?;\n")
            }
            "Bash" => format!(
                "test module_{}::{} ... ok\n",
                generator.next(90),
                generator.words(2).replace(' ', "_")
            ),
            _ => format!("src/module_{}.rs:{number}: {}\n", generator.next(400), generator.words(7)),
        };
        (1..=lines).map(|number| line(number, self)).collect()
    }

    fn answer(&mut self, content: &Value, stop_reason: &str) -> Value {
        let usage = json!({
            "input_tokens": 4, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 40_000,
            "output_tokens": 120, "service_tier": "standard"
        });
        let message = json!({
            "model": "claude-sonnet-4-5", "id": format!("msg_{:024x}", self.record), "type": "message",
            "role": "assistant", "content": content, "stop_reason": stop_reason, "stop_sequence": null,
            "usage": usage
        });
        self.record("assistant", &message, Value::Null)
    }

    fn record(&mut self, kind: &str, message: &Value, shown: Value) -> Value {
        self.record += 1;
        let number = self.record;
        let uuid = format!("{:08x}-0000-4000-8000-{number:012x}", self.next(u64::from(u32::MAX)));
        let (hour, minute, second) = (number / 3_600 % 24, number / 60 % 60, number % 60);
        let mut record = json!({
            "parentUuid": self.parent.replace(uuid.clone()), "isSidechain": false, "userType": "external",
            "cwd": "/work/project", "sessionId": "5f1c2e9a-0000-4000-8000-000000000001",
            "version": "2.1.17", "gitBranch": "main", "type": kind, "message": message, "uuid": uuid,
            "timestamp": format!("2026-11-15T{hour:02}:{minute:02}:{second:02}.000Z"),
        });
        if !shown.is_null() {
            record["toolUseResult"] = shown;
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_answered_and_no_two_runs_differ() {
        let (mut one, mut other) = (Generator::new(), Generator::new());
        for _ in 0..20 {
            let records = one.turn();
            assert_eq!(records, other.turn());
            let text = Value::from(records).to_string();
            let count = |block: &str| text.matches(&format!("\"type\":\"{block}\"")).count();
            assert!(count("tool_use") > 0);
            assert_eq!(count("tool_use"), count("tool_result"));
        }
    }
}
