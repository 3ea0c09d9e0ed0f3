//! Fills the folds of a plan: from a backend, and from the digest where a backend is no help.
//!
//! A failure of a backend is no failure of the compaction (T8): whatever goes wrong, every fold gets
//! a summary before the deadline, and the events say what went wrong.

mod candidates;
mod chunk;
mod demands;
mod digest_backend;
mod folding;
mod guard;
mod judge;
mod piece;
mod pre_trim;
mod retry;
mod staying;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldback_core::compaction::{MODEL_SUMMARY_TOKENS, Outcome};
use foldback_core::{
    CompactionReason, Edit, Fold, FoldRequest, Item, Metadata, Plan, SessionId, Timestamp, Tokens, TurnId,
    Usage,
};
use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::backend::CompactionBackend;
use crate::compaction::CompactionError;
use crate::event::CompactionEventKind;
use crate::off_task::off_task;
pub use digest_backend::DigestBackend;
use folding::Folding;
pub use guard::{Admission, BackendGuard, GuardLimits, Spend};
pub use pre_trim::{PreTrim, PreTrimMove, Spill, SpillSink, SpilledOutput};
use retry::Calls;

/// Under which key a report says which fold it is about.
const HANDLE_KEY: &str = "handle";

/// Under which key the metadata say how each summary that a backend wrote came about.
const REPORTS_KEY: &str = "summaries";

/// How summaries are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryLimits {
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How long all summaries of one compaction may take together; the digest writes the rest.
    pub deadline: Duration,
    /// How often a failed call is tried again.
    pub retries_max: u32,
    /// How long it is waited before the first of them; each time twice as long.
    pub backoff_first: Duration,
    /// How long it is waited at most, unless the server asks for more.
    pub backoff_max: Duration,
    /// How many summaries are asked for where one is needed: the one that tells most is taken.
    pub candidates: usize,
    /// How many calls run at the same time.
    pub parallel_max: usize,
    /// What a summary is planned to cost at most where the strategy sets no size. What it leaves is for
    /// items that stay as they were.
    pub tokens_max: Tokens,
    /// In how many chunks the items are summarised at most where one call cannot hold them; the summaries of
    /// the chunks are then summarised once more. With 1, pre-trim alone makes them fit.
    pub chunks_max: usize,
    /// How what the backend is shown is made to fit.
    pub pre_trim: PreTrim,
}

impl Default for SummaryLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            deadline: Duration::from_secs(180),
            retries_max: 3,
            backoff_first: Duration::from_millis(500),
            backoff_max: Duration::from_secs(20),
            candidates: 1,
            parallel_max: 4,
            tokens_max: MODEL_SUMMARY_TOKENS,
            chunks_max: 16,
            pre_trim: PreTrim::default(),
        }
    }
}

/// Whom to ask for summaries, for whom, and within which limits.
pub(crate) struct Asking<'a> {
    /// Writes summaries.
    pub(crate) backend: &'a dyn CompactionBackend,
    /// How it is asked.
    pub(crate) limits: &'a SummaryLimits,
    /// Whether it is asked at all.
    pub(crate) guard: &'a BackendGuard,
    /// Ends it.
    pub(crate) cancellation: &'a CancellationToken,
    /// Whose conversation it is.
    pub(crate) session_id: &'a SessionId,
    /// The turn it happens in.
    pub(crate) turn_id: Option<&'a TurnId>,
    /// Why it is done.
    pub(crate) reason: &'a CompactionReason,
    /// What the host wants to pass along.
    pub(crate) metadata: &'a Metadata,
    /// Sees what happens.
    pub(crate) emit: &'a (dyn Fn(CompactionEventKind) + Send + Sync),
    /// Where the jitter of retries begins.
    pub(crate) seed: u64,
    /// When it is done.
    pub(crate) now: Timestamp,
}

impl fmt::Debug for Asking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("backend", &self.backend).field("limits", self.limits).finish()
    }
}

/// The summaries of a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filled {
    /// One list of items for each fold, in order.
    pub(crate) summaries: Vec<Vec<Item>>,
    /// How many of them a backend wrote; the others are digests.
    pub(crate) taken_count: usize,
    /// What the calls cost in dollars, where prices are known.
    pub(crate) cost: Option<f64>,
    /// What all calls took together: as reported, or as counted here where nothing was.
    pub(crate) usage: Usage,
    /// What backends and the choice of candidates have to say.
    pub(crate) metadata: Metadata,
}

impl Filled {
    /// One answer for each fold. None at all where every summary is the digest: then nobody answered.
    pub(crate) fn answers(&self) -> Vec<Option<Vec<Item>>> {
        match self.taken_count {
            0 => Vec::new(),
            _ => self.summaries.iter().cloned().map(Some).collect(),
        }
    }

    /// Gives the reports the handles of the folds that were made in place of those that were asked for.
    pub(crate) fn name<'f>(&mut self, asked: impl Iterator<Item = &'f Fold>, outcome: &Outcome) {
        let edits = outcome.compactions().flat_map(|block| &block.edits);
        let made = edits.filter_map(|edit| match edit {
            Edit::Fold(fold) => Some(fold.handle.as_str()),
            Edit::Drop(_) | Edit::Rewrite(_) => None,
        });
        let reports = self.metadata.get_mut(REPORTS_KEY).and_then(Value::as_array_mut);
        let mut reports =
            reports.into_iter().flatten().filter_map(|report| report.get_mut(HANDLE_KEY)).peekable();
        for (asked, made) in asked.zip(made) {
            if let Some(handle) = reports.next_if(|handle| **handle == *asked.handle.as_str()) {
                *handle = made.into();
            }
        }
    }
}

/// Fills every fold of a plan, all at the same time. Only cancellation is an error: where a backend
/// fails, is not asked, or answers with what cannot be taken, the digest stands in its place.
pub(crate) async fn fill(plan: &Arc<Plan>, asking: &Asking<'_>) -> Result<Filled, CompactionError> {
    let calls = Calls::new(asking);
    let folds = (0..plan.folds().count()).map(|index| fill_one(&calls, PlannedFold::new(plan, index)));
    let summaries = tokio::select! {
        biased;
        () = asking.cancellation.cancelled() => return Err(CompactionError::Cancelled),
        summaries = join_all(folds) => summaries,
    };
    if asking.cancellation.is_cancelled() {
        return Err(CompactionError::Cancelled);
    }
    let mut filled = calls.into_filled();
    let mut reports = Vec::new();
    for (items, report) in summaries {
        filled.summaries.push(items);
        filled.taken_count += usize::from(report.is_some());
        reports.extend(report);
    }
    if !reports.is_empty() {
        filled.metadata.insert(REPORTS_KEY.to_owned(), Value::Array(reports));
    }
    Ok(filled)
}

/// The summary of one fold, whoever writes it, and what there is to say about how it came about.
async fn fill_one(calls: &Calls<'_>, fold: PlannedFold) -> (Vec<Item>, Option<Value>) {
    let digest = fold.off_task(|request| request.digest());
    let digest = Arc::new(digest.await);
    match Folding::new(calls, &fold, Arc::clone(&digest)).await.summary().await {
        Some(taken) => (taken.items, Some(taken.report)),
        None => (vec![Arc::unwrap_or_clone(digest)], None),
    }
}

/// One fold of a plan, held so that it can be read on another thread.
#[derive(Clone, Debug)]
struct PlannedFold {
    plan: Arc<Plan>,
    index: usize,
}

impl PlannedFold {
    fn new(plan: &Arc<Plan>, index: usize) -> Self {
        Self { plan: Arc::clone(plan), index }
    }

    fn request(&self) -> FoldRequest<'_> {
        self.plan.requests().nth(self.index).expect("folds are counted before they are filled")
    }

    /// What there is to read.
    fn tokens(&self) -> Tokens {
        self.plan.view().transcript().tokens()
    }

    /// Reads it where nobody waits for the thread, unless there is little to read.
    async fn off_task<T: Send + 'static>(
        &self,
        read: impl FnOnce(&FoldRequest<'_>) -> T + Send + 'static,
    ) -> T {
        let fold = self.clone();
        off_task(self.tokens(), move || read(&fold.request())).await
    }
}
