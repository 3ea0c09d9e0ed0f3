//! Runs the mutators at a mutation point, each as a transaction of its own.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use foldback_core::{
    Change, CompactionReason, MutationPoint, StructuralEvent, Text, Timestamp, Tokens, TurnId, View,
};
use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{LoopError, MutationFault};
use crate::event::{AgentEvent, Emitter};
use crate::mutator::{LoopMutator, Mutation, MutationContext, Staged, Work};
use crate::session::Shared;
use crate::state::State;
use crate::stopping::or_stopped;

/// What the mutators did at one mutation point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MutationRound {
    /// The labels of those that changed something.
    pub dirty: Vec<String>,
    /// What those that failed said.
    pub failures: Vec<String>,
    /// What the view cost before.
    pub tokens_before: Tokens,
    /// What it costs now.
    pub tokens_after: Tokens,
}

/// One mutation point.
pub(crate) struct Mutating<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) emitter: &'a Emitter,
    pub(crate) turn_id: Option<&'a TurnId>,
    pub(crate) point: MutationPoint,
    pub(crate) focus: Option<&'a Text>,
    pub(crate) token: &'a CancellationToken,
}

impl Mutating<'_> {
    /// Lets every mutator run, in order, each on what the one before left.
    pub(crate) async fn run(&self) -> Result<MutationRound, LoopError> {
        let (delivered, events) = {
            let mut state = self.shared.state();
            // The conversation is whole here: whatever is said meanwhile goes to its end at once.
            let delivered = state.reopen();
            state.mend(self.shared.parts.model.dialect());
            (delivered, state.take_events())
        };
        delivered.into_iter().for_each(|item| self.emitter.emit(AgentEvent::InputDelivered { item }));
        let tokens = || self.shared.state().view().tokens();
        let mut round = MutationRound { tokens_before: tokens(), ..MutationRound::default() };
        for mutator in &self.shared.mutators {
            if self.point != MutationPoint::BetweenTurns || self.is_due(&**mutator) {
                self.run_one(&**mutator, &events, &mut round).await?;
            }
        }
        round.tokens_after = tokens();
        Ok(round)
    }

    /// The earliest time at which a mutator is due by the clock alone. One that was asked and did nothing is
    /// not asked again for the same reason.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        let mutators = self.shared.mutators.iter();
        mutators.filter_map(|mutator| self.due_time(&**mutator)).min()
    }

    fn due_time(&self, mutator: &dyn LoopMutator) -> Option<Timestamp> {
        let (view, mut context) = {
            let state = self.shared.state();
            (state.view().clone(), self.context(mutator.label(), &state, &[]))
        };
        context.last_firing = self.shared.state().last_asked(mutator.label());
        mutator.due_at(&view, &context)
    }

    /// Whether the clock alone calls for the mutator now; then it counts as asked.
    fn is_due(&self, mutator: &dyn LoopMutator) -> bool {
        let now = self.shared.parts.clock.now();
        let is_due = self.due_time(mutator).is_some_and(|due| due <= now);
        if is_due {
            self.shared.state().note_asked(mutator.label(), now);
        }
        is_due
    }

    async fn run_one(
        &self,
        mutator: &dyn LoopMutator,
        events: &[StructuralEvent],
        round: &mut MutationRound,
    ) -> Result<(), LoopError> {
        let label = mutator.label().to_owned();
        let base = self.shared.state().view().clone();
        let started = Instant::now();
        let mut staged = Staged::new(base.clone(), &label, self.point, self.emitter.clone());
        let outcome = self.mutate(mutator, &mut staged, events).await;
        if outcome.as_ref().map_or(true, |mutation| mutation.failure.is_some()) {
            staged.begin_unannounced();
        }
        let Some(work) = staged.work().cloned() else { return Ok(()) };
        let committed = self.settle(&label, &base, staged, outcome);
        let duration = started.elapsed();
        let (dirty, mutation, fault) = match committed {
            Ok((dirty, mutation)) => (dirty, mutation, None),
            Err(fault) => (false, Mutation::failed(fault.to_string()), Some(fault)),
        };
        if dirty {
            round.dirty.push(label.clone());
        }
        round.failures.extend(mutation.failure.clone());
        self.emit_finished(&label, work, dirty, mutation, &base, duration);
        match fault {
            None => Ok(()),
            Some(why) => Err(LoopError::Mutator { mutator: label, point: self.point, why }),
        }
    }

    async fn mutate(
        &self,
        mutator: &dyn LoopMutator,
        staged: &mut Staged,
        events: &[StructuralEvent],
    ) -> Result<Mutation, MutationFault> {
        let context = self.context(mutator.label(), &self.shared.state(), events);
        let mutation = AssertUnwindSafe(mutator.mutate(staged, &context)).catch_unwind();
        match or_stopped(mutation, self.token, self.shared.parts.limits.grace).await {
            None => Ok(Mutation::failed("the mutator was stopped")),
            Some(Err(_panic)) => Err(MutationFault::Panicked),
            Some(Ok(mutation)) => Ok(mutation?),
        }
    }

    fn context<'c>(
        &'c self,
        label: &str,
        state: &State,
        events: &'c [StructuralEvent],
    ) -> MutationContext<'c> {
        let parts = &self.shared.parts;
        let needs_follow_up =
            matches!(self.point, MutationPoint::AfterToolResult | MutationPoint::AfterRequestRejected);
        MutationContext {
            session_id: &self.shared.id,
            turn_id: self.turn_id,
            point: self.point,
            events,
            tokens: state.tokens(),
            reported: state.reported(),
            now: parts.clock.now(),
            last_firing: state.last_firing(label),
            last_compaction: state.last_compaction,
            needs_follow_up,
            has_pending_input: state.has_pending_input(),
            budget: state.room(parts.budget),
            dialect: parts.model.dialect(),
            limit: state.limit(),
            rejection_count: state.rejection_count(),
            focus: self.focus.or(parts.compaction.as_ref().and_then(|compaction| compaction.focus())),
            cancellation: self.token,
        }
    }

    /// Commits what was staged, or refuses it; whether anything changed.
    fn settle(
        &self,
        label: &str,
        base: &View,
        staged: Staged,
        outcome: Result<Mutation, MutationFault>,
    ) -> Result<(bool, Mutation), MutationFault> {
        let now = self.shared.parts.clock.now();
        let mut state = self.shared.state();
        // What is done to every long result as it comes says nothing of when a trigger fired.
        let fired = staged.work().and_then(|work| work.reason.as_ref());
        if fired.is_some_and(|reason| *reason != CompactionReason::ToolOutput) {
            state.note_firing(label, now);
        }
        let mutation = outcome?;
        let dirty = staged.is_changed() && mutation.failure.is_none();
        if dirty {
            state.commit(base, staged.into_view(), self.shared.parts.model.dialect(), now)?;
        }
        if let Some(stored) = &self.shared.stored {
            state.set_before(&stored.before());
        }
        Ok((dirty, mutation))
    }

    fn emit_finished(
        &self,
        label: &str,
        work: Work,
        dirty: bool,
        mutation: Mutation,
        base: &View,
        duration: Duration,
    ) {
        let view = self.shared.state().view().clone();
        let replaced_items = if dirty { Change::between(base, &view).replaced_items } else { 0 };
        tracing::debug!(mutator = label, point = ?self.point, dirty, "mutation");
        self.emitter.emit(AgentEvent::MutationFinished {
            mutator: label.to_owned(),
            point: self.point,
            reason: work.reason,
            strategy: work.strategy,
            dirty,
            replaced_items,
            metadata: mutation.metadata,
            failure: mutation.failure,
            tokens_before: base.tokens(),
            tokens_after: view.tokens(),
            duration,
        });
    }
}
