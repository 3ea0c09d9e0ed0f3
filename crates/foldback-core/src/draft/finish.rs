//! Turning what became of each position into the edits of a plan.

use std::ops::Range;

use super::{Draft, PartChange, PendingRewrite, Slot};
use crate::edit::{Drop, Edit, Fold, Rewrite};
use crate::handle::Handle;
use crate::plan::{BudgetInfeasible, Plan};
use crate::sequence::{Entry, Holds};

impl Draft<'_> {
    /// Ends the draft: its edits in order of the transcript, or the reason why there can be none.
    pub(crate) fn finish(self, strategy: String) -> Result<Plan, BudgetInfeasible> {
        if let Some(infeasible) = self.infeasible {
            return Err(infeasible);
        }
        let mut edits = Vec::new();
        let mut first_changed = self.slots.iter().position(|slot| *slot != Slot::Live);
        let mut emitted = vec![false; self.folds.len()];
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
                Slot::Dropped(reason) => edits.push(self.drop_edit(position..position + run, reason)),
                Slot::Folded(id) if !std::mem::replace(&mut emitted[id as usize], true) => {
                    let fold = self.fold_edit(id);
                    // A summary that is taken in may have stood behind items it covers the start of.
                    let stands_at = self.view.position_of_anchor(fold.anchor);
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

    fn drop_edit(&self, positions: Range<usize>, reason: u32) -> Edit {
        let range = self.anchor(positions.start)..self.anchor(positions.end - 1) + 1;
        Edit::Drop(Drop { range, reason: self.reasons[reason as usize].clone() })
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
        let ends = [self.fold_positions(id).next(), self.fold_positions(id).next_back()];
        let members = ends.into_iter().flatten().chain(self.fold_positions(id).filter(is_summary));
        let spans = members.filter_map(|position| self.view.get(position)).map(Entry::span);
        spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    fn fold_edit(&self, id: u32) -> Fold {
        let fold = &self.folds[id as usize];
        let Range { start, end } = self.covered(id);
        let stands_at = self.summary_position(id, fold.spec.placement);
        let mut holes: Vec<Range<usize>> = Vec::new();
        // Visible items between the members, and those that summaries taken in left visible.
        for (position, entry) in self.view.iter().enumerate() {
            if self.slots[position] == Slot::Folded(id) || !(start..end).contains(&entry.anchor()) {
                continue;
            }
            let anchor = entry.anchor();
            match holes.last_mut() {
                Some(hole) if hole.end == anchor => hole.end = anchor + 1,
                _ => holes.push(anchor..anchor + 1),
            }
        }
        let place = |index: usize| {
            let entry = self.view.transcript().get(index).expect("a fold lies within the transcript");
            (index, &entry.item().id)
        };
        let handle = Handle::of_range(place(start), place(end - 1));
        Fold {
            range: start..end,
            holes,
            anchor: stands_at.map_or(start, |position| self.anchor(position)),
            spec: fold.spec.clone(),
            handle,
            tokens_before: fold.tokens_before,
            reason: self.reasons[fold.reason as usize].clone(),
        }
    }
}
