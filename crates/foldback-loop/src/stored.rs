//! Conversations that are kept in a store, and how those and others are compacted by one configuration.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use foldback_core::trigger::Growth;
use foldback_core::{
    Budget, BudgetTrigger, CompactionReason, Dialect, HysteresisTrigger, MutationPoint, Sequence, Text,
    Tokens, Trigger, View,
};
use foldback_engine::session::{
    CompactionConfig, LiveSession, SessionContext, StoredSession, StoredSessionError,
};
use foldback_engine::{CompactionContext, StrategyCompactorBuildError};

use crate::compaction::CompactorMutator;
use crate::error::{LoopError, MutationFault};
use crate::mutator::{LoopMutator, Mutation, MutationContext, MutatorError, Staged};
use crate::session::Shared;
use crate::state::REJECTED_FRACTION;

/// A session that is kept in a store.
#[derive(Debug)]
pub(crate) struct Stored {
    live: tokio::sync::Mutex<LiveSession>,
    before: Mutex<Arc<SessionContext>>,
    session: StoredSession,
}

impl Stored {
    pub(crate) fn new(live: LiveSession) -> Self {
        let (before, session) = (Mutex::new(Arc::clone(live.before())), live.stored().clone());
        Self { live: tokio::sync::Mutex::new(live), before, session }
    }

    /// What the model sees before the current loop.
    pub(crate) fn before(&self) -> Arc<SessionContext> {
        Arc::clone(&self.before.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The session, to recall from.
    pub(crate) fn session(&self) -> StoredSession {
        self.session.clone()
    }

    fn note_before(&self, live: &LiveSession) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(live.before());
    }

    /// Brings what is new to the store.
    pub(crate) async fn save(&self, shared: &Shared) -> Result<(), LoopError> {
        let mut live = self.live.lock().await;
        self.save_to(&mut live, shared).await
    }

    async fn save_to(&self, live: &mut LiveSession, shared: &Shared) -> Result<(), LoopError> {
        if let Some((recorded_count, view)) = live.resolve().await? {
            self.note_before(live);
            let mut state = shared.state();
            let is_taken = state.adopt(recorded_count, view, shared.parts.model.dialect());
            is_taken.map_err(|why| undecided(shared, why))?;
            state.set_before(live.before());
        }
        let view = shared.state().view().clone();
        Ok(live.record(&view).await?)
    }

    /// Takes the newest compaction off in the store.
    pub(crate) async fn undo(&self, shared: &Shared) -> Result<Option<View>, LoopError> {
        let mut live = self.live.lock().await;
        self.save_to(&mut live, shared).await?;
        let undone = live.undo().await?;
        self.note_before(&live);
        Ok(undone)
    }

    async fn compact(
        &self,
        view: &View,
        reason: CompactionReason,
        config: &CompactionConfig,
        max_context_tokens: Tokens,
        context: &CompactionContext,
    ) -> Result<Option<View>, StoredSessionError> {
        let mut live = self.live.lock().await;
        live.record(view).await?;
        let compacted = live.compact(reason, config, max_context_tokens, context).await?;
        self.note_before(&live);
        Ok(compacted.map(|(view, _)| view))
    }
}

/// What an interrupted compaction left in the store cannot be sent.
fn undecided(shared: &Shared, why: MutationFault) -> LoopError {
    let mutator = shared.parts.compaction.as_ref().map_or("compaction", |compaction| &compaction.label);
    LoopError::Mutator { mutator: mutator.to_owned(), point: MutationPoint::AfterTurnEnded, why }
}

/// How conversations are compacted: those in a store by blocks, others in memory.
#[derive(Debug)]
pub(crate) struct Configured {
    config: CompactionConfig,
    window: Tokens,
    budget: Budget,
    label: String,
    in_memory: Arc<dyn LoopMutator>,
}

impl Configured {
    pub(crate) fn new(
        mut config: CompactionConfig,
        window: Tokens,
        label: String,
        dialect: Option<Dialect>,
        schema_tokens: Tokens,
    ) -> Result<Self, StrategyCompactorBuildError> {
        config.dialect = config.dialect.or(dialect);
        config.overhead_tokens = config.overhead_tokens.max(schema_tokens);
        let budget = config.budget(window)?;
        let compactor = config.compactor(window)?;
        let in_memory = Arc::new(CompactorMutator::new(compactor).with_label(label.clone()));
        Ok(Self { config, window, budget, label, in_memory })
    }

    pub(crate) fn budget(&self) -> Budget {
        self.budget
    }

    pub(crate) fn focus(&self) -> Option<&Text> {
        self.config.focus.as_ref()
    }

    /// Which loops a session shows.
    pub(crate) fn scope(&self) -> (CompactionConfig, Tokens) {
        (self.config.clone(), self.window)
    }

    /// What compacts a conversation that is kept here, if it is kept.
    pub(crate) fn mutator(&self, stored: Option<&Arc<Stored>>) -> Arc<dyn LoopMutator> {
        let Some(stored) = stored else { return Arc::clone(&self.in_memory) };
        Arc::new(BlockMutator {
            stored: Arc::clone(stored),
            config: self.config.clone(),
            budget: self.budget,
            label: self.label.clone(),
        })
    }
}

/// Compacts a stored session, loop by loop.
#[derive(Debug)]
struct BlockMutator {
    stored: Arc<Stored>,
    config: CompactionConfig,
    budget: Budget,
    label: String,
}

impl BlockMutator {
    fn reason(&self, view: &View, context: &MutationContext<'_>) -> Option<CompactionReason> {
        if context.is_asked_for() {
            return Some(CompactionReason::Manual);
        }
        // What comes before the view takes its part of the level.
        let level = self.budget.trigger().saturating_sub(self.stored.before().tokens);
        let trigger = BudgetTrigger::at_limit(level.max(Tokens(1))).ok()?;
        let patient = HysteresisTrigger::new(trigger, Growth::DEFAULT).ok()?;
        patient.fires(&context.trigger_context(view).about::<Sequence>(view))
    }

    /// The window to compact for, in counted tokens. What was believed to fit and was rejected did not.
    fn room(&self, view: &View, context: &MutationContext<'_>) -> Tokens {
        let window = context.budget.unwrap_or(self.budget).window();
        let Some(again) = i32::try_from(context.rejection_count).ok().filter(|count| *count > 0) else {
            return window;
        };
        let believed = window.min(view.tokens() + self.stored.before().tokens);
        believed.scaled_down(REJECTED_FRACTION.powi(again - 1)).max(Tokens(1))
    }
}

#[async_trait]
impl LoopMutator for BlockMutator {
    fn label(&self) -> &str {
        &self.label
    }

    async fn mutate(
        &self,
        staged: &mut Staged,
        context: &MutationContext<'_>,
    ) -> Result<Mutation, MutatorError> {
        let Some(reason) = self.reason(staged.view(), context) else { return Ok(Mutation::done()) };
        staged.begin(reason.clone(), self.config.block_strategy.describe());
        let room = self.room(staged.view(), context);
        let config = CompactionConfig { focus: context.focus.cloned(), ..self.config.clone() };
        let compaction =
            CompactionContext { cancellation: context.cancellation.clone(), ..CompactionContext::default() };
        let compacted = self.stored.compact(staged.view(), reason, &config, room, &compaction).await;
        Ok(match compacted {
            Err(error) => Mutation::failed(error.to_string()),
            Ok(None) => Mutation::done(),
            Ok(Some(view)) => {
                staged.install(view);
                Mutation::done()
            }
        })
    }
}
