//! The mutator inside agentkit's own loop, with a scripted model.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test says where")]

#[path = "../../examples/scripted/mod.rs"]
mod scripted;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentkit_core::{
    CancellationController, FinishReason, Item, ItemKind, MetadataMap, Part, SessionId, ToolCallPart,
    ToolOutput, ToolResultPart,
};
use agentkit_loop::{
    Agent, AgentBuilder, AgentEvent, ContextRecoveryPolicy, LoopDriver, LoopError, LoopObserver, LoopStep,
    MutationPoint, ObservedEvent, SessionConfig, TranscriptEvent, TranscriptObserver,
};
use async_trait::async_trait;
use foldback::engine::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, Compactor, DigestBackend,
    StrategyCompactor,
};
use foldback::{
    CompactionReason, Handle, KeepRecentStrategy, Policy, Room, SummarizeOlderStrategy, Tokens,
    TriggerContext, View,
};
use foldback_agentkit::{FoldbackMutator, MUTATOR_LABEL, SUMMARY_METADATA_KEY};
use serde_json::json;

use scripted::{Requests, ScriptedModel, tokens, unpaired};

const WINDOW: usize = 6_000;
const SESSION: &str = "session";

/// A past of so many rounds, each with a call, its result and everything that agentkit keeps beside them.
fn past(round_count: usize) -> Vec<Item> {
    let mut items = vec![Item::text(ItemKind::System, "You read code.")];
    for round in 0..round_count {
        let metadata = MetadataMap::from([("round".to_owned(), json!(round))]);
        let call = ToolCallPart::new(format!("c{round}"), "read", json!({"path": format!("src/{round}.rs")}));
        let output = ToolOutput::text(format!("let value_{round} = parse(input)?;\n").repeat(30));
        let result = ToolResultPart::success(format!("c{round}"), output).with_metadata(metadata.clone());
        items.extend([
            Item::text(ItemKind::User, format!("What does module {round} do?")).with_id(format!("u{round}")),
            Item::new(ItemKind::Assistant, vec![Part::reasoning("I read it."), Part::ToolCall(call)])
                .with_metadata(metadata.clone()),
            Item::new(ItemKind::Tool, vec![Part::ToolResult(result)]),
            Item::text(ItemKind::Assistant, format!("Module {round} parses.")).with_metadata(metadata),
        ]);
    }
    items
}

/// What was observed.
#[derive(Clone, Default)]
struct Seen {
    events: Arc<Mutex<Vec<AgentEvent>>>,
    replaced: Arc<Mutex<Vec<Vec<Item>>>>,
}

impl LoopObserver for Seen {
    fn handle_event(&self, event: ObservedEvent) {
        self.events.lock().unwrap().push(event.event);
    }
}

impl TranscriptObserver for Seen {
    fn on_transcript_event(&self, _event: TranscriptEvent<'_>) {}

    fn on_transcript_replaced(&self, _session_id: &SessionId, items: &[Item]) {
        self.replaced.lock().unwrap().push(items.to_vec());
    }
}

impl Seen {
    /// Points of mutations that began, and how those ended that ended.
    fn mutations(&self) -> (Vec<MutationPoint>, Vec<(bool, MetadataMap)>) {
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for event in self.events.lock().unwrap().iter() {
            match event {
                AgentEvent::MutationStarted { mutator, point, .. } if mutator == MUTATOR_LABEL => {
                    begun.push(*point)
                }
                AgentEvent::MutationFinished { mutator, dirty, metadata, .. } if mutator == MUTATOR_LABEL => {
                    ended.push((*dirty, metadata.clone()));
                }
                _ => {}
            }
        }
        (begun, ended)
    }
}

/// A model that answers everything with one sentence.
fn model(requests: &Requests) -> ScriptedModel {
    let script = Arc::new(|_: usize, _: &[Item]| vec![Part::text("They all parse.")]);
    ScriptedModel { window: WINDOW, script, requests: Arc::clone(requests) }
}

fn builder(requests: &Requests, seen: &Seen, mutator: &FoldbackMutator) -> AgentBuilder<ScriptedModel> {
    Agent::builder()
        .model(model(requests))
        .input(vec![Item::text(ItemKind::User, "Which of them parse? Answer in one sentence.")])
        .context_recovery(ContextRecoveryPolicy { max_attempts: 3, budget: Duration::from_secs(10) })
        .observer(seen.clone())
        .transcript_observer(seen.clone())
        .mutator(mutator.clone())
}

async fn start(builder: AgentBuilder<ScriptedModel>) -> LoopDriver<ScriptedModel> {
    builder.build().unwrap().start(SessionConfig::new(SESSION)).await.unwrap()
}

fn finished(step: LoopStep) -> FinishReason {
    match step {
        LoopStep::Finished(result) => result.finish_reason,
        LoopStep::Interrupt(interrupt) => panic!("{interrupt:?}"),
    }
}

/// A compactor for a window of which the model has told nothing: it does not fire by itself.
fn ladder() -> FoldbackMutator {
    let policy = Policy::named("ladder").unwrap();
    FoldbackMutator::new(
        StrategyCompactor::builder().policy(&policy, Room::new(Tokens(200_000))).build().unwrap(),
    )
}

/// A compactor that summarises what is older than nine items.
fn summarizing() -> FoldbackMutator {
    let strategy = SummarizeOlderStrategy::new(9).preserve_kind(foldback::ItemKind::System);
    let compactor = StrategyCompactor::builder().item_count_trigger(20).strategy(strategy);
    FoldbackMutator::new(compactor.backend(DigestBackend).build().unwrap())
}

#[tokio::test]
async fn a_request_that_is_rejected_for_its_length_is_compacted_and_sent_again() {
    let (requests, seen, mutator) = (Requests::default(), Seen::default(), ladder());
    let past = past(30);
    assert!(tokens(&past) > WINDOW);
    let mut driver = start(builder(&requests, &seen, &mutator).transcript(past)).await;
    assert_eq!(finished(driver.next().await.unwrap()), FinishReason::Completed);
    let requests = requests.lock().unwrap();
    let (accepted, rejected) = requests.split_last().unwrap();
    assert!(!rejected.is_empty() && rejected.iter().all(|request| tokens(request) > WINDOW));
    assert!(tokens(accepted) <= WINDOW && unpaired(accepted).is_empty());
    assert_eq!(accepted.last(), requests[0].last(), "the question is as it was asked");
    assert_eq!(
        seen.replaced.lock().unwrap().last(),
        Some(accepted),
        "observers are shown the new transcript"
    );
    let (begun, ended) = seen.mutations();
    assert_eq!(begun, vec![MutationPoint::ContextLengthRejected; rejected.len()]);
    assert!(ended.iter().all(|(is_dirty, _)| *is_dirty), "{ended:?}");
}

#[tokio::test]
async fn items_that_a_compaction_keeps_are_agentkits_own_and_a_handle_gives_back_the_others() {
    let (requests, seen, mutator) = (Requests::default(), Seen::default(), summarizing());
    let past = past(10);
    let mut driver = start(builder(&requests, &seen, &mutator).transcript(past.clone())).await;
    assert_eq!(finished(driver.next().await.unwrap()), FinishReason::Completed);
    let request = requests.lock().unwrap()[0].clone();
    let [system, summary, kept @ ..] = &request[..] else { panic!("{request:?}") };
    assert_eq!(system, &past[0]);
    assert_eq!(kept[..kept.len() - 1], past[past.len() - kept.len() + 1..]);
    assert_eq!(summary.kind, ItemKind::Context);
    let handle = summary.metadata[SUMMARY_METADATA_KEY]["handle"].as_str().and_then(Handle::parse).unwrap();
    let folded = mutator.recall(&SESSION.into(), &handle).unwrap();
    assert_eq!(folded, past[1..past.len() - kept.len() + 1]);
    let (begun, ended) = seen.mutations();
    assert_eq!(begun, [MutationPoint::AfterTurnEnded]);
    let [(true, metadata)] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(metadata["reason"], "transcript too long");
    assert!(metadata["tokens_after"].as_u64() < metadata["tokens_before"].as_u64());
    assert_eq!(metadata["replaced_items"], folded.len());
}

/// A transcript that was stored with its summary and loaded by another process.
#[tokio::test]
async fn a_summary_is_known_again_when_the_transcript_is_loaded_elsewhere() {
    let (requests, seen, mutator) = (Requests::default(), Seen::default(), summarizing());
    let mut driver = start(builder(&requests, &seen, &mutator).transcript(past(10))).await;
    driver.next().await.unwrap();
    let stored = driver.snapshot().transcript;
    let elsewhere = summarizing();
    let mut driver = start(builder(&requests, &seen, &elsewhere).transcript(stored.clone())).await;
    driver.next().await.unwrap();
    let of = |view: View| view.items().find_map(|item| item.summary.clone());
    let known = of(elsewhere.view(&SESSION.into()).unwrap());
    assert!(known.is_some() && known == of(mutator.view(&SESSION.into()).unwrap()));
    assert_eq!(driver.snapshot().transcript[..stored.len()], stored);
}

/// Wants to compact always, and cannot or does not come to an end.
#[derive(Clone, Copy, Debug)]
enum Hopeless {
    Failing,
    Waiting,
}

#[async_trait]
impl Compactor for Hopeless {
    fn should_compact(
        &self,
        _session_id: &foldback::SessionId,
        _turn_id: Option<&foldback::TurnId>,
        _context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        Some(CompactionReason::Manual)
    }

    async fn compact(
        &self,
        _request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        match self {
            Self::Failing => Err(CompactionError::Failed("the disk is full".to_owned())),
            Self::Waiting => std::future::pending().await,
        }
    }
}

#[tokio::test]
async fn a_compaction_that_fails_does_not_end_the_turn() {
    let (requests, seen) = (Requests::default(), Seen::default());
    let mutator = FoldbackMutator::new(Hopeless::Failing);
    let mut driver = start(builder(&requests, &seen, &mutator).transcript(past(2))).await;
    assert_eq!(finished(driver.next().await.unwrap()), FinishReason::Completed);
    assert_eq!(requests.lock().unwrap()[0][..past(2).len()], past(2));
    let (_, ended) = seen.mutations();
    let [(false, metadata)] = &ended[..] else { panic!("{ended:?}") };
    assert!(metadata["error"].as_str().unwrap().contains("the disk is full"));
}

#[tokio::test]
async fn cancelling_the_turn_ends_a_compaction() {
    let (requests, seen) = (Requests::default(), Seen::default());
    let controller = CancellationController::new();
    let builder = builder(&requests, &seen, &FoldbackMutator::new(Hopeless::Waiting));
    let mut driver = start(builder.cancellation(controller.handle())).await;
    let (step, _) = tokio::join!(driver.next(), async {
        while seen.mutations().0.is_empty() {
            tokio::task::yield_now().await;
        }
        controller.interrupt();
    });
    assert_eq!(finished(step.unwrap()), FinishReason::Cancelled);
    assert!(requests.lock().unwrap().is_empty());
}

/// agentkit drops the mutation and keeps the transcript that there was; so does the record.
#[tokio::test]
async fn a_compaction_that_misses_agentkits_deadline_leaves_everything_as_it_was() {
    let (requests, seen) = (Requests::default(), Seen::default());
    let mutator = FoldbackMutator::new(OnlyRejected(Hopeless::Waiting));
    let policy = ContextRecoveryPolicy { max_attempts: 1, budget: Duration::from_millis(20) };
    let past = past(30);
    let builder = builder(&requests, &seen, &mutator).context_recovery(policy).transcript(past.clone());
    let mut driver = start(builder).await;
    let error = driver.next().await.unwrap_err();
    assert!(matches!(error, LoopError::ContextRecoveryDeadlineExceeded), "{error}");
    assert_eq!(driver.snapshot().transcript[..past.len()], past);
    assert_eq!(mutator.view(&SESSION.into()).unwrap().len(), past.len() + 1);
}

/// Compacts rejected requests only.
#[derive(Debug)]
struct OnlyRejected(Hopeless);

#[async_trait]
impl Compactor for OnlyRejected {
    fn should_compact(
        &self,
        _session_id: &foldback::SessionId,
        _turn_id: Option<&foldback::TurnId>,
        context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        context.was_rejected().then_some(CompactionReason::OverflowRejected)
    }

    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        self.0.compact(request, context).await
    }
}

#[tokio::test]
async fn sessions_of_one_agent_have_records_of_their_own() {
    let (requests, seen) = (Requests::default(), Seen::default());
    let compactor = StrategyCompactor::builder().item_count_trigger(20).strategy(KeepRecentStrategy::new(4));
    let mutator = FoldbackMutator::new(compactor.build().unwrap());
    let agent = builder(&requests, &seen, &mutator).transcript(past(10)).build().unwrap();
    for session in ["one", "two"] {
        let mut driver = agent.start(SessionConfig::new(session)).await.unwrap();
        driver.next().await.unwrap();
        let view = mutator.view(&session.into()).unwrap();
        assert_eq!(view.transcript().len(), past(10).len() + 1);
        assert!(view.len() < 10);
    }
    mutator.forget(&"one".into());
    assert!(mutator.view(&"one".into()).is_none() && mutator.view(&"two".into()).is_some());
}
