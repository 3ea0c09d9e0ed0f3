//! Bodies of requests: only the text of what came before is left in them.

use serde_json::{Value, json};

use super::super::scene::{Answer, Call, Message};
use super::{CLAUDE, CODEX, GEMINI, Scribe, reminding};

/// The text of a message with what the host put beside it, each in a part of its own.
fn texts(message: &Message) -> impl Iterator<Item = String> {
    std::iter::once(message.text.clone()).chain(message.reminder.iter().map(|text| reminding(text)))
}

/// What a user says, in Anthropic's blocks.
pub(super) fn said(message: &Message) -> Vec<Value> {
    let mut content: Vec<Value> = texts(message).map(|text| json!({"type": "text", "text": text})).collect();
    if let Some((name, text)) = &message.attached {
        let source = json!({"type": "text", "media_type": "text/plain", "data": text});
        content.push(json!({"type": "document", "title": name, "source": source}));
    }
    content
}

/// What a model says and calls, in the same blocks.
pub(super) fn spoken(Answer { thought, text, calls }: &Answer) -> Vec<Value> {
    let thinking = |text| json!({"type": "thinking", "thinking": text, "signature": "EqQBc2lnbmVk"});
    let mut content: Vec<Value> = thought.iter().map(thinking).collect();
    content.extend(text.iter().map(|text| json!({"type": "text", "text": text})));
    for call in calls {
        let (name, input) = CLAUDE.call(&call.tool);
        content.push(json!({"type": "tool_use", "id": call.id, "name": name, "input": input}));
    }
    content
}

/// What a call returned, in such a block.
pub(super) fn returned(call: &Call) -> Value {
    json!({"type": "tool_result", "tool_use_id": call.id, "content": call.output, "is_error": call.failed})
}

/// A body, and where its messages are.
struct Body {
    value: Value,
    field: &'static str,
}

impl Body {
    fn behind(file: &[u8], field: &'static str, new: Value) -> Self {
        let value = if file.is_empty() { new } else { serde_json::from_slice(file).unwrap() };
        Self { value, field }
    }

    fn push(&mut self, message: Value) {
        let list = if self.value.is_array() { &mut self.value } else { &mut self.value[self.field] };
        list.as_array_mut().unwrap().push(message);
    }

    fn bytes(&self) -> Vec<u8> {
        self.value.to_string().into_bytes()
    }
}

pub(super) struct Anthropic(Body);

impl Anthropic {
    pub(super) fn behind(file: &[u8]) -> Self {
        let new = json!({"model": "claude-sonnet-4-5", "max_tokens": 4096, "system": "You mend gates.",
            "messages": []});
        Self(Body::behind(file, "messages", new))
    }
}

impl Scribe for Anthropic {
    fn asked(&mut self, message: &Message) {
        self.0.push(json!({"role": "user", "content": said(message)}));
    }

    fn answered(&mut self, answer: &Answer) {
        self.0.push(json!({"role": "assistant", "content": spoken(answer)}));
        let results: Vec<Value> = answer.calls.iter().map(returned).collect();
        if !results.is_empty() {
            self.0.push(json!({"role": "user", "content": results}));
        }
    }

    fn file(self) -> Vec<u8> {
        self.0.bytes()
    }
}

pub(super) struct OpenaiChat(Body);

impl OpenaiChat {
    pub(super) fn behind(file: &[u8]) -> Self {
        let system = json!({"role": "system", "content": "You mend gates."});
        Self(Body::behind(file, "messages", json!({"model": "gpt-5-mini", "messages": [system]})))
    }

    pub(super) fn push(&mut self, message: Value) {
        self.0.push(message);
    }
}

impl Scribe for OpenaiChat {
    fn asked(&mut self, message: &Message) {
        let content: Vec<Value> = texts(message).map(|text| json!({"type": "text", "text": text})).collect();
        self.0.push(json!({"role": "user", "content": content}));
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        let mut answer = json!({"role": "assistant", "content": text});
        if let Some(thought) = thought {
            answer["reasoning_content"] = thought.as_str().into();
        }
        let made = calls.iter().map(|call| {
            let (name, input) = CLAUDE.call(&call.tool);
            let function = json!({"name": name, "arguments": input.to_string()});
            json!({"id": call.id, "type": "function", "function": function})
        });
        let made: Vec<Value> = made.collect();
        if !made.is_empty() {
            answer["tool_calls"] = made.into();
        }
        self.0.push(answer);
        for call in calls {
            self.0.push(json!({"role": "tool", "tool_call_id": call.id, "content": call.output}));
        }
    }

    fn file(self) -> Vec<u8> {
        self.0.bytes()
    }
}

pub(super) struct OpenaiResponses(Body);

impl OpenaiResponses {
    pub(super) fn behind(file: &[u8]) -> Self {
        let new = json!({"model": "gpt-5", "instructions": "You mend gates.", "input": []});
        Self(Body::behind(file, "input", new))
    }
}

impl Scribe for OpenaiResponses {
    fn asked(&mut self, message: &Message) {
        let content: Vec<Value> =
            texts(message).map(|text| json!({"type": "input_text", "text": text})).collect();
        self.0.push(json!({"type": "message", "role": "user", "content": content}));
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        if let Some(thought) = thought {
            let summary = json!([{"type": "summary_text", "text": thought}]);
            self.0.push(json!({"type": "reasoning", "summary": summary, "encrypted_content": "gA="}));
        }
        if let Some(text) = text {
            let content = json!([{"type": "output_text", "text": text}]);
            self.0.push(json!({"type": "message", "role": "assistant", "content": content}));
        }
        for call in calls {
            let (name, input) = CODEX.call(&call.tool);
            let arguments = input.to_string();
            self.0.push(json!({"type": "function_call", "call_id": call.id, "name": name,
                "arguments": arguments}));
        }
        for call in calls {
            self.0.push(json!({"type": "function_call_output", "call_id": call.id, "output": call.output}));
        }
    }

    fn file(self) -> Vec<u8> {
        self.0.bytes()
    }
}

pub(super) struct Gemini(Body);

impl Gemini {
    pub(super) fn behind(file: &[u8]) -> Self {
        let instruction = json!({"parts": [{"text": "You mend gates."}]});
        let new = json!({"model": "models/gemini-3-pro-preview", "systemInstruction": instruction,
            "contents": []});
        Self(Body::behind(file, "contents", new))
    }
}

impl Scribe for Gemini {
    fn asked(&mut self, message: &Message) {
        let parts: Vec<Value> = texts(message).map(|text| json!({"text": text})).collect();
        self.0.push(json!({"role": "user", "parts": parts}));
    }

    fn answered(&mut self, Answer { thought, text, calls }: &Answer) {
        let mut parts: Vec<Value> =
            thought.iter().map(|text| json!({"text": text, "thought": true})).collect();
        parts.extend(text.iter().map(|text| json!({"text": text})));
        let mut results = Vec::new();
        for call in calls {
            let (name, args) = GEMINI.call(&call.tool);
            let field = if call.failed { "error" } else { "output" };
            parts.push(json!({"functionCall": {"id": call.id, "name": name, "args": args}}));
            let response = json!({"id": call.id, "name": name, "response": {field: call.output}});
            results.push(json!({"functionResponse": response}));
        }
        self.0.push(json!({"role": "model", "parts": parts}));
        if !results.is_empty() {
            self.0.push(json!({"role": "user", "parts": results}));
        }
    }

    fn file(self) -> Vec<u8> {
        self.0.bytes()
    }
}
