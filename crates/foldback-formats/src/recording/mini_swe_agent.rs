//! Trajectories of mini-swe-agent: messages in the shape of Chat Completions, and for each answer
//! the provider's response in `extra`.
//!
//! In version 1 an action is a code block in the answer's text and an observation a user message,
//! without ids that could tie them. So they stay text; and because nobody said them, observations
//! are context: only the first user message, the task, begins a turn. What the model thought
//! stands in `extra` only: the agent does not send it back, so it is not part of the conversation.

use foldback_core::{Dialect, Item, ItemKind, Part, Text};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::pieces::{Places, ReportedUsage, if_understood, of_recording, time_of_seconds};
use crate::conversation::Conversation;
use crate::detect::{Fit, Probe};
use crate::dialect::openai_chat::{part_of, read_content, read_message};
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Reading};

pub(crate) struct MiniSweAgent;

/// How `trajectory_format` begins.
const FORMAT_PREFIX: &str = "mini-swe-agent";

/// The role of the last message, which says why the agent stopped.
const EXIT_ROLE: &str = "exit";

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    info: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "if_understood")]
    instance_id: Option<Text>,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: Text,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    extra: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Extra {
    response: Option<Response>,
    timestamp: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    created: Option<f64>,
    usage: Option<ReportedUsage>,
}

impl Codec for MiniSweAgent {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let format = probe.field("trajectory_format");
        let format = format.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        match format {
            Some(format) if format.starts_with(FORMAT_PREFIX) => Fit::Sure,
            _ => Fit::No,
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::MiniSweAgent)?;
        let file: File<'_> = document.parse()?;
        let mut conversation = Conversation::new();
        let mut problems: Vec<Problem> = Vec::new();
        let mut places = Places::new(bytes, document.clone());
        let mut has_task = false;
        for (index, piece) in file.messages.into_iter().enumerate() {
            let place = places.of(piece);
            match document.read_piece(piece).map(|message| read(&message, piece, index)) {
                Ok(Some(mut item)) => {
                    if item.kind == ItemKind::User && std::mem::replace(&mut has_task, true) {
                        item.kind = ItemKind::Context;
                    }
                    conversation.push(of_recording(item), place);
                }
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        Ok(Reading {
            conversations: vec![conversation],
            problems,
            dialect: Some(Dialect::OpenaiChat),
            model: file.info.and_then(model_of),
            session_id: file.instance_id,
            ..Reading::default()
        })
    }
}

fn read(message: &Message<'_>, piece: &RawValue, index: usize) -> Option<Item> {
    let id = format!("m{index}");
    let mut item = match &*message.role {
        EXIT_ROLE => {
            let parts: Vec<Part> =
                message.content.map_or_else(Vec::new, read_content).into_iter().map(part_of).collect();
            Item::new(id, ItemKind::Notification, parts)
        }
        _ => read_message(piece, id).ok()?,
    };
    let extra: Extra = message.extra.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let response = extra.response.unwrap_or_default();
    item.created_at = response.created.or(extra.timestamp).map(time_of_seconds);
    item.usage = response.usage.map(ReportedUsage::disjoint);
    (!item.parts.is_empty()).then_some(item)
}

fn model_of(raw: &RawValue) -> Option<Text> {
    let info: serde_json::Value = serde_json::from_str(raw.get()).ok()?;
    info["config"]["model"]["model_name"].as_str().map(Text::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_is_context_and_begins_no_turn() {
        let text = r#"{"trajectory_format":"mini-swe-agent-1","messages":[
            {"role":"system","content":"s"},
            {"role":"user","content":"fix it"},
            {"role":"assistant","content":"THOUGHT: look\n\n```bash\nls\n```",
             "extra":{"response":{"created":1763511545,"usage":{"prompt_tokens":10,"completion_tokens":2,
                "prompt_tokens_details":{"cached_tokens":4}}}}},
            {"role":"user","content":"<returncode>0</returncode>"}]}"#;
        let reading = MiniSweAgent.read(text.as_bytes()).unwrap();
        let recorded = reading.conversations[0].recorded();
        assert_eq!(recorded[3].item.kind, ItemKind::Context);
        assert_eq!(recorded[3].item.turn_id, recorded[1].item.turn_id);
        let usage = recorded[2].item.usage.unwrap();
        assert_eq!((usage.input_tokens.0, usage.cached_tokens.0), (6, 4));
    }

    #[test]
    fn a_message_without_a_role_is_a_problem_on_its_line() {
        let text = "{\"trajectory_format\":\"mini-swe-agent-1\",\"messages\":[\n{\"content\":\"b\"}]}";
        let reading = MiniSweAgent.read(text.as_bytes()).unwrap();
        assert_eq!(reading.problems[0].line, 2);
    }
}
