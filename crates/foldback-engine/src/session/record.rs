//! One loop of a session: what was recorded in it, and every compaction it has seen.

use std::sync::Arc;

use foldback_core::{Handle, Item, LoopId, Overlay, OverlayError, Recalled, Transcript, TurnMap, View};

use super::block::CompactionBlock;
use super::strategy::LoopTurns;

/// Where a loop stands on the chain that is loaded.
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
    /// Where it is an older one. Without any, it is seen as the most recent loop was.
    pub older: Option<usize>,
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

    /// The block for its place as an older loop, if one is in force.
    pub fn older_block(&self) -> Option<&LoggedBlock> {
        self.in_force.older.and_then(|index| self.blocks.get(index))
    }

    /// Its turns.
    pub fn turns(&self) -> TurnMap {
        TurnMap::of(&self.transcript)
    }

    /// What hides its items in this place.
    pub fn overlay(&self, place: LoopPlace) -> Overlay {
        let indices = match (place, self.in_force.older) {
            (LoopPlace::Older, Some(index)) => vec![index],
            (LoopPlace::Older, None) | (LoopPlace::MostRecent, _) => self.in_force.most_recent.clone(),
        };
        let blocks = indices.iter().filter_map(|&index| self.blocks.get(index));
        blocks.fold(Overlay::default(), |overlay, logged| overlay.with(Arc::clone(&logged.block)))
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

    /// Blocks for the most recent place stack; for the older place there is one at a time.
    pub(super) fn commit(&mut self, place: LoopPlace, blocks: Vec<Arc<foldback_core::CompactionBlock>>) {
        self.commit_at(place, blocks, self.transcript.len());
    }

    /// Blocks that were made when the loop had so many items.
    pub(super) fn commit_at(
        &mut self,
        place: LoopPlace,
        blocks: Vec<Arc<foldback_core::CompactionBlock>>,
        item_count: usize,
    ) {
        for block in blocks {
            let index = self.blocks.len();
            self.blocks.push(LoggedBlock { block, place, item_count });
            match place {
                LoopPlace::MostRecent => self.in_force.most_recent.push(index),
                LoopPlace::Older => self.in_force.older = Some(index),
            }
        }
    }

    pub(super) fn put_in_force(&mut self, in_force: InForce) {
        self.in_force = in_force;
    }

    /// A loop beside this one that has its first items. Costs those items, none of which is copied.
    pub(super) fn branch(&self, id: LoopId, item_count: usize) -> Self {
        let mut transcript = self.transcript.clone_empty();
        for entry in self.transcript.range(0..item_count) {
            transcript.push_counted(Arc::clone(entry.item()), entry.tokens().clone());
        }
        let mut branch = Self::new(id, self.parent.clone(), transcript);
        branch.forked_from = Some(ForkPoint { loop_id: self.id.clone(), item_count });
        let logged = |index: &usize| self.blocks.get(*index);
        let in_time = |logged: &&LoggedBlock| logged.item_count <= item_count;
        let most_recent = self.in_force.most_recent.iter().filter_map(logged).take_while(in_time);
        for logged in most_recent.chain(self.older_block().filter(in_time)) {
            branch.blocks.push(logged.clone());
            let index = branch.blocks.len() - 1;
            match logged.place {
                LoopPlace::MostRecent => branch.in_force.most_recent.push(index),
                LoopPlace::Older => branch.in_force.older = Some(index),
            }
        }
        branch
    }

    /// The original content behind a handle of any block, in force or not.
    pub(super) fn recall(&self, handle: &Handle) -> Option<Recalled> {
        let every = self.blocks.iter().map(|logged| foldback_core::CompactionBlock::clone(&logged.block));
        View::through(&self.transcript, &every.collect()).ok()?.recall(handle)
    }
}
