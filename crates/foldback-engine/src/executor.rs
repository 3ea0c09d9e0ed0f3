//! Plan, fill, check, commit: [`compact`].

use std::sync::Arc;

use foldback_core::{
    Budget, Compacted, CompactionReason, Dialect, Plan, Repair, Strategy, Text, Timestamp, Tokens, Usage,
    View, check, plan, plan_again,
};

use crate::ahead::read_ahead;
use crate::ask::{Asking, Filled, fill};
use crate::change::Change;
use crate::compaction::{CompactionContext, CompactionError, CompactionRequest, CompactionResult};
use crate::mend::{Mended, mend};
use crate::off_task::off_task;

/// Where digests leave more than this share of the target unused, it is planned once more.
const UNUSED_PERCENT_MAX: u64 = 5;

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
    Ok((planned(request, None, &mended, None)?, mended.repairs))
}

/// Plans, fills, checks, commits.
pub fn compact(request: &Execution<'_>) -> Result<Outcome, CompactionError> {
    let mended = mend(request.view, request.dialect);
    let plan = planned(request, None, &mended, None)?;
    let Digested { plan, compacted } = digest(request, None, &mended, plan);
    judge_view(&compacted.view, plan.strategy(), request.dialect, request.target())?;
    Ok(Outcome { plan, compacted, repairs: mended.repairs })
}

/// A plan for the mended view; once more, where summaries were `written` and needed no more than that.
fn planned(
    request: &Execution<'_>,
    focus: Option<&Text>,
    mended: &Mended,
    written: Option<Tokens>,
) -> Result<Plan, CompactionError> {
    let mut plan = match written {
        None => plan(&mended.view, request.strategy, request.budget),
        Some(written) => plan_again(&mended.view, request.strategy, request.budget, written),
    }?;
    if let Some(cause) = request.cause {
        plan = plan.caused_by(cause.clone());
    }
    if let Some(now) = request.now {
        plan = plan.made_at(now);
    }
    if mended.is_recorded {
        plan = plan.joined_to_repair();
    }
    if let Some(focus) = focus {
        plan = plan.focused_on(focus);
    }
    Ok(plan)
}

/// A plan with its digests.
#[derive(Debug)]
struct Digested {
    plan: Plan,
    compacted: Compacted,
}

/// Applies a plan with digests. Where they have much less to tell than it left room for, items that it
/// folded stay after all.
fn digest(request: &Execution<'_>, focus: Option<&Text>, mended: &Mended, plan: Plan) -> Digested {
    let applied = |plan: Plan| {
        plan.requests().for_each(|request| read_ahead(&request));
        Digested { compacted: plan.apply_digest(), plan }
    };
    let first = applied(plan);
    let after = first.compacted.view.tokens();
    let unused = request.target().unwrap_or_default().saturating_sub(after);
    let reserved = first.plan.summaries_max();
    if unused.0 * 100 <= (after + unused).0 * UNUSED_PERCENT_MAX || reserved == Tokens::ZERO {
        return first;
    }
    let written = reserved.saturating_sub(first.plan.tokens_after().saturating_sub(after));
    match planned(request, focus, mended, Some(written)).map(applied) {
        Ok(second) if second.compacted.view.tokens() > after => second,
        _ => first,
    }
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
    let (asked, now, is_digests) = (request.clone(), context.clock.now(), is_digests(&*strategy, context));
    let planned = off_task(recorded(request), move || Planned::new(&*strategy, &asked, now, is_digests));
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
    let planned = Planned::new(strategy, request, context.clock.now(), is_digests(strategy, context))?;
    carry_out(planned, request, context).await
}

/// How much there is to read for a request.
pub(crate) fn recorded(request: &CompactionRequest) -> Tokens {
    request.transcript.transcript().tokens()
}

/// Whether nobody is asked for summaries: there is no backend and none is wanted, or it would answer with
/// the digest.
fn is_digests(strategy: &dyn Strategy, context: &CompactionContext) -> bool {
    context.backend.as_ref().map_or(!strategy.wants_backend(), |backend| !backend.reads_items())
}

/// A plan, and what must be known of its strategy to carry it out.
#[derive(Debug)]
struct Planned {
    plan: Plan,
    is_unchanged: bool,
    /// What the plan leads to, where nobody is asked.
    digested: Option<Compacted>,
    /// What the strategy works towards, if it does.
    target: Option<Tokens>,
}

impl Planned {
    fn new(
        strategy: &dyn Strategy,
        request: &CompactionRequest,
        now: Timestamp,
        is_digests: bool,
    ) -> Result<Self, CompactionError> {
        let execution = Execution {
            view: &request.transcript,
            strategy,
            budget: request.budget.as_ref(),
            dialect: request.dialect,
            cause: Some(&request.reason),
            now: Some(now),
        };
        let mended = mend(execution.view, execution.dialect);
        let focus = request.focus.as_ref();
        let mut plan = planned(&execution, focus, &mended, None)?;
        let is_unchanged = plan.is_empty() && mended.repairs.is_empty();
        let mut digested = None;
        if is_digests && !is_unchanged {
            let told = digest(&execution, focus, &mended, plan);
            (plan, digested) = (told.plan, Some(told.compacted));
        }
        Ok(Self { plan, is_unchanged, digested, target: execution.target() })
    }

    /// The view with these summaries in it, if it may be handed out.
    fn commit(
        self,
        filled: Filled,
        request: &CompactionRequest,
    ) -> Result<CompactionResult, CompactionError> {
        let Self { plan, target, digested, .. } = self;
        // What the backend wrote was judged; the plan's own judgement is the same one again.
        let apply = || plan.apply(filled.summaries).unwrap_or_else(|_| plan.apply_digest());
        let compacted = digested.unwrap_or_else(apply);
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
    let emit = |kind| context.emit(request, kind);
    if let Some(digested) = &planned.digested {
        return Ok(Filled::with_digests(digested, &emit));
    }
    let Some(backend) = &context.backend else {
        return Err(CompactionError::MissingBackend { strategy: plan.strategy().to_owned() });
    };
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
    use std::sync::Mutex;

    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::ask::DigestBackend;
    use crate::event::{CompactionEvent, CompactionEventKind, CompactionObserver};
    use foldback_core::{
        DropReasoningStrategy, Item, ItemKind, LadderStrategy, Overlay, Part, Reasoning, StrategyPipeline,
        Transcript,
    };
    use foldback_testkit::recipe;

    fn request<'a>(view: &'a View, strategy: &'a dyn Strategy) -> Execution<'a> {
        Execution { view, strategy, budget: None, dialect: None, cause: None, now: None }
    }

    proptest! {
        #![proptest_config(foldback_testkit::costly(5))]

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

    /// A past of which a digest has next to nothing to tell.
    fn monotonous() -> Transcript {
        let said = |n: usize| match n % 2 {
            0 => Item::user(format!("u{n}"), "and what now? "),
            _ => Item::assistant(format!("a{n}"), vec![Part::text("it is what it is; ".repeat(20))]),
        };
        (0..400).map(said).collect()
    }

    #[test]
    fn what_a_digest_leaves_of_the_target_stays_as_it_was() {
        let view = View::of(&monotonous());
        let ladder = LadderStrategy::new();
        for percent in [15, 25, 50] {
            let budget = Budget::for_target(Tokens(view.tokens().0 * percent / 100)).unwrap();
            let request = Execution { budget: Some(&budget), ..request(&view, &ladder) };
            let after = compact(&request).unwrap().compacted.view.tokens();
            let target = budget.target();
            assert!(after <= target && after.0 * 10 > target.0 * 8, "{percent}%: {after} of {target}");
        }
    }

    #[derive(Debug, Default)]
    struct Events(Mutex<Vec<CompactionEventKind>>);

    impl CompactionObserver for Events {
        fn on_event(&self, event: &CompactionEvent) {
            self.0.lock().unwrap().push(event.kind.clone());
        }
    }

    #[tokio::test]
    async fn the_digest_needs_no_asking_and_uses_the_room_as_well() {
        let view = View::of(&monotonous());
        let budget = Budget::for_target(Tokens(view.tokens().0 / 4)).unwrap();
        let ladder = LadderStrategy::new();
        let at_once = compact(&Execution { budget: Some(&budget), ..request(&view, &ladder) }).unwrap();
        let asked = CompactionRequest::new("s", view, CompactionReason::Manual).with_budget(budget);
        let ids = |view: &View| view.items().map(|item| item.id.clone()).collect::<Vec<_>>();
        let bare = CompactionContext::default();
        for context in [bare.clone(), bare.with_backend(DigestBackend)] {
            let events = Arc::new(Events::default());
            let context = CompactionContext { observer: Some(events.clone()), ..context };
            let result = run(Arc::new(ladder.clone()), &asked, &context).await.unwrap();
            assert_eq!(ids(&result.transcript), ids(&at_once.compacted.view));
            assert_eq!((result.written_by, result.cost), (vec!["digest".to_owned()], None));
            assert_eq!(events.0.lock().unwrap().len(), 1, "only that it was taken");
        }
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
