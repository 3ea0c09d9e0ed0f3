//! How kinds that providers do not know become text, and how that text is recognised again.
//!
//! Context, notifications and summaries have a user's authority at most: a summary quotes tool
//! output, which must not gain authority by being quoted. The tag says what they are, and reading
//! takes it off again.

use std::sync::Arc;

use crate::attribution::marks_itself;
use crate::conversation::Sent;
use foldback_core::{Handle, Item, ItemKind, SummaryOrigin, Text, Tokens};

/// What a tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Context,
    Notification,
    Summary,
}

impl Tag {
    const ALL: [Self; 3] = [Self::Context, Self::Notification, Self::Summary];

    fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Notification => "notification",
            Self::Summary => "conversation_summary",
        }
    }

    /// The tag that an item's text gets, if any: text that hosts mark themselves needs none.
    pub(crate) fn of(item: &Item) -> Option<Self> {
        match item.kind {
            _ if marks_itself(item) => None,
            ItemKind::Context if item.summary.is_some() => Some(Self::Summary),
            ItemKind::Context => Some(Self::Context),
            ItemKind::Notification => Some(Self::Notification),
            ItemKind::System
            | ItemKind::Developer
            | ItemKind::User
            | ItemKind::Assistant
            | ItemKind::Tool => None,
        }
    }

    /// The text within the tag.
    pub(crate) fn around(self, text: &str) -> String {
        let name = self.name();
        format!("<{name}>\n{text}\n</{name}>")
    }

    /// The tag around a text, and the text.
    pub(crate) fn split(text: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|tag| {
            let after_open = text.strip_prefix('<')?.strip_prefix(tag.name())?.strip_prefix(">\n")?;
            let inside = after_open.strip_suffix('>')?.strip_suffix(tag.name())?.strip_suffix("\n</")?;
            Some((tag, inside))
        })
    }

    /// The kind of an item with such text.
    pub(crate) fn kind(self) -> ItemKind {
        match self {
            Self::Context | Self::Summary => ItemKind::Context,
            Self::Notification => ItemKind::Notification,
        }
    }
}

/// Marks an item as a summary that was found in a file. What it stood for is not always known, and its text
/// does not say who wrote it, whatever it imitates: what foldback wrote is in its own record.
pub(crate) fn found_summary(
    mut item: Item,
    written_by: &str,
    item_count: usize,
    tokens_before: Tokens,
) -> Item {
    item.kind = ItemKind::Context;
    item.summary = Some(SummaryOrigin {
        handle: Handle::of_item(0, &item.id),
        item_count: u32::try_from(item_count).unwrap_or(u32::MAX),
        tokens_before,
        written_by: Text::from(written_by),
    });
    item
}

/// The items with what the model said in one go as one item: some formats record every call apart.
pub(crate) fn merged_rounds(items: &[Sent]) -> Vec<Arc<Item>> {
    let mut merged: Vec<Arc<Item>> = Vec::with_capacity(items.len());
    for item in items.iter().filter(|item| !item.parts.is_empty()) {
        match merged.last_mut() {
            Some(last) if last.kind == ItemKind::Assistant && item.kind == ItemKind::Assistant => {
                let last = Arc::make_mut(last);
                last.parts.extend(item.parts.iter().cloned());
                last.usage = item.usage.or(last.usage);
                last.finish_reason = item.finish_reason.or(last.finish_reason);
            }
            _ => merged.push(Arc::clone(&item.item)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_taken_off_exactly() {
        for tag in Tag::ALL {
            for text in ["", "a", "\n", "<context>\nx\n</context>", "ends with </context>"] {
                assert_eq!(Tag::split(&tag.around(text)), Some((tag, text)));
            }
        }
        assert_eq!(Tag::split("<context>\nno end"), None);
        assert_eq!(Tag::split("<context></context>"), None);
    }
}
