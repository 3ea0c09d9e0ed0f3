//! The blocks of a conversation with their tokens: known only where the items are counted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::edit::{Edit, Rewrite};
use foldback_core::{BlockKind, CompactionBlock, ItemTokens, Tokens, Transcript};

use super::Conversation;

impl Conversation {
    /// The blocks in force after so many steps, counted as `transcript` counts.
    pub(super) fn blocks_after(
        &self,
        step_count: usize,
        transcript: &Transcript,
    ) -> Vec<Arc<CompactionBlock>> {
        let mut in_force: Vec<&Arc<CompactionBlock>> = Vec::new();
        for step in self.steps.iter().take(step_count) {
            in_force.truncate(step.keeps);
            in_force.extend(&step.added);
        }
        let mut tally = Tally::new(transcript);
        in_force.into_iter().map(|block| tally.metered(block)).collect()
    }
}

/// What the model saw, in tokens, while blocks were put in force one after the other.
struct Tally<'t> {
    transcript: &'t Transcript,
    is_visible: Vec<bool>,
    /// The items before this one are counted.
    counted: usize,
    tokens: Tokens,
    /// What stands for folded items: the first of them, and what it costs.
    summaries: Vec<(usize, Tokens)>,
    /// What replaced parts cost, by item and part.
    rewritten: BTreeMap<usize, BTreeMap<usize, u32>>,
}

impl<'t> Tally<'t> {
    fn new(transcript: &'t Transcript) -> Self {
        let is_visible = vec![true; transcript.len()];
        let (summaries, rewritten) = (Vec::new(), BTreeMap::new());
        Self { transcript, is_visible, counted: 0, tokens: Tokens::ZERO, summaries, rewritten }
    }

    fn metered(&mut self, block: &Arc<CompactionBlock>) -> Arc<CompactionBlock> {
        let mut block = CompactionBlock::clone(block);
        let copies = block.copies.clone().filter(|_| block.kind == BlockKind::Imported);
        self.count_to(copies.as_ref().map_or(block.item_count, |copies| copies.start));
        let tokens_before = self.tokens;
        self.count_to(block.item_count);
        let is_imported = block.kind == BlockKind::Imported;
        let mut put_in = Vec::new();
        let mut summaries = block.summaries.iter();
        for edit in &mut block.edits {
            match edit {
                Edit::Drop(drop) => {
                    self.hide(std::slice::from_ref(&drop.range));
                }
                Edit::Rewrite(rewrite) => self.rewrite(rewrite),
                Edit::Fold(fold) => {
                    let hidden = self.hide(&fold.folded().collect::<Vec<_>>());
                    let items = summaries.next().map_or(&[][..], Vec::as_slice);
                    let tokens = items.iter().map(|item| self.transcript.meter().item(item).total).sum();
                    put_in.push((fold.range.start, tokens));
                    if is_imported {
                        (fold.tokens_before, fold.spec.tokens_max) = (hidden, tokens);
                    }
                }
            }
        }
        self.tokens += put_in.iter().map(|(_, tokens)| *tokens).sum();
        self.summaries.extend(put_in);
        if is_imported {
            (block.tokens_before, block.tokens_after) = (tokens_before, self.tokens);
        }
        block.into()
    }

    fn count_to(&mut self, item_count: usize) {
        let end = item_count.min(self.transcript.len()).max(self.counted);
        self.tokens += self.transcript.tokens_of(self.counted..end);
        self.counted = end;
    }

    /// Hides what is visible in these ranges, and says what it cost.
    fn hide(&mut self, ranges: &[Range<usize>]) -> Tokens {
        let mut hidden = Tokens::ZERO;
        for index in ranges.iter().cloned().flatten() {
            if self.is_visible.get_mut(index).is_some_and(std::mem::take) {
                hidden += self.cost(index);
            }
        }
        self.summaries.retain(|&(start, tokens)| {
            let is_hidden = ranges.iter().any(|range| range.contains(&start));
            hidden += if is_hidden { tokens } else { Tokens::ZERO };
            !is_hidden
        });
        self.tokens = self.tokens.saturating_sub(hidden);
        hidden
    }

    fn rewrite(&mut self, rewrite: &mut Rewrite) {
        rewrite.tokens = rewrite.replacement.as_ref().map_or(0, |part| self.transcript.meter().part(part));
        let index = rewrite.item_index;
        let before = self.cost(index);
        self.rewritten.entry(index).or_default().insert(rewrite.part_index, rewrite.tokens);
        if self.is_visible.get(index) == Some(&true) {
            self.tokens = self.tokens.saturating_sub(before) + self.cost(index);
        }
    }

    /// What an item costs with its replaced parts.
    fn cost(&self, index: usize) -> Tokens {
        let Some(entry) = self.transcript.get(index) else { return Tokens::ZERO };
        let Some(rewritten) = self.rewritten.get(&index) else { return entry.tokens().total };
        let parts = entry.tokens().parts().iter().enumerate();
        let now = |(part_index, tokens): (usize, &u32)| *rewritten.get(&part_index).unwrap_or(tokens);
        ItemTokens::of_parts(parts.map(now)).total
    }
}
