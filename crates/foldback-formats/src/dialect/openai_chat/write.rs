//! Writing Chat Completions messages.
//!
//! Consecutive assistant items become one message, because the results of a message's calls must
//! follow it directly; a message that is as it was read keeps its text.

use std::collections::HashMap;

use foldback_core::{Blob, File, Item, ItemKind, Media, Part, ResultPart, ToolCall, ToolInput, ToolResult};
use serde_json::value::RawValue;

use super::content::{address_of, array, array_like, lost_of_file, lost_of_image, object, quoted, tagged};
use super::{Body, CALL_SOURCE, CONTENT_SOURCE, MESSAGE_SOURCE};
use crate::conversation::Sent;
use crate::document::Document;
use crate::format::{Format, Loss, SessionFile};
use crate::lowering::Tag;

/// A body of these items; everything but the messages is as in `like`.
pub(super) fn write(items: &[Sent], like: Option<&SessionFile>) -> (Vec<u8>, Vec<Loss>) {
    let mut writer = Writer { losses: Vec::new(), messages: Vec::new(), original: HashMap::new() };
    let document = like.and_then(|like| Document::new(like.bytes(), Format::OpenaiChat).ok());
    let body = document.as_ref().and_then(|document| Some((document, Body::of(document).ok()?)));
    let (Some((document, body)), Some(_)) = (body, like) else {
        writer.push_all(items, Keeps::OfficialFields);
        let messages = array(&writer.messages);
        return (format!("{{\"messages\":{messages}}}\n").into_bytes(), writer.losses);
    };
    writer.original = originals(document, &body);
    writer.push_all(items, Keeps::Reasoning);
    let messages = array_like(body.messages.get(), &writer.messages);
    (document.with_replaced(body.messages, &messages), writer.losses)
}

/// The text of every message, by the index of the item that was read from it.
fn originals<'a>(document: &Document<'a>, body: &Body<'a>) -> HashMap<usize, &'a RawValue> {
    let messages = body.messages(document).unwrap_or_default();
    messages.into_iter().filter(|(_, item)| item.is_ok()).map(|(raw, _)| raw).enumerate().collect()
}

/// What is lost where there is no place for JSON.
const STRUCTURED_AS_TEXT: &str = "that structured content is not text";

/// Whether reasoning is written: OpenAI's own API has no field for it, other servers do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    OfficialFields,
    Reasoning,
}

struct Writer<'a> {
    losses: Vec<Loss>,
    messages: Vec<String>,
    original: HashMap<usize, &'a RawValue>,
}

/// Whether there is anything in an item that a message can hold: no empty text, and no text beside
/// results.
fn is_sent(item: &Item) -> bool {
    item.parts.iter().any(|part| match part {
        Part::Text(text) => item.kind != ItemKind::Tool && !text.is_empty(),
        Part::ToolResult(_) => true,
        _ => item.kind != ItemKind::Tool,
    })
}

/// An assistant message that is being put together.
#[derive(Default)]
struct Answer {
    reasoning: Vec<String>,
    content: Vec<String>,
    calls: Vec<String>,
}

impl Writer<'_> {
    /// The text of an item that is as it was read.
    fn original(&self, item: &Sent) -> Option<String> {
        item.recorded.and_then(|index| self.original.get(&index)).map(|raw| raw.get().to_owned())
    }

    fn push_all(&mut self, items: &[Sent], keeps: Keeps) {
        // What is not sent comes between nothing, and only tells what is lost of it.
        let (items, unsent): (Vec<&Sent>, Vec<&Sent>) = items.iter().partition(|item| is_sent(item));
        unsent.into_iter().for_each(|item| self.push_message(item));
        for run in
            items.chunk_by(|one, next| one.kind == ItemKind::Assistant && next.kind == ItemKind::Assistant)
        {
            match run {
                [first, ..] if first.kind == ItemKind::Assistant => self.push_answers(run, keeps),
                [item] => self.push_message(item),
                _ => run.iter().for_each(|item| self.push_message(item)),
            }
        }
    }

    fn lose(&mut self, item: &Item, what: impl Into<String>) {
        self.losses.push(Loss { item_id: item.id.clone(), what: what.into() });
    }

    fn push_message(&mut self, item: &Sent) {
        if let Some(raw) = self.original(item) {
            return self.messages.push(raw);
        }
        let role = match item.kind {
            ItemKind::System => "system",
            ItemKind::Developer => "developer",
            ItemKind::User | ItemKind::Context | ItemKind::Notification | ItemKind::Assistant => "user",
            ItemKind::Tool => return self.push_results(item),
        };
        if let [Part::Opaque(opaque)] = &item.parts[..]
            && &*opaque.source == MESSAGE_SOURCE
        {
            return self.messages.push(opaque.json.as_str().to_owned());
        }
        let tag = Tag::of(item);
        let mut content: Vec<String> =
            item.parts.iter().filter_map(|part| self.content_part(item, tag, part)).collect();
        let has_text = item.parts.iter().any(|part| matches!(part, Part::Text(_) | Part::Structured(_)));
        if let Some(tag) = tag.filter(|_| !has_text && !content.is_empty()) {
            content.insert(0, text_part(&tag.around("")));
        }
        if !content.is_empty() {
            self.messages.push(object(&[("role", quoted(role)), ("content", content_of(&content))]));
        }
    }

    fn push_results(&mut self, item: &Item) {
        for part in &item.parts {
            match part {
                Part::ToolResult(result) => {
                    let content = self.result_content(item, result);
                    self.messages.push(object(&[
                        ("role", quoted("tool")),
                        ("tool_call_id", quoted(&result.call_id)),
                        ("content", content),
                    ]));
                }
                other => self.lose(item, format!("its {} part, beside tool results", other.kind_name())),
            }
        }
    }

    fn result_content(&mut self, item: &Item, result: &ToolResult) -> String {
        if result.is_error {
            self.lose(item, "that the tool failed, which this dialect says in the text only");
        }
        if result.content.iter().any(|piece| matches!(piece, ResultPart::Structured(_))) {
            self.lose(item, STRUCTURED_AS_TEXT);
        }
        let mut texts = Vec::new();
        for piece in &result.content {
            texts.push(match piece {
                ResultPart::Text(text) => text_part(text),
                ResultPart::Structured(json) => text_part(json.as_str()),
                ResultPart::Opaque(opaque) if opaque.source.starts_with(CONTENT_SOURCE) => {
                    opaque.json.as_str().to_owned()
                }
                ResultPart::Media(Media { media_type, .. }) => self.left_out(item, media_type),
                ResultPart::File(file) => self.left_out(item, file.label()),
                ResultPart::Opaque(opaque) => self.left_out(item, &opaque.source),
            });
        }
        match &result.content[..] {
            [] => quoted(""),
            _ => content_of(&texts),
        }
    }

    /// A note in the place of something that a tool message cannot hold.
    fn left_out(&mut self, item: &Item, label: &str) -> String {
        self.lose(item, format!("{label}, because tool messages hold text only"));
        text_part(&format!("[{label} left out: tool messages hold text only]"))
    }

    fn content_part(&mut self, item: &Item, tag: Option<Tag>, part: &Part) -> Option<String> {
        let written = match part {
            Part::Text(text) if text.is_empty() => return None,
            Part::Text(text) => Some(text_part(&tagged(tag, text))),
            Part::Structured(json) => Some(text_part(&tagged(tag, json.as_str()))),
            Part::Media(media) => media_part(media),
            Part::File(file) => Some(file_part(file)),
            Part::Opaque(opaque) if opaque.source.starts_with(CONTENT_SOURCE) => {
                Some(opaque.json.as_str().to_owned())
            }
            Part::Opaque(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
        };
        let lost = match part {
            _ if written.is_none() => Some(format!("its {} part", part.kind_name())),
            Part::Structured(_) => Some(STRUCTURED_AS_TEXT.to_owned()),
            Part::Media(media) => lost_of_image(media).filter(|_| !media.media_type.starts_with("audio/")),
            Part::File(file) => lost_of_file(file),
            _ => None,
        };
        if let Some(what) = lost {
            self.lose(item, what);
        }
        written
    }

    fn push_answers(&mut self, run: &[&Sent], keeps: Keeps) {
        let mut answer = Answer::default();
        for (index, item) in run.iter().enumerate() {
            let is_last = index + 1 == run.len();
            // Calls must end their message, so one with calls stays as it was only at the end.
            let stands_alone = answer.calls.is_empty() && (is_last || item.calls().next().is_none());
            match self.original(item) {
                Some(raw) if stands_alone => {
                    self.finish(&mut answer);
                    self.messages.push(raw);
                }
                _ => item.parts.iter().for_each(|part| self.add(&mut answer, item, part, keeps)),
            }
        }
        self.finish(&mut answer);
    }

    fn add(&mut self, answer: &mut Answer, item: &Item, part: &Part, keeps: Keeps) {
        let is_opaque_call = matches!(part, Part::Opaque(opaque) if &*opaque.source == CALL_SOURCE);
        let is_call = is_opaque_call || matches!(part, Part::ToolCall(_));
        if !is_call && !answer.calls.is_empty() {
            self.lose(item, format!("that its {} came after calls", part.kind_name()));
        }
        match part {
            Part::ToolCall(call) => {
                if call.signature.is_some() {
                    self.lose(item, format!("the signature of its call of {}", call.name));
                }
                answer.calls.push(call_json(call));
            }
            Part::Opaque(opaque) if is_opaque_call => answer.calls.push(opaque.json.as_str().to_owned()),
            Part::Reasoning(reasoning) if keeps == Keeps::Reasoning => {
                // Reading gives one reasoning, before the text: what comes later needs its own message.
                let has_begun = !answer.content.is_empty() || !answer.reasoning.is_empty();
                if answer.calls.is_empty() && has_begun {
                    self.finish(answer);
                }
                if reasoning.is_sealed() {
                    self.lose(item, "what a provider sealed of its reasoning");
                }
                answer.reasoning.push(reasoning.text.to_string());
            }
            Part::Reasoning(_) => self.lose(item, "reasoning, which this dialect does not take back"),
            Part::Media(Media { media_type: label, .. }) => {
                self.lose(item, format!("{label}, which only users may send"));
            }
            _ => answer.content.extend(self.content_part(item, None, part)),
        }
    }

    /// Writes the answer, and leaves an empty one to go on with.
    fn finish(&mut self, answer: &mut Answer) {
        let answer = std::mem::take(answer);
        let mut fields = vec![("role", quoted("assistant"))];
        match (&answer.content[..], &answer.calls[..]) {
            ([], []) if answer.reasoning.is_empty() => return,
            ([], _) => fields.push(("content", "null".to_owned())),
            (content, _) => fields.push(("content", content_of(content))),
        }
        if !answer.reasoning.is_empty() {
            fields.push(("reasoning_content", quoted(&answer.reasoning.join("\n\n"))));
        }
        if !answer.calls.is_empty() {
            fields.push(("tool_calls", array(&answer.calls)));
        }
        self.messages.push(object(&fields));
    }
}

/// Content of one text is a string, anything else a list.
fn content_of(parts: &[String]) -> String {
    match parts {
        [only] => only
            .strip_prefix(TEXT_START)
            .and_then(|text| text.strip_suffix('}'))
            .map_or_else(|| array(parts), ToOwned::to_owned),
        _ => array(parts),
    }
}

/// How a text part that was written here begins; its string and a brace follow.
const TEXT_START: &str = "{\"type\":\"text\",\"text\":";

fn text_part(text: &str) -> String {
    format!("{TEXT_START}{}}}", quoted(text))
}

fn media_part(media: &Media) -> Option<String> {
    match (media.media_type.strip_prefix("audio/"), &media.data) {
        (Some(format), Blob::Base64(data)) => {
            let audio = object(&[("data", quoted(data)), ("format", quoted(format))]);
            Some(object(&[("type", quoted("input_audio")), ("input_audio", audio)]))
        }
        (None, data) if media.media_type.starts_with("image/") => {
            let url = address_of(&media.media_type, data);
            Some(object(&[("type", quoted("image_url")), ("image_url", object(&[("url", quoted(&url))]))]))
        }
        _ => None,
    }
}

fn file_part(file: &File) -> String {
    let data = address_of(&file.media_type, &file.data);
    let mut fields = Vec::new();
    fields.extend(file.name.as_ref().map(|name| ("filename", quoted(name))));
    fields.push(("file_data", quoted(&data)));
    object(&[("type", quoted("file")), ("file", object(&fields))])
}

fn call_json(call: &ToolCall) -> String {
    let (kind, input) = match &call.input {
        ToolInput::Json(json) => {
            ("function", object(&[("name", quoted(&call.name)), ("arguments", quoted(json.as_str()))]))
        }
        ToolInput::Text(text) => ("custom", object(&[("name", quoted(&call.name)), ("input", quoted(text))])),
    };
    object(&[("id", quoted(&call.id)), ("type", quoted(kind)), (kind, input)])
}
