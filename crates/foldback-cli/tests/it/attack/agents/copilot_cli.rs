//! Event files of Copilot CLI.

use serde_json::{Value, json};

use super::super::scene::{Answer, Message};
use super::{Records, SMALL, Scribe};

pub(super) struct CopilotCli {
    records: Records,
    parent: Value,
}

impl CopilotCli {
    pub(super) fn behind(file: &[u8]) -> Self {
        let records = Records::behind(file);
        let mut copilot = Self { parent: records.last("id"), records };
        if file.is_empty() {
            copilot.write(
                "session.start",
                &json!({"sessionId": "c2b7f0de-0d51-4f7e-b6f5-93f0a7d1c077", "version": 1,
                    "producer": "copilot-agent", "copilotVersion": "1.0.64"}),
            );
        }
        copilot
    }

    fn write(&mut self, kind: &str, data: &Value) {
        let (id, time) = (self.records.uuid(), self.records.time());
        let above = std::mem::replace(&mut self.parent, id.clone());
        self.records
            .push(&json!({"type": kind, "data": data, "id": id, "timestamp": time, "parentId": above}));
    }
}

impl Scribe for CopilotCli {
    fn asked(&mut self, message: &Message) {
        let around = format!(
            "<current_datetime>2026-06-03T16:00:04+02:00</current_datetime>\n\n{}\n\n<system_reminder>\n\
             <sql_tables>Available tables: todos</sql_tables>\n{}\n</system_reminder>",
            message.text,
            message.reminder.as_deref().unwrap_or_default()
        );
        self.write("user.message", &json!({"content": message.text, "transformedContent": around, "attachments": [], "source": "user"}),
        );
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        let requests = calls.iter().map(|call| {
            let (name, arguments) = SMALL.call(&call.tool);
            json!({"toolCallId": call.id, "name": name, "arguments": arguments, "type": "function"})
        });
        let requests: Vec<Value> = requests.collect();
        let mut said = json!({"messageId": "msg", "model": "claude-sonnet-4.6", "toolRequests": requests,
            "content": text.as_deref().unwrap_or_default()});
        if let Some(thought) = thought {
            said["reasoningText"] = thought.as_str().into();
        }
        self.write("assistant.message", &said);
        for call in calls {
            let (name, arguments) = SMALL.call(&call.tool);
            let started = json!({"toolCallId": call.id, "toolName": name, "arguments": arguments});
            self.write("tool.execution_start", &started);
            let mut done = json!({"toolCallId": call.id, "success": !call.failed});
            match call.failed {
                true => done["error"] = json!({"message": call.output, "code": "failure"}),
                false => done["result"] = json!({"content": call.output, "detailedContent": call.output}),
            }
            self.write("tool.execution_complete", &done);
        }
    }

    fn compacted(&mut self, summary: &str) {
        self.write("session.compaction_start", &json!({}));
        self.write(
            "session.compaction_complete",
            &json!({"success": true, "preCompactionTokens": 9_120, "summaryContent": summary,
                "checkpointNumber": 1}),
        );
    }

    fn file(self) -> Vec<u8> {
        self.records.file
    }
}
