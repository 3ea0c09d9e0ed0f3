//! What blocks come to: the tail-start pointer, what is kept before it, the summaries, and one loader
//! for `[summary, …tail]` and `[…tail, summary]` alike.
//!
//! Strategies differ in what they cut and in where the summary stands; what they leave behind does not
//! differ. A [`Splice`] is that: what is hidden, which summaries stand where, which parts are replaced.
//! It is as long as the view, while blocks together are as long as the history. So views are made with
//! it, and stores keep one for each block.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::block::{CompactionBlock, Overlay};
use crate::edit::{Edit, Rewrite};
use crate::handle::Handle;
use crate::item::Item;
use crate::part::Part;
use crate::transcript::Transcript;

/// What blocks come to. All indices are of the transcript. Items behind those that it names are visible,
/// however many there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Splice {
    /// In order, none touching the next.
    hidden: Vec<Range<usize>>,
    /// In the order of their anchors.
    summaries: Vec<StandingSummary>,
    /// By item and part; one for each part, of visible items only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rewrites: Vec<Rewrite>,
}

/// A summary in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StandingSummary {
    /// The indices it stands for; the first names it.
    pub range: Range<usize>,
    /// The index whose place it takes or, if that item is visible, directly after which it stands.
    pub anchor: usize,
    /// Recalls what was folded.
    pub handle: Handle,
    /// The summary.
    #[serde(with = "shared")]
    pub items: Vec<Arc<Item>>,
}

/// A splice that contradicts itself or its transcript.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpliceError {
    /// The transcript is shorter than what was compacted.
    #[error(
        "the tail starts at item {tail_start}, but the transcript has {item_count}; load the transcript \
         that the splice was made for"
    )]
    TailBeyondTranscript {
        /// Where the tail starts.
        tail_start: usize,
        /// How many items there are.
        item_count: usize,
    },
    /// A summary stands where the transcript has not come to.
    #[error(
        "a summary stands at item {anchor}, but the transcript has {item_count}; load the transcript that \
         the splice was made for"
    )]
    SummaryBeyondTranscript {
        /// Where the summary stands.
        anchor: usize,
        /// How many items there are.
        item_count: usize,
    },
    /// Hidden ranges would show something twice or out of order.
    #[error("hidden items {range:?} do not lie after item {after}; store ranges in order, none empty")]
    OutOfOrder {
        /// The range.
        range: Range<usize>,
        /// Where the range before it ends.
        after: usize,
    },
}

/// A stretch of what is shown.
#[derive(Clone, Debug)]
pub(crate) enum Shown<'s> {
    /// Items as they were recorded.
    Recorded(Range<usize>),
    /// An item with these parts replaced or removed.
    Rewritten(usize, &'s [Rewrite]),
    /// A summary.
    Summary(&'s StandingSummary),
}

impl Splice {
    /// What these blocks come to.
    pub fn of(overlay: &Overlay) -> Self {
        let mut splice = Self::default();
        splice.extend(overlay.blocks().iter().map(Arc::as_ref));
        splice
    }

    /// What it comes to with one more block in force.
    #[must_use]
    pub fn with(&self, block: &CompactionBlock) -> Self {
        let mut splice = self.clone();
        splice.extend(std::iter::once(block));
        splice
    }

    fn extend<'b>(&mut self, blocks: impl Iterator<Item = &'b CompactionBlock> + Clone) {
        blocks.clone().for_each(|block| self.hide(block));
        unite(&mut self.hidden);
        // What is hidden by then needs no rewrite.
        let hidden = &self.hidden;
        self.rewrites.retain(|rewrite| !covers(hidden, rewrite.item_index));
        let rewrites = blocks.flat_map(|block| &block.edits).filter_map(|edit| match edit {
            Edit::Rewrite(rewrite) => Some(rewrite),
            Edit::Drop(_) | Edit::Fold(_) => None,
        });
        self.rewrites.extend(rewrites.filter(|rewrite| !covers(hidden, rewrite.item_index)).cloned());
        // Of several rewrites of one part the last is in force (T3); the sort leaves it last.
        self.rewrites.sort_by_key(|rewrite| (rewrite.item_index, rewrite.part_index));
        self.rewrites.dedup_by(|later, earlier| {
            let is_same = (later.item_index, later.part_index) == (earlier.item_index, earlier.part_index);
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
    }

    fn hide(&mut self, block: &CompactionBlock) {
        let mut hidden = Vec::new();
        for edit in &block.edits {
            match edit {
                Edit::Drop(drop) => hidden.push(drop.range.clone()),
                Edit::Fold(fold) => hidden.extend(fold.folded()),
                Edit::Rewrite(_) => {}
            }
        }
        unite(&mut hidden);
        // The first index that a summary stands for names it: no item is visible there.
        self.summaries.retain(|summary| !covers(&hidden, summary.range.start));
        self.summaries.extend(block.folds().map(|(fold, items)| StandingSummary {
            range: fold.range.clone(),
            anchor: fold.anchor,
            handle: fold.handle.clone(),
            items: items.iter().cloned().map(Arc::new).collect(),
        }));
        self.summaries.sort_by_key(|summary| summary.anchor);
        self.hidden.append(&mut hidden);
    }

    /// Where the verbatim tail starts: nothing is hidden or rewritten from there on. A summary whose
    /// anchor is not before it stands after the tail as it was then; items pushed later come behind.
    pub fn tail_start(&self) -> usize {
        let hidden = self.hidden.last().map_or(0, |range| range.end);
        let rewritten = self.rewrites.last().map_or(0, |rewrite| rewrite.item_index + 1);
        hidden.max(rewritten)
    }

    /// What stays visible before the tail, in order: instructions, pins, kept turns or messages.
    pub fn kept(&self) -> Vec<Range<usize>> {
        self.visible(self.tail_start())
    }

    /// Which of `item_count` items are visible, in order.
    pub fn visible(&self, item_count: usize) -> Vec<Range<usize>> {
        let mut visible = Vec::with_capacity(self.hidden.len() + 1);
        let mut start = 0;
        for hidden in &self.hidden {
            if start < hidden.start.min(item_count) {
                visible.push(start..hidden.start.min(item_count));
            }
            start = hidden.end;
        }
        if start < item_count {
            visible.push(start..item_count);
        }
        visible
    }

    /// Whether the item at `index` is visible.
    pub fn is_visible(&self, index: usize) -> bool {
        !covers(&self.hidden, index)
    }

    /// The summaries in force, in order.
    pub fn summaries(&self) -> &[StandingSummary] {
        &self.summaries
    }

    /// The rewrites in force, by item and part.
    pub fn rewrites(&self) -> &[Rewrite] {
        &self.rewrites
    }

    /// The history: kept items, tail and summaries, each in its place.
    pub fn load(&self, transcript: &Transcript) -> Result<Vec<Arc<Item>>, SpliceError> {
        let (tail_start, item_count) = (self.tail_start(), transcript.len());
        if tail_start > item_count {
            return Err(SpliceError::TailBeyondTranscript { tail_start, item_count });
        }
        if let Some(anchor) = self.summaries.last().map(|last| last.anchor).filter(|&last| last >= item_count)
        {
            return Err(SpliceError::SummaryBeyondTranscript { anchor, item_count });
        }
        let mut after = 0;
        for range in &self.hidden {
            if range.start < after || range.is_empty() {
                return Err(SpliceError::OutOfOrder { range: range.clone(), after });
            }
            after = range.end;
        }
        let visible = self.visible(item_count).into_iter().flat_map(|range| transcript.range(range));
        Ok(self.context(item_count, visible.map(|entry| Arc::clone(entry.item()))))
    }

    /// The same from the items that are visible ([`Splice::visible`]) of `item_count`: a store reads no
    /// others.
    pub fn context(&self, item_count: usize, visible: impl IntoIterator<Item = Arc<Item>>) -> Vec<Arc<Item>> {
        let mut recorded = visible.into_iter();
        let mut context = Vec::with_capacity(recorded.size_hint().0 + self.summaries.len());
        for shown in self.shown(item_count) {
            match shown {
                Shown::Recorded(range) => context.extend(recorded.by_ref().take(range.len())),
                Shown::Rewritten(_, rewrites) => {
                    context.extend(recorded.next().map(|item| rewritten(&item, rewrites)));
                }
                Shown::Summary(summary) => context.extend(summary.items.iter().cloned()),
            }
        }
        context
    }

    /// What is shown of `item_count` items, in order.
    pub(crate) fn shown(&self, item_count: usize) -> Vec<Shown<'_>> {
        let mut shown = Vec::with_capacity(self.hidden.len() + self.summaries.len() + self.rewrites.len());
        let mut summaries = self.summaries.iter().peekable();
        for range in self.visible(item_count) {
            let mut start = range.start;
            while let Some(summary) = summaries.next_if(|summary| summary.anchor < range.end) {
                let stands_at = start.max(summary.anchor + 1);
                self.show_recorded(&mut shown, start..stands_at);
                shown.push(Shown::Summary(summary));
                start = stands_at;
            }
            self.show_recorded(&mut shown, start..range.end);
        }
        shown.extend(summaries.map(Shown::Summary));
        shown
    }

    fn show_recorded<'s>(&'s self, shown: &mut Vec<Shown<'s>>, range: Range<usize>) {
        let first = self.rewrites.partition_point(|rewrite| rewrite.item_index < range.start);
        let rest = self.rewrites.get(first..).unwrap_or_default();
        let count = rest.partition_point(|rewrite| rewrite.item_index < range.end);
        let inside = rest.get(..count).unwrap_or_default();
        let mut start = range.start;
        for rewrites in inside.chunk_by(|one, next| one.item_index == next.item_index) {
            let index = rewrites.first().map_or(start, |rewrite| rewrite.item_index);
            if start < index {
                shown.push(Shown::Recorded(start..index));
            }
            shown.push(Shown::Rewritten(index, rewrites));
            start = index + 1;
        }
        if start < range.end {
            shown.push(Shown::Recorded(start..range.end));
        }
    }
}

/// The parts of an item that are shown, each with its index in the recorded item and, where it was
/// replaced, the rewrite. `rewrites` are those of this item, in the order of its parts.
pub(crate) fn shown_parts<'i>(
    item: &'i Item,
    rewrites: &'i [Rewrite],
) -> impl Iterator<Item = (usize, &'i Part, Option<&'i Rewrite>)> {
    let mut rewrites = rewrites.iter().peekable();
    item.parts.iter().enumerate().filter_map(move |(part_index, part)| {
        match rewrites.next_if(|rewrite| rewrite.part_index == part_index) {
            None => Some((part_index, part, None)),
            Some(rewrite) => Some((part_index, rewrite.replacement.as_ref()?, Some(rewrite))),
        }
    })
}

fn rewritten(item: &Item, rewrites: &[Rewrite]) -> Arc<Item> {
    let parts = shown_parts(item, rewrites).map(|(part_index, part, _)| (part_index, part.clone()));
    Arc::new(item.with_parts(parts))
}

/// Sorts ranges and merges those that touch.
pub fn unite(ranges: &mut Vec<Range<usize>>) {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|later, earlier| {
        let touches = later.start <= earlier.end;
        if touches {
            earlier.end = earlier.end.max(later.end);
        }
        touches
    });
}

/// Whether one of `ranges`, which are sorted and disjoint, holds an index.
pub fn covers(ranges: &[Range<usize>], index: usize) -> bool {
    let candidate = ranges.partition_point(|range| range.end <= index);
    ranges.get(candidate).is_some_and(|range| range.contains(&index))
}

/// Shared items as JSON.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::item::Item;

    pub(super) fn serialize<S: Serializer>(items: &[Arc<Item>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(items.iter().map(Arc::as_ref))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Arc<Item>>, D::Error> {
        Ok(Vec::<Item>::deserialize(deserializer)?.into_iter().map(Arc::new).collect())
    }
}
