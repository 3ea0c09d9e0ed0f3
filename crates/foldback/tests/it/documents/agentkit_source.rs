//! agentkit's older source: triggers, strategies, pipelines, requests and results, with its four tests in meaning.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use foldback::engine::{
    BackendError, CompactionBackend, CompactionContext, CompactionError, CompactionPipeline,
    CompactionRequest, CompactionResult, CompactionStrategy, CompactionTrigger, Compactor, StrategyCompactor,
    SummaryRequest, SummaryResult,
};
use foldback::{
    CompactionReason, DropFailedToolResultsStrategy, DropReasoningStrategy, Item, ItemCountTrigger, ItemKind,
    KeepRecentStrategy, Metadata, MutationPoint, Part, SessionId, Strategy, SummarizeOlderStrategy,
    ToolResult, Transcript, TriggerContext, TurnId, View,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Counting, ids, says, thinks};

fn three_questions() -> Vec<Item> {
    ["where", "when", "why"].map(|word| Item::user(word, format!("{word} does it fail?"))).into()
}

/// Two thoughts, a failure that no call asked for, two questions.
fn mixed() -> Vec<Item> {
    vec![
        Item::user("ask", "look at the scanner"),
        Item::assistant("thought", vec![Part::reasoning("hm"), Part::text("it scans")]),
        Item::tool("failed", ToolResult::error("gone", "no such file")),
        Item::user("more", "and the parser?"),
        Item::user("most", "and the printer?"),
    ]
}

fn noted(key: &str, value: &str) -> Metadata {
    [(key.to_owned(), json!(value))].into_iter().collect()
}

fn manual(items: Vec<Item>) -> CompactionRequest {
    CompactionRequest::new("s", items, CompactionReason::Manual)
}

#[test]
fn an_item_count_trigger_fires_above_its_limit() {
    let fires = |trigger: &dyn CompactionTrigger, items: Vec<Item>| {
        let transcript: Transcript = items.into_iter().collect();
        let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded);
        trigger.should_compact(&SessionId::new("s"), None, &context)
    };
    let trigger = ItemCountTrigger::new(2);
    assert_eq!(trigger.max_items, 2);
    assert_eq!(trigger, ItemCountTrigger { max_items: 2 });
    assert_eq!(fires(&trigger, three_questions()), Some(CompactionReason::TranscriptTooLong));
    assert_eq!(fires(&ItemCountTrigger::new(3), three_questions()), None);
    assert_eq!(fires(&ItemCountTrigger::new(100), Vec::new()), None);
    let written = serde_json::to_value(trigger).unwrap();
    assert_eq!(written, json!({"max_items": 2}));
    assert_eq!(serde_json::from_value::<ItemCountTrigger>(written).unwrap(), trigger);
}

#[tokio::test]
async fn a_pipeline_runs_its_strategies_in_order() {
    let pipeline = CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(
            KeepRecentStrategy::new(2).preserve_kind(ItemKind::System).preserve_kind(ItemKind::Context),
        );
    let request = CompactionRequest::new("s", mixed(), CompactionReason::TranscriptTooLong);
    let result = pipeline.compact(request, &CompactionContext::default()).await.unwrap();
    assert_eq!(result.transcript.len(), 2);
    assert_eq!(ids(result.transcript.items()), ["more", "most"]);
    assert!(result.replaced_items >= 2);
    assert!(result.transcript.items().all(|item| !thinks(item)));
}

#[tokio::test]
async fn a_failure_that_no_call_asked_for_goes_and_is_counted_once() {
    let strategy = DropFailedToolResultsStrategy::new();
    let result = strategy.compact(manual(mixed()), &CompactionContext::default()).await.unwrap();
    assert_eq!(ids(result.transcript.items()), ["ask", "thought", "more", "most"]);
    assert_eq!(result.replaced_items, 1);
}

#[tokio::test]
async fn what_a_repair_changes_is_counted_and_what_stands_behind_it_is_not() {
    let mut items = three_questions();
    items.insert(1, Item::tool("found", ToolResult::text("gone", "three files")));
    let result =
        DropReasoningStrategy::new().compact(manual(items), &CompactionContext::default()).await.unwrap();
    let sent = result.transcript.items().filter(|item| !item.parts.is_empty());
    let kinds: Vec<ItemKind> = sent.map(|item| item.kind).collect();
    assert_eq!(kinds, [ItemKind::User, ItemKind::Context, ItemKind::User, ItemKind::User]);
    assert_eq!(result.replaced_items, 1, "the result that no call asked for has become context");
}

#[tokio::test]
async fn summarising_older_items_asks_the_backend() {
    let backend = Counting::default();
    let context = CompactionContext::default().with_backend(backend.clone());
    let request = CompactionRequest::new("s", three_questions(), CompactionReason::TranscriptTooLong);
    let result = SummarizeOlderStrategy::new(1).compact(request, &context).await.unwrap();
    assert_eq!(result.replaced_items, 2);
    assert_eq!(result.transcript.len(), 2);
    assert_eq!(says(result.transcript.get(0).unwrap().item()), "a summary of 2 items");
    let asked = backend.asked.lock().unwrap();
    assert_eq!(asked[0].session_id, SessionId::new("s"));
    assert_eq!(asked[0].reason, CompactionReason::TranscriptTooLong);
    assert_eq!(ids(&asked[0].items), ["where", "when"]);
}

#[tokio::test]
async fn a_pipeline_stops_when_it_is_cancelled() {
    let context = CompactionContext::default();
    context.cancellation.cancel();
    let pipeline = CompactionPipeline::new().with_strategy(DropReasoningStrategy::new());
    let error = pipeline.compact(manual(three_questions()), &context).await.unwrap_err();
    assert!(matches!(error, CompactionError::Cancelled));
}

#[tokio::test]
async fn summarising_without_a_backend_is_an_error_that_says_so() {
    let strategy = SummarizeOlderStrategy::new(1);
    let refused = strategy.compact(manual(three_questions()), &CompactionContext::default()).await;
    let Err(CompactionError::MissingBackend(who)) = refused else { panic!("{refused:?}") };
    assert!(who.contains("summarize-older"), "{who}");
    // It is said before there is anything to write.
    let short = SummarizeOlderStrategy::new(3);
    let refused = short.compact(manual(three_questions()), &CompactionContext::default()).await;
    assert!(matches!(refused, Err(CompactionError::MissingBackend(_))));
    let context = CompactionContext::default().with_backend(Counting::default());
    let result = short.compact(manual(three_questions()), &context).await.unwrap();
    assert_eq!((result.transcript.len(), result.replaced_items), (3, 0));
}

#[tokio::test]
async fn preserved_kinds_stay_beside_a_summary_which_stands_where_the_first_item_stood() {
    let mut items = vec![Item::text("rules", ItemKind::System, "be exact")];
    items.extend(three_questions());
    items.insert(2, Item::text("style", ItemKind::Context, "tabs, no spaces"));
    let strategy =
        SummarizeOlderStrategy::new(1).preserve_kind(ItemKind::System).preserve_kind(ItemKind::Context);
    let context = CompactionContext::default().with_backend(Counting::default());
    let result = strategy.compact(manual(items), &context).await.unwrap();
    let kinds: Vec<ItemKind> = result.transcript.items().map(|item| item.kind).collect();
    assert_eq!(kinds, [ItemKind::System, ItemKind::Context, ItemKind::Context, ItemKind::User]);
    assert!(result.transcript.get(1).unwrap().item().summary.is_some());
}

/// Writes an item for what was asked and one for what was found.
struct InTwo;

#[async_trait]
impl CompactionBackend for InTwo {
    async fn summarize(
        &self,
        _request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        let items = ["asked: where and when", "found: nothing yet"];
        let items = items.map(|text| Item::text("part", ItemKind::Context, text)).into();
        Ok(SummaryResult::new(items).with_metadata(noted("model", "mine")))
    }
}

#[tokio::test]
async fn several_summary_items_stay_several() {
    let context = CompactionContext::default().with_backend(InTwo);
    let strategy = SummarizeOlderStrategy::new(1);
    let result = strategy.compact(manual(three_questions()), &context).await.unwrap();
    let said: Vec<String> = result.transcript.items().map(|item| says(item)).collect();
    assert_eq!(said, ["asked: where and when", "found: nothing yet", "why does it fail?"]);
    assert_eq!(result.metadata["summaries"][0]["backend"]["model"], "mine");
}

/// Says no.
struct Refusing;

#[async_trait]
impl CompactionBackend for Refusing {
    async fn summarize(
        &self,
        _request: SummaryRequest,
        cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        if cancellation.is_cancelled() {
            Err(BackendError::Cancelled)
        } else {
            Err(BackendError::Failed("closed".into()))
        }
    }
}

#[tokio::test]
async fn where_a_backend_says_no_the_digest_answers() {
    let context = CompactionContext::default().with_backend(Refusing);
    let strategy = SummarizeOlderStrategy::new(1);
    let long =
        (0..9).map(|n| Item::user(n.to_string(), format!("part {n} fails in the scanner. ").repeat(40)));
    let result = strategy.compact(manual(long.collect()), &context).await.unwrap();
    assert_eq!(result.written_by, ["digest"]);
    assert_eq!((result.replaced_items, result.transcript.len()), (8, 2));
    // A digest of so little would be larger than what it stands for: everything stays.
    let result = strategy.compact(manual(three_questions()), &context).await.unwrap();
    assert_eq!((result.replaced_items, result.transcript.len()), (0, 3));
}

#[test]
fn requests_and_results_are_built_as_they_were() {
    let request = CompactionRequest::new("s", three_questions(), CompactionReason::Manual);
    assert_eq!((request.session_id.as_str(), &request.turn_id), ("s", &None));
    assert_eq!((request.transcript.len(), &request.reason), (3, &CompactionReason::Manual));
    assert!(request.metadata.is_empty());
    let request = request.with_turn_id("t").with_metadata(noted("from", "test"));
    assert_eq!(request.turn_id, Some(TurnId::new("t")));
    assert_eq!(request.metadata["from"], "test");
    assert_eq!(request, request.clone());
    assert_ne!(request, request.clone().with_turn_id("other"));
    let view = View::from(three_questions());
    let request =
        CompactionRequest::for_turn("s", "t", view.clone(), CompactionReason::Custom("nightly".into()));
    assert_eq!(request.turn_id, Some("t".into()));

    let result = CompactionResult::new(view, 2).with_metadata(noted("kept", "all"));
    assert_eq!((result.transcript.len(), result.replaced_items), (3, 2));
    assert_eq!(result.metadata["kept"], "all");
    assert_eq!(
        result,
        CompactionResult::new(three_questions().into(), 2).with_metadata(noted("kept", "all"))
    );
    assert_ne!(result, CompactionResult::new(mixed().into(), 2).with_metadata(noted("kept", "all")));

    let asked =
        SummaryRequest::new(SessionId::new("s"), three_questions(), CompactionReason::TranscriptTooLong);
    assert_eq!((asked.items.len(), &asked.reason), (3, &CompactionReason::TranscriptTooLong));
    let turned = SummaryRequest::for_turn("s", "t", three_questions(), CompactionReason::TranscriptTooLong);
    assert_eq!(turned, asked.with_turn_id("t"));
    assert_ne!(turned.clone().with_metadata(noted("a", "b")), turned);
}

#[test]
fn summaries_and_reasons_are_compared_and_written_as_json() {
    let summary = SummaryResult::new(three_questions()).with_metadata(noted("tokens", "12"));
    let written = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<SummaryResult>(&written).unwrap(), summary);
    for reason in [
        CompactionReason::TranscriptTooLong,
        CompactionReason::Manual,
        CompactionReason::Custom("idle".into()),
    ] {
        let written = serde_json::to_string(&reason).unwrap();
        assert_eq!(serde_json::from_str::<CompactionReason>(&written).unwrap(), reason);
    }
}

#[test]
fn strategies_are_written_as_json_with_the_documents_keys() {
    let recent = KeepRecentStrategy::new(24).preserve_kind(ItemKind::System);
    let written = serde_json::to_value(&recent).unwrap();
    assert_eq!(written, json!({"keep_last": 24, "preserve_kinds": ["system"]}));
    assert_eq!(serde_json::from_value::<KeepRecentStrategy>(written).unwrap(), recent);
    let older = SummarizeOlderStrategy::new(8).preserve_kind(ItemKind::System);
    let read = json!({"keep_last": 8, "preserve_kinds": ["system"]});
    assert_eq!(serde_json::from_value::<SummarizeOlderStrategy>(read).unwrap(), older);
    let read = json!({"drop_empty_items": false});
    assert_eq!(
        serde_json::from_value::<DropReasoningStrategy>(read.clone()).unwrap(),
        DropReasoningStrategy::new().drop_empty_items(false)
    );
    assert_eq!(
        serde_json::from_value::<DropFailedToolResultsStrategy>(read).unwrap(),
        DropFailedToolResultsStrategy::new().drop_empty_items(false)
    );
    assert_eq!(DropReasoningStrategy::default(), DropReasoningStrategy::new().drop_empty_items(true));
}

#[tokio::test]
async fn items_with_nothing_left_go_unless_they_are_to_be_kept() {
    let items = || {
        vec![
            Item::user("ask", "look"),
            Item::assistant("thought", vec![Part::reasoning("hm")]),
            Item::assistant("call", vec![Part::call("c", "read", &json!({}))]),
            Item::tool("failed", ToolResult::error("c", "no such file")),
            Item::user("more", "and now?"),
        ]
    };
    let left = async |strategy: CompactionPipeline| {
        let result = strategy.compact(manual(items()), &CompactionContext::default()).await.unwrap();
        ids(result.transcript.items())
    };
    let dropping = CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new());
    assert_eq!(left(dropping).await, ["ask", "more"]);
    let keeping = CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new().drop_empty_items(false))
        .with_strategy(DropFailedToolResultsStrategy::new().drop_empty_items(false));
    assert_eq!(left(keeping).await, ["ask", "thought", "call", "failed", "more"]);
}

/// Drops the oldest items, and says how many.
struct DropOldest(usize);

#[async_trait]
impl CompactionStrategy for DropOldest {
    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        if context.cancellation.is_cancelled() {
            return Err(CompactionError::Cancelled);
        }
        let kept: Vec<Arc<Item>> = request.transcript.items().skip(self.0).cloned().collect();
        if kept.is_empty() {
            return Err(CompactionError::Failed("nothing would be left".into()));
        }
        let result = CompactionResult::from_items(&request, &kept)?;
        Ok(result.with_metadata(noted("oldest", "gone")))
    }
}

#[tokio::test]
async fn strategies_of_ones_own_are_steps_however_they_are_held() {
    let shared: Arc<dyn CompactionStrategy> = Arc::new(DropOldest(1));
    let boxed: Box<dyn CompactionStrategy> = Box::new(KeepRecentStrategy::new(1));
    let inner = CompactionPipeline::new().with_strategy(shared);
    let pipeline = CompactionPipeline::new().with_strategy(inner).with_strategy(boxed);
    let result = pipeline.compact(manual(three_questions()), &CompactionContext::default()).await.unwrap();
    assert_eq!(ids(result.transcript.items()), ["why"]);
    assert_eq!(result.replaced_items, 2, "the steps' counts are added up");
    assert_eq!(result.metadata["oldest"], "gone");
    let refused = DropOldest(3).compact(manual(three_questions()), &CompactionContext::default()).await;
    assert_eq!(refused.unwrap_err().to_string(), "the compaction failed: nothing would be left");
}

#[tokio::test]
async fn backends_and_pure_strategies_may_be_chosen_while_the_program_runs() {
    let shared: Arc<dyn CompactionBackend> = Arc::new(Counting::default());
    let boxed: Box<dyn CompactionBackend> = Box::new(Counting::default());
    let pure: Box<dyn Strategy> = Box::new(SummarizeOlderStrategy::new(1));
    let compactors =
        [StrategyCompactor::builder().backend(shared), StrategyCompactor::builder().backend(boxed)];
    let pure: Arc<dyn Strategy> = Arc::new(pure);
    for compactor in compactors {
        let compactor = compactor.item_count_trigger(2).strategy(Arc::clone(&pure)).build().unwrap();
        let result =
            compactor.compact(manual(three_questions()), &CompactionContext::default()).await.unwrap();
        assert_eq!(says(result.transcript.get(0).unwrap().item()), "a summary of 2 items");
    }
}

#[tokio::test]
async fn what_is_kept_begins_with_what_the_person_said() {
    let items = ["u0", "a0", "u1", "a1", "u2"].map(|id| match id.starts_with('u') {
        true => Item::user(id, "and then?"),
        false => Item::assistant(id, vec![Part::text("this and that")]),
    });
    let result =
        KeepRecentStrategy::new(2).compact(manual(items.into()), &CompactionContext::default()).await;
    assert_eq!(ids(result.unwrap().transcript.items()), ["u1", "a1", "u2"]);
}

/// Fires for every other question that it is asked.
#[derive(Default)]
struct EveryOther(AtomicUsize);

impl CompactionTrigger for EveryOther {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        transcript: &TriggerContext<'_>,
    ) -> Option<CompactionReason> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        (number % 2 == 1 && transcript.len() > 1).then(|| CompactionReason::Custom("every other".into()))
    }
}

#[tokio::test]
async fn what_was_a_configuration_is_a_compactor() {
    let trigger: Arc<dyn CompactionTrigger> = Arc::new(EveryOther::default());
    let strategy: Box<dyn CompactionStrategy> = Box::new(SummarizeOlderStrategy::new(1));
    let compactor = StrategyCompactor::builder()
        .compaction_trigger(trigger)
        .strategy(strategy)
        .backend(Counting::default())
        .metadata(noted("host", "test"))
        .build()
        .unwrap();
    let view = View::from(three_questions());
    let context = TriggerContext::of_view(&view, MutationPoint::AfterTurnEnded);
    let asked = || compactor.should_compact(&SessionId::new("s"), None, &context);
    assert_eq!(asked(), None);
    let reason = asked().unwrap();
    assert_eq!(reason, CompactionReason::Custom("every other".into()));
    let request = CompactionRequest::new("s", view.clone(), reason);
    let result = compactor.compact(request, &CompactionContext::default()).await.unwrap();
    assert_eq!(result.transcript.len(), 2);
    let boxed: Box<dyn CompactionTrigger> = Box::new(ItemCountTrigger::new(32));
    let built =
        StrategyCompactor::builder().compaction_trigger(boxed).strategy(KeepRecentStrategy::new(24)).build();
    assert!(built.is_ok());
}
