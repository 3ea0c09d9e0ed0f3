//! What a compactor costs a host: asking whether to compact, a whole compaction without a model,
//! ending one that waits for a model, and a turn while one is prepared ahead.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use foldback_core::{
    Budget, BudgetTrigger, CompactionReason, Item, LadderStrategy, Level, MutationPoint, Policy, Room,
    SessionId, SummarizeOlderStrategy, Tokens, Transcript, TriggerContext, View,
};
use foldback_engine::{
    BackendError, CompactionBackend, CompactionContext, CompactionRequest, Compactor, StrategyCompactor,
    StrategyCompactorBuilder, SummaryRequest, SummaryResult,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::conversation::conversation;
use crate::foldback_side;
use crate::measure::{Effort, Nanos, alone, median, owning_side, show, side};

const SEED: u64 = 0xE61E;
const SESSION: &str = "bench";

/// The window that whole compactions work for.
const WINDOW: Tokens = Tokens(200_000);

/// One call is too short for a clock.
const CALL_COUNT: usize = 1_000;

/// Items that are said around the level at which preparing begins.
const TURN_COUNT: usize = 400;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// `should_compact`, by call.
    Asking,
    /// A whole compaction: mend, plan, digest, check.
    Digest(Past),
    /// From cancelling a compaction that waits for its model until it has ended.
    Cancelling,
    /// The same while its digest is being written.
    CancellingDigest,
    /// Pushing an item and asking, without and with a compaction that is prepared meanwhile.
    Turn(Preparing),
}

/// Whether a digest has read the conversation before. In both cases the program has run and the items
/// have just been made, so that they lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// Cold, as after loading it: every run has a transcript of its own.
    Unread,
    /// Warm, as in a session that goes on: every run has the transcript that the run before read.
    Read,
}

impl Past {
    fn name(self) -> &'static str {
        match self {
            Self::Unread => "cold",
            Self::Read => "warm",
        }
    }
}

/// Whether a compaction is prepared ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preparing {
    Never,
    Ahead,
}

/// Runs the case and returns its line.
pub(crate) fn run(name: &str, work: Work, item_count: usize, effort: Effort) -> String {
    let items = foldback_side::items(&conversation("e", SEED, item_count));
    match work {
        Work::Asking => asking(name, &view(&items), effort),
        Work::Digest(past) => {
            let read = view(&items);
            let input = || if past == Past::Read { read.clone() } else { view(&items) };
            format!("{} items={}", digest(name, input, effort), past.name())
        }
        Work::Cancelling => {
            let samples: Vec<Nanos> = (0..effort.sample_count()).map(|_| cancelling(&view(&items))).collect();
            line(name, &samples)
        }
        Work::CancellingDigest => {
            let into_it = time_of_digest(view(&items)) / INTO_THE_DIGEST_DIVISOR;
            let samples = (0..effort.sample_count()).filter_map(|_| cancelling_digest(view(&items), into_it));
            format!("{} items={}", line(name, &samples.collect::<Vec<Nanos>>()), Past::Unread.name())
        }
        Work::Turn(preparing) => {
            let samples = turns(&items, preparing);
            format!("{} p99={}", line(name, &samples), show(percentile_99(&samples)))
        }
    }
}

fn view(items: &[Arc<Item>]) -> View {
    View::of(&items.iter().map(Arc::clone).collect::<Transcript>())
}

fn line(name: &str, samples: &[Nanos]) -> String {
    assert!(!samples.is_empty(), "{name}: nothing was measured");
    let (min, max) =
        samples.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), &nanos| (min.min(nanos), max.max(nanos)));
    let (middle, min, max) = (show(median(samples)), show(min), show(max));
    format!("{name} foldback={middle} peer=none ratio=none spread={min}..{max} allocs=none alloc_bytes=none")
}

/// What all but a hundredth of the samples stay within.
fn percentile_99(samples: &[Nanos]) -> Nanos {
    let mut samples = samples.to_vec();
    samples.sort_by(f64::total_cmp);
    samples[(samples.len() * 99 / 100).min(samples.len() - 1)]
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("threads can be started")
}

fn asking(name: &str, view: &View, effort: Effort) -> String {
    // Never reached, so that every call looks at everything.
    let room = Room::new(Tokens(view.tokens().0 * 2));
    let compactor = built(StrategyCompactor::builder().policy(&Policy::default(), room));
    let session = SessionId::from(SESSION);
    let ask = |view: &View| {
        for _ in 0..CALL_COUNT {
            let context = TriggerContext::of_view(view, MutationPoint::AfterToolResult);
            black_box(compactor.should_compact(&session, None, black_box(&context)));
        }
    };
    let measured = alone(effort, &mut side(view, ask));
    format!("{} per_call={:.0}ns", measured.line(name), measured.foldback / CALL_COUNT as f64)
}

fn digest(name: &str, view: impl FnMut() -> View, effort: Effort) -> String {
    let compactor = built(StrategyCompactor::builder().policy(&Policy::default(), Room::new(WINDOW)));
    let runtime = runtime();
    let compact = |view: View| {
        let request = CompactionRequest::new(SESSION, view, CompactionReason::TranscriptTooLong);
        let result = runtime.block_on(compactor.compact(request, &CompactionContext::default()));
        result.expect("what must stay fits").transcript
    };
    alone(effort, &mut owning_side(view, compact)).line(name)
}

fn built(builder: StrategyCompactorBuilder) -> StrategyCompactor {
    builder.build().expect("the compactor is complete")
}

/// Never answers.
#[derive(Debug)]
struct Silent {
    asked: Arc<Semaphore>,
}

#[async_trait]
impl CompactionBackend for Silent {
    async fn summarize(
        &self,
        _request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        self.asked.add_permits(1);
        std::future::pending().await
    }

    fn name(&self) -> &str {
        "silent"
    }
}

fn cancelling(view: &View) -> Nanos {
    let asked = Arc::new(Semaphore::new(0));
    let compactor = built(
        StrategyCompactor::builder()
            .item_count_trigger(1)
            .strategy(SummarizeOlderStrategy::new(8))
            .backend(Silent { asked: Arc::clone(&asked) }),
    );
    let context = CompactionContext::default();
    let token = context.cancellation.clone();
    let request = CompactionRequest::new(SESSION, view.clone(), CompactionReason::TranscriptTooLong);
    runtime().block_on(async move {
        let compacting = tokio::spawn(async move { compactor.compact(request, &context).await });
        let permit = asked.acquire().await.expect("the semaphore stays open");
        permit.forget();
        let cancelled_at = Instant::now();
        token.cancel();
        let outcome = compacting.await.expect("a compaction does not panic");
        assert!(outcome.is_err(), "it was cancelled");
        cancelled_at.elapsed().as_nanos() as Nanos
    })
}

/// Into a whole compaction by this part of its time, planning is over, and the digest is not.
const INTO_THE_DIGEST_DIVISOR: u32 = 2;

fn time_of_digest(view: View) -> Duration {
    let compactor = built(StrategyCompactor::builder().policy(&Policy::default(), Room::new(WINDOW)));
    let request = CompactionRequest::new(SESSION, view, CompactionReason::TranscriptTooLong);
    let started_at = Instant::now();
    let result = runtime().block_on(compactor.compact(request, &CompactionContext::default()));
    let took = started_at.elapsed();
    black_box(result.expect("what must stay fits"));
    took
}

/// Nothing where the compaction was over before it could be cancelled.
fn cancelling_digest(view: View, into_it: Duration) -> Option<Nanos> {
    let compactor = built(StrategyCompactor::builder().policy(&Policy::default(), Room::new(WINDOW)));
    let context = CompactionContext::default();
    let token = context.cancellation.clone();
    let request = CompactionRequest::new(SESSION, view, CompactionReason::TranscriptTooLong);
    runtime().block_on(async move {
        let compacting = tokio::spawn(async move { compactor.compact(request, &context).await });
        tokio::time::sleep(into_it).await;
        let cancelled_at = Instant::now();
        token.cancel();
        let outcome = compacting.await.expect("a compaction does not panic");
        let took = cancelled_at.elapsed().as_nanos() as Nanos;
        outcome.is_err().then_some(took)
    })
}

/// What pushing and asking takes, item by item, around the level at which preparing begins.
fn turns(items: &[Arc<Item>], preparing: Preparing) -> Vec<Nanos> {
    let (past, said) = items.split_at(items.len().saturating_sub(TURN_COUNT));
    let mut view = view(past);
    let window = Tokens(view.tokens().0 * 2);
    let budget = Budget::builder(window).build().expect("there is a window");
    let mut builder = StrategyCompactor::builder()
        .compaction_trigger(BudgetTrigger::new(&budget))
        .strategy(LadderStrategy::new())
        .budget(Budget::builder(window).target(Level::PercentOfUsable(10.0)).build().expect("10 is less"));
    if preparing == Preparing::Ahead {
        builder = builder.background(Level::PercentOfUsable(50.0));
    }
    let compactor = built(builder);
    let session = SessionId::from(SESSION);
    let runtime = runtime();
    let _entered = runtime.enter();
    let mut samples = Vec::with_capacity(said.len());
    for item in said {
        let started_at = Instant::now();
        view.push(Arc::clone(item));
        let context = TriggerContext::of_view(&view, MutationPoint::AfterToolResult);
        black_box(compactor.should_compact(&session, None, &context));
        samples.push(started_at.elapsed().as_nanos() as Nanos);
    }
    samples
}
