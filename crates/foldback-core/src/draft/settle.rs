//! Editing until nothing changes, with a user item first.

use super::{Draft, Slot};
use crate::edit::SummaryPlacement;
use crate::ids::Tokens;
use crate::item::ItemKind;
use crate::sequence::Entry;

/// Runs of one strategy over one draft.
const PASSES_MAX: usize = 8;

impl Draft<'_> {
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

    /// Runs one pass of edits until nothing changes. One run is nearly always enough; but a step of a
    /// pipeline may take away what an earlier step went by (the user item that began a turn), and
    /// T7 forbids to leave the consequences to a second compaction.
    pub(crate) fn settle(&mut self, mut edit: impl FnMut(&mut Self)) {
        let mut before: Option<Vec<Slot>> = None;
        for pass in 0..PASSES_MAX {
            let change_count = self.change_count;
            edit(self);
            self.keep_user_first();
            // An item dropped and restored in every pass counts as a change and is none.
            if self.change_count == change_count || before.as_ref() == Some(&self.slots) {
                return;
            }
            if pass > 0 {
                before = Some(self.slots.clone());
            }
        }
    }

    /// The first live item that is sent as part of the conversation.
    fn first_sent(&self) -> Option<usize> {
        let is_spoken = |entry: &Entry| !entry.kind().is_instruction();
        let sent = self.live().filter(|&(position, _)| self.tokens_at(position) > Tokens::ZERO);
        sent.filter(|(_, entry)| is_spoken(entry)).map(|(position, _)| position).next()
    }
}
