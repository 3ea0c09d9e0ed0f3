//! Taking the newest compaction of a stored session off again, and putting it back.
//!
//! Items that were repaired for a compaction stay recorded, and once it is taken off a block hides them. That
//! block stands beside the compaction, not on it, so the store's own redo does not lead back: the loop's notes
//! say, under [`UNDONE_NOTE`], what was in force before.

use std::cmp::Reverse;
use std::ops::Range;

use foldback_core::{CompactionBlock, Edit, LoopId, View};
use serde::{Deserialize, Serialize};

use super::{Change, StoredSession, find};
use crate::store::{BlockNumber, LoopInfo, StackPoint, StoreError, StoredBlock};

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

impl StoredSession {
    /// Takes the newest compaction of the current loop off again. Refused where the session was
    /// changed meanwhile: what would be undone could be somebody else's.
    ///
    /// Items that were repaired for it stay recorded, and a block hides them from then on.
    pub async fn undo(&mut self) -> Result<(), StoreError> {
        let current = self.current.clone();
        let before = find(&self.store.loops(&self.id).await?, &current)?.stack;
        let blocks = self.store.blocks(&self.id, &current).await?;
        let in_force = blocks.iter().filter(|stored| stored.is_in_force);
        let mut newest_first: Vec<&StoredBlock> = in_force.collect();
        newest_first.sort_by_key(|stored| Reverse(stored.number));
        if newest_first.iter().all(|stored| stored.block.is_undo()) {
            return Err(StoreError::NothingTo { action: "undo" });
        }
        let mut copies: Vec<Range<usize>> = Vec::new();
        // What hides the repairs of earlier compactions stays: it is put back on top.
        for stored in newest_first.iter().take_while(|stored| stored.block.is_undo()) {
            copies.extend(dropped(&stored.block));
            self.version = self.store.undo(&self.at(&current)).await?;
        }
        self.version = self.store.undo(&self.at(&current)).await?;
        copies.extend(taken_off(&newest_first).filter_map(|stored| stored.block.copies.clone()));
        copies.retain(|copies| !copies.is_empty());
        copies.sort_by_key(|copies| copies.start);
        copies.dedup();
        if copies.is_empty() {
            return Ok(());
        }
        self.hide(&current, &copies).await?;
        self.note_undone(&current, before).await
    }

    /// Puts the compaction that was undone last in force again. Refused where the session was changed
    /// meanwhile.
    pub async fn redo(&mut self) -> Result<(), StoreError> {
        let loops = self.store.loops(&self.id).await?;
        let info = find(&loops, &self.current)?;
        let StackPoint { top, tip } = info.stack;
        let undone = Undone::of(info).into_iter().find(|undone| Some(undone.hidden_by) == top);
        let at = self.at(&self.current);
        // What was committed since stands on the block that hides: then that is what was undone last.
        self.version = match undone.filter(|_| top == tip) {
            Some(undone) => self.store.set_stack(&at, undone.before).await?,
            None => self.store.redo(&at).await?,
        };
        Ok(())
    }

    /// Remembers what was in force before the block that is now the newest.
    async fn note_undone(&mut self, loop_id: &LoopId, before: StackPoint) -> Result<(), StoreError> {
        let loops = self.store.loops(&self.id).await?;
        let info = find(&loops, loop_id)?;
        let Some(hidden_by) = info.stack.top else { return Ok(()) };
        let mut undone = Undone::of(info);
        undone.push(Undone { hidden_by, before });
        undone.drain(..undone.len().saturating_sub(UNDONE_MAX));
        let mut metadata = info.metadata.clone();
        let undone = serde_json::to_value(undone).expect("numbers are JSON");
        metadata.insert(UNDONE_NOTE.to_owned(), undone);
        self.change(&Change::Note(loop_id, &metadata)).await
    }

    /// Hides what was recorded for compactions that are no longer in force.
    pub(super) async fn hide(&mut self, loop_id: &LoopId, copies: &[Range<usize>]) -> Result<(), StoreError> {
        let loops = self.store.loops(&self.id).await?;
        let (transcript, overlay) = self.load_record(find(&loops, loop_id)?).await?;
        let hidden = View::through(&transcript, &overlay).and_then(|view| view.hiding(copies));
        let hidden = hidden.map_err(|error| StoreError::InvalidBlock { why: error.to_string() })?;
        let block = hidden.overlay().blocks().last().expect("what hides them is a block").clone();
        self.change(&Change::Commit(loop_id, &[block])).await
    }
}

/// The blocks of the newest compaction, of all that were in force, newest first.
fn taken_off<'b>(newest_first: &'b [&'b StoredBlock]) -> impl Iterator<Item = &'b StoredBlock> {
    let mut is_over = false;
    let compactions = newest_first.iter().copied().skip_while(|stored| stored.block.is_undo());
    compactions.take_while(move |stored| !std::mem::replace(&mut is_over, !stored.is_joined))
}

/// What a block hides.
fn dropped(block: &CompactionBlock) -> impl Iterator<Item = Range<usize>> {
    block.edits.iter().filter_map(|edit| match edit {
        Edit::Drop(drop) => Some(drop.range.clone()),
        Edit::Fold(_) | Edit::Rewrite(_) => None,
    })
}
