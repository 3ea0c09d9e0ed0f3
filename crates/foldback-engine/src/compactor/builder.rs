//! How a compactor is put together, and what cannot be.

use std::fmt;
use std::sync::Arc;

use foldback_core::{
    Budget, BudgetError, ContextWindowTrigger, Dialect, FreshOnlyStrategy, ItemCountTrigger, Level, Metadata,
    Policy, Room, Strategy, Tokens, TriggerError, TriggerFn,
};

use super::CompactionTrigger;
use super::strategy_compactor::{StrategyCompactor, When};
use crate::ask::{DigestBackend, SummaryLimits};
use crate::backend::GuardedBackend;
use crate::chosen::{IntoStrategy, IntoTrigger};
use crate::clock::{Clock, SystemClock};
use crate::compaction::{CompactionRequest, CompactionResult, CompactionStrategy};
use crate::event::CompactionObserver;
use crate::hooks::{CompactionHook, CompactionHooks};
use crate::pipeline::shared;

/// What a [`StrategyCompactor`] is made of.
pub struct StrategyCompactorBuilder {
    pub(super) when: Option<Result<When, TriggerError>>,
    pub(super) strategy: Option<Arc<dyn CompactionStrategy>>,
    pub(super) recording: Option<Arc<dyn Strategy>>,
    pub(super) backend: Option<GuardedBackend>,
    pub(super) budget: Option<Result<Budget, BudgetError>>,
    pub(super) dialect: Option<Dialect>,
    pub(super) metadata: Metadata,
    pub(super) hooks: CompactionHooks,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: SummaryLimits,
    pub(super) soft: Option<Level>,
}

/// Why there is no compactor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StrategyCompactorBuildError {
    /// Nothing says when.
    #[error("no trigger; call item_count_trigger, context_window_trigger, trigger or policy")]
    MissingTrigger,
    /// Nothing says what.
    #[error("no strategy; call strategy or policy")]
    MissingStrategy,
    /// The trigger cannot be.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// The budget cannot be.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The strategy aims at a size, and none was given.
    #[error("{strategy} works towards a budget; call budget or policy")]
    MissingBudget {
        /// The strategy or pipeline.
        strategy: String,
    },
    /// Nothing says where preparing ahead begins.
    #[error("preparing in the background begins at a level of a budget; call budget or policy")]
    BackgroundWithoutBudget,
    /// There would be no time to prepare anything.
    #[error("the soft level ({soft}) is not below the trigger ({trigger})")]
    SoftLevelTooHigh {
        /// Where preparing would begin.
        soft: Tokens,
        /// Where compaction starts.
        trigger: Tokens,
    },
}

impl Default for StrategyCompactorBuilder {
    fn default() -> Self {
        Self {
            when: None,
            strategy: None,
            recording: None,
            backend: None,
            budget: None,
            dialect: None,
            metadata: Metadata::new(),
            hooks: CompactionHooks::default(),
            clock: Arc::new(SystemClock),
            limits: SummaryLimits::default(),
            soft: None,
        }
    }
}

impl fmt::Debug for StrategyCompactorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrategyCompactorBuilder")
            .field("when", &self.when)
            .field("strategy", &self.strategy)
            .field("recording", &self.recording)
            .field("backend", &self.backend)
            .field("budget", &self.budget)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

impl StrategyCompactorBuilder {
    /// Compacts when the closure says so: one of the host's own, [`item_count_trigger`], or
    /// [`context_window_trigger`]. It takes a boxed closure and nothing else, so that the closure's
    /// parameters need no types; a trigger goes to [`compaction_trigger`](Self::compaction_trigger).
    ///
    /// After a compaction that saved next to nothing, the view must grow before the closure is heard again.
    /// A request that the provider rejected for its length is always answered with a compaction.
    ///
    /// ```
    /// use foldback_core::{CompactionReason, KeepRecentStrategy, MutationPoint};
    /// use foldback_engine::StrategyCompactor;
    ///
    /// let compactor = StrategyCompactor::builder()
    ///     .trigger(Box::new(|transcript, point| {
    ///         (point == MutationPoint::AfterTurnEnded && transcript.len() > 20)
    ///             .then_some(CompactionReason::TranscriptTooLong)
    ///     }))
    ///     .strategy(KeepRecentStrategy::new(8))
    ///     .build()?;
    /// # let _ = compactor;
    /// # Ok::<(), foldback_engine::StrategyCompactorBuildError>(())
    /// ```
    ///
    /// [`item_count_trigger`]: foldback_core::item_count_trigger
    /// [`context_window_trigger`]: foldback_core::context_window_trigger
    #[must_use]
    pub fn trigger(mut self, trigger: TriggerFn) -> Self {
        self.when = Some(Ok(When::Closure(trigger)));
        self
    }

    /// Compacts when this says so: a trigger that remembers sessions and turns, any of core's, or one behind
    /// `Arc<dyn CompactionTrigger>`. A closure goes to [`trigger`](Self::trigger).
    #[must_use]
    pub fn compaction_trigger<How>(mut self, trigger: impl IntoTrigger<How>) -> Self {
        self.when = Some(Ok(When::Trigger(trigger.into_trigger())));
        self
    }

    /// Compacts when the model sees more than `max_items`.
    #[must_use]
    pub fn item_count_trigger(self, max_items: usize) -> Self {
        self.compaction_trigger(ItemCountTrigger::new(max_items))
    }

    /// Compacts when what was reported as input, cached tokens included, reaches a share of the window
    /// in percent; at every point of the loop.
    #[must_use]
    pub fn context_window_trigger(mut self, window: impl Into<Tokens>, percent: impl Into<f64>) -> Self {
        let trigger = ContextWindowTrigger::new(window, percent);
        self.when = Some(trigger.map(|trigger| When::Trigger(Arc::new(trigger))));
        self
    }

    /// What to do.
    #[must_use]
    pub fn strategy<How>(mut self, strategy: impl IntoStrategy<How>) -> Self {
        self.strategy = Some(strategy.into_strategy());
        self
    }

    /// What is done to tool results as soon as the compactor is asked after they came, before the model
    /// reads them: such as [`TruncateToolOutputsStrategy::shorten_fresh`]. Each is a compaction of its own for
    /// [`CompactionReason::ToolOutput`], whatever the trigger says, and is undone by itself. What a call has
    /// read is left alone, so the prompt cache stays warm. A trigger of the host's own that gives this reason
    /// starts nothing else.
    ///
    /// ```
    /// use foldback_core::{KeepRecentStrategy, Tokens, TruncateToolOutputsStrategy};
    /// use foldback_engine::StrategyCompactor;
    ///
    /// let shorten = TruncateToolOutputsStrategy::by_tokens(Tokens(10_000))?.shorten_fresh();
    /// let compactor = StrategyCompactor::builder()
    ///     .item_count_trigger(200)
    ///     .strategy(KeepRecentStrategy::new(20))
    ///     .when_recorded(shorten)
    ///     .build()?;
    /// # let _ = compactor;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`TruncateToolOutputsStrategy::shorten_fresh`]: foldback_core::TruncateToolOutputsStrategy::shorten_fresh
    /// [`CompactionReason::ToolOutput`]: foldback_core::CompactionReason::ToolOutput
    #[must_use]
    pub fn when_recorded(mut self, strategy: impl Strategy + 'static) -> Self {
        self.recording = Some(Arc::new(FreshOnlyStrategy::new(strategy)));
        self
    }

    /// When, what and down to which size, as the policy says for this room, and what it does when results are
    /// recorded. Its summaries are digests
    /// unless a backend is given.
    #[must_use]
    pub fn policy(mut self, policy: &Policy, room: Room) -> Self {
        let budget = policy.budget(room);
        if let Ok(budget) = &budget {
            let trigger: Arc<dyn CompactionTrigger> = Arc::new(policy.trigger_in(room, budget));
            self.when = Some(Ok(When::Trigger(trigger)));
        }
        self.strategy = Some(shared(policy.strategy()));
        self.recording = policy.recording_strategy();
        self.budget = Some(budget);
        self.backend = self.backend.or_else(|| Some(DigestBackend.into()));
        self
    }

    /// Who writes summaries: a backend of this compactor alone, or a [`GuardedBackend`] that several
    /// share, and with it what is known of its failures and its bill.
    #[must_use]
    pub fn backend(mut self, backend: impl Into<GuardedBackend>) -> Self {
        self.backend = Some(backend.into());
        self
    }

    /// How much room there is, for requests that do not say.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(Ok(budget));
        self
    }

    /// Whose rules results must keep, for requests that do not say.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// What is passed along with every compaction.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Sees what happens.
    #[must_use]
    pub fn observer(mut self, observer: impl CompactionObserver + 'static) -> Self {
        self.hooks = self.hooks.observer(observer);
        self
    }

    /// Tells the time.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How summaries are asked for.
    #[must_use]
    pub fn limits(mut self, limits: SummaryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs these around every compaction, in place of what was added before.
    #[must_use]
    pub fn hooks(mut self, hooks: CompactionHooks) -> Self {
        self.hooks = hooks;
        self
    }

    /// Runs around every compaction, after the hooks that were added before it.
    #[must_use]
    pub fn hook(mut self, hook: impl CompactionHook + 'static) -> Self {
        self.hooks = self.hooks.hook(hook);
        self
    }

    /// Runs before a compaction, and may say no to it. What has to wait for something is a
    /// [`hook`](Self::hook).
    #[must_use]
    pub fn before_compaction_start(
        mut self,
        hook: impl Fn(&CompactionRequest) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.hooks = self.hooks.before_compaction_start(hook);
        self
    }

    /// Runs after a compaction that was carried out.
    #[must_use]
    pub fn after_compaction_end(
        mut self,
        hook: impl Fn(&CompactionRequest, &CompactionResult) + Send + Sync + 'static,
    ) -> Self {
        self.hooks = self.hooks.after_compaction_end(hook);
        self
    }

    /// Prepares ahead: at this level a compaction of what is there then is begun in the background,
    /// and swapped in when the trigger fires, so that nobody waits for it. Where it is not ready then,
    /// the digest writes the summaries: only a compaction that somebody asked for waits for a model.
    /// Needs a budget, and a tokio runtime around
    /// [`should_compact`](super::Compactor::should_compact).
    #[must_use]
    pub fn background(mut self, soft: Level) -> Self {
        self.soft = Some(soft);
        self
    }

    /// The compactor.
    pub fn build(self) -> Result<StrategyCompactor, StrategyCompactorBuildError> {
        let budget = self.budget.clone().transpose()?;
        let Some(strategy) = self.strategy.clone() else {
            return Err(StrategyCompactorBuildError::MissingStrategy);
        };
        let recording = self.recording.as_ref().filter(Strategy::needs_budget);
        let needing = recording.map(Strategy::describe);
        let needing = needing.or_else(|| strategy.needs_budget().then(|| strategy.describe()));
        if let (None, Some(strategy)) = (budget, needing) {
            return Err(StrategyCompactorBuildError::MissingBudget { strategy });
        }
        if let Some(soft) = self.soft {
            let budget = budget.ok_or(StrategyCompactorBuildError::BackgroundWithoutBudget)?;
            let (soft, trigger) = (level_in(soft, &budget)?, budget.trigger());
            if soft >= trigger {
                return Err(StrategyCompactorBuildError::SoftLevelTooHigh { soft, trigger });
            }
        }
        StrategyCompactor::new(self, strategy, budget)
    }
}

/// A level in tokens of a budget.
pub(super) fn level_in(level: Level, budget: &Budget) -> Result<Tokens, BudgetError> {
    let same_room = Budget::builder(budget.window())
        .output_reserve(budget.output_reserve())
        .overhead(budget.overhead())
        .trigger(level)
        .target(Tokens(1));
    Ok(same_room.build()?.trigger())
}
