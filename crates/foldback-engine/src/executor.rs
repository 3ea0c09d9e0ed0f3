//! Plan, fill, check, commit: [`compact`].

use std::sync::Arc;

use foldback_core::{
    Budget, Compacted, CompactionReason, Dialect, Plan, Repair, Strategy, Timestamp, Tokens, Usage, View,
    check, plan,
};

use crate::ahead::read_ahead;
use crate::ask::{Asking, DigestBackend, Filled, fill};
use crate::backend::GuardedBackend;
use crate::change::Change;
use crate::compaction::{CompactionContext, CompactionError, CompactionRequest, CompactionResult};
use crate::mend::mend;
use crate::off_task::off_task;

/// What to compact, how, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// What the model sees now.
    pub view: &'a View,
    /// What to do about it.
    pub strategy: &'a dyn Strategy,
    /// How much room there is; structural strategies need none.
    pub budget: Option<&'a Budget>,
    /// Whose rules the result must keep; without one, those that all share.
    pub dialect: Option<Dialect>,
    /// Why it is done (T9).
    pub cause: Option<&'a CompactionReason>,
    /// When it is done.
    pub now: Option<Timestamp>,
}

impl Execution<'_> {
    /// The size that the result must not exceed, where the strategy works towards one.
    fn target(&self) -> Option<Tokens> {
        self.budget.filter(|_| self.strategy.needs_budget()).map(Budget::target)
    }
}

/// A compaction that was carried out, in memory.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was planned, on the view after repairs.
    pub plan: Plan,
    /// The view it led to, and the block to store.
    pub compacted: Compacted,
    /// What had to be repaired first.
    pub repairs: Vec<Repair>,
}

impl Outcome {
    /// Whether anything changed.
    pub fn is_unchanged(&self) -> bool {
        self.plan.is_empty() && self.repairs.is_empty()
    }
}

/// Plans, and stops there.
pub fn dry_run(request: &Execution<'_>) -> Result<(Plan, Vec<Repair>), CompactionError> {
    let mended = mend(request.view, request.dialect);
    let mut plan = plan(&mended.view, request.strategy, request.budget)?;
    if let Some(cause) = request.cause {
        plan = plan.caused_by(cause.clone());
    }
    if let Some(now) = request.now {
        plan = plan.made_at(now);
    }
    if let Some(copies) = mended.copies {
        plan = plan.with_copies(copies);
    }
    Ok((plan, mended.repairs))
}

/// Plans, fills, checks, commits.
pub fn compact(request: &Execution<'_>) -> Result<Outcome, CompactionError> {
    let (plan, repairs) = dry_run(request)?;
    plan.requests().for_each(|request| read_ahead(&request));
    let compacted = plan.apply_digest();
    judge_view(&compacted.view, plan.strategy(), request.dialect, request.target())?;
    Ok(Outcome { plan, compacted, repairs })
}

/// The same with a backend: plans a pure strategy on the view of a request, has the summaries
/// written, checks. Whatever a backend does, its failure is no failure of the compaction (T8). What is
/// long and pure is done off the task, so that it can be cancelled.
pub(crate) async fn run(
    strategy: Arc<dyn Strategy>,
    request: &CompactionRequest,
    context: &CompactionContext,
) -> Result<CompactionResult, CompactionError> {
    context.go_on()?;
    let (asked, now) = (request.clone(), context.clock.now());
    let planned = off_task(recorded(request), move || Planned::new(&*strategy, &asked, now));
    carry_out(planned.await?, request, context).await
}

/// The same for a strategy that nobody shares, which cannot leave the task: where a host, or a strategy
/// of its own, calls it without a compactor.
pub(crate) async fn run_on_task(
    strategy: &dyn Strategy,
    request: &CompactionRequest,
    context: &CompactionContext,
) -> Result<CompactionResult, CompactionError> {
    context.go_on()?;
    let planned = Planned::new(strategy, request, context.clock.now())?;
    carry_out(planned, request, context).await
}

/// How much there is to read for a request.
pub(crate) fn recorded(request: &CompactionRequest) -> Tokens {
    request.transcript.transcript().tokens()
}

/// A plan, and what must be known of its strategy to carry it out.
#[derive(Debug)]
struct Planned {
    plan: Plan,
    is_unchanged: bool,
    wants_backend: bool,
    /// What the strategy works towards, if it does.
    target: Option<Tokens>,
}

impl Planned {
    fn new(
        strategy: &dyn Strategy,
        request: &CompactionRequest,
        now: Timestamp,
    ) -> Result<Self, CompactionError> {
        let execution = Execution {
            view: &request.transcript,
            strategy,
            budget: request.budget.as_ref(),
            dialect: request.dialect,
            cause: Some(&request.reason),
            now: Some(now),
        };
        let (mut plan, repairs) = dry_run(&execution)?;
        let is_unchanged = plan.is_empty() && repairs.is_empty();
        if let Some(focus) = &request.focus {
            plan = plan.focused_on(focus);
        }
        let (wants_backend, target) = (strategy.wants_backend(), execution.target());
        Ok(Self { plan, is_unchanged, wants_backend, target })
    }

    /// The view with these summaries in it, if it may be handed out.
    fn commit(
        self,
        filled: Filled,
        request: &CompactionRequest,
    ) -> Result<CompactionResult, CompactionError> {
        let Self { plan, target, .. } = self;
        // What the backend wrote was judged; the plan's own judgement is the same one again.
        let compacted = plan.apply(filled.summaries).unwrap_or_else(|_| plan.apply_digest());
        judge_view(&compacted.view, plan.strategy(), request.dialect, target)?;
        let replaced_items = Change::between(&request.transcript, &compacted.view).replaced_items;
        let mut result = CompactionResult::new(compacted.view, replaced_items);
        result.written_by = filled.written_by;
        result.usage = filled.usage;
        result.cost = filled.cost;
        result.metadata = filled.metadata;
        Ok(result)
    }
}

async fn carry_out(
    planned: Planned,
    request: &CompactionRequest,
    context: &CompactionContext,
) -> Result<CompactionResult, CompactionError> {
    context.go_on()?;
    if planned.is_unchanged {
        return Ok(CompactionResult::unchanged(request.transcript.clone()));
    }
    let filled = fill_from(&planned, request, context).await?;
    let asked = request.clone();
    let result = off_task(recorded(request), move || planned.commit(filled, &asked)).await?;
    context.go_on()?;
    Ok(result)
}

async fn fill_from(
    planned: &Planned,
    request: &CompactionRequest,
    context: &CompactionContext,
) -> Result<Filled, CompactionError> {
    let plan = &planned.plan;
    if plan.folds().next().is_none() {
        return Ok(Filled::default());
    }
    let digest = GuardedBackend::from(DigestBackend);
    let backend = match &context.backend {
        Some(backend) => backend,
        None if planned.wants_backend => {
            return Err(CompactionError::MissingBackend { strategy: plan.strategy().to_owned() });
        }
        None => &digest,
    };
    let emit = |kind| context.emit(request, kind);
    let asking = Asking {
        backend: &**backend,
        limits: &context.limits,
        guard: backend.guard(),
        cancellation: &context.cancellation,
        session_id: &request.session_id,
        turn_id: request.turn_id.as_ref(),
        reason: Some(&request.reason),
        metadata: &request.metadata,
        emit: &emit,
        seed: request.transcript.tokens().0,
    };
    fill(plan, &asking).await
}

/// What two calls used together.
pub(crate) fn sum(first: Usage, second: Usage) -> Usage {
    Usage {
        input_tokens: first.input_tokens + second.input_tokens,
        cached_tokens: first.cached_tokens + second.cached_tokens,
        cache_write_tokens: first.cache_write_tokens + second.cache_write_tokens,
        output_tokens: first.output_tokens + second.output_tokens,
        reasoning_tokens: first.reasoning_tokens + second.reasoning_tokens,
    }
}

/// The last look before a commit: valid for the dialect, and within the budget where the strategy
/// works towards one.
pub(crate) fn judge_view(
    view: &View,
    strategy: &str,
    dialect: Option<Dialect>,
    target: Option<Tokens>,
) -> Result<(), CompactionError> {
    let violations = check(view.items(), dialect);
    if !violations.is_empty() {
        return Err(CompactionError::Invalid { strategy: strategy.to_owned(), violations });
    }
    match target {
        Some(target) if view.tokens() > target => {
            Err(CompactionError::OverTarget { strategy: strategy.to_owned(), tokens: view.tokens(), target })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use foldback_core::{
        DropReasoningStrategy, Item, ItemKind, LadderStrategy, Overlay, Part, Reasoning, StrategyPipeline,
        Transcript,
    };
    use foldback_testkit::{config, recipe};

    /// Planning itself has its own properties; here it is the road around it.
    const CASES: u32 = 2_000;

    fn request<'a>(view: &'a View, strategy: &'a dyn Strategy) -> Execution<'a> {
        Execution { view, strategy, budget: None, dialect: None, cause: None, now: None }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: CASES, ..config() })]

        /// T1, T2: whatever was recorded, what comes out is valid, and the record is untouched.
        #[test]
        fn every_outcome_is_valid_and_leaves_the_record_alone(
            recipe in recipe::recipe(),
            dialect in prop::sample::select(Dialect::ALL.to_vec()),
            percent in 5u64..100,
        ) {
            let transcript = recipe.transcript();
            let view = View::of(&transcript);
            let budget = Budget::for_target(Tokens((view.tokens().0 * percent / 100).max(1))).unwrap();
            let ladder = LadderStrategy::new();
            let request = Execution {
                budget: Some(&budget),
                dialect: Some(dialect),
                ..request(&view, &ladder)
            };
            match compact(&request) {
                Ok(outcome) => {
                    prop_assert_eq!(check(outcome.compacted.view.items(), Some(dialect)), []);
                    prop_assert!(outcome.compacted.view.tokens() <= budget.target());
                    let recorded = outcome.compacted.view.transcript();
                    prop_assert!(recorded.items().zip(transcript.items()).all(|(now, then)| now == then));
                    prop_assert!(recorded.len() >= transcript.len());
                }
                Err(CompactionError::BudgetInfeasible(error)) => {
                    prop_assert!(error.kernel_tokens > budget.target());
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    #[test]
    fn pinned_thinking_keeps_what_it_led_to_across_an_instruction() {
        let long = |text: &str| text.repeat(60);
        let signature = Some("c2lnbmVk".into());
        let thinking = Reasoning { text: "hm".into(), signature, ..Reasoning::default() };
        let thinking = Item::assistant("thinking", vec![Part::Reasoning(thinking), Part::text("")]);
        let said = |n: usize| Item::user(format!("u{n}"), long("and what about this? "));
        let items = (0..4).map(said).chain([
            thinking.pinned(),
            Item::text("system", ItemKind::System, "answer briefly"),
            Item::assistant("answer", vec![Part::text(long("it is what it is; "))]),
        ]);
        let view = View::of(&items.chain((4..30).map(said)).collect::<Transcript>());
        let budget = Budget::for_target(Tokens(view.tokens().0 / 4)).unwrap();
        let (ladder, dialect) = (LadderStrategy::new(), Some(Dialect::Anthropic));
        let request = Execution { budget: Some(&budget), dialect, ..request(&view, &ladder) };
        let after = compact(&request).unwrap().compacted.view;
        let is_there = |id: &str| after.items().any(|item| item.id.as_str() == id);
        assert!(is_there("thinking") && is_there("answer"), "{}", after.shape());
        assert!(after.tokens() <= budget.target());
    }

    #[test]
    fn a_ladder_without_a_budget_is_refused() {
        let view = View::of(&Transcript::default());
        let ladder = LadderStrategy::new();
        assert!(matches!(compact(&request(&view, &ladder)), Err(CompactionError::BudgetRequired { .. })));
        let structural = StrategyPipeline::new().with_strategy(DropReasoningStrategy::new());
        let outcome = compact(&request(&view, &structural)).unwrap();
        assert!(outcome.is_unchanged());
        assert_eq!(outcome.compacted.view.overlay(), &Overlay::default());
    }
}
