//! One loop of a session: what was recorded in it, and every compaction it has seen.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{
    BlockKind, Dialect, Handle, Item, LoopId, Overlay, OverlayError, Recalled, Transcript, TurnMap, View,
    mend,
};

use super::block::CompactionBlock;
use super::orchestrate::LoopCompaction;
use super::strategy::{LoopTurns, said_next};

/// Where a loop stands on the chain that is loaded. A strategy is told the place, not whether it is the most
/// recent, so that a call says what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LoopPlace {
    /// The last loop of the chain: the one that the agent is in.
    MostRecent,
    /// A loop before it.
    Older,
}

/// Where a branch left the loop that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkPoint {
    /// The loop.
    pub loop_id: LoopId,
    /// How many of its items the branch has.
    pub item_count: usize,
}

/// A compaction that a loop has seen, in force or not.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoggedBlock {
    /// What was done.
    pub block: Arc<foldback_core::CompactionBlock>,
    /// The place it was made for.
    pub place: LoopPlace,
    /// How many items the loop had.
    pub item_count: usize,
}

/// Which of a loop's blocks are in force, as indices into [`LoopRecord::blocks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// Where it is the most recent loop: in the order in which they were made.
    pub most_recent: Vec<usize>,
    /// Where it is an older one, with the repairs below. Without any, it is seen as the most recent loop was.
    pub older: Vec<usize>,
}

/// One loop: its items, append-only, and beside them every block that was ever made of it.
#[derive(Clone, Debug)]
pub struct LoopRecord {
    id: LoopId,
    parent: Option<LoopId>,
    forked_from: Option<ForkPoint>,
    transcript: Transcript,
    blocks: Vec<LoggedBlock>,
    in_force: InForce,
}

impl LoopRecord {
    pub(super) fn new(id: LoopId, parent: Option<LoopId>, transcript: Transcript) -> Self {
        Self { id, parent, forked_from: None, transcript, blocks: Vec::new(), in_force: InForce::default() }
    }

    /// Its name.
    pub fn id(&self) -> &LoopId {
        &self.id
    }

    /// The loop before it.
    pub fn parent(&self) -> Option<&LoopId> {
        self.parent.as_ref()
    }

    /// Where it branched off, if it did.
    pub fn forked_from(&self) -> Option<&ForkPoint> {
        self.forked_from.as_ref()
    }

    /// Everything that was recorded.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Every block that was made of it, oldest first, in force or not.
    pub fn blocks(&self) -> &[LoggedBlock] {
        &self.blocks
    }

    /// Which of them are in force.
    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// The newest block for its place as an older loop, if one is in force.
    pub fn older_block(&self) -> Option<&LoggedBlock> {
        self.in_force.older.last().and_then(|&index| self.blocks.get(index))
    }

    /// Its turns.
    pub fn turns(&self) -> TurnMap {
        TurnMap::of(&self.transcript)
    }

    /// What hides its items in this place.
    pub fn overlay(&self, place: LoopPlace) -> Overlay {
        let InForce { most_recent, older } = &self.in_force;
        let indices = if place == LoopPlace::Older && !older.is_empty() { older } else { most_recent };
        self.overlay_of(indices.iter().filter_map(|&index| self.blocks.get(index)))
    }

    /// These blocks, on one that hides what was recorded for others.
    fn overlay_of<'a>(&self, in_force: impl Iterator<Item = &'a LoggedBlock> + Clone) -> Overlay {
        let mut hidden: Vec<Range<usize>> = Vec::new();
        for copies in self.blocks.iter().filter_map(|logged| logged.block.copies.as_ref()) {
            let is_shown = in_force.clone().any(|logged| logged.block.copies.as_ref() == Some(copies));
            // A branch may end among them.
            let range = copies.start..copies.end.min(self.transcript.len());
            if !is_shown && !hidden.contains(&range) {
                hidden.push(range);
            }
        }
        let overlay = match hidden.is_empty() {
            true => Overlay::default(),
            false => {
                let hiding = View::of(&self.transcript).hiding(&hidden);
                hiding.expect("what was recorded for a block is recorded").overlay().clone()
            }
        };
        in_force.fold(overlay, |overlay, logged| overlay.with(Arc::clone(&logged.block)))
    }

    /// The loop as it is before it is compacted for the place of an older one: as it was recorded, repaired,
    /// with something said behind it.
    pub(super) fn as_older(&self, dialect: Option<Dialect>) -> Result<View, OverlayError> {
        let is_mending = |block: &BlockKind| matches!(block, BlockKind::Repair | BlockKind::Undo);
        let in_force = self.in_force.most_recent.iter().filter_map(|&index| self.blocks.get(index));
        let mending = self.overlay_of(in_force.filter(|logged| is_mending(&logged.block.kind)));
        let mut view = mend(&View::through(&self.transcript, &mending)?, dialect).view;
        view.push(said_next());
        Ok(view)
    }

    /// What the model sees of it in this place.
    pub fn view(&self, place: LoopPlace) -> Result<View, OverlayError> {
        View::through(&self.transcript, &self.overlay(place))
    }

    /// What it is loaded as in this place, in turns; nothing where it is loaded as it was recorded.
    pub fn compaction_block(&self, place: LoopPlace) -> Result<Option<CompactionBlock>, OverlayError> {
        let view = self.view(place)?;
        let turns = self.turns();
        Ok(CompactionBlock::of(&view, LoopTurns { transcript: &self.transcript, turns: &turns }))
    }

    pub(super) fn push(&mut self, item: Arc<Item>) {
        self.transcript.push(item);
    }

    /// Records what a compaction came to. Blocks for the most recent place stack; for the older place there
    /// is one compaction at a time.
    pub(super) fn commit(&mut self, done: &LoopCompaction) {
        self.transcript.extend(done.repaired.iter().cloned());
        self.commit_at(done.place, &done.blocks, self.transcript.len());
    }

    /// Blocks that were made when the loop had so many items.
    pub(super) fn commit_at(
        &mut self,
        place: LoopPlace,
        blocks: &[Arc<foldback_core::CompactionBlock>],
        item_count: usize,
    ) {
        let first = self.blocks.len();
        let logged = |block: &Arc<_>| LoggedBlock { block: Arc::clone(block), place, item_count };
        self.blocks.extend(blocks.iter().map(logged));
        let indices = first..self.blocks.len();
        match place {
            LoopPlace::MostRecent => self.in_force.most_recent.extend(indices),
            LoopPlace::Older => self.in_force.older = indices.collect(),
        }
    }

    pub(super) fn put_in_force(&mut self, in_force: InForce) {
        self.in_force = in_force;
    }

    /// A loop beside this one that has its first items. Costs those items, none of which is copied.
    pub(super) fn branch(&self, id: LoopId, item_count: usize) -> Self {
        let mut branch = Self::new(id, self.parent.clone(), self.transcript.first(item_count));
        branch.forked_from = Some(ForkPoint { loop_id: self.id.clone(), item_count });
        let is_older_in_time = self.older_block().is_some_and(|logged| logged.item_count <= item_count);
        for (index, logged) in self.blocks.iter().enumerate() {
            let is_in_time = logged.item_count <= item_count;
            let has_copies = logged.block.copies.as_ref().is_some_and(|copies| copies.start < item_count);
            if !is_in_time && !has_copies {
                continue;
            }
            if is_in_time && self.in_force.most_recent.contains(&index) {
                branch.in_force.most_recent.push(branch.blocks.len());
            }
            if is_older_in_time && self.in_force.older.contains(&index) {
                branch.in_force.older.push(branch.blocks.len());
            }
            branch.blocks.push(logged.clone());
        }
        branch
    }

    /// The original content behind a handle of any block, in force or not.
    pub(super) fn recall(&self, handle: &Handle) -> Option<Recalled> {
        let blocks = self.blocks.iter().map(|logged| Arc::clone(&logged.block));
        let within = blocks.filter(|block| block.reach() <= self.transcript.len());
        View::through(&self.transcript, &within.collect()).ok()?.recall(handle)
    }
}
