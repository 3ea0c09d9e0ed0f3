//! What the summariser is shown, made to fit before it is sent (pre-trim).
//!
//! Nothing here affects what survives a compaction: only what its summary is written from. The moves
//! go from what costs a summary least to what costs it most, and stop as soon as the rest fits.

use std::sync::Arc;

use foldback_core::placeholder::{HeadPercent, shorten_input, shorten_to_tokens};
use foldback_core::{
    Blob, Handle, Item, ItemKind, Meter, Part, ResultPart, Tokens, ToolCall, ToolResult, Transcript,
};

/// One output of a tool keeps its head and its tail above this.
const OUTPUT_TOKENS_MAX: Tokens = Tokens(2_000);

/// All outputs together keep this much, the newest first.
const OUTPUTS_TOKENS_MAX: Tokens = Tokens(50_000);

/// What is said of items that are left out costs less than this.
const LEFT_OUT_TOKENS_MAX: Tokens = Tokens(32);

/// Texts are not cut below this; an item with many of them is left out instead.
const TEXT_TOKENS_MIN: u64 = 24;

/// How much a summariser may be shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room<'r> {
    /// In one call.
    pub(super) call: Tokens,
    /// In all calls together; at least as much as in one.
    pub(super) all: Tokens,
    /// Recalls what is left out.
    pub(super) handle: &'r Handle,
}

/// Neighbouring items that may not be told apart: calls stay with their results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Piece {
    pub(super) items: Vec<Arc<Item>>,
    pub(super) tokens: Tokens,
}

impl Piece {
    fn new(items: Vec<Arc<Item>>, meter: &Meter) -> Self {
        let tokens = items.iter().map(|item| meter.item(item).total).sum();
        Self { items, tokens }
    }

    /// Whether a person says something in it: that is left out last.
    pub(super) fn has_user(&self) -> bool {
        self.items.iter().any(|item| item.kind == ItemKind::User)
    }
}

/// The items as pieces, each of which fits one call and which together fit all calls.
pub(super) fn fit<'i>(
    items: impl IntoIterator<Item = &'i Arc<Item>>,
    room: &Room<'_>,
    like: &Transcript,
) -> Vec<Piece> {
    let meter = like.meter();
    let mut pieces = pieces(items.into_iter().filter_map(readable), like);
    if total(&pieces) <= room.call {
        return pieces;
    }
    cap_outputs(&mut pieces, room, meter);
    if total(&pieces) <= room.call {
        return pieces;
    }
    cap_all_outputs(&mut pieces, room, meter);
    for piece in pieces.iter_mut().filter(|piece| piece.tokens > room.call) {
        *piece = shrunk(piece, room.call, room, meter);
    }
    if total(&pieces) <= room.all {
        return pieces;
    }
    let all = room.all.saturating_sub(LEFT_OUT_TOKENS_MAX);
    let left_out = leave_out_agent(&mut pieces, all) + shorten_users(&mut pieces, all, room, meter);
    if left_out > 0 {
        pieces.push(Piece::new(vec![Arc::new(left_out_item(left_out))], meter));
    }
    pieces
}

pub(super) fn total(pieces: &[Piece]) -> Tokens {
    pieces.iter().map(|piece| piece.tokens).sum()
}

/// An item without what no summary is made of: thoughts, pictures, things nobody can read. `None`
/// where nothing is left of it.
pub(super) fn readable(item: &Arc<Item>) -> Option<Arc<Item>> {
    let is_plain = |part: &Part| match part {
        Part::Text(_) | Part::ToolCall(_) | Part::Structured(_) => true,
        Part::ToolResult(result) => result.content.iter().all(|part| part.as_text().is_some()),
        Part::Reasoning(_) | Part::Media(_) | Part::File(_) | Part::Opaque(_) => false,
    };
    if item.parts.iter().all(is_plain) {
        return (!item.parts.is_empty()).then(|| Arc::clone(item));
    }
    let parts: Vec<Part> = item.parts.iter().filter_map(readable_part).collect();
    (!parts.is_empty()).then(|| Arc::new(with_parts(item, parts)))
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

pub(super) fn with_parts(item: &Item, parts: Vec<Part>) -> Item {
    let mut changed = Item::new(item.id.clone(), item.kind, parts);
    changed.turn_id.clone_from(&item.turn_id);
    changed.created_at = item.created_at;
    changed.summary.clone_from(&item.summary);
    changed
}

/// Cuts between pieces fall where the record may be cut.
fn pieces(items: impl Iterator<Item = Arc<Item>>, like: &Transcript) -> Vec<Piece> {
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

/// Every long output keeps its head and its tail.
fn cap_outputs(pieces: &mut [Piece], room: &Room<'_>, meter: &Meter) {
    let tokens_max = OUTPUT_TOKENS_MAX.min(room.call);
    for piece in pieces.iter_mut().filter(|piece| piece.tokens > tokens_max) {
        *piece = changed(piece, meter, |part| match part {
            Part::ToolResult(result) => shortened_result(result, tokens_max, room.handle, meter),
            Part::Text(_)
            | Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_) => None,
        });
    }
}

/// The newest outputs are kept, older ones give way to a line that says so.
fn cap_all_outputs(pieces: &mut [Piece], room: &Room<'_>, meter: &Meter) {
    let mut left = OUTPUTS_TOKENS_MAX.min(room.all);
    for piece in pieces.iter_mut().rev() {
        *piece = changed(piece, meter, |part| match part {
            Part::ToolResult(result) => {
                let tokens = Tokens(u64::from(meter.part(part)));
                let is_kept = tokens <= left;
                left = left.saturating_sub(tokens);
                let line = format!("[output of {tokens} tokens left out, {}]", room.handle);
                let shorter = meter.text(&line) < tokens.0;
                (!is_kept && shorter).then(|| {
                    Part::ToolResult(ToolResult {
                        content: vec![ResultPart::Text(line.into())],
                        ..result.clone()
                    })
                })
            }
            Part::Text(_)
            | Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_) => None,
        });
    }
}

/// Leaves out pieces in which no person speaks, the newest first, until the rest fits: what is newest
/// is told by what stays visible as well. Says how many items went.
fn leave_out_agent(pieces: &mut Vec<Piece>, tokens_max: Tokens) -> usize {
    leave_out(pieces, tokens_max, Order::NewestFirst, |piece| !piece.has_user())
}

/// What people said gives way last: every message at its size in proportion, then the oldest ones.
fn shorten_users(pieces: &mut Vec<Piece>, tokens_max: Tokens, room: &Room<'_>, meter: &Meter) -> usize {
    if total(pieces) <= tokens_max {
        return 0;
    }
    let share = Tokens(tokens_max.0 / pieces.len().max(1) as u64);
    for piece in pieces.iter_mut().filter(|piece| piece.tokens > share) {
        *piece = shrunk(piece, share, room, meter);
    }
    leave_out(pieces, tokens_max, Order::OldestFirst, |_| true)
}

/// From which end something is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    NewestFirst,
    OldestFirst,
}

fn leave_out(
    pieces: &mut Vec<Piece>,
    tokens_max: Tokens,
    order: Order,
    may_go: impl Fn(&Piece) -> bool,
) -> usize {
    let mut tokens = total(pieces);
    let mut left_out = 0;
    let mut judge = |piece: &Piece| {
        let goes = tokens > tokens_max && may_go(piece);
        if goes {
            tokens = tokens.saturating_sub(piece.tokens);
            left_out += piece.items.len();
        }
        !goes
    };
    if order == Order::NewestFirst {
        pieces.reverse();
    }
    pieces.retain(&mut judge);
    if order == Order::NewestFirst {
        pieces.reverse();
    }
    left_out
}

fn left_out_item(count: usize) -> Item {
    Item::text("left-out", ItemKind::Context, format!("[{count} items are left out for want of room]"))
}

/// The piece within `tokens_max`: all its texts shortened alike, at worst a line in its place.
fn shrunk(piece: &Piece, tokens_max: Tokens, room: &Room<'_>, meter: &Meter) -> Piece {
    let mut text_max = tokens_max.0 / 2;
    while text_max >= TEXT_TOKENS_MIN {
        let shorter = changed(piece, meter, |part| shortened(part, Tokens(text_max), room.handle, meter));
        if shorter.tokens <= tokens_max {
            return shorter;
        }
        text_max /= 2;
    }
    Piece::new(vec![Arc::new(left_out_item(piece.items.len()))], meter)
}

/// The piece with some of its parts replaced; items of which none is stay the same.
fn changed(piece: &Piece, meter: &Meter, mut change: impl FnMut(&Part) -> Option<Part>) -> Piece {
    let mut is_changed = false;
    let mut change_item = |item: &Arc<Item>| {
        let changes: Vec<Option<Part>> = item.parts.iter().map(&mut change).collect();
        if changes.iter().all(Option::is_none) {
            return Arc::clone(item);
        }
        is_changed = true;
        let parts =
            item.parts.iter().zip(changes).map(|(part, change)| change.unwrap_or_else(|| part.clone()));
        Arc::new(with_parts(item, parts.collect()))
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
    let texts: Vec<&str> = result.content.iter().filter_map(ResultPart::as_text).collect();
    let text = shorten_to_tokens(&texts.join("\n"), tokens_max, HeadPercent::HALF, handle, meter)?;
    Some(Part::ToolResult(ToolResult { content: vec![ResultPart::Text(text.into())], ..result.clone() }))
}

#[cfg(test)]
mod tests;
