//! Putting a compactor together.

use std::sync::Arc;

use foldback_core::{
    Budget, BudgetError, Dialect, Level, Metadata, Policy, Room, Tokens, TriggerError,
    context_window_trigger, item_count_trigger,
};

use super::strategy_compactor::{AfterHook, BeforeHook, Parts, StrategyCompactor};
use super::when::When;
use super::{CompactionTrigger, TriggerFn};
use crate::ask::{BackendGuard, DigestBackend, SummaryLimits};
use crate::backend::CompactionBackend;
use crate::clock::{Clock, SystemClock};
use crate::compaction::{CompactionRequest, CompactionResult, CompactionStrategy};
use crate::event::CompactionObserver;

/// Why a compactor cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StrategyCompactorBuildError {
    /// It would never compact.
    #[error("the compactor has no trigger; give it one, or a policy")]
    NoTrigger,
    /// It would not know what to do.
    #[error("the compactor has no strategy; give it one, or a policy")]
    NoStrategy,
    /// The strategy aims at a size, and none was given.
    #[error("{strategy} works towards a budget; give the compactor one")]
    BudgetRequired {
        /// The strategy or pipeline.
        strategy: String,
    },
    /// The trigger cannot be.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// The budget cannot be.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// Nothing says when to begin.
    #[error("preparing in the background begins at a level of a budget; give the compactor one")]
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

/// Puts a [`StrategyCompactor`] together. What is wrong with it is said by
/// [`build`](Self::build); of two triggers or strategies the later counts.
#[derive(Debug, Default)]
pub struct StrategyCompactorBuilder {
    when: Option<When>,
    strategy: Option<Arc<dyn CompactionStrategy>>,
    backend: Option<Arc<dyn CompactionBackend>>,
    is_policy: bool,
    budget: Option<Budget>,
    dialect: Option<Dialect>,
    metadata: Metadata,
    observer: Option<Arc<dyn CompactionObserver>>,
    clock: Option<Arc<dyn Clock>>,
    limits: SummaryLimits,
    guard: BackendGuard,
    before: Option<BeforeHook>,
    after: Option<AfterHook>,
    soft: Option<Level>,
    error: Option<StrategyCompactorBuildError>,
}

impl StrategyCompactorBuilder {
    /// When a closure says so.
    #[must_use]
    pub fn trigger(mut self, trigger: Box<TriggerFn>) -> Self {
        self.when = Some(When::Fn(trigger));
        self
    }

    /// When there are more than `max_items`.
    #[must_use]
    pub fn item_count_trigger(self, max_items: usize) -> Self {
        self.compaction_trigger(item_count_trigger(max_items))
    }

    /// When the reported input tokens, cached ones included, reach `window × percent / 100`, and when
    /// a request was rejected for its length; inside tool loops as well as after a turn.
    #[must_use]
    pub fn context_window_trigger(mut self, window: Tokens, percent: f64) -> Self {
        match context_window_trigger(window, percent) {
            Ok(trigger) => self.compaction_trigger(trigger),
            Err(error) => {
                self.refuse(error.into());
                self
            }
        }
    }

    /// When a trigger says so: any [`Trigger`](foldback_core::Trigger), or one that knows sessions.
    #[must_use]
    pub fn compaction_trigger(mut self, trigger: impl CompactionTrigger + 'static) -> Self {
        self.when = Some(When::Trigger(Box::new(trigger)));
        self
    }

    /// What to do.
    #[must_use]
    pub fn strategy(mut self, strategy: impl CompactionStrategy + 'static) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// When, what and down to which size, as a policy has it for the room that a model leaves. Its
    /// summaries are digests unless there is a backend.
    #[must_use]
    pub fn policy(mut self, policy: &Policy, room: Room) -> Self {
        match policy.budget(room) {
            Ok(budget) => {
                let trigger = policy.trigger_in(room, &budget);
                self.when = Some(When::Policy { policy: policy.clone(), trigger });
                self.budget = Some(budget);
            }
            Err(error) => self.refuse(error.into()),
        }
        self.is_policy = true;
        self.strategy(policy.strategy())
    }

    /// Who writes summaries.
    #[must_use]
    pub fn backend(self, backend: impl CompactionBackend + 'static) -> Self {
        self.shared_backend(Arc::new(backend))
    }

    /// Who writes summaries, for others as well.
    #[must_use]
    pub fn shared_backend(mut self, backend: Arc<dyn CompactionBackend>) -> Self {
        self.backend = Some(backend);
        self
    }

    /// What every strategy and backend is told.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// How much room there is, unless a request says otherwise.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Whose rules results must keep, unless a request says otherwise.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        self
    }

    /// Who sees what happens.
    #[must_use]
    pub fn observer(mut self, observer: impl CompactionObserver + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Who tells the time.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// How summaries are asked for.
    #[must_use]
    pub fn limits(mut self, limits: SummaryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// When the backend is not asked any more. Clones of a guard share what they know.
    #[must_use]
    pub fn guard(mut self, guard: BackendGuard) -> Self {
        self.guard = guard;
        self
    }

    /// Called before each compaction; an error vetoes it. Must not block.
    #[must_use]
    pub fn before_compaction_start(
        mut self,
        hook: impl Fn(&CompactionRequest) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.before = Some(BeforeHook(Box::new(hook)));
        self
    }

    /// Called after each compaction that was made. Must not block.
    #[must_use]
    pub fn after_compaction_end(
        mut self,
        hook: impl Fn(&CompactionRequest, &CompactionResult) + Send + Sync + 'static,
    ) -> Self {
        self.after = Some(AfterHook(Box::new(hook)));
        self
    }

    /// Prepares ahead: at this level a compaction of what is there then is begun in the background,
    /// and swapped in when the trigger fires, so that nobody waits for it. Needs a budget, and a
    /// tokio runtime around [`should_compact`](super::Compactor::should_compact).
    #[must_use]
    pub fn background(mut self, soft: Level) -> Self {
        self.soft = Some(soft);
        self
    }

    fn refuse(&mut self, error: StrategyCompactorBuildError) {
        self.error.get_or_insert(error);
    }

    /// The compactor, or what is wrong with it.
    pub fn build(self) -> Result<StrategyCompactor, StrategyCompactorBuildError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let when = self.when.ok_or(StrategyCompactorBuildError::NoTrigger)?;
        let strategy = self.strategy.ok_or(StrategyCompactorBuildError::NoStrategy)?;
        if strategy.needs_budget() && self.budget.is_none() {
            return Err(StrategyCompactorBuildError::BudgetRequired { strategy: strategy.describe() });
        }
        if let Some(soft) = self.soft {
            let budget = self.budget.ok_or(StrategyCompactorBuildError::BackgroundWithoutBudget)?;
            let (soft, trigger) = (soft_tokens(soft, &budget)?, budget.trigger());
            if soft >= trigger {
                return Err(StrategyCompactorBuildError::SoftLevelTooHigh { soft, trigger });
            }
        }
        let digest = || self.is_policy.then(|| Arc::new(DigestBackend) as Arc<dyn CompactionBackend>);
        Ok(StrategyCompactor::new(Parts {
            when,
            strategy,
            backend: self.backend.clone().or_else(digest),
            budget: self.budget,
            dialect: self.dialect,
            metadata: self.metadata,
            observer: self.observer,
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
            limits: self.limits,
            guard: self.guard,
            before: self.before,
            after: self.after,
            soft: self.soft,
        }))
    }
}

/// A level in tokens of a budget.
pub(super) fn soft_tokens(level: Level, budget: &Budget) -> Result<Tokens, BudgetError> {
    let same_room = Budget::builder(budget.window())
        .output_reserve(budget.output_reserve())
        .overhead(budget.overhead())
        .trigger(level)
        .target(Tokens(1));
    Ok(same_room.build()?.trigger())
}
