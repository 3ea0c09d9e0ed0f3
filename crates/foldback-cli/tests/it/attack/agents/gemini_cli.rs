//! Session logs of Gemini CLI.

use serde_json::{Value, json};

use super::super::scene::{Answer, Message};
use super::{GEMINI, Records, Scribe, reminding};

pub(super) struct GeminiCli(Records);

impl GeminiCli {
    pub(super) fn behind(file: &[u8]) -> Self {
        let mut records = Records::behind(file);
        if file.is_empty() {
            let time = records.time();
            records.push(&json!({"sessionId": "7f3d2a90-6a55-4c2b-8f0d-1f2e3d4c5b77",
                "projectHash": "b1946ac92492d234", "startTime": time, "lastUpdated": time, "kind": "main"}));
        }
        Self(records)
    }

    fn write(&mut self, mut record: Value) {
        record["id"] = self.0.uuid();
        record["timestamp"] = self.0.time();
        self.0.push(&record);
    }
}

impl Scribe for GeminiCli {
    fn asked(&mut self, message: &Message) {
        let mut content = vec![json!({"text": message.text})];
        if let Some((name, text)) = &message.attached {
            content.push(json!({"text": "\n--- Content from referenced files ---"}));
            content.push(json!({"text": format!("\nContent from @{name}:\n")}));
            content.push(json!({"text": text}));
            content.push(json!({"text": "\n--- End of content ---"}));
        }
        content.extend(message.reminder.iter().map(|text| json!({"text": reminding(text)})));
        self.write(json!({"type": "user", "content": content}));
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        let thoughts = thought.iter().map(|thought| json!({"subject": "Looking", "description": thought}));
        let calls = calls.iter().map(|call| {
            let (name, args) = GEMINI.call(&call.tool);
            let (field, status) = if call.failed { ("error", "error") } else { ("output", "success") };
            let response = json!({"id": call.id, "name": name, "response": {field: call.output}});
            json!({"id": call.id, "name": name, "args": args, "status": status,
                "result": [{"functionResponse": response}]})
        });
        self.write(json!({"type": "gemini", "content": text.as_deref().unwrap_or_default(),
            "thoughts": thoughts.collect::<Vec<_>>(), "toolCalls": calls.collect::<Vec<_>>(),
            "model": "gemini-3-pro-preview"}));
    }

    fn compacted(&mut self, summary: &str) {
        let text = format!("<state_snapshot>\n{summary}\n</state_snapshot>");
        let kept = json!([
            {"id": self.0.uuid(), "timestamp": self.0.time(), "type": "user", "content": [{"text": text}]},
            {"id": self.0.uuid(), "timestamp": self.0.time(), "type": "gemini", "toolCalls": [],
                "content": "Got it. Thanks for the additional context!", "model": "gemini-3-pro-preview"},
        ]);
        self.0.push(&json!({"$set": {"messages": kept}}));
    }

    fn file(self) -> Vec<u8> {
        self.0.file
    }
}
