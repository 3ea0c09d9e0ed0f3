//! Backends that several compactors share, and what is read for a digest before it is asked for.

use std::thread::{ThreadId, current};

use crate::compactor::*;

#[tokio::test]
async fn a_backend_that_failed_in_one_conversation_is_not_asked_in_the_next() {
    let dead = Arc::new(Scripted::new(Reply::Fail(BackendError::Unauthorized { status: 401 })));
    let backend = guarded(&dead);
    let failures_max = GuardLimits::default().failures_max as usize;
    for conversation in 0..2 * failures_max {
        let compactor = StrategyCompactor::builder()
            .item_count_trigger(4)
            .strategy(SummarizeOlderStrategy::new(4))
            .backend(backend.clone())
            .build()
            .unwrap();
        assert_eq!(compact(&compactor, &session(9)).await.written_by, ["digest"]);
        let asked_count = dead.requests.lock().unwrap().len();
        assert_eq!(asked_count, (conversation + 1).min(failures_max));
    }
}

#[tokio::test]
async fn a_backend_given_with_the_request_has_a_guard_of_its_own() {
    let limits = GuardLimits { failures_max: 1, ..GuardLimits::default() };
    let dead = Scripted::new(Reply::Fail(BackendError::Unauthorized { status: 401 }));
    let dead = GuardedBackend::from(dead).guarded_by(BackendGuard::new(limits));
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(dead)
        .build()
        .unwrap();
    let view = session(9);
    assert_eq!(compact(&compactor, &view).await.written_by, ["digest"]);
    let other = CompactionContext::default().with_backend(Scripted::new(Reply::Say(SUMMARY)));
    let result = compactor.compact(request(&view), &other).await.unwrap();
    assert_eq!(result.written_by, ["scripted"], "it has not failed");
}

/// Estimates, and notes on which thread it is asked. Where a gate is closed, other threads than the
/// test's wait at it.
#[derive(Debug)]
struct Witness {
    threads: Mutex<Vec<ThreadId>>,
    gate: Mutex<()>,
    home: ThreadId,
}

impl Witness {
    fn new() -> Arc<Self> {
        Arc::new(Self { threads: Mutex::default(), gate: Mutex::default(), home: current().id() })
    }

    /// Who has counted since it was last asked.
    fn taken(&self) -> Vec<ThreadId> {
        std::mem::take(&mut self.threads.lock().expect("nobody panics in here"))
    }
}

impl TokenCounter for Witness {
    fn count(&self, text: &str) -> Tokens {
        self.threads.lock().expect("nobody panics in here").push(current().id());
        if current().id() != self.home {
            drop(self.gate.lock().expect("nobody panics in here"));
        }
        EstimatingCounter.count(text)
    }

    fn name(&self) -> &str {
        "witness"
    }

    fn precision(&self) -> Precision {
        EstimatingCounter.precision()
    }
}

/// A long conversation, counted by the witness, and a compactor that is past half of its level.
fn nearly_full(witness: &Arc<Witness>) -> (View, StrategyCompactor) {
    let mut transcript = Transcript::new(Arc::clone(witness) as Arc<dyn TokenCounter>);
    session(400).items().for_each(|item| transcript.push(Arc::clone(item)));
    let view = View::of(&transcript);
    let budget = budget_at(&view, 70);
    let compactor = StrategyCompactor::builder()
        .compaction_trigger(BudgetTrigger::new(&budget))
        .strategy(LadderStrategy::new())
        .budget(budget)
        .build()
        .expect("it is complete");
    witness.taken();
    (view, compactor)
}

#[test]
fn without_a_runtime_nothing_is_read_ahead() {
    let witness = Witness::new();
    let (view, compactor) = nearly_full(&witness);
    assert_eq!(asks(&compactor, &view, MutationPoint::AfterToolResult), None);
    assert_eq!(witness.taken(), []);
}

#[tokio::test]
async fn what_is_read_ahead_is_read_by_one_other_thread_and_never_by_whoever_asks() {
    let witness = Witness::new();
    let (mut view, compactor) = nearly_full(&witness);
    let holders = Arc::strong_count(&witness);
    let closed = witness.gate.lock().unwrap();
    for number in 0..100 {
        assert_eq!(asks(&compactor, &view, MutationPoint::AfterToolResult), None);
        let other = SessionId::from(format!("other {number}"));
        let context = TriggerContext::new(&view, MutationPoint::AfterToolResult);
        assert_eq!(compactor.should_compact(&other, None, &view, &context), None);
    }
    while witness.threads.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let readers = witness.taken();
    assert!(readers.len() == 1 && readers[0] != witness.home, "{readers:?}");
    view.push(Item::user("more", "go on"));
    witness.taken();
    drop(closed);
    // Who reads holds a clone of what it reads.
    while Arc::strong_count(&witness) > holders {
        std::thread::yield_now();
    }
    assert!(!witness.taken().contains(&witness.home));
    view.transcript().read_ahead(0);
    view.transcript().read_ahead(view.transcript().shared_len() - 1);
    assert_eq!(witness.taken(), [], "what was found is there for the view that went on growing");
}
