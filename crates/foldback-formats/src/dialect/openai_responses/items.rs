//! Reading the items of the Responses API, which requests and Codex rollouts share.
//!
//! One input item is one item. Kinds of calls that foldback does not know are calls all the same,
//! so that nothing separates them from their outputs; everything else unknown is passed through.

use std::borrow::Cow;

use foldback_core::{
    CallId, Item, ItemKind, Json, Part, Reasoning, ResultPart, Text, Tokens, ToolCall, ToolInput, ToolResult,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::attribution::attributed;
use crate::dialect::openai_chat::content::{file_at, image_at, untagged};
use crate::dialect::openai_chat::{opaque, part_of, read_arguments};
use crate::lowering::found_summary;

/// How the source of items that are passed through begins; their type follows.
pub(crate) const ITEM_SOURCE: &str = "openai-responses/";

/// How the source of content parts that are passed through begins; their type follows.
pub(crate) const CONTENT_SOURCE: &str = "openai-responses/content/";

/// How the source of outputs that are passed through begins; their type follows.
pub(crate) const OUTPUT_SOURCE: &str = "openai-responses/output/";

/// The name under which calls of the built-in shell are known.
pub(crate) const LOCAL_SHELL: &str = "local_shell";

/// Who writes summaries that only the provider can read.
const COMPACTED_BY: &str = "openai";

/// The `status` of an output whose tool failed.
pub(crate) const FAILED: &str = "incomplete";

#[derive(Deserialize)]
struct InputItem<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    action: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    encrypted_content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    status: Option<Cow<'a, str>>,
}

/// One input item, named by its own id where it has one. It fails where the JSON is no object.
pub(crate) fn read_item(raw: &RawValue, id: impl Into<Text>) -> Result<Item, serde_json::Error> {
    let is_object = raw.get().starts_with('{');
    let read = match serde_json::from_str::<InputItem<'_>>(raw.get()) {
        Ok(read) => read,
        Err(_) if is_object => return Ok(passed_through(raw, "unknown", &id.into())),
        Err(error) => return Err(error),
    };
    let id = read.id.as_deref().filter(|id| !id.is_empty()).map_or_else(|| id.into(), Text::from);
    let kind = read.kind.as_deref().unwrap_or(if read.role.is_some() { "message" } else { "unknown" });
    let parts = match kind {
        "message" => return Ok(message(&read, raw, &id)),
        "reasoning" => Some(vec![Part::Reasoning(reasoning(&read))]),
        "compaction" | "compaction_summary" | "context_compaction" => {
            let item = Item::new(id.as_str(), ItemKind::Context, vec![opaque_item(raw, kind)]);
            return Ok(found_summary(item, COMPACTED_BY, 0, Tokens::ZERO));
        }
        _ => call(&read, raw, kind).map(|call| vec![Part::ToolCall(call)]),
    };
    if let Some(parts) = parts {
        return Ok(Item::assistant(id.as_str(), parts));
    }
    let item = result(&read, raw, kind).map(|result| Item::tool(id.as_str(), result));
    Ok(item.unwrap_or_else(|| passed_through(raw, kind, &id)))
}

fn passed_through(raw: &RawValue, kind: &str, id: &str) -> Item {
    // What ends so was done by the model or on its behalf, without an output of its own.
    let item_kind = if kind.ends_with("_call") { ItemKind::Assistant } else { ItemKind::Context };
    Item::new(id, item_kind, vec![opaque_item(raw, kind)])
}

fn opaque_item(raw: &RawValue, kind: &str) -> Part {
    Part::Opaque(opaque(&format!("{ITEM_SOURCE}{kind}"), raw))
}

fn message(read: &InputItem<'_>, raw: &RawValue, id: &Text) -> Item {
    let pieces = read.content.map_or_else(Vec::new, read_content);
    let parts = pieces.into_iter().map(part_of).collect();
    let item = |kind| Item::new(id.as_str(), kind, parts);
    match read.role.as_deref() {
        Some("system") => item(ItemKind::System),
        Some("developer") => item(ItemKind::Developer),
        Some("user") => attributed(untagged(item(ItemKind::User))),
        Some("assistant") => item(ItemKind::Assistant),
        _ => passed_through(raw, "message", id),
    }
}

fn reasoning(read: &InputItem<'_>) -> Reasoning {
    #[derive(Deserialize)]
    struct Said<'a> {
        #[serde(borrow, default)]
        text: Option<Cow<'a, str>>,
    }
    let texts = [read.summary, read.content].into_iter().flatten().flat_map(|list| {
        let said = serde_json::from_str::<Vec<Said<'_>>>(list.get()).unwrap_or_default();
        said.into_iter().filter_map(|said| said.text.map(Cow::into_owned))
    });
    Reasoning {
        text: texts.collect::<Vec<String>>().join("\n\n").into(),
        id: read.id.as_deref().map(Text::from),
        signature: None,
        encrypted: read.encrypted_content.as_deref().map(Text::from),
    }
}

fn call(read: &InputItem<'_>, raw: &RawValue, kind: &str) -> Option<ToolCall> {
    let id: CallId = match kind {
        LOCAL_SHELL_CALL => read.call_id.as_deref().or(read.id.as_deref())?.into(),
        _ => read.call_id.as_deref()?.into(),
    };
    let (name, input) = match kind {
        "function_call" => (read.name.as_deref()?, read_arguments(read.arguments?)),
        "custom_tool_call" => {
            let input: String = serde_json::from_str(read.input?.get()).ok()?;
            (read.name.as_deref()?, ToolInput::Text(input.into()))
        }
        LOCAL_SHELL_CALL => (LOCAL_SHELL, ToolInput::Json(json(read.action?))),
        _ if kind.ends_with("_call") => (kind, ToolInput::Json(json(raw))),
        _ => return None,
    };
    Some(ToolCall { id, name: name.into(), input, signature: None })
}

/// The type of calls of the built-in shell.
pub(crate) const LOCAL_SHELL_CALL: &str = "local_shell_call";

fn json(raw: &RawValue) -> Json {
    Json::parse(raw.get()).expect("raw JSON is JSON")
}

fn result(read: &InputItem<'_>, raw: &RawValue, kind: &str) -> Option<ToolResult> {
    if !kind.ends_with("_output") {
        return None;
    }
    let call_id = read.call_id.as_deref()?.into();
    let is_list = |output: &&RawValue| output.get().starts_with(['"', '[']);
    let content = match read.output.filter(is_list) {
        Some(output) if is_known_content(output) => read_content(output),
        _ => vec![ResultPart::Opaque(opaque(&format!("{OUTPUT_SOURCE}{kind}"), raw))],
    };
    Some(ToolResult { call_id, content, is_error: read.status.as_deref() == Some(FAILED) })
}

/// Lists of other things than content are outputs of their own kind.
fn is_known_content(output: &RawValue) -> bool {
    let is_typed = |piece: &&RawValue| serde_json::from_str::<Typed<'_>>(piece.get()).is_ok();
    let pieces = serde_json::from_str::<Vec<&RawValue>>(output.get());
    pieces.map_or(true, |pieces| pieces.iter().all(is_typed))
}

/// Content: a string or a list of parts. Empty text says nothing.
fn read_content(raw: &RawValue) -> Vec<ResultPart> {
    let is_said = |part: &ResultPart| !matches!(part, ResultPart::Text(text) if text.is_empty());
    let unknown = || vec![ResultPart::Opaque(opaque(&format!("{CONTENT_SOURCE}unknown"), raw))];
    let parts = match raw.get().as_bytes().first() {
        Some(b'n') => Vec::new(),
        Some(b'"') => serde_json::from_str::<String>(raw.get())
            .map_or_else(|_| unknown(), |text| vec![ResultPart::Text(text.into())]),
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(raw.get())
            .map_or_else(|_| unknown(), |parts| parts.into_iter().map(read_part).collect()),
        _ => unknown(),
    };
    parts.into_iter().filter(is_said).collect()
}

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    image_url: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    filename: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    file_data: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    file_url: Option<Cow<'a, str>>,
}

fn read_part(raw: &RawValue) -> ResultPart {
    let typed = serde_json::from_str::<Typed<'_>>(raw.get()).ok();
    let kind = typed.as_ref().map_or(Cow::Borrowed("unknown"), |typed| typed.kind.clone());
    let part = typed.and_then(|typed| match &*typed.kind {
        "input_text" | "output_text" | "text" => typed.text.map(|text| ResultPart::Text((*text).into())),
        "refusal" => typed.refusal.map(|text| ResultPart::Text((*text).into())),
        "input_image" => typed.image_url.map(|url| ResultPart::Media(image_at(&url))),
        "input_file" => {
            let name = typed.filename.as_deref().map(Text::from);
            Some(ResultPart::File(file_at(&typed.file_data.or(typed.file_url)?, name)))
        }
        _ => None,
    });
    part.unwrap_or_else(|| ResultPart::Opaque(opaque(&format!("{CONTENT_SOURCE}{kind}"), raw)))
}
