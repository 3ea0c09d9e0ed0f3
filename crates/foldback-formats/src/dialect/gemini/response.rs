//! A tool's answer as a Gemini `functionResponse`.
//!
//! The `response` is an object of any form. One text is `{"output": …}`, one that reports a failure
//! `{"error": …}`, JSON stands for itself, and media go to the `parts` beside it. An answer of any
//! other shape is a list of pieces under `content`, so that it is read as it was written.

use std::borrow::Cow;
use std::collections::BTreeMap;

use foldback_core::{CallId, Json, Opaque, Part, ResultPart, Text};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::part::{self, Piece};

#[derive(Deserialize)]
pub(super) struct Record<'a> {
    id: Option<CallId>,
    #[serde(default)]
    name: Text,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
}

/// An answer whose call is still to be found.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) id: Option<CallId>,
    pub(crate) name: Text,
    pub(crate) content: Vec<ResultPart>,
    pub(crate) is_error: bool,
}

/// One piece of an answer of several.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    json: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opaque: Option<Opaque>,
    /// The place in `parts` of media or a document.
    #[serde(default, rename = "$ref", skip_serializing_if = "Option::is_none")]
    part_index: Option<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    content: Vec<Listed>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

pub(super) fn read(record: Record<'_>) -> Result<Response, serde_json::Error> {
    let Record { id, name, response, parts } = record;
    let mut beside = Vec::new();
    for entry in parts.unwrap_or_default() {
        if let Piece::Content(parts) = part::read(entry)? {
            beside.extend(parts.into_iter().filter_map(as_result));
        }
    }
    let (content, is_error) = content_of(response, beside)?;
    Ok(Response { id, name, content, is_error })
}

/// A part as a piece of an answer; what only messages have is none.
pub(crate) fn as_result(part: Part) -> Option<ResultPart> {
    match part {
        Part::Text(text) => Some(ResultPart::Text(text)),
        Part::Media(media) => Some(ResultPart::Media(media)),
        Part::File(file) => Some(ResultPart::File(file)),
        Part::Structured(json) => Some(ResultPart::Structured(json)),
        Part::Opaque(opaque) => Some(ResultPart::Opaque(opaque)),
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}

fn content_of(
    response: Option<&RawValue>,
    beside: Vec<ResultPart>,
) -> Result<(Vec<ResultPart>, bool), serde_json::Error> {
    let Some(response) = response else { return Ok((beside, false)) };
    let Ok(fields) = serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(response.get()) else {
        let whole = ResultPart::Structured(Json::parse(response.get())?);
        return Ok(([vec![whole], beside].concat(), false));
    };
    if fields.contains_key("content")
        && let Ok(list) = serde_json::from_str::<List>(response.get())
    {
        return Ok((listed(list.content, beside), list.is_error));
    }
    let only = if fields.len() == 1 { fields.first_key_value() } else { None };
    let (first, is_error) = match only {
        Some((name, value)) if name == "output" && is_string(value) => (Some(text_of(value)?), false),
        Some((name, value)) if name == "error" && is_string(value) => (Some(text_of(value)?), true),
        Some((name, value)) if name == "error" => {
            (Some(ResultPart::Structured(Json::parse(value.get())?)), true)
        }
        _ if fields.is_empty() => (None, false),
        _ => (Some(ResultPart::Structured(Json::parse(response.get())?)), false),
    };
    Ok((first.into_iter().chain(beside).collect(), is_error))
}

fn is_string(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

fn text_of(value: &RawValue) -> Result<ResultPart, serde_json::Error> {
    serde_json::from_str(value.get()).map(ResultPart::Text)
}

fn listed(list: Vec<Listed>, beside: Vec<ResultPart>) -> Vec<ResultPart> {
    let mut beside: Vec<Option<ResultPart>> = beside.into_iter().map(Some).collect();
    let mut content = Vec::with_capacity(list.len());
    for Listed { text, json, opaque, part_index } in list {
        content.extend(text.map(ResultPart::Text));
        content.extend(json.map(ResultPart::Structured));
        content.extend(opaque.map(ResultPart::Opaque));
        content.extend(part_index.and_then(|index| beside.get_mut(index)?.take()));
    }
    content.extend(beside.into_iter().flatten());
    content
}

#[derive(Serialize)]
struct Written<'a> {
    id: &'a str,
    name: &'a str,
    response: Json,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Json>,
}

/// An answer as a `functionResponse` object.
pub(crate) fn write(id: &str, name: &str, content: &[ResultPart], is_error: bool) -> String {
    let parts: Vec<Json> = content.iter().filter_map(beside).collect();
    let in_one = simple(content, is_error).filter(|response| reads_as(response, &parts, content, is_error));
    let response = in_one.unwrap_or_else(|| list_of(content, is_error));
    part::json(&Written { id, name, response, parts })
}

/// The entry of `parts` that media and documents become.
fn beside(piece: &ResultPart) -> Option<Json> {
    part::write(&part_beside(piece)?, None).json.and_then(|entry| Json::parse(entry).ok())
}

fn part_beside(piece: &ResultPart) -> Option<Part> {
    match piece {
        ResultPart::Media(media) => Some(Part::Media(media.clone())),
        ResultPart::File(file) => Some(Part::File(file.clone())),
        ResultPart::Text(_) | ResultPart::Structured(_) | ResultPart::Opaque(_) => None,
    }
}

/// What reading an answer does not give back of its pieces.
pub(crate) fn lost(content: &[ResultPart]) -> Vec<String> {
    content.iter().filter_map(part_beside).filter_map(|part| part::changed(&part)).collect()
}

/// The form that tools themselves answer in, where the answer has at most one piece of text.
fn simple(content: &[ResultPart], is_error: bool) -> Option<Json> {
    let field = if is_error { "error" } else { "output" };
    match content.first() {
        Some(ResultPart::Text(text)) => Some(Json::from_value(&serde_json::json!({ field: &**text }))),
        Some(ResultPart::Structured(json)) if is_error => {
            Json::parse(format!("{{\"error\":{}}}", json.as_str())).ok()
        }
        Some(ResultPart::Structured(json)) => Some(json.clone()),
        Some(ResultPart::Media(_) | ResultPart::File(_)) | None => Json::parse("{}").ok(),
        Some(ResultPart::Opaque(_)) => None,
    }
}

fn reads_as(response: &Json, parts: &[Json], content: &[ResultPart], is_error: bool) -> bool {
    if !response.as_str().trim_ascii_start().starts_with('{') {
        return false;
    }
    let written =
        part::json(&Written { id: "", name: "", response: response.clone(), parts: parts.to_vec() });
    let read_again = serde_json::from_str::<Record<'_>>(&written).and_then(read);
    read_again.is_ok_and(|again| again.content == content && again.is_error == is_error)
}

fn list_of(content: &[ResultPart], is_error: bool) -> Json {
    let mut part_count = 0;
    let listed = content.iter().map(|piece| match piece {
        ResultPart::Text(text) => Listed { text: Some(text.clone()), ..Listed::default() },
        ResultPart::Structured(json) => Listed { json: Some(json.clone()), ..Listed::default() },
        ResultPart::Opaque(opaque) => Listed { opaque: Some(opaque.clone()), ..Listed::default() },
        ResultPart::Media(_) | ResultPart::File(_) => {
            part_count += 1;
            Listed { part_index: Some(part_count - 1), ..Listed::default() }
        }
    });
    let list = List { content: listed.collect(), is_error };
    Json::parse(part::json(&list)).expect("what serde writes is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{Blob, Media};

    fn image() -> ResultPart {
        let data = Blob::Base64("iVBORw0KGgo=".into());
        ResultPart::Media(Media { media_type: "image/png".into(), data, pixels: None })
    }

    #[test]
    fn every_shape_of_answer_is_read_as_it_was_written() {
        let text = |text: &str| ResultPart::Text(text.into());
        let json = |json: &str| ResultPart::Structured(Json::parse(json).unwrap());
        let opaque = ResultPart::Opaque(Opaque { source: "x/y".into(), json: Json::parse("[1.0]").unwrap() });
        let shapes = [
            vec![],
            vec![text("")],
            vec![text("a"), text("b")],
            vec![text("a"), image()],
            vec![image(), text("a"), image()],
            vec![json("{\"rows\": [1.50,  2]}")],
            vec![json("{\"output\":\"looks like text\"}")],
            vec![json("{\"error\":\"looks like a failure\"}")],
            vec![json("{\"content\":[{\"text\":\"looks like a list\"}]}")],
            vec![json("\"a string\"")],
            vec![json("{}")],
            vec![json("[1]"), opaque],
        ];
        for content in shapes {
            for is_error in [false, true] {
                let written = write("c1", "ls", &content, is_error);
                let record: Record<'_> = serde_json::from_str(&written).unwrap();
                let again = read(record).unwrap();
                assert_eq!((again.content, again.is_error), (content.clone(), is_error), "{written}");
            }
        }
    }
}
