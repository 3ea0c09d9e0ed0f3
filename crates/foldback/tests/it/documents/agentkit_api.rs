//! agentkit's newer interface: each name that its list has, used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use foldback::agent::{
    Agent, AgentBuildError, AgentBuilder, AgentBuilderCompactorExt, AgentCompactor, AgentCompactorBuildError,
    AgentCompactorBuilder, CompactorMutator, LoopMutator,
};
use foldback::engine::{
    CompactionBackend, CompactionContext, CompactionError, CompactionHook, CompactionPipeline,
    CompactionRequest, CompactionResult, CompactionStrategy, Compactor, StrategyCompactor,
    StrategyCompactorBuildError, StrategyCompactorBuilder, SummaryRequest, SummaryResult,
};
use foldback::trigger::TriggerFn;
use foldback::{
    CompactionReason, DropFailedToolResultsStrategy, DropReasoningStrategy, Item, ItemKind,
    KeepRecentStrategy, MutationPoint, Part, SessionId, SummarizeOlderStrategy, Tokens, ToolResult,
    TriggerContext, TurnId, Usage, View, item_count_trigger,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Counting, Scripted, ids, says};

/// Adds up what the model reported, and compacts each time another thousand tokens were read.
#[derive(Debug, Default)]
struct Metering {
    read: AtomicU64,
    compactions: AtomicU64,
}

#[async_trait]
impl Compactor for Metering {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        let newest = context.items().next_back()?.usage?;
        let read =
            self.read.fetch_add(newest.prompt_tokens().0, Ordering::Relaxed) + newest.prompt_tokens().0;
        let due = read / 1_000 > self.compactions.load(Ordering::Relaxed);
        due.then(|| CompactionReason::Custom("a thousand tokens more".into()))
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        self.compactions.fetch_add(1, Ordering::Relaxed);
        KeepRecentStrategy::new(2).compact(request, context).await
    }
}

#[tokio::test]
async fn a_compactor_of_ones_own_owns_its_state() {
    let compactor = Arc::new(Metering::default());
    let reported = Usage { input_tokens: Tokens(400), ..Usage::default() };
    let agent: AgentBuilder = Agent::builder().model(Scripted::saying("yes").reporting(reported));
    let agent = agent.shared_compactor(Arc::clone(&compactor) as Arc<dyn Compactor>).build().unwrap();
    let session = agent.session("s");
    for _ in 0..5 {
        session.send("go on").await.unwrap();
    }
    assert_eq!(compactor.read.load(Ordering::Relaxed), 2_000);
    assert_eq!(compactor.compactions.load(Ordering::Relaxed), 2, "after the third turn and the fifth");
    assert_eq!(session.view().len(), 2);
}

#[tokio::test]
async fn any_compactor_is_a_mutator() {
    let model = Scripted::saying("yes");
    let mutator: CompactorMutator = CompactorMutator::new(Metering::default());
    assert_eq!(mutator.label(), "compactor");
    let agent = Agent::builder().model(model.clone()).mutator(mutator).compactor(Metering::default());
    let agent = agent.build().unwrap();
    assert!(format!("{agent:?}").contains("compactor-2"), "{agent:?}");
    agent.session("s").send("hello").await.unwrap();
    assert_eq!(model.sent().len(), 1);
}

#[test]
fn what_is_missing_is_said_when_a_compactor_is_built() {
    let missing = |builder: StrategyCompactorBuilder| builder.build().map(|_| ()).unwrap_err();
    let trigger: TriggerFn = item_count_trigger(2);
    assert_eq!(
        missing(StrategyCompactor::builder().trigger(trigger)),
        StrategyCompactorBuildError::MissingStrategy
    );
    let aimless = StrategyCompactor::builder().strategy(DropReasoningStrategy::new());
    assert_eq!(missing(aimless), StrategyCompactorBuildError::MissingTrigger);
    let impossible = StrategyCompactor::builder().strategy(DropReasoningStrategy::new());
    let error = missing(impossible.context_window_trigger(200_000, 101));
    assert!(matches!(error, StrategyCompactorBuildError::Trigger(_)), "{error}");
}

#[test]
fn what_is_missing_is_said_when_a_nested_agent_is_built() {
    let missing = |builder: AgentCompactorBuilder| builder.build().map(|_| ()).unwrap_err();
    assert_eq!(missing(AgentCompactor::builder()), AgentCompactorBuildError::Agent(AgentBuildError::NoModel));
    let blank = AgentCompactor::builder().model(Scripted::saying("x")).system(" ");
    assert_eq!(missing(blank), AgentCompactorBuildError::BlankSystem);
    let nameless = AgentCompactor::builder().model(Scripted::saying("x")).session_id("");
    assert_eq!(missing(nameless), AgentCompactorBuildError::NoSessionId);
}

#[tokio::test]
async fn a_nested_agent_is_a_backend_that_can_be_used_directly() {
    let model = Scripted::saying("The pump was repaired.");
    let backend = AgentCompactor::builder().model(model.clone()).session_id("diary").build().unwrap();
    let items = vec![
        Item::user("u", "repair the pump"),
        Item::assistant("a", vec![Part::call("c", "turn", &json!({"screw": "left"}))]),
        Item::tool("t", ToolResult::text("c", "it runs")),
    ];
    let request = SummaryRequest::new("s", items, CompactionReason::Manual);
    let result: SummaryResult = backend.summarize(request, CancellationToken::new()).await.unwrap();
    assert_eq!(says(&result.items[0]), "The pump was repaired.");
    assert_eq!(result.metadata["nested_session"], "diary-0");
    let shown: String = model.sent().concat().iter().map(|item| says(item)).collect();
    for part in ["repair the pump", "turn", "screw", "it runs"] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
}

/// Looks something up before each compaction, and remembers what came of it.
#[derive(Clone, Default)]
struct Diary {
    before: Arc<AtomicU64>,
    after: Arc<AtomicU64>,
}

#[async_trait]
impl CompactionHook for Diary {
    async fn before_compaction_start(&self, request: &CompactionRequest) -> Result<(), String> {
        tokio::task::yield_now().await;
        self.before.store(request.transcript.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn after_compaction_end(&self, _request: &CompactionRequest, result: &CompactionResult) {
        tokio::task::yield_now().await;
        self.after.store(result.transcript.len() as u64, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn every_name_of_the_list_takes_part_in_one_compaction() {
    let strategies: [Box<dyn CompactionStrategy>; 4] = [
        Box::new(DropReasoningStrategy::new()),
        Box::new(DropFailedToolResultsStrategy::new()),
        Box::new(SummarizeOlderStrategy::new(4).preserve_kind(ItemKind::System)),
        Box::new(KeepRecentStrategy::new(6)),
    ];
    let pipeline = strategies.into_iter().fold(CompactionPipeline::new(), CompactionPipeline::with_strategy);
    let (backend, diary) = (Counting::default(), Diary::default());
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(6)
        .strategy(pipeline)
        .backend(backend.clone())
        .hook(diary.clone())
        .build()
        .unwrap();
    let mut items = vec![Item::text("rules", ItemKind::System, "be brief")];
    items.extend((0..9).map(|n| Item::user(format!("u{n}"), format!("question {n}"))));
    let view = View::from(items);
    let context = TriggerContext::of_view(&view, MutationPoint::AfterTurnEnded);
    let reason = compactor.should_compact(&SessionId::new("s"), None, &context).unwrap();
    let request = CompactionRequest::for_turn("s", "t", view.clone(), reason);
    let result = compactor.compact(request, &CompactionContext::default()).await.unwrap();
    let kept = ids(result.transcript.items());
    assert_eq!((kept[0].as_str(), &kept[2..]), ("rules", &["u5", "u6", "u7", "u8"].map(String::from)[..]));
    assert_eq!(backend.asked.lock().unwrap()[0].turn_id, Some("t".into()));
    assert_eq!((diary.before.load(Ordering::Relaxed), diary.after.load(Ordering::Relaxed)), (10, 6));
}
