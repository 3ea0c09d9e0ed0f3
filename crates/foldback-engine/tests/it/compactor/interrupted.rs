//! Cancellation, and what arrives while a summary is written.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{ThreadId, current};

use crate::compactor::*;

/// Three summaries are asked for, each of which takes a second.
fn slow(recorder: &Recorder) -> StrategyCompactor {
    StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(
            Scripted::new(Reply::Fail(BackendError::Server { status: 500, retry_after: None }))
                .taking(Duration::from_millis(700)),
        )
        .observer(recorder.clone())
        .build()
        .expect("it is complete")
}

/// T8, at every step of a compaction: while it is asked, while it waits to ask again.
#[tokio::test(start_paused = true)]
async fn a_compaction_cancelled_at_any_time_leaves_the_view_as_it_was() {
    let view = session(20);
    let shape = view.shape();
    let (mut cancelled, mut made) = (0, 0);
    for at in (0..12_000).step_by(250).map(Duration::from_millis) {
        let recorder = Recorder::default();
        let context = CompactionContext::default();
        let token = context.cancellation.clone();
        tokio::spawn(async move {
            tokio::time::sleep(at).await;
            token.cancel();
        });
        let started_at = tokio::time::Instant::now();
        match slow(&recorder).compact(request(&view), &context).await {
            Err(CompactionError::Cancelled) => {
                cancelled += 1;
                assert!(started_at.elapsed() <= at + Duration::from_millis(2), "it ends at once");
                assert_eq!(recorder.names().last(), Some(&"failed"));
            }
            Err(error) => panic!("{error}"),
            Ok(result) => {
                made += 1;
                assert_eq!(result.written_by, ["digest"], "a backend's failure is no failure");
            }
        }
        assert_eq!(view.shape(), shape);
        assert!(view.overlay().blocks().is_empty());
    }
    assert!(cancelled > 5 && made > 5, "{cancelled} were cancelled, {made} were made");
}

#[tokio::test(start_paused = true)]
async fn a_compaction_that_is_cancelled_before_it_begins_asks_nobody() {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)));
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(guarded(&backend))
        .build()
        .unwrap();
    let context = CompactionContext::default();
    context.cancellation.cancel();
    let refused = compactor.compact(request(&session(9)), &context).await;
    assert!(matches!(refused, Err(CompactionError::Cancelled)));
    assert!(backend.requests.lock().unwrap().is_empty());
}

/// On a runtime of one thread: what cancels it can only run if the digest is written elsewhere.
#[tokio::test]
async fn a_compaction_can_be_cancelled_while_its_digest_is_written() {
    let view = session(400);
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(DigestBackend)
        .build()
        .unwrap();
    let context = CompactionContext::default();
    let token = context.cancellation.clone();
    let cancelling = async { token.cancel() };
    let (result, ()) = tokio::join!(compactor.compact(request(&view), &context), cancelling);
    assert!(matches!(result, Err(CompactionError::Cancelled)), "{result:?}");
    assert_eq!(compact(&compactor, &view).await.written_by, ["digest"], "the next one is made");
}

/// Keeps the newest items, once the other end of its gate was dropped. On the thread of the test, which
/// could not drop it then, it does not wait.
#[derive(Debug)]
struct Held {
    gate: Mutex<Receiver<()>>,
    home: ThreadId,
}

impl Held {
    fn new() -> (Self, Sender<()>) {
        let (sender, gate) = channel();
        (Self { gate: Mutex::new(gate), home: current().id() }, sender)
    }
}

impl Strategy for Held {
    fn id(&self) -> &'static str {
        "held"
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        if current().id() != self.home {
            let closed = self.gate.lock().expect("nobody panics in here").recv();
            assert!(closed.is_err(), "nothing is ever sent");
        }
        KeepRecentStrategy::new(8).plan(draft, budget);
    }
}

#[tokio::test]
async fn a_compaction_can_be_cancelled_while_it_is_planned() {
    let view = session(40);
    let ((alone, gate), (step, other_gate)) = (Held::new(), Held::new());
    let builders = [
        (StrategyCompactor::builder().strategy(alone), gate),
        (StrategyCompactor::builder().strategy(CompactionPipeline::new().with_strategy(step)), other_gate),
    ];
    for (builder, gate) in builders {
        let compactor = builder.item_count_trigger(4).build().unwrap();
        let context = CompactionContext::default();
        let cancelling = async { context.cancellation.cancel() };
        let (result, ()) = tokio::join!(compactor.compact(request(&view), &context), cancelling);
        assert!(matches!(result, Err(CompactionError::Cancelled)), "{compactor:?}");
        assert!(view.overlay().blocks().is_empty());
        drop(gate);
        assert!(compact(&compactor, &view).await.replaced_items > 0, "the next one is made");
    }
}

#[tokio::test]
async fn a_compaction_that_is_dropped_is_said_to_have_failed() {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)).waiting());
    let recorder = Recorder::default();
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(guarded(&backend))
        .observer(recorder.clone())
        .build()
        .unwrap();
    let (view, context) = (session(9), CompactionContext::default());
    tokio::select! {
        result = compactor.compact(request(&view), &context) => panic!("nobody let it through: {result:?}"),
        asked = backend.asked.acquire() => asked.unwrap().forget(),
    }
    assert_eq!(recorder.names(), ["started", "asked", "failed"]);
    backend.gate.add_permits(1);
    compact(&compactor, &view).await;
    assert_eq!(recorder.names()[3..], ["started", "asked", "taken", "ended"]);
}

/// Items pushed while a summary is being written are all present afterwards, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_while_a_summary_is_written_is_all_there_afterwards() {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)).waiting());
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(guarded(&backend))
        .build()
        .unwrap();
    let base = session(20);
    let (asked, live) = (request(&base), Arc::new(Mutex::new(base.clone())));
    let pushing = tokio::spawn({
        let (backend, live) = (Arc::clone(&backend), Arc::clone(&live));
        async move {
            backend.asked.acquire().await.unwrap().forget();
            for number in 0..50 {
                live.lock().unwrap().push(Item::user(format!("new{number}"), "one more thing"));
                tokio::task::yield_now().await;
            }
            backend.gate.add_permits(1);
        }
    });
    let result = compactor.compact(asked, &CompactionContext::default()).await.unwrap();
    pushing.await.unwrap();
    assert_eq!(result.written_by, ["scripted"]);
    let current = live.lock().unwrap().clone();
    let rebased = rebase(&base, &result.transcript, &current).unwrap();
    let tail: Vec<String> =
        rebased.items().skip(result.transcript.len()).map(|item| item.id.to_string()).collect();
    assert_eq!(tail, (0..50).map(|number| format!("new{number}")).collect::<Vec<_>>());
    assert!(rebased.transcript().items().eq(current.transcript().items()));
    let structural =
        StrategyCompactor::builder().item_count_trigger(1).strategy(KeepRecentStrategy::new(9)).build();
    let other = compact(&structural.unwrap(), &current).await.transcript;
    let changed = rebase(&base, &result.transcript, &other).map(|view| view.len());
    assert_eq!(changed, Err(RebaseError::Conflict));
}

#[tokio::test]
async fn repairs_and_new_items_in_the_same_places_are_a_conflict() {
    let broken: Transcript = [
        Item::user("u0", "go"),
        Item::assistant("a0", vec![Part::call("c0", "read", &json!({}))]),
        Item::user("u1", "never mind"),
        Item::assistant("a1", vec![Part::text("all right")]),
        Item::user("u2", "go on"),
    ]
    .into_iter()
    .collect();
    let base = View::of(&broken);
    let compactor =
        StrategyCompactor::builder().item_count_trigger(1).strategy(KeepRecentStrategy::new(9)).build();
    let result = compact(&compactor.unwrap(), &base).await;
    assert!(result.transcript.transcript().len() > base.transcript().len(), "a result was made up");
    let rebased = rebase(&base, &result.transcript, &base).map(|view| view.len());
    assert_eq!(rebased, Ok(result.transcript.len()), "nothing was pushed");
    let mut current = base.clone();
    current.push(Item::user("u3", "one more thing"));
    let conflict = rebase(&base, &result.transcript, &current).map(|view| view.len());
    assert_eq!(conflict, Err(RebaseError::Repaired));
}
