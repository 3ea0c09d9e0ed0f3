//! The append-only list of items. Each item is counted and indexed once, when it is pushed.

use std::ops::Deref;
use std::sync::Arc;

use crate::chunked::ChunkedVec;
use crate::dialect::Dialect;
use crate::digest::{self, Depth, Findings, Hidden, Reading, Told};
use crate::item::Item;
use crate::sequence::Sequence;
use crate::tokens::{EstimatingCounter, ItemTokens, Meter, TokenCounter};

/// What a host records: every item ever, in order, never changed (T1).
///
/// Cloning is O(1) and a clone keeps what it saw while the original grows. Everything one can ask
/// is on [`Sequence`], which a transcript dereferences to.
#[derive(Clone, Debug)]
pub struct Transcript {
    sequence: Sequence,
    meter: Meter,
    /// What digests found in each item, once one has read it.
    findings: ChunkedVec<Findings>,
}

impl Transcript {
    /// An empty transcript that counts with `counter`.
    pub fn new(counter: Arc<dyn TokenCounter>) -> Self {
        Self::counted_by(Meter::new(counter, None))
    }

    /// An empty transcript that counts media and files by the rules of `dialect`.
    pub fn for_dialect(counter: Arc<dyn TokenCounter>, dialect: Dialect) -> Self {
        Self::counted_by(Meter::new(counter, Some(dialect)))
    }

    fn counted_by(meter: Meter) -> Self {
        Self { sequence: Sequence::default(), meter, findings: ChunkedVec::default() }
    }

    /// Appends one item. O(that item).
    pub fn push(&mut self, item: impl Into<Arc<Item>>) {
        let item = item.into();
        let tokens = self.meter.item(&item);
        self.push_counted(item, tokens);
    }

    /// Appends an item that was counted before, by this transcript's [`Meter`]: many items can be
    /// counted on several threads and then pushed.
    pub fn push_counted(&mut self, item: impl Into<Arc<Item>>, tokens: ItemTokens) {
        let index = self.sequence.len();
        self.sequence.push(item.into(), tokens, index..index + 1, index);
        self.findings.push(Findings::default());
    }

    /// Reads an item for the digests to come: what they look for in it is found now, and kept. Costs
    /// what reading it costs, once; without it, the first digest pays.
    pub fn read_ahead(&self, index: usize) {
        let Some(told) = self.told(index, Hidden::Whole) else { return };
        let asked = |part_index: usize| {
            let (item_index, part_index) = self.call_answered_by(index, part_index)?;
            Some((self.told(item_index, Hidden::Whole)?, part_index))
        };
        digest::read_ahead(&told, asked, &self.meter);
    }

    /// The same for what a digest [will look into](crate::FoldRequest::unread), as far as it will.
    pub fn read(&self, reading: Reading) {
        match reading.depth {
            Depth::Whole => self.read_ahead(reading.index),
            Depth::Old => {
                if let Some(told) = self.told(reading.index, Hidden::Whole) {
                    digest::read_old_ahead(&told);
                }
            }
        }
    }

    /// How many of the first items can be read ahead for all clones at once: what is found in one of
    /// them by the reader of one clone is found for the others. Those behind them are few, and new.
    pub fn shared_len(&self) -> usize {
        self.findings.sealed_len()
    }

    /// Whether a digest has looked into an item, or it was read ahead.
    pub(crate) fn is_read(&self, index: usize) -> bool {
        self.findings.get(index).is_some_and(Findings::is_begun)
    }

    /// An item as something that a digest tells.
    pub(crate) fn told(&self, index: usize, hidden: Hidden) -> Option<Told<'_>> {
        let entry = self.sequence.get(index)?;
        let (kind, holds, item) = (entry.kind(), entry.holds(), &**entry.item());
        Some(Told { index, kind, holds, item, hidden, findings: self.findings.get(index) })
    }

    /// An empty transcript that counts as this one does.
    #[must_use]
    pub fn clone_empty(&self) -> Self {
        Self::counted_by(self.meter.clone())
    }

    /// The first so many items, or all, as a transcript of their own. O(that many); nothing is counted
    /// again.
    #[must_use]
    pub fn first(&self, item_count: usize) -> Self {
        let mut first = self.clone_empty();
        for entry in self.range(0..item_count.min(self.len())) {
            first.push_counted(Arc::clone(entry.item()), entry.tokens().clone());
        }
        first
    }

    /// What counts tokens here.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl Default for Transcript {
    fn default() -> Self {
        Self::new(Arc::new(EstimatingCounter))
    }
}

impl Deref for Transcript {
    type Target = Sequence;
    fn deref(&self) -> &Sequence {
        &self.sequence
    }
}

impl<I: Into<Arc<Item>>> Extend<I> for Transcript {
    fn extend<T: IntoIterator<Item = I>>(&mut self, items: T) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<I: Into<Arc<Item>>> FromIterator<I> for Transcript {
    fn from_iter<T: IntoIterator<Item = I>>(items: T) -> Self {
        let mut transcript = Self::default();
        transcript.extend(items);
        transcript
    }
}
