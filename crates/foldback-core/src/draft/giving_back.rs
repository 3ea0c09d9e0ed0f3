//! Taking edits of a draft back, as long as it is one.

use super::{Draft, PendingRewrite, Slot};
use crate::ids::Tokens;
use crate::part::Part;
use crate::sequence::Mark as ItemMark;

/// A moment in the life of a draft.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    rewrite_count: usize,
}

/// A part of a visible item that was replaced by something smaller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenUp {
    pub(crate) position: usize,
    pub(crate) part_index: usize,
    /// What giving it back costs.
    pub(crate) saved: Tokens,
    order: (u32, usize),
}

impl Draft<'_> {
    /// Now.
    pub(crate) fn mark(&self) -> Mark {
        Mark { rewrite_count: self.rewrites.len() }
    }

    /// The parts that were replaced since, the last one first. Items that were edited before are left
    /// out: whoever did that had reasons of its own.
    pub(crate) fn given_up_since(&self, mark: Mark) -> Vec<GivenUp> {
        let mut given_up = Vec::new();
        if self.rewrites.len() == mark.rewrite_count {
            return given_up;
        }
        for (position, slot) in self.slots.iter().enumerate() {
            let &Slot::Rewritten(rewrite) = slot else { continue };
            if (rewrite as usize) < mark.rewrite_count {
                continue;
            }
            let replaced = self.rewrites[rewrite as usize].changes.iter().enumerate();
            for (order, change) in replaced.filter(|(_, change)| change.replacement.is_some()) {
                let part_index = change.part_index as usize;
                let view_tokens = self.place(position, part_index).view_tokens;
                let saved = Tokens(u64::from(view_tokens.saturating_sub(change.tokens)));
                given_up.push(GivenUp { position, part_index, saved, order: (rewrite, order) });
            }
        }
        given_up.sort_unstable_by_key(|step| std::cmp::Reverse(step.order));
        given_up
    }

    /// Puts a part back as the view has it.
    pub(crate) fn give_back(&mut self, given_up: &GivenUp) {
        let GivenUp { position, part_index, .. } = *given_up;
        let Slot::Rewritten(rewrite) = self.slots[position] else { return };
        let before = self.tokens_at(position);
        let PendingRewrite { changes, thoughtless, .. } = &mut self.rewrites[rewrite as usize];
        changes.retain(|change| change.part_index as usize != part_index);
        match (changes.is_empty(), *thoughtless) {
            (false, _) => {
                self.rewrites[rewrite as usize].tokens = self.tokens_changed(position, rewrite);
            }
            (true, Some(reason)) => self.slots[position] = Slot::Thoughtless(reason),
            (true, None) => self.slots[position] = Slot::Live,
        }
        self.tokens = self.tokens.saturating_sub(before) + self.tokens_at(position);
        self.change_count += 1;
    }

    /// Puts a longer part in the place of the one that stands for it, for the same reason.
    pub(crate) fn give_back_partly(&mut self, given_up: &GivenUp, part: Part) {
        let GivenUp { position, part_index, .. } = *given_up;
        let mut changes = self.changes(position).iter();
        let Some(reason) = changes.find(|change| change.part_index as usize == part_index) else { return };
        let (reason, tokens) = (reason.reason, self.meter().part(&part));
        self.change(self.place(position, part_index), tokens, Some(part), reason);
    }

    /// What an item costs with the changes of a rewrite.
    fn tokens_changed(&self, position: usize, rewrite: u32) -> Tokens {
        let PendingRewrite { changes, thoughtless, .. } = &self.rewrites[rewrite as usize];
        let unchanged = match thoughtless {
            Some(_) => self.view.mark(position).map_or(Tokens::ZERO, ItemMark::tokens_without_reasoning),
            None => self.view.tokens_at(position),
        };
        changes.iter().fold(unchanged, |tokens, change| {
            let view_tokens = self.place(position, change.part_index as usize).view_tokens;
            tokens.saturating_sub(Tokens(view_tokens.into())) + Tokens(change.tokens.into())
        })
    }
}
