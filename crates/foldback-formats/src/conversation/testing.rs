//! For tests: a conversation in which the model sees given items, and how a file shows that.

use std::sync::Arc;

use foldback_core::{EstimatingCounter, Item, View};

use super::{Conversation, FilePlace, Made, Seen, Sent, Shown};
use crate::format::{SessionFile, Written};

/// The items of a conversation that are these, by address; the others are new.
fn shown(conversation: &Conversation, items: &[Arc<Item>]) -> Vec<Shown> {
    let all = (0..conversation.len()).map(Seen::Item).chain(conversation.visible().iter().copied());
    let all: Vec<(Seen, &Arc<Item>)> =
        all.filter_map(|seen| Some((seen, conversation.item(seen)?))).collect();
    let entry = |item: &Arc<Item>| {
        let mut same = all.iter().rev().filter(|(_, other)| Arc::ptr_eq(other, item));
        same.next().map_or_else(|| Shown::New(Item::clone(item)), |(seen, _)| Shown::Kept(*seen))
    };
    items.iter().map(entry).collect()
}

/// A view of a conversation that shows these items.
pub(crate) fn view_of(conversation: &Conversation, items: &[Arc<Item>]) -> View {
    let mut changed = conversation.clone();
    changed.replace(&Made::by("foldback", FilePlace::default()), shown(conversation, items));
    changed.view_of(&changed.transcript(Arc::new(EstimatingCounter), None))
}

/// The session with a compaction after which the model sees these items.
pub(crate) fn compacted<'s>(
    session: &'s SessionFile,
    conversation: &Conversation,
    items: &[Arc<Item>],
) -> Written<'s> {
    let view = view_of(conversation, items);
    session.compacted(&session.committed(conversation, &view, conversation.block_count()))
}

/// These items, each with its place in a session that has them.
pub(crate) fn sent(items: &[Arc<Item>], like: Option<&SessionFile>) -> Vec<Sent> {
    let recorded = like.and_then(|like| like.conversations().first()).map_or(&[][..], |main| main.recorded());
    let mut sent = Sent::new(items.iter().cloned());
    for one in &mut sent {
        one.recorded = recorded.iter().position(|recorded| Arc::ptr_eq(&recorded.item, &one.item));
    }
    sent
}
