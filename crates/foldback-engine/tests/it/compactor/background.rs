//! Preparing ahead.

use crate::compactor::*;

/// A ladder that begins to prepare at half of what `view` costs when its window is full.
fn ahead(full: &View, backend: &Arc<Scripted>, recorder: &Recorder) -> StrategyCompactor {
    let budget = budget_at(full, 95);
    StrategyCompactor::builder()
        .compaction_trigger(BudgetTrigger::new(&budget))
        .strategy(LadderStrategy::new())
        .budget(
            Budget::builder(budget.window())
                .target(Level::PercentOfUsable(20.0))
                .build()
                .expect("it is complete"),
        )
        .backend(guarded(backend))
        .observer(recorder.clone())
        .background(Level::PercentOfUsable(50.0))
        .build()
        .expect("it is complete")
}

/// The view as it was after so many items, and pushes that bring it to where it is.
fn grown_from(full: &View, item_count: usize) -> (View, Vec<Arc<Item>>) {
    let early: Transcript = full.items().take(item_count).cloned().collect();
    (View::of(&early), full.items().skip(item_count).cloned().collect())
}

/// Returns when nothing is being prepared any more: what prepares holds the backend beside the test and
/// the compactor, and lets go of it when it is done.
async fn ready(backend: &Arc<Scripted>) {
    while Arc::strong_count(backend) > 2 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_prepared_is_swapped_in_with_everything_said_since() {
    let full = session(60);
    let (mut view, later) = grown_from(&full, 161);
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)).waiting());
    let compactor = ahead(&full, &backend, &Recorder::default());
    let point = MutationPoint::AfterTurnEnded;
    assert_eq!(asks(&compactor, &view, point), None);
    backend.asked.acquire().await.unwrap().forget();
    for item in &later {
        view.push(Arc::clone(item));
        if view.len() < full.len() {
            asks(&compactor, &view, MutationPoint::AfterToolResult);
        }
    }
    assert_eq!(backend.requests.lock().unwrap().len(), 1, "one is prepared, not one at each point");
    backend.gate.add_permits(1);
    ready(&backend).await;
    assert!(asks(&compactor, &view, point).is_some());
    let result = compact(&compactor, &view).await;
    assert_eq!(backend.requests.lock().unwrap().len(), 1, "nobody was asked again");
    assert_eq!(result.written_by, ["scripted"]);
    let tail: Vec<&Arc<Item>> = result.transcript.items().rev().take(later.len()).collect();
    assert!(tail.into_iter().rev().eq(&later));
    assert!(result.transcript.tokens() < view.tokens());
    assert_eq!(result.transcript.transcript().len(), view.transcript().len());
}

#[tokio::test(start_paused = true)]
async fn what_was_prepared_for_another_overlay_is_thrown_away() {
    let full = session(60);
    let (mut view, later) = grown_from(&full, 161);
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)));
    let compactor = ahead(&full, &backend, &Recorder::default());
    asks(&compactor, &view, MutationPoint::AfterTurnEnded);
    backend.asked.acquire().await.unwrap().forget();
    let other =
        StrategyCompactor::builder().item_count_trigger(1).strategy(DropReasoningStrategy::new()).build();
    view = compact(&other.unwrap(), &view).await.transcript;
    later.iter().for_each(|item| view.push(Arc::clone(item)));
    let result = compact(&compactor, &view).await;
    let blocks = result.transcript.overlay().blocks();
    assert_eq!(blocks.len(), 2);
    assert!(Arc::ptr_eq(&blocks[0], &view.overlay().blocks()[0]));
    assert_eq!(result.written_by, ["digest"], "it was written anew, and nobody waited");
    assert_eq!(backend.requests.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ready_when_it_is_needed_is_not_waited_for_and_the_digest_answers() {
    let full = session(60);
    let (view, _) = grown_from(&full, 161);
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)).waiting());
    let compactor = ahead(&full, &backend, &Recorder::default());
    asks(&compactor, &view, MutationPoint::AfterTurnEnded);
    backend.asked.acquire().await.unwrap().forget();
    let started_at = tokio::time::Instant::now();
    let result = compact(&compactor, &full_on(&view, &full)).await;
    assert_eq!(started_at.elapsed(), Duration::ZERO, "nobody waits for a model");
    assert_eq!(result.written_by, ["digest"]);
    assert_eq!(backend.requests.lock().unwrap().len(), 1, "it is not asked again while somebody waits");
}

#[tokio::test(start_paused = true)]
async fn where_nothing_was_prepared_the_digest_answers_at_once() {
    let full = session(60);
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)).waiting());
    let compactor = ahead(&full, &backend, &Recorder::default());
    let result = compact(&compactor, &full).await;
    assert_eq!(result.written_by, ["digest"]);
    assert!(backend.requests.lock().unwrap().is_empty());
}

/// `full`, grown from `view`: the same items, the same record.
fn full_on(view: &View, full: &View) -> View {
    let mut grown = view.clone();
    full.items().skip(view.len()).for_each(|item| grown.push(Arc::clone(item)));
    grown
}

/// Cancels when a summary is there.
#[derive(Debug)]
struct Cancelling(CancellationToken);

impl CompactionObserver for Cancelling {
    fn on_event(&self, event: &CompactionEvent) {
        if let CompactionEventKind::SummaryTaken { .. } = event.kind {
            self.0.cancel();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_compaction_that_was_prepared_for_can_be_cancelled_and_the_task_ends_with_the_compactor() {
    let full = session(60);
    let (view, _) = grown_from(&full, 161);
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)).waiting());
    let compactor = ahead(&full, &backend, &Recorder::default());
    asks(&compactor, &view, MutationPoint::AfterTurnEnded);
    backend.asked.acquire().await.unwrap().forget();
    let mut context = CompactionContext::default();
    context.observer = Some(Arc::new(Cancelling(context.cancellation.clone())));
    let refused = compactor.compact(request(&full_on(&view, &full)), &context).await;
    assert!(matches!(refused, Err(CompactionError::Cancelled)));
    asks(&compactor, &view, MutationPoint::AfterTurnEnded);
    backend.asked.acquire().await.unwrap().forget();
    drop(compactor);
    // The task holds the backend; it is given back when the task has ended.
    while Arc::strong_count(&backend) > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_manual_compaction_does_not_take_what_was_prepared_for_something_else() {
    let full = session(60);
    let (view, _) = grown_from(&full, 161);
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)));
    let compactor = ahead(&full, &backend, &Recorder::default());
    asks(&compactor, &view, MutationPoint::AfterTurnEnded);
    backend.asked.acquire().await.unwrap().forget();
    let manual = CompactionRequest::new(SESSION, view.clone(), CompactionReason::Manual);
    let result = compactor.compact(manual.with_focus("tests"), &CompactionContext::default()).await.unwrap();
    assert_eq!(result.written_by, ["scripted"]);
    let requests = backend.requests.lock().unwrap();
    assert_eq!(requests.last().unwrap().focus.as_deref(), Some("tests"));
}
