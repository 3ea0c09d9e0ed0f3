//! Which items of a draft may be hidden together: units as they are now, and where a summary may
//! stand between them.

use std::collections::BTreeSet;
use std::ops::Range;

use smallvec::SmallVec;

use super::Draft;
use crate::holds::Holds;
use crate::ids::{CallId, Tokens};
use crate::item::ItemKind;
use crate::part::Part;

type Members = SmallVec<[usize; 4]>;

impl Draft<'_> {
    /// The first and the last member of the unit that `position` belongs to now.
    pub(crate) fn unit_ends(&self, position: usize) -> (usize, usize) {
        match self.regrouped(position).as_deref() {
            Some([start, .., last]) => (*start, *last),
            Some(_) => (position, position),
            None => self.view.unit_ends(position),
        }
    }

    /// Every member of the unit that `position` belongs to now.
    pub(crate) fn unit_members(&self, position: usize) -> impl Iterator<Item = usize> + use<> {
        let members = self.regrouped(position);
        members.unwrap_or_else(|| self.view.unit_members(position).collect()).into_iter()
    }

    /// The members of a live item's unit, paired again from what is left of it, if a pair or thinking
    /// was removed: without it a unit may fall apart, as it will in the next view. Done when asked for,
    /// because most units that lose something are hidden without a question.
    fn regrouped(&self, position: usize) -> Option<Members> {
        if !self.is_loosened.get(self.view.unit_start(position)).is_some_and(|&is_loosened| is_loosened) {
            return None;
        }
        let members: Members =
            self.view.unit_members(position).filter(|&member| self.is_live(member)).collect();
        let place = members.iter().position(|&member| member == position)?;
        let mut groups: SmallVec<[usize; 4]> = (0..members.len()).collect();
        let mut merge = |a: usize, b: usize| {
            let (from, to) = (groups[a].max(groups[b]), groups[a].min(groups[b]));
            groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
        };
        let mut open: SmallVec<[(&CallId, usize); 4]> = SmallVec::new();
        for (place, &member) in members.iter().enumerate() {
            let before = members[..place].iter().rposition(|&earlier| self.is_spoken(earlier));
            if let Some(before) = before.filter(|&before| self.is_thinking_about(members[before], member)) {
                merge(before, place);
            }
            for (_, part) in self.parts(member) {
                if let Part::ToolCall(call) = part {
                    open.push((&call.id, place));
                } else if let Part::ToolResult(result) = part
                    && let Some(newest) = open.iter().rposition(|(call_id, _)| **call_id == result.call_id)
                {
                    merge(open.remove(newest).1, place);
                }
            }
        }
        let is_together = |other: &usize| groups[*other] == groups[place];
        Some((0..members.len()).filter(is_together).map(|other| members[other]).collect())
    }

    /// Whether an item ends in thinking that belongs to the assistant item after it.
    pub(super) fn is_thinking_about(&self, thought: usize, next: usize) -> bool {
        let is_assistant = |position: usize| {
            self.view.get(position).is_some_and(|entry| entry.kind() == ItemKind::Assistant)
        };
        is_assistant(thought)
            && is_assistant(next)
            && (thought + 1..next).all(|between| !self.is_spoken(between))
            && self.ends_in_thinking(thought)
    }

    /// Whether an item ends in thinking, which must not be parted from what it leads to.
    pub(super) fn ends_in_thinking(&self, position: usize) -> bool {
        matches!(self.parts(position).last(), Some((_, Part::Reasoning(_))))
    }

    /// Whether what stands at `position` now comes between the items around it wherever it is sent.
    fn is_spoken(&self, position: usize) -> bool {
        self.is_live(position)
            && self.view.get(position).is_some_and(|entry| !entry.kind().is_instruction())
            && self.tokens_at(position) > Tokens::ZERO
    }

    /// Positions of whole units inside `range` that nothing forbids to hide: live, not protected,
    /// no summary, and no member for which `keep` holds. Items without parts cost nothing and are
    /// left where they are.
    pub fn hideable(&self, range: Range<usize>, keep: impl Fn(usize, ItemKind) -> bool) -> Vec<usize> {
        let free_ranges = self.free_ranges(range, keep);
        let mut hideable = Vec::with_capacity(free_ranges.iter().map(Range::len).sum());
        for free in free_ranges {
            self.view.marks(free.clone()).enumerate().for_each(|(offset, mark)| {
                if self.tokens_of(free.start + offset, mark) > Tokens::ZERO {
                    hideable.push(free.start + offset);
                }
            });
        }
        hideable
    }

    /// What lies between the positions of `range` that stay. Whatever is live in there and costs
    /// something may be hidden.
    pub(super) fn free_ranges(
        &self,
        range: Range<usize>,
        keep: impl Fn(usize, ItemKind) -> bool,
    ) -> Vec<Range<usize>> {
        let range = range.start..range.end.min(self.len());
        let staying = self.staying(range.clone(), keep);
        let starts = std::iter::once(range.start).chain(staying.iter().map(|&position| position + 1));
        let ends = staying.iter().copied().chain([range.end]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|free| !free.is_empty()).collect()
    }

    /// Positions of `range` that stay because they are kept, or members of a unit that is kept or
    /// torn, in order.
    fn staying(&self, range: Range<usize>, keep: impl Fn(usize, ItemKind) -> bool) -> Vec<usize> {
        // A unit that crosses an end of the range lies between the legal cuts around it.
        let untorn = self.view.cut_at_or_after(range.start)..self.view.cut_at_or_before(range.end);
        let mut units = BTreeSet::new();
        let mut staying = Vec::new();
        self.view.marks(range.clone()).enumerate().for_each(|(offset, mark)| {
            let position = range.start + offset;
            let is_kept = mark.holds.intersects(Holds::SUMMARY | Holds::PIN)
                || self.newest_user == Some(position)
                || self.unit_in_flight.contains(&position)
                || keep(position, mark.kind);
            let may_stay = is_kept || !untorn.contains(&position);
            if !may_stay || self.tokens_of(position, mark) == Tokens::ZERO {
                return;
            }
            if is_kept {
                staying.push(position);
            }
            let (start, last) = self.unit_ends(position);
            let is_torn = start < range.start || last >= range.end;
            if start != last && (is_torn || is_kept) && units.insert(start) {
                staying.extend(self.unit_members(position).filter(|member| range.contains(member)));
            }
        });
        staying.sort_unstable();
        staying.dedup();
        staying
    }

    /// Whether a cut before `position` splits no unit that is left.
    pub(crate) fn is_cut(&self, position: usize) -> bool {
        let is_between = |before: usize| self.is_between_units(before, |other| self.is_live(other));
        position.checked_sub(1).is_none_or(is_between)
    }

    /// Whether a summary may take the place of `position` or, if that stays, stand directly after it:
    /// no unit that stays has members on both sides.
    pub(super) fn is_between_units(&self, position: usize, stays: impl Fn(usize) -> bool) -> bool {
        let segment = self.view.cut_at_or_before(position)..=position;
        let straddles = |before: usize| {
            let mut members = self.unit_members(before);
            stays(before) && members.any(|member| member > position && stays(member))
        };
        !segment.into_iter().any(straddles)
    }
}
