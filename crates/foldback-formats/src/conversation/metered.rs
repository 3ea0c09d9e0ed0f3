//! The blocks of a conversation with their tokens: known only where the items are counted.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::edit::{Edit, Rewrite};
use foldback_core::splice::covers;
use foldback_core::{BlockKind, CompactionBlock, ItemTokens, Tokens, Transcript};

use super::cover::Cover;
use super::{Conversation, Step};

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

impl Conversation {
    /// What each step did, counted as `transcript` counts. All steps together cost what one look at the
    /// conversation does, but for those that put others in force than the one before left.
    pub fn metered_steps<'c>(&'c self, transcript: &'c Transcript) -> MeteredSteps<'c> {
        MeteredSteps { steps: self.steps.iter(), transcript, in_force: Vec::new(), tally: None }
    }
}

/// What a step did.
#[derive(Clone, Debug, PartialEq)]
pub struct MeteredStep {
    /// The blocks that it put in force.
    pub blocks: Vec<Arc<CompactionBlock>>,
    /// Items that were recorded before it and that the model did not see any more.
    pub hidden_count: usize,
}

/// The steps of a conversation, one after the other.
#[derive(Debug)]
pub struct MeteredSteps<'c> {
    steps: std::slice::Iter<'c, Step>,
    transcript: &'c Transcript,
    in_force: Vec<&'c Arc<CompactionBlock>>,
    /// Of what is in force; none where an undo left it behind.
    tally: Option<Tally<'c>>,
}

impl Iterator for MeteredSteps<'_> {
    type Item = MeteredStep;

    fn next(&mut self) -> Option<MeteredStep> {
        let step = self.steps.next()?;
        let is_on_top = step.keeps == self.in_force.len();
        self.in_force.truncate(step.keeps);
        let only_takes_off = step.added.iter().all(|block| block.kind == BlockKind::Undo);
        if !is_on_top && only_takes_off {
            self.tally = None;
            self.in_force.extend(&step.added);
            return Some(MeteredStep { blocks: step.added.clone(), hidden_count: 0 });
        }
        if !is_on_top {
            self.tally = None;
        }
        let mut tally = match self.tally.take() {
            Some(tally) => tally,
            None => {
                let mut tally = Tally::new(self.transcript);
                self.in_force.iter().for_each(|block| drop(tally.metered(block)));
                tally
            }
        };
        (tally.watched, tally.newly_hidden) = (step.item_count_before(), 0);
        let blocks = step.added.iter().map(|block| tally.metered(block)).collect();
        self.in_force.extend(&step.added);
        let hidden_count = tally.newly_hidden;
        self.tally = Some(tally);
        Some(MeteredStep { blocks, hidden_count })
    }
}

/// What the model saw, in tokens, while blocks were put in force one after the other.
#[derive(Debug)]
struct Tally<'t> {
    transcript: &'t Transcript,
    hidden: Cover,
    /// How many items before this one were hidden since the count was set back.
    watched: usize,
    newly_hidden: usize,
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
        Self {
            transcript,
            hidden: Cover::new(transcript.len()),
            watched: 0,
            newly_hidden: 0,
            counted: 0,
            tokens: Tokens::ZERO,
            summaries: Vec::new(),
            rewritten: BTreeMap::new(),
        }
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
        let mut newly = Vec::new();
        ranges.iter().for_each(|range| self.hidden.add(range, |index| newly.push(index)));
        self.newly_hidden += newly.iter().filter(|&&index| index < self.watched).count();
        let mut hidden: Tokens = newly.into_iter().map(|index| self.cost(index)).sum();
        self.summaries.retain(|&(start, tokens)| {
            let is_hidden = covers(ranges, start);
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
        if !self.hidden.covers(index) {
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
