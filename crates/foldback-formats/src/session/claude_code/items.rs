//! The items of one record. They are made where the record is read, on all cores; a conversation
//! only puts them in order.

use std::sync::Arc;

use foldback_core::{Item, ItemId, ItemKind, Part, Text, Tokens};

use super::record::{Kind, Message, Record};
use crate::attribution::attributed;
use crate::lowering::{Tag, found_summary};

/// The items of a record with this name and these parts: results apart from the rest.
pub(super) fn items_of(record: &Record, message: &Message, id: &str, parts: Vec<Part>) -> Vec<Arc<Item>> {
    if parts.is_empty() {
        return Vec::new();
    }
    let is_result = |part: &Part| matches!(part, Part::ToolResult(_));
    let (results, mut others) = match parts.iter().filter(|part| is_result(part)).count() {
        0 => (Vec::new(), parts),
        count if count == parts.len() => (parts, Vec::new()),
        _ => parts.into_iter().partition(is_result),
    };
    let kind = match (record.kind, record.foldback_kind) {
        (Kind::Assistant, _) => ItemKind::Assistant,
        (_, Some(kind)) => kind,
        _ if record.is_summary || record.is_meta => ItemKind::Context,
        _ => ItemKind::User,
    };
    // Attachments have a kind, too, but no tag.
    if kind == ItemKind::Notification && record.kind == Kind::User && record.foldback_kind.is_some() {
        others.iter_mut().for_each(untag);
    }
    // Most records are one item, and a list that grows by itself begins with four.
    let mut items = Vec::with_capacity(1);
    let mut push = |mut item: Item, is_last: bool| {
        item.created_at = record.created_at;
        item.cache_marker = is_last && message.has_cache_marker;
        if item.kind == ItemKind::Assistant {
            (item.usage, item.finish_reason) = (message.usage, message.finish_reason);
        }
        items.push(Arc::new(item));
    };
    let has_results = !results.is_empty();
    if has_results {
        push(Item::new(id, ItemKind::Tool, results), others.is_empty());
    }
    if !others.is_empty() {
        let item = attributed(Item::new(id_at(id, usize::from(has_results)), kind, others));
        let is_summary = record.is_later_summary && kind == ItemKind::Context;
        push(if is_summary { found_summary(item, "foldback", 0, Tokens::ZERO) } else { item }, true);
    }
    items
}

/// Names the items of a record that has no name, after its line.
pub(super) fn name_after_line(items: &mut [Arc<Item>], line: usize) {
    let name = format!("line-{line}");
    for (place, item) in items.iter_mut().enumerate() {
        Arc::make_mut(item).id = id_at(&name, place);
    }
}

/// The id of a record's first or second item.
fn id_at(name: &str, place: usize) -> ItemId {
    match place {
        0 => name.into(),
        _ => format!("{name}-{place}").into(),
    }
}

fn untag(part: &mut Part) {
    if let Part::Text(text) = part
        && let Some((Tag::Notification, inside)) = Tag::split(text)
    {
        *text = Text::from(inside);
    }
}
