//! The compactor that hosts register: trigger, strategy, backend.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{
    Budget, CompactionReason, LastCompaction, MutationPoint, SessionId, StructuralEvent, Tokens,
    TriggerContext, TurnId, View,
};
use tokio::time::Instant;
use tracing::Instrument;

use super::builder::{StrategyCompactorBuildError, StrategyCompactorBuilder};
use super::progress::{Progress, Sessions};
use super::{CompactionTrigger, Compactor, TriggerFn};
use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::event::{CompactionEventKind, CompactionReport};
use crate::pipeline::run_any;
use crate::telemetry;

/// When to compact.
pub(super) enum When {
    /// The host's closure.
    Closure(Box<TriggerFn>),
    /// A trigger.
    Trigger(Arc<dyn CompactionTrigger>),
}

impl fmt::Debug for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closure(_) => f.write_str("closure"),
            Self::Trigger(trigger) => trigger.fmt(f),
        }
    }
}

/// A trigger, a strategy and optionally a backend: the thing a host registers.
///
/// ```
/// use foldback_core::{Policy, Room, Tokens};
/// use foldback_engine::StrategyCompactor;
///
/// let ladder = Policy::named("ladder").expect("the default policy");
/// let compactor = StrategyCompactor::builder().policy(&ladder, Room::new(Tokens(200_000))).build()?;
/// # let _ = compactor;
/// # Ok::<(), foldback_engine::StrategyCompactorBuildError>(())
/// ```
pub struct StrategyCompactor {
    when: When,
    strategy: Arc<dyn CompactionStrategy>,
    budget: Option<Budget>,
    parts: StrategyCompactorBuilder,
    sessions: Sessions,
}

impl fmt::Debug for StrategyCompactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrategyCompactor")
            .field("when", &self.when)
            .field("strategy", &self.strategy)
            .field("backend", &self.parts.backend)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl StrategyCompactor {
    /// Puts one together.
    pub fn builder() -> StrategyCompactorBuilder {
        StrategyCompactorBuilder::default()
    }

    pub(super) fn new(
        mut parts: StrategyCompactorBuilder,
        strategy: Arc<dyn CompactionStrategy>,
        budget: Option<Budget>,
    ) -> Result<Self, StrategyCompactorBuildError> {
        let when = parts.when.take().ok_or(StrategyCompactorBuildError::MissingTrigger)??;
        Ok(Self { when, strategy, budget, parts, sessions: Sessions::default() })
    }

    /// The next requests of this session go to a model with another window: from now on this budget
    /// holds, and a view over its level is compacted at the next point.
    pub fn model_switched(&self, session_id: &SessionId, budget: Budget) {
        self.sessions.with(session_id, |progress| progress.budget = Some(budget));
    }

    /// What is remembered of the last compaction of a session, for hosts that make their own
    /// [`TriggerContext`].
    pub fn last_compaction(&self, session_id: &SessionId) -> Option<LastCompaction> {
        self.sessions.with(session_id, |progress| progress.last)
    }

    fn fires(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        view: &View,
        context: &TriggerContext<'_>,
    ) -> Option<CompactionReason> {
        match &self.when {
            When::Closure(decide) => decide(view, context.point),
            When::Trigger(trigger) => trigger.should_compact(session_id, turn_id, context),
        }
    }

    /// What the strategies are given: the host's context, completed with what the compactor was built
    /// with.
    fn context(&self, given: &CompactionContext) -> CompactionContext {
        let mut metadata = self.parts.metadata.clone();
        metadata.extend(given.metadata.clone());
        CompactionContext {
            backend: given.backend.clone().or_else(|| self.parts.backend.clone()),
            metadata,
            cancellation: given.cancellation.clone(),
            limits: self.parts.limits,
            guard: self.parts.guard.clone(),
            observer: given.observer.clone().or_else(|| self.parts.observer.clone()),
            clock: Arc::clone(&self.parts.clock),
        }
    }

    /// The request, completed with what the compactor was built with.
    fn complete(&self, mut request: CompactionRequest) -> CompactionRequest {
        let given = request.budget.take();
        let tokens = request.transcript.tokens();
        let was_rejected = request.reason == CompactionReason::OverflowRejected;
        request.budget = self.sessions.with(&request.session_id, |progress| {
            let budget = given.or(progress.budget).or(self.budget);
            match budget.filter(|_| was_rejected) {
                Some(budget) => {
                    Some(lowered(budget, progress.target_after_rejection(tokens, budget.target())))
                }
                None => {
                    progress.went_on();
                    budget
                }
            }
        });
        request.dialect = request.dialect.or(self.parts.dialect);
        let mut metadata = self.parts.metadata.clone();
        metadata.append(&mut request.metadata);
        request.metadata = metadata;
        request
    }

    async fn attempt(
        &self,
        request: &CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        if let Some(before) = &self.parts.before {
            before(request).map_err(|why| CompactionError::Vetoed { why })?;
        }
        context.go_on()?;
        let result = run_any(&*self.strategy, request.clone(), context).await?;
        context.go_on()?;
        Ok(result)
    }

    /// Takes note of what a compaction led to, and tells.
    fn ended(
        &self,
        request: &CompactionRequest,
        context: &CompactionContext,
        result: &CompactionResult,
        started: Instant,
    ) {
        let (before, after) = (&request.transcript, &result.transcript);
        let last = LastCompaction {
            tokens_after: after.tokens(),
            at: Some(context.clock.now()),
            item_count: after.len(),
        };
        self.sessions.with(&request.session_id, |progress| progress.compacted(before.tokens(), last));
        let first_changed = first_changed(before, after);
        let report = CompactionReport {
            reason: request.reason.clone(),
            strategy: self.strategy.describe(),
            tokens_before: before.tokens(),
            tokens_after: after.tokens(),
            replaced_items: result.replaced_items,
            first_changed,
            prefix_tokens_kept: before.tokens_of(0..first_changed.unwrap_or(before.len())),
            duration: started.elapsed(),
            cost: result.cost,
            written_by: result.written_by.clone(),
            metadata: result.metadata.clone(),
        };
        telemetry::ended(&report);
        context.emit(request, CompactionEventKind::CompactionEnded(report));
        if let Some(after) = &self.parts.after {
            after(request, result);
        }
    }
}

/// The same budget with another target; the budget itself where no such budget can be.
fn lowered(budget: Budget, target: Tokens) -> Budget {
    let built = Budget::builder(budget.window())
        .output_reserve(budget.output_reserve())
        .overhead(budget.overhead())
        .trigger(budget.trigger().max(target))
        .target(target)
        .build();
    built.or_else(|_| Budget::for_target(target)).unwrap_or(budget)
}

/// The first position at which two views differ.
fn first_changed(before: &View, after: &View) -> Option<usize> {
    let is_same = |(then, now): &(&Arc<_>, &Arc<_>)| Arc::ptr_eq(then, now);
    let same = before.items().zip(after.items()).take_while(is_same).count();
    (same < before.len() || same < after.len()).then_some(same)
}

#[async_trait]
impl Compactor for StrategyCompactor {
    fn should_compact(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        view: &View,
        context: &TriggerContext<'_>,
    ) -> Option<CompactionReason> {
        let was_rejected = context.point == MutationPoint::AfterRequestRejected
            || context.events.contains(&StructuralEvent::RequestRejectedForLength);
        let fires = |progress: &mut Progress| {
            if was_rejected {
                return progress.can_recover().then_some(CompactionReason::OverflowRejected);
            }
            let is_over = |budget: Budget| context.tokens.upper > budget.trigger();
            if progress.budget.is_some_and(is_over) {
                return progress.is_worth_it(context).then_some(CompactionReason::ModelSwitched);
            }
            let mut known = context.clone();
            known.last_compaction = context.last_compaction.or(progress.last);
            known.last_firing = context.last_firing.or(progress.last_firing);
            let reason = self.fires(session_id, turn_id, view, &known)?;
            progress.last_firing = context.now.or(progress.last_firing);
            progress.is_worth_it(context).then_some(reason)
        };
        self.sessions.with(session_id, fires)
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let started = Instant::now();
        let context = self.context(context);
        let request = self.complete(request);
        let strategy = self.strategy.describe();
        let tokens = request.transcript.tokens();
        let span = telemetry::span(&request, &strategy);
        context.emit(
            &request,
            CompactionEventKind::CompactionStarted {
                reason: request.reason.clone(),
                strategy,
                tokens_before: tokens,
            },
        );
        let attempt = async {
            tokio::select! {
                biased;
                () = context.cancellation.cancelled() => Err(CompactionError::Cancelled),
                result = self.attempt(&request, &context) => result,
            }
        };
        let result = attempt.instrument(span.clone()).await;
        let _entered = span.enter();
        match &result {
            Ok(result) => self.ended(&request, &context, result, started),
            Err(error) => {
                let fits = request.budget.map(|budget| tokens <= budget.usable());
                let why = error.to_string();
                telemetry::failed(&why);
                let duration = started.elapsed();
                context.emit(&request, CompactionEventKind::CompactionFailed { why, tokens, fits, duration });
            }
        }
        result
    }
}
