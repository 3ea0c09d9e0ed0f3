//! Turning what became of each position into the edits of a plan.

use std::ops::Range;

use super::{Draft, PartChange, Slot};
use crate::edit::{Drop, Edit, Fold, Rewrite};
use crate::handle::Handle;
use crate::plan::{BudgetInfeasible, Plan};
use crate::sequence::Entry;

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
                        .for_each(|position| self.push_removals(&mut edits, position, reason));
                }
                Slot::Rewritten(rewrite) => self.push_rewrites(&mut edits, position, rewrite),
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

    fn push_rewrites(&self, edits: &mut Vec<Edit>, position: usize, rewrite: u32) {
        let Some(entry) = self.view.get(position) else { return };
        let mut changes: Vec<&PartChange> = self.rewrites[rewrite as usize].changes.iter().collect();
        changes.sort_by_key(|change| change.part_index);
        edits.extend(changes.into_iter().map(|change| self.rewrite_edit(entry, change)));
    }

    fn push_removals(&self, edits: &mut Vec<Edit>, position: usize, reason: u32) {
        let Some(entry) = self.view.get(position) else { return };
        let reasoning = (0..entry.part_count()).filter(|&part_index| entry.is_reasoning(part_index));
        edits.extend(reasoning.map(|part_index| {
            let part_index = part_index as u32;
            self.rewrite_edit(entry, &PartChange { part_index, tokens: 0, reason, replacement: None })
        }));
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

    fn fold_edit(&self, id: u32) -> Fold {
        let fold = &self.folds[id as usize];
        let spans = |position: usize| self.view.get(position).map_or(0..0, Entry::span);
        // A summary that is taken in brings along everything it stood for.
        let covered =
            self.fold_positions(id).map(spans).reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        let Range { start, end } = covered.unwrap_or(0..0);
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
