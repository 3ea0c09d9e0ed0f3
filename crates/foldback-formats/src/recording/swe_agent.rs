//! Trajectories of SWE-agent: `history[]` holds the messages, in the shape of Chat Completions with
//! fields of its own. `trajectory[].messages` repeats the prompt of each step and is not read.
//!
//! Version 1 with function calling has `tool_calls`, and tool messages with a list of
//! `tool_call_ids`. Version 0, and version 1 with text actions, has neither: an observation is a
//! user message. It was not said by a person, so the first user message, the task, is the only one
//! that begins a turn; the others, and demonstrations, are context.

use foldback_core::{Dialect, Item, ItemKind, Part, Text, ToolResult};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::pieces::{Places, ThinkingBlock, if_understood, of_recording};
use crate::conversation::{Conversation, FilePlace};
use crate::detect::{Fit, Probe};
use crate::dialect::openai_chat::{read_content, read_message};
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Reading};

pub(crate) struct SweAgent;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    history: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    replay_config: Option<&'a RawValue>,
}

/// What a message has beside the fields of Chat Completions.
#[derive(Deserialize)]
struct Message<'a> {
    role: Text,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "if_understood")]
    thought: Option<Text>,
    #[serde(default)]
    tool_call_ids: Option<Vec<Text>>,
    #[serde(default, deserialize_with = "if_understood")]
    thinking_blocks: Option<Vec<ThinkingBlock>>,
    #[serde(default, deserialize_with = "if_understood")]
    is_demo: Option<bool>,
}

impl Codec for SweAgent {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let is_message = |message: &Value| message["role"].is_string() && message["agent"].is_string();
        let is_step = |step: &Value| step["action"].is_string() && step["observation"].is_string();
        let history = probe.elements_of("history");
        let has_steps =
            probe.field("trajectory").is_some() && probe.elements_of("trajectory").iter().all(is_step);
        if has_steps && history.iter().any(is_message) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::SweAgent)?;
        let file: File<'_> = document.parse()?;
        let mut reader = Reader::default();
        let mut places = Places::new(bytes, document.clone());
        for (index, piece) in file.history.into_iter().enumerate() {
            let place = places.of(piece);
            match document.read_piece::<Message<'_>>(piece) {
                Ok(message) => reader.message(format!("m{index}"), message, piece, place),
                Err(problem) => reader.problems.push(problem),
            }
        }
        Ok(Reading {
            conversations: vec![reader.conversation],
            problems: reader.problems,
            dialect: Some(Dialect::OpenaiChat),
            model: file.replay_config.and_then(model_of),
            ..Reading::default()
        })
    }
}

/// The configuration is an object, or in later versions the text of one.
fn model_of(raw: &RawValue) -> Option<Text> {
    let config: Value = serde_json::from_str(raw.get()).ok()?;
    let config = match config {
        Value::String(text) => serde_json::from_str(&text).ok()?,
        config => config,
    };
    config["agent"]["model"]["name"].as_str().map(Text::from)
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    problems: Vec<Problem>,
    has_task: bool,
}

impl Reader {
    fn message(&mut self, id: String, message: Message<'_>, piece: &RawValue, place: FilePlace) {
        let Message { role, content, thought, tool_call_ids, thinking_blocks, is_demo } = message;
        let call_ids = tool_call_ids.unwrap_or_default();
        if &*role == "tool" && !call_ids.is_empty() {
            // Several calls have one answer: it stands with the first.
            let mut content = content.map_or_else(Vec::new, read_content);
            let results = call_ids.iter().map(|call_id| {
                let content = std::mem::take(&mut content);
                Part::ToolResult(ToolResult { call_id: call_id.as_str().into(), content, is_error: false })
            });
            let parts = results.collect();
            self.conversation.push(of_recording(Item::new(id, ItemKind::Tool, parts)), place);
            return;
        }
        let Ok(mut item) = read_message(piece, id) else { return };
        if item.kind == ItemKind::Assistant {
            if content.is_none()
                && let Some(thought) = thought.filter(|thought| !thought.is_empty())
            {
                item.parts.insert(0, Part::Text(thought));
            }
            item.parts.splice(0..0, thinking_blocks.into_iter().flatten().map(Part::from));
        }
        if item.kind == ItemKind::User {
            let is_task = !self.has_task && is_demo != Some(true);
            self.has_task |= is_task;
            item.kind = if is_task { ItemKind::User } else { ItemKind::Context };
        }
        if !item.parts.is_empty() {
            self.conversation.push(of_recording(item), place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(history: &str) -> Reading {
        let text = format!("{{\"trajectory\":[],\"history\":[\n{history}\n]}}");
        SweAgent.read(text.as_bytes()).unwrap()
    }

    #[test]
    fn only_the_task_is_said_by_a_person() {
        let reading = read(
            r#"{"role":"system","content":"s","agent":"main"},
               {"role":"user","content":"a demonstration","agent":"main","is_demo":true},
               {"role":"user","content":"fix it","agent":"main"},
               {"role":"assistant","content":"look\n```\nls\n```","thought":"look","action":"ls","agent":"main"},
               {"role":"user","content":"setup.py","agent":"main"}"#,
        );
        let recorded = reading.conversations[0].recorded();
        let kinds: Vec<ItemKind> = recorded.iter().map(|recorded| recorded.item.kind).collect();
        use ItemKind::{Assistant, Context, System, User};
        assert_eq!(kinds, [System, Context, User, Assistant, Context]);
    }

    #[test]
    fn a_message_without_a_role_is_a_problem_on_its_line() {
        let reading = read("{\"role\":\"user\",\"content\":\"a\"},\n{\"content\":\"b\"}");
        assert_eq!(reading.problems[0].line, 3);
        assert_eq!(reading.conversations[0].len(), 1);
    }

    #[test]
    fn an_answer_to_several_calls_answers_each() {
        let reading = read(r#"{"role":"tool","content":"both","tool_call_ids":["a","b"],"agent":"main"}"#);
        let item = &reading.conversations[0].recorded()[0].item;
        let answers: Vec<(&str, usize)> =
            item.results().map(|(_, result)| (result.call_id.as_str(), result.content.len())).collect();
        assert_eq!(answers, [("a", 1), ("b", 0)]);
    }
}
