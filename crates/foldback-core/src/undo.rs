//! Taking a compaction off a view again.

use std::ops::Range;
use std::sync::Arc;

use crate::edit::{Drop, Edit, Reason};
use crate::view::{CompactionBlock, Overlay, OverlayError, View};

/// Who hides what was recorded for a compaction that is no longer in force.
const UNDO: &str = "undo";

impl View {
    /// What was seen before the newest compaction, with everything that was recorded since, and the
    /// blocks that were taken off, newest first. `None` where no compaction is in force.
    ///
    /// A compaction may have had repaired items recorded for itself. The record is append-only (T1),
    /// so they stay in it, and a block that is no compaction hides them.
    pub fn undo(&self) -> Option<(Self, Vec<Arc<CompactionBlock>>)> {
        let mut blocks = self.overlay().blocks().to_vec();
        let newest_index = blocks.iter().rposition(|block| !block.is_undo())?;
        let copies = blocks[newest_index].copies.clone();
        let is_of_it = |block: &&Arc<CompactionBlock>| block.copies.is_some() && block.copies == copies;
        let joined_count = blocks[..newest_index].iter().rev().take_while(is_of_it).count();
        let mut taken_off: Vec<Arc<CompactionBlock>> =
            blocks.drain(newest_index - joined_count..=newest_index).collect();
        taken_off.reverse();
        let overlay = blocks.into_iter().fold(Overlay::default(), |overlay, block| overlay.with(block));
        let invariant = "blocks that were in force together are in force without the newest";
        let view = Self::through(self.transcript(), &overlay).expect(invariant);
        let view = match copies.filter(|copies| !copies.is_empty()) {
            None => view,
            Some(copies) => view.hiding(&[copies]).expect("what was recorded for a block is recorded"),
        };
        Some((view, taken_off))
    }

    /// The same without items that were recorded for compactions which are no longer in force.
    pub fn hiding(&self, copies: &[Range<usize>]) -> Result<Self, OverlayError> {
        let reason = Reason::new(UNDO, "recorded for a compaction that was undone");
        let drop = |range: &Range<usize>| Edit::Drop(Drop { range: range.clone(), reason: reason.clone() });
        let mut block = CompactionBlock {
            edits: copies.iter().map(drop).collect(),
            summaries: Vec::new(),
            strategy: UNDO.into(),
            cause: None,
            tokens_before: self.tokens(),
            tokens_after: self.tokens(),
            created_at: None,
            copies: None,
        };
        block.tokens_after = Self::through(self.transcript(), &self.overlay().with(block.clone()))?.tokens();
        Self::through(self.transcript(), &self.overlay().with(block))
    }
}

impl CompactionBlock {
    /// Whether it is no compaction, but hides what was recorded for one that was undone. It stays
    /// when others are undone.
    pub fn is_undo(&self) -> bool {
        self.strategy.as_str() == UNDO
    }
}
