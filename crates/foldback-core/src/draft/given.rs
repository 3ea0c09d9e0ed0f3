//! Edits that somebody else decided on, taken as they are: the caller keeps the rules.

use std::ops::Range;

use super::{Draft, PendingFold, Slot};
use crate::edit::{Reason, SummaryPlacement, SummarySpec};
use crate::ids::Tokens;
use crate::part::Part;

impl Draft<'_> {
    /// Whether the item at `position` may not even be shortened: a pin, the newest user item unless
    /// it is the first task too.
    pub(crate) fn is_unchangeable(&self, position: usize) -> bool {
        self.is_pinned(position) || (self.newest_user == Some(position) && self.task() != Some(position))
    }

    /// Hides the item at `position`.
    pub(crate) fn drop_given(&mut self, position: usize, reason: &Reason) {
        let reason = self.intern_shared(reason);
        self.hide(position, Slot::Dropped(reason));
    }

    /// Hides everything at `positions` behind a summary that costs `tokens`. It stands directly after
    /// what stays at `after` or, without one, where the first of them stood.
    pub(crate) fn fold_given(
        &mut self,
        positions: &[Range<usize>],
        after: Option<usize>,
        tokens: Tokens,
        reason: &Reason,
    ) {
        let reason = self.intern_shared(reason);
        let id = u32::try_from(self.folds.len()).expect("folds are at most as many as items");
        let positions = || positions.iter().cloned().flatten();
        let tokens_before = positions().map(|position| self.tokens_at(position)).sum();
        positions().for_each(|position| self.hide(position, Slot::Folded(id)));
        self.tokens += tokens;
        let placement = after.map_or(SummaryPlacement::BeforeKept, |_| SummaryPlacement::AfterTail);
        let spec = SummarySpec::new(tokens).with_placement(placement);
        self.folds.push(PendingFold { spec, given_after: after, tokens_before, reason });
    }

    /// Whether a summary may stand directly after `position`: it parts no call from its result, and no
    /// thinking from what it leads to.
    pub(crate) fn may_follow(&self, position: usize) -> bool {
        let waits = self.view.pending_calls().any(|(call, _)| call <= position);
        !waits
            && !self.ends_in_thinking(position)
            && self.is_between_units(position, |other| self.is_live(other))
    }

    /// Replaces or removes one part.
    pub(crate) fn rewrite_given(
        &mut self,
        position: usize,
        part_index: usize,
        part: Option<Part>,
        reason: &Reason,
    ) {
        let reason = self.intern_shared(reason);
        let tokens = part.as_ref().map_or(0, |part| self.meter().part(part));
        self.change(self.place(position, part_index), tokens, part, reason);
    }
}
