//! The shared shape: a summary, a pointer to where the verbatim tail starts, and one loader.
//!
//! Folding strategies differ in what they cut and in where the summary stands; what they leave
//! behind does not differ. A [`Splice`] is that in a form which a history loader can use without
//! knowing strategies, blocks or overlays.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::item::Item;
use crate::sequence::Entry;
use crate::transcript::Transcript;
use crate::view::{Fate, View};

/// What a history loader needs to show a folded transcript. All indices are of the transcript.
///
/// It is a copy of what a view shows, not a record of how that came about: reasons and handles
/// stay in the blocks. Storing it lets a host load a history without them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Splice {
    /// Where the verbatim tail starts. Items pushed later belong to it.
    pub tail_start: usize,
    /// What stays visible before the tail, in order: instructions, pins, kept turns or messages.
    #[serde(default)]
    pub kept: Vec<Range<usize>>,
    /// Kept items that are not shown as they were recorded, such as a message cut in its middle.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rewritten: BTreeMap<usize, Item>,
    /// The summary items, each list under the item whose place it takes or, if that is kept, directly
    /// after which it stands: kept items up to this one come before it, all others after it. Mostly
    /// there is one summary.
    pub summaries: BTreeMap<usize, Vec<Item>>,
}

/// A splice that contradicts itself or its transcript.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// The transcript is shorter than what was folded.
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
    /// A range of kept items would show something twice, nothing, or out of order.
    #[error(
        "kept items {range:?} do not lie after item {after} and before the tail at {tail_start}; \
         store ranges in order, none empty, none overlapping"
    )]
    KeptOutOfOrder {
        /// The range.
        range: Range<usize>,
        /// Where the range before it ends.
        after: usize,
        /// Where the tail starts.
        tail_start: usize,
    },
    /// A summary would stand in the tail, which is verbatim.
    #[error(
        "a summary stands at item {summary_index}, but the tail starts at {tail_start}; start the tail after it"
    )]
    SummaryInTail {
        /// The item whose place the summary takes or which it follows.
        summary_index: usize,
        /// Where the tail starts.
        tail_start: usize,
    },
    /// A rewritten item that nothing shows.
    #[error("item {item_index} is rewritten but not kept; keep it or leave its rewritten form out")]
    RewrittenNotKept {
        /// The item.
        item_index: usize,
    },
}

impl Splice {
    /// The splice that loads what `view` shows; none where no summary is in force.
    pub fn of(view: &View) -> Option<Self> {
        let fates = view.fates();
        let fate = |entry: &Entry| fates.get(entry.span().start);
        let is_summary = |entry: &&Entry| !fate(entry).is_some_and(Fate::is_visible);
        let after_summaries = view.iter().rev().find(is_summary).map_or(0, |entry| entry.anchor() + 1);
        let tail_len = fates.iter().rev().take_while(|fate| **fate == Fate::Visible).count();
        let tail_start = after_summaries.max(fates.len() - tail_len);
        let mut splice = Self { tail_start, ..Self::default() };
        for entry in view.range(0..view.position_of_anchor(tail_start)) {
            let index = entry.anchor();
            match fate(entry) {
                Some(Fate::Visible) => {}
                Some(Fate::Rewritten) => drop(splice.rewritten.insert(index, Item::clone(entry.item()))),
                // What stands for hidden items is a summary.
                Some(Fate::Dropped(_) | Fate::Folded(_)) | None => {
                    splice.summaries.entry(index).or_default().push(Item::clone(entry.item()));
                    continue;
                }
            }
            match splice.kept.last_mut() {
                Some(range) if range.end == index => range.end += 1,
                _ => splice.kept.push(index..index + 1),
            }
        }
        (!splice.summaries.is_empty()).then_some(splice)
    }

    /// The history: kept items and summaries in their order, then the tail.
    pub fn load(&self, transcript: &Transcript) -> Result<Vec<Arc<Item>>, SpliceError> {
        self.check(transcript.len())?;
        let mut items = Vec::new();
        let mut summaries = self.summaries.iter().peekable();
        for index in self.kept.iter().cloned().flatten().chain(self.tail_start..transcript.len()) {
            while let Some((_, summary)) = summaries.next_if(|&(&place, _)| place < index) {
                items.extend(summary.iter().cloned().map(Arc::new));
            }
            let recorded = transcript.get(index).map(|entry| Arc::clone(entry.item()));
            items.extend(self.rewritten.get(&index).cloned().map(Arc::new).or(recorded));
        }
        items.extend(summaries.flat_map(|(_, summary)| summary).cloned().map(Arc::new));
        Ok(items)
    }

    fn is_kept(&self, index: usize) -> bool {
        self.kept.iter().any(|range| range.contains(&index))
    }

    fn check(&self, item_count: usize) -> Result<(), SpliceError> {
        let tail_start = self.tail_start;
        if tail_start > item_count {
            return Err(SpliceError::TailBeyondTranscript { tail_start, item_count });
        }
        let mut after = 0;
        for range in &self.kept {
            if range.start < after || range.is_empty() || range.end > tail_start {
                return Err(SpliceError::KeptOutOfOrder { range: range.clone(), after, tail_start });
            }
            after = range.end;
        }
        if let Some((&summary_index, _)) = self.summaries.range(tail_start..).next() {
            return Err(SpliceError::SummaryInTail { summary_index, tail_start });
        }
        match self.rewritten.keys().find(|&&item_index| !self.is_kept(item_index)) {
            Some(&item_index) => Err(SpliceError::RewrittenNotKept { item_index }),
            None => Ok(()),
        }
    }
}
