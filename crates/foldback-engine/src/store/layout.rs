//! What blocks come to: which items are hidden, which summaries stand where, which parts are
//! replaced.
//!
//! A store keeps one layout for each block, because the blocks of a long session together are as
//! long as the session, and what they come to is as long as the view.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{CompactionBlock, Edit, Handle, Item, Part};
use serde::{Deserialize, Serialize};

use super::error::StoreError;

/// What blocks come to. Independent of how many items follow: those are visible.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// In order, none touching the next.
    hidden: Vec<Range<usize>>,
    /// By the place they stand at.
    summaries: Vec<StandingSummary>,
    /// By item and part; of visible items only.
    rewrites: Vec<StandingRewrite>,
}

/// A summary in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingSummary {
    /// The indices it stands for; the first names it.
    pub range: Range<usize>,
    /// The index whose place it takes or, if that item is visible, directly after which it stands.
    pub anchor: usize,
    /// Recalls what was folded.
    pub handle: Handle,
    /// The summary.
    pub items: Vec<Item>,
}

/// A rewrite in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingRewrite {
    /// The item.
    pub item_index: usize,
    /// The part, as recorded.
    pub part_index: usize,
    /// What stands there now; nothing if it was removed.
    pub replacement: Option<Part>,
    /// What the replacement costs.
    pub tokens: u32,
    /// Recalls the part as it was recorded.
    pub handle: Handle,
}

impl Layout {
    /// What it comes to with one more block in force.
    pub fn with(&self, block: &CompactionBlock) -> Self {
        let mut hidden = self.hidden.clone();
        let mut newly_hidden = Vec::new();
        let mut folds = Vec::new();
        let mut rewrites = self.rewrites.clone();
        for edit in &block.edits {
            match edit {
                Edit::Drop(drop) => newly_hidden.push(drop.range.clone()),
                Edit::Fold(fold) => {
                    newly_hidden.extend(fold.folded());
                    folds.push(fold);
                }
                Edit::Rewrite(rewrite) => rewrites.push(StandingRewrite {
                    item_index: rewrite.item_index,
                    part_index: rewrite.part_index,
                    replacement: rewrite.replacement.clone(),
                    tokens: rewrite.tokens,
                    handle: rewrite.handle.clone(),
                }),
            }
        }
        let newly_hidden = united(newly_hidden);
        // The first index that a summary stands for names it: no item is visible there.
        let stays = |summary: &&StandingSummary| !covers(&newly_hidden, summary.range.start);
        let mut summaries: Vec<StandingSummary> = self.summaries.iter().filter(stays).cloned().collect();
        for (fold, items) in folds.into_iter().zip(&block.summaries) {
            summaries.push(StandingSummary {
                range: fold.range.clone(),
                anchor: fold.anchor,
                handle: fold.handle.clone(),
                items: items.clone(),
            });
        }
        summaries.sort_by_key(|summary| summary.anchor);
        hidden.extend(newly_hidden);
        let hidden = united(hidden);
        Self { rewrites: newest_of_visible(rewrites, &hidden), hidden, summaries }
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

    /// The rewrites in force, in order.
    pub fn rewrites(&self) -> &[StandingRewrite] {
        &self.rewrites
    }

    /// What the model sees of these recorded items, which are the visible ones in order.
    pub fn context(&self, visible: &[(usize, Arc<Item>)]) -> Vec<Arc<Item>> {
        let mut context = Vec::with_capacity(visible.len() + self.summaries.len());
        let mut summaries = self.summaries.iter().peekable();
        let mut rewrites = self.rewrites.as_slice();
        for (index, item) in visible {
            while let Some(summary) = summaries.next_if(|summary| summary.anchor < *index) {
                context.extend(summary.items.iter().cloned().map(Arc::new));
            }
            rewrites = &rewrites[rewrites.partition_point(|rewrite| rewrite.item_index < *index)..];
            let count = rewrites.partition_point(|rewrite| rewrite.item_index == *index);
            context.push(rewritten(item, &rewrites[..count]));
        }
        context.extend(summaries.flat_map(|summary| &summary.items).cloned().map(Arc::new));
        context
    }

    /// Refuses a block that speaks of items that are not there.
    pub fn check(block: &CompactionBlock, item_count: usize) -> Result<(), StoreError> {
        let refuse = |why: String| Err(StoreError::InvalidBlock { why });
        let mut fold_count = 0;
        for edit in &block.edits {
            let (range, anchor) = match edit {
                Edit::Drop(drop) => (drop.range.clone(), None),
                Edit::Rewrite(rewrite) => (rewrite.item_index..rewrite.item_index.saturating_add(1), None),
                Edit::Fold(fold) => {
                    fold_count += 1;
                    (fold.range.clone(), Some(fold))
                }
            };
            if range.is_empty() || range.end > item_count {
                return refuse(format!("it edits items {range:?} of {item_count}"));
            }
            if let Some(fold) = anchor {
                if fold.anchor >= item_count {
                    return refuse(format!("a summary stands at {} of {item_count}", fold.anchor));
                }
                if !holes_lie_inside(&fold.range, &fold.holes) {
                    return refuse(format!("the holes of the fold {range:?} do not lie inside it"));
                }
            }
        }
        if fold_count != block.summaries.len() {
            return refuse(format!("it has {fold_count} folds and {} summaries", block.summaries.len()));
        }
        Ok(())
    }

    /// One more than the last index that a block speaks of.
    pub fn reach(block: &CompactionBlock) -> usize {
        let end = |edit: &Edit| match edit {
            Edit::Drop(drop) => drop.range.end,
            Edit::Rewrite(rewrite) => rewrite.item_index + 1,
            Edit::Fold(fold) => fold.range.end.max(fold.anchor + 1),
        };
        block.edits.iter().map(end).max().unwrap_or(0)
    }
}

fn holes_lie_inside(range: &Range<usize>, holes: &[Range<usize>]) -> bool {
    let mut free_from = range.start + 1;
    holes.iter().all(|hole| {
        let fits = hole.start >= free_from && hole.start < hole.end && hole.end < range.end;
        free_from = hole.end;
        fits
    })
}

/// Sorted and merged.
fn united(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut united: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match united.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            Some(_) | None => united.push(range),
        }
    }
    united
}

fn covers(ranges: &[Range<usize>], index: usize) -> bool {
    let candidate = ranges.partition_point(|range| range.end <= index);
    ranges.get(candidate).is_some_and(|range| range.contains(&index))
}

/// Of several rewrites of one part the last is in force (T3); what is hidden needs none.
fn newest_of_visible(mut rewrites: Vec<StandingRewrite>, hidden: &[Range<usize>]) -> Vec<StandingRewrite> {
    rewrites.retain(|rewrite| !covers(hidden, rewrite.item_index));
    rewrites.sort_by_key(|rewrite| (rewrite.item_index, rewrite.part_index));
    let mut newest: Vec<StandingRewrite> = Vec::with_capacity(rewrites.len());
    for rewrite in rewrites {
        let same = |last: &&mut StandingRewrite| {
            (last.item_index, last.part_index) == (rewrite.item_index, rewrite.part_index)
        };
        match newest.last_mut().filter(same) {
            Some(last) => *last = rewrite,
            None => newest.push(rewrite),
        }
    }
    newest
}

fn rewritten(item: &Arc<Item>, rewrites: &[StandingRewrite]) -> Arc<Item> {
    if rewrites.is_empty() {
        return Arc::clone(item);
    }
    let mut parts = Vec::with_capacity(item.parts.len());
    for (part_index, part) in item.parts.iter().enumerate() {
        match rewrites.iter().find(|rewrite| rewrite.part_index == part_index) {
            None => parts.push(part.clone()),
            Some(StandingRewrite { replacement: Some(replacement), .. }) => parts.push(replacement.clone()),
            Some(StandingRewrite { replacement: None, .. }) => {}
        }
    }
    Arc::new(Item { parts, ..Item::clone(item) })
}
