//! A part as a person reads it: decoded text, without the JSON around it.

use std::borrow::Cow;

use serde_json::Value;

use crate::part::{Blob, Part, ResultPart, ToolCall, ToolInput};

/// Values of a tool's input that are read; what is beyond is a table, not something said.
const FIELDS_MAX: usize = 4_096;

/// How deep the input of a tool is read.
const DEPTH_MAX: usize = 32;

/// One value of a tool's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'p> {
    /// Its key; the nearest one above it where it stands in a list, empty where there is none.
    pub key: String,
    /// The value, decoded.
    pub value: Cow<'p, str>,
}

/// The values of a tool's input in order, decoded.
pub fn fields(call: &ToolCall) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    match &call.input {
        ToolInput::Text(text) => fields.push(Field { key: String::new(), value: Cow::Borrowed(text) }),
        ToolInput::Json(json) => match json.value() {
            Some(value) => collect(value, "", DEPTH_MAX, &mut fields),
            None => fields.push(Field { key: String::new(), value: Cow::Borrowed(json.as_str()) }),
        },
    }
    fields
}

fn collect(value: Value, key: &str, depth: usize, fields: &mut Vec<Field<'_>>) {
    if fields.len() >= FIELDS_MAX || depth == 0 {
        return;
    }
    let mut push = |value: String| fields.push(Field { key: key.to_owned(), value: Cow::Owned(value) });
    match value {
        Value::Null => {}
        Value::Bool(value) => push(value.to_string()),
        Value::Number(value) => push(value.to_string()),
        Value::String(value) => push(value),
        Value::Array(values) => values.into_iter().for_each(|value| collect(value, key, depth - 1, fields)),
        Value::Object(values) => {
            values.into_iter().for_each(|(key, value)| collect(value, &key, depth - 1, fields));
        }
    }
}

/// The text of a part as it is read: what was said, what a tool was given (its values, one after
/// the other), what it answered. Empty for what cannot be read.
pub fn text_of(part: &Part) -> Cow<'_, str> {
    match part {
        Part::Text(text) => Cow::Borrowed(text),
        Part::Reasoning(reasoning) => Cow::Borrowed(&reasoning.text),
        Part::Structured(json) => Cow::Borrowed(json.as_str()),
        Part::ToolCall(call) => text_of_call(call),
        Part::ToolResult(result) => {
            joined(result.content.iter().filter_map(ResultPart::as_text).map(Cow::Borrowed))
        }
        Part::File(file) => match &file.data {
            Blob::Text(text) => Cow::Borrowed(text),
            Blob::Base64(_) | Blob::Url(_) => Cow::Borrowed(file.label()),
        },
        Part::Media(_) | Part::Opaque(_) => Cow::Borrowed(""),
    }
}

/// What a tool was given, as it is read.
pub(crate) fn text_of_call(call: &ToolCall) -> Cow<'_, str> {
    joined(fields(call).into_iter().map(|field| field.value))
}

fn joined<'t>(mut texts: impl Iterator<Item = Cow<'t, str>>) -> Cow<'t, str> {
    let Some(mut all) = texts.next() else { return Cow::Borrowed("") };
    for text in texts {
        let all = all.to_mut();
        all.push('\n');
        all.push_str(&text);
    }
    all
}

/// The beginning of a text, cut between words: half a name means nothing, and half a key is a secret that
/// nothing recognises. One word that is longer than `bytes_max` is cut inside.
pub(crate) fn clipped(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let bytes = text.as_bytes();
    let is_word = |at: usize| bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'_' | b'-');
    let is_between = |end: &usize| text.is_char_boundary(*end) && !(is_word(*end - 1) && is_word(*end));
    let end = (1..=bytes_max).rev().find(is_between).unwrap_or_else(|| text.floor_char_boundary(bytes_max));
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::ToolResult;
    use serde_json::json;

    #[test]
    fn a_clipped_text_ends_between_words_where_it_has_several() {
        assert_eq!(clipped("read src/parser.rs", 18), "read src/parser.rs");
        assert_eq!(clipped("push with ghp_0123456789", 16), "push with");
        assert_eq!(clipped("https://example.com/?key=abc-def", 28), "https://example.com/?key=");
        assert_eq!(clipped("单词之间没有空格", 7), "单词");
        assert_eq!(clipped("antidisestablishmentarianism", 4), "anti");
        assert_eq!(clipped("ab", 0), "");
    }

    #[test]
    fn a_tools_input_is_read_without_its_escapes() {
        let input = json!({"command": "printf \"a\\n\"\nls", "env": ["A=1", {"deep": 7}], "none": null});
        let part = Part::call("c", "bash", &input);
        assert_eq!(text_of(&part), "printf \"a\\n\"\nls\nA=1\n7");
        let Part::ToolCall(call) = &part else { unreachable!("it was made a call") };
        let keys: Vec<String> = fields(call).into_iter().map(|field| field.key).collect();
        assert_eq!(keys, ["command", "env", "deep"]);
    }

    #[test]
    fn what_is_one_text_is_not_copied() {
        let part = Part::ToolResult(ToolResult::text("c", "one\ntwo"));
        assert!(matches!(text_of(&part), Cow::Borrowed("one\ntwo")));
    }
}
