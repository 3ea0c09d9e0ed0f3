//! Session files of pi.

use serde_json::{Value, json};

use super::super::scene::{Answer, Message};
use super::{Records, SMALL, Scribe, reminding};

pub(super) struct Pi {
    records: Records,
    parent: Value,
    /// The newest message of the user, which a compaction keeps.
    asked: Value,
}

impl Pi {
    pub(super) fn behind(file: &[u8]) -> Self {
        let mut records = Records::behind(file);
        if file.is_empty() {
            let time = records.time();
            records
                .push(&json!({"type": "session", "version": 3, "id": "0199b7a2-4c11-7d0e-9a53-6f2f1c0a7e77",
                "timestamp": time, "cwd": "/home/dev/gates"}));
            return Self { records, parent: Value::Null, asked: Value::Null };
        }
        Self { parent: records.last("id"), asked: records.last("id"), records }
    }

    fn write(&mut self, mut record: Value) {
        let id = Value::from(format!("{:08x}", self.records.next()));
        record["id"] = id.clone();
        record["parentId"] = std::mem::replace(&mut self.parent, id);
        record["timestamp"] = self.records.time();
        self.records.push(&record);
    }
}

impl Scribe for Pi {
    fn asked(&mut self, message: &Message) {
        let mut content = vec![json!({"type": "text", "text": message.text})];
        if let Some((name, text)) = &message.attached {
            content.push(json!({"type": "text", "text": format!("<file name=\"{name}\">\n{text}\n</file>")}));
        }
        content.extend(message.reminder.iter().map(|text| json!({"type": "text", "text": reminding(text)})));
        self.write(json!({"type": "message", "message": {"role": "user", "content": content}}));
        self.asked = self.parent.clone();
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        let thinking = |text| json!({"type": "thinking", "thinking": text, "thinkingSignature": "c2ln"});
        let mut content: Vec<Value> = thought.iter().map(thinking).collect();
        content.extend(text.iter().map(|text| json!({"type": "text", "text": text})));
        for call in calls {
            let (name, arguments) = SMALL.call(&call.tool);
            content.push(json!({"type": "toolCall", "id": call.id, "name": name, "arguments": arguments}));
        }
        let reason = if calls.is_empty() { "stop" } else { "toolUse" };
        let message = json!({"role": "assistant", "content": content, "api": "anthropic-messages",
            "provider": "anthropic", "model": "claude-sonnet-4-5", "stopReason": reason});
        self.write(json!({"type": "message", "message": message}));
        for call in calls {
            let (name, _) = SMALL.call(&call.tool);
            let content = json!([{"type": "text", "text": call.output}]);
            let message = json!({"role": "toolResult", "toolCallId": call.id, "toolName": name,
                "content": content, "isError": call.failed});
            self.write(json!({"type": "message", "message": message}));
        }
    }

    fn compacted(&mut self, summary: &str) {
        let kept = self.asked.clone();
        self.write(json!({"type": "compaction", "summary": summary, "firstKeptEntryId": kept,
            "tokensBefore": 9_876, "fromHook": false}));
    }

    fn file(self) -> Vec<u8> {
        self.records.file
    }
}
