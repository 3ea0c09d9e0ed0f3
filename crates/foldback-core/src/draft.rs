//! A view being edited by strategies.
//!
//! The draft is where the rules hold whatever a strategy asks for: pins, the newest user item and
//! the unit in flight stay (T4), units go whole or not at all (T2), reasoning of the loop in flight
//! is untouched, and nothing is proposed that saves no tokens (T7). Positions are positions of the
//! view it was made from and never shift; what has been hidden is simply not live any more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use smallvec::SmallVec;

use crate::budget::Budget;
use crate::edit::{Drop, Edit, Fold, Reason, Rewrite, SummaryPlacement, SummarySpec};
use crate::handle::Handle;
use crate::ids::{CallId, Tokens};
use crate::item::{Item, ItemKind};
use crate::part::Part;
use crate::plan::{BudgetInfeasible, Plan};
use crate::sequence::{Entry, Holds};
use crate::strategy::Strategy;
use crate::summary::SUMMARY_TOKENS_MIN;
use crate::transcript::Meter;
use crate::view::View;

/// A view being edited. See the module for what it guarantees.
#[derive(Debug)]
pub struct Draft<'v> {
    view: &'v View,
    slots: Vec<Slot>,
    rewrites: Vec<PendingRewrite>,
    folds: Vec<PendingFold>,
    reasons: Vec<Reason>,
    tokens: Tokens,
    unit_in_flight: Range<usize>,
    loop_in_flight: Range<usize>,
    newest_user: Option<usize>,
    /// First and last member of the units that removed pairs have changed.
    regrouped: BTreeMap<usize, (usize, usize)>,
    change_count: u64,
    infeasible: Option<BudgetInfeasible>,
}

/// Runs of one strategy over one draft.
const PASSES_MAX: usize = 8;

/// What has become of a position; numbers index into the draft's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Live,
    Rewritten(u32),
    Dropped(u32),
    Folded(u32),
}

#[derive(Debug)]
struct PendingRewrite {
    tokens: Tokens,
    changes: SmallVec<[PartChange; 1]>,
}

#[derive(Debug)]
struct PartChange {
    part_index: u32,
    tokens: u32,
    reason: u32,
    replacement: Option<Box<Part>>,
}

#[derive(Debug)]
struct PendingFold {
    spec: SummarySpec,
    tokens_before: Tokens,
    reason: u32,
}

/// What to do with an item that has no parts left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyItems {
    /// Drop it.
    Drop,
    /// Keep it; it is recorded, and never sent.
    Keep,
}

impl<'v> Draft<'v> {
    /// A draft of `view` with nothing edited. Costs a few bytes per visible item.
    pub fn new(view: &'v View) -> Self {
        let nowhere = view.len()..view.len();
        Self {
            view,
            slots: vec![Slot::Live; view.len()],
            rewrites: Vec::new(),
            folds: Vec::new(),
            reasons: Vec::new(),
            tokens: view.tokens(),
            unit_in_flight: view.unit_in_flight().unwrap_or(nowhere.clone()),
            loop_in_flight: view.loop_in_flight().unwrap_or(nowhere),
            newest_user: view.newest_user(),
            regrouped: BTreeMap::new(),
            change_count: 0,
            infeasible: None,
        }
    }

    /// The view being edited, as it was.
    pub fn view(&self) -> &'v View {
        self.view
    }

    /// What counts tokens.
    pub fn meter(&self) -> &'v Meter {
        self.view.transcript().meter()
    }

    /// How many positions there are, live or not.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the view was empty to begin with.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What the draft costs now, asked-for summaries at their full size.
    pub fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// What the whole transcript costs, hidden items included: fractions are fractions of this (T7).
    pub fn raw_tokens(&self) -> Tokens {
        self.view.transcript().tokens()
    }

    /// Whether the item at `position` is still visible.
    pub fn is_live(&self, position: usize) -> bool {
        matches!(self.slots.get(position), Some(Slot::Live | Slot::Rewritten(_)))
    }

    /// Whether parts of the item at `position` have been rewritten in this draft, so that what the
    /// view knows about them is out of date.
    pub fn is_rewritten(&self, position: usize) -> bool {
        matches!(self.slots.get(position), Some(Slot::Rewritten(_)))
    }

    /// What the item at `position` costs now; nothing if it is hidden.
    pub fn tokens_at(&self, position: usize) -> Tokens {
        self.view.get(position).map_or(Tokens::ZERO, |entry| self.tokens_of(position, entry))
    }

    fn tokens_of(&self, position: usize, entry: &Entry) -> Tokens {
        match self.slots[position] {
            Slot::Live => entry.tokens().total,
            Slot::Rewritten(rewrite) => self.rewrites[rewrite as usize].tokens,
            Slot::Dropped(_) | Slot::Folded(_) => Tokens::ZERO,
        }
    }

    /// Live positions in order, with what was there before any edit.
    pub fn live(&self) -> impl Iterator<Item = (usize, &'v Entry)> + '_ {
        self.view.iter().enumerate().filter(|&(position, _)| self.is_live(position))
    }

    /// Live positions from the newest back.
    pub fn live_rev(&self) -> impl Iterator<Item = (usize, &'v Entry)> + '_ {
        let positions = (0..self.len()).rev();
        positions.zip(self.view.iter().rev()).filter(|&(position, _)| self.is_live(position))
    }

    /// Live user items: where turns start now.
    pub fn turn_starts(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.view.turn_starts().filter(|&position| self.is_live(position))
    }

    /// Everything about the item at `position` that no edit changes.
    pub fn item(&self, position: usize) -> Option<&'v Item> {
        self.view.get(position).map(|entry| &**entry.item())
    }

    /// The parts at `position` as they are now, with their index in the view.
    pub fn parts(&self, position: usize) -> impl Iterator<Item = (usize, &Part)> {
        let changes = self.changes(position);
        let parts = match self.is_live(position) {
            true => self.view.get(position).map_or(&[][..], |entry| &entry.item().parts),
            false => &[],
        };
        parts.iter().enumerate().filter_map(move |(part_index, part)| {
            match changes.iter().find(|change| change.part_index as usize == part_index) {
                None => Some((part_index, part)),
                Some(change) => Some((part_index, change.replacement.as_deref()?)),
            }
        })
    }

    /// The handle under which a part is recalled once it has been rewritten.
    pub fn part_handle(&self, position: usize, part_index: usize) -> Handle {
        let entry = self.view.get(position).expect("strategies take positions from the draft");
        Handle::of_part(entry.anchor(), &entry.item().id, entry.recorded_part(part_index))
    }

    /// What a part costs now.
    pub fn part_tokens(&self, position: usize, part_index: usize) -> u32 {
        let mut changes = self.changes(position).iter();
        if let Some(change) = changes.find(|change| change.part_index as usize == part_index) {
            return change.tokens;
        }
        let tokens = self.view.get(position).and_then(|entry| entry.tokens().parts.get(part_index));
        tokens.copied().unwrap_or(0)
    }

    /// The loop in flight; empty if there is none.
    pub fn loop_in_flight(&self) -> Range<usize> {
        self.loop_in_flight.clone()
    }

    /// The unit in flight; empty if there is none.
    pub fn unit_in_flight(&self) -> Range<usize> {
        self.unit_in_flight.clone()
    }

    /// Whether T4 keeps the item at `position`: a pin, the newest user item, the unit in flight.
    pub fn is_protected(&self, position: usize) -> bool {
        self.newest_user == Some(position)
            || self.unit_in_flight.contains(&position)
            || self.is_pinned(position)
    }

    fn is_pinned(&self, position: usize) -> bool {
        self.view.get(position).is_some_and(|entry| entry.holds().contains(Holds::PIN))
    }

    /// The first and the last member of the unit that `position` belongs to now.
    pub(crate) fn unit_ends(&self, position: usize) -> (usize, usize) {
        self.regrouped.get(&position).copied().unwrap_or_else(|| self.view.unit_ends(position))
    }

    /// Every member of the unit that `position` belongs to now.
    pub(crate) fn unit_members(&self, position: usize) -> impl Iterator<Item = usize> + '_ {
        let (start, last) = self.unit_ends(position);
        (start..=last).filter(move |&member| self.unit_ends(member).0 == start)
    }

    /// Pairs a unit again from what is left of it: without a pair that was removed it may fall
    /// apart, as it will in the next view.
    fn regroup(&mut self, position: usize) {
        let members: SmallVec<[usize; 4]> =
            self.view.unit_members(position).filter(|&member| self.is_live(member)).collect();
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
        drop(open);
        for (place, &group) in groups.iter().enumerate() {
            let last = groups.iter().rposition(|&other| other == group).unwrap_or(place);
            self.regrouped.insert(members[place], (members[group], members[last]));
        }
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
    pub fn hideable(&self, range: Range<usize>, keep: impl Fn(usize, &Entry) -> bool) -> Vec<usize> {
        let range = range.start..range.end.min(self.len());
        // A unit that crosses an end of the range lies between the legal cuts around it.
        let untorn = self.view.cut_at_or_after(range.start)..self.view.cut_at_or_before(range.end);
        let mut kept_units = BTreeSet::new();
        let mut free = Vec::with_capacity(range.len());
        for (position, entry) in range.clone().zip(self.view.range(range.clone())) {
            if self.tokens_of(position, entry) == Tokens::ZERO {
                continue;
            }
            let is_kept = entry.holds().intersects(Holds::SUMMARY | Holds::PIN)
                || self.newest_user == Some(position)
                || self.unit_in_flight.contains(&position)
                || keep(position, entry);
            if is_kept || !untorn.contains(&position) {
                let (start, last) = self.unit_ends(position);
                let is_torn = start < range.start || last >= range.end;
                if start != last && (is_torn || is_kept) {
                    kept_units.insert(start);
                }
            }
            if !is_kept {
                free.push(position);
            }
        }
        if let Some(&first_kept) = kept_units.first() {
            let after = free.split_off(free.partition_point(|&position| position < first_kept));
            let is_kept = |position: usize| kept_units.contains(&self.unit_ends(position).0);
            free.extend(after.into_iter().filter(|&position| !is_kept(position)));
        }
        free
    }

    /// Drops the whole units inside `range` that nothing forbids to hide. Returns how many items.
    pub fn drop_units(
        &mut self,
        range: Range<usize>,
        keep: impl Fn(usize, &Entry) -> bool,
        reason: Reason,
    ) -> usize {
        let dropped = self.hideable(range, keep);
        let freed: Tokens = dropped.iter().map(|&position| self.tokens_at(position)).sum();
        let reason = self.intern(reason);
        dropped.iter().for_each(|&position| self.slots[position] = Slot::Dropped(reason));
        // Holes that earlier steps dropped would cut the range into thousands of edits; this reason
        // is as true of them.
        if let (Some(&first), Some(&last)) = (dropped.first(), dropped.last()) {
            let holes = self.slots[first..=last].iter_mut().filter(|slot| matches!(slot, Slot::Dropped(_)));
            holes.for_each(|slot| *slot = Slot::Dropped(reason));
        }
        self.tokens = self.tokens.saturating_sub(freed);
        self.change_count += dropped.len() as u64;
        dropped.len()
    }

    /// Folds the whole units inside `range` that nothing forbids to hide into one summary.
    ///
    /// Other summaries, stored or asked for earlier in this draft, are taken in: an existing summary
    /// is updated, never stacked. Returns whether it was worth it: there must be something new to
    /// fold, and the fold must save tokens.
    pub fn fold(
        &mut self,
        range: Range<usize>,
        keep: impl Fn(usize, &Entry) -> bool,
        spec: SummarySpec,
        reason: Reason,
    ) -> bool {
        let members = self.hideable(range, keep);
        // What is new must be worth a summary by itself: if taking in an old summary could tip the
        // scales, a fold refused now would be proposed on the next run (T7).
        let mut new_tokens = Tokens::ZERO;
        let is_worth_it = members.iter().any(|&position| {
            new_tokens += self.tokens_at(position);
            new_tokens.0 > SUMMARY_TOKENS_MIN
        });
        is_worth_it && self.fold_members(members, spec, reason)
    }

    /// Like [`Draft::fold`], and also where there is nothing new to fold but a summary that would
    /// become smaller.
    pub fn refold(
        &mut self,
        range: Range<usize>,
        keep: impl Fn(usize, &Entry) -> bool,
        spec: SummarySpec,
        reason: Reason,
    ) -> bool {
        let members = self.hideable(range, keep);
        self.fold_members(members, spec, reason)
    }

    /// What summaries cost, stored ones and those asked for in this draft: what the next fold takes
    /// in.
    pub fn summary_tokens(&self) -> Tokens {
        let stored: Tokens = self.stored_summaries().map(|position| self.tokens_at(position)).sum();
        stored + self.open_folds().map(|(_, fold)| fold.spec.tokens_max).sum()
    }

    /// Drops every summary: the last resort where there is no room for any.
    pub fn drop_summaries(&mut self, reason: Reason) {
        let stored: Vec<usize> = self.stored_summaries().collect();
        let open: Vec<u32> = self.open_folds().map(|(id, _)| id).collect();
        let reason = self.intern(reason);
        stored.into_iter().for_each(|position| self.hide(position, Slot::Dropped(reason)));
        open.into_iter().for_each(|fold| self.dissolve(fold, Slot::Dropped(reason)));
    }

    fn stored_summaries(&self) -> impl Iterator<Item = usize> + '_ {
        let is_summary = |&(position, entry): &(usize, &Entry)| {
            entry.holds().contains(Holds::SUMMARY) && !self.is_protected(position)
        };
        self.live().filter(is_summary).map(|(position, _)| position)
    }

    fn fold_members(&mut self, mut members: Vec<usize>, spec: SummarySpec, reason: Reason) -> bool {
        members.extend(self.stored_summaries());
        members.sort_unstable();
        let taken_in: Vec<u32> = self.open_folds().map(|(id, _)| id).collect();
        let members_tokens: Tokens = members.iter().map(|&position| self.tokens_at(position)).sum();
        let sum = |tokens: fn(&PendingFold) -> Tokens| {
            taken_in.iter().map(|&id| tokens(&self.folds[id as usize])).sum::<Tokens>()
        };
        let freed = members_tokens + sum(|fold| fold.spec.tokens_max);
        let tokens_before = members_tokens + sum(|fold| fold.tokens_before);
        let tokens_max = Tokens(spec.tokens_max.0.min(freed.0.saturating_sub(1)));
        if tokens_max.0 < SUMMARY_TOKENS_MIN {
            return false;
        }
        let stays = |position: usize| self.is_live(position) && members.binary_search(&position).is_err();
        if !members.iter().any(|&position| self.is_between_units(position, stays)) && taken_in.is_empty() {
            return false;
        }
        let id = u32::try_from(self.folds.len()).expect("folds are at most as many as items");
        taken_in.into_iter().for_each(|old| self.dissolve(old, Slot::Folded(id)));
        members.into_iter().for_each(|position| self.slots[position] = Slot::Folded(id));
        self.change_count += 1;
        self.tokens = self.tokens.saturating_sub(members_tokens) + tokens_max;
        let spec = SummarySpec { tokens_max, ..spec };
        let reason = self.intern(reason);
        self.folds.push(PendingFold { spec, tokens_before, reason });
        true
    }

    /// Whether a summary may take the place of `position`: no unit that stays has members on both
    /// sides of it.
    fn is_between_units(&self, position: usize, stays: impl Fn(usize) -> bool) -> bool {
        let segment = self.view.cut_at_or_before(position)..position;
        let straddles = |before: usize| {
            let mut members = self.unit_members(before);
            stays(before) && members.any(|member| member > position && stays(member))
        };
        !segment.into_iter().any(straddles)
    }

    fn fold_positions(&self, id: u32) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.len()).filter(move |&position| self.slots[position] == Slot::Folded(id))
    }

    /// The position whose place the summary of a fold takes.
    fn summary_position(&self, id: u32, placement: SummaryPlacement) -> Option<usize> {
        let is_free = |&position: &usize| self.is_between_units(position, |other| self.is_live(other));
        match placement {
            SummaryPlacement::BeforeKept => self.fold_positions(id).find(is_free),
            SummaryPlacement::AfterKept => self.fold_positions(id).rev().find(is_free),
        }
    }

    /// Replaces one part. Returns whether it did: the item must be live, unprotected, and the new
    /// part cheaper; reasoning and signed calls of the loop in flight are never touched.
    pub fn rewrite(&mut self, position: usize, part_index: usize, part: Part, reason: Reason) -> bool {
        !self.is_protected(position) && self.replace(position, part_index, part, reason)
    }

    /// Replaces a result in the unit in flight: the last step before infeasible (T4). The new part
    /// must be a result of the same call.
    pub fn shorten_in_flight(
        &mut self,
        position: usize,
        part_index: usize,
        part: Part,
        reason: Reason,
    ) -> bool {
        let is_same_call = self.parts(position).any(|(index, old)| {
            matches!((old, &part), (Part::ToolResult(old), Part::ToolResult(new))
                if index == part_index && old.call_id == new.call_id)
        });
        is_same_call
            && self.unit_in_flight.contains(&position)
            && !self.is_pinned(position)
            && self.replace(position, part_index, part, reason)
    }

    fn replace(&mut self, position: usize, part_index: usize, part: Part, reason: Reason) -> bool {
        let in_flight = self.loop_in_flight.contains(&position);
        let Some((_, old)) = self.parts(position).find(|&(index, _)| index == part_index) else {
            return false;
        };
        let is_signed = match old {
            Part::Reasoning(_) => true,
            Part::ToolCall(call) => call.signature.is_some(),
            Part::Text(_)
            | Part::ToolResult(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_) => false,
        };
        if in_flight && is_signed {
            return false;
        }
        let (tokens, tokens_before) = (self.meter().part(&part), self.part_tokens(position, part_index));
        if tokens >= tokens_before {
            return false;
        }
        let reason = self.intern(reason);
        self.change(position, part_index, tokens, Some(part), reason);
        true
    }

    /// Removes the reasoning at `position`, unless the item is protected or in the loop in flight.
    /// Returns how many parts were removed.
    pub fn remove_reasoning(&mut self, position: usize, empty_items: EmptyItems, reason: &Reason) -> usize {
        let Some(entry) = self.view.get(position).filter(|_| self.is_live(position)) else { return 0 };
        if self.is_protected(position) || self.loop_in_flight.contains(&position) {
            return 0;
        }
        let reason = self.intern(reason.clone());
        let mut removed_count = 0;
        for part_index in 0..entry.part_count() {
            if entry.is_reasoning(part_index) && !self.is_removed(position, part_index) {
                self.change(position, part_index, 0, None, reason);
                removed_count += 1;
            }
        }
        if removed_count > 0 && empty_items == EmptyItems::Drop && self.is_emptied(position) {
            self.hide(position, Slot::Dropped(reason));
        }
        removed_count
    }

    /// Removes a call and its result, each one part of an item outside the loop in flight, together
    /// with thinking that would be left with nothing after it. Returns whether it did.
    pub fn remove_pair(
        &mut self,
        call: (usize, usize),
        result: (usize, usize),
        empty_items: EmptyItems,
        reason: &Reason,
    ) -> bool {
        let is_fixed = |draft: &Self, position: usize| {
            !draft.is_live(position)
                || draft.is_protected(position)
                || draft.loop_in_flight.contains(&position)
        };
        if is_fixed(self, call.0) || is_fixed(self, result.0) {
            return false;
        }
        let reason = self.intern(reason.clone());
        self.change(call.0, call.1, 0, None, reason);
        let is_nothing_else = self.view.get(result.0).is_some_and(|entry| entry.part_count() == 1);
        if is_nothing_else && empty_items == EmptyItems::Drop {
            self.hide(result.0, Slot::Dropped(reason));
        } else {
            self.change(result.0, result.1, 0, None, reason);
        }
        self.remove_trailing_reasoning(call.0, reason);
        // Thinking recorded as an item of its own goes with what it led to.
        let mut emptied: SmallVec<[usize; 3]> = SmallVec::from_slice(&[call.0, result.0]);
        while self.is_emptied(emptied[0])
            && let Some(before) = emptied[0].checked_sub(1)
            && self.view.unit_start(before) == self.view.unit_start(call.0)
            && !is_fixed(self, before)
        {
            self.remove_trailing_reasoning(before, reason);
            emptied.insert(0, before);
        }
        for position in emptied {
            if empty_items == EmptyItems::Drop && self.is_live(position) && self.is_emptied(position) {
                self.hide(position, Slot::Dropped(reason));
            }
        }
        self.regroup(call.0);
        true
    }

    fn remove_trailing_reasoning(&mut self, position: usize, reason: u32) {
        let Some(entry) = self.view.get(position) else { return };
        for part_index in (0..entry.part_count()).rev() {
            if !self.is_removed(position, part_index) {
                if !entry.is_reasoning(part_index) {
                    break;
                }
                self.change(position, part_index, 0, None, reason);
            }
        }
    }

    /// Says that no edit can bring the view to its target; the plan becomes an error.
    pub fn declare_infeasible(&mut self, infeasible: BudgetInfeasible) {
        self.infeasible = Some(infeasible);
    }

    /// Sees to it that the draft does not begin with an assistant item where the view did not,
    /// because a provider may reject that: a summary moves to the front, or the nearest earlier user
    /// item is kept after all.
    pub(crate) fn keep_user_first(&mut self) {
        let Some(first) = self.first_sent() else { return };
        let speaks = |position: usize| self.view.get(position).map(Entry::kind);
        let has_user_authority = |position: usize| speaks(position).is_some_and(ItemKind::has_user_authority);
        if has_user_authority(first) {
            return;
        }
        let stands_first = |id: u32| {
            let position = self.summary_position(id, SummaryPlacement::BeforeKept);
            position.is_some_and(|position| position < first)
        };
        let leading_fold = self.open_folds().map(|(id, _)| id).find(|&id| stands_first(id));
        if let Some(id) = leading_fold {
            self.folds[id as usize].spec.placement = SummaryPlacement::BeforeKept;
            return;
        }
        let is_dropped = |position: usize| matches!(self.slots[position], Slot::Dropped(_));
        let is_sendable =
            |position: usize| self.view.get(position).is_some_and(|entry| !entry.item().parts.is_empty());
        let nearest = |is_wanted: &dyn Fn(usize) -> bool| {
            let is_candidate = |position: &usize| is_dropped(*position) && is_sendable(*position);
            (0..first).rev().filter(is_candidate).find(|&position| is_wanted(position))
        };
        let user = nearest(&|position| speaks(position) == Some(ItemKind::User));
        if let Some(position) = user.or_else(|| nearest(&has_user_authority)) {
            self.slots[position] = Slot::Live;
            self.tokens += self.tokens_at(position);
            self.change_count += 1;
        }
    }

    /// Runs a strategy until nothing changes. One run is nearly always enough; but a step of a
    /// pipeline may take away what an earlier step went by (the user item that began a turn), and
    /// T7 forbids to leave the consequences to a second compaction.
    pub(crate) fn settle(&mut self, strategy: &dyn Strategy, budget: Option<&Budget>) {
        let mut before: Option<Vec<Slot>> = None;
        for _ in 0..PASSES_MAX {
            let change_count = self.change_count;
            strategy.plan(self, budget);
            self.keep_user_first();
            if self.change_count == change_count || before.as_ref() == Some(&self.slots) {
                return;
            }
            before = Some(self.slots.clone());
        }
    }

    /// The first live item that is sent as part of the conversation.
    fn first_sent(&self) -> Option<usize> {
        let is_spoken = |entry: &Entry| !entry.kind().is_instruction();
        let sent = self.live().filter(|&(position, _)| self.tokens_at(position) > Tokens::ZERO);
        sent.filter(|(_, entry)| is_spoken(entry)).map(|(position, _)| position).next()
    }

    fn open_folds(&self) -> impl Iterator<Item = (u32, &PendingFold)> {
        let is_open = |&(_, fold): &(u32, &PendingFold)| fold.spec.tokens_max > Tokens::ZERO;
        (0..).zip(&self.folds).filter(is_open)
    }

    /// Ends a fold; its members become something else.
    fn dissolve(&mut self, fold: u32, becomes: Slot) {
        let members = self.slots.iter_mut().filter(|slot| **slot == Slot::Folded(fold));
        members.for_each(|slot| *slot = becomes);
        let reserved = std::mem::take(&mut self.folds[fold as usize].spec.tokens_max);
        self.tokens = self.tokens.saturating_sub(reserved);
    }

    fn hide(&mut self, position: usize, slot: Slot) {
        self.change_count += 1;
        self.tokens = self.tokens.saturating_sub(self.tokens_at(position));
        self.slots[position] = slot;
    }

    fn changes(&self, position: usize) -> &[PartChange] {
        match self.slots.get(position) {
            Some(&Slot::Rewritten(rewrite)) => &self.rewrites[rewrite as usize].changes,
            Some(Slot::Live | Slot::Dropped(_) | Slot::Folded(_)) | None => &[],
        }
    }

    fn is_removed(&self, position: usize, part_index: usize) -> bool {
        let is_removal =
            |change: &PartChange| change.part_index as usize == part_index && change.replacement.is_none();
        self.changes(position).iter().any(is_removal)
    }

    /// Whether every part of a live item has been removed.
    fn is_emptied(&self, position: usize) -> bool {
        let part_count = self.view.get(position).map_or(0, Entry::part_count);
        let removals = self.changes(position).iter().filter(|change| change.replacement.is_none());
        removals.count() == part_count
    }

    fn change(
        &mut self,
        position: usize,
        part_index: usize,
        tokens: u32,
        replacement: Option<Part>,
        reason: u32,
    ) {
        self.change_count += 1;
        let (before, part_before) = (self.tokens_at(position), self.part_tokens(position, part_index));
        let id = match self.slots[position] {
            Slot::Rewritten(id) => id,
            Slot::Live | Slot::Dropped(_) | Slot::Folded(_) => {
                self.rewrites.push(PendingRewrite { tokens: before, changes: SmallVec::new() });
                u32::try_from(self.rewrites.len() - 1).expect("rewrites are at most as many as items")
            }
        };
        self.slots[position] = Slot::Rewritten(id);
        let changes = &mut self.rewrites[id as usize].changes;
        changes.retain(|change| change.part_index as usize != part_index);
        let replacement = replacement.map(Box::new);
        changes.push(PartChange { part_index: part_index as u32, tokens, reason, replacement });
        let after = match self.is_emptied(position) {
            true => Tokens::ZERO,
            false => before.saturating_sub(Tokens(part_before.into())) + Tokens(tokens.into()),
        };
        self.rewrites[id as usize].tokens = after;
        self.tokens = self.tokens.saturating_sub(before) + after;
    }

    fn intern(&mut self, reason: Reason) -> u32 {
        if self.reasons.last() != Some(&reason) {
            self.reasons.push(reason);
        }
        u32::try_from(self.reasons.len() - 1).expect("reasons are at most as many as edits")
    }
}

/// Turning what became of each position into edits.
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
        edits.extend(changes.into_iter().map(|change| {
            let part_index = entry.recorded_part(change.part_index as usize);
            Edit::Rewrite(Rewrite {
                item_index: entry.anchor(),
                part_index,
                replacement: change.replacement.as_deref().cloned(),
                tokens: change.tokens,
                handle: Handle::of_part(entry.anchor(), &entry.item().id, part_index),
                reason: self.reasons[change.reason as usize].clone(),
            })
        }));
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
