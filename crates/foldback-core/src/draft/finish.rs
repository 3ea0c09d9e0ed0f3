//! Turning what became of each position into the edits of a plan.

use std::ops::Range;

use super::{Draft, PartChange, PendingRewrite, Slot};
use crate::edit::{Drop, Edit, Fold, Rewrite};
use crate::handle::Handle;
use crate::holds::Holds;
use crate::plan::{BudgetInfeasible, Plan};
use crate::sequence::Entry;
use crate::view::View;

/// The summaries that a view shows: where they stand, and the indices that name them, both in order.
struct Summaries {
    positions: Vec<usize>,
    names: Vec<usize>,
}

impl Summaries {
    fn of(view: &View) -> Self {
        let positions: Vec<usize> = view.holding(0..view.len(), Holds::SUMMARY).collect();
        let entries = positions.iter().filter_map(|&position| view.get(position));
        let mut names: Vec<usize> = entries.map(|entry| entry.span().start).collect();
        names.sort_unstable();
        names.dedup();
        Self { positions, names }
    }
}

/// The numbers of a sorted list that lie in `range`.
fn within(sorted: &[usize], range: Range<usize>) -> &[usize] {
    let place = |number: usize| sorted.partition_point(|&other| other < number);
    &sorted[place(range.start)..place(range.end)]
}

impl Draft<'_> {
    /// Ends the draft: its edits in order of the transcript, or the reason why there can be none.
    pub(crate) fn finish(self, strategy: String) -> Result<Plan, BudgetInfeasible> {
        if let Some(infeasible) = self.infeasible {
            return Err(infeasible);
        }
        let mut edits = Vec::new();
        let mut first_changed = self.slots.iter().position(|slot| *slot != Slot::Live);
        let mut emitted = vec![false; self.folds.len()];
        let summaries = Summaries::of(self.view);
        let mut position = 0;
        while position < self.len() {
            let slot = self.slots[position];
            let run = self.slots[position..].iter().take_while(|&&other| other == slot).count();
            match slot {
                Slot::Live => {}
                Slot::Thoughtless(reason) => {
                    (position..position + run)
                        .for_each(|position| self.push_rewrites(&mut edits, position, &[], Some(reason)));
                }
                Slot::Rewritten(rewrite) => {
                    let PendingRewrite { changes, thoughtless, .. } = &self.rewrites[rewrite as usize];
                    self.push_rewrites(&mut edits, position, changes, *thoughtless);
                }
                Slot::Dropped(reason) => {
                    let dropped = self.dropped(position..position + run, &summaries);
                    let reason = &self.reasons[reason as usize];
                    let drop = |range: Range<usize>| Edit::Drop(Drop { range, reason: reason.clone() });
                    edits.extend(dropped.into_iter().map(drop));
                }
                Slot::Folded(id) if !std::mem::replace(&mut emitted[id as usize], true) => {
                    // It may stand before everything that goes.
                    let (fold, stands_at) = self.fold_edit(id);
                    first_changed = first_changed.map(|first| first.min(stands_at));
                    edits.push(Edit::Fold(fold));
                }
                Slot::Folded(_) => {}
            }
            position += run;
        }
        Ok(Plan::new(self.view.clone(), edits, self.tokens, first_changed, strategy))
    }

    fn anchor(&self, position: usize) -> usize {
        self.view.get(position).map_or(0, Entry::anchor)
    }

    fn span(&self, position: usize) -> Range<usize> {
        self.view.get(position).map_or(0..0, Entry::span)
    }

    /// The indices that name the entries at `positions`. A summary may stand away from the index
    /// that names it: inside a range of items, that index is left out.
    fn dropped(&self, positions: Range<usize>, summaries: &Summaries) -> Vec<Range<usize>> {
        let mut dropped = Vec::new();
        let mut first = positions.start;
        let among = within(&summaries.positions, positions.clone());
        for &end in among.iter().chain([&positions.end]) {
            if first < end {
                let (mut start, last) = (self.anchor(first), self.anchor(end - 1));
                for &name in within(&summaries.names, start..last) {
                    dropped.push(start..name);
                    start = name + 1;
                }
                dropped.push(start..last + 1);
            }
            if end < positions.end {
                let name = self.span(end).start;
                dropped.push(name..name + 1);
            }
            first = end + 1;
        }
        dropped.retain(|range| !range.is_empty());
        dropped
    }

    fn push_rewrites(
        &self,
        edits: &mut Vec<Edit>,
        position: usize,
        changes: &[PartChange],
        thoughtless: Option<u32>,
    ) {
        let Some(entry) = self.view.get(position) else { return };
        for part_index in 0..entry.part_count() {
            let change = changes.iter().find(|change| change.part_index as usize == part_index);
            match (change, thoughtless) {
                (Some(change), _) => edits.push(self.rewrite_edit(entry, change)),
                (None, Some(reason)) if entry.is_reasoning(part_index) => {
                    let part_index = part_index as u32;
                    let removal = PartChange { part_index, tokens: 0, reason, replacement: None };
                    edits.push(self.rewrite_edit(entry, &removal));
                }
                (None, _) => {}
            }
        }
    }

    fn rewrite_edit(&self, entry: &Entry, change: &PartChange) -> Edit {
        let part_index = entry.recorded_part(change.part_index as usize);
        Edit::Rewrite(Rewrite {
            item_index: entry.anchor(),
            part_index,
            replacement: change.replacement.as_deref().cloned(),
            tokens: change.tokens,
            handle: Handle::of_part(entry.anchor(), &entry.item().id, part_index),
            reason: self.reasons[change.reason as usize].clone(),
        })
    }

    /// The transcript indices from the first to the last that a fold hides. A summary that is taken
    /// in brings along everything it stood for; any other item stands for itself.
    fn covered(&self, id: u32) -> Range<usize> {
        let is_summary = |position: &usize| {
            self.view.mark(*position).is_some_and(|mark| mark.holds.contains(Holds::SUMMARY))
        };
        // Items stand in order of the transcript; a summary may stand anywhere behind what it is for.
        let mut items = self.fold_positions(id).filter(|position| !is_summary(position));
        let ends = [items.next(), items.next_back()];
        let members = ends.into_iter().flatten().chain(self.fold_positions(id).filter(is_summary));
        let spans = members.map(|position| self.span(position));
        spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    /// The anchor of a summary that stands at a position. Of two with one anchor the older comes first, so
    /// before a summary that stays it is the index before, where nothing else stands.
    fn free_anchor(&self, anchor: usize, stands_at: usize) -> usize {
        let is_taken = |position: Option<usize>| position.is_some_and(|other| self.anchor(other) == anchor);
        let before = (0..stands_at).rev().find(|&position| self.is_live(position));
        let behind = (stands_at..self.len()).find(|&position| self.is_live(position));
        match is_taken(behind) && !is_taken(before) {
            true => anchor.saturating_sub(1),
            false => anchor,
        }
    }

    /// The edit, and the first position that its summary changes.
    fn fold_edit(&self, id: u32) -> (Fold, usize) {
        let fold = &self.folds[id as usize];
        let Range { start, end } = self.covered(id);
        let stands = fold.given_after.or_else(|| self.summary_position(id, fold.spec.placement));
        let (anchor, stands_at) = match stands {
            Some(position) => {
                let stands_at = position + usize::from(self.is_live(position));
                (self.free_anchor(self.anchor(position), stands_at), stands_at)
            }
            None => (start, self.view.position_of_anchor(start)),
        };
        let mut holes: Vec<Range<usize>> = Vec::new();
        // Visible items between the members, and those that summaries taken in left visible.
        let stays = self.view.iter().zip(&self.slots).filter(|(_, slot)| **slot != Slot::Folded(id));
        let names = stays.map(|(entry, _)| entry.span().start);
        let mut names: Vec<usize> = names.filter(|name| (start..end).contains(name)).collect();
        names.sort_unstable();
        names.dedup();
        for index in names {
            match holes.last_mut() {
                Some(hole) if hole.end == index => hole.end = index + 1,
                _ => holes.push(index..index + 1),
            }
        }
        let place = |index: usize| {
            let entry = self.view.transcript().get(index).expect("a fold lies within the transcript");
            (index, &entry.item().id)
        };
        let handle = Handle::of_range(place(start), place(end - 1));
        let edit = Fold {
            range: start..end,
            holes,
            anchor,
            spec: fold.spec.clone(),
            handle,
            tokens_before: fold.tokens_before,
            reason: self.reasons[fold.reason as usize].clone(),
        };
        (edit, stands_at)
    }
}
