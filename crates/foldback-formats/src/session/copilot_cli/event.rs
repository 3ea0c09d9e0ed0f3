//! One event of Copilot CLI, and what it means.

use foldback_core::item::Inserted;
use foldback_core::{
    Blob, CallId, FinishReason, Item, ItemKind, Json, Media, Opaque, Part, Reasoning, ResultPart, Text,
    Tokens, ToolCall, ToolInput, ToolResult,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::BY;
use crate::attribution::attributed;
use crate::conversation::{Extension, FilePlace};
use crate::error::Problem;
use crate::lowering::{Tag, found_summary};
use crate::rfc3339;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    pub(super) id: Option<Text>,
    pub(super) timestamp: Option<String>,
    agent_id: Option<Text>,
}

/// What an event means to a conversation.
#[derive(Debug)]
pub(super) enum Meaning {
    Said {
        item: Item,
        model: Option<Text>,
    },
    CompactionStarted,
    Compacted(Compacted),
    /// The agent forgot everything that was said, and began anew with this.
    Cleared(Option<Item>),
    State {
        model: Option<Text>,
        session_id: Option<Text>,
    },
}

/// A compaction that was completed.
#[derive(Debug)]
pub(super) struct Compacted {
    pub(super) summary: Option<Text>,
    pub(super) tokens_before: Option<u64>,
    pub(super) put_in: Option<PutIn>,
}

/// What foldback notes in a compaction that it adds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PutIn {
    /// The compaction, and the ids of the events behind it that are copies.
    pub(super) made: Extension,
    /// Whether the instructions stay as they are.
    pub(super) keeps_instructions: bool,
    /// Whether the summary is no summary: the agent does not look at a compaction without one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_no_summary: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    parent_tool_call_id: Option<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SystemData {
    role: Option<String>,
    #[serde(default)]
    content: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserData<'a> {
    #[serde(default)]
    content: Text,
    transformed_content: Option<Text>,
    source: Option<String>,
    #[serde(borrow)]
    attachments: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    #[serde(rename = "type", default)]
    kind: String,
    data: Option<Text>,
    mime_type: Option<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssistantData<'a> {
    content: Option<Text>,
    #[serde(borrow)]
    tool_requests: Option<Vec<Request<'a>>>,
    reasoning_text: Option<Text>,
    reasoning_opaque: Option<Text>,
    encrypted_content: Option<Text>,
    model: Option<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    tool_call_id: CallId,
    #[serde(default)]
    name: Text,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultData {
    tool_call_id: CallId,
    success: Option<bool>,
    result: Option<ResultContent>,
    error: Option<ResultError>,
    model: Option<Text>,
}

#[derive(Deserialize)]
struct ResultContent {
    content: Option<Text>,
    contents: Option<Vec<Attachment>>,
    /// The answer as it is, where the fields of the agent cannot hold it.
    foldback: Option<Vec<ResultPart>>,
}

#[derive(Deserialize)]
struct ResultError {
    #[serde(default)]
    message: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompactedData {
    success: Option<bool>,
    summary_content: Option<Text>,
    pre_compaction_tokens: Option<f64>,
    foldback: Option<PutIn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClearedData<'a> {
    initial_message: Option<Text>,
    /// Set by foldback, which says in the compaction that follows what the model sees from here on.
    #[serde(borrow)]
    foldback: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StateData {
    new_model: Option<Text>,
    selected_model: Option<Text>,
    session_id: Option<Text>,
}

impl<'a> Event<'a> {
    /// The sub-agent that it belongs to.
    pub(super) fn agent(&self) -> Option<Text> {
        let of_call = || {
            let is_said = ["assistant.message", "tool.execution_complete"].contains(&&*self.kind);
            let data = self.data.filter(|_| is_said)?;
            serde_json::from_str::<Owner>(data.get()).ok()?.parent_tool_call_id
        };
        self.agent_id.clone().or_else(of_call)
    }

    /// What it means; an event that is not context is state.
    pub(super) fn meaning(&self, place: FilePlace) -> Result<Meaning, Problem> {
        let meaning = match &*self.kind {
            "system.message" => self.data().map(|data: SystemData| self.system(data)),
            "system.notification" => self.data().map(|SystemData { content, .. }| {
                let text = (!content.is_empty()).then_some(Part::Text(content));
                self.said(ItemKind::Notification, text.into_iter().collect(), None)
            }),
            "user.message" => self.data().map(|data: UserData<'_>| self.user(data)),
            "assistant.message" => self.data().and_then(|data: AssistantData<'_>| self.assistant(data)),
            "tool.execution_complete" => self.data().map(|data: ResultData| self.result(data)),
            "session.compaction_start" => Ok(Meaning::CompactionStarted),
            "session.compaction_complete" => self.data().map(|data: CompactedData| compacted(data)),
            "session.context_cleared" => self.data().map(|data: ClearedData<'_>| self.cleared(data)),
            "session.start" | "session.resume" | "session.model_change" => {
                self.data().map(|data: StateData| Meaning::State {
                    model: data.new_model.or(data.selected_model),
                    session_id: data.session_id,
                })
            }
            _ => Ok(Meaning::State { model: None, session_id: None }),
        };
        meaning.map_err(|error| Problem::of_json(&error, place.line, 0)).map(|meaning| match meaning {
            Meaning::Said { mut item, model } => {
                item.created_at = self.timestamp.as_deref().and_then(rfc3339::parse);
                // Several records may lack an id; their line names them.
                if item.id.is_empty() {
                    item.id = format!("line-{}", place.line).into();
                }
                Meaning::Said { item, model }
            }
            other => other,
        })
    }

    fn data<T: Deserialize<'a>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.data.map_or("{}", RawValue::get))
    }

    fn said(&self, kind: ItemKind, parts: Vec<Part>, model: Option<Text>) -> Meaning {
        Meaning::Said { item: Item::new(self.id.as_deref().unwrap_or(""), kind, parts), model }
    }

    fn cleared(&self, data: ClearedData<'_>) -> Meaning {
        if data.foldback.is_some() {
            return Meaning::State { model: None, session_id: None };
        }
        let initial = data.initial_message.filter(|text| !text.is_empty());
        let id = self.id.as_deref().unwrap_or("cleared");
        Meaning::Cleared(
            initial.map(|text| attributed(Item::new(id, ItemKind::User, vec![Part::Text(text)]))),
        )
    }

    /// The agent puts its system prompt together anew whenever it starts; the record of it is no part
    /// of the conversation that is resumed.
    fn system(&self, data: SystemData) -> Meaning {
        match data.role.as_deref() {
            Some("developer") => self.said(ItemKind::Developer, vec![Part::Text(data.content)], None),
            _ => Meaning::State { model: None, session_id: None },
        }
    }

    /// The model sees the content as it was transformed: with the time and reminders around it.
    fn user(&self, data: UserData<'_>) -> Meaning {
        let typed = data.content;
        let text = data.transformed_content.filter(|text| !text.is_empty()).unwrap_or_else(|| typed.clone());
        let tagged = Tag::split(&text).map(|(tag, inside)| (tag, Text::from(inside)));
        let is_from_person = data.source.as_deref().is_none_or(|source| source == "user");
        let kind = match &tagged {
            Some((tag, _)) => tag.kind(),
            None if is_from_person => ItemKind::User,
            None => ItemKind::Context,
        };
        let (tag, text) = tagged.map_or((None, text), |(tag, inside)| (Some(tag), inside));
        let text = (!text.is_empty()).then_some(Part::Text(text));
        let attached = data.attachments.into_iter().flatten().filter_map(attachment);
        let item =
            Item::new(self.id.as_deref().unwrap_or(""), kind, text.into_iter().chain(attached).collect());
        let item = match tag {
            Some(Tag::Summary) => found_summary(item, BY, 0, Tokens::ZERO),
            _ => without_what_was_added(item, &typed),
        };
        Meaning::Said { item, model: None }
    }

    fn assistant(&self, data: AssistantData<'_>) -> Result<Meaning, serde_json::Error> {
        let mut parts = Vec::new();
        let filled = |text: Option<Text>| text.filter(|text| !text.is_empty());
        let reasoning = Reasoning {
            text: data.reasoning_text.unwrap_or_default(),
            id: None,
            signature: filled(data.reasoning_opaque),
            encrypted: filled(data.encrypted_content),
        };
        if !reasoning.text.is_empty() || reasoning.is_sealed() {
            parts.push(Part::Reasoning(reasoning));
        }
        parts.extend(filled(data.content).map(Part::Text));
        let requests = data.tool_requests.unwrap_or_default();
        let finish_reason = if requests.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        for Request { tool_call_id, name, arguments } in requests {
            let input = arguments.map_or("{}", RawValue::get);
            let input = match input.starts_with('"') {
                true => ToolInput::Text(serde_json::from_str(input)?),
                false => ToolInput::Json(Json::parse(input)?),
            };
            parts.push(Part::ToolCall(ToolCall { id: tool_call_id, name, input, signature: None }));
        }
        let mut item = Item::assistant(self.id.as_deref().unwrap_or(""), parts);
        item.finish_reason = Some(finish_reason);
        Ok(Meaning::Said { item, model: data.model })
    }

    fn result(&self, data: ResultData) -> Meaning {
        let is_error = data.success == Some(false) || data.success.is_none() && data.error.is_some();
        let content = match (data.result, data.error) {
            (Some(ResultContent { foldback: Some(content), .. }), _) => content,
            (Some(ResultContent { content, contents, .. }), error) => {
                let text = content.or(error.map(|error| error.message)).map(ResultPart::Text);
                let media =
                    contents.into_iter().flatten().filter_map(Attachment::media).map(ResultPart::Media);
                text.into_iter().chain(media).collect()
            }
            (None, Some(error)) => vec![ResultPart::Text(error.message)],
            (None, None) => Vec::new(),
        };
        let result = ToolResult { call_id: data.tool_call_id, content, is_error };
        self.said(ItemKind::Tool, vec![Part::ToolResult(result)], data.model)
    }
}

/// An item of a user with what the agent put around the words that were typed.
fn without_what_was_added(item: Item, typed: &str) -> Item {
    let mut item = attributed(item);
    if let (ItemKind::User, Some(Part::Text(text))) = (item.kind, item.parts.first())
        && let Some(start) = text.find(typed).filter(|_| !typed.is_empty())
    {
        let around = [0..start, start + typed.len()..text.len()];
        let around = around.into_iter().filter(|span| !span.is_empty());
        item.inserted.extend(around.map(|span| Inserted { part_index: 0, span }));
    }
    item
}

fn compacted(data: CompactedData) -> Meaning {
    let has_none = data.foldback.as_ref().is_some_and(|put_in| put_in.has_no_summary);
    let summary = data.summary_content.filter(|text| !text.is_empty() && !has_none);
    // Without a summary nothing was replaced, unless foldback says by what.
    if data.success == Some(false) || summary.is_none() && data.foldback.is_none() {
        return Meaning::State { model: None, session_id: None };
    }
    let tokens_before = data.pre_compaction_tokens.map(|tokens| tokens as u64);
    Meaning::Compacted(Compacted { summary, tokens_before, put_in: data.foldback })
}

impl Attachment {
    fn media(self) -> Option<Media> {
        let is_media = ["image", "audio", "blob"].contains(&&*self.kind);
        let data = Blob::Base64(self.data.filter(|_| is_media)?);
        Some(Media { media_type: self.mime_type?, data, pixels: None })
    }
}

fn attachment(entry: &RawValue) -> Option<Part> {
    let attached: Attachment = serde_json::from_str(entry.get()).ok()?;
    let source = format!("{BY}/{}", attached.kind);
    attached.media().map(Part::Media).or_else(|| {
        let json = Json::parse(entry.get()).ok()?;
        Some(Part::Opaque(Opaque { source: source.into(), json }))
    })
}
