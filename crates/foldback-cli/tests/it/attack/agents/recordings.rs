//! Recordings that foldback only reads: their compactions are written in its own form.

use serde_json::{Value, json};

use super::super::scene::{Answer, Message};
use super::{CLAUDE, Scribe, bodies::OpenaiChat, reminding};

/// Task files of Cline: a list of messages, with calls and results as text.
#[derive(Default)]
pub(super) struct Cline {
    messages: Vec<Value>,
}

impl Cline {
    fn push(&mut self, role: &str, texts: impl IntoIterator<Item = String>) {
        let content = texts.into_iter().map(|text| json!({"type": "text", "text": text}));
        self.messages.push(json!({"role": role, "content": content.collect::<Vec<_>>()}));
    }
}

impl Scribe for Cline {
    fn asked(&mut self, message: &Message) {
        let text = match self.messages.is_empty() {
            true => format!("<task>\n{}\n</task>", message.text),
            false => message.text.clone(),
        };
        let details = message
            .reminder
            .iter()
            .map(|text| format!("<environment_details>\n{text}\n</environment_details>"));
        self.push("user", std::iter::once(text).chain(details));
    }

    fn answered(&mut self, Answer { text, calls, .. }: &Answer) {
        let mut said: Vec<String> = text.iter().cloned().collect();
        let mut results = Vec::new();
        for call in calls {
            let (name, input) = CLAUDE.call(&call.tool);
            said.push(format!("<use_mcp_tool>\n<tool_name>{name}</tool_name>\n<arguments>{input}</arguments>\n</use_mcp_tool>"));
            results.push("[use_mcp_tool for 'gates'] Result:".to_owned());
            results.push(call.output.clone());
        }
        self.push("assistant", said);
        if !results.is_empty() {
            self.push("user", results);
        }
    }

    fn file(self) -> Vec<u8> {
        Value::from(self.messages).to_string().into_bytes()
    }
}

/// Trajectories in the interchange format.
#[derive(Default)]
pub(super) struct Atif {
    steps: Vec<Value>,
}

impl Atif {
    fn push(&mut self, source: &str, mut step: Value) {
        step["step_id"] = (self.steps.len() + 1).into();
        step["source"] = source.into();
        self.steps.push(step);
    }
}

impl Scribe for Atif {
    fn asked(&mut self, message: &Message) {
        self.push("user", json!({"message": message.text}));
        if let Some(reminder) = &message.reminder {
            self.push("system", json!({"message": reminder}));
        }
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        let made = calls.iter().map(|call| {
            let (name, input) = CLAUDE.call(&call.tool);
            json!({"tool_call_id": call.id, "function_name": name, "arguments": input})
        });
        let results = calls.iter().map(|call| json!({"source_call_id": call.id, "content": call.output}));
        let observation = json!({"results": results.collect::<Vec<_>>()});
        self.push(
            "agent",
            json!({"message": text.as_deref().unwrap_or_default(), "reasoning_content": thought,
                "tool_calls": made.collect::<Vec<_>>(), "observation": observation}),
        );
    }

    fn file(self) -> Vec<u8> {
        let agent = json!({"name": "harbor-agent", "version": "1.4.2", "model_name": "gemini-2.5-flash"});
        json!({"schema_version": "ATIF-v1.7", "session_id": "5b0d6f0e-0001-4000-8000-000000000077",
            "agent": agent, "steps": self.steps})
        .to_string()
        .into_bytes()
    }
}

/// Results of tau-bench: messages of a chat, with what came of them.
pub(super) struct TauBench(OpenaiChat);

impl Default for TauBench {
    fn default() -> Self {
        Self(OpenaiChat::behind(&[]))
    }
}

impl Scribe for TauBench {
    fn asked(&mut self, message: &Message) {
        // Its messages are texts.
        let reminder = message.reminder.iter().map(|text| format!("\n{}", reminding(text)));
        let text = std::iter::once(message.text.clone()).chain(reminder).collect::<String>();
        self.0.push(json!({"role": "user", "content": text}));
    }

    fn answered(&mut self, answer: &Answer) {
        self.0.answered(answer);
    }

    fn file(self) -> Vec<u8> {
        let body: Value = serde_json::from_slice(&self.0.file()).unwrap();
        let task = json!({"task_id": 7, "reward": 1.0, "info": {}, "trial": 0, "traj": body["messages"]});
        Value::from(vec![task]).to_string().into_bytes()
    }
}
