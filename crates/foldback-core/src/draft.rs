//! A view being edited by strategies.
//!
//! The draft is where the rules hold whatever a strategy asks for: pins, the newest user item and
//! the unit in flight stay (T4), units go whole or not at all (T2), reasoning of the loop in flight
//! is untouched, and nothing is proposed that saves no tokens (T7). Positions are positions of the
//! view it was made from and never shift; what has been hidden is simply not live any more.

mod finish;
mod folding;
mod given;
mod giving_back;
mod removal;
mod settle;
mod units;

use std::collections::BTreeSet;
use std::ops::Range;

use smallvec::SmallVec;

pub(crate) use self::giving_back::{GivenUp, Mark as DraftMark};

use crate::digest::DIGEST_TOKENS_MIN;
use crate::edit::{Reason, SummarySpec};
use crate::handle::Handle;
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::item::{Item, ItemKind};
use crate::keep::{KeptLine, KeptLines};
use crate::part::Part;
use crate::plan::BudgetInfeasible;
use crate::sequence::{Entry, Mark};
use crate::tokens::Meter;
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
    /// Whether pairs or thinking were removed from the unit that begins at a position.
    is_loosened: Vec<bool>,
    change_count: u64,
    infeasible: Option<BudgetInfeasible>,
    summary_size: Option<SummarySize>,
    writer: SummaryWriter,
    lines: Option<&'v KeptLines>,
}

/// Who will write the summaries that a draft asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SummaryWriter {
    /// foldback.
    #[default]
    Digest,
    /// A backend that the host gave.
    Model,
}

/// What is known of the size of summaries before anybody writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SummarySize {
    /// They need no more than this together.
    AtMost(Tokens),
    /// They are written, and need this together: all the rest is for items.
    Written(Tokens),
}

/// What has become of a position; numbers index into the draft's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Live,
    /// Live without its reasoning, and nothing else changed: the commonest rewrite by far.
    Thoughtless(u32),
    Rewritten(u32),
    Dropped(u32),
    Folded(u32),
}

#[derive(Debug)]
struct PendingRewrite {
    tokens: Tokens,
    /// Why its reasoning was removed before anything else changed, if it was.
    thoughtless: Option<u32>,
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
    /// The position directly after which somebody else put the summary.
    given_after: Option<usize>,
    tokens_before: Tokens,
    reason: u32,
}

/// A part of an item, and what it costs in the view, whatever this draft did to it.
#[derive(Clone, Copy, Debug)]
struct PartPlace {
    position: usize,
    part_index: usize,
    view_tokens: u32,
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
            is_loosened: vec![false; view.len()],
            change_count: 0,
            infeasible: None,
            summary_size: None,
            writer: SummaryWriter::default(),
            lines: None,
        }
    }

    /// The same, with summaries that this writer writes.
    pub(crate) fn written_by(mut self, writer: SummaryWriter) -> Self {
        self.writer = writer;
        self
    }

    /// The same, with lines that only a summary may take the place of.
    pub(crate) fn keeping(mut self, lines: &'v KeptLines) -> Self {
        self.lines = Some(lines).filter(|lines| !lines.is_empty());
        self
    }

    /// The same, for summaries of this size; a digest has room in any case.
    pub(crate) fn with_summary_size(mut self, size: Option<SummarySize>) -> Self {
        self.summary_size = size;
        self
    }

    /// What summaries need at most, where that is known.
    pub(crate) fn summaries_max(&self) -> Option<Tokens> {
        let (SummarySize::AtMost(tokens) | SummarySize::Written(tokens)) = self.summary_size?;
        Some(tokens.max(Tokens(2 * DIGEST_TOKENS_MIN)))
    }

    /// What summaries need that are written.
    pub(crate) fn summaries_written(&self) -> Option<Tokens> {
        match self.summary_size? {
            SummarySize::Written(_) => self.summaries_max(),
            SummarySize::AtMost(_) => None,
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
        matches!(self.slots.get(position), Some(Slot::Live | Slot::Thoughtless(_) | Slot::Rewritten(_)))
    }

    /// Whether parts of the item at `position` have been rewritten in this draft, so that what the
    /// view knows about them is out of date.
    pub fn is_rewritten(&self, position: usize) -> bool {
        matches!(self.slots.get(position), Some(Slot::Thoughtless(_) | Slot::Rewritten(_)))
    }

    /// What the item at `position` costs now; nothing if it is hidden.
    pub fn tokens_at(&self, position: usize) -> Tokens {
        match self.slots.get(position) {
            Some(Slot::Live) => self.view.tokens_at(position),
            Some(Slot::Thoughtless(_)) => {
                self.view.mark(position).map_or(Tokens::ZERO, Mark::tokens_without_reasoning)
            }
            Some(&Slot::Rewritten(rewrite)) => self.rewrites[rewrite as usize].tokens,
            Some(Slot::Dropped(_) | Slot::Folded(_)) | None => Tokens::ZERO,
        }
    }

    /// The same, for a pass that has the mark at hand.
    fn tokens_of(&self, position: usize, mark: Mark) -> Tokens {
        match (self.slots[position], mark.tokens()) {
            (Slot::Live, Some(tokens)) => tokens,
            _ => self.tokens_at(position),
        }
    }

    /// Live positions in order, with what was there before any edit.
    pub fn live(&self) -> impl Iterator<Item = (usize, &'v Entry)> + '_ {
        self.view.iter().enumerate().filter(|&(position, _)| self.is_live(position))
    }

    /// Live positions in order, with what a pass needs to know of them.
    pub(crate) fn live_marks(&self) -> impl Iterator<Item = (usize, Mark)> + '_ {
        self.view.marks(0..self.len()).enumerate().filter(|&(position, _)| self.is_live(position))
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
        let is_thoughtless = self.is_thoughtless(position);
        let parts = match self.is_live(position) {
            true => self.view.get(position).map_or(&[][..], |entry| &entry.item().parts),
            false => &[],
        };
        parts.iter().enumerate().filter_map(move |(part_index, part)| {
            match changes.iter().find(|change| change.part_index as usize == part_index) {
                None if is_thoughtless && matches!(part, Part::Reasoning(_)) => None,
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
        if self.is_removed(position, part_index) {
            return 0;
        }
        self.place(position, part_index).view_tokens
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
        self.view.mark(position).is_some_and(|mark| mark.holds.contains(Holds::PIN))
    }

    /// Lets the newest user item be folded like any other: whoever asks for that tells it beside the summary.
    pub(crate) fn release_newest_user(&mut self) {
        self.newest_user = None;
    }

    /// Drops the whole units inside `range` that nothing forbids to hide. Returns how many items. What holds a
    /// line that a person asked to keep stays: only a summary repeats lines.
    pub fn drop_units(
        &mut self,
        range: Range<usize>,
        keep: impl Fn(usize, ItemKind) -> bool,
        reason: Reason,
    ) -> usize {
        let holds: BTreeSet<usize> = match self.lines {
            Some(_) => range.clone().filter(|&position| self.holds_line(position)).collect(),
            None => BTreeSet::new(),
        };
        self.drop_units_at_last(
            range,
            |position, kind| keep(position, kind) || holds.contains(&position),
            reason,
        )
    }

    /// The same, with lines or not: where there is no room for anything else.
    pub(crate) fn drop_units_at_last(
        &mut self,
        range: Range<usize>,
        keep: impl Fn(usize, ItemKind) -> bool,
        reason: Reason,
    ) -> usize {
        let (view, reason) = (self.view, self.intern(reason));
        let (mut dropped_count, mut freed) = (0, Tokens::ZERO);
        for free in self.free_ranges(range, keep) {
            let dropped_before = dropped_count;
            view.marks(free.clone()).enumerate().for_each(|(offset, mark)| {
                let position = free.start + offset;
                let tokens = self.tokens_of(position, mark);
                if tokens > Tokens::ZERO {
                    self.slots[position] = Slot::Dropped(reason);
                    dropped_count += 1;
                    freed += tokens;
                }
            });
            // Holes that earlier steps dropped would cut the range into thousands of edits; this
            // reason is as true of them.
            if dropped_count > dropped_before {
                let holes = self.slots[free].iter_mut().filter(|slot| matches!(slot, Slot::Dropped(_)));
                holes.for_each(|slot| *slot = Slot::Dropped(reason));
            }
        }
        self.tokens = self.tokens.saturating_sub(freed);
        self.change_count += dropped_count as u64;
        dropped_count
    }

    /// Replaces one part. Returns whether it did: the item must be live, unprotected, and the new
    /// part cheaper, with every line of it that a person asked to keep; reasoning and signed calls of the loop
    /// in flight are never touched.
    pub fn rewrite(&mut self, position: usize, part_index: usize, part: Part, reason: Reason) -> bool {
        !self.is_protected(position)
            && !self.loses_line(position, part_index, Some(&part))
            && self.replace(position, part_index, part, reason)
    }

    /// The same, with lines or not: where there is no room for anything else.
    pub(crate) fn rewrite_at_last(
        &mut self,
        position: usize,
        part_index: usize,
        part: Part,
        reason: Reason,
    ) -> bool {
        !self.is_protected(position) && self.replace(position, part_index, part, reason)
    }

    fn has_lines(&self) -> bool {
        self.lines.is_some()
    }

    /// Whether the item at `position` shows a line that a person asked to keep.
    fn holds_line(&self, position: usize) -> bool {
        let part_count = self.view.get(position).map_or(0, Entry::part_count);
        (0..part_count).any(|part_index| self.loses_line(position, part_index, None))
    }

    /// Whether a line that a person asked to keep is shown by a part, and not by what takes its place.
    fn loses_line(&self, position: usize, part_index: usize, by: Option<&Part>) -> bool {
        let (Some(lines), Some(entry)) = (self.lines, self.view.get(position)) else { return false };
        if entry.holds().contains(Holds::SUMMARY) {
            return false;
        }
        let recorded_part = entry.recorded_part(part_index);
        let of_part = lines.of_item(entry.anchor()).iter().filter(|line| line.part_index == recorded_part);
        let is_lost = |line: &KeptLine| {
            let is_shown = entry.item().parts.get(part_index).is_some_and(|part| line.is_in(part));
            is_shown && !by.is_some_and(|part| line.is_in(part))
        };
        of_part.into_iter().any(is_lost)
    }

    /// Replaces a part of the first task. Where no user item came after it, it is the newest one too:
    /// that is never dropped or folded (T4), but may be shortened once work on it has begun.
    pub(crate) fn shorten_task(
        &mut self,
        position: usize,
        part_index: usize,
        part: Part,
        reason: Reason,
    ) -> bool {
        self.task() == Some(position) && self.replace(position, part_index, part, reason)
    }

    /// The first task, where it may be shortened.
    pub fn task(&self) -> Option<usize> {
        let position = self.turn_starts().next()?;
        let is_answer = |later: usize| self.item(later).is_some_and(|item| item.kind == ItemKind::Assistant);
        let is_first = self.view.turn_starts().next() == Some(position);
        let is_begun = || (position + 1..self.len()).rev().any(is_answer);
        let is_fixed = self.is_pinned(position) || self.unit_in_flight.contains(&position);
        let is_older = self.newest_user != Some(position);
        (!is_fixed && (is_older || (is_first && is_begun()))).then_some(position)
    }

    /// Replaces a result, an unsigned call or a notification's text in the unit in flight: the last
    /// step before infeasible (T4). The new part must be of the same call.
    pub fn shorten_in_flight(
        &mut self,
        position: usize,
        part_index: usize,
        part: Part,
        reason: Reason,
    ) -> bool {
        let is_notified = self.item(position).is_some_and(|item| item.kind == ItemKind::Notification);
        let is_allowed = self.parts(position).any(|(index, old)| {
            let is_same = match (old, &part) {
                (Part::ToolResult(old), Part::ToolResult(new)) => old.call_id == new.call_id,
                (Part::ToolCall(old), Part::ToolCall(new)) => old.id == new.id && old.name == new.name,
                (Part::Text(_), Part::Text(_)) => is_notified,
                _ => false,
            };
            index == part_index && is_same
        });
        is_allowed
            && self.unit_in_flight.contains(&position)
            && !self.is_pinned(position)
            && self.replace(position, part_index, part, reason)
    }

    fn replace(&mut self, position: usize, part_index: usize, part: Part, reason: Reason) -> bool {
        let in_flight = self.loop_in_flight.contains(&position);
        let Some((_, old)) = self.parts(position).find(|&(index, _)| index == part_index) else {
            return false;
        };
        let is_signed = old.is_signed();
        if in_flight && is_signed {
            return false;
        }
        let (tokens, tokens_before) = (self.meter().part(&part), self.part_tokens(position, part_index));
        if tokens >= tokens_before {
            return false;
        }
        let reason = self.intern(reason);
        self.change(self.place(position, part_index), tokens, Some(part), reason);
        true
    }

    /// Shortens the results at `positions`, in flight or not, as another draft of the same view did.
    pub(crate) fn shorten_as(&mut self, other: &Draft<'_>, positions: Range<usize>) {
        for position in positions {
            for change in other.changes(position) {
                if let Some(part @ Part::ToolResult(_)) = change.replacement.as_deref() {
                    let reason = other.reasons[change.reason as usize].clone();
                    let part_index = change.part_index as usize;
                    match self.unit_in_flight.contains(&position) {
                        true => self.shorten_in_flight(position, part_index, part.clone(), reason),
                        false => self.rewrite(position, part_index, part.clone(), reason),
                    };
                }
            }
        }
    }

    /// Says that no edit can bring the view to its target; the plan becomes an error.
    pub fn declare_infeasible(&mut self, infeasible: BudgetInfeasible) {
        self.infeasible = Some(infeasible);
    }

    fn hide(&mut self, position: usize, slot: Slot) {
        self.change_count += 1;
        self.tokens = self.tokens.saturating_sub(self.tokens_at(position));
        self.slots[position] = slot;
    }

    fn place(&self, position: usize, part_index: usize) -> PartPlace {
        let tokens = self.view.get(position).and_then(|entry| entry.tokens().parts.get(part_index));
        PartPlace { position, part_index, view_tokens: tokens.copied().unwrap_or(0) }
    }

    fn changes(&self, position: usize) -> &[PartChange] {
        match self.slots.get(position) {
            Some(&Slot::Rewritten(rewrite)) => &self.rewrites[rewrite as usize].changes,
            Some(Slot::Live | Slot::Thoughtless(_) | Slot::Dropped(_) | Slot::Folded(_)) | None => &[],
        }
    }

    /// Whether all reasoning was removed from the item at `position`.
    fn is_thoughtless(&self, position: usize) -> bool {
        match self.slots.get(position) {
            Some(Slot::Thoughtless(_)) => true,
            Some(&Slot::Rewritten(rewrite)) => self.rewrites[rewrite as usize].thoughtless.is_some(),
            Some(Slot::Live | Slot::Dropped(_) | Slot::Folded(_)) | None => false,
        }
    }

    fn is_removed(&self, position: usize, part_index: usize) -> bool {
        let is_removal =
            |change: &PartChange| change.part_index as usize == part_index && change.replacement.is_none();
        self.changes(position).iter().any(is_removal)
            || (self.is_thoughtless(position)
                && self.view.get(position).is_some_and(|entry| entry.is_reasoning(part_index)))
    }

    /// Whether every part of a live item has been removed.
    fn is_emptied(&self, position: usize) -> bool {
        // Nearly always this tells without a look at the entry.
        let removals = self.changes(position).iter().filter(|change| change.replacement.is_none());
        let other_count_min = self.view.mark(position).map_or(0, Mark::other_count_min);
        if removals.count() < other_count_min {
            return false;
        }
        let part_count = self.view.get(position).map_or(0, Entry::part_count);
        (0..part_count).all(|part_index| self.is_removed(position, part_index))
    }

    fn change(&mut self, place: PartPlace, tokens: u32, replacement: Option<Part>, reason: u32) {
        let PartPlace { position, part_index, view_tokens } = place;
        self.change_count += 1;
        let mut changes = self.changes(position).iter();
        let changed = changes.find(|change| change.part_index as usize == part_index);
        let part_before = changed.map_or(view_tokens, |change| change.tokens);
        let before = self.tokens_at(position);
        let id = match self.slots[position] {
            Slot::Rewritten(id) => id,
            Slot::Thoughtless(reason) => self.begin_rewrite(before, Some(reason)),
            Slot::Live | Slot::Dropped(_) | Slot::Folded(_) => self.begin_rewrite(before, None),
        };
        self.slots[position] = Slot::Rewritten(id);
        let changes = &mut self.rewrites[id as usize].changes;
        changes.retain(|change| change.part_index as usize != part_index);
        let replacement = replacement.map(Box::new);
        changes.push(PartChange { part_index: part_index as u32, tokens, reason, replacement });
        let after = match tokens == 0 && self.is_emptied(position) {
            true => Tokens::ZERO,
            false => before.saturating_sub(Tokens(part_before.into())) + Tokens(tokens.into()),
        };
        self.rewrites[id as usize].tokens = after;
        self.tokens = self.tokens.saturating_sub(before) + after;
    }

    fn begin_rewrite(&mut self, tokens: Tokens, thoughtless: Option<u32>) -> u32 {
        self.rewrites.push(PendingRewrite { tokens, thoughtless, changes: SmallVec::new() });
        u32::try_from(self.rewrites.len() - 1).expect("rewrites are at most as many as items")
    }

    fn intern(&mut self, reason: Reason) -> u32 {
        if self.reasons.last() != Some(&reason) {
            self.reasons.push(reason);
        }
        u32::try_from(self.reasons.len() - 1).expect("reasons are at most as many as edits")
    }

    /// The same for a reason that is given again and again: copied only where it is new.
    fn intern_shared(&mut self, reason: &Reason) -> u32 {
        match self.reasons.last() == Some(reason) {
            true => self.reasons.len() as u32 - 1,
            false => self.intern(reason.clone()),
        }
    }
}
