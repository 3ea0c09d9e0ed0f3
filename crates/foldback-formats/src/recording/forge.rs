//! Conversations of Forge: one JSON object whose `context.messages` are tagged by what they are,
//! `{"text": {role, content, …}}`, `{"tool": {…}}` or `{"image": {…}}`.
//!
//! User messages that Forge may leave out again (`droppable`) are files that it attached, so they
//! are context and not something the person said.

use std::collections::BTreeMap;

use foldback_core::{
    FinishReason, Item, ItemKind, Opaque, Part, Reasoning, ResultPart, Text, ToolCall, ToolResult, Usage,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::pieces::{Places, if_understood, input_of, json_of, of_recording, text_part};
use crate::conversation::{Conversation, FilePlace};
use crate::detect::{Fit, Probe};
use crate::dialect::openai_chat::content::image_at;
use crate::document::Document;
use crate::error::{FormatError, Problem};
use crate::format::{Codec, Format, Reading};

pub(crate) struct Forge;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(default, deserialize_with = "if_understood")]
    id: Option<Text>,
    #[serde(borrow, default)]
    context: Option<Context<'a>>,
}

#[derive(Deserialize)]
struct Context<'a> {
    #[serde(borrow, default)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    text: Option<TextMessage<'a>>,
    #[serde(borrow, default)]
    tool: Option<ToolMessage<'a>>,
    #[serde(default)]
    image: Option<Image>,
}

#[derive(Deserialize)]
struct TextMessage<'a> {
    role: Text,
    #[serde(default)]
    content: Option<Text>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(default, deserialize_with = "if_understood")]
    reasoning_details: Option<Vec<Thinking>>,
    #[serde(default, deserialize_with = "if_understood")]
    model: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    droppable: Option<bool>,
}

#[derive(Deserialize)]
struct Call<'a> {
    name: Text,
    #[serde(default)]
    call_id: Option<Text>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Thinking {
    #[serde(default)]
    text: Option<Text>,
    #[serde(default, deserialize_with = "if_understood")]
    id: Option<Text>,
    #[serde(default)]
    signature: Option<Text>,
    #[serde(default)]
    data: Option<Text>,
}

#[derive(Deserialize)]
struct ToolMessage<'a> {
    name: Text,
    #[serde(default)]
    call_id: Option<Text>,
    #[serde(borrow)]
    output: Output<'a>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(default)]
    is_error: bool,
    #[serde(borrow, default)]
    values: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Image {
    url: Text,
}

/// Counts are tagged with whether the provider gave them or Forge estimated them.
#[derive(Deserialize)]
struct ReportedUsage {
    #[serde(default)]
    prompt_tokens: BTreeMap<String, u64>,
    #[serde(default)]
    completion_tokens: BTreeMap<String, u64>,
    #[serde(default)]
    cached_tokens: BTreeMap<String, u64>,
}

impl Codec for Forge {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        let Some(context) = probe.field("context") else { return Fit::No };
        let Ok(context) = serde_json::from_str::<Context<'_>>(context.get()) else { return Fit::No };
        let is_tagged = |message: &&RawValue| match serde_json::from_str(message.get()) {
            Ok(Value::Object(message)) => {
                message.get("text").is_some_and(|text| text["role"].is_string())
                    || message.get("tool").is_some_and(|tool| tool["output"].is_object())
            }
            _ => false,
        };
        if context.messages.first().is_some_and(is_tagged) { Fit::Sure } else { Fit::No }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::Forge)?;
        let file: File<'_> = document.parse()?;
        let mut reader = Reader::default();
        let mut places = Places::new(bytes, document.clone());
        let context = file.context.unwrap_or(Context { messages: Vec::new(), usage: None });
        for (index, piece) in context.messages.into_iter().enumerate() {
            let place = places.of(piece);
            match document.read_piece(piece) {
                Ok(message) => reader.message(index, message, piece, place),
                Err(problem) => reader.problems.push(problem),
            }
        }
        reader.report_usage(context.usage);
        let Reader { conversation, problems, model, .. } = reader;
        Ok(Reading {
            conversations: vec![conversation],
            problems,
            model,
            session_id: file.id,
            ..Reading::default()
        })
    }
}

#[derive(Default)]
struct Reader {
    conversation: Conversation,
    problems: Vec<Problem>,
    model: Option<Text>,
    last_assistant: Option<usize>,
    /// Calls of the last assistant message that have no id of their own, not answered yet.
    unnamed: std::collections::VecDeque<Text>,
}

impl Reader {
    fn message(&mut self, index: usize, message: Message<'_>, piece: &RawValue, place: FilePlace) {
        let id = format!("m{index}");
        match message {
            Message { text: Some(text), .. } => self.text(id, text, place),
            Message { tool: Some(tool), .. } => {
                let item = Item::tool(id, self.result(tool));
                self.conversation.push(of_recording(item), place);
            }
            Message { image: Some(image), .. } => {
                let part = Part::Media(image_at(&image.url));
                self.conversation.push(Item::new(id, ItemKind::Context, vec![part]), place);
            }
            Message { .. } => {
                let part = Part::Opaque(Opaque { source: "forge/message".into(), json: json_of(piece) });
                let item = Item::new(id, ItemKind::Context, vec![part]);
                self.conversation.push(of_recording(item), place);
            }
        }
    }

    fn text(&mut self, id: String, message: TextMessage<'_>, place: FilePlace) {
        let kind = match message.role.to_ascii_lowercase().as_str() {
            "system" => ItemKind::System,
            "assistant" => ItemKind::Assistant,
            "user" if message.droppable != Some(true) => ItemKind::User,
            _ => ItemKind::Context,
        };
        self.model = message.model.or_else(|| self.model.take());
        let mut parts = Vec::new();
        if kind == ItemKind::Assistant {
            parts.extend(message.reasoning_details.into_iter().flatten().map(reasoning));
        }
        parts.extend(text_part(message.content));
        let mut finish_reason = None;
        if kind == ItemKind::Assistant {
            self.unnamed.clear();
            for (call_index, call) in message.tool_calls.into_iter().flatten().enumerate() {
                let call_id = call.call_id.unwrap_or_else(|| {
                    let made: Text = format!("{id}-{call_index}").into();
                    self.unnamed.push_back(made.clone());
                    made
                });
                let input = input_of(call.arguments);
                let id = call_id.as_str().into();
                parts.push(Part::ToolCall(ToolCall { id, name: call.name, input, signature: None }));
                finish_reason = Some(FinishReason::ToolCalls);
            }
        }
        if parts.is_empty() {
            return;
        }
        let item = Item { finish_reason, ..Item::new(id, kind, parts) };
        let item_index = self.conversation.push(of_recording(item), place);
        if kind == ItemKind::Assistant {
            self.last_assistant = Some(item_index);
        }
    }

    fn result(&mut self, tool: ToolMessage<'_>) -> ToolResult {
        let call_id = tool.call_id.or_else(|| self.unnamed.pop_front()).unwrap_or(tool.name);
        let content = tool.output.values.into_iter().filter_map(value).collect();
        ToolResult { call_id: call_id.as_str().into(), content, is_error: tool.output.is_error }
    }

    /// Forge keeps the usage of the last answer only.
    fn report_usage(&mut self, usage: Option<&RawValue>) {
        let Some(item_index) = self.last_assistant else { return };
        let Some(usage) = usage.and_then(|raw| serde_json::from_str::<ReportedUsage>(raw.get()).ok()) else {
            return;
        };
        let count = |tagged: &BTreeMap<String, u64>| tagged.values().copied().max().unwrap_or(0);
        let (prompt, cached) = (count(&usage.prompt_tokens), count(&usage.cached_tokens));
        let usage = Usage {
            input_tokens: foldback_core::Tokens(prompt.saturating_sub(cached)),
            cached_tokens: foldback_core::Tokens(cached),
            output_tokens: foldback_core::Tokens(count(&usage.completion_tokens)),
            ..Usage::default()
        };
        self.conversation.amend_item(item_index, |item| item.usage = Some(usage));
    }
}

fn reasoning(thinking: Thinking) -> Part {
    let Thinking { text, id, signature, data } = thinking;
    Part::Reasoning(Reasoning { text: text.unwrap_or_default(), id, signature, encrypted: data })
}

/// One value of a tool's output: an object whose only key says what it is.
fn value(raw: &RawValue) -> Option<ResultPart> {
    #[derive(Deserialize)]
    struct Tagged {
        #[serde(default)]
        text: Option<Text>,
        #[serde(default)]
        image: Option<Image>,
    }
    match serde_json::from_str(raw.get()) {
        Ok(Tagged { text: Some(text), .. }) => Some(ResultPart::Text(text)),
        Ok(Tagged { image: Some(image), .. }) => Some(ResultPart::Media(image_at(&image.url))),
        _ if raw.get() == "\"empty\"" => None,
        _ => Some(ResultPart::Opaque(Opaque { source: "forge/value".into(), json: json_of(raw) })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(messages: &str) -> Reading {
        Forge.read(format!("{{\"context\":{{\"messages\":[\n{messages}\n]}}}}").as_bytes()).unwrap()
    }

    #[test]
    fn an_attached_file_is_context_and_begins_no_turn() {
        let reading = read(
            r#"{"text":{"role":"User","content":"add tests"}},
               {"text":{"role":"User","content":"<file_content>…","droppable":true}},
               {"text":{"role":"Assistant","content":"done"}}"#,
        );
        let recorded = reading.conversations[0].recorded();
        let kinds: Vec<ItemKind> = recorded.iter().map(|recorded| recorded.item.kind).collect();
        assert_eq!(kinds, [ItemKind::User, ItemKind::Context, ItemKind::Assistant]);
        assert_eq!(recorded[0].item.turn_id, recorded[2].item.turn_id);
    }

    #[test]
    fn a_call_without_an_id_is_answered_by_the_next_result_without_one() {
        let reading = read(
            r#"{"text":{"role":"Assistant","tool_calls":[{"name":"read","arguments":{}},{"name":"ls","arguments":{}}]}},
               {"tool":{"name":"read","output":{"is_error":false,"values":[{"text":"a"}]}}},
               {"tool":{"name":"ls","output":{"is_error":true,"values":["empty"]}}}"#,
        );
        let recorded = reading.conversations[0].recorded();
        let calls: Vec<_> = recorded[0].item.calls().map(|(_, call)| call.id.clone()).collect();
        let answers: Vec<_> = recorded
            .iter()
            .flat_map(|at| at.item.results())
            .map(|(_, result)| result.call_id.clone())
            .collect();
        assert_eq!(calls, answers);
    }

    #[test]
    fn a_message_that_is_not_understood_is_a_problem_on_its_line() {
        let reading = read("{\"text\":{\"role\":\"User\",\"content\":\"a\"}},\n{\"text\":{\"role\":5}}");
        assert_eq!(reading.conversations[0].len(), 1);
        assert_eq!(reading.problems[0].line, 3);
    }
}
