//! What is read for a digest before it is asked for.

use std::thread::{ThreadId, current};

use crate::*;

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
        std::mem::take(&mut self.threads.lock().unwrap())
    }
}

impl TokenCounter for Witness {
    fn count(&self, text: &str) -> Tokens {
        self.threads.lock().unwrap().push(current().id());
        if current().id() != self.home {
            drop(self.gate.lock().unwrap());
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
        .unwrap();
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
