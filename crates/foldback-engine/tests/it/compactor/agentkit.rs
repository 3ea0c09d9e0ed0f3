//! Defects of agentkit-compaction, through the compactor; those of planning alone are tested in core,
//! those of the nested agent and of the loop with the loop.

use crate::compactor::*;

fn summarizing(backend: &Arc<Scripted>) -> StrategyCompactor {
    StrategyCompactor::builder()
        .item_count_trigger(12)
        .strategy(SummarizeOlderStrategy::new(4).preserve_kind(ItemKind::System))
        .backend(guarded(backend))
        .build()
        .expect("it is complete")
}

/// The nested summariser is sent only text, never tool calls or results.
#[tokio::test(start_paused = true)]
async fn a_backend_is_sent_calls_and_results() {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)));
    compact(&summarizing(&backend), &session(9)).await;
    let requests = backend.requests.lock().unwrap();
    let calls: usize = requests[0].items.iter().map(|item| item.calls().count()).sum();
    let results: usize = requests[0].items.iter().map(|item| item.results().count()).sum();
    assert!(calls >= 8 && calls == results, "{calls} calls, {results} results");
}

/// Cached tokens are not counted; the trigger never fires inside a tool loop nor on a rejected
/// request.
#[test]
fn cached_tokens_count_at_every_point() {
    let compactor = StrategyCompactor::builder()
        .context_window_trigger(Tokens(200_000), 90.0)
        .strategy(KeepRecentStrategy::new(8))
        .build()
        .unwrap();
    let reporting = |cached: u64| {
        let mut view = session(2);
        let usage = Usage { input_tokens: Tokens(5_000), cached_tokens: Tokens(cached), ..Usage::default() };
        let call = Part::call("c", "read", &json!({}));
        view.push(Item::assistant("a", vec![call]).with_usage(usage));
        view.push(Item::tool("t", ToolResult::text("c", "ok")));
        view
    };
    for point in [MutationPoint::AfterToolResult, MutationPoint::AfterTurnEnded] {
        assert!(asks(&compactor, &reporting(190_000), point).is_some(), "{point:?}");
        assert_eq!(asks(&compactor, &reporting(0), point), None);
    }
    let rejected = asks(&compactor, &reporting(0), MutationPoint::AfterRequestRejected);
    assert_eq!(rejected, Some(CompactionReason::OverflowRejected));
}

/// Summaries pile up: five rounds, five notes.
#[tokio::test(start_paused = true)]
async fn five_rounds_leave_one_summary() {
    let compactor = summarizing(&Arc::new(Scripted::new(Reply::Say(SUMMARY))));
    let mut view = session(5);
    for round in 0..5 {
        for turn in 0..5 {
            view.push(Item::user(format!("more{round}-{turn}"), "Read src/parser.rs once more. ".repeat(20)));
            view.push(Item::assistant(format!("read{round}-{turn}"), vec![Part::text("Done. ".repeat(60))]));
        }
        view = compact(&compactor, &view).await.transcript;
        assert_eq!(summaries(&view).len(), 1, "{}", view.shape());
    }
    assert_eq!(view.overlay().blocks().len(), 5);
}

/// Three strategies on 50K items spend 484 ms in deep clones.
#[tokio::test]
async fn what_is_kept_is_shared_and_never_copied() {
    let view = session(30);
    let pipeline = CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(KeepRecentStrategy::new(20));
    let compactor = StrategyCompactor::builder().item_count_trigger(1).strategy(pipeline).build().unwrap();
    let result = compact(&compactor, &view).await.transcript;
    for entry in result.iter().filter(|entry| entry.kind() != ItemKind::Assistant) {
        let recorded = view.transcript().get(entry.anchor()).unwrap().item();
        assert!(Arc::ptr_eq(entry.item(), recorded), "{} was copied", recorded.id);
    }
}
