//! Taking the newest compaction of a stored session off again.

use std::cmp::Reverse;
use std::ops::Range;

use foldback_core::{CompactionBlock, Edit, LoopId, View};

use super::{Change, StoredSession, find};
use crate::store::{StoreError, StoredBlock};

impl StoredSession {
    /// Takes the newest compaction of the current loop off again. Refused where the session was
    /// changed meanwhile: what would be undone could be somebody else's.
    ///
    /// Items that were repaired for it stay recorded, and a block hides them from then on; such a
    /// compaction cannot be redone.
    pub async fn undo(&mut self) -> Result<(), StoreError> {
        let current = self.current.clone();
        let mut copies: Vec<Range<usize>> = Vec::new();
        let blocks = self.store.blocks(&self.id, &current).await?;
        let in_force = blocks.iter().filter(|stored| stored.is_in_force);
        let mut newest_first: Vec<&StoredBlock> = in_force.collect();
        newest_first.sort_by_key(|stored| Reverse(stored.number));
        // What hides the repairs of earlier compactions stays: it is put back on top.
        for stored in newest_first.iter().take_while(|stored| stored.block.is_undo()) {
            copies.extend(dropped(&stored.block));
            self.version = self.store.undo(&self.at(&current)).await?;
        }
        let undone = self.store.undo(&self.at(&current)).await.map(|version| self.version = version);
        if undone.is_ok() {
            copies.extend(taken_off(&newest_first).filter_map(|stored| stored.block.copies.clone()));
        }
        copies.retain(|copies| !copies.is_empty());
        copies.sort_by_key(|copies| copies.start);
        copies.dedup();
        if !copies.is_empty() {
            self.hide(&current, &copies).await?;
        }
        undone
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
