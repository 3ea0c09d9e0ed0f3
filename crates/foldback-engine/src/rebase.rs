//! A compaction of a view that has grown meanwhile.

use std::sync::Arc;

use foldback_core::{Overlay, View};

use crate::compaction::CompactionResult;

/// Why a compaction cannot be taken over: the conversation is not the one it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebaseError {
    /// Another compaction was committed or taken back.
    #[error("the blocks in force have changed since; compact again")]
    OverlayChanged,
    /// The record is not the one it was made for.
    #[error("the recorded items have changed since; compact again")]
    RecordChanged,
    /// It recorded repaired items in the places that new ones have taken.
    #[error("items were recorded where the compaction put its repairs; compact again")]
    RepairsOverrun,
}

/// The result of compacting `base`, with everything that was pushed since: all of it is there, in
/// order, behind what the compaction left.
pub fn rebase(base: &View, result: &CompactionResult, current: &View) -> Result<View, RebaseError> {
    if !is_same_overlay(base.overlay(), current.overlay()) {
        return Err(RebaseError::OverlayChanged);
    }
    let recorded = base.transcript().len();
    let mut compacted = result.transcript.clone();
    if !begins_with(current, base) || !begins_with(&compacted, base) {
        return Err(RebaseError::RecordChanged);
    }
    let pushed = current.transcript().range(recorded..current.transcript().len());
    if compacted.transcript().len() > recorded && current.transcript().len() > recorded {
        return Err(RebaseError::RepairsOverrun);
    }
    pushed.for_each(|entry| compacted.push(Arc::clone(entry.item())));
    Ok(compacted)
}

/// Whether the same blocks are in force.
pub(crate) fn is_same_overlay(one: &Overlay, other: &Overlay) -> bool {
    one.blocks().len() == other.blocks().len() && extends(one, other)
}

/// Whether `longer` is `overlay` with nothing but new blocks on top.
pub(crate) fn extends(longer: &Overlay, overlay: &Overlay) -> bool {
    let is_same = |(one, other)| Arc::ptr_eq(one, other) || one == other;
    longer.blocks().len() >= overlay.blocks().len()
        && longer.blocks().iter().zip(overlay.blocks()).all(is_same)
}

/// Whether the record of `view` is that of `base`, with nothing but new items behind it.
pub(crate) fn begins_with(view: &View, base: &View) -> bool {
    let (view, base) = (view.transcript(), base.transcript());
    view.len() >= base.len()
        && view.items().zip(base.items()).all(|(one, other)| Arc::ptr_eq(one, other) || one == other)
}
