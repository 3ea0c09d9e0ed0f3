//! Taking the newest compaction of a loop off again, and putting it back.
//!
//! [`Overlay::undo`] and [`View::undo`] say what an undo is; a store keeps which blocks are in force. Items
//! that were repaired for a compaction stay recorded, and once it is taken off a block hides them. That block
//! stands beside the compaction, not on it, so the stack does not lead back: the loop's notes say, under
//! [`UNDONE_NOTE`], what was in force before.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{Metadata, Overlay, Transcript, View};
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::records::{At, BlockNumber, LoopInfo, Revision, StackPoint, StoredBlock, Version};
use super::{Store, loop_info};

/// Where a loop's notes hold what can be redone.
pub const UNDONE_NOTE: &str = "foldback.undone";

/// How many compactions with repairs can be redone; older ones are forgotten.
const UNDONE_MAX: usize = 64;

/// What was in force before an undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Undone {
    /// The block that hides what was recorded for the compaction.
    hidden_by: BlockNumber,
    before: StackPoint,
}

impl Undone {
    /// What a loop's notes hold, the oldest first.
    fn of(info: &LoopInfo) -> Vec<Self> {
        // Notes that cannot be read are a host's own: there is nothing to redo then.
        let noted = info.metadata.get(UNDONE_NOTE).cloned();
        noted.and_then(|noted| serde_json::from_value(noted).ok()).unwrap_or_default()
    }
}

/// Takes the newest compaction of a loop off again: all blocks that are joined.
///
/// Items that were repaired for it stay recorded, and a block hides them from then on. For the tokens of that
/// block items are counted as `empty` counts.
pub async fn undo(store: &dyn Store, at: &At<'_>, empty: &Transcript) -> Result<Version, StoreError> {
    let blocks = store.blocks(at.session, at.loop_id).await?;
    let in_force: Vec<&StoredBlock> = blocks.iter().filter(|stored| stored.is_in_force).collect();
    let overlay: Overlay = in_force.iter().map(|stored| Arc::clone(&stored.block)).collect();
    let (left, taken_off) = overlay.undo().ok_or(StoreError::NothingTo { action: "undo" })?;
    let info = loop_info(store, at.session, at.loop_id).await?;
    let pairs = overlay.blocks().iter().zip(left.blocks());
    let below = pairs.take_while(|(before, after)| Arc::ptr_eq(before, after)).count();
    let base = below.checked_sub(1).and_then(|index| in_force.get(index)).map(|stored| stored.number);
    let left = match taken_off.iter().filter_map(|block| block.copies.as_ref()).all(Range::is_empty) {
        true => left,
        false => hiding(store, at, &info, empty, &overlay).await?,
    };
    let above = left.blocks().get(below..).unwrap_or_default();
    if above.is_empty() {
        return store.set_stack(at, StackPoint { top: base, tip: info.stack.tip }).await;
    }
    // The number that the last gets: at the version that was seen nothing else can get it.
    let block_count = store.session(at.session).await?.block_count;
    let hidden_by = BlockNumber(block_count + above.len() as u64);
    let metadata = noted(&info, Undone { hidden_by, before: info.stack });
    store.revise(at, &Revision { items: &[], base, blocks: above, metadata: Some(&metadata) }).await
}

/// What is in force once the newest compaction is undone and the items that were repaired for it are hidden.
async fn hiding(
    store: &dyn Store,
    at: &At<'_>,
    info: &LoopInfo,
    empty: &Transcript,
    overlay: &Overlay,
) -> Result<Overlay, StoreError> {
    let mut transcript = empty.clone_empty();
    transcript.extend(store.items(at.session, at.loop_id, 0..info.item_count).await?);
    let invalid = |error: foldback_core::OverlayError| StoreError::InvalidBlock { why: error.to_string() };
    let undone = View::through(&transcript, overlay).map_err(invalid)?.undo();
    let (view, _) = undone.ok_or(StoreError::NothingTo { action: "undo" })?;
    Ok(view.overlay().clone())
}

/// Puts the compaction that was undone last in force again.
pub async fn redo(store: &dyn Store, at: &At<'_>) -> Result<Version, StoreError> {
    let info = loop_info(store, at.session, at.loop_id).await?;
    let StackPoint { top, tip } = info.stack;
    let undone = Undone::of(&info).into_iter().find(|undone| Some(undone.hidden_by) == top);
    // What was committed since stands on the block that hides: then that is what was undone last.
    let point = match undone.filter(|_| top == tip) {
        Some(undone) => undone.before,
        None => {
            let blocks = store.blocks(at.session, at.loop_id).await?;
            let next = redone(&blocks, info.stack).ok_or(StoreError::NothingTo { action: "redo" })?;
            StackPoint { top: Some(next), tip }
        }
    };
    store.set_stack(at, point).await
}

/// The last block of the compaction that stands on the newest in force, on the way to the tip. `blocks` are
/// in the order of their numbers.
fn redone(blocks: &[StoredBlock], stack: StackPoint) -> Option<BlockNumber> {
    let mut newest_first = Vec::new();
    let mut next = stack.tip;
    // Each stands on an older one, so there are never more steps than blocks.
    for _ in 0..blocks.len() {
        let Some(number) = next.filter(|_| next != stack.top) else { break };
        let found = blocks.binary_search_by_key(&number, |stored| stored.number).ok()?;
        let stored = blocks.get(found)?;
        newest_first.push(stored);
        next = stored.parent;
    }
    let mut way = newest_first.into_iter().rev();
    let first = way.next()?;
    Some(way.take_while(|stored| stored.block.is_joined).last().unwrap_or(first).number)
}

/// The notes of a loop with one more undo in them.
fn noted(info: &LoopInfo, newest: Undone) -> Metadata {
    let mut undone = Undone::of(info);
    undone.push(newest);
    undone.drain(..undone.len().saturating_sub(UNDONE_MAX));
    let mut metadata = info.metadata.clone();
    metadata.insert(UNDONE_NOTE.to_owned(), serde_json::to_value(undone).expect("numbers are JSON"));
    metadata
}

#[cfg(test)]
mod tests {
    use foldback_core::{CompactionBlock, Timestamp};

    use super::*;

    fn stored(number: u64, parent: Option<u64>, is_joined: bool) -> StoredBlock {
        StoredBlock {
            number: BlockNumber(number),
            loop_id: "main".into(),
            parent: parent.map(BlockNumber),
            is_in_force: false,
            stored_at: Timestamp(0),
            block: Arc::new(CompactionBlock { is_joined, ..CompactionBlock::default() }),
        }
    }

    #[test]
    fn redo_goes_one_compaction_at_a_time() {
        let next = |blocks: &[StoredBlock], top: Option<u64>, tip: u64| {
            let stack = StackPoint { top: top.map(BlockNumber), tip: Some(BlockNumber(tip)) };
            redone(blocks, stack).map(|number| number.0)
        };
        let single = [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(3))];
        let single = single.map(|(number, parent)| stored(number, parent, false));
        assert_eq!(next(&single, Some(1), 4), Some(3));
        assert_eq!(next(&single, None, 2), Some(1));
        assert_eq!(next(&single, Some(4), 4), None);
        let joined = [(1, None, false), (2, Some(1), true), (3, Some(2), false), (4, Some(3), true)];
        let joined = joined.map(|(number, parent, is_joined)| stored(number, parent, is_joined));
        assert_eq!((next(&joined, None, 4), next(&joined, Some(2), 4)), (Some(2), Some(4)));
    }
}
