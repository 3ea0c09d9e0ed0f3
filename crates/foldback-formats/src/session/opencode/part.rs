//! The parts that opencode's messages are made of, read.

use std::borrow::Cow;

use foldback_core::{
    Blob, File, Item, ItemKind, Json, Media, Opaque, Part, Reasoning, ResultPart, Text, ToolCall, ToolInput,
    ToolResult,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::lenient;
use crate::lowering::Tag;

/// What the model sees instead of an output that was pruned.
pub(super) const CLEARED: &str = "[Old tool result content cleared]";

/// What the model sees of a command that the person ran through a sub-agent.
const SUBTASK: &str = "The following tool was executed by the user";

/// One part; which fields it has depends on its type.
#[derive(Deserialize)]
pub(super) struct PartRecord<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(default)]
    synthetic: Option<bool>,
    #[serde(default)]
    ignored: Option<bool>,
    #[serde(borrow, default)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mime: Cow<'a, str>,
    #[serde(borrow, default)]
    filename: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    url: Cow<'a, str>,
    #[serde(borrow, default, rename = "callID")]
    call_id: Cow<'a, str>,
    #[serde(borrow, default)]
    tool: Cow<'a, str>,
    #[serde(borrow, default)]
    state: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tail_start_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct State<'a> {
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Cow<'a, str>,
    #[serde(borrow, default)]
    error: Cow<'a, str>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    attachments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    time: Option<&'a RawValue>,
}

/// A call, and what came of it.
#[derive(PartialEq)]
pub(super) struct Called {
    pub(super) call: ToolCall,
    pub(super) result: Option<ToolResult>,
    /// When the output was pruned.
    pub(super) cleared_at: Option<i64>,
}

/// What a part of an assistant message is to the conversation.
pub(super) enum Said {
    StepStart,
    Part(Part),
    Called(Box<Called>),
    /// Steps, snapshots, patches: nothing that the model sees.
    Nothing,
}

pub(super) fn record(piece: &RawValue) -> Option<PartRecord<'_>> {
    serde_json::from_str(piece.get()).ok()
}

fn opaque(kind: &str, piece: &RawValue) -> Part {
    let json = Json::parse(piece.get()).expect("a piece of JSON is JSON");
    Part::Opaque(Opaque { source: format!("opencode/{kind}").into(), json })
}

/// A part of a user message as an item of one part, its kind and what it says.
pub(super) fn of_user(piece: &RawValue) -> Option<Item> {
    let Some(part) = record(piece) else {
        return Some(Item::new("", ItemKind::Context, vec![opaque("part", piece)]));
    };
    let item = |kind, part| Some(Item::new("", kind, vec![part]));
    match &*part.kind {
        "text" if part.ignored == Some(true) => None,
        "text" if part.synthetic == Some(true) => match Tag::split(&part.text) {
            Some((Tag::Summary, inside)) => {
                let summary = Item::text("", ItemKind::Context, inside);
                Some(crate::lowering::found_summary(summary, "foldback", 0, Default::default()))
            }
            Some((tag, inside)) => item(tag.kind(), Part::text(inside)),
            None => item(ItemKind::Context, Part::text(part.text)),
        },
        "text" => item(ItemKind::User, Part::text(part.text)),
        // Their content follows as text.
        "file" if matches!(&*part.mime, "text/plain" | "application/x-directory") => None,
        "file" => item(ItemKind::User, file(&part)),
        "subtask" => item(ItemKind::Context, Part::text(SUBTASK)),
        "compaction" | "agent" | "snapshot" | "patch" | "retry" | "step-start" | "step-finish" => None,
        other => item(ItemKind::Context, opaque(other, piece)),
    }
}

pub(super) fn of_assistant(piece: &RawValue) -> Said {
    let Some(part) = record(piece) else { return Said::Part(opaque("part", piece)) };
    match &*part.kind {
        "text" => Said::Part(Part::text(part.text)),
        "reasoning" => Said::Part(Part::Reasoning(reasoning(part))),
        "tool" => {
            called(&part).map_or_else(|| Said::Part(opaque("tool", piece)), |it| Said::Called(Box::new(it)))
        }
        "step-start" => Said::StepStart,
        "step-finish" | "snapshot" | "patch" | "retry" | "agent" | "file" | "compaction" | "subtask" => {
            Said::Nothing
        }
        other => Said::Part(opaque(other, piece)),
    }
}

fn file(part: &PartRecord<'_>) -> Part {
    let inline = part.url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let data = match inline {
        Some((_, data)) => Blob::Base64(data.into()),
        None => Blob::Url((&*part.url).into()),
    };
    let media_type = Text::from(&*part.mime);
    let is_media = ["image/", "audio/", "video/"].iter().any(|kind| part.mime.starts_with(kind));
    match is_media {
        true => Part::Media(Media { media_type, data, pixels: None }),
        false => Part::File(File { name: part.filename.as_deref().map(Text::from), media_type, data }),
    }
}

/// Providers' own notes on a part: how they sign or hide what it says.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ProviderNotes {
    anthropic: Value,
    openai: Value,
    google: Value,
    copilot: Value,
}

fn text_of(value: &Value) -> Option<Text> {
    value.as_str().filter(|text| !text.is_empty()).map(Text::from)
}

fn reasoning(part: PartRecord<'_>) -> Reasoning {
    let notes: ProviderNotes = lenient(part.metadata).unwrap_or_default();
    let signatures = [&notes.anthropic["signature"], &notes.google["thoughtSignature"]];
    let hidden = [
        &notes.openai["reasoningEncryptedContent"],
        &notes.anthropic["redactedData"],
        &notes.copilot["reasoningOpaque"],
    ];
    Reasoning {
        text: part.text.into(),
        id: text_of(&notes.openai["itemId"]),
        signature: signatures.into_iter().find_map(text_of),
        encrypted: hidden.into_iter().find_map(text_of),
    }
}

fn called(part: &PartRecord<'_>) -> Option<Called> {
    let state: State<'_> = lenient(part.state)?;
    let notes: ProviderNotes = lenient(part.metadata).unwrap_or_default();
    let call = ToolCall {
        id: (&*part.call_id).into(),
        name: (&*part.tool).into(),
        input: ToolInput::Json(Json::parse(state.input.map_or("{}", RawValue::get)).ok()?),
        signature: text_of(&notes.google["thoughtSignature"]),
    };
    let time: Value = lenient(state.time).unwrap_or_default();
    let (content, is_error) = match &*state.status {
        "completed" => (completed(&state), false),
        "error" => {
            // A tool that was stopped may have said something before.
            let details: Value = lenient(state.metadata).unwrap_or_default();
            let said = details["output"].as_str().filter(|_| details["interrupted"] == true);
            (vec![ResultPart::Text(said.unwrap_or(&state.error).into())], true)
        }
        _ => return Some(Called { call, result: None, cleared_at: None }),
    };
    let result = ToolResult { call_id: call.id.clone(), content, is_error };
    Some(Called { call, result: Some(result), cleared_at: time["compacted"].as_i64() })
}

fn completed(state: &State<'_>) -> Vec<ResultPart> {
    let mut content = vec![ResultPart::Text((&*state.output).into())];
    let attachments: Vec<&RawValue> = lenient(state.attachments).unwrap_or_default();
    let attached = attachments.into_iter().map(|piece| match record(piece).map(|part| file(&part)) {
        Some(Part::Media(media)) => ResultPart::Media(media),
        Some(Part::File(file)) => ResultPart::File(file),
        _ => ResultPart::Opaque(Opaque {
            source: "opencode/attachment".into(),
            json: Json::parse(piece.get()).expect("a piece of JSON is JSON"),
        }),
    });
    content.extend(attached);
    content
}
