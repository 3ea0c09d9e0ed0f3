//! Items as a summariser is shown them: without what no summary is made of, in pieces that may not be
//! told apart, and shortened.

use std::sync::Arc;

use foldback_core::placeholder::{HeadPercent, shorten_input, shorten_to_tokens};
use foldback_core::{
    Blob, Handle, Item, ItemKind, Meter, Part, ResultPart, Tokens, ToolCall, ToolResult, Transcript,
};

use crate::recall::redacted_item;

/// Texts are not cut below this; an item with many of them is left out instead.
const TEXT_TOKENS_MIN: u64 = 24;

/// Neighbouring items that may not be told apart: calls stay with their results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Piece {
    pub(super) items: Vec<Arc<Item>>,
    pub(super) tokens: Tokens,
}

impl Piece {
    pub(super) fn new(items: Vec<Arc<Item>>, meter: &Meter) -> Self {
        let tokens = items.iter().map(|item| meter.item(item).total).sum();
        Self { items, tokens }
    }

    /// How many outputs of tools are in it.
    pub(super) fn output_count(&self) -> usize {
        self.items.iter().map(|item| item.results().count()).sum()
    }

    /// Whether a person says something in it: that is left out last.
    pub(super) fn has_user(&self) -> bool {
        self.items.iter().any(|item| item.kind == ItemKind::User)
    }
}

pub(super) fn total(pieces: &[Piece]) -> Tokens {
    pieces.iter().map(|piece| piece.tokens).sum()
}

/// An item without what no summary is made of: thoughts, pictures, things nobody can read; and without
/// its secrets, before anything of it is cut. `None` where nothing is left of it.
pub(super) fn readable(item: &Arc<Item>) -> Option<Arc<Item>> {
    let item = &redacted_item(item);
    let is_plain = |part: &Part| match part {
        Part::Text(_) | Part::ToolCall(_) | Part::Structured(_) => true,
        Part::ToolResult(result) => result.content.iter().all(|part| part.as_text().is_some()),
        Part::Reasoning(_) | Part::Media(_) | Part::File(_) | Part::Opaque(_) => false,
    };
    if item.parts.iter().all(is_plain) {
        return (!item.parts.is_empty()).then(|| Arc::clone(item));
    }
    let parts = item.parts.iter().enumerate();
    let parts: Vec<_> = parts.filter_map(|(index, part)| Some((index, readable_part(part)?))).collect();
    (!parts.is_empty()).then(|| Arc::new(item.with_parts(parts)))
}

fn readable_part(part: &Part) -> Option<Part> {
    match part {
        Part::Text(_) | Part::ToolCall(_) | Part::Structured(_) => Some(part.clone()),
        Part::ToolResult(result) => Some(Part::ToolResult(ToolResult {
            content: result.content.iter().map(readable_result).collect(),
            ..result.clone()
        })),
        Part::Media(media) => Some(Part::text(format!("[{}]", media.media_type))),
        Part::File(file) => Some(match &file.data {
            Blob::Text(text) => Part::text(format!("[{}]\n{text}", file.label())),
            Blob::Base64(_) | Blob::Url(_) => Part::text(format!("[{}]", file.label())),
        }),
        Part::Reasoning(_) | Part::Opaque(_) => None,
    }
}

fn readable_result(part: &ResultPart) -> ResultPart {
    match part {
        ResultPart::Text(_) | ResultPart::Structured(_) => part.clone(),
        ResultPart::Media(media) => ResultPart::Text(format!("[{}]", media.media_type).into()),
        ResultPart::File(file) => match &file.data {
            Blob::Text(text) => ResultPart::Text(format!("[{}]\n{text}", file.label()).into()),
            Blob::Base64(_) | Blob::Url(_) => ResultPart::Text(format!("[{}]", file.label()).into()),
        },
        ResultPart::Opaque(opaque) => ResultPart::Text(format!("[{}]", opaque.source).into()),
    }
}

/// Cuts between pieces fall where the record may be cut.
pub(super) fn pieces(items: impl Iterator<Item = Arc<Item>>, like: &Transcript) -> Vec<Piece> {
    let mut transcript = like.clone_empty();
    transcript.extend(items);
    let ends: Vec<usize> =
        transcript.cuts().filter(|&cut| cut < transcript.len()).chain([transcript.len()]).collect();
    let mut start = 0;
    let mut pieces = Vec::with_capacity(ends.len());
    for end in ends {
        let items: Vec<Arc<Item>> =
            transcript.range(start..end).map(|entry| Arc::clone(entry.item())).collect();
        if !items.is_empty() {
            pieces.push(Piece { items, tokens: transcript.tokens_of(start..end) });
        }
        start = end;
    }
    pieces
}

pub(super) fn left_out_item(count: usize) -> Item {
    Item::text("left-out", ItemKind::Context, format!("[{count} items are left out for want of room]"))
}

/// The piece within `tokens_max`: all its texts shortened alike, at worst a line in its place.
pub(super) fn shrunk(piece: &Piece, tokens_max: Tokens, handle: &Handle, meter: &Meter) -> Piece {
    let mut text_max = tokens_max.0 / 2;
    while text_max >= TEXT_TOKENS_MIN {
        let shorter = changed(piece, meter, |part| shortened(part, Tokens(text_max), handle, meter));
        if shorter.tokens <= tokens_max {
            return shorter;
        }
        text_max /= 2;
    }
    Piece::new(vec![Arc::new(left_out_item(piece.items.len()))], meter)
}

/// The piece with some of its parts replaced; items of which none is stay the same.
pub(super) fn changed(piece: &Piece, meter: &Meter, mut change: impl FnMut(&Part) -> Option<Part>) -> Piece {
    let mut is_changed = false;
    let mut change_item = |item: &Arc<Item>| {
        let changes: Vec<Option<Part>> = item.parts.iter().map(&mut change).collect();
        if changes.iter().all(Option::is_none) {
            return Arc::clone(item);
        }
        is_changed = true;
        let parts =
            item.parts.iter().zip(changes).map(|(part, change)| change.unwrap_or_else(|| part.clone()));
        Arc::new(item.with_parts(parts.enumerate()))
    };
    let items: Vec<Arc<Item>> = piece.items.iter().map(&mut change_item).collect();
    if is_changed { Piece::new(items, meter) } else { piece.clone() }
}

pub(super) fn shortened(part: &Part, tokens_max: Tokens, handle: &Handle, meter: &Meter) -> Option<Part> {
    let cut =
        |text: &str| shorten_to_tokens(text, tokens_max, HeadPercent::HALF, handle, meter).map(Part::text);
    match part {
        Part::Text(text) => cut(text),
        Part::Structured(json) => cut(json.as_str()),
        Part::ToolCall(call) => {
            let input = shorten_input(&call.input, tokens_max, handle, meter)?;
            Some(Part::ToolCall(ToolCall { input, signature: None, ..call.clone() }))
        }
        Part::ToolResult(result) => shortened_result(result, tokens_max, handle, meter),
        Part::Reasoning(_) | Part::Media(_) | Part::File(_) | Part::Opaque(_) => None,
    }
}

/// A result within `tokens_max`, its texts as one; `None` where it fits already.
fn shortened_result(result: &ToolResult, tokens_max: Tokens, handle: &Handle, meter: &Meter) -> Option<Part> {
    let text = shorten_to_tokens(&text_of(result), tokens_max, HeadPercent::HALF, handle, meter)?;
    Some(Part::ToolResult(ToolResult { content: vec![ResultPart::Text(text.into())], ..result.clone() }))
}

/// The texts of a result as one.
pub(super) fn text_of(result: &ToolResult) -> String {
    let texts: Vec<&str> = result.content.iter().filter_map(ResultPart::as_text).collect();
    texts.join("\n")
}
