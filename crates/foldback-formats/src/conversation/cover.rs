//! Indices that are covered range by range, in all ranges together in time that grows with the indices
//! and the ranges: sessions are compacted thousands of times, each time from the beginning.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::edit::{Edit, Fold};
use foldback_core::{CompactionBlock, Item};

use super::{Conversation, Seen, Summary};

/// Which of the first so many indices are covered.
#[derive(Clone, Debug)]
pub(super) struct Cover {
    /// For each index, one at or behind it: an uncovered index names itself.
    next: Vec<usize>,
}

impl Cover {
    /// Nothing is covered.
    pub(super) fn new(len: usize) -> Self {
        Self { next: (0..=len).collect() }
    }

    pub(super) fn covers(&self, index: usize) -> bool {
        self.next.get(index) != Some(&index)
    }

    /// Covers a range, and tells of each index that was not covered before.
    pub(super) fn add(&mut self, range: &Range<usize>, mut newly: impl FnMut(usize)) {
        let end = range.end.min(self.next.len() - 1);
        let mut index = self.uncovered_from(range.start.min(end));
        while index < end {
            newly(index);
            self.next[index] = index + 1;
            index = self.uncovered_from(index + 1);
        }
    }

    /// The first uncovered index from here on, or the end.
    fn uncovered_from(&mut self, start: usize) -> usize {
        let mut found = start;
        while self.next[found] != found {
            found = self.next[found];
        }
        let mut passed = start;
        while passed != found {
            passed = std::mem::replace(&mut self.next[passed], found);
        }
        found
    }
}

impl Conversation {
    /// Works out what is visible through the blocks in force: what they come to when they are applied
    /// one after the other.
    pub(super) fn look_again(&mut self) {
        let mut hidden = Cover::new(self.recorded.len());
        let mut standing = Vec::new();
        // A summary stands unless a newer block hides it.
        let in_force = self.in_force.clone();
        for block in in_force.iter().rev() {
            let is_shown = |fold: &Fold| !hidden.covers(fold.range.start);
            let folds: Vec<(&Fold, &[Item])> = block.folds().filter(|(fold, _)| is_shown(fold)).collect();
            standing.extend(folds.into_iter().rev());
            hidden_by(block).iter().for_each(|range| hidden.add(range, |_| {}));
        }
        standing.reverse();
        // Of those in one place, the newest comes last.
        standing.sort_by_key(|(fold, _)| fold.anchor);
        let mut summaries = standing.into_iter().peekable();
        self.visible.clear();
        for index in 0..self.recorded.len() {
            if !hidden.covers(index) {
                self.visible.push(Seen::Item(index));
            }
            while let Some((fold, items)) = summaries.next_if(|(fold, _)| fold.anchor <= index) {
                let first = self.summaries.len();
                self.summaries.extend(summaries_of(fold, items));
                self.visible.extend((first..self.summaries.len()).map(Seen::Summary));
            }
        }
        debug_assert!(summaries.next().is_none(), "a summary stands among the items");
    }
}

/// What a block hides, edit by edit.
pub(super) fn hidden_by(block: &CompactionBlock) -> Vec<Range<usize>> {
    let mut hidden = Vec::new();
    for edit in &block.edits {
        match edit {
            Edit::Drop(drop) => hidden.push(drop.range.clone()),
            Edit::Fold(fold) => hidden.extend(fold.folded()),
            Edit::Rewrite(_) => {}
        }
    }
    hidden
}

pub(super) fn summaries_of(fold: &Fold, items: &[Item]) -> impl Iterator<Item = Summary> {
    items.iter().map(|item| Summary {
        item: Arc::new(item.clone()),
        range: fold.range.clone(),
        anchor: fold.anchor,
        is_alone: items.len() == 1,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn each_index_is_covered_once(ranges in prop::collection::vec((0usize..40, 0usize..40), 0..20)) {
            let (mut cover, mut plain) = (Cover::new(30), vec![false; 30]);
            for (start, length) in ranges {
                let mut newly = Vec::new();
                cover.add(&(start..start + length), |index| newly.push(index));
                let expected: Vec<usize> = (start..start + length).filter(|&index| plain.get(index) == Some(&false)).collect();
                prop_assert_eq!(newly, expected.clone());
                expected.into_iter().for_each(|index| plain[index] = true);
                prop_assert!((0..30).all(|index| cover.covers(index) == plain[index]));
            }
        }
    }
}
