//! A compactor made of a trigger, a strategy and, perhaps, a backend.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use foldback_core::{
    Budget, BudgetTrigger, CompactionReason, Dialect, Level, Metadata, SessionId, Trigger, TriggerContext,
    TurnId, View, check,
};
use tokio::time::Instant;
use tracing::Instrument;

use super::Compactor;
use super::background::{Job, Prepared};
use super::builder::{StrategyCompactorBuilder, soft_tokens};
use super::sessions::{Answer, Sessions};
use super::when::When;
use crate::announce::Announced;
use crate::ask::{BackendGuard, DigestBackend, SummaryLimits};
use crate::backend::CompactionBackend;
use crate::clock::Clock;
use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::event::CompactionObserver;
use crate::executor::{Ran, run};
use crate::telemetry;

/// Decides by a trigger and compacts by a strategy; see [`StrategyCompactorBuilder`] for what else it
/// can be given.
///
/// It remembers what came of earlier compactions of each session: one that was in vain is not
/// repeated before the view has grown, a rejected request is answered with a lower target each time,
/// and after a few of them not any more.
///
/// ```
/// use foldback_core::{DropReasoningStrategy, ItemKind, KeepRecentStrategy};
/// use foldback_engine::{CompactionPipeline, StrategyCompactor};
///
/// let strategy = CompactionPipeline::new()
///     .with_strategy(DropReasoningStrategy::new())
///     .with_strategy(KeepRecentStrategy::new(8).preserve_kind(ItemKind::System));
/// let compactor = StrategyCompactor::builder().item_count_trigger(12).strategy(strategy).build()?;
/// # drop(compactor);
/// # Ok::<(), foldback_engine::StrategyCompactorBuildError>(())
/// ```
#[derive(Debug)]
pub struct StrategyCompactor {
    parts: Parts,
    state: Mutex<State>,
}

/// What it was built from.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) when: When,
    pub(super) strategy: Arc<dyn CompactionStrategy>,
    pub(super) backend: Option<Arc<dyn CompactionBackend>>,
    pub(super) budget: Option<Budget>,
    pub(super) dialect: Option<Dialect>,
    pub(super) metadata: Metadata,
    pub(super) observer: Option<Arc<dyn CompactionObserver>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: SummaryLimits,
    pub(super) guard: BackendGuard,
    pub(super) before: Option<BeforeHook>,
    pub(super) after: Option<AfterHook>,
    pub(super) soft: Option<Level>,
}

/// Asked before each compaction.
pub(super) struct BeforeHook(pub(super) Box<dyn Fn(&CompactionRequest) -> Result<(), String> + Send + Sync>);

impl fmt::Debug for BeforeHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a closure")
    }
}

/// Told after each.
pub(super) struct AfterHook(pub(super) Box<dyn Fn(&CompactionRequest, &CompactionResult) + Send + Sync>);

impl fmt::Debug for AfterHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a closure")
    }
}

#[derive(Debug, Default)]
struct State {
    sessions: Sessions,
    /// The trigger at the levels of the model that was switched to, if one was.
    switched_when: Option<Arc<When>>,
}

impl StrategyCompactor {
    /// Begins to put one together.
    pub fn builder() -> StrategyCompactorBuilder {
        StrategyCompactorBuilder::default()
    }

    pub(super) fn new(parts: Parts) -> Self {
        let mut state = State::default();
        state.sessions.budget = parts.budget;
        Self { parts, state: Mutex::new(state) }
    }

    /// The next requests go to a model that leaves this much room: a session over its trigger level
    /// is compacted when it is asked about next.
    pub fn model_switched(&self, budget: Budget) {
        let mut state = self.lock();
        state.switched_when = self.parts.when.at_levels_of(&budget).map(Arc::new);
        state.sessions.budget = Some(budget);
        state.sessions.switches += 1;
    }

    /// The strategy or pipeline, as events and records name it.
    pub fn describe(&self) -> String {
        self.parts.strategy.describe()
    }

    /// Nothing in here panics while the lock is held, and what is remembered only saves work.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares ahead if it is time to.
    fn prepare(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        view: &View,
        context: &TriggerContext<'_>,
    ) {
        let Some(soft) = self.parts.soft else { return };
        let mut state = self.lock();
        let Some(budget) = state.sessions.budget else { return };
        let tokens = context.tokens.upper;
        let Ok(level) = soft_tokens(soft, &budget) else { return };
        let session = state.sessions.of(session_id);
        let is_preparing = session.job.as_ref().is_some_and(|job| job.is_for(view));
        if tokens < level || is_preparing || session.is_held_back(view) {
            return;
        }
        let reason = CompactionReason::BudgetReached { tokens, level };
        let mut request = CompactionRequest::new(session_id.clone(), view.clone(), reason);
        (request.turn_id, request.budget, request.dialect) =
            (turn_id.cloned(), Some(budget), self.parts.dialect);
        let context = self.completed_context(&CompactionContext::default());
        session.job = Job::start(Arc::clone(&self.parts.strategy), request, context);
    }

    /// The request with what the compactor knows and the host did not say.
    fn completed(&self, mut request: CompactionRequest) -> CompactionRequest {
        let mut state = self.lock();
        request.dialect = request.dialect.or(self.parts.dialect);
        request.budget = request.budget.or(state.sessions.budget);
        if request.reason == CompactionReason::OverflowRejected {
            let session = state.sessions.of(&request.session_id);
            // A target that cannot be is no reason to do nothing.
            let aim = |budget: Budget| session.aim(budget, &request.transcript).unwrap_or(budget);
            request.budget = request.budget.map(aim);
        }
        request
    }

    fn completed_context(&self, given: &CompactionContext) -> CompactionContext {
        let mut metadata = self.parts.metadata.clone();
        metadata.extend(given.metadata.clone());
        CompactionContext {
            backend: given.backend.clone().or_else(|| self.parts.backend.clone()),
            metadata,
            cancellation: given.cancellation.clone(),
            limits: self.parts.limits,
            guard: self.parts.guard.clone(),
            observer: given.observer.clone().or_else(|| self.parts.observer.clone()),
            now: Some(given.now.unwrap_or_else(|| self.parts.clock.now())),
        }
    }

    /// What was prepared, if it is of use; else a compaction here and now.
    async fn carry_out(
        &self,
        request: &CompactionRequest,
        context: &mut CompactionContext,
        job: Option<Job>,
    ) -> Result<Ran, CompactionError> {
        // Who asks for something asks for it now.
        let is_asked_for = request.focus.is_some() || request.reason == CompactionReason::Manual;
        if let Some(job) = job.filter(|_| !is_asked_for) {
            let prepared = tokio::select! {
                biased;
                () = context.cancellation.cancelled() => return Err(CompactionError::Cancelled),
                prepared = job.finish(&request.transcript) => prepared,
            };
            match prepared {
                Prepared::Ready(ran) if is_of_use(&ran.result.transcript, request) => return Ok(*ran),
                Prepared::Ready(_) | Prepared::Useless => {}
                Prepared::Late => context.backend = Some(Arc::new(DigestBackend)),
            }
        }
        run(&*self.parts.strategy, request.clone(), context).await
    }
}

/// Whether a view that was prepared is what is needed now.
fn is_of_use(view: &View, request: &CompactionRequest) -> bool {
    let fits = |budget: Budget| match &request.reason {
        CompactionReason::OverflowRejected => view.tokens() <= budget.target(),
        _ => view.tokens() < budget.trigger(),
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
        view: &View,
        context: &TriggerContext<'_>,
    ) -> Option<CompactionReason> {
        let mut context = context.clone();
        let now = *context.now.get_or_insert_with(|| self.parts.clock.now());
        let mut state = self.lock();
        let (budget, switches) = (state.sessions.budget, state.sessions.switches);
        let switched_when = state.switched_when.clone();
        let session = state.sessions.of(session_id);
        context.last_firing = context.last_firing.or(session.last_firing);
        context.last_compaction = context.last_compaction.or(session.last_compaction);
        let answer = session.answer(view, &context, budget.as_ref(), switches);
        drop(state);
        let reason = match answer {
            Answer::Now(reason) => Some(reason),
            Answer::NotNow => return None,
            Answer::AskTrigger => {
                let when = switched_when.as_deref().unwrap_or(&self.parts.when);
                let by_level = || {
                    let budget = budget.filter(|_| switches > 0)?;
                    BudgetTrigger::new(&budget).fires(&context)
                };
                when.fires(session_id, turn_id, view, &context).or_else(by_level)
            }
        };
        match &reason {
            Some(_) => self.lock().sessions.of(session_id).last_firing = Some(now),
            None => self.prepare(session_id, turn_id, view, &context),
        }
        reason
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let request = self.completed(request);
        let mut context = self.completed_context(context);
        let started_at = Instant::now();
        let announced = Announced::new(&request, context.observer.clone(), started_at);
        if let Some(Err(why)) = self.parts.before.as_ref().map(|BeforeHook(hook)| hook(&request)) {
            let error = CompactionError::Vetoed { why };
            announced.failed(&error);
            return Err(error);
        }
        let strategy = self.describe();
        announced.started(&strategy);
        let backend = context.backend.as_ref().map(|backend| backend.name().to_owned());
        let span = telemetry::span(&request, &strategy, backend.as_deref());
        let job = self.lock().sessions.of(&request.session_id).job.take();
        let outcome = self.carry_out(&request, &mut context, job).instrument(span.clone()).await;
        let (before, now) = (&request.transcript, self.parts.clock.now());
        match outcome {
            Ok(ran) => {
                self.lock().sessions.of(&request.session_id).compacted(before, &ran.result.transcript, now);
                let report = announced.ended(&ran, strategy);
                telemetry::record_report(&span, &report, &ran.usage);
                if let Some(AfterHook(hook)) = &self.parts.after {
                    hook(&request, &ran.result);
                }
                Ok(ran.result)
            }
            Err(error) => {
                if !matches!(error, CompactionError::Cancelled) {
                    self.lock().sessions.of(&request.session_id).in_vain(before.tokens());
                }
                announced.failed(&error);
                telemetry::record_error(&span, &error);
                Err(error)
            }
        }
    }
}
