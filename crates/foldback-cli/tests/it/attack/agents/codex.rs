//! Rollout files of Codex CLI.

use serde_json::{Value, json};

use super::super::scene::{Answer, Message};
use super::{CODEX, Records, Scribe};

pub(super) struct Codex(Records);

impl Codex {
    pub(super) fn behind(file: &[u8]) -> Self {
        let mut codex = Self(Records::behind(file));
        if file.is_empty() {
            codex.write(
                "session_meta",
                &json!({"id": "019c0000-aaaa-7000-8000-000000000077", "cwd": "/home/dev/gates",
                    "originator": "codex-tui", "cli_version": "0.142.3", "source": "cli"}),
            );
        }
        codex
    }

    fn write(&mut self, kind: &str, payload: &Value) {
        let time = self.0.time();
        self.0.push(&json!({"timestamp": time, "type": kind, "payload": payload}));
    }

    fn message(&mut self, role: &str, kind: &str, texts: &[&str]) {
        let content: Vec<Value> = texts.iter().map(|text| json!({"type": kind, "text": text})).collect();
        self.write("response_item", &json!({"type": "message", "role": role, "content": content}));
    }
}

impl Scribe for Codex {
    fn asked(&mut self, message: &Message) {
        self.write("turn_context", &json!({"cwd": "/home/dev/gates", "model": "gpt-5.2"}));
        if let Some(reminder) = &message.reminder {
            let guide = format!(
                "# AGENTS.md instructions for /home/dev/gates\n\n<INSTRUCTIONS>\n{reminder}\n</INSTRUCTIONS>"
            );
            let place = "<environment_context>\n  <cwd>/home/dev/gates</cwd>\n</environment_context>";
            self.message("user", "input_text", &[&guide, place]);
        }
        self.message("user", "input_text", &[&message.text]);
        self.write("event_msg", &json!({"type": "user_message", "message": message.text, "images": []}));
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        if let Some(thought) = thought {
            let summary = json!([{"type": "summary_text", "text": thought}]);
            self.write(
                "response_item",
                &json!({"type": "reasoning", "summary": summary, "encrypted_content": "gA="}),
            );
        }
        if let Some(text) = text {
            self.message("assistant", "output_text", &[text]);
        }
        for call in calls {
            let (name, input) = CODEX.call(&call.tool);
            let arguments = input.to_string();
            self.write(
                "response_item",
                &json!({"type": "function_call", "name": name, "call_id": call.id, "arguments": arguments}),
            );
        }
        for call in calls {
            let code = if call.failed { 101 } else { 0 };
            let around = format!("Wall time: 0.1 seconds\nProcess exited with code {code}\nOutput:\n");
            let output = around + &call.output;
            self.write(
                "response_item",
                &json!({"type": "function_call_output", "call_id": call.id, "output": output}),
            );
        }
    }

    fn compacted(&mut self, summary: &str) {
        self.write("compacted", &json!({"message": summary}));
    }

    fn file(self) -> Vec<u8> {
        self.0.file
    }
}
