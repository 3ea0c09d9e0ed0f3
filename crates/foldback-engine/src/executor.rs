//! The drivers of a [`Compaction`]: [`compact`] asks nobody, [`compact_asking`] asks a backend.

use std::sync::Arc;

use foldback_core::compaction::{Outcome, Refusal};
use foldback_core::{Compaction, Execution, Item, Metadata, Strategy, Timestamp, Tokens, Usage};

use crate::ask::{Asking, Filled, fill};
use crate::compaction::{CompactionContext, CompactionError, CompactionRequest, CompactionResult};
use crate::event::CompactionEventKind;
use crate::off_task::off_task;

/// Compacts with digests. A dry run is this with an outcome that is not written.
pub fn compact<S: Strategy>(execution: Execution<S>) -> Result<Outcome, CompactionError> {
    Ok(Compaction::begin(execution)?.digest()?)
}

/// What a compaction led to, and what asking for its summaries took.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What was done.
    pub outcome: Outcome,
    /// What was reported for the calls together.
    pub usage: Usage,
    /// What they cost in dollars, where prices are known.
    pub cost: Option<f64>,
    /// What backends and the choice of candidates have to say.
    pub metadata: Metadata,
}

impl Asked {
    /// Who wrote each summary.
    pub fn written_by(&self) -> impl Iterator<Item = &str> {
        let summaries = self.outcome.compactions().flat_map(|block| &block.summaries);
        summaries.filter_map(|items| items.first()).map(written_by)
    }
}

impl From<Asked> for CompactionResult {
    fn from(asked: Asked) -> Self {
        let replaced_items = asked.outcome.change().replaced_items;
        let larger_by = asked.outcome.view.tokens().saturating_sub(asked.outcome.before.tokens());
        let written_by = asked.written_by().map(ToOwned::to_owned).collect();
        let Asked { outcome, usage, cost, metadata } = asked;
        let mut result = Self::new(outcome.view, replaced_items);
        (result.written_by, result.usage, result.cost, result.metadata) = (written_by, usage, cost, metadata);
        result.larger_by = larger_by;
        result
    }
}

/// How much of a compaction a strategy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it: the ladder goes on where the strategy leaves too much.
    Whole,
    /// One step: whoever runs the steps sees to the size of what all of them leave.
    Step,
}

impl Extent {
    fn begin<S: Strategy>(self, execution: Execution<S>) -> Result<Compaction<S>, Refusal> {
        match self {
            Self::Whole => Compaction::begin(execution),
            Self::Step => Compaction::begin_step(execution),
        }
    }
}

/// Compacts with summaries by the backend of the context. Whatever a backend does, its failure is no
/// failure of the compaction (T8): where none of its answers can be taken, the outcome is that of
/// [`compact`]. Blocks are dated `now`. What is long and pure is done off the task, so that it can be
/// cancelled.
pub async fn compact_asking(
    strategy: Arc<dyn Strategy>,
    request: &CompactionRequest,
    context: &CompactionContext,
    now: Option<Timestamp>,
) -> Result<Asked, CompactionError> {
    run(strategy, request, context, (Extent::Whole, now)).await
}

/// The same for a strategy of any extent, dated by the clock of the context.
pub(crate) async fn run_pure(
    strategy: Arc<dyn Strategy>,
    request: &CompactionRequest,
    context: &CompactionContext,
    extent: Extent,
) -> Result<CompactionResult, CompactionError> {
    let now = Some(context.clock.now());
    Ok(run(strategy, request, context, (extent, now)).await?.into())
}

async fn run(
    strategy: Arc<dyn Strategy>,
    request: &CompactionRequest,
    context: &CompactionContext,
    (extent, now): (Extent, Option<Timestamp>),
) -> Result<Asked, CompactionError> {
    begin(strategy, request, context, (extent, now)).await?.end(request, context).await
}

/// Plans a compaction. Without anybody to ask it is over.
pub(crate) async fn begin(
    strategy: Arc<dyn Strategy>,
    request: &CompactionRequest,
    context: &CompactionContext,
    (extent, now): (Extent, Option<Timestamp>),
) -> Result<Begun<Arc<dyn Strategy>>, CompactionError> {
    context.go_on()?;
    let is_asking = is_asking(&strategy, context)?;
    let summaries_max = is_asking.then_some(context.limits.tokens_max);
    let execution = Execution { now, summaries_max, ..request.execution(strategy) };
    let begun = off_task(recorded(request), move || Begun::new(extent.begin(execution)?, is_asking));
    Ok(begun.await?)
}

/// The same for a step that nobody shares, which cannot leave the task: where a host, or a strategy of
/// its own, calls it without a compactor.
pub(crate) async fn run_on_task(
    strategy: &dyn Strategy,
    request: &CompactionRequest,
    context: &CompactionContext,
) -> Result<CompactionResult, CompactionError> {
    context.go_on()?;
    let is_asking = is_asking(strategy, context)?;
    let summaries_max = is_asking.then_some(context.limits.tokens_max);
    let now = Some(context.clock.now());
    let execution = Execution { now, summaries_max, ..request.execution(strategy) };
    let (outcome, filled) = match Begun::new(Extent::Step.begin(execution)?, is_asking)? {
        Begun::Over(outcome) => (*outcome, Filled::default()),
        Begun::Asking(compaction) => {
            let mut filled = ask(&compaction, request, context).await?;
            let plan = Arc::clone(compaction.plan());
            let outcome = compaction.answer(filled.answers())?;
            filled.name(plan.folds(), &outcome);
            (outcome, filled)
        }
    };
    context.go_on()?;
    Ok(told(outcome, filled, request, context).into())
}

/// How much there is to read for a request.
pub(crate) fn recorded(request: &CompactionRequest) -> Tokens {
    request.transcript.transcript().tokens()
}

/// Whether anybody is asked for summaries. Nobody is where there is no backend, or one that would answer with
/// the digest. An error where there is none and the strategy wants one: a host learns that before there is
/// something to fold.
pub(crate) fn is_asking(
    strategy: &dyn Strategy,
    context: &CompactionContext,
) -> Result<bool, CompactionError> {
    match &context.backend {
        Some(backend) => Ok(backend.reads_items()),
        None if strategy.wants_backend() => Err(CompactionError::MissingBackend(strategy.describe())),
        None => Ok(false),
    }
}

/// A compaction that is planned: over where there is nobody to ask or nothing to ask for.
#[derive(Debug)]
pub(crate) enum Begun<S> {
    Over(Box<Outcome>),
    Asking(Box<Compaction<S>>),
}

impl<S: Strategy> Begun<S> {
    pub(crate) fn new(compaction: Compaction<S>, is_asking: bool) -> Result<Self, Refusal> {
        match is_asking && compaction.asks().next().is_some() {
            true => Ok(Self::Asking(Box::new(compaction))),
            false => Ok(Self::Over(Box::new(compaction.digest()?))),
        }
    }

    /// Whether there is nothing to record.
    pub(crate) fn is_unchanged(&self) -> bool {
        matches!(self, Self::Over(outcome) if outcome.blocks.is_empty())
    }

    /// What the view will cost at most.
    pub(crate) fn tokens_after(&self) -> Tokens {
        match self {
            Self::Over(outcome) => outcome.view.tokens(),
            Self::Asking(compaction) => compaction.plan().tokens_after(),
        }
    }
}

impl Begun<Arc<dyn Strategy>> {
    /// Ends it, with what the backend writes where it is asked.
    pub(crate) async fn end(
        self,
        request: &CompactionRequest,
        context: &CompactionContext,
    ) -> Result<Asked, CompactionError> {
        let (outcome, filled) = match self {
            Self::Over(outcome) => (*outcome, Filled::default()),
            Self::Asking(compaction) => {
                let mut filled = ask(&compaction, request, context).await?;
                let (answers, plan) = (filled.answers(), Arc::clone(compaction.plan()));
                let outcome = off_task(recorded(request), move || compaction.answer(answers)).await?;
                filled.name(plan.folds(), &outcome);
                (outcome, filled)
            }
        };
        context.go_on()?;
        Ok(told(outcome, filled, request, context))
    }
}

async fn ask<S: Strategy>(
    compaction: &Compaction<S>,
    request: &CompactionRequest,
    context: &CompactionContext,
) -> Result<Filled, CompactionError> {
    context.go_on()?;
    let plan = compaction.plan();
    let Some(backend) = &context.backend else {
        return Err(CompactionError::MissingBackend(plan.strategy().to_owned()));
    };
    let emit = |kind| context.emit(request, kind);
    let asking = Asking {
        backend: &**backend,
        limits: &context.limits,
        guard: backend.guard(),
        cancellation: &context.cancellation,
        session_id: &request.session_id,
        turn_id: request.turn_id.as_ref(),
        reason: &request.reason,
        metadata: &request.metadata,
        emit: &emit,
        seed: request.transcript.tokens().0,
        now: context.clock.now(),
    };
    fill(plan, &asking).await
}

/// Says which summaries were taken.
fn told(outcome: Outcome, filled: Filled, request: &CompactionRequest, context: &CompactionContext) -> Asked {
    let meter = outcome.view.transcript().meter();
    for items in outcome.compactions().flat_map(|block| &block.summaries) {
        let Some(first) = items.first() else { continue };
        let tokens = items.iter().map(|item| meter.item(item).total).sum();
        let written_by = written_by(first).to_owned();
        context.emit(request, CompactionEventKind::SummaryTaken { written_by, tokens });
    }
    Asked { outcome, usage: filled.usage, cost: filled.cost, metadata: filled.metadata }
}

fn written_by(item: &Item) -> &str {
    item.summary.as_ref().map_or("", |origin| &origin.written_by)
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::ask::DigestBackend;
    use crate::event::{CompactionEvent, CompactionEventKind, CompactionObserver};
    use foldback_core::{
        Budget, CompactionReason, Dialect, DropReasoningStrategy, Item, ItemKind, LadderStrategy, Overlay,
        Part, Reasoning, StrategyPipeline, Transcript, View, check,
    };
    use foldback_testkit::recipe;

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
            match compact(Execution::new(view, &ladder).with_budget(budget).with_dialect(dialect)) {
                Ok(outcome) => {
                    prop_assert_eq!(check(outcome.view.items(), Some(dialect)), []);
                    prop_assert!(outcome.view.tokens() <= budget.target());
                    let recorded = outcome.view.transcript();
                    prop_assert!(recorded.items().zip(transcript.items()).all(|(now, then)| now == then));
                    prop_assert!(recorded.len() >= transcript.len());
                }
                Err(CompactionError::Refused(Refusal::BudgetInfeasible(error))) => {
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
        let execution = Execution::new(view, LadderStrategy::new()).with_budget(budget);
        let after = compact(execution.with_dialect(Dialect::Anthropic)).unwrap().view;
        let is_there = |id: &str| after.items().any(|item| item.id.as_str() == id);
        assert!(is_there("thinking") && is_there("answer"), "{}", after.shape());
        assert!(after.tokens() <= budget.target());
    }

    /// A past of which a digest has next to nothing to tell.
    fn monotonous() -> Transcript {
        let said = |n: usize| match n % 2 {
            0 => Item::user(format!("u{n}"), format!("and what now, after {n}? ")),
            _ => Item::assistant(
                format!("a{n}"),
                vec![Part::text(format!("it is {n}, what it is; ").repeat(20))],
            ),
        };
        (0..400).map(said).collect()
    }

    #[test]
    fn what_a_digest_leaves_of_the_target_stays_as_it_was() {
        let view = View::of(&monotonous());
        let ladder = LadderStrategy::new();
        for percent in [15, 25, 50] {
            let budget = Budget::for_target(Tokens(view.tokens().0 * percent / 100)).unwrap();
            let execution = Execution::new(view.clone(), &ladder).with_budget(budget);
            let after = compact(execution).unwrap().view.tokens();
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
        let at_once = compact(Execution::new(view.clone(), &ladder).with_budget(budget)).unwrap();
        let asked = CompactionRequest::new("s", view, CompactionReason::Manual).with_budget(budget);
        let ids = |view: &View| view.items().map(|item| item.id.clone()).collect::<Vec<_>>();
        let bare = CompactionContext::default();
        for context in [bare.clone(), bare.with_backend(DigestBackend)] {
            let events = Arc::new(Events::default());
            let context = CompactionContext { observer: Some(events.clone()), ..context };
            let result = compact_asking(Arc::new(ladder.clone()), &asked, &context, None).await.unwrap();
            assert_eq!(ids(&result.outcome.view), ids(&at_once.view));
            assert_eq!((result.written_by().collect(), result.cost), (vec!["digest"], None));
            assert_eq!(events.0.lock().unwrap().len(), 1, "only that it was taken");
        }
    }

    #[test]
    fn a_ladder_without_a_budget_is_refused() {
        let view = View::of(&Transcript::default());
        let ladder = LadderStrategy::new();
        let refused = compact(Execution::new(view.clone(), &ladder));
        assert!(matches!(refused, Err(CompactionError::Refused(Refusal::BudgetRequired { .. }))));
        let structural = StrategyPipeline::new().with_strategy(DropReasoningStrategy::new());
        let outcome = compact(Execution::new(view, structural)).unwrap();
        assert!(outcome.is_unchanged());
        assert_eq!(outcome.view.overlay(), &Overlay::default());
    }
}
