//! Taking the newest compaction of a stored session off again, and putting it back.
//!
//! Items that were repaired for a compaction stay recorded, and once it is taken off a block hides them. That
//! block stands beside the compaction, not on it, so the store's own redo does not lead back: the loop's notes
//! say, under [`UNDONE_NOTE`], what was in force before.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::{BlockKind, CompactionBlock, Edit, LoopId, Metadata, Overlay, View};
use serde::{Deserialize, Serialize};

use super::{StoredSession, find};
use crate::store::{BlockNumber, LoopInfo, Revision, StackPoint, StoreError, StoredBlock, Version};

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
        let blocks = self.store.blocks(&self.id, &current).await?;
        let in_force = blocks.iter().filter(|stored| stored.is_in_force);
        let mut newest_first: Vec<&StoredBlock> = in_force.collect();
        newest_first.sort_by_key(|stored| Reverse(stored.number));
        // What hides the repairs of earlier compactions stays: it is part of what takes its place.
        let hiding = newest_first.iter().take_while(|stored| stored.block.kind == BlockKind::Undo).count();
        let (hiding, compactions) = newest_first.split_at(hiding);
        if compactions.is_empty() {
            return Err(StoreError::NothingTo { action: "undo" });
        }
        let (newest, below) = compactions.split_at(newest_count(compactions));
        let mut copies: Vec<Range<usize>> = hiding.iter().flat_map(|stored| dropped(&stored.block)).collect();
        copies.extend(newest.iter().filter_map(|stored| stored.block.copies.clone()));
        copies.retain(|copies| !copies.is_empty());
        copies.sort_by_key(|copies| copies.start);
        copies.dedup();
        self.version = match copies.is_empty() {
            true => self.store.undo(&self.at(&current)).await?,
            false => self.hide(&current, below, &copies).await?,
        };
        Ok(())
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

    /// Leaves only these blocks in force and hides what was recorded for the others, in one step with the
    /// note that says what was in force before.
    async fn hide(
        &self,
        loop_id: &LoopId,
        newest_first: &[&StoredBlock],
        copies: &[Range<usize>],
    ) -> Result<Version, StoreError> {
        let loops = self.store.loops(&self.id).await?;
        let info = find(&loops, loop_id)?;
        let mut transcript = self.empty.clone_empty();
        transcript.extend(self.store.items(&self.id, loop_id, 0..info.item_count).await?);
        let oldest_first = newest_first.iter().rev().map(|stored| Arc::clone(&stored.block));
        let overlay = oldest_first.fold(Overlay::default(), |overlay, block| overlay.with(block));
        let hidden = View::through(&transcript, &overlay).and_then(|view| view.hiding(copies));
        let hidden = hidden.map_err(|error| StoreError::InvalidBlock { why: error.to_string() })?;
        let block = hidden.overlay().blocks().last().expect("what hides them is a block").clone();
        // The number that it gets: at the version that was seen nothing else can get it.
        let hidden_by = BlockNumber(self.store.session(&self.id).await?.block_count + 1);
        let metadata = noted(info, Undone { hidden_by, before: info.stack });
        let base = newest_first.first().map(|stored| stored.number);
        let revision = Revision { items: &[], base, blocks: &[block], metadata: Some(&metadata) };
        self.store.revise(&self.at(loop_id), &revision).await
    }
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

/// How many blocks the newest of some compactions has.
fn newest_count(newest_first: &[&StoredBlock]) -> usize {
    let joined = newest_first.iter().take_while(|stored| stored.is_joined).count();
    (joined + 1).min(newest_first.len())
}

/// What a block hides.
fn dropped(block: &CompactionBlock) -> impl Iterator<Item = Range<usize>> {
    block.edits.iter().filter_map(|edit| match edit {
        Edit::Drop(drop) => Some(drop.range.clone()),
        Edit::Fold(_) | Edit::Rewrite(_) => None,
    })
}
