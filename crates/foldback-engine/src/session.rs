//! Sessions: a tree of loops, each a run of the agent with its own record and its own compactions.
//!
//! Two descriptions of one compaction meet here. [`CompactionBlock`] says in turns what a loop is
//! loaded as: its first turns, a summary of the middle, its recent turns. That is what a
//! [`BlockCompactionStrategy`] proposes and what a reader of a [`LoopRecord`] is shown. What is
//! stored beside the recorded items is [`foldback_core::CompactionBlock`], the same in edits: it can
//! be stacked, checked, recalled from and taken off again, whoever proposed it. The first is planned as
//! the second, and read back from the view, so that there is one truth.
//!
//! A loop is loaded in one of two places: as the most recent loop of its chain, or as an older one.
//! Its record keeps the blocks of both apart. So a loop that is no longer the most recent gets a
//! block for its new place and loses none, and one that is resumed is seen as it was left.
//!
//! ```
//! use foldback_core::{Item, Tokens};
//! use foldback_engine::session::{CompactionConfig, Session, build_context_from_session, compact_session_loops};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let mut session = Session::new("s");
//! let current = session.begin_loop();
//! for turn in 0..40 {
//!     session.push(Item::user(format!("u{turn}"), "please continue ".repeat(40)))?;
//! }
//! let config = CompactionConfig::default();
//! let block_strategy = config.block_strategy.clone();
//! compact_session_loops(&mut session, &current, &*block_strategy, &config, Tokens(10_000)).await?;
//! let context = build_context_from_session(&session, &current, &config, Tokens(10_000))?;
//! assert!(context.items.len() < 40);
//! assert!(session.undo());
//! assert_eq!(build_context_from_session(&session, &current, &config, Tokens(10_000))?.items.len(), 40);
//! # Ok::<(), foldback_engine::session::SessionError>(())
//! # })?;
//! # Ok::<(), foldback_engine::session::SessionError>(())
//! ```

mod block;
mod config;
mod context;
mod orchestrate;
mod recall;
mod record;
mod recorder;
mod scope;
mod stored;
mod strategy;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use foldback_core::{
    BudgetError, Handle, Item, LoopId, OverlayError, Recalled, SessionId, SummaryError, Transcript,
};

use crate::compaction::CompactionError;

pub use block::{CompactedSection, CompactionBlock, SectionError};
pub use config::CompactionConfig;
pub use context::{LoadedLoop, SessionContext, build_context_from_session};
pub use orchestrate::{LOOP_KEY, LoopCompaction, SessionCompaction, compact_session_loops};
pub use recall::{Recollection, Secrets, recollect, search};
pub use record::{ForkPoint, InForce, LoggedBlock, LoopPlace, LoopRecord};
pub use recorder::{RecordedCompaction, SessionRecorder};
pub use scope::{CompactionScope, resolve_scope};
pub use stored::{LiveSession, OLDER_NOTE, StoredSession, StoredSessionError};
pub use strategy::{BlockCompactionStrategy, DefaultBlockCompaction, LoopTurns};

/// Why a session cannot do what was asked of it. It is what it was.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// No loop of the session has this name.
    #[error("the session has no loop {loop_id}; its loops are listed by `Session::loops`")]
    NoSuchLoop {
        /// The name.
        loop_id: LoopId,
    },
    /// Nothing was begun yet.
    #[error("the session has no loop yet; begin one")]
    NoLoop,
    /// The loop is shorter.
    #[error("loop {loop_id} has {item_count} items, {asked} were asked for")]
    BeyondLoop {
        /// The loop.
        loop_id: LoopId,
        /// How many it has.
        item_count: usize,
        /// How many were asked for.
        asked: usize,
    },
    /// A strategy proposed sections that do not belong to the loop.
    #[error("{strategy} proposed sections that cannot be loaded")]
    Section {
        /// The strategy.
        strategy: String,
        /// What is wrong with them.
        source: SectionError,
    },
    /// A strategy proposed a summary that cannot be taken.
    #[error("{strategy} proposed a summary that is not taken")]
    Summary {
        /// The strategy.
        strategy: String,
        /// Why not.
        source: SummaryError,
    },
    /// There is no compacted view of a loop, or a hook said no.
    #[error(transparent)]
    Compaction(#[from] CompactionError),
    /// The configuration leaves no room.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// Blocks and items do not belong together.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// A view was made of other items, or on other blocks, than the loop has.
    #[error("the view does not show loop {loop_id} as it is; compact what the session shows now")]
    AnotherHistory {
        /// The loop.
        loop_id: LoopId,
    },
}

/// One compaction of a session: which loops it concerned, and what was in force before and after.
#[derive(Clone, Debug)]
struct Operation {
    changes: Vec<(LoopId, InForce, InForce)>,
}

/// A tree of loops. Items are only appended (T1); what compactions hide can be shown again.
///
/// Cloning is cheap: items and blocks are shared.
#[derive(Clone, Debug)]
pub struct Session {
    id: SessionId,
    loops: BTreeMap<LoopId, LoopRecord>,
    order: Vec<LoopId>,
    current: Option<LoopId>,
    done: Vec<Operation>,
    undone: Vec<Operation>,
    empty: Transcript,
}

impl Session {
    /// A session without loops, which counts by estimate.
    pub fn new(id: impl Into<SessionId>) -> Self {
        Self {
            id: id.into(),
            loops: BTreeMap::new(),
            order: Vec::new(),
            current: None,
            done: Vec::new(),
            undone: Vec::new(),
            empty: Transcript::default(),
        }
    }

    /// The same, counting as this transcript does.
    #[must_use]
    pub fn counting_as(mut self, transcript: &Transcript) -> Self {
        self.empty = transcript.clone_empty();
        self
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Every loop, in the order in which they were begun.
    pub fn loops(&self) -> impl DoubleEndedIterator<Item = &LoopRecord> {
        self.order.iter().filter_map(|loop_id| self.loops.get(loop_id))
    }

    /// One loop.
    pub fn record(&self, loop_id: &LoopId) -> Result<&LoopRecord, SessionError> {
        self.loops.get(loop_id).ok_or_else(|| SessionError::NoSuchLoop { loop_id: loop_id.clone() })
    }

    /// The loop that [`Session::push`] appends to.
    pub fn current(&self) -> Option<&LoopId> {
        self.current.as_ref()
    }

    /// Goes on with this loop.
    pub fn resume(&mut self, loop_id: &LoopId) -> Result<(), SessionError> {
        self.record(loop_id)?;
        self.current = Some(loop_id.clone());
        Ok(())
    }

    /// Begins a loop after the current one, and goes on with it.
    pub fn begin_loop(&mut self) -> LoopId {
        let record = LoopRecord::new(self.next_id(), self.current.clone(), self.empty.clone_empty());
        self.add(record)
    }

    fn next_id(&self) -> LoopId {
        format!("{}-{}", self.id, self.order.len()).into()
    }

    fn add(&mut self, record: LoopRecord) -> LoopId {
        let id = record.id().clone();
        self.order.push(id.clone());
        self.loops.insert(id.clone(), record);
        self.current = Some(id.clone());
        id
    }

    /// Records an item in the current loop.
    pub fn push(&mut self, item: impl Into<Arc<Item>>) -> Result<(), SessionError> {
        let current = self.current.as_ref().ok_or(SessionError::NoLoop)?;
        let record = self.loops.get_mut(current).expect("the current loop is one of the session's");
        record.push(item.into());
        Ok(())
    }

    /// The loops from the first to this one, each the parent of the next.
    pub fn chain(&self, loop_id: &LoopId) -> Result<Vec<&LoopRecord>, SessionError> {
        let mut chain = vec![self.record(loop_id)?];
        // A parent is begun before its children, so this ends.
        while let Some(parent) = chain.last().and_then(|record| record.parent()) {
            chain.push(self.record(parent)?);
        }
        chain.reverse();
        Ok(chain)
    }

    /// A branch that has the first `item_count` items of a loop, as they were seen then: blocks that
    /// were made later are not in force in it. The loop itself stays what it is; the session goes on
    /// with the branch.
    pub fn fork(&mut self, loop_id: &LoopId, item_count: usize) -> Result<LoopId, SessionError> {
        let record = self.record(loop_id)?;
        let len = record.transcript().len();
        if item_count > len {
            let loop_id = loop_id.clone();
            return Err(SessionError::BeyondLoop { loop_id, item_count: len, asked: item_count });
        }
        let branch = record.branch(self.next_id(), item_count);
        Ok(self.add(branch))
    }

    /// Takes the current loop back to its first `item_count` items. What came after stays in the loop
    /// that was current, which can be resumed.
    pub fn rewind(&mut self, item_count: usize) -> Result<LoopId, SessionError> {
        let current = self.current.clone().ok_or(SessionError::NoLoop)?;
        self.fork(&current, item_count)
    }

    /// Takes the newest compaction off again, in every loop that it concerned. Returns whether there
    /// was one.
    pub fn undo(&mut self) -> bool {
        let Some(operation) = self.done.pop() else { return false };
        for (loop_id, before, _) in &operation.changes {
            self.put_in_force(loop_id, before.clone());
        }
        self.undone.push(operation);
        true
    }

    /// Puts the compaction that was undone last in force again. Returns whether there was one; a new
    /// compaction leaves nothing to redo.
    pub fn redo(&mut self) -> bool {
        let Some(operation) = self.undone.pop() else { return false };
        for (loop_id, _, after) in &operation.changes {
            self.put_in_force(loop_id, after.clone());
        }
        self.done.push(operation);
        true
    }

    fn put_in_force(&mut self, loop_id: &LoopId, in_force: InForce) {
        let record = self.loops.get_mut(loop_id).expect("loops are never removed");
        record.put_in_force(in_force);
    }

    /// Commits what was done as one compaction, to be undone together.
    fn commit<'a>(&mut self, done: impl IntoIterator<Item = &'a LoopCompaction>) {
        let mut changes = Vec::new();
        for done in done {
            let record = self.loops.get_mut(&done.loop_id).expect("loops of the session are compacted");
            let before = record.in_force().clone();
            record.commit(done);
            changes.push((done.loop_id.clone(), before, record.in_force().clone()));
        }
        if !changes.is_empty() {
            self.done.push(Operation { changes });
            self.undone.clear();
        }
    }

    /// The original content behind a handle, whichever loop and whichever compaction hid it, in
    /// force or not.
    pub fn recall(&self, handle: &Handle) -> Option<(LoopId, Recalled)> {
        let newest_first = self.loops().rev();
        newest_first.filter_map(|record| Some((record.id().clone(), record.recall(handle)?))).next()
    }
}
