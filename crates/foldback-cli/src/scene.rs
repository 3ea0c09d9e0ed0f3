//! A conversation with its tokens counted: what most commands look at.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::{
    CompactionBlock, Dialect, EstimatingCounter, Item, Overlay, Pin, TokenCounter, Transcript, View,
};
use foldback_formats::Conversation;

use crate::args::Extent;
use crate::counting;

/// A conversation and its transcript.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) conversation: &'a Conversation,
    pub(crate) transcript: Transcript,
}

impl<'a> Scene<'a> {
    /// Counted by `counter`, images by the rules of `dialect`.
    pub(crate) fn counted(
        conversation: &'a Conversation,
        counter: &Arc<dyn TokenCounter>,
        dialect: Option<Dialect>,
    ) -> Self {
        let items = recorded(conversation);
        Self { conversation, transcript: counting::transcript(counter, dialect, &items) }
    }

    /// For commands that need no exact counts.
    pub(crate) fn estimated(conversation: &'a Conversation, dialect: Option<Dialect>) -> Self {
        let counter: Arc<dyn TokenCounter> = Arc::new(EstimatingCounter);
        Self::counted(conversation, &counter, dialect)
    }

    pub(crate) fn view(&self, from: Extent) -> View {
        seen(self.conversation, &self.transcript, from)
    }

    /// The view `from` with pins on what `is_pinned` of it, asked with positions in `view`.
    pub(crate) fn pinned(
        &self,
        view: &View,
        from: Extent,
        is_pinned: impl FnMut(usize, &Item) -> bool,
    ) -> View {
        pinned(self.conversation, view, from, is_pinned)
    }

    /// The line of the file on which the item behind an entry of a view stands.
    pub(crate) fn line(&self, anchor: usize) -> Option<usize> {
        self.conversation.recorded().get(anchor).map(|recorded| recorded.place.line)
    }
}

/// What `from` means of the beginning of a conversation that `transcript` is.
pub(crate) fn seen(conversation: &Conversation, transcript: &Transcript, from: Extent) -> View {
    match from {
        Extent::View => conversation.view_of(transcript),
        Extent::History => conversation.history_of(transcript),
    }
}

/// What `from` means of a conversation, with pins on what `is_pinned` of `view`, which is the same
/// without them.
pub(crate) fn pinned(
    conversation: &Conversation,
    view: &View,
    from: Extent,
    mut is_pinned: impl FnMut(usize, &Item) -> bool,
) -> View {
    let mut items = recorded(conversation);
    let mut summaries = HashSet::new();
    for (position, entry) in view.iter().enumerate() {
        if !is_pinned(position, entry.item()) {
            continue;
        }
        match (entry.item().summary.is_some(), entry.span().len()) {
            (false, 1) => items[entry.anchor()] = Arc::new(Item::clone(&items[entry.anchor()]).pinned()),
            _ => drop(summaries.insert(entry.span())),
        }
    }
    let mut transcript = view.transcript().clone_empty();
    for (item, entry) in items.into_iter().zip(view.transcript().iter()) {
        transcript.push_counted(item, entry.tokens().clone());
    }
    let view = seen(conversation, &transcript, from);
    if summaries.is_empty() {
        return view;
    }
    let pin = |block: &Arc<CompactionBlock>| pin_summaries(block, &summaries);
    let overlay: Overlay = view.overlay().blocks().iter().map(pin).collect();
    View::through(&transcript, &overlay).expect("a pin moves nothing")
}

/// The same block with pins on the summaries of these folds.
fn pin_summaries(block: &Arc<CompactionBlock>, folds: &HashSet<Range<usize>>) -> CompactionBlock {
    let mut pinned = CompactionBlock::clone(block);
    for ((fold, _), summary) in block.folds().zip(&mut pinned.summaries) {
        if folds.contains(&fold.range) {
            summary.iter_mut().for_each(|item| item.pin = Pin::Pinned);
        }
    }
    pinned
}

/// The items of a conversation, in the order of the file.
pub(crate) fn recorded(conversation: &Conversation) -> Vec<Arc<Item>> {
    conversation.recorded().iter().map(|recorded| Arc::clone(&recorded.item)).collect()
}
