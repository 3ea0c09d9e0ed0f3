//! Which items of a draft may be hidden together: units as they are now, and where a summary may
//! stand between them.

use std::collections::BTreeSet;
use std::ops::Range;

use smallvec::SmallVec;

use super::Draft;
use crate::ids::{CallId, Tokens};
use crate::item::ItemKind;
use crate::part::Part;
use crate::sequence::Holds;

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

    /// The members of a live item's unit, paired again from what is left of it, if a pair was
    /// removed: without it a unit may fall apart, as it will in the next view. Done when asked for,
    /// because most units that lose a pair are hidden without a question.
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
            if place > 0 && self.is_thinking_about(members[place - 1], member) {
                merge(place - 1, place);
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
    fn is_thinking_about(&self, thought: usize, next: usize) -> bool {
        let is_assistant = |position: usize| {
            self.view.get(position).is_some_and(|entry| entry.kind() == ItemKind::Assistant)
        };
        is_assistant(thought)
            && is_assistant(next)
            && (thought + 1..next).all(|between| !self.is_live(between))
            && matches!(self.parts(thought).last(), Some((_, Part::Reasoning(_))))
    }

    /// Positions of whole units inside `range` that nothing forbids to hide: live, not protected,
    /// no summary, and no member for which `keep` holds. Items without parts cost nothing and are
    /// left where they are.
    pub fn hideable(&self, range: Range<usize>, keep: impl Fn(usize, ItemKind) -> bool) -> Vec<usize> {
        self.hideable_with_tokens(range, keep).0
    }

    /// The same, with what they cost together.
    pub(super) fn hideable_with_tokens(
        &self,
        range: Range<usize>,
        keep: impl Fn(usize, ItemKind) -> bool,
    ) -> (Vec<usize>, Tokens) {
        let range = range.start..range.end.min(self.len());
        // A unit that crosses an end of the range lies between the legal cuts around it.
        let untorn = self.view.cut_at_or_after(range.start)..self.view.cut_at_or_before(range.end);
        let mut kept_units = BTreeSet::new();
        let mut free = Vec::with_capacity(range.len());
        let mut free_tokens = Tokens::ZERO;
        for (position, mark) in range.clone().zip(self.view.marks(range.clone())) {
            let tokens = self.tokens_of(position, mark);
            if tokens == Tokens::ZERO {
                continue;
            }
            let is_kept = mark.holds.intersects(Holds::SUMMARY | Holds::PIN)
                || self.newest_user == Some(position)
                || self.unit_in_flight.contains(&position)
                || keep(position, mark.kind);
            if is_kept || !untorn.contains(&position) {
                let (start, last) = self.unit_ends(position);
                let is_torn = start < range.start || last >= range.end;
                if start != last && (is_torn || is_kept) {
                    kept_units.insert(start);
                }
            }
            if !is_kept {
                free.push(position);
                free_tokens += tokens;
            }
        }
        if let Some(&first_kept) = kept_units.first() {
            let after = free.split_off(free.partition_point(|&position| position < first_kept));
            for position in after {
                if kept_units.contains(&self.unit_ends(position).0) {
                    free_tokens = free_tokens.saturating_sub(self.tokens_at(position));
                } else {
                    free.push(position);
                }
            }
        }
        (free, free_tokens)
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
