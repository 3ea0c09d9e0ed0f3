//! What a store tells about sessions, loops and blocks, and what it is told.

use std::fmt;
use std::sync::Arc;

use foldback_core::{CompactionBlock, Item, LoopId, Metadata, SessionId, Splice, Timestamp};
use serde::{Deserialize, Serialize};

/// How often a session was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Which block of a session, from 1, in the order in which they were committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockNumber(pub u64);

impl fmt::Display for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where a change goes, and what its writer has seen.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The session.
    pub session: &'a SessionId,
    /// The loop in it.
    pub loop_id: &'a LoopId,
    /// The version that the writer has seen.
    pub version: Version,
}

/// A session to begin.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its name; unique in the store.
    pub id: SessionId,
    /// The name of its first loop.
    pub first_loop: LoopId,
    /// The host's notes.
    pub metadata: Metadata,
}

impl NewSession {
    /// A session without notes.
    pub fn new(id: impl Into<SessionId>, first_loop: impl Into<LoopId>) -> Self {
        Self { id: id.into(), first_loop: first_loop.into(), metadata: Metadata::new() }
    }
}

/// Where a loop comes from. A new kind is a breaking change: every store has to follow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It is the first, or stands alone.
    Root,
    /// It goes on after this loop, with items of its own only.
    After(LoopId),
    /// It begins with the items of this loop up to an index, and with those blocks in force there
    /// that reach no further.
    Branch {
        /// Whose items it shares.
        parent: LoopId,
        /// How many.
        item_count: usize,
    },
}

/// A loop to begin.
#[derive(Clone, Debug)]
pub struct NewLoop {
    /// Its name; unique in the session.
    pub id: LoopId,
    /// Where it comes from.
    pub origin: Origin,
    /// The host's notes.
    pub metadata: Metadata,
}

/// What is known about a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// Its name.
    pub id: SessionId,
    /// How often it was changed.
    pub version: Version,
    /// How many blocks it has, of all its loops: the next gets the number behind.
    pub block_count: u64,
    /// The loop that is being recorded.
    pub current_loop: LoopId,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// The host's notes.
    pub metadata: Metadata,
}

/// When a session was begun and changed, where it was recorded first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTimes {
    /// When it was begun.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// When its loops were begun; those that are not named keep their times.
    pub loops: Vec<(LoopId, Timestamp)>,
}

/// What is known about a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopInfo {
    /// Its name.
    pub id: LoopId,
    /// Where it comes from.
    pub origin: Origin,
    /// How many items it has, shared ones included.
    pub item_count: usize,
    /// Which blocks are in force.
    pub stack: StackPoint,
    /// How long the file is that it was read from.
    pub original_bytes: u64,
    /// When it was begun.
    pub created_at: Timestamp,
    /// The host's notes.
    pub metadata: Metadata,
}

/// Which blocks are in force: `top` and all below it. Those between `top` and `tip` were undone and
/// can be redone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackPoint {
    /// The newest block in force.
    pub top: Option<BlockNumber>,
    /// The newest block that redo leads to.
    pub tip: Option<BlockNumber>,
}

/// Changes of a loop that are made in one step.
#[derive(Clone, Copy, Debug)]
pub struct Revision<'a> {
    /// Added to the end of the loop.
    pub items: &'a [Arc<Item>],
    /// The newest block that stays in force; those above it do not.
    pub base: Option<BlockNumber>,
    /// The blocks that are put in force on it, one at least. They may speak of the items.
    pub blocks: &'a [Arc<CompactionBlock>],
    /// The notes of the loop from then on, where others than before.
    pub metadata: Option<&'a Metadata>,
}

/// A block as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredBlock {
    /// Its number.
    pub number: BlockNumber,
    /// The loop it was committed to.
    pub loop_id: LoopId,
    /// The block below it.
    pub parent: Option<BlockNumber>,
    /// Whether it is in force in the loop that was asked for.
    pub is_in_force: bool,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// The block.
    pub block: Arc<CompactionBlock>,
}

/// What a view of a loop needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The version of the session.
    pub version: Version,
    /// How many items the loop has.
    pub item_count: usize,
    /// Which blocks are in force.
    pub stack: StackPoint,
    /// What they come to.
    pub splice: Splice,
    /// The visible items in order, as recorded.
    pub visible: Vec<Arc<Item>>,
}

impl Head {
    /// What the model sees.
    pub fn context(&self) -> Vec<Arc<Item>> {
        self.splice.context(self.item_count, self.visible.iter().cloned())
    }
}

/// Which of many sessions to list.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// How many to leave out.
    pub skip: usize,
    /// How many at most.
    pub limit: usize,
}

impl Page {
    /// The first so many.
    pub fn first(limit: usize) -> Self {
        Self { skip: 0, limit }
    }
}
