//! One entry of a Gemini `parts` list, read and written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldback_core::{Blob, CallId, File, Json, Media, Opaque, Part, Reasoning, Text, ToolCall, ToolInput};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::response;
use crate::inline;

/// What an entry of `parts` is. Calls and responses may lack an id, which their place gives them.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Content of any message. A text with a signature becomes two: the signature may stand in an
    /// empty text of its own, as it does when answers are streamed.
    Content(Vec<Part>),
    Call {
        id: Option<CallId>,
        name: Text,
        input: ToolInput,
        signature: Option<Text>,
    },
    Response(response::Response),
}

/// The argument under which input that is not JSON is sent: arguments are always an object.
const TEXT_INPUT: &str = "$input";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartRecord<'a> {
    text: Option<String>,
    #[serde(borrow)]
    thought: Option<&'a RawValue>,
    #[serde(alias = "thought_signature")]
    thought_signature: Option<Text>,
    #[serde(borrow, alias = "function_call")]
    function_call: Option<CallRecord<'a>>,
    #[serde(borrow, alias = "function_response")]
    function_response: Option<response::Record<'a>>,
    #[serde(alias = "inline_data")]
    inline_data: Option<DataRecord>,
    #[serde(alias = "file_data")]
    file_data: Option<DataRecord>,
}

#[derive(Deserialize)]
struct CallRecord<'a> {
    id: Option<CallId>,
    #[serde(default)]
    name: Text,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataRecord {
    #[serde(default, alias = "mime_type")]
    mime_type: Text,
    data: Option<Text>,
    #[serde(alias = "file_uri")]
    file_uri: Option<Text>,
    #[serde(alias = "display_name")]
    display_name: Option<Text>,
}

/// Reads one entry; a bare string is text.
pub(crate) fn read(entry: &RawValue) -> Result<Piece, serde_json::Error> {
    if entry.get().starts_with('"') {
        return serde_json::from_str::<Text>(entry.get()).map(|text| Piece::Content(vec![Part::Text(text)]));
    }
    let record: PartRecord<'_> = serde_json::from_str(entry.get())?;
    if let Some(call) = record.function_call {
        let CallRecord { id, name, args } = call;
        return Ok(Piece::Call {
            id,
            name,
            input: input_of(args.map_or("{}", RawValue::get))?,
            signature: record.thought_signature,
        });
    }
    if let Some(response) = record.function_response {
        return response::read(response).map(Piece::Response);
    }
    let mut parts = Vec::new();
    if let Some(data) = record.inline_data.or(record.file_data) {
        parts.extend(data.part());
    } else if let Some(text) = record.text {
        let is_thought = record.thought.is_some_and(|thought| thought.get() == "true");
        let signature = record.thought_signature.clone();
        if is_thought {
            parts.push(Part::Reasoning(Reasoning { text: text.into(), signature, ..Reasoning::default() }));
            return Ok(Piece::Content(parts));
        }
        if signature.is_none() || !text.is_empty() {
            parts.push(Part::Text(text.into()));
        }
    } else {
        parts.extend(not_understood(entry)?);
        return Ok(Piece::Content(parts));
    }
    if record.thought_signature.is_some() {
        let signature = record.thought_signature;
        parts.push(Part::Reasoning(Reasoning { signature, ..Reasoning::default() }));
    }
    Ok(Piece::Content(parts))
}

/// A call's input, as [`arguments`] wrote it.
pub(crate) fn input_of(json: &str) -> Result<ToolInput, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct TextArgument {
        #[serde(rename = "$input")]
        text: Text,
    }
    if json.contains(TEXT_INPUT)
        && let Ok(TextArgument { text }) = serde_json::from_str(json)
    {
        return Ok(ToolInput::Text(text));
    }
    Json::parse(json).map(ToolInput::Json)
}

/// An entry of an unknown kind, whole; nothing where it is empty.
fn not_understood(entry: &RawValue) -> Result<Option<Part>, serde_json::Error> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(entry.get())?;
    let is_beside = |name: &str| ["thought", "thoughtSignature", "thought_signature"].contains(&name);
    let kind = fields.keys().find(|name| !is_beside(name)).or_else(|| fields.keys().next());
    let Some(kind) = kind else { return Ok(None) };
    let json = Json::parse(entry.get())?;
    Ok(Some(Part::Opaque(Opaque { source: format!("{SOURCE}{kind}").into(), json })))
}

/// What the sources of opaque parts of this dialect begin with.
const SOURCE: &str = "gemini/";

impl DataRecord {
    fn part(self) -> Option<Part> {
        let media_type = self.mime_type;
        let is_media = is_media(&media_type);
        let data = match (self.data, self.file_uri) {
            (Some(data), _) if is_media => Blob::Base64(data),
            (Some(data), _) => inline::document(&media_type, data),
            (None, uri) => Blob::Url(uri?),
        };
        Some(match is_media {
            true => Part::Media(Media { media_type, data, pixels: None }),
            false => Part::File(File { name: self.display_name, media_type, data }),
        })
    }
}

/// Media and documents stand in the same fields; the type tells them apart.
fn is_media(media_type: &str) -> bool {
    ["image/", "audio/", "video/"].iter().any(|kind| media_type.starts_with(kind))
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<WrittenCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<WrittenData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<WrittenData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
struct WrittenCall<'a> {
    id: &'a str,
    name: &'a str,
    args: Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenData<'a> {
    mime_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<&'a str>,
}

/// A part as an entry of `parts`.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The entry; none where the part cannot be one.
    pub(crate) json: Option<String>,
    /// What is lost of the part, in a clause.
    pub(crate) lost: Option<String>,
}

/// A part as an entry of `parts`, with `text` in the place of a text part's own. Results need the
/// name of their call: they are not written here.
pub(crate) fn write(part: &Part, text: Option<String>) -> Entry {
    match entry(part, text) {
        Ok(json) => Entry { json: Some(json), lost: changed(part) },
        Err(what) => Entry { json: None, lost: Some(what) },
    }
}

/// What reading an entry does not give back of the part.
pub(super) fn changed(part: &Part) -> Option<String> {
    match part {
        Part::Text(_) | Part::Opaque(_) | Part::ToolResult(_) => None,
        Part::Structured(_) => Some("that structured content is not text".to_owned()),
        Part::Reasoning(Reasoning { id, encrypted, .. }) => {
            (id.is_some() || encrypted.is_some()).then(|| "what another provider sealed of it".to_owned())
        }
        Part::ToolCall(call) => {
            let ToolInput::Json(json) = &call.input else { return None };
            let is_text = matches!(input_of(json.as_str()), Ok(ToolInput::Text(_)));
            is_text.then(|| format!("that the input of {} is JSON", call.name))
        }
        Part::Media(Media { media_type, data, .. }) => {
            let is_same = is_media(media_type) && !matches!(data, Blob::Text(_));
            (!is_same).then(|| format!("in which form {media_type} was given"))
        }
        Part::File(file) => {
            let is_bytes = matches!(file.data, Blob::Text(_)) && !inline::is_text(&file.media_type);
            (is_media(&file.media_type) || is_bytes)
                .then(|| format!("in which form {} was given", file.label()))
        }
    }
}

fn entry(part: &Part, text: Option<String>) -> Result<String, String> {
    let entry = match part {
        Part::Text(own) => {
            WrittenPart { text: Some(text.map_or(Cow::Borrowed(&**own), Cow::Owned)), ..Default::default() }
        }
        Part::Reasoning(reasoning) => written_reasoning(reasoning)?,
        Part::ToolCall(call) => WrittenPart {
            thought_signature: call.signature.as_deref(),
            function_call: Some(WrittenCall { id: &call.id, name: &call.name, args: arguments(call) }),
            ..Default::default()
        },
        Part::Media(media) => written_data(&media.media_type, &media.data, None),
        Part::File(file) => written_data(&file.media_type, &file.data, file.name.as_deref()),
        Part::Structured(json) => WrittenPart { text: Some(json.as_str().into()), ..Default::default() },
        Part::Opaque(opaque) if opaque.source.starts_with(SOURCE) => {
            return Ok(opaque.json.as_str().to_owned());
        }
        Part::Opaque(opaque) => return Err(format!("a part that only {} knows", opaque.source)),
        Part::ToolResult(_) => return Err("a tool result outside a tool message".to_owned()),
    };
    Ok(json(&entry))
}

fn written_reasoning(reasoning: &Reasoning) -> Result<WrittenPart<'_>, String> {
    if reasoning.text.is_empty() && reasoning.signature.is_none() && reasoning.is_sealed() {
        return Err("reasoning that another provider encrypted".to_owned());
    }
    let signature = reasoning.signature.as_deref();
    let is_signature_of_text = reasoning.text.is_empty() && signature.is_some();
    Ok(WrittenPart {
        text: Some(Cow::Borrowed(&reasoning.text)),
        thought: !is_signature_of_text,
        thought_signature: signature,
        ..Default::default()
    })
}

fn written_data<'a>(media_type: &'a str, data: &'a Blob, name: Option<&'a str>) -> WrittenPart<'a> {
    let with = |data, file_uri| WrittenData { mime_type: media_type, data, file_uri, display_name: name };
    let inline = |data| WrittenPart { inline_data: Some(with(Some(data), None)), ..Default::default() };
    match data {
        Blob::Base64(data) => inline(Cow::Borrowed(&**data)),
        Blob::Text(text) => inline(Cow::Owned(inline::encoded(text))),
        Blob::Url(url) => WrittenPart { file_data: Some(with(None, Some(url))), ..Default::default() },
    }
}

/// A call's input as the object that `args` must be.
pub(crate) fn arguments(call: &ToolCall) -> Json {
    match &call.input {
        ToolInput::Json(json) => json.clone(),
        ToolInput::Text(text) => Json::from_value(&serde_json::json!({ TEXT_INPUT: &**text })),
    }
}

/// As JSON text.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is written has string keys and finite numbers")
}
