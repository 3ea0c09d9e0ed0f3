//! The compactor that hosts register: trigger, strategy, backend.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{
    Budget, CompactionReason, Holds, LastCompaction, MutationPoint, Sequence, SessionId, Strategy, Timestamp,
    Tokens, TriggerContext, TriggerFn, TurnId, View, check, plan,
};
use tracing::Instrument;

use super::background::Job;
use super::builder::{StrategyCompactorBuildError, StrategyCompactorBuilder, level_in};
use super::progress::Sessions;
use super::{CompactionTrigger, Compactor};
use crate::ask::DigestBackend;
use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::executor::{Extent, recorded, run_pure};
use crate::hooks::Announced;
use crate::off_task::off_task;
use crate::pipeline::run_any;

/// When to compact.
pub(super) enum When {
    /// The host's closure.
    Closure(TriggerFn),
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
    /// holds, and a view over its level is compacted at the next point. Triggers that were built for a
    /// window or a budget go by this one ([`TriggerContext::budget`]); a closure or a trigger of the
    /// host's own is asked as before.
    pub fn model_switched(&self, session_id: &SessionId, budget: Budget) {
        self.sessions.with(session_id, |progress| {
            progress.budget = Some(budget);
            progress.is_switched = true;
        });
    }

    /// What is remembered of the last compaction of a session, for hosts that make their own
    /// [`TriggerContext`].
    pub fn last_compaction(&self, session_id: &SessionId) -> Option<LastCompaction> {
        self.sessions.with(session_id, |progress| progress.last)
    }

    /// What compacts.
    pub(crate) fn strategy(&self) -> &Arc<dyn CompactionStrategy> {
        &self.strategy
    }

    fn fires(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        context: &TriggerContext<'_>,
    ) -> Option<CompactionReason> {
        match &self.when {
            When::Closure(decide) => decide(context, context.point),
            When::Trigger(trigger) => trigger.should_compact(session_id, turn_id, context),
        }
    }

    /// What the strategies are given: the host's context, completed with what the compactor was built
    /// with.
    pub(crate) fn context(&self, given: &CompactionContext) -> CompactionContext {
        let mut metadata = self.parts.metadata.clone();
        metadata.extend(given.metadata.clone());
        CompactionContext {
            backend: given.backend.clone().or_else(|| self.parts.backend.clone()),
            metadata,
            cancellation: given.cancellation.clone(),
            limits: self.parts.limits.clone(),
            observer: given.observer.clone().or_else(|| self.parts.hooks.observer.clone()),
            clock: Arc::clone(&self.parts.clock),
        }
    }

    /// The request, completed with what the compactor was built with.
    pub(crate) fn complete(&self, mut request: CompactionRequest) -> CompactionRequest {
        let given = request.budget.take();
        let tokens = request.transcript.tokens();
        let was_rejected = request.reason == CompactionReason::OverflowRejected;
        let limit = request.limit;
        request.budget = self.sessions.with(&request.session_id, |progress| {
            // What a host set up for its first model does not hold for the next one.
            let budget = progress.budget.or(given).or(self.budget);
            match budget.filter(|_| was_rejected) {
                Some(budget) => {
                    Some(lowered(budget, progress.target_after_rejection(tokens, limit, &budget)))
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

    async fn attempt(&self, announced: &Announced) -> Result<CompactionResult, CompactionError> {
        announced.allow().await?;
        announced.context.go_on()?;
        let Announced { request, context, .. } = announced;
        let recorded = self.record(request, context).await?;
        context.go_on()?;
        if self.recording_for(&request.reason).is_some() {
            return Ok(recorded);
        }
        let rest = CompactionRequest { transcript: recorded.transcript.clone(), ..request.clone() };
        let result = self.carry_out(&rest, context).await?;
        context.go_on()?;
        Ok(recorded.followed_by(result, &request.transcript))
    }

    /// What was prepared ahead, if it is of use; else a compaction here and now. Who has it prepared
    /// ahead does not want to wait: then the digest writes what a model has not written yet.
    async fn carry_out(
        &self,
        request: &CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let job = self.sessions.with(&request.session_id, |progress| progress.job.take());
        // Who asks for something asks for it now, and for a model's words if there is a model.
        let is_asked_for = request.focus.is_some() || request.reason == CompactionReason::Manual;
        if self.parts.soft.is_none() || is_asked_for {
            drop(job);
            return run_any(&self.strategy, request.clone(), context).await;
        }
        let prepared = match job {
            Some(job) => job.finish().await,
            None => None,
        };
        if let Some(prepared) = prepared {
            let asked = request.clone();
            let taken = off_task(recorded(request), move || {
                prepared.on(&asked.transcript).filter(|result| is_of_use(&result.transcript, &asked))
            });
            if let Some(result) = taken.await {
                return Ok(result);
            }
        }
        let mut context = context.clone();
        context.backend = context.backend.map(|_| DigestBackend.into());
        run_any(&self.strategy, request.clone(), &context).await
    }

    /// Prepares ahead if it is time to.
    fn prepare(&self, session_id: &SessionId, turn_id: Option<&TurnId>, context: &TriggerContext<'_, View>) {
        let Some(soft) = self.parts.soft else { return };
        let view = context.sequence;
        self.sessions.with(session_id, |progress| {
            let Some(budget) = progress.budget.or(self.budget) else { return };
            let Ok(level) = level_in(soft, &budget) else { return };
            let tokens = context.tokens.upper;
            let is_preparing = progress.job.as_ref().is_some_and(|job| job.is_for(view));
            if tokens < level || is_preparing || !progress.is_worth_it(context) {
                return;
            }
            let reason = CompactionReason::BudgetReached { tokens, level };
            let mut request = CompactionRequest::new(session_id.clone(), view.clone(), reason);
            request.turn_id = turn_id.cloned();
            request.budget = Some(budget);
            request.dialect = self.parts.dialect;
            request.metadata = self.parts.metadata.clone();
            let context = self.context(&CompactionContext::default());
            progress.job = Job::start(Arc::clone(&self.strategy), request, context);
        });
    }

    /// Says that a compaction begins, whoever carries it out.
    pub(crate) fn announce(&self, request: CompactionRequest, context: CompactionContext) -> Announced {
        let strategy = self.describe_for(&request.reason);
        self.parts.hooks.announce(request, context, strategy)
    }

    /// What is done for this reason instead of a compaction, if anything.
    fn recording_for(&self, reason: &CompactionReason) -> Option<&Arc<dyn Strategy>> {
        self.parts.recording.as_ref().filter(|_| *reason == CompactionReason::ToolOutput)
    }

    /// What shortening fresh results would save, if there are any to shorten. Looks at nothing but what no
    /// call has read.
    fn unread_savings(&self, view: &View, budget: Option<Budget>) -> Option<Tokens> {
        let recording = self.parts.recording.as_ref()?;
        let unread = || view.range(view.unread());
        if !unread().any(|entry| entry.holds().contains(Holds::RESULT)) {
            return None;
        }
        let mut fresh = view.transcript().clone_empty();
        unread().for_each(|entry| fresh.push_counted(Arc::clone(entry.item()), entry.tokens().clone()));
        let plan = plan(&View::of(&fresh), recording, budget.as_ref()).ok()?;
        (!plan.is_empty()).then(|| plan.tokens_before().saturating_sub(plan.tokens_after()))
    }

    /// Shortens fresh results, as a compaction of its own. A view that needs a repair is left to the strategy,
    /// which may take out what a repair would turn into something else.
    async fn record(
        &self,
        request: &CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let is_alone = self.recording_for(&request.reason).is_some();
        match &self.parts.recording {
            Some(recording) if is_alone || request.transcript.is_plain() => {
                let request = CompactionRequest { reason: CompactionReason::ToolOutput, ..request.clone() };
                run_pure(Arc::clone(recording), &request, context, Extent::Step).await
            }
            _ => Ok(CompactionResult::unchanged(request.transcript.clone())),
        }
    }

    /// Takes note of what a compaction led to, and tells.
    pub(crate) async fn ended(&self, announced: Announced, result: &CompactionResult) {
        let Announced { request, context, .. } = &announced;
        let after = &result.transcript;
        if self.recording_for(&request.reason).is_some() {
            let asked = TriggerContext::of_view(after, MutationPoint::AfterToolResult);
            self.prepare(&request.session_id, request.turn_id.as_ref(), &asked);
        } else {
            let at = Some(context.clock.now());
            let last = LastCompaction { tokens_after: after.tokens(), at, item_count: after.len() };
            let before = request.transcript.tokens();
            self.sessions.with(&request.session_id, |progress| progress.compacted(before, last));
        }
        announced.ended(result).await;
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

/// Whether a view that was prepared is what is needed now.
fn is_of_use(view: &View, request: &CompactionRequest) -> bool {
    let fits = |budget: Budget| match request.reason == CompactionReason::OverflowRejected {
        true => view.tokens() <= budget.target(),
        false => view.tokens() < budget.trigger(),
    };
    view.tokens() < request.transcript.tokens()
        && request.budget.is_none_or(fits)
        && check(view.items(), request.dialect).is_empty()
}

#[async_trait]
impl Compactor for StrategyCompactor {
    fn should_compact(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        let mut known = context.clone();
        let now = *known.now.get_or_insert_with(|| self.parts.clock.now());
        let budget = self.sessions.with(session_id, |progress| progress.budget).or(self.budget);
        let unread = self.unread_savings(context.sequence, budget);
        known.tokens = known.tokens.without(unread.unwrap_or_default());
        let tokens = known.tokens.upper;
        // The host's trigger is not asked under the lock: it may ask the compactor something.
        let (decided, is_worth_it) = self.sessions.with(session_id, |progress| {
            known.last_compaction = known.last_compaction.or(progress.last);
            known.last_firing = known.last_firing.or(progress.last_firing);
            known.budget = known.budget.or(progress.budget);
            let over = progress.budget.filter(|budget| tokens > budget.trigger());
            let decided = if context.was_rejected() {
                Some(progress.can_recover().then_some(CompactionReason::OverflowRejected))
            } else {
                over.map(|budget| match progress.is_switched {
                    true => Some(CompactionReason::ModelSwitched),
                    false => Some(CompactionReason::BudgetReached { tokens, level: budget.trigger() }),
                })
            };
            (decided, context.was_rejected() || progress.is_worth_it(context))
        });
        let decided = decided.unwrap_or_else(|| self.fires(session_id, turn_id, &known.about(&**known)));
        let reason = decided.filter(|_| is_worth_it);
        match &reason {
            Some(_) => self.sessions.with(session_id, |progress| progress.last_firing = Some(now)),
            None if unread.is_some() && !context.was_rejected() => return Some(CompactionReason::ToolOutput),
            None => self.prepare(session_id, turn_id, &known),
        }
        reason
    }

    fn due_at(&self, session_id: &SessionId, context: &TriggerContext<'_, View>) -> Option<Timestamp> {
        let When::Trigger(trigger) = &self.when else { return None };
        let mut known = context.about::<Sequence>(context.sequence);
        let last_firing = self.sessions.with(session_id, |progress| progress.last_firing);
        known.last_firing = known.last_firing.max(last_firing);
        trigger.due_at(session_id, &known)
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let announced = self.announce(self.complete(request), self.context(context));
        let attempt = async {
            tokio::select! {
                biased;
                () = announced.context.cancellation.cancelled() => Err(CompactionError::Cancelled),
                result = self.attempt(&announced) => result,
            }
        };
        let result = attempt.instrument(announced.span.clone()).await;
        match &result {
            Ok(result) => self.ended(announced, result).await,
            Err(error) => {
                let Announced { request, .. } = &announced;
                let is_tried = !matches!(error, CompactionError::Cancelled | CompactionError::Vetoed { .. });
                if is_tried && self.recording_for(&request.reason).is_none() {
                    self.sessions.with(&request.session_id, |progress| progress.failed(&request.transcript));
                }
                announced.failed(error.to_string());
            }
        }
        result
    }

    fn describe(&self) -> String {
        self.strategy.describe()
    }

    fn describe_for(&self, reason: &CompactionReason) -> String {
        self.recording_for(reason).map_or_else(|| self.describe(), Strategy::describe)
    }
}
