//! foldback's own form.

use serde_json::{Value, json};

use super::super::scene::{Answer, Message};
use super::{CLAUDE, Records, Scribe};

pub(super) struct Native(Records);

impl Native {
    pub(super) fn behind(file: &[u8]) -> Self {
        Self(Records::behind(file))
    }

    fn item(&mut self, kind: &str, parts: &[Value]) {
        let id = format!("n{}", self.0.next());
        self.0.push(&json!({"id": id, "kind": kind, "parts": parts}));
    }
}

impl Scribe for Native {
    fn asked(&mut self, message: &Message) {
        let mut parts = vec![json!({"text": message.text})];
        if let Some((name, content)) = &message.attached {
            let file = json!({"name": name, "media_type": "text/plain", "data": {"text": content}});
            parts.push(json!({"file": file}));
        }
        self.item("user", &parts);
        if let Some(reminder) = &message.reminder {
            self.item("notification", &[json!({"text": reminder})]);
        }
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        let mut parts: Vec<Value> =
            thought.iter().map(|thought| json!({"reasoning": {"text": thought}})).collect();
        parts.extend(text.iter().map(|text| json!({"text": text})));
        for call in calls {
            let (name, input) = CLAUDE.call(&call.tool);
            parts.push(json!({"tool_call": {"id": call.id, "name": name, "input": {"json": input}}}));
        }
        self.item("assistant", &parts);
        for call in calls {
            let content = json!([{"text": call.output}]);
            let result = json!({"call_id": call.id, "content": content, "is_error": call.failed});
            self.item("tool", &[json!({"tool_result": result})]);
        }
    }

    fn file(self) -> Vec<u8> {
        self.0.file
    }
}
