//! What happens in a compaction, as it happens.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldback_core::{Change, CompactionReason, Metadata, SessionId, Tokens, TurnId};

use crate::backend::BackendError;
use crate::compaction::{CompactionRequest, CompactionResult};

/// One step of a compaction.
#[derive(Clone, Debug)]
pub struct CompactionEvent {
    /// Whose conversation it is.
    pub session_id: SessionId,
    /// The turn it happens in.
    pub turn_id: Option<TurnId>,
    /// What happened.
    pub kind: CompactionEventKind,
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CompactionEventKind {
    /// A compaction begins.
    CompactionStarted {
        /// Why.
        reason: CompactionReason,
        /// The strategy or pipeline.
        strategy: String,
        /// What the view costs.
        tokens_before: Tokens,
    },
    /// A backend is asked for a summary.
    SummaryAsked {
        /// Which backend.
        backend: String,
        /// Which attempt at this summary, from one.
        attempt: u32,
        /// What is sent, as counted here.
        tokens: Tokens,
    },
    /// A backend failed or gave an answer that is not taken.
    SummaryRefused {
        /// Which backend.
        backend: String,
        /// Why.
        why: SummaryFault,
        /// How long it is waited before it is asked again; none if it is not.
        retry_in: Option<Duration>,
    },
    /// A summary was taken.
    SummaryTaken {
        /// Who wrote it: a backend, or the digest.
        written_by: String,
        /// What it costs.
        tokens: Tokens,
    },
    /// The compaction is over.
    CompactionEnded(CompactionReport),
    /// There is no compacted view; the view is what it was (T8).
    CompactionFailed {
        /// Why, as the error says it.
        why: String,
        /// What the view costs.
        tokens: Tokens,
        /// Whether it fits its budget as it is; unknown without a budget.
        fits: Option<bool>,
        /// How long it took to find out.
        duration: Duration,
    },
}

/// Why an answer was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryFault {
    /// There was none.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// There was nothing in it.
    #[error("the answer is empty")]
    Empty,
    /// It was cut off.
    #[error("the answer was cut off at the output limit")]
    Truncated,
    /// The model would not.
    #[error("the model refused")]
    Refused,
    /// It is longer than asked for, or longer than what it stands for.
    #[error("the answer costs {tokens} tokens, {tokens_max} were asked for")]
    Inflated {
        /// What it costs.
        tokens: Tokens,
        /// What was asked for.
        tokens_max: Tokens,
    },
    /// It leaves out what must stand in it.
    #[error("the answer leaves out {missing} of {demanded} facts that must stand in it")]
    Incomplete {
        /// How many are missing.
        missing: usize,
        /// How many were demanded.
        demanded: usize,
    },
    /// It has items or parts that no summary may have.
    #[error("the answer is no text: {what}")]
    NotText {
        /// What it is.
        what: String,
    },
}

/// What a compaction did, for people, recorders and dashboards.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionReport {
    /// Why it was made.
    pub reason: CompactionReason,
    /// The strategy or pipeline.
    pub strategy: String,
    /// What the view cost before.
    pub tokens_before: Tokens,
    /// What it costs now.
    pub tokens_after: Tokens,
    /// How many items were removed or changed.
    pub replaced_items: usize,
    /// The first position of the view that changed; none if nothing did.
    pub first_changed: Option<usize>,
    /// What the unchanged prefix costs: how much of the prompt cache survives.
    pub prefix_tokens_kept: Tokens,
    /// How long it took.
    pub duration: Duration,
    /// What the summary calls cost in dollars, where prices are known.
    pub cost: Option<f64>,
    /// Who wrote each summary.
    pub written_by: Vec<String>,
    /// What the strategies have to say.
    pub metadata: Metadata,
}

impl CompactionReport {
    /// What a request led to, `took` after it began.
    pub(crate) fn of(
        request: &CompactionRequest,
        result: &CompactionResult,
        strategy: String,
        took: Duration,
    ) -> Self {
        let (before, after) = (&request.transcript, &result.transcript);
        let Change { first_changed, prefix_tokens_kept, .. } = Change::between(before, after);
        Self {
            reason: request.reason.clone(),
            strategy,
            tokens_before: before.tokens(),
            tokens_after: after.tokens(),
            replaced_items: result.replaced_items,
            first_changed,
            prefix_tokens_kept,
            duration: took,
            cost: result.cost,
            written_by: result.written_by.clone(),
            metadata: result.metadata.clone(),
        }
    }
}

/// Sees events as they happen. Called between awaits: it must not block.
///
/// ```
/// use foldback_core::KeepRecentStrategy;
/// use foldback_engine::{CompactionEvent, StrategyCompactor};
///
/// let compactor = StrategyCompactor::builder()
///     .item_count_trigger(12)
///     .strategy(KeepRecentStrategy::new(8))
///     .observer(|event: &CompactionEvent| println!("{:?}", event.kind));
/// # let _ = compactor;
/// ```
pub trait CompactionObserver: Send + Sync {
    /// Takes note.
    fn on_event(&self, event: &CompactionEvent);
}

impl fmt::Debug for dyn CompactionObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("observer")
    }
}

impl<F: Fn(&CompactionEvent) + Send + Sync> CompactionObserver for F {
    fn on_event(&self, event: &CompactionEvent) {
        self(event);
    }
}

impl<O: CompactionObserver + ?Sized> CompactionObserver for Arc<O> {
    fn on_event(&self, event: &CompactionEvent) {
        (**self).on_event(event);
    }
}
