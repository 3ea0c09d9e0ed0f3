//! What a compaction of a stored session starts from, and what it leaves alone. Nothing of it is stored.

use std::fmt;
use std::sync::Arc;

use foldback_core::{CompactionBlock, Item, Pin, Transcript};

/// Says which items stay.
#[derive(Clone)]
pub(super) struct Pinning(pub(super) Arc<dyn Fn(&Item) -> bool + Send + Sync>);

impl fmt::Debug for Pinning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pinning")
    }
}

/// What of the record a compaction starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SeenExtent {
    /// What the model sees.
    #[default]
    View,
    /// Everything that was recorded.
    History,
}

/// How a session is seen by its compactions.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) is_pinned: Option<Pinning>,
    pub(super) extent: SeenExtent,
}

impl Seen {
    /// The items with their pins, counted as they were.
    pub(super) fn pinned(&self, transcript: Transcript) -> Transcript {
        let Some(Pinning(is_pinned)) = &self.is_pinned else { return transcript };
        let mut pinned = transcript.clone_empty();
        for entry in transcript.iter() {
            let item = match is_pinned(entry.item()) {
                true => Arc::new(Item::clone(entry.item()).pinned()),
                false => Arc::clone(entry.item()),
            };
            pinned.push_counted(item, entry.tokens().clone());
        }
        pinned
    }

    /// What was repaired for a compaction, as it is stored: a pin of this value is on no copy of an item.
    pub(super) fn stored(&self, repaired: &[Arc<Item>]) -> Vec<Arc<Item>> {
        let unpinned = |item: &Arc<Item>| Arc::new(Item { pin: Pin::Free, ..Item::clone(item) });
        match &self.is_pinned {
            Some(_) => repaired.iter().map(unpinned).collect(),
            None => repaired.to_vec(),
        }
    }

    /// The blocks with pins on their summaries.
    pub(super) fn pinned_blocks(&self, blocks: &[Arc<CompactionBlock>]) -> Vec<Arc<CompactionBlock>> {
        let Some(Pinning(is_pinned)) = &self.is_pinned else { return blocks.to_vec() };
        let pinned = |block: &Arc<CompactionBlock>| {
            let mut block = CompactionBlock::clone(block);
            let summaries = block.summaries.iter_mut().flatten();
            summaries.filter(|item| is_pinned(item)).for_each(|item| item.pin = Pin::Pinned);
            Arc::new(block)
        };
        blocks.iter().map(pinned).collect()
    }
}
