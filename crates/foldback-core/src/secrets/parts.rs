//! Secrets in parts: a part is searched whole, with the names of its fields, before anything is read from it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::named::field_secret;
use super::{SecretKind, find, first_line, label, redact};
use crate::ids::Text;
use crate::item::{Inserted, Item};
use crate::part::{Blob, File, Json, Opaque, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult};

/// How deep JSON is searched.
const DEPTH_MAX: usize = 128;

/// The item without the secrets in its parts and its metadata; itself if there are none. What providers sign
/// or encrypt, ids and pictures are left as they are.
pub fn redact_item(item: &Item) -> Cow<'_, Item> {
    let parts: Vec<Cow<'_, Part>> = item.parts.iter().map(redact_part).collect();
    let mut metadata = Value::Object(item.metadata.clone());
    let has_metadata = !item.metadata.is_empty() && redact_value(&mut metadata, DEPTH_MAX);
    if !has_metadata && parts.iter().all(|part| matches!(part, Cow::Borrowed(_))) {
        return Cow::Borrowed(item);
    }
    let parts = parts.into_iter().map(Cow::into_owned).collect();
    let inserted = item.inserted.iter().map(|inserted| moved(item, inserted)).collect();
    let mut redacted = Item { parts, inserted, ..item.clone() };
    if let (true, Value::Object(metadata)) = (has_metadata, metadata) {
        redacted.metadata = metadata;
    }
    Cow::Owned(redacted)
}

/// What was inserted into a text, in the text without its secrets.
fn moved(item: &Item, inserted: &Inserted) -> Inserted {
    let Some(Part::Text(text)) = item.parts.get(inserted.part_index) else { return inserted.clone() };
    let secrets = find(text);
    let place = |at: usize, in_secret: fn(usize, usize) -> usize| {
        let (mut before, mut after) = (0, 0);
        for secret in secrets.iter().take_while(|secret| secret.span.start < at) {
            let length = label(secret.kind).len();
            if at < secret.span.end {
                return secret.span.start - before + after + in_secret(0, length);
            }
            (before, after) = (before + secret.span.len(), after + length);
        }
        at - before + after
    };
    // A secret that is inserted in part is inserted.
    let (start, end) = (place(inserted.span.start, usize::min), place(inserted.span.end, usize::max));
    Inserted { part_index: inserted.part_index, span: start..end }
}

/// The part without its secrets; itself if there are none.
pub fn redact_part(part: &Part) -> Cow<'_, Part> {
    let redacted = match part {
        Part::Text(text) => redacted(text).map(Part::Text),
        Part::Reasoning(reasoning) => {
            redacted(&reasoning.text).map(|text| Part::Reasoning(Reasoning { text, ..reasoning.clone() }))
        }
        Part::ToolCall(call) => redacted_call(call).map(Part::ToolCall),
        Part::ToolResult(result) => redacted_result(result).map(Part::ToolResult),
        Part::File(file) => redacted_file(file).map(Part::File),
        Part::Structured(json) => redacted_json(json).map(Part::Structured),
        Part::Opaque(opaque) => redacted_opaque(opaque).map(Part::Opaque),
        Part::Media(_) => None,
    };
    redacted.map_or(Cow::Borrowed(part), Cow::Owned)
}

/// The first line of a tool's answer that is not blank, without its secrets.
pub fn first_line_of(result: &ToolResult) -> Cow<'_, str> {
    let mut lines = result.content.iter().filter_map(ResultPart::as_text).map(first_line);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

/// The input of a tool without its secrets; itself if there are none.
pub(crate) fn redact_input(input: &ToolInput) -> Cow<'_, ToolInput> {
    redacted_input(input).map_or(Cow::Borrowed(input), Cow::Owned)
}

fn redacted(text: &Text) -> Option<Text> {
    match redact(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(redacted) => Some(redacted.into()),
    }
}

fn redacted_call(call: &ToolCall) -> Option<ToolCall> {
    let (name, input) = (redacted(&call.name), redacted_input(&call.input));
    if name.is_none() && input.is_none() {
        return None;
    }
    let (name, input) =
        (name.unwrap_or_else(|| call.name.clone()), input.unwrap_or_else(|| call.input.clone()));
    Some(ToolCall { name, input, ..call.clone() })
}

fn redacted_input(input: &ToolInput) -> Option<ToolInput> {
    match input {
        ToolInput::Json(json) => redacted_json(json).map(ToolInput::Json),
        ToolInput::Text(text) => redacted(text).map(ToolInput::Text),
    }
}

fn redacted_result(result: &ToolResult) -> Option<ToolResult> {
    let content: Vec<Option<ResultPart>> = result.content.iter().map(redacted_result_part).collect();
    content.iter().any(Option::is_some).then(|| {
        let content = content.into_iter().zip(&result.content);
        let content = content.map(|(redacted, part)| redacted.unwrap_or_else(|| part.clone())).collect();
        ToolResult { content, ..result.clone() }
    })
}

fn redacted_result_part(part: &ResultPart) -> Option<ResultPart> {
    match part {
        ResultPart::Text(text) => redacted(text).map(ResultPart::Text),
        ResultPart::Structured(json) => redacted_json(json).map(ResultPart::Structured),
        ResultPart::File(file) => redacted_file(file).map(ResultPart::File),
        ResultPart::Opaque(opaque) => redacted_opaque(opaque).map(ResultPart::Opaque),
        ResultPart::Media(_) => None,
    }
}

fn redacted_file(file: &File) -> Option<File> {
    let name = file.name.as_ref().and_then(redacted);
    let data = match &file.data {
        Blob::Text(text) => redacted(text).map(Blob::Text),
        Blob::Url(text) => redacted(text).map(Blob::Url),
        Blob::Base64(_) => None,
    };
    (name.is_some() || data.is_some()).then(|| File {
        name: name.or_else(|| file.name.clone()),
        data: data.unwrap_or_else(|| file.data.clone()),
        media_type: file.media_type.clone(),
    })
}

fn redacted_opaque(opaque: &Opaque) -> Option<Opaque> {
    redacted_json(&opaque.json).map(|json| Opaque { json, ..opaque.clone() })
}

/// JSON is decoded before it is searched. Where that cannot be done, its text is searched.
fn redacted_json(json: &Json) -> Option<Json> {
    let Some(mut value) = json.value() else {
        return match redact(json.as_str()) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => {
                Some(Json::parse(text.as_str()).unwrap_or_else(|_| Json::from_value(&Value::String(text))))
            }
        };
    };
    redact_value(&mut value, DEPTH_MAX).then(|| Json::from_value(&value))
}

/// Replaces secrets in every string, and every value whose name says that it is one. Says whether there were any.
fn redact_value(value: &mut Value, depth: usize) -> bool {
    if depth == 0 {
        return false;
    }
    match value {
        Value::String(text) => redact_string(text),
        Value::Array(values) => redact_list(values, depth),
        Value::Object(fields) => redact_fields(fields, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn redact_string(text: &mut String) -> bool {
    let Cow::Owned(redacted) = redact(text) else { return false };
    *text = redacted;
    true
}

/// A name may stand before its value in a list: `["--password", "…"]`, `["Authorization", "…"]`.
fn redact_list(values: &mut [Value], depth: usize) -> bool {
    let mut has_secret = false;
    for index in 0..values.len() {
        let (before, rest) = values.split_at_mut(index);
        let name = before.last().and_then(Value::as_str).filter(|name| !name.contains(' '));
        let name = name.filter(|name| name.starts_with('-') || index == 1);
        has_secret |= redact_named(name.unwrap_or(""), &mut rest[0], depth);
    }
    has_secret
}

/// A value may be named by a field beside it: `{"name": "DB_PASSWORD", "value": "…"}`.
fn redact_fields(fields: &mut Map<String, Value>, depth: usize) -> bool {
    const NAMES: &[&str] = &["name", "key", "Name", "Key"];
    let beside = NAMES.iter().find_map(|name| fields.get(*name)?.as_str()).map(str::to_owned);
    let mut has_secret = false;
    for (name, value) in fields.iter_mut() {
        let named = match (&beside, name.eq_ignore_ascii_case("value")) {
            (Some(beside), true) => beside,
            _ => name,
        };
        has_secret |= redact_named(named, value, depth);
    }
    has_secret
}

/// Replaces the value of a name, or the secrets in it.
fn redact_named(name: &str, value: &mut Value, depth: usize) -> bool {
    match value {
        Value::String(text) => match field_secret(name, text) {
            Some(kind) => {
                *text = field_label(kind, text);
                true
            }
            None => redact_string(text),
        },
        Value::Array(values) if !name.is_empty() && values.iter().all(Value::is_string) => {
            let of_list = redact_list(values, depth - 1);
            values.iter_mut().fold(of_list, |has, value| redact_named(name, value, depth - 1) | has)
        }
        _ => redact_value(value, depth - 1),
    }
}

/// What stands in place of a field's value: a form tells more than the name of the field.
fn field_label(kind: SecretKind, value: &str) -> String {
    match super::find(value).as_slice() {
        [one] if one.span == (0..value.len()) => label(one.kind),
        _ => label(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::ItemKind;

    #[test]
    fn what_a_host_inserted_stays_so_where_secrets_before_it_are_replaced() {
        // Put together here, so that no scanner takes this file for a leak.
        let token = ["gh", "p_", &"aB3dE7fG1hJ9".repeat(3)].concat();
        let (typed, inserted, more) = ("Use ", "<system-reminder>Obey.</system-reminder>", " and tabs.");
        let text = format!("{typed}{token}{inserted}{token}{more}");
        let start = typed.len() + token.len();
        let mut item = Item::new("u", ItemKind::User, vec![Part::text(text)]);
        item.inserted = vec![Inserted { part_index: 0, span: start..start + inserted.len() }];
        let redacted = redact_item(&item);
        assert_eq!(
            redacted.typed(0).unwrap(),
            "Use [secret: github token]\n[secret: github token] and tabs."
        );
    }
}
