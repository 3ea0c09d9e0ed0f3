//! What items are made of: the eight kinds of [`Part`].
//!
//! Text, payloads and JSON are shared, so a rewritten item never copies the parts it keeps.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::{CallId, Text};

/// JSON kept exactly as it was written: white space, key order, number formatting and escapes.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Takes JSON text as it is; fails where it is not JSON.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        RawValue::from_string(text.into()).map(|raw| Self(raw.into()))
    }

    /// Writes a value as compact JSON.
    pub fn from_value(value: &serde_json::Value) -> Self {
        Self::parse(value.to_string()).expect("a JSON value prints as JSON")
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The decoded value; numbers lose their formatting. `None` where it is nested too deeply to
    /// be decoded safely, which does not keep it from being passed through.
    pub fn value(&self) -> Option<serde_json::Value> {
        serde_json::from_str(self.as_str()).ok()
    }
}

impl From<&RawValue> for Json {
    /// Known to be JSON, so nothing is parsed again.
    fn from(raw: &RawValue) -> Self {
        Self(raw.to_owned().into())
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
    }
}

/// One piece of an item. What a provider wants back with it has a field; notes of the host are
/// [`Item::metadata`](crate::Item::metadata).
///
/// A new kind is a breaking change: whoever reads, writes or hides items has to say what becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text(Text),
    /// The model's thinking, which some providers sign and demand back unchanged.
    Reasoning(Reasoning),
    /// A request to run a tool.
    ToolCall(ToolCall),
    /// What the tool answered.
    ToolResult(ToolResult),
    /// An image, sound or video.
    Media(Media),
    /// A document.
    File(File),
    /// JSON that is content, such as a structured answer.
    Structured(Json),
    /// Something the reader did not understand; passed through unchanged (T5).
    Opaque(Opaque),
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<Text>) -> Self {
        Self::Text(text.into())
    }

    /// A reasoning part without signature.
    pub fn reasoning(text: impl Into<Text>) -> Self {
        Self::Reasoning(Reasoning { text: text.into(), ..Reasoning::default() })
    }

    /// A call whose input is this JSON value.
    pub fn call(id: impl Into<CallId>, name: impl Into<Text>, input: &serde_json::Value) -> Self {
        Self::ToolCall(ToolCall {
            id: id.into(),
            name: name.into(),
            input: ToolInput::Json(Json::from_value(input)),
            signature: None,
        })
    }

    /// Whether a provider may have signed it, and wants it back unchanged while its loop is in flight.
    pub(crate) fn is_signed(&self) -> bool {
        match self {
            Self::Reasoning(_) => true,
            Self::ToolCall(call) => call.signature.is_some(),
            Self::Text(_)
            | Self::ToolResult(_)
            | Self::Media(_)
            | Self::File(_)
            | Self::Structured(_)
            | Self::Opaque(_) => false,
        }
    }

    /// The word used in shapes and messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Reasoning(_) => "reasoning",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::Media(_) => "media",
            Self::File(_) => "file",
            Self::Structured(_) => "structured",
            Self::Opaque(_) => "opaque",
        }
    }
}

/// The model's thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasoning {
    /// What can be read of it; may be empty where the provider hides it.
    pub text: Text,
    /// The provider's own id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Text>,
    /// The provider's signature over `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Text>,
    /// The hidden form that the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<Text>,
}

impl Reasoning {
    /// Whether a provider will check it when it comes back.
    pub fn is_sealed(&self) -> bool {
        self.id.is_some() || self.signature.is_some() || self.encrypted.is_some()
    }
}

/// A request to run a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Ties it to its result.
    pub id: CallId,
    /// The tool's name.
    pub name: Text,
    /// What the tool is given.
    pub input: ToolInput,
    /// The provider's signature over the call (gemini's `thoughtSignature`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Text>,
}

/// What a tool is given. Free text occurs: custom tools, and arguments that are not JSON. A new form is a
/// breaking change, as with [`Part`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolInput {
    /// Arguments as JSON.
    Json(Json),
    /// Anything else.
    Text(Text),
}

impl ToolInput {
    /// The input as the provider sees it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Json(json) => json.as_str(),
            Self::Text(text) => text,
        }
    }
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The call it answers.
    pub call_id: CallId,
    /// The answer.
    pub content: Vec<ResultPart>,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResult {
    /// A successful answer in text.
    pub fn text(call_id: impl Into<CallId>, text: impl Into<Text>) -> Self {
        Self { call_id: call_id.into(), content: vec![ResultPart::Text(text.into())], is_error: false }
    }

    /// A failure described in text.
    pub fn error(call_id: impl Into<CallId>, text: impl Into<Text>) -> Self {
        Self { is_error: true, ..Self::text(call_id, text) }
    }

    /// The first line that is not blank, from any of its text.
    pub fn first_line(&self) -> &str {
        self.content
            .iter()
            .filter_map(ResultPart::as_text)
            .find_map(|text| text.lines().map(str::trim).find(|line| !line.is_empty()))
            .unwrap_or("")
    }
}

/// One piece of a tool's answer. A new kind is a breaking change, as with [`Part`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultPart {
    /// Plain text.
    Text(Text),
    /// An image, sound or video.
    Media(Media),
    /// A document.
    File(File),
    /// JSON.
    Structured(Json),
    /// Something the reader did not understand.
    Opaque(Opaque),
}

impl ResultPart {
    /// What can be read of it as text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Structured(json) => Some(json.as_str()),
            Self::Media(_) | Self::File(_) | Self::Opaque(_) => None,
        }
    }
}

/// Where the bytes of a media or file part are. A new place is a breaking change, as with [`Part`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blob {
    /// In the request, base64.
    Base64(Text),
    /// At an address the provider fetches or knows.
    Url(Text),
    /// Plain text.
    Text(Text),
}

impl Blob {
    /// How many characters it takes in a request.
    pub fn len(&self) -> usize {
        match self {
            Self::Base64(text) | Self::Url(text) | Self::Text(text) => text.len(),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An image, sound or video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Media {
    /// Its MIME type, such as `image/png`.
    pub media_type: Text,
    /// Its bytes.
    pub data: Blob,
    /// Width and height in pixels, where known without decoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pixels: Option<(u32, u32)>,
}

/// Base64 characters that are decoded to find an image's size; headers with large metadata
/// blocks in front of it are rare, and then the image counts as one of unknown size.
const HEADER_CHARACTERS_MAX: usize = 64 * 1024;

impl Media {
    /// Width and height: as recorded, or read from the image's own header.
    pub fn dimensions(&self) -> Option<(u32, u32)> {
        use base64::Engine;
        self.pixels.or_else(|| {
            let Blob::Base64(data) = &self.data else { return None };
            let header = data.as_bytes();
            let header = &header[..header.len().min(HEADER_CHARACTERS_MAX) / 4 * 4];
            let bytes = base64::engine::general_purpose::STANDARD.decode(header).ok()?;
            let size = imagesize::blob_size(&bytes).ok()?;
            Some((u32::try_from(size.width).ok()?, u32::try_from(size.height).ok()?))
        })
    }
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    /// Its MIME type.
    pub media_type: Text,
    /// Its bytes.
    pub data: Blob,
}

impl File {
    /// The name, or the type where there is none.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.media_type)
    }
}

/// Something the reader did not understand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opaque {
    /// Which format it came from, and what that format calls it.
    pub source: Text,
    /// The thing itself, byte for byte.
    pub json: Json,
}
