//! Taking a compaction off a view again.

use std::ops::Range;
use std::sync::Arc;

use crate::block::{BlockKind, CompactionBlock};
use crate::edit::{Drop, Edit, Reason};
use crate::view::{OverlayError, View};

/// Who hides what was recorded for a compaction that is no longer in force.
const UNDO: &str = "undo";

impl View {
    /// What was seen before the newest compaction, with everything that was recorded since, and the
    /// blocks that were taken off, newest first. `None` where no compaction is in force.
    ///
    /// A compaction may have had repaired items recorded for itself. The record is append-only (T1),
    /// so they stay in it, and a block that is no compaction hides them.
    pub fn undo(&self) -> Option<(Self, Vec<Arc<CompactionBlock>>)> {
        let (overlay, taken_off) = self.overlay().undo()?;
        let copies: Vec<Range<usize>> = taken_off.iter().filter_map(|block| block.copies.clone()).collect();
        let invariant = "blocks that were in force together are in force without the newest";
        let view = Self::through(self.transcript(), &overlay).expect(invariant);
        let view = match copies.iter().all(Range::is_empty) {
            true => view,
            false => view.hiding(&copies).expect("what was recorded for a block is recorded"),
        };
        Some((view, taken_off))
    }

    /// The same without items that were recorded for compactions which are no longer in force.
    pub fn hiding(&self, copies: &[Range<usize>]) -> Result<Self, OverlayError> {
        let reason = Reason::new(UNDO, "recorded for a compaction that was undone");
        let drop = |range: &Range<usize>| Edit::Drop(Drop { range: range.clone(), reason: reason.clone() });
        let mut block = CompactionBlock {
            kind: BlockKind::Undo,
            strategy: UNDO.into(),
            item_count: self.transcript().len(),
            tokens_before: self.tokens(),
            edits: copies.iter().filter(|range| !range.is_empty()).map(drop).collect(),
            ..CompactionBlock::default()
        };
        block.tokens_after = Self::through(self.transcript(), &self.overlay().with(block.clone()))?.tokens();
        Self::through(self.transcript(), &self.overlay().with(block))
    }
}
