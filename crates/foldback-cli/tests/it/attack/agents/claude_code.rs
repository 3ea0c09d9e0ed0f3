//! Session files of Claude Code.

use serde_json::{Value, json};

use super::super::scene::{Answer, Message};
use super::bodies::{returned, said, spoken};
use super::{Records, Scribe};

pub(super) struct ClaudeCode {
    records: Records,
    parent: Value,
}

impl ClaudeCode {
    pub(super) fn behind(file: &[u8]) -> Self {
        let records = Records::behind(file);
        Self { parent: records.last("uuid"), records }
    }

    fn write(&mut self, mut record: Value) {
        let uuid = self.records.uuid();
        let above = std::mem::replace(&mut self.parent, uuid.clone());
        let is_boundary = record["subtype"] == "compact_boundary";
        record[if is_boundary { "logicalParentUuid" } else { "parentUuid" }] = above;
        if is_boundary {
            record["parentUuid"] = Value::Null;
        }
        record["isSidechain"] = false.into();
        record["userType"] = "external".into();
        record["cwd"] = "/home/dev/gates".into();
        record["sessionId"] = "5b1f0c52-7d0e-4f1e-9a3c-2f6f3f1f0a77".into();
        record["version"] = "2.1.40".into();
        record["timestamp"] = self.records.time();
        record["uuid"] = uuid;
        self.records.push(&record);
    }
}

impl Scribe for ClaudeCode {
    fn asked(&mut self, message: &Message) {
        let content = said(message);
        self.write(json!({"type": "user", "message": {"role": "user", "content": content}}));
        if let Some((name, text)) = &message.attached {
            let content = json!({"type": "text", "file": {"filePath": name, "content": text, "numLines": 3}});
            let attachment = json!({"type": "file", "filename": name, "content": content});
            self.write(json!({"type": "attachment", "attachment": attachment}));
        }
    }

    fn answered(&mut self, answer: &Answer) {
        let content = spoken(answer);
        let message = json!({"model": "claude-sonnet-4-5-20250929", "type": "message", "role": "assistant",
            "content": content, "stop_reason": "end_turn"});
        self.write(json!({"type": "assistant", "message": message}));
        for call in &answer.calls {
            let ran = json!({"stdout": call.output, "stderr": "", "interrupted": false});
            let message = json!({"role": "user", "content": [returned(call)]});
            self.write(json!({"type": "user", "message": message, "toolUseResult": ran}));
        }
    }

    fn compacted(&mut self, summary: &str) {
        let metadata = json!({"trigger": "auto", "preTokens": 15_500});
        self.write(
            json!({"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted",
            "isMeta": false, "level": "info", "compactMetadata": metadata}),
        );
        let text =
            format!("This session is being continued from a previous conversation.\n\nSummary:\n{summary}");
        self.write(json!({"type": "user", "message": {"role": "user", "content": text},
            "isCompactSummary": true, "isVisibleInTranscriptOnly": true}));
    }

    fn file(self) -> Vec<u8> {
        self.records.file
    }
}
