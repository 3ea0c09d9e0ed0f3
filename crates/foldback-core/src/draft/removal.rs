//! Removing parts: reasoning, and calls together with their results.

use smallvec::SmallVec;

use super::{Draft, EmptyItems, PartPlace, Slot};
use crate::edit::Reason;
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::part::Part;
use crate::sequence::{Failure, Mark};

impl Draft<'_> {
    /// Removes the reasoning at `position`, unless the item is protected or in the loop in flight.
    /// Returns whether there was any.
    pub fn remove_reasoning(&mut self, position: usize, empty_items: EmptyItems, reason: &Reason) -> bool {
        let Some(mark) = self.view.mark(position).filter(|_| self.is_live(position)) else { return false };
        let is_fixed = mark.holds.contains(Holds::PIN)
            || self.newest_user == Some(position)
            || self.loop_in_flight.contains(&position);
        if is_fixed || self.is_thoughtless(position) || !mark.holds.contains(Holds::REASONING) {
            return false;
        }
        if self.has_lines() && self.holds_line(position) {
            return false;
        }
        if mark.holds.contains(Holds::REASONING_LAST) {
            // It may have been all that tied this item to the next.
            self.is_loosened[self.view.unit_start(position)] = true;
        }
        let reason = self.intern_shared(reason);
        let change_count = self.change_count;
        if self.slots[position] == Slot::Live && mark.tokens().is_some() {
            self.hide(position, Slot::Thoughtless(reason));
            self.tokens += mark.tokens_without_reasoning();
        } else {
            self.remove_each_reasoning(position, reason);
        }
        let is_changed = self.change_count > change_count;
        if is_changed && empty_items == EmptyItems::Drop && self.tokens_at(position) == Tokens::ZERO {
            self.hide(position, Slot::Dropped(reason));
        }
        is_changed
    }

    fn remove_each_reasoning(&mut self, position: usize, reason: u32) {
        let Some(entry) = self.view.get(position) else { return };
        for part_index in 0..entry.part_count() {
            if entry.is_reasoning(part_index) && !self.is_removed(position, part_index) {
                self.change(self.place(position, part_index), 0, None, reason);
            }
        }
    }

    /// Removes a failed result and its call, which the view has found and counted already, together with
    /// thinking that would be left with nothing after it. Returns whether it did.
    pub(crate) fn remove_failure(
        &mut self,
        failure: Failure,
        empty_items: EmptyItems,
        reason: &Reason,
    ) -> bool {
        let Some(call) = failure.call() else { return false };
        let (position, part_index) = failure.result();
        let call = PartPlace { position: call.0, part_index: call.1, view_tokens: failure.call_tokens };
        let result = PartPlace { position, part_index, view_tokens: failure.result_tokens };
        self.remove_places(call, result, empty_items, reason)
    }

    /// Removes a failed result that belongs to no call. Returns whether it did.
    pub(crate) fn remove_stray_failure(
        &mut self,
        position: usize,
        part_index: usize,
        empty_items: EmptyItems,
        reason: &Reason,
    ) -> bool {
        let part = self.view.get(position).and_then(|entry| entry.item().parts.get(part_index));
        let has_failed = matches!(part, Some(Part::ToolResult(result)) if result.is_error);
        if !has_failed || self.is_fixed(position) {
            return false;
        }
        let reason = self.intern_shared(reason);
        self.change(self.place(position, part_index), 0, None, reason);
        if empty_items == EmptyItems::Drop && self.tokens_at(position) == Tokens::ZERO {
            self.hide(position, Slot::Dropped(reason));
        }
        true
    }

    fn remove_places(
        &mut self,
        call: PartPlace,
        result: PartPlace,
        empty_items: EmptyItems,
        reason: &Reason,
    ) -> bool {
        let is_fixed = self.is_fixed(call.position) || self.is_fixed(result.position);
        if is_fixed || self.strands_thinking(call) {
            return false;
        }
        let reason = self.intern_shared(reason);
        for place in [call, result] {
            if empty_items == EmptyItems::Drop && self.is_little_else(place) {
                self.hide(place.position, Slot::Dropped(reason));
            } else {
                self.change(place, 0, None, reason);
            }
        }
        self.remove_trailing_reasoning(call.position, reason);
        let unit_start = self.view.unit_start(call.position);
        self.is_loosened[unit_start] = true;
        // Thinking recorded as an item of its own goes with what it led to.
        let mut emptied: SmallVec<[usize; 3]> = SmallVec::from_slice(&[call.position, result.position]);
        while self.tokens_at(emptied[0]) == Tokens::ZERO
            && let Some(before) = emptied[0].checked_sub(1)
            && self.view.unit_start(before) == unit_start
            && !self.is_fixed(before)
        {
            self.remove_trailing_reasoning(before, reason);
            emptied.insert(0, before);
        }
        for position in emptied {
            let is_empty = self.is_live(position) && self.tokens_at(position) == Tokens::ZERO;
            if empty_items == EmptyItems::Drop && is_empty {
                self.hide(position, Slot::Dropped(reason));
            }
        }
        true
    }

    /// Whether pairs may not be removed from the item at `position`.
    fn is_fixed(&self, position: usize) -> bool {
        !self.is_live(position)
            || self.is_protected(position)
            || self.loop_in_flight.contains(&position)
            || (self.has_lines() && self.holds_line(position))
    }

    /// Whether thinking that stays, recorded as an item of its own, led to this call and nothing else
    /// in its item: without the call a provider would reject it.
    fn strands_thinking(&self, call: PartPlace) -> bool {
        let mut next = call.position;
        if self.view.unit_start(next) == next || !self.is_little_else(call) {
            return false;
        }
        let before: SmallVec<[usize; 4]> =
            self.view.unit_members(next).take_while(|&member| member < call.position).collect();
        for position in before.into_iter().rev().filter(|&position| self.is_live(position)) {
            if !self.is_thinking_about(position, next) {
                return false;
            }
            if self.is_fixed(position) {
                return true;
            }
            next = position;
        }
        false
    }

    /// Whether an item is this part and at most thinking that led to it.
    fn is_little_else(&self, PartPlace { position, part_index, .. }: PartPlace) -> bool {
        match self.slots[position] {
            Slot::Live | Slot::Thoughtless(_) => {
                self.view.mark(position).is_some_and(Mark::is_half_of_a_pair)
            }
            Slot::Rewritten(_) | Slot::Dropped(_) | Slot::Folded(_) => {
                let Some(entry) = self.view.get(position) else { return false };
                let is_gone = |other: usize| {
                    other == part_index || entry.is_reasoning(other) || self.is_removed(position, other)
                };
                (0..entry.part_count()).all(is_gone)
            }
        }
    }

    fn remove_trailing_reasoning(&mut self, position: usize, reason: u32) {
        let thinks = self.view.mark(position).is_some_and(|mark| mark.holds.contains(Holds::REASONING));
        if !thinks || !self.is_live(position) || self.is_thoughtless(position) {
            return;
        }
        let Some(entry) = self.view.get(position) else { return };
        for part_index in (0..entry.part_count()).rev() {
            if !self.is_removed(position, part_index) {
                if !entry.is_reasoning(part_index) {
                    break;
                }
                self.change(self.place(position, part_index), 0, None, reason);
            }
        }
    }
}
