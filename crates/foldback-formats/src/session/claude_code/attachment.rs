//! Attachments: what Claude Code gives the model besides what is said. The records hold data from
//! which the agent composes text; where they hold the text itself, that is taken.

use foldback_core::{Blob, ItemKind, Media, Part};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::record::opaque_attachment;
use crate::dialect::anthropic::blocks::{Str, read_blocks};

/// Attachments that the model does not see: settings, and messages for the person.
const NOT_CONTEXT: [&str; 3] = ["command_permissions", "hook_system_message", "hook_cancelled"];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attachment<'a> {
    #[serde(rename = "type", borrow)]
    kind: Str<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    added_lines: Option<&'a RawValue>,
    #[serde(borrow)]
    added_blocks: Option<&'a RawValue>,
}

/// Content that is itself wrapped: a memory file, or a file of the project.
#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    file: Option<WrappedFile<'a>>,
}

#[derive(Deserialize)]
struct WrappedFile<'a> {
    #[serde(borrow)]
    content: Option<Str<'a>>,
    #[serde(borrow)]
    base64: Option<Str<'a>>,
    #[serde(rename = "type", borrow)]
    media_type: Option<Str<'a>>,
}

/// What the model got of an attachment. No parts where that is nothing.
pub(super) fn read(json: &RawValue) -> (ItemKind, Vec<Part>) {
    let opaque = |kind: &str| (ItemKind::Context, opaque_attachment(kind, json).into_iter().collect());
    let Ok(attachment) = serde_json::from_str::<Attachment<'_>>(json.get()) else {
        return opaque("attachment");
    };
    if NOT_CONTEXT.contains(&&*attachment.kind) {
        return (ItemKind::Context, Vec::new());
    }
    if let Some(prompt) = attachment.prompt.filter(|_| &*attachment.kind == "queued_command") {
        return match read_blocks(prompt) {
            // The person typed it while the agent worked.
            Ok(content) => (ItemKind::User, content.parts),
            Err(_) => opaque(&attachment.kind),
        };
    }
    let added = attachment.added_lines.or(attachment.added_blocks);
    match attachment.content.or(added).map(content_of) {
        Some(Found::Nothing) => (ItemKind::Context, Vec::new()),
        Some(Found::Part(part)) => (ItemKind::Context, vec![part]),
        Some(Found::Unknown) | None => opaque(&attachment.kind),
    }
}

enum Found {
    Nothing,
    Part(Part),
    Unknown,
}

fn content_of(content: &RawValue) -> Found {
    let of_text = |text: &str| match text.trim().is_empty() {
        true => Found::Nothing,
        false => Found::Part(Part::text(text)),
    };
    let json = content.get();
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<Str<'_>>(json).map_or(Found::Unknown, |text| of_text(&text)),
        Some(b'[') => {
            let lines: Result<Vec<Str<'_>>, _> = serde_json::from_str(json);
            let join = |lines: Vec<Str<'_>>| lines.iter().map(|line| &**line).collect::<Vec<_>>().join("\n");
            lines.map_or(Found::Unknown, |lines| of_text(&join(lines)))
        }
        Some(b'{') => match serde_json::from_str::<Wrapped<'_>>(json) {
            Ok(Wrapped { content: Some(inner), .. }) if inner.get().starts_with('"') => content_of(inner),
            Ok(Wrapped { file: Some(file), .. }) => content_of_file(file),
            Ok(_) | Err(_) => Found::Unknown,
        },
        _ => Found::Unknown,
    }
}

fn content_of_file(file: WrappedFile<'_>) -> Found {
    match file {
        WrappedFile { content: Some(text), .. } if text.is_empty() => Found::Nothing,
        WrappedFile { content: Some(text), .. } => Found::Part(Part::Text(text.into())),
        WrappedFile { base64: Some(data), media_type: Some(media_type), .. }
            if media_type.starts_with("image/") =>
        {
            let data = Blob::Base64(data.into());
            Found::Part(Part::Media(Media { media_type: media_type.into(), data, pixels: None }))
        }
        _ => Found::Unknown,
    }
}
