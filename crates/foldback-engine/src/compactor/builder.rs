//! How a compactor is put together, and what cannot be.

use std::fmt;
use std::sync::Arc;

use foldback_core::{
    Budget, BudgetError, Dialect, ItemCountTrigger, Metadata, Policy, Room, Tokens, TriggerError,
    context_window_trigger,
};

use super::strategy_compactor::{StrategyCompactor, When};
use super::{CompactionTrigger, TriggerFn};
use crate::ask::{BackendGuard, DigestBackend, SummaryLimits};
use crate::backend::CompactionBackend;
use crate::clock::{Clock, SystemClock};
use crate::compaction::{CompactionRequest, CompactionResult, CompactionStrategy};
use crate::event::CompactionObserver;
use crate::pipeline::shared;

/// May say no before a compaction begins: `Err` with the reason is a veto. The place to index what is
/// about to be folded.
pub(super) type BeforeHook = dyn Fn(&CompactionRequest) -> Result<(), String> + Send + Sync;

/// Sees what a compaction led to.
pub(super) type AfterHook = dyn Fn(&CompactionRequest, &CompactionResult) + Send + Sync;

/// What a [`StrategyCompactor`] is made of.
pub struct StrategyCompactorBuilder {
    pub(super) when: Option<Result<When, TriggerError>>,
    pub(super) strategy: Option<Arc<dyn CompactionStrategy>>,
    pub(super) backend: Option<Arc<dyn CompactionBackend>>,
    pub(super) budget: Option<Result<Budget, BudgetError>>,
    pub(super) dialect: Option<Dialect>,
    pub(super) metadata: Metadata,
    pub(super) observer: Option<Arc<dyn CompactionObserver>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: SummaryLimits,
    pub(super) guard: BackendGuard,
    pub(super) before: Option<Box<BeforeHook>>,
    pub(super) after: Option<Box<AfterHook>>,
}

/// Why there is no compactor.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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
}

impl Default for StrategyCompactorBuilder {
    fn default() -> Self {
        Self {
            when: None,
            strategy: None,
            backend: None,
            budget: None,
            dialect: None,
            metadata: Metadata::new(),
            observer: None,
            clock: Arc::new(SystemClock),
            limits: SummaryLimits::default(),
            guard: BackendGuard::default(),
            before: None,
            after: None,
        }
    }
}

impl fmt::Debug for StrategyCompactorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StrategyCompactorBuilder")
            .field("when", &self.when)
            .field("strategy", &self.strategy)
            .field("backend", &self.backend)
            .field("budget", &self.budget)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

impl StrategyCompactorBuilder {
    /// Compacts when the closure says so.
    #[must_use]
    pub fn trigger(mut self, trigger: Box<TriggerFn>) -> Self {
        self.when = Some(Ok(When::Closure(trigger)));
        self
    }

    /// Compacts when this says so: a stateful trigger, or any of core's.
    #[must_use]
    pub fn compaction_trigger(mut self, trigger: impl CompactionTrigger + 'static) -> Self {
        self.when = Some(Ok(When::Trigger(Arc::new(trigger))));
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
    pub fn context_window_trigger(mut self, window: Tokens, percent: f64) -> Self {
        let trigger = context_window_trigger(window, percent);
        self.when = Some(trigger.map(|trigger| When::Trigger(Arc::new(trigger))));
        self
    }

    /// What to do.
    #[must_use]
    pub fn strategy(mut self, strategy: impl CompactionStrategy + 'static) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// When, what and down to which size, as the policy says for this room. Its summaries are digests
    /// unless a backend is given.
    #[must_use]
    pub fn policy(mut self, policy: &Policy, room: Room) -> Self {
        let budget = policy.budget(room);
        if let Ok(budget) = &budget {
            let trigger: Arc<dyn CompactionTrigger> = Arc::new(policy.trigger_in(room, budget));
            self.when = Some(Ok(When::Trigger(trigger)));
        }
        self.strategy = Some(shared(policy.strategy()));
        self.budget = Some(budget);
        self.backend = self.backend.or_else(|| Some(Arc::new(DigestBackend)));
        self
    }

    /// Who writes summaries.
    #[must_use]
    pub fn backend(self, backend: impl CompactionBackend + 'static) -> Self {
        self.shared_backend(Arc::new(backend))
    }

    /// Who writes summaries, for several compactors.
    #[must_use]
    pub fn shared_backend(mut self, backend: Arc<dyn CompactionBackend>) -> Self {
        self.backend = Some(backend);
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
        self.observer = Some(Arc::new(observer));
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

    /// Whether the backend is asked at all. Clones of a guard share what they know.
    #[must_use]
    pub fn guard(mut self, guard: BackendGuard) -> Self {
        self.guard = guard;
        self
    }

    /// Runs before a compaction, and may say no to it.
    #[must_use]
    pub fn before_compaction_start(
        mut self,
        hook: impl Fn(&CompactionRequest) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.before = Some(Box::new(hook));
        self
    }

    /// Runs after a compaction.
    #[must_use]
    pub fn after_compaction_end(
        mut self,
        hook: impl Fn(&CompactionRequest, &CompactionResult) + Send + Sync + 'static,
    ) -> Self {
        self.after = Some(Box::new(hook));
        self
    }

    /// The compactor.
    pub fn build(self) -> Result<StrategyCompactor, StrategyCompactorBuildError> {
        let budget = self.budget.clone().transpose()?;
        let Some(strategy) = self.strategy.clone() else {
            return Err(StrategyCompactorBuildError::MissingStrategy);
        };
        if budget.is_none() && strategy.needs_budget() {
            return Err(StrategyCompactorBuildError::MissingBudget { strategy: strategy.describe() });
        }
        StrategyCompactor::new(self, strategy, budget)
    }
}
