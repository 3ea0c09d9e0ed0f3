//! What the model sees: the transcript seen through the overlay.

use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::block::{CompactionBlock, Overlay};
use crate::edit::{Edit, Fold, Reason, Rewrite};
use crate::handle::Handle;
use crate::item::Item;
use crate::part::Part;
use crate::sequence::{Entry, Sequence};
use crate::tokens::ItemTokens;
use crate::transcript::Transcript;

/// An overlay that does not belong to its transcript.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// An edit speaks of items the transcript does not have.
    #[error(
        "block {block_index} edits items {range:?}, but the transcript has {item_count}; \
         load the transcript that the block was made for"
    )]
    OutOfRange {
        /// Which block.
        block_index: usize,
        /// What it edits.
        range: Range<usize>,
        /// How many items there are.
        item_count: usize,
    },
    /// A rewrite speaks of a part the item does not have.
    #[error("block {block_index} rewrites part {part_index} of item {item_index}, which has fewer parts")]
    NoSuchPart {
        /// Which block.
        block_index: usize,
        /// Which item.
        item_index: usize,
        /// Which part.
        part_index: usize,
    },
    /// A fold without its summary, or a summary without its fold.
    #[error("block {block_index} has {fold_count} folds but {summary_count} summaries")]
    SummaryCount {
        /// Which block.
        block_index: usize,
        /// How many folds it has.
        fold_count: usize,
        /// How many summaries.
        summary_count: usize,
    },
    /// Holes outside the fold, out of order or at its ends.
    #[error("block {block_index} folds {range:?} with holes that do not lie inside it")]
    Holes {
        /// Which block.
        block_index: usize,
        /// What it folds.
        range: Range<usize>,
    },
}

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
        let visible = Visible::compose(transcript, overlay)?;
        let sequence = visible.sequence(transcript);
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

impl Deref for View {
    type Target = Sequence;
    fn deref(&self) -> &Sequence {
        &self.sequence
    }
}

/// Which raw ranges are visible and which summaries stand where: what blocks compose to.
struct Visible<'o> {
    ranges: Vec<Range<usize>>,
    summaries: Vec<(&'o Fold, &'o [Item])>,
    rewrites: BTreeMap<usize, BTreeMap<usize, &'o Rewrite>>,
}

impl<'o> Visible<'o> {
    fn compose(transcript: &Transcript, overlay: &'o Overlay) -> Result<Self, OverlayError> {
        let whole = 0..transcript.len();
        let mut visible = Self { ranges: vec![whole], summaries: Vec::new(), rewrites: BTreeMap::new() };
        for (block_index, block) in overlay.blocks().iter().enumerate() {
            check_block(transcript, block_index, block)?;
            visible.apply(block);
        }
        Ok(visible)
    }

    fn apply(&mut self, block: &'o CompactionBlock) {
        let mut hidden = Vec::new();
        let mut folds = Vec::new();
        for edit in &block.edits {
            match edit {
                Edit::Drop(drop) => hidden.push(drop.range.clone()),
                Edit::Fold(fold) => {
                    hidden.extend(fold.folded());
                    folds.push(fold);
                }
                Edit::Rewrite(rewrite) => {
                    let parts = self.rewrites.entry(rewrite.item_index).or_default();
                    parts.insert(rewrite.part_index, rewrite);
                }
            }
        }
        hidden.sort_by_key(|range| range.start);
        self.ranges = subtract(&self.ranges, &hidden);
        // The first index that a summary stands for names it: no item is visible there.
        self.summaries.retain(|(fold, _)| !covers(&hidden, fold.range.start));
        self.summaries.extend(folds.into_iter().zip(block.summaries.iter().map(Vec::as_slice)));
        self.summaries.sort_by_key(|(fold, _)| fold.anchor);
    }

    fn sequence(&self, transcript: &Transcript) -> Sequence {
        let mut sequence = Sequence::default();
        let mut summaries = self.summaries.iter().peekable();
        for range in &self.ranges {
            let mut start = range.start;
            while let Some((fold, items)) = summaries.next_if(|(fold, _)| fold.anchor < range.end) {
                let stands_at = start.max(fold.anchor + 1);
                self.push_raw(&mut sequence, transcript, start..stands_at);
                push_summary(&mut sequence, transcript, fold, items);
                start = stands_at;
            }
            self.push_raw(&mut sequence, transcript, start..range.end);
        }
        for (fold, items) in summaries {
            push_summary(&mut sequence, transcript, fold, items);
        }
        sequence
    }

    fn push_raw(&self, sequence: &mut Sequence, transcript: &Transcript, range: Range<usize>) {
        for (index, entry) in range.clone().zip(transcript.range(range)) {
            match self.rewrites.get(&index) {
                None => sequence.push_counted(entry),
                Some(rewrites) => push_rewritten(sequence, entry, index, rewrites),
            }
        }
    }
}

fn push_rewritten(
    sequence: &mut Sequence,
    entry: &Entry,
    index: usize,
    rewrites: &BTreeMap<usize, &Rewrite>,
) {
    let recorded = entry.item();
    let mut parts = Vec::with_capacity(recorded.parts.len());
    let mut tokens = Vec::with_capacity(recorded.parts.len());
    let mut recorded_parts = Vec::with_capacity(recorded.parts.len());
    for (part_index, part) in recorded.parts.iter().enumerate() {
        let (part, part_tokens) = match rewrites.get(&part_index) {
            None => (part, entry.tokens().parts[part_index]),
            Some(Rewrite { replacement: Some(replacement), tokens, .. }) => (replacement, *tokens),
            Some(Rewrite { replacement: None, .. }) => continue,
        };
        parts.push(part.clone());
        tokens.push(part_tokens);
        recorded_parts.push(part_index as u32);
    }
    let item = Item { parts, ..Item::clone(recorded) };
    sequence.push_rewritten(item.into(), ItemTokens::of_parts(tokens), index, recorded_parts);
}

fn push_summary(sequence: &mut Sequence, transcript: &Transcript, fold: &Fold, items: &[Item]) {
    for item in items {
        let tokens = transcript.meter().item(item);
        sequence.push(Arc::new(item.clone()), tokens, fold.range.clone(), fold.anchor);
    }
}

fn check_block(
    transcript: &Transcript,
    block_index: usize,
    block: &CompactionBlock,
) -> Result<(), OverlayError> {
    let item_count = transcript.len();
    let inside = |range: &Range<usize>| match range.start < range.end && range.end <= item_count {
        true => Ok(()),
        false => Err(OverlayError::OutOfRange { block_index, range: range.clone(), item_count }),
    };
    let mut fold_count = 0;
    for edit in &block.edits {
        match edit {
            Edit::Drop(drop) => inside(&drop.range)?,
            Edit::Rewrite(rewrite) => {
                let (item_index, part_index) = (rewrite.item_index, rewrite.part_index);
                inside(&(item_index..item_index + 1))?;
                let part_count = transcript.get(item_index).map_or(0, |entry| entry.item().parts.len());
                if part_index >= part_count {
                    return Err(OverlayError::NoSuchPart { block_index, item_index, part_index });
                }
            }
            Edit::Fold(fold) => {
                inside(&fold.range)?;
                inside(&(fold.anchor..fold.anchor.saturating_add(1)))?;
                fold_count += 1;
                if !holes_lie_inside(fold) {
                    return Err(OverlayError::Holes { block_index, range: fold.range.clone() });
                }
            }
        }
    }
    let summary_count = block.summaries.len();
    if fold_count != summary_count {
        return Err(OverlayError::SummaryCount { block_index, fold_count, summary_count });
    }
    Ok(())
}

fn holes_lie_inside(fold: &Fold) -> bool {
    let mut free_from = fold.range.start + 1;
    let lies_inside = |hole: &Range<usize>| {
        let fits = hole.start >= free_from && hole.start < hole.end && hole.end < fold.range.end;
        free_from = hole.end;
        fits
    };
    fold.holes.iter().all(lies_inside)
}

/// `ranges` without `hidden`; both sorted and disjoint.
fn subtract(ranges: &[Range<usize>], hidden: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut left = Vec::with_capacity(ranges.len() + hidden.len());
    let mut next_hidden = 0;
    for range in ranges {
        let mut start = range.start;
        while let Some(gap) = hidden.get(next_hidden).filter(|gap| gap.start < range.end) {
            if gap.start > start {
                left.push(start..gap.start);
            }
            start = start.max(gap.end);
            if gap.end > range.end {
                break;
            }
            next_hidden += 1;
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

/// Whether one of `hidden`, which are sorted and disjoint, holds an index.
pub(crate) fn covers(hidden: &[Range<usize>], index: usize) -> bool {
    let candidate = hidden.partition_point(|range| range.end <= index);
    hidden.get(candidate).is_some_and(|range| range.contains(&index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "the ranges themselves are meant")]
    fn subtracting_leaves_exactly_what_was_not_hidden() {
        assert_eq!(subtract(&[0..10], &[]), vec![0..10]);
        assert_eq!(subtract(&[0..10], &[0..3, 5..6]), vec![3..5, 6..10]);
        assert_eq!(subtract(&[0..4, 6..10], &[2..8]), vec![0..2, 8..10]);
        assert_eq!(subtract(&[0..4, 6..10], &[0..10]), Vec::<Range<usize>>::new());
        assert_eq!(subtract(&[0..2, 4..6, 8..9], &[1..5, 8..9]), vec![0..1, 5..6]);
    }

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
        assert!(matches!(refused, Err(OverlayError::OutOfRange { block_index: 0, .. })), "{refused:?}");
    }
}
