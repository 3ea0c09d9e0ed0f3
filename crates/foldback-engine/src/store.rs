//! The port to stores: where sessions are kept, for ever and by several processes at once.
//!
//! A session is a tree of loops. A loop has items, which are only ever added (T1), and blocks, of
//! which all are kept and some are in force. Everything a model needs to see is a [`Head`]: it costs
//! what is visible, however long the history behind it is.

mod care;
mod error;
mod jobs;
mod records;
mod search;
mod stack;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use foldback_core::{
    Anomaly, CompactionBlock, Handle, Item, ItemKind, LoopId, Metadata, Recalled, SessionId, Transcript,
};

pub use care::{GcReport, Problem, ProblemKind, Repairs, Retention, StoreSize, VerifyReport};
pub use error::StoreError;
pub use jobs::{Job, JobOutcome, JobState, Lease, QueuedJob};
pub use records::{
    At, BlockNumber, Head, LoopInfo, NewLoop, NewSession, Origin, Page, Revision, SessionInfo, SessionTimes,
    StackPoint, StoredBlock, Version,
};
pub use search::{
    HandleTarget, SearchAnswer, SearchCursor, SearchCursorError, SearchHit, SearchLeft, SearchQuery,
};
pub use stack::{UNDONE_NOTE, redo, undo};

/// Items that are looked at, at first, to find the end of a unit.
const UNIT_ITEMS_FIRST: usize = 64;

/// Keeps sessions.
///
/// Implementors guarantee: a call that returned `Ok` is durable, whatever happens to the process
/// afterwards; a call that failed changed nothing; a call whose future is dropped did all of it or
/// nothing. Whoever changes a session says which version it has seen ([`At`]): of two writers at the
/// same version one succeeds, the other gets [`StoreError::Conflict`] and has changed nothing. What
/// is read was checked against its hash.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Begins a session with one empty loop.
    async fn create(&self, session: &NewSession) -> Result<Version, StoreError>;

    /// What is known about a session.
    async fn session(&self, session: &SessionId) -> Result<SessionInfo, StoreError>;

    /// Sessions, the one that changed last first.
    async fn sessions(&self, page: &Page) -> Result<Vec<SessionInfo>, StoreError>;

    /// The loops of a session, in the order in which they were begun.
    async fn loops(&self, session: &SessionId) -> Result<Vec<LoopInfo>, StoreError>;

    /// Takes a session away, and all that only it holds. Its handles are errors from then on.
    async fn delete(&self, session: &SessionId) -> Result<(), StoreError>;

    /// Replaces the notes of a session.
    async fn annotate(
        &self,
        session: &SessionId,
        version: Version,
        metadata: &Metadata,
    ) -> Result<Version, StoreError>;

    /// Replaces the notes of a loop.
    async fn annotate_loop(&self, at: &At<'_>, metadata: &Metadata) -> Result<Version, StoreError>;

    /// Replaces the times of a session by those of the store that it comes from. This change itself leaves
    /// no time behind: [`SessionInfo::updated_at`] is what is given, until the next change.
    async fn date(
        &self,
        session: &SessionId,
        version: Version,
        times: &SessionTimes,
    ) -> Result<Version, StoreError>;

    /// Begins a loop and makes it the current one. With [`Origin::Branch`] it shares the items of
    /// its parent up to a place, by reference: that is a fork, and a rewind.
    async fn begin_loop(
        &self,
        session: &SessionId,
        version: Version,
        begun: &NewLoop,
    ) -> Result<Version, StoreError>;

    /// Makes another loop the current one.
    async fn switch_loop(&self, at: &At<'_>) -> Result<Version, StoreError>;

    /// Adds items to the end of a loop.
    async fn append(&self, at: &At<'_>, items: &[Arc<Item>]) -> Result<Version, StoreError>;

    /// Adds blocks, one at least, and puts them in force on top of those that are; blocks of one compaction
    /// are joined. What was undone and not redone stays recorded, and can no longer be redone.
    async fn commit(&self, at: &At<'_>, blocks: &[Arc<CompactionBlock>]) -> Result<Version, StoreError>;

    /// Adds items, puts blocks in force in place of others, and replaces notes: all
    /// of it is seen or none. What was in force or undone before stays recorded, and only
    /// [`Store::set_stack`] leads back to it. Refused where the base is not in force.
    async fn revise(&self, at: &At<'_>, revision: &Revision<'_>) -> Result<Version, StoreError>;

    /// Puts exactly the blocks up to `point.top` in force. [`undo`] and [`redo`] are made of it.
    async fn set_stack(&self, at: &At<'_>, point: StackPoint) -> Result<Version, StoreError>;

    /// What a view of a loop needs: the items that are visible, and what hides the others.
    async fn head(&self, session: &SessionId, loop_id: &LoopId) -> Result<Head, StoreError>;

    /// Recorded items, as they were appended. The end of the range may lie behind the last item.
    async fn items(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        range: Range<usize>,
    ) -> Result<Vec<Arc<Item>>, StoreError>;

    /// Every block of a loop ever made, in the order in which they were committed; those that it has
    /// from the loop it branched off included.
    async fn blocks(&self, session: &SessionId, loop_id: &LoopId) -> Result<Vec<StoredBlock>, StoreError>;

    /// Where the content behind a handle stands.
    async fn locate(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        handle: &Handle,
    ) -> Result<HandleTarget, StoreError>;

    /// Adds bytes of the file that the loop was read from. `offset` is how many are there.
    async fn append_original(&self, at: &At<'_>, offset: u64, bytes: &[u8]) -> Result<Version, StoreError>;

    /// The file that the loop was read from, piece by piece: the first bytes at or after `offset`,
    /// none at its end.
    async fn original(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        offset: u64,
    ) -> Result<Vec<u8>, StoreError>;

    /// Finds items, the best first. A few new items are taken into the index first; where there are
    /// more, the answer is not complete until [`Store::index`] has seen them.
    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer, StoreError>;

    /// Takes new items into the search index, at most so many. Answers how many are left.
    async fn index(&self, items_max: usize) -> Result<usize, StoreError>;

    /// Asks for a compaction of a session in the background. A session waits at most once; asked
    /// for while one is running, it waits again.
    async fn enqueue(&self, job: &Job) -> Result<(), StoreError>;

    /// Takes the job that waits longest, or one whose worker was not heard of for its lease. Nobody
    /// else gets a job of this session while the lease lasts.
    async fn claim(&self, worker: &str, lease: Duration) -> Result<Option<Lease>, StoreError>;

    /// Keeps a job for longer.
    async fn renew(&self, lease: &Lease, duration: Duration) -> Result<(), StoreError>;

    /// Ends a job.
    async fn finish(&self, lease: &Lease, outcome: &JobOutcome) -> Result<(), StoreError>;

    /// All jobs that wait, run or failed too often.
    async fn jobs(&self) -> Result<Vec<QueuedJob>, StoreError>;

    /// Removes what the policy lets go, and what nothing refers to any more.
    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError>;

    /// Reads everything and says what is wrong with it.
    async fn verify(&self, repairs: Repairs) -> Result<VerifyReport, StoreError>;

    /// What it takes on disk.
    async fn size(&self) -> Result<StoreSize, StoreError>;
}

/// What is known about one loop.
pub(crate) async fn loop_info(
    store: &dyn Store,
    session: &SessionId,
    loop_id: &LoopId,
) -> Result<LoopInfo, StoreError> {
    let missing = || StoreError::NotFound { what: "loop", id: loop_id.to_string() };
    store.loops(session).await?.into_iter().find(|info| info.id == *loop_id).ok_or_else(missing)
}

/// The original content behind a handle, as recorded: what a fold hides, a part that was rewritten,
/// or the unit that a line of a summary names (T5).
pub async fn recall(
    store: &dyn Store,
    session: &SessionId,
    loop_id: &LoopId,
    handle: &Handle,
) -> Result<Recalled, StoreError> {
    match store.locate(session, loop_id, handle).await? {
        HandleTarget::Ranges(ranges) => {
            let mut items = Vec::new();
            for range in ranges {
                items.extend(store.items(session, loop_id, range).await?);
            }
            Ok(Recalled::Items(items))
        }
        HandleTarget::Part { item_index, part_index } => {
            let items = store.items(session, loop_id, item_index..item_index + 1).await?;
            let part = items.first().and_then(|item| item.parts.get(part_index));
            let missing = || StoreError::NotFound { what: "part behind", id: handle.to_string() };
            part.cloned().map(Recalled::Part).ok_or_else(missing)
        }
        HandleTarget::Unit { item_index } => {
            unit_at(store, session, loop_id, item_index).await.map(Recalled::Items)
        }
    }
}

/// The unit that an item belongs to: as many items before and behind it are read as it takes to see its
/// ends.
async fn unit_at(
    store: &dyn Store,
    session: &SessionId,
    loop_id: &LoopId,
    index: usize,
) -> Result<Vec<Arc<Item>>, StoreError> {
    let mut count = UNIT_ITEMS_FIRST;
    loop {
        let start = index.saturating_sub(count);
        let end = index.saturating_add(count);
        let items = store.items(session, loop_id, start..end).await?;
        let is_at_end = items.len() < end - start;
        let transcript: Transcript = items.iter().cloned().collect();
        let (first, last) = transcript.unit_ends(index - start);
        // A unit that touches what was not read may go on there, and so may a call without its result
        // and a result without its call.
        let lacks_call = transcript.anomalies().iter().any(|anomaly| {
            matches!(anomaly, Anomaly::ResultWithoutCall { item_index, .. } if (first..=last).contains(item_index))
        });
        let begins = start == 0 || (first > 0 && !lacks_call);
        let is_unanswered = |anomaly: &Anomaly| matches!(anomaly, Anomaly::UnansweredCall { item_index, .. } if (first..=last).contains(item_index));
        let arrived_meanwhile = |item: &Arc<Item>| !matches!(item.kind, ItemKind::User | ItemKind::Assistant);
        let waits = || {
            transcript.pending_calls().next().is_some_and(|(at, _)| at <= last)
                || (items.iter().skip(last + 1).all(arrived_meanwhile)
                    && transcript.anomalies().iter().any(is_unanswered))
        };
        if begins && (is_at_end || (last + 1 < items.len() && !waits())) {
            let members = transcript.unit_members(index - start);
            return Ok(members.filter_map(|member| items.get(member).cloned()).collect());
        }
        count = count.saturating_mul(4);
    }
}
