//! What both of OpenAI's dialects are made of: JSON text, data addresses, and tags around the text
//! of items that no provider has a role for.

use foldback_core::{Blob, File, Item, ItemKind, Json, Media, Part, Text, Tokens, ToolInput};

use crate::inline;
use crate::lowering::{Tag, found_summary};

/// What the tag of a summary says about who wrote it.
const SUMMARY_BY: &str = "foldback";

/// The type of an image whose address does not tell it.
const IMAGE_OF_UNKNOWN_TYPE: &str = "image/*";

/// The type of a document whose address does not tell it.
const FILE_OF_UNKNOWN_TYPE: &str = "application/octet-stream";

/// Text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is always a JSON string")
}

/// A JSON object of these fields, whose values are JSON.
pub(crate) fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// A JSON array of these elements, which are JSON.
pub(crate) fn array(elements: &[String]) -> String {
    format!("[{}]", elements.join(","))
}

/// A JSON array of these elements, with the white space between elements of another array.
pub(crate) fn array_like(original: &str, elements: &[String]) -> String {
    let filled = original.strip_suffix(']').unwrap_or(original);
    let before_end = &filled[filled.trim_ascii_end().len()..];
    let after_bracket = filled.strip_prefix('[').unwrap_or("");
    let indent = &after_bracket[..after_bracket.len() - after_bracket.trim_ascii_start().len()];
    if elements.is_empty() || after_bracket.trim_ascii().is_empty() {
        return array(elements);
    }
    let separator = format!(",{indent}");
    format!("[{indent}{}{before_end}]", elements.join(&separator))
}

/// What a tool is given, from the text of its arguments.
pub(crate) fn tool_input(arguments: &str) -> ToolInput {
    Json::parse(arguments).map_or_else(|_| ToolInput::Text(arguments.into()), ToolInput::Json)
}

/// The type and bytes behind an address; one that only points has the type `unknown`.
pub(crate) fn blob_at(url: &str, unknown: &str) -> (Text, Blob) {
    let inline = url.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
    match inline {
        Some((media_type, data)) => (media_type.into(), Blob::Base64(data.into())),
        None => (unknown.into(), Blob::Url(url.into())),
    }
}

/// As [`blob_at`], for images.
pub(crate) fn image_at(url: &str) -> Media {
    let (media_type, data) = blob_at(url, IMAGE_OF_UNKNOWN_TYPE);
    Media { media_type, data, pixels: None }
}

/// As [`blob_at`], for documents, which may be text.
pub(crate) fn file_at(url: &str, name: Option<Text>) -> File {
    let (media_type, data) = blob_at(url, FILE_OF_UNKNOWN_TYPE);
    let data = match data {
        Blob::Base64(data) => inline::document(&media_type, data),
        other => other,
    };
    File { name, media_type, data }
}

/// The address of a blob.
pub(crate) fn address_of(media_type: &str, data: &Blob) -> String {
    match data {
        Blob::Base64(data) => format!("data:{media_type};base64,{data}"),
        Blob::Text(text) => format!("data:{media_type};base64,{}", inline::encoded(text)),
        Blob::Url(url) => url.to_string(),
    }
}

/// What reading the address of an image does not give back.
pub(crate) fn lost_of_image(media: &Media) -> Option<String> {
    let label = &media.media_type;
    match &media.data {
        Blob::Base64(_) => None,
        Blob::Text(_) => Some(format!("that {label} is given as text")),
        Blob::Url(url) => lost_of_address(url, label, IMAGE_OF_UNKNOWN_TYPE),
    }
}

/// What reading the address of a document does not give back.
pub(crate) fn lost_of_file(file: &File) -> Option<String> {
    match &file.data {
        Blob::Base64(_) => None,
        Blob::Text(_) if inline::is_text(&file.media_type) => None,
        Blob::Text(_) => Some(format!("that {} is given as text", file.label())),
        Blob::Url(url) => lost_of_address(url, &file.media_type, FILE_OF_UNKNOWN_TYPE),
    }
}

fn lost_of_address(url: &str, media_type: &str, unknown: &str) -> Option<String> {
    let (read_type, _) = blob_at(url, unknown);
    (&*read_type != media_type).then(|| format!("the type {media_type}, which an address does not tell"))
}

/// The text with the tag that its item's kind needs.
pub(crate) fn tagged(tag: Option<Tag>, text: &str) -> String {
    tag.map_or_else(|| text.to_owned(), |tag| tag.around(text))
}

/// Takes the tag off a user message, and gives it the kind that the tag says.
///
/// A tag around nothing marks an item that has no text of its own.
pub(crate) fn untagged(mut item: Item) -> Item {
    let Some(tag) = common_tag(&item) else { return item };
    for part in &mut item.parts {
        if let Part::Text(text) = part {
            let inside = Tag::split(text).map(|(_, inside)| Text::from(inside));
            *text = inside.unwrap_or_default();
        }
    }
    item.parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    item.kind = tag.kind();
    match tag {
        Tag::Summary => found_summary(item, SUMMARY_BY, 0, Tokens::ZERO),
        Tag::Context | Tag::Notification => item,
    }
}

/// The tag that is around every text of a user's item.
fn common_tag(item: &Item) -> Option<Tag> {
    let mut tags = item.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(Tag::split(text).map(|(tag, _)| tag)),
        _ => None,
    });
    let first = tags.next().flatten().filter(|_| item.kind == ItemKind::User)?;
    tags.all(|tag| tag == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_written_in_the_style_of_another() {
        let elements = ["1".to_owned(), "2".to_owned()];
        assert_eq!(array_like("[\n  7\n ]", &elements), "[\n  1,\n  2\n ]");
        assert_eq!(array_like("[7, 8]", &elements), "[1,2]");
        assert_eq!(array_like("[ ]", &elements), "[1,2]");
        assert_eq!(array_like("[\n  7\n ]", &[]), "[]");
    }

    #[test]
    fn an_inline_image_is_found_and_its_address_written_as_it_was() {
        for url in ["data:image/png;base64,iVBORw0=", "https://example.org/a.png", "data:,plain"] {
            let media = image_at(url);
            assert_eq!(address_of(&media.media_type, &media.data), url);
            assert_eq!(lost_of_image(&media), None);
        }
    }

    #[test]
    fn a_tag_is_taken_off_only_where_all_text_has_it() {
        let say = |texts: &[&str]| {
            let parts = texts.iter().map(|text| Part::text(*text)).collect();
            untagged(Item::new("u", ItemKind::User, parts))
        };
        let context = say(&["<context>\na\n</context>", "<context>\nb\n</context>"]);
        assert_eq!(
            (context.kind, context.parts),
            (ItemKind::Context, vec![Part::text("a"), Part::text("b")])
        );
        assert_eq!(say(&["<context>\na\n</context>", "b"]).kind, ItemKind::User);
        assert!(say(&["<conversation_summary>\na\n</conversation_summary>"]).summary.is_some());
    }
}
