//! Folding: units behind one summary, which takes in every summary before it.

use std::ops::Range;

use super::{Draft, PendingFold, Slot, SummaryWriter};
use crate::edit::{Reason, SummaryPlacement, SummarySpec};
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::item::ItemKind;
use crate::sequence::Mark;
use crate::summary::SUMMARY_TOKENS_MIN;

/// Whether a summary may cost more than what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// It saves at least one token (T7).
    Never,
    /// Up to what the strategy lets it cost.
    WithinLimit,
}

impl Draft<'_> {
    /// Folds the whole units inside `range` that nothing forbids to hide into one summary.
    ///
    /// Other summaries, stored or asked for earlier in this draft, are taken in: an existing summary
    /// is updated, never stacked. Returns whether it was worth it: there must be something new to
    /// fold, and the fold must save tokens.
    pub fn fold(
        &mut self,
        range: Range<usize>,
        keep: impl Fn(usize, ItemKind) -> bool,
        spec: SummarySpec,
        reason: Reason,
    ) -> bool {
        let members = self.hideable(range, keep);
        self.fold_new(members, spec, Growth::Never, reason)
    }

    /// Like [`Draft::fold`], and where a model writes the summary, however little there is to fold: the
    /// host asked for a model's words, and may get as many of them as the summary may cost. A summary that
    /// is to stand behind the tail does: the user item that has to open the tail stays.
    pub fn fold_as_asked(
        &mut self,
        range: Range<usize>,
        keep: impl Fn(usize, ItemKind) -> bool,
        spec: SummarySpec,
        reason: Reason,
    ) -> bool {
        let mut members = self.hideable(range, keep);
        if spec.placement == SummaryPlacement::AfterTail
            && let Some(opener) = self.opener(&members)
        {
            members.remove(opener);
        }
        let growth = match self.writer {
            SummaryWriter::Digest => Growth::Never,
            SummaryWriter::Model => Growth::WithinLimit,
        };
        self.fold_new(members, spec, growth, reason)
    }

    /// Folds where there is enough that no summary stands for yet. If taking in an old summary could tip
    /// the scales, a fold refused now would be proposed on the next run (T7).
    fn fold_new(&mut self, members: Vec<usize>, spec: SummarySpec, growth: Growth, reason: Reason) -> bool {
        let tokens_min = match growth {
            Growth::Never => Tokens(SUMMARY_TOKENS_MIN),
            Growth::WithinLimit => Tokens::ZERO,
        };
        self.new_tokens(&members) > tokens_min && self.fold_members(members, spec, growth, reason)
    }

    /// The place among `members` of the newest user item before what stays, where an assistant item
    /// would open that.
    fn opener(&self, members: &[usize]) -> Option<usize> {
        let goes = |position: usize, mark: Mark| {
            members.binary_search(&position).is_ok()
                || (mark.holds.contains(Holds::SUMMARY) && !self.is_protected(position))
        };
        let is_sent = |&(position, mark): &(usize, Mark)| {
            !mark.kind.is_instruction() && self.tokens_of(position, mark) > Tokens::ZERO
        };
        let mut staying = self.live_marks().filter(|&(position, mark)| !goes(position, mark)).filter(is_sent);
        let (first, mark) = staying.next()?;
        if mark.kind.has_user_authority() {
            return None;
        }
        let before = members.partition_point(|&member| member < first);
        let is_user =
            |&member: &usize| self.view.mark(member).is_some_and(|mark| mark.kind == ItemKind::User);
        members[..before].iter().rposition(is_user)
    }

    fn new_tokens(&self, members: &[usize]) -> Tokens {
        members.iter().map(|&position| self.tokens_at(position)).sum()
    }

    /// Like [`Draft::fold`], and also where there is nothing new to fold but a summary that would
    /// become smaller.
    pub(crate) fn refold(
        &mut self,
        range: Range<usize>,
        keep: impl Fn(usize, ItemKind) -> bool,
        spec: SummarySpec,
        reason: Reason,
    ) -> bool {
        let members = self.hideable(range, keep);
        self.fold_members(members, spec, Growth::Never, reason)
    }

    /// Whether a fold of this draft is in force.
    pub(crate) fn is_folding(&self) -> bool {
        self.open_folds().next().is_some()
    }

    /// What summaries cost, stored ones and those asked for in this draft: what the next fold takes
    /// in.
    pub fn summary_tokens(&self) -> Tokens {
        let stored: Tokens = self.stored_summaries().map(|position| self.tokens_at(position)).sum();
        stored + self.open_folds().map(|(_, fold)| fold.spec.tokens_max).sum()
    }

    /// Gives the summaries asked for in this draft this many tokens together, in equal parts, however
    /// much was asked for; none becomes as large as what it stands for (T7), or too small to say
    /// anything.
    pub fn size_summaries(&mut self, tokens: Tokens) {
        let open: Vec<u32> = self.open_folds().map(|(id, _)| id).collect();
        let share = tokens.0.checked_div(open.len() as u64).unwrap_or(0);
        for id in open {
            let fold = &mut self.folds[id as usize];
            let most = fold.tokens_before.0.saturating_sub(1);
            let sized = Tokens(share.max(SUMMARY_TOKENS_MIN).min(most));
            let before = std::mem::replace(&mut fold.spec.tokens_max, sized);
            self.tokens = self.tokens.saturating_sub(before) + sized;
            self.change_count += u64::from(before != sized);
        }
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
        let is_summary = |&(position, mark): &(usize, Mark)| {
            mark.holds.contains(Holds::SUMMARY) && !self.is_protected(position)
        };
        self.live_marks().filter(is_summary).map(|(position, _)| position)
    }

    fn fold_members(
        &mut self,
        mut members: Vec<usize>,
        spec: SummarySpec,
        growth: Growth,
        reason: Reason,
    ) -> bool {
        members.extend(self.stored_summaries());
        members.sort_unstable();
        let taken_in: Vec<u32> = self.open_folds().map(|(id, _)| id).collect();
        let members_tokens = self.new_tokens(&members);
        let sum = |tokens: fn(&PendingFold) -> Tokens| {
            taken_in.iter().map(|&id| tokens(&self.folds[id as usize])).sum::<Tokens>()
        };
        let freed = members_tokens + sum(|fold| fold.spec.tokens_max);
        let tokens_before = members_tokens + sum(|fold| fold.tokens_before);
        let tokens_max = match growth {
            Growth::Never => Tokens(spec.tokens_max.0.min(freed.0.saturating_sub(1))),
            Growth::WithinLimit => spec.tokens_max,
        };
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
        self.folds.push(PendingFold { spec, given_after: None, tokens_before, reason });
        true
    }

    pub(super) fn fold_positions(&self, id: u32) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.len()).filter(move |&position| self.slots[position] == Slot::Folded(id))
    }

    /// The position whose place the summary of a fold takes or, if it is live, directly after which
    /// it stands.
    pub(super) fn summary_position(&self, id: u32, placement: SummaryPlacement) -> Option<usize> {
        let is_free = |&position: &usize| self.is_between_units(position, |other| self.is_live(other));
        match placement {
            SummaryPlacement::BeforeKept => self.fold_positions(id).find(is_free),
            SummaryPlacement::AfterKept => {
                let last_folded = self.fold_positions(id).rev().find(is_free);
                let is_sent = |&user: &usize| self.tokens_at(user) > Tokens::ZERO;
                let user = self.turn_starts().rev().find(is_sent).filter(|&user| last_folded < Some(user));
                // The unit in flight may have a call whose result is still to come.
                let after_user = user.and_then(|user| (user..self.unit_in_flight.start).find(is_free));
                after_user.or(last_folded)
            }
            SummaryPlacement::AfterTail => {
                let stands = |&position: &usize| {
                    self.slots[position] == Slot::Folded(id)
                        || (self.is_live(position) && !self.ends_in_thinking(position))
                };
                (0..self.unit_in_flight.start).rev().filter(stands).find(is_free)
            }
        }
    }

    pub(super) fn open_folds(&self) -> impl Iterator<Item = (u32, &PendingFold)> {
        let is_open = |&(_, fold): &(u32, &PendingFold)| fold.spec.tokens_max > Tokens::ZERO;
        (0..).zip(&self.folds).filter(is_open)
    }

    /// Ends a fold; its members become something else.
    pub(super) fn dissolve(&mut self, fold: u32, becomes: Slot) {
        let members = self.slots.iter_mut().filter(|slot| **slot == Slot::Folded(fold));
        members.for_each(|slot| *slot = becomes);
        let reserved = std::mem::take(&mut self.folds[fold as usize].spec.tokens_max);
        self.tokens = self.tokens.saturating_sub(reserved);
    }
}
