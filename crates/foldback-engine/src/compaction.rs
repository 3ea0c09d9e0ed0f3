//! What a host asks of a compaction, what it gets, and the seam for compactions of its own.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{
    Budget, Change, CompactionReason, Dialect, DiffError, Draft, Execution, Item, KeepLines, Metadata,
    Refusal, SessionId, Strategy, Text, Tokens, TurnId, Usage, View, diff,
};
use tokio_util::sync::CancellationToken;

use crate::ask::SummaryLimits;
use crate::backend::GuardedBackend;
use crate::clock::{Clock, SystemClock};
use crate::event::{CompactionEvent, CompactionEventKind, CompactionObserver};
use crate::executor;
use crate::naming::type_name;

/// What to compact, and why. Clones are cheap: the transcript is shared, never copied.
///
/// It is not serialised as a whole, nor is [`CompactionResult`]: a view is a recorded transcript and the blocks
/// in force. Store items and blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionRequest {
    /// Whose conversation it is.
    pub session_id: SessionId,
    /// The turn it happens in.
    pub turn_id: Option<TurnId>,
    /// A [`View`], in spite of its name: what the model sees now. The record is behind it.
    pub transcript: View,
    /// Why.
    pub reason: CompactionReason,
    /// What the host wants to pass along.
    pub metadata: Metadata,
    /// How much room there is. Without one, strategies that work towards a size are refused.
    pub budget: Option<Budget>,
    /// Whose rules the result must keep. Without one, those that all providers share.
    pub dialect: Option<Dialect>,
    /// What the person asked the summaries to attend to.
    pub focus: Option<Text>,
    /// Which lines of the record the summaries repeat word for word where nothing else shows them.
    pub keep: Option<KeepLines>,
    /// The longest request that the provider takes, where it said so when it rejected one.
    pub limit: Option<Tokens>,
}

impl CompactionRequest {
    /// What the model sees before the compaction.
    pub fn view(&self) -> &View {
        &self.transcript
    }

    /// A request outside any turn. Takes a view, a transcript, or a list of items.
    pub fn new(
        session_id: impl Into<SessionId>,
        transcript: impl Into<View>,
        reason: CompactionReason,
    ) -> Self {
        Self {
            session_id: session_id.into(),
            turn_id: None,
            transcript: transcript.into(),
            reason,
            metadata: Metadata::new(),
            budget: None,
            dialect: None,
            focus: None,
            keep: None,
            limit: None,
        }
    }

    /// A request inside a turn.
    pub fn for_turn(
        session_id: impl Into<SessionId>,
        turn_id: impl Into<TurnId>,
        transcript: impl Into<View>,
        reason: CompactionReason,
    ) -> Self {
        Self::new(session_id, transcript, reason).with_turn_id(turn_id)
    }

    /// The same, inside this turn.
    #[must_use]
    pub fn with_turn_id(mut self, turn_id: impl Into<TurnId>) -> Self {
        self.turn_id = Some(turn_id.into());
        self
    }

    /// The same, with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// The same, towards a budget.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The same, for a provider.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// The same, with summaries that attend to something.
    #[must_use]
    pub fn with_focus(mut self, focus: impl Into<Text>) -> Self {
        self.focus = Some(focus.into());
        self
    }

    /// The same, with summaries that repeat these lines.
    #[must_use]
    pub fn with_keep(mut self, keep: KeepLines) -> Self {
        self.keep = Some(keep);
        self
    }

    /// What this asks of a strategy, without a date.
    pub fn execution<S: Strategy>(&self, strategy: S) -> Execution<S> {
        Execution {
            view: self.transcript.clone(),
            strategy,
            budget: self.budget,
            dialect: self.dialect,
            cause: Some(self.reason.clone()),
            now: None,
            focus: self.focus.clone(),
            keep: self.keep.clone(),
            summaries_max: None,
        }
    }
}

/// What a compaction led to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompactionResult {
    /// A [`View`], in spite of its name: what the model sees now. Its overlay holds the blocks of this
    /// compaction behind those of the request; the recorded items are the request's.
    pub transcript: View,
    /// How many items were removed or changed.
    pub replaced_items: usize,
    /// How many tokens more than before the model sees: only where the host asked for a summary that costs
    /// more than the little it stands for, within the limit that the host set.
    pub larger_by: Tokens,
    /// What the strategies have to say about it.
    pub metadata: Metadata,
    /// Who wrote each summary.
    pub written_by: Vec<String>,
    /// What was reported for the summary calls together.
    pub usage: Usage,
    /// What they cost in dollars, where prices are known.
    pub cost: Option<f64>,
}

impl CompactionResult {
    /// What the model sees after the compaction.
    pub fn view(&self) -> &View {
        &self.transcript
    }

    /// Nothing to do.
    pub fn unchanged(transcript: View) -> Self {
        Self::new(transcript, 0)
    }

    /// A view in which so many items of the one before were removed or changed.
    pub fn new(transcript: View, replaced_items: usize) -> Self {
        Self {
            transcript,
            replaced_items,
            larger_by: Tokens::ZERO,
            metadata: Metadata::new(),
            written_by: Vec::new(),
            usage: Usage::default(),
            cost: None,
        }
    }

    /// The same, with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// What a strategy of the host's own made of the items of the request, as edits that can be
    /// explained and undone. See [`diff`](fn@diff) for what it may do.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use foldback_core::{CompactionReason, Item, Transcript, View};
    /// use foldback_engine::{CompactionRequest, CompactionResult};
    ///
    /// let transcript: Transcript = (0..9).map(|n| Item::user(format!("u{n}"), "hello")).collect();
    /// let request = CompactionRequest::new("session", View::of(&transcript), CompactionReason::Manual);
    /// let newest: Vec<Arc<Item>> = request.transcript.items().skip(6).cloned().collect();
    /// let result = CompactionResult::from_items(&request, &newest)?;
    /// assert_eq!((result.transcript.len(), result.replaced_items), (3, 6));
    /// assert_eq!(result.transcript.transcript().len(), 9);
    /// # Ok::<(), foldback_core::DiffError>(())
    /// ```
    pub fn from_items(request: &CompactionRequest, items: &[Arc<Item>]) -> Result<Self, DiffError> {
        let transcript = diff(&request.transcript, items)?.compacted.view;
        let replaced_items = Change::between(&request.transcript, &transcript).replaced_items;
        Ok(Self::new(transcript, replaced_items))
    }

    /// Takes in what the next step did to this one's view, which was made of `before`.
    pub(crate) fn followed_by(mut self, next: Self, before: &View) -> Self {
        self.transcript = next.transcript;
        self.larger_by = self.transcript.tokens().saturating_sub(before.tokens());
        self.replaced_items += next.replaced_items;
        self.metadata.extend(next.metadata);
        self.written_by.extend(next.written_by);
        self.usage = executor::sum(self.usage, next.usage);
        self.cost = match (self.cost, next.cost) {
            (Some(cost), Some(next)) => Some(cost + next),
            (cost, next) => cost.or(next),
        };
        self
    }
}

/// What a strategy may use while it works. It owns what it holds, so that work can go on off the task; the
/// backend is guarded, so that all compactions share what is known of its failures and its bill.
#[derive(Clone, Debug)]
pub struct CompactionContext {
    /// Writes summaries.
    pub backend: Option<GuardedBackend>,
    /// What the host passes to every compaction.
    pub metadata: Metadata,
    /// Ends the compaction when it is cancelled; the view stays as it was (T8).
    pub cancellation: CancellationToken,
    /// How summaries are asked for.
    pub limits: SummaryLimits,
    /// Sees what happens.
    pub observer: Option<Arc<dyn CompactionObserver>>,
    /// Tells the time that blocks are dated with.
    pub clock: Arc<dyn Clock>,
}

impl Default for CompactionContext {
    fn default() -> Self {
        Self {
            backend: None,
            metadata: Metadata::new(),
            cancellation: CancellationToken::new(),
            limits: SummaryLimits::default(),
            observer: None,
            clock: Arc::new(SystemClock),
        }
    }
}

impl CompactionContext {
    /// The same, with somebody who writes summaries.
    #[must_use]
    pub fn with_backend(mut self, backend: impl Into<GuardedBackend>) -> Self {
        self.backend = Some(backend.into());
        self
    }

    /// Tells the observer, if there is one.
    pub(crate) fn emit(&self, request: &CompactionRequest, kind: CompactionEventKind) {
        if let Some(observer) = &self.observer {
            let (session_id, turn_id) = (request.session_id.clone(), request.turn_id.clone());
            observer.on_event(&CompactionEvent { session_id, turn_id, kind });
        }
    }

    /// An error if the compaction was cancelled.
    pub(crate) fn go_on(&self) -> Result<(), CompactionError> {
        if self.cancellation.is_cancelled() { Err(CompactionError::Cancelled) } else { Ok(()) }
    }
}

/// An arbitrary transformation of a transcript: the seam for hosts. Every pure [`Strategy`] is one.
///
/// Implementors guarantee: recorded items are not changed, only hidden, rewritten or replaced by a
/// summary ([`CompactionResult::from_items`] makes such a view from a list of items); the work ends
/// soon after `context.cancellation` is cancelled. The executor checks what comes back: the record,
/// the blocks in force, the dialect, the size.
#[async_trait]
pub trait CompactionStrategy: Send + Sync {
    /// Compacts what the model sees. The context is shared and not `&mut`: a step hands on its view, and
    /// what it has to say is the metadata of its result.
    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError>;

    /// The name in events and records, such as `keep-recent(8)`; the type's name by default.
    fn describe(&self) -> String {
        type_name::<Self>()
    }

    /// Takes out what a repair would turn into something else; see [`Strategy::before_repair`].
    fn before_repair(&self, _draft: &mut Draft<'_>) {}

    /// Whether it aims at a size, so that compacting without a budget is an error.
    fn needs_budget(&self) -> bool {
        false
    }

    /// The pure strategy that it is, if it is one: pure steps in a row share one draft, which is planned
    /// off the task where that takes long.
    fn as_pure(self: Arc<Self>) -> Option<Arc<dyn Strategy>> {
        None
    }
}

#[async_trait]
impl<S: Strategy + 'static> CompactionStrategy for S {
    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        executor::run_on_task(self, &request, context).await
    }

    fn describe(&self) -> String {
        Strategy::describe(self)
    }

    fn before_repair(&self, draft: &mut Draft<'_>) {
        Strategy::before_repair(self, draft);
    }

    fn needs_budget(&self) -> bool {
        Strategy::needs_budget(self)
    }

    fn as_pure(self: Arc<Self>) -> Option<Arc<dyn Strategy>> {
        Some(self)
    }
}

impl fmt::Debug for dyn CompactionStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// Why there is no compacted view. The view that was given is what it was (T8).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// The host ended it.
    #[error("the compaction was cancelled")]
    Cancelled,
    /// This strategy or pipeline asks for a summary, and nobody writes any.
    #[error("{0} asks for a summary; give the compactor a backend, or use a policy")]
    MissingBackend(String),
    /// A hook said no.
    #[error("the compaction was vetoed: {why}")]
    Vetoed {
        /// What the hook said.
        why: String,
    },
    /// A strategy of the host's own failed; this is what it said.
    #[error("the compaction failed: {0}")]
    Failed(String),
    /// There is no result that fits and that the provider accepts.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<DiffError> for CompactionError {
    fn from(error: DiffError) -> Self {
        Self::Failed(error.to_string())
    }
}
