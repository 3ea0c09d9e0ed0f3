//! Exports of opencode: one value.

use serde_json::{Value, json};

use super::super::scene::{Answer, Message};
use super::{OPENCODE, Scribe, reminding};

const SESSION: &str = "ses_2200aa10bffe0testsession77";

/// Ids rise with time; this is how the first one begins.
const FIRST: usize = 0xde00_0000_0000;

pub(super) struct Opencode {
    session: Value,
    serial: usize,
    /// The newest message of the user, which answers name.
    asked: Value,
}

impl Opencode {
    pub(super) fn behind(file: &[u8]) -> Self {
        let new = || {
            let time = json!({"created": 1_777_578_600_000_u64, "updated": 1_777_578_600_000_u64});
            let info = json!({"id": SESSION, "slug": "gates", "projectID": "bf59adfa", "version": "1.4.3",
                "directory": "/home/dev/gates", "title": "Gates", "time": time});
            json!({"info": info, "messages": []})
        };
        let session = if file.is_empty() { new() } else { serde_json::from_slice(file).unwrap() };
        Self { session, serial: file.len(), asked: Value::Null }
    }

    fn id(&mut self, kind: &str) -> Value {
        self.serial += 1;
        format!("{kind}_{:012x}AbCdEfGhIjKlMn", FIRST + self.serial).into()
    }

    fn write(&mut self, mut info: Value, mut parts: Vec<Value>) -> Value {
        let id = self.id("msg");
        info["id"] = id.clone();
        info["sessionID"] = SESSION.into();
        let created = 1_777_578_600_000 + self.serial;
        info["time"] = json!({"created": created, "completed": created});
        for part in &mut parts {
            part["id"] = self.id("prt");
            part["sessionID"] = SESSION.into();
            part["messageID"] = id.clone();
        }
        self.session["messages"].as_array_mut().unwrap().push(json!({"info": info, "parts": parts}));
        id
    }

    fn by_user(&mut self, parts: Vec<Value>) {
        let model = json!({"providerID": "anthropic", "modelID": "claude-sonnet-4-5"});
        self.asked = self.write(json!({"role": "user", "agent": "build", "model": model}), parts);
    }

    fn by_model(&self, mode: &str) -> Value {
        let tokens = json!({"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}});
        json!({"role": "assistant", "parentID": self.asked, "mode": mode, "agent": mode, "cost": 0,
            "path": {"cwd": "/home/dev/gates", "root": "/home/dev/gates"}, "modelID": "claude-sonnet-4-5",
            "providerID": "anthropic", "finish": "stop", "tokens": tokens})
    }
}

impl Scribe for Opencode {
    fn asked(&mut self, message: &Message) {
        let mut parts = vec![json!({"type": "text", "text": message.text})];
        let synthetic = |text: &str| json!({"type": "text", "text": text, "synthetic": true});
        if let Some((name, text)) = &message.attached {
            let url = format!("file:///home/dev/gates/{name}");
            parts.push(json!({"type": "file", "mime": "text/plain", "filename": name, "url": url}));
            let input = json!({"filePath": name});
            parts.push(synthetic(&format!("Called the Read tool with the following input: {input}")));
            parts.push(synthetic(text));
        }
        parts.extend(message.reminder.iter().map(|text| synthetic(&reminding(text))));
        self.by_user(parts);
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        let mut parts = vec![json!({"type": "step-start"})];
        parts.extend(thought.iter().map(|text| json!({"type": "reasoning", "text": text})));
        parts.extend(text.iter().map(|text| json!({"type": "text", "text": text})));
        for call in calls {
            let (name, input) = OPENCODE.call(&call.tool);
            let time = json!({"start": 5, "end": 9});
            let state = match call.failed {
                true => json!({"status": "error", "input": input, "error": call.output, "time": time}),
                false => json!({"status": "completed", "input": input, "output": call.output, "title": name,
                    "metadata": {}, "time": time}),
            };
            parts.push(json!({"type": "tool", "tool": name, "callID": call.id, "state": state}));
        }
        self.write(self.by_model("build"), parts);
    }

    fn compacted(&mut self, summary: &str) {
        self.by_user(vec![json!({"type": "compaction", "auto": true})]);
        let mut info = self.by_model("compaction");
        info["summary"] = true.into();
        self.write(info, vec![json!({"type": "text", "text": summary})]);
    }

    fn file(self) -> Vec<u8> {
        serde_json::to_vec_pretty(&self.session).unwrap()
    }
}
