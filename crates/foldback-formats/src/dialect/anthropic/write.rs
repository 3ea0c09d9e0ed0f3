//! Items as a request body.

use std::sync::Arc;

use foldback_core::{Item, ItemKind, Part, Reasoning};
use serde_json::value::RawValue;

use super::blocks::{WrittenBlock, json_text, write_block};
use super::{Body, CACHE_CONTROL, CACHE_CONTROL_PLAIN, Reader, body_of};
use crate::conversation::Sent;
use crate::document::Document;
use crate::format::{Format, Loss, SessionFile};
use crate::lowering::Tag;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    fn of(kind: ItemKind) -> Self {
        match kind {
            ItemKind::System | ItemKind::Developer => Self::System,
            ItemKind::Assistant => Self::Assistant,
            ItemKind::User | ItemKind::Tool | ItemKind::Context | ItemKind::Notification => Self::User,
        }
    }
}

/// Instructions first, and results first among what becomes one user message.
pub(super) fn arrange(items: Vec<Sent>) -> Vec<Sent> {
    let is_instruction = |item: &Sent| Role::of(item.kind) == Role::System;
    let (mut arranged, said): (Vec<_>, Vec<_>) = items.into_iter().partition(is_instruction);
    for run in said.chunk_by(|one, next| Role::of(one.kind) == Role::of(next.kind)) {
        let (results, others): (Vec<_>, Vec<_>) =
            run.iter().cloned().partition(|item| item.results().next().is_some());
        arranged.extend(results);
        arranged.extend(others);
    }
    arranged
}

pub(super) fn write(items: &[Sent], like: Option<&SessionFile>) -> (Vec<u8>, Vec<Loss>) {
    let mut losses = Vec::new();
    let arranged = arrange(items.iter().filter(|item| !item.parts.is_empty()).cloned().collect());
    let instructions = arranged.iter().take_while(|item| Role::of(item.kind) == Role::System).count();
    let (instructions, said) = arranged.split_at(instructions);
    let system: Vec<String> = instructions.iter().flat_map(|item| blocks_of(item, &mut losses)).collect();
    let system = if system.is_empty() { None } else { Some(format!("[{}]", system.join(","))) };
    let mut messages: Vec<String> = Vec::new();
    for run in said.chunk_by(|one, next| Role::of(one.kind) == Role::of(next.kind)) {
        let blocks: Vec<String> = run.iter().flat_map(|item| blocks_of(item, &mut losses)).collect();
        let role = if Role::of(run[0].kind) == Role::Assistant { "assistant" } else { "user" };
        if !blocks.is_empty() {
            messages.push(format!(r#"{{"role":"{role}","content":[{}]}}"#, blocks.join(",")));
        }
    }
    let messages = format!("[{}]", messages.join(","));
    if let Some(bytes) = like.and_then(|like| written_like(like, instructions, system.as_deref(), &messages))
    {
        let is_list = bytes.trim_ascii_start().starts_with(b"[");
        if is_list {
            let lost = |item: &Sent| loss(item, "a bare list of messages has no system prompt");
            losses.extend(instructions.iter().map(lost));
        }
        return (bytes, losses);
    }
    let system = system.map_or_else(String::new, |system| format!("\"system\":{system},"));
    (format!("{{{system}\"messages\":{messages}}}\n").into_bytes(), losses)
}

/// The body with other messages, and another system prompt if that changed.
fn written_like(
    like: &SessionFile,
    instructions: &[Sent],
    system: Option<&str>,
    messages: &str,
) -> Option<Vec<u8>> {
    let document = Document::new(like.bytes(), Format::Anthropic).ok()?;
    let body = body_of(&document, like.bytes()).ok()?;
    if body.messages.get().len() == like.bytes().trim_ascii().len() {
        return Some(document.with_replaced(body.messages, messages));
    }
    let Some(piece) = body.system else {
        let added = system.map_or_else(String::new, |system| format!(",\"system\":{system}"));
        return Some(document.with_replaced(body.messages, &format!("{messages}{added}")));
    };
    if is_system_of(&document, like.bytes(), piece, instructions) {
        return Some(document.with_replaced(body.messages, messages));
    }
    let replaced = document.with_replaced(piece, system.unwrap_or("[]"));
    let document = Document::new(&replaced, Format::Anthropic).ok()?;
    let Body { messages: piece, .. } = body_of(&document, &replaced).ok()?;
    Some(document.with_replaced(piece, messages))
}

/// Whether the items say what the system prompt of the body says.
fn is_system_of<'a>(document: &Document<'a>, bytes: &'a [u8], system: &'a RawValue, items: &[Sent]) -> bool {
    let mut reader = Reader::new(document.clone(), bytes);
    let was_read = reader.push_system(system).is_ok();
    let recorded = reader.conversation.recorded().iter().map(|recorded| &*recorded.item);
    let is_same = |(one, other): (&Item, &Sent)| {
        one.parts == other.parts && one.cache_marker == other.cache_marker && one.kind == other.kind
    };
    was_read && reader.conversation.len() == items.len() && recorded.zip(items).all(is_same)
}

fn loss(item: &Item, what: impl Into<String>) -> Loss {
    Loss { item_id: item.id.clone(), what: what.into() }
}

/// An item's blocks, its cache marker on the last that can have one.
fn blocks_of(item: &Arc<Item>, losses: &mut Vec<Loss>) -> Vec<String> {
    let tag = Tag::of(item);
    if item.kind == ItemKind::Developer {
        losses.push(loss(item, "the application's instructions become part of the system prompt"));
    }
    let mut blocks = Vec::with_capacity(item.parts.len());
    // Results come first in a message.
    let (results, others): (Vec<&Part>, Vec<&Part>) =
        item.parts.iter().partition(|part| matches!(part, Part::ToolResult(_)));
    for part in results.into_iter().chain(others) {
        let written = match (part, tag) {
            (Part::Text(text), Some(tag)) => write_block(&Part::text(tag.around(text))),
            (Part::Reasoning(Reasoning { signature: None, encrypted: None, .. }), _) => WrittenBlock {
                json: None,
                lost: Some("reasoning without a signature, which Anthropic refuses"),
            },
            (_, Some(_)) => {
                let written = write_block(part);
                let lost = "what is not text in a context item counts as the person's";
                WrittenBlock { lost: written.lost.or(Some(lost)), ..written }
            }
            (_, None) => write_block(part),
        };
        losses.extend(written.lost.map(|what| loss(item, what)));
        blocks.extend(written.json);
    }
    if item.cache_marker {
        mark_last(item, &mut blocks);
    }
    blocks
}

fn mark_last(item: &Item, blocks: &mut [String]) {
    let Some(block) = blocks.iter_mut().rev().find(|block| WrittenBlock::is_cacheable(block)) else { return };
    if block.contains("\"cache_control\"") {
        return;
    }
    let cache_control =
        item.metadata.get(CACHE_CONTROL).map_or_else(|| CACHE_CONTROL_PLAIN.to_owned(), json_text);
    if block.pop().is_some() {
        *block = format!("{block},\"cache_control\":{cache_control}}}");
    }
}
