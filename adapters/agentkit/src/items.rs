//! agentkit's items as foldback's, and what a compaction made as agentkit's.
//!
//! Both have the same seven kinds of items, and each part becomes one part. What foldback has no word for,
//! such as metadata of a part, stays in agentkit's item: an item that a compaction leaves alone comes back as
//! it was, and of a changed item only the parts that were changed are made anew.

use agentkit_core as agentkit;
use agentkit_core::{
    CustomPart, DataRef, FilePart, ItemKind as Kind, MediaPart, MetadataMap, Modality, ReasoningPart,
    StructuredPart, TextPart, ToolCallPart, ToolOutput, ToolResultPart,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use foldback::engine::messages::{HostMessage, Piece};
use foldback::{
    Blob, File, FinishReason, Item, ItemKind, Json, Media, Opaque, Part, Reasoning, ResultPart,
    SummaryOrigin, Text, Timestamp, Tokens, ToolCall, ToolInput, ToolResult, Usage,
};
use serde_json::{Value, json};

/// The key in an item's metadata that marks a summary, and says what the summary stands for.
pub const SUMMARY_METADATA_KEY: &str = "foldback.summary";

/// Where an opaque part came from.
const SOURCE: &str = "agentkit";

/// The type of a file that does not say.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// An item of agentkit's, in foldback's hands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message(pub(crate) agentkit::Item);

impl HostMessage for Message {
    fn to_items(&self) -> Vec<Item> {
        let Self(item) = self;
        let id = item.id.as_ref().map_or("", |id| &id.0);
        let parts = item.parts.iter().map(part).collect();
        vec![Item {
            created_at: item.created_at.and_then(|at| i64::try_from(at.0).ok()).map(Timestamp),
            usage: item.usage.as_ref().and_then(|usage| usage.tokens.as_ref()).map(usage),
            finish_reason: item.finish_reason.as_ref().and_then(finish_reason),
            summary: item.metadata.get(SUMMARY_METADATA_KEY).and_then(origin),
            metadata: item.metadata.clone().into_iter().collect(),
            ..Item::new(id, kind(item.kind), parts)
        }]
    }

    fn from_item(item: &Item) -> Self {
        let mut metadata: MetadataMap = item.metadata.clone().into_iter().collect();
        if let Some(origin) = item.summary.as_ref().and_then(|origin| serde_json::to_value(origin).ok()) {
            metadata.insert(SUMMARY_METADATA_KEY.to_owned(), origin);
        }
        let parts = item.parts.iter().map(made_part).collect();
        let made = agentkit::Item::new(made_kind(item.kind), parts).with_metadata(metadata);
        let created_at = item.created_at.and_then(|at| u64::try_from(at.0).ok()).map(agentkit::Timestamp);
        Self(agentkit::Item { created_at, ..made.with_id(item.id.as_str()) })
    }

    fn with_pieces(&self, pieces: &[Piece<'_>]) -> Self {
        let left = |piece: &Piece<'_>| {
            let given = self.0.parts.get(piece.index)?;
            Some(piece.replaced.map_or_else(|| given.clone(), |part| replaced(given, part)))
        };
        Self(agentkit::Item { parts: pieces.iter().filter_map(left).collect(), ..self.0.clone() })
    }
}

fn kind(kind: Kind) -> ItemKind {
    match kind {
        Kind::System => ItemKind::System,
        Kind::Developer => ItemKind::Developer,
        Kind::User => ItemKind::User,
        Kind::Assistant => ItemKind::Assistant,
        Kind::Tool => ItemKind::Tool,
        Kind::Context => ItemKind::Context,
        Kind::Notification => ItemKind::Notification,
    }
}

fn made_kind(kind: ItemKind) -> Kind {
    match kind {
        ItemKind::System => Kind::System,
        ItemKind::Developer => Kind::Developer,
        ItemKind::User => Kind::User,
        ItemKind::Assistant => Kind::Assistant,
        ItemKind::Tool => Kind::Tool,
        ItemKind::Context => Kind::Context,
        ItemKind::Notification => Kind::Notification,
    }
}

/// Adapters for OpenAI's providers report cached tokens inside the input tokens, the one for Anthropic
/// beside them. More cached tokens than input tokens can only be beside them.
fn usage(tokens: &agentkit::TokenUsage) -> Usage {
    let (cached, written) =
        (tokens.cached_input_tokens.unwrap_or(0), tokens.cache_write_input_tokens.unwrap_or(0));
    let fresh = tokens.input_tokens.checked_sub(cached + written).unwrap_or(tokens.input_tokens);
    Usage {
        input_tokens: Tokens(fresh),
        cached_tokens: Tokens(cached),
        cache_write_tokens: Tokens(written),
        output_tokens: Tokens(tokens.output_tokens),
        reasoning_tokens: Tokens(tokens.reasoning_tokens.unwrap_or(0)),
    }
}

fn finish_reason(reason: &agentkit::FinishReason) -> Option<FinishReason> {
    match reason {
        agentkit::FinishReason::Completed => Some(FinishReason::Stop),
        agentkit::FinishReason::ToolCall => Some(FinishReason::ToolCalls),
        agentkit::FinishReason::MaxTokens => Some(FinishReason::Length),
        agentkit::FinishReason::Cancelled => Some(FinishReason::Interrupted),
        agentkit::FinishReason::Blocked => Some(FinishReason::ContentFilter),
        agentkit::FinishReason::Error => Some(FinishReason::Error),
        agentkit::FinishReason::Other(_) => None,
    }
}

fn origin(value: &Value) -> Option<SummaryOrigin> {
    serde_json::from_value(value.clone()).ok()
}

fn part(part: &agentkit::Part) -> Part {
    match part {
        agentkit::Part::Text(text) => Part::text(text.text.as_str()),
        agentkit::Part::Media(media) => Part::Media(self::media(media)),
        agentkit::Part::File(file) => Part::File(self::file(file)),
        agentkit::Part::Structured(structured) => Part::Structured(Json::from_value(&structured.value)),
        agentkit::Part::Reasoning(reasoning) => Part::Reasoning(self::reasoning(reasoning)),
        agentkit::Part::ToolCall(call) => Part::ToolCall(ToolCall {
            id: call.id.0.as_str().into(),
            name: call.name.as_str().into(),
            input: ToolInput::Json(Json::from_value(&call.input)),
            signature: signature(&call.metadata),
        }),
        agentkit::Part::ToolResult(result) => Part::ToolResult(ToolResult {
            call_id: result.call_id.0.as_str().into(),
            content: content(&result.output),
            is_error: result.is_error,
        }),
        agentkit::Part::Custom(_) => Part::Opaque(opaque(part)),
    }
}

fn media(media: &MediaPart) -> Media {
    Media { media_type: media.mime_type.as_str().into(), data: blob(&media.data), pixels: None }
}

fn file(file: &FilePart) -> File {
    File {
        name: file.name.as_deref().map(Text::from),
        media_type: file.mime_type.as_deref().unwrap_or(UNKNOWN_TYPE).into(),
        data: blob(&file.data),
    }
}

fn blob(data: &DataRef) -> Blob {
    match data {
        DataRef::InlineText(text) => Blob::Text(text.as_str().into()),
        DataRef::InlineBytes(bytes) => Blob::Base64(STANDARD.encode(bytes).into()),
        DataRef::Uri(uri) => Blob::Url(uri.as_str().into()),
        DataRef::Handle(id) => Blob::Url(id.0.as_str().into()),
    }
}

/// Hidden thinking and what a provider signed are marked as such, so that they stay while it is wanted back.
fn reasoning(reasoning: &ReasoningPart) -> Reasoning {
    let encrypted = reasoning.data.as_ref().map(|data| match blob(data) {
        Blob::Text(text) | Blob::Base64(text) | Blob::Url(text) => text,
    });
    Reasoning {
        text: reasoning.summary.as_deref().unwrap_or_default().into(),
        id: None,
        signature: signature(&reasoning.metadata),
        encrypted: encrypted.or_else(|| reasoning.redacted.then(Text::default)),
    }
}

/// Model adapters keep a provider's signature in the metadata, each under a key of its own.
fn signature(metadata: &MetadataMap) -> Option<Text> {
    let mut signed = metadata.iter().filter(|(key, _)| key.to_ascii_lowercase().ends_with("signature"));
    signed.find_map(|(_, value)| value.as_str().map(Text::from))
}

fn content(output: &ToolOutput) -> Vec<ResultPart> {
    match output {
        ToolOutput::Text(text) => vec![ResultPart::Text(text.as_str().into())],
        ToolOutput::Structured(value) => vec![ResultPart::Structured(Json::from_value(value))],
        ToolOutput::Parts(parts) => parts.iter().map(result_part).collect(),
        ToolOutput::Files(files) => files.iter().map(|file| ResultPart::File(self::file(file))).collect(),
    }
}

fn result_part(part: &agentkit::Part) -> ResultPart {
    match part {
        agentkit::Part::Text(text) => ResultPart::Text(text.text.as_str().into()),
        agentkit::Part::Media(media) => ResultPart::Media(self::media(media)),
        agentkit::Part::File(file) => ResultPart::File(self::file(file)),
        agentkit::Part::Structured(structured) => ResultPart::Structured(Json::from_value(&structured.value)),
        agentkit::Part::Reasoning(_)
        | agentkit::Part::ToolCall(_)
        | agentkit::Part::ToolResult(_)
        | agentkit::Part::Custom(_) => ResultPart::Opaque(opaque(part)),
    }
}

fn opaque(part: &agentkit::Part) -> Opaque {
    let json = serde_json::to_value(part).unwrap_or_else(|error| json!({ "error": error.to_string() }));
    Opaque { source: SOURCE.into(), json: Json::from_value(&json) }
}

/// A part under another content: what agentkit keeps beside the content stays.
fn replaced(given: &agentkit::Part, part: &Part) -> agentkit::Part {
    match (given, made_part(part)) {
        (agentkit::Part::Text(given), agentkit::Part::Text(made)) => {
            agentkit::Part::Text(TextPart { metadata: given.metadata.clone(), ..made })
        }
        (agentkit::Part::Reasoning(given), agentkit::Part::Reasoning(made)) => {
            let (metadata, redacted) = (given.metadata.clone(), given.redacted);
            agentkit::Part::Reasoning(ReasoningPart { metadata, redacted, ..made })
        }
        (agentkit::Part::ToolCall(given), agentkit::Part::ToolCall(made)) => {
            agentkit::Part::ToolCall(ToolCallPart { metadata: given.metadata.clone(), ..made })
        }
        (agentkit::Part::ToolResult(given), agentkit::Part::ToolResult(made)) => {
            let output = given_output(&given.output, part).unwrap_or(made.output);
            agentkit::Part::ToolResult(ToolResultPart { metadata: given.metadata.clone(), output, ..made })
        }
        (_, made) => made,
    }
}

/// The output of a changed result of several parts: of those that are unchanged, agentkit's own.
fn given_output(given: &ToolOutput, part: &Part) -> Option<ToolOutput> {
    let (ToolOutput::Parts(given), Part::ToolResult(result)) = (given, part) else { return None };
    let mut left = given.iter();
    let as_given = |part: &ResultPart| {
        let same = left.clone().position(|given| result_part(given) == *part);
        same.and_then(|index| left.nth(index)).cloned().unwrap_or_else(|| made_result_part(part))
    };
    Some(ToolOutput::Parts(result.content.iter().map(as_given).collect()))
}

fn made_part(part: &Part) -> agentkit::Part {
    match part {
        Part::Text(text) => agentkit::Part::text(text.as_str()),
        Part::Reasoning(reasoning) => agentkit::Part::Reasoning(ReasoningPart {
            data: reasoning.encrypted.as_ref().map(|data| DataRef::inline_text(data.as_str())),
            ..ReasoningPart::summary(reasoning.text.as_str())
        }),
        Part::ToolCall(call) => agentkit::Part::ToolCall(ToolCallPart::new(
            call.id.as_str(),
            call.name.as_str(),
            made_input(&call.input),
        )),
        Part::ToolResult(result) => agentkit::Part::ToolResult(
            ToolResultPart::success(result.call_id.as_str(), made_output(&result.content))
                .with_is_error(result.is_error),
        ),
        Part::Media(media) => agentkit::Part::Media(made_media(media)),
        Part::File(file) => agentkit::Part::File(made_file(file)),
        Part::Structured(json) => agentkit::Part::Structured(StructuredPart::new(made_value(json))),
        Part::Opaque(opaque) => made_opaque(opaque),
    }
}

fn made_input(input: &ToolInput) -> Value {
    match input {
        ToolInput::Json(json) => made_value(json),
        ToolInput::Text(text) => Value::String(text.to_string()),
    }
}

/// JSON that is nested too deeply to be decoded stays text.
fn made_value(json: &Json) -> Value {
    json.value().unwrap_or_else(|| Value::String(json.as_str().to_owned()))
}

fn made_output(content: &[ResultPart]) -> ToolOutput {
    match content {
        [ResultPart::Text(text)] => ToolOutput::text(text.as_str()),
        [ResultPart::Structured(json)] => ToolOutput::structured(made_value(json)),
        parts => ToolOutput::parts(parts.iter().map(made_result_part).collect()),
    }
}

fn made_result_part(part: &ResultPart) -> agentkit::Part {
    match part {
        ResultPart::Text(text) => agentkit::Part::text(text.as_str()),
        ResultPart::Media(media) => agentkit::Part::Media(made_media(media)),
        ResultPart::File(file) => agentkit::Part::File(made_file(file)),
        ResultPart::Structured(json) => agentkit::Part::Structured(StructuredPart::new(made_value(json))),
        ResultPart::Opaque(opaque) => made_opaque(opaque),
    }
}

fn made_media(media: &Media) -> MediaPart {
    let modality = match media.media_type.split('/').next().unwrap_or_default() {
        "image" => Modality::Image,
        "audio" => Modality::Audio,
        "video" => Modality::Video,
        _ => Modality::Binary,
    };
    MediaPart::new(modality, media.media_type.as_str(), made_data(&media.data))
}

fn made_file(file: &File) -> FilePart {
    let made = FilePart::new(made_data(&file.data)).with_mime_type(file.media_type.as_str());
    FilePart { name: file.name.as_ref().map(ToString::to_string), ..made }
}

fn made_data(data: &Blob) -> DataRef {
    match data {
        Blob::Base64(text) => STANDARD
            .decode(&**text)
            .map_or_else(|_| DataRef::inline_text(text.as_str()), DataRef::inline_bytes),
        Blob::Url(url) => DataRef::uri(url.as_str()),
        Blob::Text(text) => DataRef::inline_text(text.as_str()),
    }
}

fn made_opaque(opaque: &Opaque) -> agentkit::Part {
    let part = if &*opaque.source == SOURCE { serde_json::from_str(opaque.json.as_str()).ok() } else { None };
    let custom =
        || CustomPart::new(opaque.source.as_str()).with_value(opaque.json.value().unwrap_or_default());
    part.unwrap_or_else(|| agentkit::Part::Custom(custom()))
}

#[cfg(test)]
mod tests;
