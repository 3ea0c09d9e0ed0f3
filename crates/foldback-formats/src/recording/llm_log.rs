//! Logs of the OpenHands SDK: the request and the response of one call to a model.
//!
//! The request has `messages` of Chat Completions, or `input` items of the Responses API. For a
//! model without function calling, `messages` holds calls and results rendered as text, and
//! `raw_messages` the same conversation before that; then the latter is read, because the
//! response has been turned back into calls, too.

use foldback_core::{Dialect, FinishReason, Item, ItemKind, Text, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::pieces::{Places, ReportedUsage, if_understood, of_recording, time_of_seconds};
use crate::conversation::{Conversation, FilePlace};
use crate::detect::{Fit, Probe};
use crate::dialect::openai_chat::read_message;
use crate::dialect::openai_responses::items::read_item;
use crate::document::Document;
use crate::error::{Fault, FormatError, Problem};
use crate::format::{Codec, Format, Reading};

pub(crate) struct LlmLog;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow, default)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    raw_messages: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    instructions: Option<Text>,
    #[serde(borrow, default)]
    input: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "if_understood")]
    timestamp: Option<f64>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(default, deserialize_with = "if_understood")]
    id: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    model: Option<Text>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default, deserialize_with = "if_understood")]
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: &'a RawValue,
    #[serde(default, deserialize_with = "if_understood")]
    finish_reason: Option<Text>,
}

impl Codec for LlmLog {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let has = |name: &str| probe.field(name).is_some();
        let is_call = (has("messages") || has("input")) && (has("response") || has("error"));
        let is_logged = has("latency_sec") || has("context_window");
        if is_call && is_logged { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::LlmLog)?;
        let file: File<'_> = document.parse()?;
        let mut reader = Reader {
            document: document.clone(),
            places: Places::new(bytes, document.clone()),
            conversation: Conversation::new(),
            problems: Vec::new(),
        };
        if let Some(instructions) = file.instructions.filter(|text| !text.is_empty()) {
            let item = Item::text("instructions", ItemKind::System, instructions);
            reader.conversation.push(item, FilePlace::line(1));
        }
        let messages = file.raw_messages.filter(|raw| !raw.is_empty()).or(file.messages).unwrap_or_default();
        let is_chat = file.input.is_none();
        for (index, piece) in messages.into_iter().enumerate() {
            reader.push(read_message(piece, format!("m{index}")), piece);
        }
        for (index, piece) in file.input.into_iter().flatten().enumerate() {
            reader.push(read_item(piece, format!("i{index}")), piece);
        }
        let created_at = file.timestamp.map(time_of_seconds);
        let model = file.response.and_then(|response| reader.response(response, created_at));
        Ok(Reading {
            conversations: vec![reader.conversation],
            problems: reader.problems,
            dialect: Some(if is_chat { Dialect::OpenaiChat } else { Dialect::OpenaiResponses }),
            model,
            ..Reading::default()
        })
    }
}

struct Reader<'a> {
    document: Document<'a>,
    places: Places<'a>,
    conversation: Conversation,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// Takes what was read of a piece, and gives its index where it says something.
    fn push(&mut self, read: Result<Item, serde_json::Error>, piece: &'a RawValue) -> Option<usize> {
        let place = self.places.of(piece);
        match read {
            Ok(item) => (!item.parts.is_empty()).then(|| self.conversation.push(of_recording(item), place)),
            Err(error) => {
                let fault = Fault::NotUnderstood { reason: error.to_string() };
                self.problems.push(Problem { line: place.line, column: None, fault });
                None
            }
        }
    }

    /// The answer, and the name of the model that gave it.
    fn response(&mut self, piece: &'a RawValue, created_at: Option<Timestamp>) -> Option<Text> {
        let response: Response<'a> = match self.document.read_piece(piece) {
            Ok(response) => response,
            Err(problem) => {
                self.problems.push(problem);
                return None;
            }
        };
        let choice = response.choices.into_iter().flatten().next();
        let reason = choice.as_ref().and_then(|choice| choice.finish_reason.as_deref());
        let finish_reason = reason.and_then(finish_reason);
        let id = response.id.unwrap_or_else(|| "response".into());
        let mut answer: Vec<Option<usize>> = Vec::new();
        if let Some(choice) = choice {
            answer.push(self.push(read_message(choice.message, id), choice.message));
        }
        for (index, piece) in response.output.into_iter().flatten().enumerate() {
            answer.push(self.push(read_item(piece, format!("o{index}")), piece));
        }
        let last = answer.iter().flatten().last().copied();
        for index in answer.into_iter().flatten() {
            self.conversation.amend_item(index, |item| {
                item.created_at = created_at;
                if Some(index) == last {
                    item.usage = response.usage.map(ReportedUsage::disjoint);
                    item.finish_reason = finish_reason;
                }
            });
        }
        response.model
    }
}

fn finish_reason(reason: &str) -> Option<FinishReason> {
    match reason {
        "stop" => Some(FinishReason::Stop),
        "tool_calls" | "function_call" => Some(FinishReason::ToolCalls),
        "length" => Some(FinishReason::Length),
        "content_filter" => Some(FinishReason::ContentFilter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_messages_before_they_became_text_are_read() {
        let text = r#"{"messages":[{"role":"user","content":"EXECUTION RESULT"}],
            "raw_messages":[{"role":"user","content":"go"},
                {"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"c","content":"a"}],
            "response":{"id":"r","model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"done"}}],
                "usage":{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":8}}},
            "latency_sec":1.5,"timestamp":1757015046.5}"#;
        let reading = LlmLog.read(text.as_bytes()).unwrap();
        let recorded = reading.conversations[0].recorded();
        assert_eq!(recorded.len(), 4);
        let answer = &recorded[3].item;
        assert_eq!(answer.usage.unwrap().cached_tokens.0, 8);
        assert_eq!(answer.created_at, Some(Timestamp(1_757_015_046_500)));
        assert_eq!(reading.model.as_deref(), Some("m"));
    }

    #[test]
    fn a_message_without_a_role_is_a_problem_on_its_line() {
        let text =
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},\n{\"content\":\"b\"}],\"response\":{}}";
        let reading = LlmLog.read(text.as_bytes()).unwrap();
        assert_eq!(reading.problems[0].line, 2);
    }
}
