//! What a policy does to tool results as they are recorded.

use crate::compactor::*;

/// A policy's compactor whose summaries a test writes.
fn codex(window: u64, backend: &Arc<Scripted>) -> StrategyCompactor {
    let policy = Policy::named("codex").expect("a preset");
    let builder = StrategyCompactor::builder().policy(&policy, Room::new(Tokens(window)));
    builder.backend(guarded(backend)).build().expect("the window is large enough")
}

fn scripted() -> Arc<Scripted> {
    Arc::new(Scripted::new(Reply::Say(SUMMARY)))
}

/// An output of so many lines, about 16 tokens each.
fn output(lines: usize) -> String {
    (0..lines).map(|line| format!("{line}: some line of what the tool has to say about it\n")).collect()
}

/// One call, and an output of so many lines.
fn push_round(view: &mut View, number: usize, lines: usize) {
    let id = |kind: &str| format!("{kind}-{number}");
    view.push(Item::assistant(id("call"), vec![Part::call(id("c"), "read", &json!({}))]));
    view.push(Item::tool(id("output"), ToolResult::text(id("c"), output(lines))));
}

async fn compact_for(
    compactor: &StrategyCompactor,
    view: &View,
    reason: CompactionReason,
) -> CompactionResult {
    let request = CompactionRequest::new(SESSION, view.clone(), reason);
    compactor.compact(request, &CompactionContext::default()).await.expect("it compacts")
}

/// What the compactor makes of a view when it is asked at a point, if anything.
async fn asked_at(compactor: &StrategyCompactor, view: &View, point: MutationPoint) -> Option<View> {
    let reason = asks(compactor, view, point)?;
    Some(compact_for(compactor, view, reason).await.transcript)
}

fn text_of(view: &View, position: usize) -> String {
    let item = view.get(position).expect("it is there").item();
    let (_, result) = item.results().next().expect("it is a result");
    result.content[0].as_text().expect("it is text").to_owned()
}

fn tokens_at(view: &View, position: usize) -> Tokens {
    view.get(position).expect("it is there").tokens().total
}

#[tokio::test]
async fn a_fresh_result_is_shortened_at_once_in_a_block_of_its_own_and_once_only() {
    let compactor = codex(1_000_000, &scripted());
    let mut view = session(3);
    push_round(&mut view, 0, 100);
    assert_eq!(asks(&compactor, &view, MutationPoint::AfterToolResult), None, "it is not long");
    push_round(&mut view, 1, 2_000);
    let reason = asks(&compactor, &view, MutationPoint::AfterToolResult);
    assert_eq!(reason, Some(CompactionReason::ToolOutput));
    let result = compact_for(&compactor, &view, CompactionReason::ToolOutput).await;
    let (position, whole) = (view.len() - 1, output(2_000));
    let after = result.transcript;
    let shortened = text_of(&after, position);
    let (head, tail) = shortened.split_once("[folded @").expect("a handle names the rest");
    assert!(
        whole.starts_with(head) && tail.ends_with("1999: some line of what the tool has to say about it\n")
    );
    assert!(tokens_at(&after, position) <= Tokens(10_010));
    let handle = Handle::parse(&format!("@{}", tail.split(':').next().unwrap())).expect("it is a handle");
    let original = view.get(position).unwrap().item().parts[0].clone();
    assert_eq!(after.recall(&handle).unwrap(), Recalled::Part(original));
    let [block] = after.overlay().blocks() else { panic!("{:?}", after.overlay()) };
    assert_eq!(block.cause, Some(CompactionReason::ToolOutput));
    assert_eq!(block.strategy.as_str(), "truncate-tool-outputs");
    assert!(block.edits.iter().all(|edit| matches!(edit, Edit::Rewrite(_))));
    let change = Change::between(&view, &after);
    assert_eq!(change.first_changed, Some(position), "nothing that a call has read");
    assert_eq!(change.prefix_tokens_kept, view.tokens_of(0..position));
    for point in [MutationPoint::AfterToolResult, MutationPoint::AfterTurnEnded] {
        assert_eq!(asks(&compactor, &after, point), None, "once");
    }
    let undone = View::through(after.transcript(), &Overlay::default()).unwrap();
    assert!(undone.items().eq(view.items()), "without the block it is what it was");
}

#[tokio::test]
async fn results_that_were_read_stay_as_they_are() {
    let compactor = codex(1_000_000, &scripted());
    let mut view = session(1);
    push_round(&mut view, 0, 2_000);
    view.push(Item::assistant("answer", vec![Part::text("I have read it.")]));
    assert_eq!(asks(&compactor, &view, MutationPoint::AfterTurnEnded), None);
    push_round(&mut view, 1, 2_000);
    let after = asked_at(&compactor, &view, MutationPoint::AfterToolResult).await.unwrap();
    assert_eq!(Change::between(&view, &after).first_changed, Some(view.len() - 1));
    assert_eq!(text_of(&after, view.len() - 4), output(2_000));
}

#[tokio::test]
async fn a_prompt_that_came_behind_a_result_does_not_save_it() {
    let compactor = codex(1_000_000, &scripted());
    let mut view = session(1);
    push_round(&mut view, 0, 2_000);
    view.push(Item::user("meanwhile", "And look at the lexer, too."));
    let after = asked_at(&compactor, &view, MutationPoint::AfterToolResult).await.unwrap();
    assert!(tokens_at(&after, view.len() - 2) <= Tokens(10_010));
}

#[tokio::test]
async fn the_trigger_is_asked_for_what_is_left_of_a_fresh_result() {
    let backend = scripted();
    let mut view = session(30);
    let read = view.tokens().0;
    push_round(&mut view, 0, 4_000);
    let whole = view.tokens().0;
    assert!(whole > 40_000, "{whole}");
    let roomy = codex(whole, &backend);
    let reason = asks(&roomy, &view, MutationPoint::AfterToolResult);
    assert_eq!(reason, Some(CompactionReason::ToolOutput), "shortened, it is far from the level");
    let tight = codex((read + 10_000) * 100 / 92, &backend);
    let reason = asks(&tight, &view, MutationPoint::AfterToolResult).unwrap();
    assert!(matches!(reason, CompactionReason::BudgetReached { .. }), "{reason:?}");
    let after = compact_for(&tight, &view, reason).await.transcript;
    let causes: Vec<_> = after.overlay().blocks().iter().map(|block| block.cause.clone().unwrap()).collect();
    assert_eq!(causes[0], CompactionReason::ToolOutput, "first what is fresh");
    assert!(matches!(causes[1], CompactionReason::BudgetReached { .. }), "{causes:?}");
    assert!(!after.overlay().blocks()[1].is_joined, "each is undone by itself");
    assert_eq!((causes.len(), summaries(&after).len()), (2, 1));
}

#[tokio::test]
async fn shortening_counts_as_no_compaction_that_was_in_vain() {
    let mut view = session(3);
    (0..4).for_each(|number| push_round(&mut view, number, 800));
    push_round(&mut view, 4, 950);
    let whole = view.tokens().0;
    let compactor = codex(whole * 102 / 90, &scripted());
    let mut after = asked_at(&compactor, &view, MutationPoint::AfterToolResult).await.unwrap();
    let saved = whole - after.tokens().0;
    assert!((1..whole / 20).contains(&saved), "{saved} of {whole}");
    assert_eq!(compactor.last_compaction(&SESSION.into()), None);
    after.push(Item::user("long", "word ".repeat(whole as usize / 20)));
    assert!(after.tokens().0 < whole * 106 / 100, "it has hardly grown");
    let reason = asks(&compactor, &after, MutationPoint::AfterTurnEnded);
    assert!(matches!(reason, Some(CompactionReason::BudgetReached { .. })), "{reason:?}");
}

#[tokio::test]
async fn a_host_says_what_is_done_when_results_are_recorded_and_hooks_may_forbid_it() {
    let shorten = TruncateToolOutputsStrategy::by_lines(5).unwrap().shorten_fresh();
    let recorder = Recorder::default();
    let builder = || {
        StrategyCompactor::builder()
            .item_count_trigger(1_000)
            .strategy(KeepRecentStrategy::new(8))
            .when_recorded(shorten.clone())
            .observer(recorder.clone())
    };
    let mut view = session(1);
    push_round(&mut view, 0, 50);
    let compactor = builder().build().unwrap();
    let after = asked_at(&compactor, &view, MutationPoint::AfterToolResult).await.unwrap();
    assert!(text_of(&after, view.len() - 1).lines().count() <= 5);
    assert_eq!(recorder.names(), ["started", "ended"]);
    assert_eq!(recorder.report().strategy, "truncate-tool-outputs");
    let vetoing = builder().before_compaction_start(|_| Err("not now".to_owned())).build().unwrap();
    let request = CompactionRequest::new(SESSION, view, CompactionReason::ToolOutput);
    let vetoed = vetoing.compact(request, &CompactionContext::default()).await;
    assert!(matches!(vetoed, Err(CompactionError::Vetoed { .. })));
}

#[tokio::test(start_paused = true)]
async fn what_is_prepared_in_the_background_outlives_results_that_are_shortened() {
    let policy = Policy::named("codex").unwrap();
    let backend = scripted();
    let mut view = session(3);
    push_round(&mut view, 0, 600);
    let window = view.tokens().0 * 3;
    let compactor = StrategyCompactor::builder()
        .policy(&policy, Room::new(Tokens(window)))
        .backend(guarded(&backend))
        .background(Level::Tokens(Tokens(window / 4)))
        .build()
        .unwrap();
    assert_eq!(asks(&compactor, &view, MutationPoint::AfterToolResult), None, "it is being prepared");
    tokio::time::sleep(Duration::from_millis(1)).await;
    push_round(&mut view, 1, 3_000);
    let reason = asks(&compactor, &view, MutationPoint::AfterToolResult);
    assert_eq!(reason, Some(CompactionReason::ToolOutput));
    view = compact_for(&compactor, &view, CompactionReason::ToolOutput).await.transcript;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let reason = CompactionReason::BudgetReached { tokens: view.tokens(), level: Tokens(1) };
    let done = compact_for(&compactor, &view, reason).await;
    assert_eq!(done.written_by, ["scripted"], "nobody waits for a model");
    assert_eq!(backend.requests.lock().unwrap().len(), 1, "what was prepared first is what is used");
    assert_eq!(done.transcript.overlay().blocks().len(), 2);
    assert_eq!(done.transcript.overlay().blocks()[0].cause, Some(CompactionReason::ToolOutput));
    assert!(check(done.transcript.items(), None).is_empty());
}
