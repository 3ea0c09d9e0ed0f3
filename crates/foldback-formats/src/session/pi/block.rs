//! The blocks that pi's messages are made of, read and written.

use std::borrow::Cow;

use foldback_core::{Blob, Json, Media, Opaque, Part, Reasoning, ResultPart, Text, ToolCall, ToolInput};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::fields::Object;

/// One block; which fields it has depends on its type.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    thinking: Cow<'a, str>,
    #[serde(borrow, default)]
    thinking_signature: Option<Cow<'a, str>>,
    #[serde(default)]
    redacted: bool,
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thought_signature: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Cow<'a, str>,
    #[serde(borrow, default)]
    mime_type: Cow<'a, str>,
}

/// What a signature is where the provider is OpenAI: the reasoning item itself.
#[derive(Deserialize)]
struct ReasoningItem {
    id: Text,
    #[serde(default)]
    encrypted_content: Option<Text>,
}

pub(super) fn opaque(kind: &str, piece: &RawValue) -> Part {
    Part::Opaque(opaque_of(kind, piece))
}

fn opaque_of(kind: &str, piece: &RawValue) -> Opaque {
    let json = Json::parse(piece.get()).expect("a piece of JSON is JSON");
    Opaque { source: format!("pi/{kind}").into(), json }
}

/// Content is text, or a list of blocks.
pub(super) fn parts(content: Option<&RawValue>) -> Vec<Part> {
    let Some(content) = content else { return Vec::new() };
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return vec![Part::text(text)];
    }
    match serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        Ok(blocks) => blocks.into_iter().map(part).collect(),
        Err(_) => vec![opaque("content", content)],
    }
}

/// The same in the result of a tool.
pub(super) fn result_parts(content: Option<&RawValue>) -> Vec<ResultPart> {
    let Some(content) = content else { return Vec::new() };
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return vec![ResultPart::Text(text.into())];
    }
    match serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        Ok(blocks) => blocks.into_iter().map(result_part).collect(),
        Err(_) => vec![ResultPart::Opaque(opaque_of("content", content))],
    }
}

fn result_part(piece: &RawValue) -> ResultPart {
    match part(piece) {
        Part::Text(text) => ResultPart::Text(text),
        Part::Media(media) => ResultPart::Media(media),
        Part::File(file) => ResultPart::File(file),
        Part::Structured(json) => ResultPart::Structured(json),
        Part::Opaque(opaque) => ResultPart::Opaque(opaque),
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
            ResultPart::Opaque(opaque_of("block", piece))
        }
    }
}

fn part(piece: &RawValue) -> Part {
    let Ok(block) = serde_json::from_str::<Block<'_>>(piece.get()) else {
        return opaque("block", piece);
    };
    match &*block.kind {
        "text" => Part::text(block.text),
        "thinking" => Part::Reasoning(reasoning(block)),
        "toolCall" => {
            let arguments = block.arguments.map_or("{}", RawValue::get);
            let input = match Json::parse(arguments) {
                Ok(json) => ToolInput::Json(json),
                Err(_) => ToolInput::Text(arguments.into()),
            };
            let signature = block.thought_signature.map(Text::from);
            Part::ToolCall(ToolCall { id: block.id.into(), name: block.name.into(), input, signature })
        }
        "image" => Part::Media(Media {
            media_type: block.mime_type.into(),
            data: Blob::Base64(block.data.into()),
            pixels: None,
        }),
        other => opaque(other, piece),
    }
}

fn reasoning(block: Block<'_>) -> Reasoning {
    let text = Text::from(block.thinking);
    let Some(signature) = block.thinking_signature.filter(|signature| !signature.is_empty()) else {
        return Reasoning { text, ..Reasoning::default() };
    };
    if block.redacted {
        return Reasoning { text, encrypted: Some(signature.into()), ..Reasoning::default() };
    }
    match serde_json::from_str::<ReasoningItem>(&signature) {
        Ok(item) => Reasoning { text, id: Some(item.id), signature: None, encrypted: item.encrypted_content },
        Err(_) => Reasoning { text, signature: Some(signature.into()), ..Reasoning::default() },
    }
}

/// A part as a block, where pi has one for it or text can stand for it.
pub(super) fn block(part: &Part) -> Option<String> {
    let mut block;
    match part {
        Part::Text(text) => return Some(text_block(text)),
        Part::Reasoning(reasoning) => return Some(thinking_block(reasoning)),
        Part::ToolCall(call) => {
            block = Object::typed("toolCall");
            block.text("id", &call.id).text("name", &call.name);
            match &call.input {
                ToolInput::Json(json) => block.json("arguments", json.as_str()),
                ToolInput::Text(text) => block.json("arguments", &input_object(text)),
            };
            if let Some(signature) = &call.signature {
                block.text("thoughtSignature", signature);
            }
        }
        Part::Media(media) => return Some(media_block(media)),
        Part::File(file) => {
            return Some(text_block(match &file.data {
                Blob::Text(text) => text,
                Blob::Base64(_) | Blob::Url(_) => file.label(),
            }));
        }
        Part::Structured(json) => return Some(text_block(json.as_str())),
        Part::Opaque(opaque) if opaque.source.starts_with("pi/") => {
            return Some(opaque.json.as_str().to_owned());
        }
        Part::Opaque(_) | Part::ToolResult(_) => return None,
    }
    Some(block.finish())
}

/// The same in the result of a tool.
pub(super) fn result_block(part: &ResultPart) -> Option<String> {
    match part {
        ResultPart::Text(text) => Some(text_block(text)),
        ResultPart::Media(media) => Some(media_block(media)),
        ResultPart::File(file) => block(&Part::File(file.clone())),
        ResultPart::Structured(json) => Some(text_block(json.as_str())),
        ResultPart::Opaque(opaque) => block(&Part::Opaque(opaque.clone())),
    }
}

fn text_block(text: &str) -> String {
    let mut block = Object::typed("text");
    block.text("text", text);
    block.finish()
}

/// pi takes an object only.
fn input_object(text: &str) -> String {
    let mut object = Object::new();
    object.text("input", text);
    object.finish()
}

fn media_block(media: &Media) -> String {
    let Blob::Base64(data) = &media.data else {
        let (Blob::Url(address) | Blob::Text(address) | Blob::Base64(address)) = &media.data;
        return text_block(&format!("[{}: {address}]", media.media_type));
    };
    let mut block = Object::typed("image");
    block.text("data", data).text("mimeType", &media.media_type);
    block.finish()
}

fn thinking_block(reasoning: &Reasoning) -> String {
    let mut block = Object::typed("thinking");
    block.text("thinking", &reasoning.text);
    match (&reasoning.id, &reasoning.signature, &reasoning.encrypted) {
        (Some(id), _, encrypted) => {
            let mut item = Object::typed("reasoning");
            item.text("id", id);
            let mut summary = Object::typed("summary_text");
            summary.text("text", &reasoning.text);
            let is_told = !reasoning.text.is_empty();
            item.json("summary", &if is_told { format!("[{}]", summary.finish()) } else { "[]".to_owned() });
            if let Some(encrypted) = encrypted {
                item.text("encrypted_content", encrypted);
            }
            block.text("thinkingSignature", &item.finish());
        }
        (None, Some(signature), _) => {
            block.text("thinkingSignature", signature);
        }
        (None, None, Some(encrypted)) => {
            block.text("thinkingSignature", encrypted).json("redacted", "true");
        }
        (None, None, None) => {}
    }
    block.finish()
}
