//! The append-only list of items. Each item is counted and indexed once, when it is pushed.

use std::ops::Deref;
use std::sync::Arc;

use crate::dialect::Dialect;
use crate::digest::{Hidden, Told};
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
        Self { sequence: Sequence::default(), meter }
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
    }

    /// An item as something that a digest tells.
    pub(crate) fn told(&self, index: usize, hidden: Hidden) -> Option<Told<'_>> {
        let entry = self.sequence.get(index)?;
        let (kind, holds, item) = (entry.kind(), entry.holds(), &**entry.item());
        Some(Told { index, kind, holds, item, hidden })
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
