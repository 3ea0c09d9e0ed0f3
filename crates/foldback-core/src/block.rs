//! The record of a compaction, and the records in force.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::edit::{Edit, Fold};
use crate::ids::{Text, Timestamp, Tokens};
use crate::item::Item;
use crate::trigger::CompactionReason;

/// What a block records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockKind {
    /// A compaction that foldback made.
    #[default]
    Compaction,
    /// Items were replaced by forms that the provider accepts, for the compaction above it.
    Repair,
    /// Items that were recorded for a compaction are hidden, because it was undone.
    Undo,
    /// A compaction that an agent made, read from its session file.
    Imported,
}

/// The record of one compaction (T9): who made it, why, when, from what, what it changed, and the
/// tokens before and after. It is made once and read by everyone: views, stores, session files, reports.
///
/// The type of the same name in `foldback_engine::session` is what this record comes to in turns: it is
/// derived, never stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactionBlock {
    /// What it records.
    pub kind: BlockKind,
    /// Who: the strategy or pipeline that planned it, or the agent that made it.
    pub strategy: Text,
    /// Why it was made, where the host said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<CompactionReason>,
    /// When it was made, where the host said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// From what: how many items were recorded when it was made. It changes none behind them.
    pub item_count: usize,
    /// What the view cost before.
    pub tokens_before: Tokens,
    /// What it costs with this block in force.
    pub tokens_after: Tokens,
    /// What was changed, in order.
    pub edits: Vec<Edit>,
    /// The summary items of each fold among the edits, in the same order.
    pub summaries: Vec<Vec<Item>>,
    /// Whether it belongs to the same compaction as the block below it: both are undone together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_joined: bool,
    /// Of a repair: the items that were recorded in place of those that it drops. They mean something
    /// only while it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<Range<usize>>,
}

impl CompactionBlock {
    /// Whether another block changes the same, whoever counted the tokens.
    pub fn changes_as(&self, other: &Self) -> bool {
        let is_same = |(one, other): (&Edit, &Edit)| match (one, other) {
            (Edit::Drop(one), Edit::Drop(other)) => one.range == other.range,
            (Edit::Fold(one), Edit::Fold(other)) => {
                one.range == other.range && one.holes == other.holes && one.anchor == other.anchor
            }
            (Edit::Rewrite(one), Edit::Rewrite(other)) => {
                one.handle == other.handle && one.replacement == other.replacement
            }
            (Edit::Drop(_) | Edit::Fold(_) | Edit::Rewrite(_), _) => false,
        };
        self.edits.len() == other.edits.len()
            && self.summaries == other.summaries
            && self.edits.iter().zip(&other.edits).all(is_same)
    }

    /// The folds among its edits, each with its summary.
    pub fn folds(&self) -> impl Iterator<Item = (&Fold, &[Item])> {
        let folds = self.edits.iter().filter_map(|edit| match edit {
            Edit::Fold(fold) => Some(fold),
            Edit::Drop(_) | Edit::Rewrite(_) => None,
        });
        folds.zip(self.summaries.iter().map(Vec::as_slice))
    }

    /// Blocks of one compaction: each but the first is joined to the one below it.
    #[must_use]
    pub fn joined(mut blocks: Vec<Arc<Self>>) -> Vec<Arc<Self>> {
        for block in blocks.iter_mut().skip(1).filter(|block| !block.is_joined) {
            Arc::make_mut(block).is_joined = true;
        }
        blocks
    }

    /// One more than the last index that it speaks of.
    pub fn reach(&self) -> usize {
        let end = |edit: &Edit| match edit {
            Edit::Drop(drop) => drop.range.end,
            Edit::Rewrite(rewrite) => rewrite.item_index.saturating_add(1),
            Edit::Fold(fold) => fold.range.end.max(fold.anchor.saturating_add(1)),
        };
        self.edits.iter().map(end).max().unwrap_or(0)
    }

    /// Refuses it where it speaks of items that are not there, or contradicts itself.
    pub fn check(&self, item_count: usize) -> Result<(), BlockError> {
        let inside = |range: &Range<usize>| match range.start < range.end && range.end <= item_count {
            true => Ok(()),
            false => Err(BlockError::OutOfRange { range: range.clone(), item_count }),
        };
        let mut fold_count = 0;
        for edit in &self.edits {
            match edit {
                Edit::Drop(drop) => inside(&drop.range)?,
                Edit::Rewrite(rewrite) => {
                    inside(&(rewrite.item_index..rewrite.item_index.saturating_add(1)))?;
                }
                Edit::Fold(fold) => {
                    inside(&fold.range)?;
                    inside(&(fold.anchor..fold.anchor.saturating_add(1)))?;
                    fold_count += 1;
                    if !holes_lie_inside(fold) {
                        return Err(BlockError::Holes { range: fold.range.clone() });
                    }
                }
            }
        }
        let summary_count = self.summaries.len();
        match fold_count == summary_count {
            true => Ok(()),
            false => Err(BlockError::SummaryCount { fold_count, summary_count }),
        }
    }
}

fn holes_lie_inside(fold: &Fold) -> bool {
    let mut free_from = fold.range.start + 1;
    fold.holes.iter().all(|hole| {
        let fits = hole.start >= free_from && hole.start < hole.end && hole.end < fold.range.end;
        free_from = hole.end;
        fits
    })
}

/// A block that contradicts itself or was made for another transcript.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// An edit speaks of items the transcript does not have.
    #[error("it edits items {range:?} of {item_count}")]
    OutOfRange {
        /// What it edits.
        range: Range<usize>,
        /// How many items there are.
        item_count: usize,
    },
    /// A rewrite speaks of a part the item does not have.
    #[error("it rewrites part {part_index} of item {item_index}, which has fewer parts")]
    NoSuchPart {
        /// Which item.
        item_index: usize,
        /// Which part.
        part_index: usize,
    },
    /// A fold without its summary, or a summary without its fold.
    #[error("it has {fold_count} folds but {summary_count} summaries")]
    SummaryCount {
        /// How many folds it has.
        fold_count: usize,
        /// How many summaries.
        summary_count: usize,
    },
    /// Holes outside the fold, out of order or at its ends.
    #[error("it folds {range:?} with holes that do not lie inside it")]
    Holes {
        /// What it folds.
        range: Range<usize>,
    },
}

/// The blocks in force, oldest first. Transcript + overlay = view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    blocks: Vec<Arc<CompactionBlock>>,
}

impl Overlay {
    /// The same overlay with one more block in force.
    #[must_use]
    pub fn with(&self, block: impl Into<Arc<CompactionBlock>>) -> Self {
        let mut blocks = self.blocks.clone();
        blocks.push(block.into());
        Self { blocks }
    }

    /// The overlay without its newest compaction, and the blocks of that, newest first. `None` where no
    /// compaction is in force.
    ///
    /// What hides items of compactions that were undone before stays. Where blocks may have had items
    /// repaired, [`View::undo`](crate::View::undo) leads back to what was seen.
    pub fn undo(&self) -> Option<(Self, Vec<Arc<CompactionBlock>>)> {
        let mut blocks = self.blocks.clone();
        let newest_index = blocks.iter().rposition(|block| block.kind != BlockKind::Undo)?;
        let joined_count = blocks[..=newest_index].iter().rev().take_while(|block| block.is_joined).count();
        let first_index = newest_index.saturating_sub(joined_count);
        let mut taken_off: Vec<_> = blocks.drain(first_index..=newest_index).collect();
        taken_off.reverse();
        Some((Self { blocks }, taken_off))
    }

    /// The blocks, oldest first.
    pub fn blocks(&self) -> &[Arc<CompactionBlock>] {
        &self.blocks
    }

    pub(crate) fn edits(&self) -> impl DoubleEndedIterator<Item = &Edit> {
        self.blocks.iter().flat_map(|block| &block.edits)
    }
}

impl<B: Into<Arc<CompactionBlock>>> FromIterator<B> for Overlay {
    fn from_iter<I: IntoIterator<Item = B>>(blocks: I) -> Self {
        Self { blocks: blocks.into_iter().map(Into::into).collect() }
    }
}
