//! What the model sees: the transcript seen through the overlay.

use std::ops::Deref;
use std::sync::Arc;

use crate::block::{BlockError, CompactionBlock, Overlay};
use crate::edit::{Edit, Fold, Reason, Rewrite};
use crate::handle::Handle;
use crate::item::Item;
use crate::part::Part;
use crate::sequence::{Entry, Sequence};
use crate::splice::{Shown, Splice, StandingSummary, shown_parts};
use crate::tokens::ItemTokens;
use crate::transcript::Transcript;
use crate::trigger::{MutationPoint, TriggerContext};

pub(crate) use crate::splice::covers;

/// An overlay that does not belong to its transcript.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {block_index} does not belong to the transcript; load the one that it was made for")]
pub struct OverlayError {
    /// Which block.
    pub block_index: usize,
    /// What is wrong with it.
    pub source: BlockError,
}

/// Items among which the range of a fold is looked for: every pair of them is tried.
pub const RANGE_ITEMS_MAX: usize = 4_000;

/// What recall finds behind a handle.
#[derive(Clone, Debug, PartialEq)]
pub enum Recalled {
    /// The items of a fold, as recorded.
    Items(Vec<Arc<Item>>),
    /// One part of an item, as recorded.
    Part(Part),
}

/// What has become of a recorded item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<'v> {
    /// The model sees it as it was recorded.
    Visible,
    /// The model sees it with some parts replaced or removed.
    Rewritten,
    /// It was dropped, for this reason.
    Dropped(&'v Reason),
    /// It was folded; this handle recalls it.
    Folded(&'v Handle),
}

impl Fate<'_> {
    /// Whether the model sees it in some form.
    pub fn is_visible(&self) -> bool {
        matches!(self, Self::Visible | Self::Rewritten)
    }
}

/// What the model sees. Dereferences to the [`Sequence`] of visible items; indices into it are
/// positions, each of which knows the transcript indices it stands for.
#[derive(Clone, Debug)]
pub struct View {
    transcript: Transcript,
    overlay: Overlay,
    sequence: Sequence,
}

/// All items of a transcript, nothing hidden.
impl From<&Transcript> for View {
    fn from(transcript: &Transcript) -> Self {
        Self::of(transcript)
    }
}

/// Items as a transcript that counts by estimate, nothing hidden.
impl<I: Into<Arc<Item>>> From<Vec<I>> for View {
    fn from(items: Vec<I>) -> Self {
        Self::of(&items.into_iter().map(Into::into).collect())
    }
}

impl View {
    /// The whole transcript, nothing hidden. O(1).
    pub fn of(transcript: &Transcript) -> Self {
        Self {
            transcript: transcript.clone(),
            overlay: Overlay::default(),
            sequence: Sequence::clone(transcript),
        }
    }

    /// The transcript through an overlay. Costs what is visible plus the edits.
    pub fn through(transcript: &Transcript, overlay: &Overlay) -> Result<Self, OverlayError> {
        if overlay.blocks().is_empty() {
            return Ok(Self::of(transcript));
        }
        for (block_index, block) in overlay.blocks().iter().enumerate() {
            check(transcript, block).map_err(|source| OverlayError { block_index, source })?;
        }
        let sequence = sequence(transcript, &Splice::of(overlay));
        Ok(Self { transcript: transcript.clone(), overlay: overlay.clone(), sequence })
    }

    /// Records one more item, which the model sees. O(that item).
    pub fn push(&mut self, item: impl Into<Arc<Item>>) {
        let item = item.into();
        let tokens = self.transcript.meter().item(&item);
        let index = self.transcript.len();
        self.transcript.push_counted(Arc::clone(&item), tokens.clone());
        self.sequence.push(item, tokens, index..index + 1, index);
    }

    /// What lies behind the view.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// What hides it.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// What has become of every recorded item, in order of the transcript.
    pub fn fates(&self) -> Vec<Fate<'_>> {
        let mut fates = vec![Fate::Visible; self.transcript.len()];
        for edit in self.overlay.edits() {
            match edit {
                Edit::Drop(drop) => {
                    let visible = fates[drop.range.clone()].iter_mut().filter(|fate| fate.is_visible());
                    visible.for_each(|fate| *fate = Fate::Dropped(&drop.reason));
                }
                Edit::Fold(fold) => {
                    fold.folded().for_each(|range| fates[range].fill(Fate::Folded(&fold.handle)));
                }
                Edit::Rewrite(rewrite) if fates[rewrite.item_index].is_visible() => {
                    fates[rewrite.item_index] = Fate::Rewritten;
                }
                Edit::Rewrite(_) => {}
            }
        }
        fates
    }

    /// The original content behind a handle: the items of a fold, a part that was rewritten, or
    /// the unit that a line of a summary names; byte for byte as recorded (T5).
    pub fn recall(&self, handle: &Handle) -> Option<Recalled> {
        let edited = self.overlay.edits().rev().find_map(|edit| match edit {
            Edit::Fold(fold) if fold.handle == *handle => Some(self.recall_fold(fold)),
            Edit::Rewrite(rewrite) if rewrite.handle == *handle => self.recall_part(rewrite),
            Edit::Fold(_) | Edit::Rewrite(_) | Edit::Drop(_) => None,
        });
        edited.or_else(|| self.recall_unit(handle))
    }

    /// The original items from the unit behind one handle to the unit behind another: what a merged
    /// line of a summary names.
    pub fn recall_between(&self, first: &Handle, last: &Handle) -> Option<Recalled> {
        let (first, last) = (self.index_of(first)?, self.index_of(last)?);
        let (_, end) = self.transcript.unit_ends(last);
        let entries = self.transcript.range(first..end + 1);
        (first <= last).then(|| Recalled::Items(entries.map(Entry::item).cloned().collect()))
    }

    /// The content that a handle names in this transcript where the block that made it is not at hand:
    /// handles derive from places and ids, so the places are tried. Of folds, everything from the first
    /// item to the last; only in transcripts of up to [`RANGE_ITEMS_MAX`] items.
    pub fn recall_by_place(&self, handle: &Handle) -> Option<Recalled> {
        self.recall_unit(handle)
            .or_else(|| self.recall_any_part(handle))
            .or_else(|| self.recall_range(handle))
    }

    fn recall_any_part(&self, handle: &Handle) -> Option<Recalled> {
        let items = self.transcript.items().enumerate();
        let mut parts =
            items.flat_map(|(index, item)| (0..).zip(&item.parts).map(move |part| (index, item, part)));
        let named = |(index, item, (part_index, _)): &(usize, &Arc<Item>, (usize, &Part))| {
            Handle::of_part(*index, &item.id, *part_index) == *handle
        };
        parts.find(named).map(|(_, _, (_, part))| Recalled::Part(part.clone()))
    }

    fn recall_range(&self, handle: &Handle) -> Option<Recalled> {
        if self.transcript.len() > RANGE_ITEMS_MAX {
            return None;
        }
        let items: Vec<&Arc<Item>> = self.transcript.items().collect();
        let is_named = |first: usize, last: usize| {
            Handle::of_range((first, &items[first].id), (last, &items[last].id)) == *handle
        };
        let last_of = |first: usize| (first..items.len()).find(|&last| is_named(first, last));
        let mut ranges = (0..items.len()).filter_map(|first| Some((first, last_of(first)?)));
        let (first, last) = ranges.next()?;
        Some(Recalled::Items(items[first..=last].iter().map(|item| Arc::clone(item)).collect()))
    }

    fn recall_unit(&self, handle: &Handle) -> Option<Recalled> {
        let members = self.transcript.unit_members(self.index_of(handle)?);
        let entries = members.filter_map(|member| self.transcript.get(member));
        Some(Recalled::Items(entries.map(Entry::item).cloned().collect()))
    }

    fn index_of(&self, handle: &Handle) -> Option<usize> {
        let mut items = self.transcript.items().enumerate();
        items.find(|(index, item)| Handle::of_item(*index, &item.id) == *handle).map(|(index, _)| index)
    }

    fn recall_fold(&self, fold: &Fold) -> Recalled {
        let entries = fold.folded().flat_map(|range| self.transcript.range(range));
        Recalled::Items(entries.map(Entry::item).cloned().collect())
    }

    fn recall_part(&self, rewrite: &Rewrite) -> Option<Recalled> {
        let item = self.transcript.get(rewrite.item_index)?.item();
        item.parts.get(rewrite.part_index).cloned().map(Recalled::Part)
    }
}

/// Equal where the same items were recorded and the same blocks are in force, however they are counted. Costs
/// the items, unless they are shared.
impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        let items = || self.transcript.items().zip(other.transcript.items());
        self.transcript.len() == other.transcript.len()
            && self.overlay == other.overlay
            && items().all(|(one, other)| Arc::ptr_eq(one, other) || one == other)
    }
}

impl<'a> TriggerContext<'a, View> {
    /// A context that knows the view and nothing else, for compactors; its counts are taken as exact.
    pub fn of_view(view: &'a View, point: MutationPoint) -> Self {
        TriggerContext::new(view, point).about(view)
    }
}

impl Deref for View {
    type Target = Sequence;
    fn deref(&self) -> &Sequence {
        &self.sequence
    }
}

/// Refuses a block that was made for other items.
fn check(transcript: &Transcript, block: &CompactionBlock) -> Result<(), BlockError> {
    block.check(transcript.len())?;
    for edit in &block.edits {
        let Edit::Rewrite(Rewrite { item_index, part_index, .. }) = *edit else { continue };
        let part_count = transcript.get(item_index).map_or(0, |entry| entry.item().parts.len());
        if part_index >= part_count {
            return Err(BlockError::NoSuchPart { item_index, part_index });
        }
    }
    Ok(())
}

fn sequence(transcript: &Transcript, splice: &Splice) -> Sequence {
    let mut sequence = Sequence::default();
    for shown in splice.shown(transcript.len()) {
        match shown {
            Shown::Recorded(range) => {
                transcript.range(range).for_each(|entry| sequence.push_counted(entry));
            }
            Shown::Rewritten(index, rewrites) => {
                if let Some(entry) = transcript.get(index) {
                    push_rewritten(&mut sequence, entry, index, rewrites);
                }
            }
            Shown::Summary(StandingSummary { range, anchor, items, .. }) => {
                for item in items {
                    let tokens = transcript.meter().item(item);
                    sequence.push(Arc::clone(item), tokens, range.clone(), *anchor);
                }
            }
        }
    }
    sequence
}

fn push_rewritten(sequence: &mut Sequence, entry: &Entry, index: usize, rewrites: &[Rewrite]) {
    let recorded = entry.item();
    let mut parts = Vec::with_capacity(recorded.parts.len());
    let mut tokens = Vec::with_capacity(recorded.parts.len());
    let mut recorded_parts = Vec::with_capacity(recorded.parts.len());
    for (part_index, part, rewrite) in shown_parts(recorded, rewrites) {
        parts.push((part_index, part.clone()));
        tokens.push(rewrite.map_or(entry.tokens().parts[part_index], |rewrite| rewrite.tokens));
        recorded_parts.push(part_index as u32);
    }
    let item = recorded.with_parts(parts);
    sequence.push_rewritten(item.into(), ItemTokens::of_parts(tokens), index, recorded_parts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_made_for_another_transcript_is_refused() {
        let transcript: Transcript = [Item::user("u", "hello")].into_iter().collect();
        let reason = crate::edit::Reason::new("test", "because");
        let block = CompactionBlock {
            edits: vec![Edit::Drop(crate::edit::Drop { range: 0..2, reason })],
            strategy: "test".into(),
            ..CompactionBlock::default()
        };
        let refused = View::through(&transcript, &Overlay::default().with(block)).map(|view| view.len());
        assert!(
            matches!(refused, Err(OverlayError { block_index: 0, source: BlockError::OutOfRange { .. } })),
            "{refused:?}"
        );
    }
}
