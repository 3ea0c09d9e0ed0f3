//! What the model sees, item by item, as a file is to show it.

use std::ops::Deref;
use std::sync::Arc;

use foldback_core::{Fate, Item, View};

use super::Conversation;

/// One item that the model sees.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sent {
    /// The item.
    pub item: Arc<Item>,
    /// Its index in the conversation, where it is exactly as the file has it.
    pub recorded: Option<usize>,
    /// Where it stands in the view.
    pub position: usize,
}

impl Deref for Sent {
    type Target = Arc<Item>;
    fn deref(&self) -> &Arc<Item> {
        &self.item
    }
}

impl Sent {
    /// The items of a view of a conversation. Those that the view leaves alone are the recorded ones,
    /// whatever was pinned for the compaction.
    pub fn of(view: &View, conversation: &Conversation) -> Vec<Self> {
        let fates = view.fates();
        let sent = view.iter().enumerate().map(|(position, entry)| {
            let index = entry.anchor();
            let original = conversation.recorded().get(index);
            let is_itself = entry.span() == (index..index + 1);
            match (fates.get(index), original) {
                (Some(Fate::Visible), Some(original)) if is_itself => {
                    Self { item: Arc::clone(&original.item), recorded: Some(index), position }
                }
                (Some(Fate::Rewritten), Some(original)) if is_itself => {
                    let pin = original.item.pin;
                    let item = match entry.item().pin == pin {
                        true => Arc::clone(entry.item()),
                        false => Arc::new(Item { pin, ..Item::clone(entry.item()) }),
                    };
                    Self { item, recorded: None, position }
                }
                _ => Self { item: Arc::clone(entry.item()), recorded: None, position },
            }
        });
        sent.collect()
    }

    /// All recorded items of a conversation.
    pub fn all(conversation: &Conversation) -> Vec<Self> {
        let recorded = conversation.recorded().iter().enumerate();
        let sent = recorded.map(|(index, one)| Self {
            item: Arc::clone(&one.item),
            recorded: Some(index),
            position: index,
        });
        sent.collect()
    }

    /// Items that no file has.
    pub fn new(items: impl IntoIterator<Item = Arc<Item>>) -> Vec<Self> {
        let sent = items.into_iter().enumerate();
        sent.map(|(position, item)| Self { item, recorded: None, position }).collect()
    }
}
