//! Fills the folds of a plan: from a backend, and from the digest where a backend is no help.
//!
//! A failure of a backend is no failure of the compaction (T8): whatever goes wrong, every fold gets
//! a summary before the deadline, and the events say what went wrong.

mod digest_backend;
mod guard;
mod retry;

use std::fmt;
use std::time::Duration;

use foldback_core::summary::ModelSummary;
use foldback_core::{
    CompactionReason, FoldRequest, Item, Metadata, Meter, Plan, SessionId, Tokens, TurnId, Usage, redact,
};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::backend::{CompactionBackend, SummaryRequest};
use crate::compaction::CompactionError;
use crate::event::{CompactionEventKind, SummaryFault};
pub use digest_backend::DigestBackend;
pub use guard::{BackendGuard, GuardLimits, Spend};
use retry::Calls;

/// How summaries are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    pub(crate) reason: Option<&'a CompactionReason>,
    /// What the host wants to pass along.
    pub(crate) metadata: &'a Metadata,
    /// Sees what happens.
    pub(crate) emit: &'a (dyn Fn(CompactionEventKind) + Send + Sync),
    /// Where the jitter of retries begins.
    pub(crate) seed: u64,
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
    /// Who wrote each.
    pub(crate) written_by: Vec<String>,
    /// What the calls cost in dollars, where prices are known.
    pub(crate) cost: Option<f64>,
    /// What was reported for all calls together.
    pub(crate) usage: Usage,
    /// What backends and the choice of candidates have to say.
    pub(crate) metadata: Metadata,
}

/// Fills every fold of a plan, all at the same time. Only cancellation is an error: where a backend
/// fails, is not asked, or answers with what cannot be taken, the digest stands in its place.
pub(crate) async fn fill(plan: &Plan, asking: &Asking<'_>) -> Result<Filled, CompactionError> {
    let calls = Calls::new(asking);
    let requests: Vec<FoldRequest<'_>> = plan.requests().collect();
    let folds = requests.iter().enumerate().map(|(index, request)| fill_one(&calls, *request, index));
    let items = tokio::select! {
        biased;
        () = asking.cancellation.cancelled() => return Err(CompactionError::Cancelled),
        items = join_all(folds) => items,
    };
    let written_by = |item: &Item| item.summary.as_ref().map_or("", |origin| &origin.written_by).to_owned();
    let mut filled = calls.into_filled();
    filled.written_by = items.iter().map(written_by).collect();
    filled.summaries = items.into_iter().map(|item| vec![item]).collect();
    Ok(filled)
}

/// The summary of one fold, whoever writes it.
async fn fill_one(calls: &Calls<'_>, request: FoldRequest<'_>, index: usize) -> Item {
    let asking = calls.asking;
    let item = match asking.backend.reads_items() {
        true => ask_for(calls, request, index).await,
        false => None,
    };
    let item = item.unwrap_or_else(|| request.digest());
    let origin = item.summary.as_ref().expect("the summary item of a fold says who wrote it");
    let written_by = origin.written_by.as_str().to_owned();
    let tokens = asking_meter(&request).item(&item).total;
    (asking.emit)(CompactionEventKind::SummaryTaken { written_by, tokens });
    item
}

fn asking_meter<'p>(request: &FoldRequest<'p>) -> &'p Meter {
    request.view().transcript().meter()
}

/// What the backend makes of one fold; `None` where that is no use.
async fn ask_for(calls: &Calls<'_>, request: FoldRequest<'_>, index: usize) -> Option<Item> {
    let asking = calls.asking;
    let meter = asking_meter(&request);
    let spec = &request.fold().spec;
    let items: Vec<_> = request.entries().filter(|entry| entry.item().summary.is_none()).collect();
    let tokens = items.iter().map(|entry| entry.tokens().total).sum();
    let header = request.header();
    let mut summary =
        SummaryRequest::new(asking.session_id.clone(), items.iter().map(|e| e.item().clone()).collect());
    summary.turn_id = asking.turn_id.cloned();
    summary.reason = asking.reason.cloned();
    summary.metadata = asking.metadata.clone();
    summary.tokens_max = Some(spec.tokens_max.saturating_sub(Tokens(meter.text(&header))));
    summary.focus.clone_from(&spec.focus);
    summary.previous = request.previous().map(|entry| entry.item().clone()).collect();
    let answered = calls.ask(&summary, tokens, index as u64).await.ok()?;
    let texts = answered.result.items.iter().flat_map(|item| &item.parts);
    let answer: String = texts.map(|part| foldback_core::reading::text_of(part).into_owned()).collect();
    if answer.trim().is_empty() {
        calls.refuse(SummaryFault::Empty, None);
        return None;
    }
    let text = ModelSummary { answer: &answer, ..ModelSummary::default() }.text(&header);
    let item = request.item(redact(&text).into_owned(), asking.backend.name());
    let cost = meter.item(&item).total;
    if cost > spec.tokens_max {
        calls.refuse(SummaryFault::Inflated { tokens: cost, tokens_max: spec.tokens_max }, None);
        return None;
    }
    Some(item)
}
