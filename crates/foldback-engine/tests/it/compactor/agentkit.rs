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

/// An empty summary is accepted and replaces history; a backend error aborts the turn.
#[tokio::test(start_paused = true)]
async fn an_empty_summary_and_a_failing_backend_are_replaced_by_the_digest() {
    let server = BackendError::Server { status: 529, retry_after: None };
    let unauthorized = BackendError::Unauthorized { status: 401 };
    for reply in [Reply::Say(""), Reply::Say(" \n"), Reply::Fail(server), Reply::Fail(unauthorized)] {
        let result = compact(&summarizing(&Arc::new(Scripted::new(reply.clone()))), &session(9)).await;
        assert_eq!(result.written_by, ["digest"], "{reply:?}");
        let [summary] = summaries(&result.transcript)[..] else { panic!("{}", result.transcript.shape()) };
        assert!(format!("{:?}", summary.parts).contains("src/parser.rs"), "it tells what was done");
    }
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

/// KeepRecent(0) swallows the new prompt.
#[tokio::test]
async fn keeping_nothing_keeps_the_newest_prompt() {
    let compactor =
        StrategyCompactor::builder().item_count_trigger(1).strategy(KeepRecentStrategy::new(0)).build();
    let mut view = session(3);
    view.push(Item::user("newest", "and now the tests"));
    let result = compact(&compactor.unwrap(), &view).await;
    assert_eq!(result.transcript.items().next_back().unwrap().id.as_str(), "newest");
}

/// Dropping all failures lets the model repeat the newest one.
#[tokio::test]
async fn the_newest_failure_can_be_kept_while_older_ones_go() {
    let mut view = session(1);
    for number in 0..3 {
        let call = format!("f{number}");
        view.push(Item::assistant(format!("x{number}"), vec![Part::call(call.clone(), "edit", &json!({}))]));
        let mut failed = ToolResult::text(call, "no such line");
        failed.is_error = true;
        view.push(Item::tool(format!("y{number}"), failed));
    }
    view.push(Item::user("newest", "go on"));
    let strategy = DropFailedToolResultsStrategy::new().keep_newest_failure();
    let compactor = StrategyCompactor::builder().item_count_trigger(1).strategy(strategy).build().unwrap();
    let result = compact(&compactor, &view).await.transcript;
    let failed: Vec<&str> = result
        .items()
        .filter(|item| item.results().any(|(_, result)| result.is_error))
        .map(|item| item.id.as_str())
        .collect();
    assert_eq!(failed, ["y2"]);
}

/// The reasoning of the tool round in flight is dropped too, which providers reject.
#[tokio::test]
async fn the_reasoning_of_the_round_in_flight_stays() {
    let mut view = session(3);
    view.push(Item::user("newest", "read it"));
    let parts = vec![Part::reasoning("this matters"), Part::call("c", "read", &json!({}))];
    view.push(Item::assistant("in-flight", parts.clone()));
    view.push(Item::tool("result", ToolResult::text("c", "text")));
    let compactor =
        StrategyCompactor::builder().item_count_trigger(1).strategy(DropReasoningStrategy::new()).build();
    let result = compact(&compactor.unwrap(), &view).await.transcript;
    assert_eq!(result.items().find(|item| item.id.as_str() == "in-flight").unwrap().parts, parts);
    assert_eq!(result.with_reasoning().count(), 1, "older reasoning is gone");
}

/// One 2 MB result survives "keep 8 items".
#[tokio::test]
async fn one_result_of_two_megabytes_is_brought_to_the_budget() {
    let mut view = session(3);
    view.push(Item::assistant("huge", vec![Part::call("h", "read", &json!({"path": "log"}))]));
    view.push(Item::tool("log", ToolResult::text("h", "0123456789abcdef ".repeat(2 * 1024 * 1024 / 17))));
    view.push(Item::assistant("end", vec![Part::text("a long log")]));
    let budget = Budget::for_target(Tokens(4_000)).unwrap();
    let pipeline = CompactionPipeline::new()
        .with_strategy(KeepRecentStrategy::new(8))
        .with_strategy(LadderStrategy::new());
    let compactor =
        StrategyCompactor::builder().item_count_trigger(1).strategy(pipeline).budget(budget).build();
    let result = compact(&compactor.unwrap(), &view).await.transcript;
    assert!(result.tokens() <= Tokens(4_000), "{}", result.shape());
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
