//! `cargo xtask generate`: a large Claude Code session, for measuring.
//!
//! Records as the agent writes them, in the proportions of nine recorded files (16 MB): prompts,
//! thinking, text, calls, results, what is kept of results for the screen, and records that are no
//! part of the conversation. No two runs differ.
//!
//! | | recorded | generated |
//! |---|---:|---:|
//! | bytes for each record | 2,961 | 2,813 |
//! | JSON values for each KB | 11.5 | 11.3 |
//! | backslashes for each KB | 30.6 | 30.2 |
//! | bytes in `toolUseResult` | 34% | 38% |
//! | records of answers, results and prompts, others | 49, 26, 25% | 56, 28, 17% |

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
        let mut records = vec![self.record("user", &json!({"role": "user", "content": prompt}))];
        records.push(self.snapshot());
        for _ in 0..3 + self.next(20) {
            self.round(&mut records);
        }
        let words = 60 + self.next(120);
        let text = self.words(words);
        records.push(self.answer(&json!([{"type": "text", "text": text}]), "end_turn"));
        let hook = json!({"command": "/work/project/.hooks/stop.sh", "durationMs": self.next(400)});
        let mut system = self.link("system");
        system["subtype"] = "stop_hook_summary".into();
        system["hookInfos"] = json!([hook]);
        system["preventedContinuation"] = false.into();
        records.push(system);
        records
    }

    /// Thinking, a remark, a call, what the screen shows meanwhile, its result.
    fn round(&mut self, records: &mut Vec<Value>) {
        if self.next(9) < 7 {
            let words = 50 + self.next(300);
            let thinking = self.words(words);
            let signature = format!("{:016x}", self.state).repeat(24);
            let block = json!([{"type": "thinking", "thinking": thinking, "signature": signature}]);
            records.push(self.answer(&block, "tool_use"));
        }
        if self.next(3) == 0 {
            let words = 8 + self.next(40);
            let text = self.words(words);
            records.push(self.answer(&json!([{"type": "text", "text": text}]), "tool_use"));
        }
        let call_id = format!("toolu_{:024x}", self.record);
        let used = self.used_tool();
        let call = json!([{"type": "tool_use", "id": call_id, "name": used.name, "input": used.input}]);
        records.push(self.answer(&call, "tool_use"));
        if self.next(2) == 0 {
            let mut progress = self.link("progress");
            progress["data"] = json!({"type": "hook_progress", "hookEvent": "PostToolUse",
                "hookName": format!("PostToolUse:{}", used.name), "command": "/work/project/.hooks/after.sh"});
            progress["toolUseID"] = call_id.as_str().into();
            progress["parentToolUseID"] = call_id.as_str().into();
            records.push(progress);
        }
        let is_error = self.next(20) == 0;
        let result = json!([
            {"tool_use_id": call_id, "type": "tool_result", "content": used.output, "is_error": is_error}
        ]);
        let caller = self.parent.clone();
        let mut record = self.record("user", &json!({"role": "user", "content": result}));
        record["toolUseResult"] = used.shown;
        record["sourceToolAssistantUUID"] = caller.into();
        records.push(record);
    }

    /// A tool in use: of nine calls, four run a command, two read a file, two edit one.
    fn used_tool(&mut self) -> Used {
        let path = format!("/work/project/src/module_{}.rs", self.next(400));
        match self.next(9) {
            0..4 => {
                let (lines, words) = (self.line_count(), 4 + self.next(20));
                let (seed, words) = (self.record, self.words(words));
                let command = format!("cargo test -p parser -- --seed {seed} && {words}");
                let output = self.log(lines);
                Used {
                    name: "Bash",
                    input: json!({"command": command, "description": self.words(6)}),
                    shown: json!({"stdout": output, "stderr": "", "interrupted": false, "isImage": false}),
                    output,
                }
            }
            4..6 => {
                let lines = self.line_count();
                let file = self.code(lines);
                let numbered =
                    file.lines().enumerate().map(|(index, line)| format!("{:>6}→{line}\n", index + 1));
                Used {
                    name: "Read",
                    input: json!({"file_path": path}),
                    output: numbered.collect(),
                    shown: json!({"type": "text", "file": {"filePath": path, "content": file,
                        "numLines": lines, "startLine": 1, "totalLines": lines}}),
                }
            }
            6..8 => {
                let (before, old, new) = (40 + self.next(120), 2 + self.next(12), 2 + self.next(16));
                let (original, old, new) = (self.code(before), self.code(old), self.code(new));
                let marked = |mark: char, text: &str| -> Vec<String> {
                    text.lines().map(|line| format!("{mark}{line}")).collect()
                };
                let lines = [marked('-', &old), marked('+', &new)].concat();
                Used {
                    name: "Edit",
                    input: json!({"file_path": path, "old_string": old, "new_string": new}),
                    output: format!("The file {path} has been updated. The result of cat -n on it:\n{new}"),
                    shown: json!({"filePath": path, "oldString": old, "newString": new,
                    "originalFile": original, "userModified": false, "replaceAll": false,
                    "structuredPatch": [
                        {"oldStart": 4, "oldLines": 9, "newStart": 4, "newLines": 11, "lines": lines}
                    ]}),
                }
            }
            _ => {
                let found: Vec<String> =
                    (0..1 + self.next(30)).map(|_| format!("src/module_{}.rs", self.next(400))).collect();
                Used {
                    name: "Grep",
                    input: json!({"pattern": "fn window", "path": path, "output_mode": "files_with_matches"}),
                    output: found.join("\n"),
                    shown: json!({"mode": "files_with_matches", "numFiles": found.len(), "filenames": found}),
                }
            }
        }
    }

    /// Most results are short, and a few make up most of the bytes.
    fn line_count(&mut self) -> u64 {
        match self.next(5) {
            0 => 80 + self.next(400),
            _ => 1 + self.next(40),
        }
    }

    fn code(&mut self, lines: u64) -> String {
        let line = |number: u64, generator: &mut Self| {
            let (name, value) = (generator.words(2).replace(' ', "_"), generator.next(10_000));
            format!("\tlet {name} = compute(\"{value}\", &state.window[{number}..])?;\n")
        };
        (1..=lines).map(|number| line(number, self)).collect()
    }

    fn log(&mut self, lines: u64) -> String {
        let line = |generator: &mut Self| {
            let (module, name) = (generator.next(90), generator.words(2).replace(' ', "_"));
            format!("test module_{module}::{name} ... ok\n")
        };
        (0..lines).map(|_| line(self)).collect()
    }

    fn answer(&mut self, content: &Value, stop_reason: &str) -> Value {
        let usage = json!({
            "input_tokens": 4, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 40_000,
            "cache_creation": {"ephemeral_5m_input_tokens": 900, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 120, "service_tier": "standard"
        });
        let message = json!({
            "model": "claude-sonnet-4-5", "id": format!("msg_{:024x}", self.record), "type": "message",
            "role": "assistant", "content": content, "stop_reason": stop_reason, "stop_sequence": null,
            "usage": usage
        });
        let mut record = self.record("assistant", &message);
        record["requestId"] = format!("req_{:024x}", self.record).into();
        record
    }

    /// What the agent keeps of files before it edits them.
    fn snapshot(&mut self) -> Value {
        let backups = (0..1 + self.next(6)).map(|_| {
            let path = format!("src/module_{}.rs", self.next(400));
            (path, json!({"backupFileName": null, "version": 1, "backupTime": "2026-11-15T00:00:00.000Z"}))
        });
        let backups: serde_json::Map<String, Value> = backups.collect();
        let id = self.parent.clone();
        json!({"type": "file-history-snapshot", "messageId": id, "isSnapshotUpdate": false,
            "snapshot": {"messageId": id, "trackedFileBackups": backups, "timestamp": "2026-11-15T00:00:00.000Z"}})
    }

    fn record(&mut self, kind: &str, message: &Value) -> Value {
        let mut record = self.link(kind);
        record["message"] = message.clone();
        record
    }

    /// What every link of the chain has.
    fn link(&mut self, kind: &str) -> Value {
        self.record += 1;
        let number = self.record;
        let uuid = format!("{:08x}-0000-4000-8000-{number:012x}", self.next(u64::from(u32::MAX)));
        let (hour, minute, second) = (number / 3_600 % 24, number / 60 % 60, number % 60);
        json!({
            "parentUuid": self.parent.replace(uuid.clone()), "isSidechain": false, "userType": "external",
            "cwd": "/work/project", "sessionId": "5f1c2e9a-0000-4000-8000-000000000001",
            "version": "2.1.17", "gitBranch": "main", "slug": "quiet-folding-river", "type": kind,
            "uuid": uuid, "timestamp": format!("2026-11-15T{hour:02}:{minute:02}:{second:02}.000Z"),
        })
    }
}

/// One call of a tool, its result, and what is kept of it for the screen.
struct Used {
    name: &'static str,
    input: Value,
    output: String,
    shown: Value,
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
