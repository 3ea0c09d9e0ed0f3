//! OpenAI Chat Completions: request bodies and bare lists of messages.
//!
//! One message is one item, so that what a compaction leaves as it was is written back with its own
//! text, fields that foldback does not know included.

pub(crate) mod content;
mod write;

use std::borrow::Cow;

use foldback_core::{
    Blob, Item, ItemKind, Json, Media, Opaque, Part, ResultPart, Text, ToolCall, ToolInput, ToolResult,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::attribution::attributed;
use crate::conversation::{Conversation, FilePlace, Sent};
use crate::detect::{Fit, Probe};
use crate::document::Document;
use crate::error::{Fault, FormatError, Problem};
use crate::format::{Codec, Format, Loss, Reading, SessionFile};

use content::{file_at, image_at, tool_input, untagged};

pub(crate) struct OpenaiChat;

/// The source of messages that are passed through whole.
pub(crate) const MESSAGE_SOURCE: &str = "openai-chat/message";

/// How the source of content parts that are passed through begins; their type follows.
pub(crate) const CONTENT_SOURCE: &str = "openai-chat/content/";

/// The source of entries of `tool_calls` that are passed through.
pub(crate) const CALL_SOURCE: &str = "openai-chat/tool_call";

/// Fields at the top that only other formats have.
const FOREIGN_FIELDS: [&str; 11] = [
    "trajectory",
    "info",
    "traj",
    "events",
    "history",
    "response",
    "sessionId",
    "trajectory_format",
    "version",
    "system",
    "context_window",
];

/// Fields at the top that only these requests have.
const OWN_FIELDS: [&str; 8] = [
    "max_completion_tokens",
    "response_format",
    "parallel_tool_calls",
    "reasoning_effort",
    "stream_options",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
];

impl Codec for OpenaiChat {
    fn fits(&self, probe: &Probe<'_>) -> Fit {
        if FOREIGN_FIELDS.iter().any(|name| probe.field(name).is_some()) {
            return Fit::No;
        }
        let of_field = probe.elements_of("messages");
        let messages = if of_field.is_empty() { probe.elements() } else { &of_field };
        let Some(fits) = messages.iter().map(fit_of_message).collect::<Option<Vec<Fit>>>() else {
            return Fit::No;
        };
        let fit = fits.into_iter().max().unwrap_or(Fit::No);
        let is_own = OWN_FIELDS.iter().any(|name| probe.field(name).is_some())
            || probe.elements_of("tools").iter().any(|tool| tool["function"].is_object());
        if is_own && fit > Fit::No { Fit::Sure } else { fit }
    }

    fn read(&self, bytes: &[u8]) -> Result<Reading, FormatError> {
        let document = Document::new(bytes, Format::OpenaiChat)?;
        let body = Body::of(&document)?;
        let mut conversation = Conversation::new();
        let mut problems = Vec::new();
        for (raw, read) in body.messages(&document)? {
            match read {
                Ok(item) => drop(conversation.push(item, FilePlace::line(document.line_of(raw)))),
                Err(problem) => problems.push(problem),
            }
        }
        Ok(Reading { conversations: vec![conversation], problems, model: body.model, ..Reading::default() })
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write(&self, items: &[Sent], like: Option<&SessionFile>) -> Option<(Vec<u8>, Vec<Loss>)> {
        Some(write::write(items, like))
    }
}

/// How much a message speaks for this dialect; nothing where it cannot be one of its messages.
fn fit_of_message(message: &Value) -> Option<Fit> {
    let content_fit = match &message["content"] {
        Value::Array(parts) => parts.iter().map(fit_of_part).min().unwrap_or(Fit::Possible),
        Value::String(_) | Value::Null => Fit::Possible,
        Value::Object(_) | Value::Bool(_) | Value::Number(_) => Fit::No,
    };
    let is_other = ["type", "parts"].iter().any(|name| message.get(name).is_some());
    if is_other || content_fit == Fit::No {
        return None;
    }
    let has_calls = message["tool_calls"].is_array() || message["function_call"].is_object();
    Some(match message["role"].as_str()? {
        "system" | "developer" | "tool" | "function" => Fit::Sure,
        "assistant" if has_calls => Fit::Sure,
        "user" | "assistant" => content_fit,
        // Passed through, and no mark of anything.
        _ => Fit::No,
    })
}

fn fit_of_part(part: &Value) -> Fit {
    match part["type"].as_str() {
        Some("image_url" | "input_audio" | "file" | "refusal") => Fit::Sure,
        Some("text") => Fit::Possible,
        _ => Fit::No,
    }
}

/// The parts of a document that are looked at.
struct Body<'a> {
    model: Option<Text>,
    messages: &'a RawValue,
}

/// A message's text in the file, and the item it is.
type ReadMessage<'a> = (&'a RawValue, Result<Item, Problem>);

impl<'a> Body<'a> {
    fn of(document: &Document<'a>) -> Result<Self, FormatError> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow, default)]
            model: Option<&'a RawValue>,
            #[serde(borrow)]
            messages: &'a RawValue,
        }
        let whole: &RawValue = document.parse()?;
        if whole.get().starts_with('[') {
            return Ok(Self { model: None, messages: whole });
        }
        let fields: Fields<'a> = document.parse_piece(whole)?;
        let model = fields.model.and_then(|model| serde_json::from_str(model.get()).ok());
        Ok(Self { model, messages: fields.messages })
    }

    fn messages(&self, document: &Document<'a>) -> Result<Vec<ReadMessage<'a>>, FormatError> {
        let messages: Vec<&'a RawValue> = document.parse_piece(self.messages)?;
        let read = messages.into_iter().enumerate().map(|(index, raw)| {
            let missing = |reason| Problem {
                line: document.line_of(raw),
                column: None,
                fault: Fault::NotUnderstood { reason },
            };
            let item = read_message(raw, format!("m{index}")).map_err(|error| missing(error.to_string()));
            (raw, item)
        });
        Ok(read.collect())
    }
}

/// A message as it is in requests.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    function_call: Option<Function<'a>>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// One message as an item, named by its own id where it has one. A role that is not known gives an
/// item that passes the message through.
pub(crate) fn read_message(raw: &RawValue, id: impl Into<Text>) -> Result<Item, serde_json::Error> {
    let message: Message<'_> = serde_json::from_str(raw.get())?;
    let own_id = message.id.and_then(|id| serde_json::from_str::<String>(id.get()).ok());
    let id = own_id.map_or_else(|| id.into(), Text::from);
    let content = || {
        let pieces = message.content.map_or_else(Vec::new, read_content);
        pieces.into_iter().map(part_of).collect::<Vec<_>>()
    };
    let item = |kind, parts| Item::new(id.as_str(), kind, parts);
    Ok(match &*message.role {
        "system" => item(ItemKind::System, content()),
        "developer" => item(ItemKind::Developer, content()),
        "user" => attributed(untagged(item(ItemKind::User, content()))),
        "assistant" => item(ItemKind::Assistant, assistant_parts(&message, content())),
        "tool" | "function" => {
            let call_id = message.tool_call_id.as_deref().or(message.name.as_deref()).unwrap_or_default();
            let content = message.content.map_or_else(Vec::new, read_content);
            Item::tool(id.as_str(), ToolResult { call_id: call_id.into(), content, is_error: false })
        }
        _ => item(ItemKind::Context, vec![Part::Opaque(opaque(MESSAGE_SOURCE, raw))]),
    })
}

fn assistant_parts(message: &Message<'_>, content: Vec<Part>) -> Vec<Part> {
    let mut parts = Vec::new();
    let reasoning =
        message.reasoning_content.and_then(|text| serde_json::from_str::<String>(text.get()).ok());
    parts.extend(reasoning.filter(|text| !text.is_empty()).map(Part::reasoning));
    parts.extend(content);
    parts.extend(message.refusal.as_deref().filter(|text| !text.is_empty()).map(Part::text));
    parts.extend(message.tool_calls.iter().flatten().map(|call| read_call(call)));
    // The older form had one call without an id, answered by name.
    let called = message.function_call.as_ref();
    parts.extend(called.map(|function| Part::ToolCall(function_call(&function.name, function))));
    parts
}

/// An entry of `tool_calls`.
pub(crate) fn read_call(raw: &RawValue) -> Part {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
        #[serde(borrow, default)]
        function: Option<Function<'a>>,
        #[serde(borrow, default)]
        custom: Option<Custom<'a>>,
    }
    #[derive(Deserialize)]
    struct Custom<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        input: Cow<'a, str>,
    }
    let call = match serde_json::from_str(raw.get()) {
        Ok(Call { id, function: Some(function), .. }) => function_call(&id, &function),
        Ok(Call { id, custom: Some(custom), .. }) => ToolCall {
            id: (*id).into(),
            name: (*custom.name).into(),
            input: ToolInput::Text((*custom.input).into()),
            signature: None,
        },
        Ok(Call { function: None, custom: None, .. }) | Err(_) => {
            return Part::Opaque(opaque(CALL_SOURCE, raw));
        }
    };
    Part::ToolCall(call)
}

fn function_call(id: &str, function: &Function<'_>) -> ToolCall {
    let input = function.arguments.map_or(ToolInput::Text(Text::default()), read_arguments);
    ToolCall { id: id.into(), name: (*function.name).into(), input, signature: None }
}

/// Arguments are JSON in a string; some servers give them as they are.
pub(crate) fn read_arguments(raw: &RawValue) -> ToolInput {
    let in_string = serde_json::from_str::<Cow<'_, str>>(raw.get());
    in_string.map_or_else(|_| tool_input(raw.get()), |text| tool_input(&text))
}

/// The content of a message: nothing, a string or a list of parts.
pub(crate) fn read_content(raw: &RawValue) -> Vec<ResultPart> {
    let is_said = |part: &ResultPart| !matches!(part, ResultPart::Text(text) if text.is_empty());
    let parts = match raw.get().as_bytes().first() {
        Some(b'n') => Vec::new(),
        Some(b'"') => serde_json::from_str::<String>(raw.get()).map_or_else(
            |_| vec![ResultPart::Opaque(opaque(&format!("{CONTENT_SOURCE}string"), raw))],
            |text| vec![ResultPart::Text(text.into())],
        ),
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(raw.get())
            .map_or_else(|_| Vec::new(), |parts| parts.into_iter().map(read_part).collect()),
        _ => vec![ResultPart::Opaque(opaque(&format!("{CONTENT_SOURCE}unknown"), raw))],
    };
    parts.into_iter().filter(is_said).collect()
}

fn read_part(raw: &RawValue) -> ResultPart {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow, default)]
        text: Option<Cow<'a, str>>,
        #[serde(borrow, default)]
        refusal: Option<Cow<'a, str>>,
        #[serde(default)]
        image_url: Option<ImageUrl>,
        #[serde(default)]
        input_audio: Option<Audio>,
        #[serde(default)]
        file: Option<FileData>,
    }
    let typed = serde_json::from_str::<Typed<'_>>(raw.get()).ok();
    let kind = typed.as_ref().map_or(Cow::Borrowed("unknown"), |typed| typed.kind.clone());
    let part = typed.and_then(|typed| match &*typed.kind {
        "text" => typed.text.map(|text| ResultPart::Text((*text).into())),
        "refusal" => typed.refusal.map(|text| ResultPart::Text((*text).into())),
        "image_url" => typed.image_url.map(|image| ResultPart::Media(image_at(&image.url))),
        "input_audio" => typed.input_audio.map(Audio::into_part),
        "file" => typed.file.and_then(FileData::into_part),
        _ => None,
    });
    part.unwrap_or_else(|| ResultPart::Opaque(opaque(&format!("{CONTENT_SOURCE}{kind}"), raw)))
}

#[derive(Deserialize)]
struct ImageUrl {
    url: String,
}

#[derive(Deserialize)]
struct Audio {
    data: String,
    format: String,
}

impl Audio {
    fn into_part(self) -> ResultPart {
        let media_type = format!("audio/{}", self.format).into();
        ResultPart::Media(Media { media_type, data: Blob::Base64(self.data.into()), pixels: None })
    }
}

#[derive(Deserialize)]
struct FileData {
    #[serde(default)]
    filename: Option<Text>,
    #[serde(default)]
    file_data: Option<String>,
}

impl FileData {
    /// A file that is only known by its id is passed through.
    fn into_part(self) -> Option<ResultPart> {
        Some(ResultPart::File(file_at(&self.file_data?, self.filename)))
    }
}

/// A piece of content as a part of a message.
pub(crate) fn part_of(piece: ResultPart) -> Part {
    match piece {
        ResultPart::Text(text) => Part::Text(text),
        ResultPart::Media(media) => Part::Media(media),
        ResultPart::File(file) => Part::File(file),
        ResultPart::Structured(json) => Part::Structured(json),
        ResultPart::Opaque(opaque) => Part::Opaque(opaque),
    }
}

/// JSON that is passed through.
pub(crate) fn opaque(source: &str, raw: &RawValue) -> Opaque {
    let json = Json::parse(raw.get()).expect("raw JSON is JSON");
    Opaque { source: source.into(), json }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::testing::sent;
    use crate::format::write;
    use std::sync::Arc;

    fn items_of(session: &SessionFile) -> Vec<Arc<Item>> {
        session.conversations()[0].recorded().iter().map(|recorded| Arc::clone(&recorded.item)).collect()
    }

    fn read(body: &str) -> SessionFile {
        SessionFile::read_as(Format::OpenaiChat, body.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn only_the_messages_of_a_body_change() {
        let body = "{ \"n\": 1.50, \"messages\": [\n  {\"role\":\"user\",\"content\":\"a\",\"x\":1e2},\n  {\"role\":\"user\",\"content\":\"b\"}\n ], \"stop\" : [ ] }\n";
        let session = read(body);
        let items = items_of(&session);
        let kept = write(Format::OpenaiChat, &sent(&items, Some(&session)), Some(&session)).unwrap();
        assert_eq!(String::from_utf8(kept.to_bytes()).unwrap(), body);
        let cut = write(Format::OpenaiChat, &sent(&items[..1], Some(&session)), Some(&session)).unwrap();
        let expected = body.replace(",\n  {\"role\":\"user\",\"content\":\"b\"}", "");
        assert_eq!(String::from_utf8(cut.to_bytes()).unwrap(), expected);
    }

    #[test]
    fn parallel_calls_of_several_items_become_one_message() {
        let call = |id: &str| Item::assistant(id, vec![Part::call(id, "ls", &serde_json::json!({}))]);
        let items = [
            Item::user("u", "go"),
            Item::assistant("t", vec![Part::text("looking")]),
            call("c1"),
            call("c2"),
            Item::tool("r1", ToolResult::text("c1", "x")),
            Item::tool("r2", ToolResult::text("c2", "y")),
        ];
        let items: Vec<Arc<Item>> = items.into_iter().map(Arc::new).collect();
        let written = write(Format::OpenaiChat, &sent(&items, None), None).unwrap();
        assert_eq!(written.losses, []);
        let value: Value = serde_json::from_slice(&written.to_bytes()).unwrap();
        let roles: Vec<&str> =
            value["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool"]);
        assert_eq!(value["messages"][1]["tool_calls"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_the_dialect_cannot_hold_is_named() {
        let media = Media { media_type: "image/png".into(), data: Blob::Base64("AA==".into()), pixels: None };
        let result =
            ToolResult { call_id: "c".into(), content: vec![ResultPart::Media(media)], is_error: true };
        let items = [
            Item::assistant("a", vec![Part::reasoning("hm"), Part::call("c", "see", &serde_json::json!({}))]),
            Item::tool("r", result),
        ];
        let items: Vec<Arc<Item>> = items.into_iter().map(Arc::new).collect();
        let written = write(Format::OpenaiChat, &sent(&items, None), None).unwrap();
        let lost: Vec<&str> = written.losses.iter().map(|loss| loss.item_id.as_str()).collect();
        assert_eq!(lost, ["a", "r", "r"]);
        assert!(String::from_utf8(written.to_bytes()).unwrap().contains("[image/png left out"));
    }

    #[test]
    fn messages_that_are_none_are_problems_on_their_line() {
        let session = read(
            "[\n{\"role\":\"user\",\"content\":\"a\"},\n7,\n{\"content\":\"b\"},\n{\"role\":\"user\",\"content\":8}]",
        );
        let lines: Vec<usize> = session.problems().iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [3, 4]);
        assert!(matches!(items_of(&session)[1].parts[..], [Part::Opaque(_)]));
        let broken = SessionFile::read_as(Format::OpenaiChat, b"{\"messages\":7}".to_vec());
        assert!(matches!(broken, Err(FormatError::Broken { .. })));
    }
}
