//! rig's messages as foldback's items, and what a compaction made as rig's messages.
//!
//! Each piece of a message becomes one part. A user message that holds results and words becomes two items,
//! because foldback keeps results apart from what the user said. What foldback has no word for, such as the
//! provider's own form of a piece, stays in rig's message: one that a compaction leaves alone comes back as it
//! was, and of a changed message only the pieces that were changed are made anew.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use foldback::engine::messages::{HostMessage, Piece};
use foldback::{
    Blob, File, FinishReason, Handle, Item, ItemKind, Json, Media, Opaque, Part, Reasoning, ResultPart,
    SummaryOrigin, Text, Tokens, ToolCall, ToolInput, ToolResult,
};
use rig_core::completion::Message;
use rig_core::message::{
    self, AssistantContent, AssistantMessage, AudioMediaType, CallId, DocumentMediaType, DocumentSourceKind,
    ImageMediaType, MimeType, Native, StopReason, ToolFunction, ToolName, ToolResultContent, UserContent,
    VideoMediaType,
};
use serde_json::{Value, json};

/// Where an opaque part came from.
const SOURCE: &str = "rig";

/// The type of media that do not say.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The name of the tool in a result that foldback made for a call without one: foldback's results name the
/// call alone.
const UNNAMED_TOOL: &str = "tool";

/// In front of the ids that rig made where a provider sent none.
const LOCAL_ID: &str = "rig-";

/// Around a summary, which rig has no message for.
const SUMMARY_START: &str = "<conversation_summary>\n";
const SUMMARY_END: &str = "\n</conversation_summary>";

/// A message of rig's, in foldback's hands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told(pub(crate) Message);

impl HostMessage for Told {
    fn to_items(&self) -> Vec<Item> {
        match &self.0 {
            Message::System { content } => vec![Item::text("", ItemKind::System, content.as_str())],
            Message::User { content } => user_items(content),
            Message::Assistant(turn) => vec![Item {
                finish_reason: turn.stop.as_ref().and_then(finish_reason),
                ..Item::assistant("", turn.content.iter().map(said).collect())
            }],
        }
    }

    fn from_item(item: &Item) -> Self {
        Self(match item.kind {
            ItemKind::System | ItemKind::Developer => Message::System { content: texts(item) },
            ItemKind::Assistant => {
                Message::Assistant(AssistantMessage::new(item.parts.iter().map(made_said).collect()))
            }
            ItemKind::Context if item.summary.is_some() => {
                let text = Part::text(format!("{SUMMARY_START}{}{SUMMARY_END}", texts(item)));
                Message::User { content: vec![made_given(&text)] }
            }
            ItemKind::Tool | ItemKind::User | ItemKind::Context | ItemKind::Notification => {
                Message::User { content: item.parts.iter().map(made_given).collect() }
            }
        })
    }

    fn with_pieces(&self, pieces: &[Piece<'_>]) -> Self {
        Self(match &self.0 {
            Message::System { content } => {
                let left =
                    pieces.first().map(|piece| piece.replaced.map_or_else(|| content.clone(), text_of));
                Message::System { content: left.unwrap_or_default() }
            }
            Message::User { content } => Message::User { content: left(content, pieces, replaced_given) },
            Message::Assistant(turn) => {
                Message::Assistant(turn.clone().with_content(left(&turn.content, pieces, replaced_said)))
            }
        })
    }
}

/// What the model sees, as rig wants it: no message is empty, and where a compaction took away what stood
/// between two turns of the model, they are one.
pub(crate) fn history(told: Vec<Told>) -> Vec<Message> {
    let mut history: Vec<Message> = Vec::with_capacity(told.len());
    for Told(message) in told.into_iter().filter(|Told(message)| !is_empty(message)) {
        match (history.last_mut(), message) {
            (Some(Message::Assistant(last)), Message::Assistant(mut next)) => {
                let origin = next.origin.take().filter(|origin| last.origin.as_ref() == Some(origin));
                last.content.append(&mut next.content);
                (last.origin, last.stop) = (origin, next.stop);
            }
            (_, message) => history.push(message),
        }
    }
    history
}

fn is_empty(message: &Message) -> bool {
    match message {
        Message::System { .. } => false,
        Message::User { content } => content.is_empty(),
        Message::Assistant(turn) => turn.content.is_empty(),
    }
}

/// The pieces that are left, each as it was or under another content.
fn left<C: Clone>(content: &[C], pieces: &[Piece<'_>], replaced: fn(&C, &Part) -> C) -> Vec<C> {
    let left = pieces.iter().filter_map(|piece| {
        let given = content.get(piece.index)?;
        Some(piece.replaced.map_or_else(|| given.clone(), |part| replaced(given, part)))
    });
    left.collect()
}

/// One item for each run of results, and for each run of anything else.
fn user_items(content: &[UserContent]) -> Vec<Item> {
    let is_result = |content: &UserContent| matches!(content, UserContent::ToolResult(_));
    let runs = content.chunk_by(|first, second| is_result(first) == is_result(second));
    let items = runs.map(|run| {
        let kind = if run.iter().all(is_result) { ItemKind::Tool } else { ItemKind::User };
        Item::new("", kind, run.iter().map(given).collect())
    });
    let items: Vec<Item> = items.map(summary_or_words).collect();
    match items.is_empty() {
        true => vec![Item::new("", ItemKind::User, Vec::new())],
        false => items,
    }
}

/// An earlier summary, known by the element that it stands in; else what the user said. Nothing but the text
/// is left of it, so that it is one opaque summary.
fn summary_or_words(item: Item) -> Item {
    let [Part::Text(text)] = &item.parts[..] else { return item };
    let inside = text.strip_prefix(SUMMARY_START).and_then(|rest| rest.strip_suffix(SUMMARY_END));
    let Some(parts) = inside.map(|inside| vec![Part::text(inside)]) else { return item };
    let summary = Some(SummaryOrigin {
        handle: Handle::of_item(0, &item.id),
        item_count: 0,
        tokens_before: Tokens::ZERO,
        written_by: SOURCE.into(),
    });
    Item { kind: ItemKind::Context, parts, summary, ..item }
}

fn finish_reason(stop: &StopReason) -> Option<FinishReason> {
    match stop {
        StopReason::Stop => Some(FinishReason::Stop),
        StopReason::Length => Some(FinishReason::Length),
        StopReason::ToolUse => Some(FinishReason::ToolCalls),
        StopReason::Error(_) => Some(FinishReason::Error),
        StopReason::Aborted(_) => Some(FinishReason::Interrupted),
        _ => None,
    }
}

fn given(content: &UserContent) -> Part {
    match content {
        UserContent::Text(text) => Part::text(text.text.as_str()),
        UserContent::ToolResult(result) => Part::ToolResult(ToolResult {
            call_id: call_id(&result.call),
            content: result.content.iter().map(result_part).collect(),
            is_error: result.is_error,
        }),
        UserContent::Image(image) => Part::Media(self::image(image)),
        UserContent::Audio(audio) => Part::Media(media(audio.media_type.as_ref(), &audio.data)),
        UserContent::Video(video) => Part::Media(media(video.media_type.as_ref(), &video.data)),
        UserContent::Document(document) => Part::File(File {
            name: None,
            media_type: media_type(document.media_type.as_ref()),
            data: blob(&document.data),
        }),
    }
}

fn said(content: &AssistantContent) -> Part {
    match content {
        AssistantContent::Text(text) => Part::text(text.text.as_str()),
        AssistantContent::ToolCall(call) => Part::ToolCall(ToolCall {
            id: call_id(&call.id),
            name: call.function.name.as_str().into(),
            input: input(&call.function),
            signature: call.native.as_ref().map(native),
        }),
        AssistantContent::Reasoning(reasoning) => Part::Reasoning(Reasoning {
            text: reasoning.text.as_str().into(),
            id: None,
            signature: None,
            // The provider's own form holds the signature, or what it hides.
            encrypted: reasoning.native.as_ref().map(native).or(reasoning.redacted.then(Text::default)),
        }),
        AssistantContent::Image(image) => Part::Media(self::image(image)),
        _ => Part::Opaque(Opaque { source: SOURCE.into(), json: Json::from_value(&value_of(content)) }),
    }
}

/// The id as foldback knows it: rig's own ids are told from those of providers.
fn call_id(id: &CallId) -> foldback::CallId {
    match id {
        CallId::Provider(id) => id.as_str().into(),
        CallId::Local(id) => format!("{LOCAL_ID}{id}").into(),
    }
}

fn made_call_id(id: &str) -> CallId {
    let local = id.strip_prefix(LOCAL_ID).map(|id| serde_json::from_value(json!(id)));
    match local {
        Some(Ok(id)) => CallId::Local(id),
        Some(Err(_)) | None => CallId::from_wire(id),
    }
}

fn native(native: &Native) -> Text {
    native.item.to_string().into()
}

fn value_of(content: &AssistantContent) -> Value {
    serde_json::to_value(content).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

fn input(function: &ToolFunction) -> ToolInput {
    match &function.invalid_arguments {
        Some(text) => ToolInput::Text(text.as_str().into()),
        None => ToolInput::Json(Json::from_value(&function.arguments_value())),
    }
}

fn result_part(content: &ToolResultContent) -> ResultPart {
    match content {
        ToolResultContent::Text(text) => ResultPart::Text(text.text.as_str().into()),
        ToolResultContent::Image(image) => ResultPart::Media(self::image(image)),
        ToolResultContent::Json { value } => ResultPart::Structured(Json::from_value(value)),
    }
}

fn image(image: &message::Image) -> Media {
    media(image.media_type.as_ref(), &image.data)
}

fn media<T: MimeType>(media_type: Option<&T>, data: &DocumentSourceKind) -> Media {
    Media { media_type: self::media_type(media_type), data: blob(data), pixels: None }
}

fn media_type<T: MimeType>(media_type: Option<&T>) -> Text {
    media_type.map_or(UNKNOWN_TYPE, T::to_mime_type).into()
}

fn blob(data: &DocumentSourceKind) -> Blob {
    match data {
        DocumentSourceKind::Url(url) => Blob::Url(url.as_str().into()),
        DocumentSourceKind::FileId(id) => Blob::Url(id.as_str().into()),
        DocumentSourceKind::Base64(text) => Blob::Base64(text.as_str().into()),
        DocumentSourceKind::Raw(bytes) => Blob::Base64(STANDARD.encode(bytes).into()),
        DocumentSourceKind::String(text) => Blob::Text(text.as_str().into()),
        DocumentSourceKind::Unknown => Blob::Text(Text::default()),
    }
}

/// A piece that the user or a tool gave, under another content.
fn replaced_given(given: &UserContent, part: &Part) -> UserContent {
    match (given, made_given(part)) {
        (UserContent::ToolResult(given), UserContent::ToolResult(made)) => {
            let (call, name) = (given.call.clone(), given.name.clone());
            UserContent::ToolResult(message::ToolResult { call, name, ..made })
        }
        (_, made) => made,
    }
}

/// A piece that the model said, under another content. rig rebuilds the provider's own form of it.
fn replaced_said(given: &AssistantContent, part: &Part) -> AssistantContent {
    match (given, made_said(part)) {
        (AssistantContent::ToolCall(given), AssistantContent::ToolCall(made)) => {
            AssistantContent::ToolCall(message::ToolCall { id: given.id.clone(), ..made })
        }
        (_, made) => made,
    }
}

fn made_given(part: &Part) -> UserContent {
    match part {
        Part::ToolResult(result) => UserContent::ToolResult(message::ToolResult {
            call: made_call_id(&result.call_id),
            name: tool_name(UNNAMED_TOOL),
            content: result.content.iter().map(made_result_part).collect(),
            is_error: result.is_error,
        }),
        Part::Media(media) => made_media(media),
        Part::File(file) => UserContent::Document(message::Document {
            data: made_data(&file.data),
            media_type: DocumentMediaType::from_mime_type(&file.media_type),
            additional_params: None,
        }),
        Part::Text(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::Structured(_) | Part::Opaque(_) => {
            UserContent::Text(message::Text::new(text_of(part)))
        }
    }
}

fn made_said(part: &Part) -> AssistantContent {
    match part {
        Part::ToolCall(call) => AssistantContent::ToolCall(message::ToolCall::new(
            made_call_id(&call.id),
            ToolFunction::parse(tool_name(&call.name), call.input.as_str()),
        )),
        Part::Reasoning(reasoning) => {
            AssistantContent::Reasoning(message::Reasoning::new(reasoning.text.as_str()))
        }
        Part::Media(media) => AssistantContent::Image(made_image(media)),
        Part::Opaque(opaque) => serde_json::from_str(opaque.json.as_str())
            .unwrap_or_else(|_| AssistantContent::Text(message::Text::new(text_of(part)))),
        Part::Text(_) | Part::ToolResult(_) | Part::File(_) | Part::Structured(_) => {
            AssistantContent::Text(message::Text::new(text_of(part)))
        }
    }
}

fn made_result_part(part: &ResultPart) -> ToolResultContent {
    match part {
        ResultPart::Media(media) => ToolResultContent::Image(made_image(media)),
        ResultPart::Structured(json) => match json.value() {
            Some(value) => ToolResultContent::Json { value },
            None => ToolResultContent::Text(message::Text::new(json.as_str())),
        },
        ResultPart::Text(text) => ToolResultContent::Text(message::Text::new(text.as_str())),
        ResultPart::File(file) => ToolResultContent::Text(message::Text::new(file.label())),
        ResultPart::Opaque(opaque) => ToolResultContent::Text(message::Text::new(opaque.json.as_str())),
    }
}

fn made_media(media: &Media) -> UserContent {
    let data = made_data(&media.data);
    match media.media_type.split('/').next().unwrap_or_default() {
        "audio" => UserContent::Audio(message::Audio {
            data,
            media_type: AudioMediaType::from_mime_type(&media.media_type),
        }),
        "video" => UserContent::Video(message::Video {
            data,
            media_type: VideoMediaType::from_mime_type(&media.media_type),
            additional_params: None,
        }),
        _ => UserContent::Image(made_image(media)),
    }
}

fn made_image(media: &Media) -> message::Image {
    message::Image {
        data: made_data(&media.data),
        media_type: ImageMediaType::from_mime_type(&media.media_type),
        ..message::Image::default()
    }
}

fn made_data(data: &Blob) -> DocumentSourceKind {
    match data {
        Blob::Base64(text) => DocumentSourceKind::base64(text.as_str()),
        Blob::Url(url) => DocumentSourceKind::url(url.as_str()),
        Blob::Text(text) => DocumentSourceKind::string(text.as_str()),
    }
}

fn tool_name(name: &str) -> ToolName {
    ToolName::new(name).or_else(|_| ToolName::new(UNNAMED_TOOL)).expect("the other name is not empty")
}

fn texts(item: &Item) -> String {
    item.parts.iter().map(text_of).collect::<Vec<_>>().join("\n")
}

fn text_of(part: &Part) -> String {
    foldback::reading::text_of(part).into_owned()
}

#[cfg(test)]
mod tests;
