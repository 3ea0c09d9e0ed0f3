//! A list of items in one line: `u a:+x,+y t:=x t:=y`.
//!
//! A word is an item: its kind (`s`ystem, `d`eveloper, `u`ser, `a`ssistant, `t`ool, `c`ontext,
//! `n`otification), then its parts. Parts are `.` text, `_` blank text, `0` empty text, `+x` call,
//! `=x` result, `=x/i` result with an image, `r` sealed reasoning, `q` reasoning, `i` image, `b`
//! image of a rare type, `f` file, `j` JSON, `o` something not understood. Without a colon there is one text; with nothing behind it there are no
//! parts. `!` behind the kind is a cache marker.

use std::sync::Arc;

use foldback_core::dialect::Dialect;
use foldback_core::{
    Blob, File, Item, ItemKind, Json, Media, Opaque, Part, Reasoning, ResultPart, Rule, ToolResult, check,
    check_request, repair,
};
use serde_json::json;

pub(crate) const COMMON: Option<Dialect> = None;
pub(crate) const ANTHROPIC: Option<Dialect> = Some(Dialect::Anthropic);
pub(crate) const CHAT: Option<Dialect> = Some(Dialect::OpenaiChat);
pub(crate) const RESPONSES: Option<Dialect> = Some(Dialect::OpenaiResponses);
pub(crate) const GEMINI: Option<Dialect> = Some(Dialect::Gemini);
pub(crate) const EVERY: [Option<Dialect>; Dialect::ALL.len() + 1] =
    [COMMON, ANTHROPIC, CHAT, RESPONSES, GEMINI];

pub(crate) fn items(shape: &str) -> Vec<Arc<Item>> {
    shape.split_whitespace().enumerate().map(|(index, word)| Arc::new(item(index, word))).collect()
}

fn item(index: usize, word: &str) -> Item {
    let (kind, parts) = word.split_once(':').unwrap_or((word, "."));
    let mut item = Item::new(format!("i{index}"), kind_of(&kind[..1]), Vec::new());
    item.cache_marker = kind.ends_with('!');
    item.parts = parts.split(',').filter(|part| !part.is_empty()).map(part).collect();
    item
}

fn kind_of(letter: &str) -> ItemKind {
    let kind = ItemKind::ALL.into_iter().find(|kind| kind.as_str().starts_with(letter));
    kind.expect("a kind begins with this letter")
}

pub(crate) fn image(media_type: &str, bytes: usize) -> Media {
    Media { media_type: media_type.into(), data: Blob::Base64("A".repeat(bytes).into()), pixels: None }
}

fn part(word: &str) -> Part {
    match word {
        "." => Part::text("text"),
        "_" => Part::text(" \n"),
        "0" => Part::text(""),
        "q" => Part::reasoning("thinking"),
        "r" => Part::Reasoning(Reasoning { signature: Some("sealed".into()), ..Reasoning::default() }),
        "i" => Part::Media(image("image/png", 8)),
        "b" => Part::Media(image("image/bmp", 8)),
        "f" => Part::File(File {
            name: Some("notes.txt".into()),
            media_type: "text/plain".into(),
            data: Blob::Text("notes".into()),
        }),
        "j" => Part::Structured(Json::from_value(&json!({"n": 1}))),
        "o" => Part::Opaque(Opaque { source: "test".into(), json: Json::from_value(&json!({"n": 1})) }),
        _ => match (word.strip_prefix('+'), word.strip_prefix('=')) {
            (Some(id), _) => Part::call(id, "run", &json!({})),
            (_, Some(answer)) => Part::ToolResult(result(answer)),
            _ => panic!("no such part: {word}"),
        },
    }
}

fn result(answer: &str) -> ToolResult {
    let (id, media) = answer.split_once('/').map_or((answer, false), |(id, _)| (id, true));
    let mut result = ToolResult::text(id, format!("answer to {id}"));
    if media {
        result.content.push(ResultPart::Media(image("image/png", 8)));
    }
    result
}

/// The same notation for items that exist.
pub(crate) fn shape(items: &[Arc<Item>]) -> String {
    items.iter().map(|item| word(item)).collect::<Vec<_>>().join(" ")
}

fn word(item: &Item) -> String {
    let marker = if item.cache_marker { "!" } else { "" };
    let kind = format!("{}{marker}", &item.kind.as_str()[..1]);
    let parts: Vec<String> = item.parts.iter().map(letter).collect();
    if parts == ["."] { kind } else { format!("{kind}:{}", parts.join(",")) }
}

fn letter(part: &Part) -> String {
    match part {
        Part::Text(text) if text.is_empty() => "0".to_owned(),
        Part::Text(text) if text.trim().is_empty() => "_".to_owned(),
        Part::Text(_) => ".".to_owned(),
        Part::Reasoning(reasoning) => if reasoning.is_sealed() { "r" } else { "q" }.to_owned(),
        Part::ToolCall(call) => format!("+{}", call.id),
        Part::ToolResult(result) => {
            let has_media = result.content.iter().any(|content| matches!(content, ResultPart::Media(_)));
            format!("={}{}", result.call_id, if has_media { "/i" } else { "" })
        }
        Part::Media(media) => if media.media_type.ends_with("bmp") { "b" } else { "i" }.to_owned(),
        Part::File(_) => "f".to_owned(),
        Part::Structured(_) => "j".to_owned(),
        Part::Opaque(_) => "o".to_owned(),
    }
}

fn assert_violations(name: &str, found: &[foldback_core::Violation], expected: &[(usize, Rule)]) {
    let found: Vec<_> = found.iter().map(|violation| (violation.item_index, violation.rule)).collect();
    assert_eq!(found, expected, "{name}");
}

/// `shape` violates exactly these rules at these items in these dialects, and is repaired to
/// something valid.
#[track_caller]
pub(crate) fn rejects(dialects: &[Option<Dialect>], shape: &str, expected: &[(usize, Rule)]) {
    for &dialect in dialects {
        let items = items(shape);
        assert_violations(&format!("{shape} in {dialect:?}"), &check(&items, dialect), expected);
        let repaired = repair(&items, dialect);
        assert_violations("after the repair", &check(&repaired.items, dialect), &[]);
        assert!(!repaired.repairs.is_empty());
    }
}

/// `shape` is valid in these dialects.
#[track_caller]
pub(crate) fn accepts(dialects: &[Option<Dialect>], shape: &str) {
    for &dialect in dialects {
        assert_violations(&format!("{shape} in {dialect:?}"), &check(&items(shape), dialect), &[]);
    }
}

/// `shape` may not be sent as it is.
#[track_caller]
pub(crate) fn rejects_request(dialects: &[Option<Dialect>], shape: &str, expected: &[(usize, Rule)]) {
    for &dialect in dialects {
        let name = format!("request {shape} in {dialect:?}");
        assert_violations(&name, &check_request(&items(shape), dialect), expected);
    }
}

/// The shape that `shape` is repaired to.
pub(crate) fn repaired(shape_before: &str, dialect: Option<Dialect>) -> String {
    shape(&repair(&items(shape_before), dialect).items)
}
