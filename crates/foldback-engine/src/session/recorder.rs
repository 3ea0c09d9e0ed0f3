//! Records a session while an agent runs: what is said, and what compactions do to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldback_core::{CompactionReason, Item, Tokens, View};

use super::orchestrate::LoopCompaction;
use super::record::LoopPlace;
use super::{Session, SessionError};
use crate::event::{CompactionEvent, CompactionEventKind, CompactionObserver, CompactionReport};

/// Compactions of which the recorder remembers what came of them; older ones are in the blocks.
const REMEMBERED_MAX: usize = 1_024;

/// What came of a compaction, as its events told it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RecordedCompaction {
    /// It has begun.
    Started {
        /// Why.
        reason: CompactionReason,
        /// The strategy or pipeline.
        strategy: String,
        /// What the view cost.
        tokens_before: Tokens,
    },
    /// It is over.
    Ended(CompactionReport),
    /// It came to nothing; the view is what it was (T8).
    Failed {
        /// Why.
        why: String,
    },
}

/// Records a session while an agent runs. Clones record the same session. Give one to
/// [`CompactionHooks::observer`](crate::CompactionHooks::observer) or to the builder of a compactor: it takes
/// note of compactions that begin and end.
#[derive(Clone, Debug)]
pub struct SessionRecorder {
    recorded: Arc<Mutex<Recorded>>,
}

#[derive(Debug)]
struct Recorded {
    session: Session,
    compactions: Vec<RecordedCompaction>,
}

impl SessionRecorder {
    /// Goes on with a session; begins a loop if there is none.
    pub fn new(mut session: Session) -> Self {
        if session.current().is_none() {
            session.begin_loop();
        }
        Self { recorded: Arc::new(Mutex::new(Recorded { session, compactions: Vec::new() })) }
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        // Nothing below can leave a session half changed: it is appended to, or replaced.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an item in the current loop.
    pub fn push(&self, item: impl Into<Arc<Item>>) -> Result<(), SessionError> {
        self.lock().session.push(item)
    }

    /// Takes over what a compaction of the current loop led to: the blocks that `view` has and the
    /// loop has not. Items that were recorded while it was made stay, behind what it saw.
    ///
    /// Returns whether there was something to take over. A view of another history is refused: its
    /// blocks would hide the wrong items.
    pub fn take_over(&self, view: &View) -> Result<bool, SessionError> {
        let mut recorded = self.lock();
        let session = &mut recorded.session;
        let current = session.current().cloned().ok_or(SessionError::NoLoop)?;
        let record = session.record(&current)?;
        let in_force = record.overlay(LoopPlace::MostRecent);
        let is_behind = view.overlay().blocks().starts_with(in_force.blocks());
        let common = view.transcript().items().zip(record.transcript().items());
        let is_ours = common.into_iter().all(|(seen, ours)| Arc::ptr_eq(seen, ours) || seen == ours);
        if !is_behind || !is_ours {
            return Err(SessionError::AnotherHistory { loop_id: current });
        }
        let blocks = view.overlay().blocks()[in_force.blocks().len()..].to_vec();
        let Some(first) = blocks.first() else { return Ok(false) };
        let (tokens_before, tokens_after) = (first.tokens_before, view.tokens());
        // Repairs are recorded behind all others; they come back with the view.
        let known = record.transcript().len();
        let repaired = view.transcript().items().skip(known).cloned().collect();
        let (loop_id, place) = (current, LoopPlace::MostRecent);
        let view = view.clone();
        let done = LoopCompaction { loop_id, place, tokens_before, tokens_after, blocks, view, repaired };
        session.commit([&done]);
        Ok(true)
    }

    /// The session as it is now. Cheap: items are shared.
    pub fn session(&self) -> Session {
        self.lock().session.clone()
    }

    /// What came of the compactions that were observed, oldest first.
    pub fn compactions(&self) -> Vec<RecordedCompaction> {
        self.lock().compactions.clone()
    }
}

impl CompactionObserver for SessionRecorder {
    fn on_event(&self, event: &CompactionEvent) {
        let mut recorded = self.lock();
        if event.session_id != *recorded.session.id() {
            return;
        }
        let told = match &event.kind {
            CompactionEventKind::CompactionStarted { reason, strategy, tokens_before } => {
                RecordedCompaction::Started {
                    reason: reason.clone(),
                    strategy: strategy.clone(),
                    tokens_before: *tokens_before,
                }
            }
            CompactionEventKind::CompactionEnded(report) => RecordedCompaction::Ended(report.clone()),
            CompactionEventKind::CompactionFailed { why, .. } => {
                RecordedCompaction::Failed { why: why.clone() }
            }
            CompactionEventKind::SummaryAsked { .. }
            | CompactionEventKind::SummaryRefused { .. }
            | CompactionEventKind::SummaryTaken { .. } => return,
        };
        let compactions = &mut recorded.compactions;
        // The end of a compaction takes the place of its beginning.
        if !matches!(told, RecordedCompaction::Started { .. })
            && matches!(compactions.last(), Some(RecordedCompaction::Started { .. }))
        {
            compactions.pop();
        }
        if compactions.len() == REMEMBERED_MAX {
            compactions.remove(0);
        }
        compactions.push(told);
    }
}
