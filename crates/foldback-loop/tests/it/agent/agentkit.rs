//! What goes wrong in the loop that this one is measured against, each a test that passes here.
//! That an invalid mutation is not kept is in `mutators`; nested summarisers are in the crate.

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{
    Budget, CompactionReason, DropReasoningStrategy, Item, ItemKind, LadderStrategy, MutationPoint, Part,
    Reasoning, SessionId, SummarizeOlderStrategy, Tokens, TriggerContext, TurnId, View,
};
use foldback_engine::{
    BackendError, CompactionContext, CompactionError, CompactionRequest, CompactionResult, Compactor,
    DigestBackend, StrategyCompactor,
};
use foldback_loop::{Agent, AgentBuilderCompactorExt, AgentCompactor, AgentEvent};

use crate::agent::support::*;

#[tokio::test]
async fn a_token_trigger_fires_inside_a_tool_loop_and_counts_cached_tokens() {
    let compactor = StrategyCompactor::builder()
        .context_window_trigger(Tokens(200_000), 90.0)
        .strategy(LadderStrategy::new())
        .budget(Budget::for_target(Tokens(2_000)).unwrap())
        .backend(DigestBackend)
        .build()
        .unwrap();
    let model = Script::new(|index, _| match index {
        // 5K fresh and 190K cached of 200K.
        0..6 => Reply::Reported(vec![call(&format!("c{index}"), "cat big.rs")], usage(5_000, 190_000, 50)),
        _ => Reply::Say("done"),
    });
    let events = Events::default();
    let agent = Agent::builder()
        .model(model)
        .tool(Shell::saying("let x = 1;\n".repeat(800)))
        .compactor(compactor)
        .observer(events.observer())
        .build()
        .unwrap();
    agent.session("s").send("go").await.unwrap();
    let inside = |event: &AgentEvent| {
        let point = MutationPoint::AfterToolResult;
        matches!(event, AgentEvent::MutationFinished { point: at, dirty: true, .. } if *at == point)
    };
    assert!(events.all().iter().any(inside));
}

#[tokio::test]
async fn a_token_trigger_that_did_not_fire_still_compacts_on_a_rejected_request() {
    let compactor = StrategyCompactor::builder()
        .context_window_trigger(Tokens(200_000), 90.0)
        .strategy(LadderStrategy::new())
        .budget(Budget::builder(Tokens(200_000)).build().unwrap())
        .backend(DigestBackend)
        .build()
        .unwrap();
    let model = Script::new(|_, items| match text(items).len() > 20_000 {
        true => Reply::Fail(BackendError::Overflow { limit: None }),
        false => Reply::Say("fine"),
    });
    let agent = Agent::builder().model(model).compactor(compactor).build().unwrap();
    let session = agent.session("s");
    for n in 0..6 {
        session.push(Item::user(format!("u{n}"), format!("file {n}: {}", "word ".repeat(1_500)))).unwrap();
    }
    assert_eq!(session.send("go").await.unwrap().text, "fine");
}

/// Always fires, always fails.
#[derive(Debug)]
struct Failing;

#[async_trait]
impl Compactor for Failing {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        _context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason> {
        Some(CompactionReason::TranscriptTooLong)
    }

    async fn compact(
        &self,
        _request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        Err(CompactionError::Failed("the backend is down".to_owned()))
    }
}

#[tokio::test]
async fn a_backend_error_does_not_end_the_turn() {
    let model = Script::new(|index, _| match index {
        0 => Reply::Parts(vec![call("c1", "ls")]),
        _ => Reply::Say("done"),
    });
    let events = Events::default();
    let agent = Agent::builder()
        .model(model)
        .tool(Shell::saying("x"))
        .compactor(Failing)
        .observer(events.observer())
        .build()
        .unwrap();
    assert_eq!(agent.session("s").send("go").await.unwrap().text, "done");
    let mutations = events.mutations();
    assert_eq!(mutations.len(), 2);
    for (_, dirty, failure) in mutations {
        assert!(!dirty && failure.unwrap().contains("the backend is down"));
    }
}

/// A model that is never there.
fn absent() -> Script {
    Script::new(|_, _| Reply::Fail(BackendError::Unauthorized { status: 401 }))
}

fn summarising(backend: AgentCompactor) -> StrategyCompactor {
    StrategyCompactor::builder()
        .item_count_trigger(8)
        .strategy(SummarizeOlderStrategy::new(4).preserve_kind(ItemKind::System))
        .backend(backend)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_nested_agent_without_an_answer_leaves_the_digest_and_the_turn_goes_on() {
    let compactor = summarising(AgentCompactor::builder().model(absent()).build().unwrap());
    let agent =
        Agent::builder().model(Script::new(|_, _| Reply::Say(ANSWER))).compactor(compactor).build().unwrap();
    let session = agent.session("s");
    for turn in 0..6 {
        session.send(question(turn)).await.unwrap();
    }
    let view = session.view();
    let origin = view.items().find_map(|item| item.summary.clone()).expect("there is a summary");
    assert_eq!(&*origin.written_by, "digest");
}

#[tokio::test]
async fn the_reasoning_of_the_round_in_flight_reaches_the_model_again_byte_for_byte() {
    let thinking = Reasoning {
        text: "I must look at both files first".into(),
        signature: Some("c2lnbmVk".into()),
        ..Reasoning::default()
    };
    let signed = Part::Reasoning(thinking);
    let answered = signed.clone();
    let model = Script::new(move |index, _| match index {
        0 | 2 => Reply::Parts(vec![answered.clone(), call(&format!("c{index}"), "cat a")]),
        _ => Reply::Say("done"),
    });
    let compactor =
        Strategic::new(DropReasoningStrategy::new(), |_, _| Some(CompactionReason::TranscriptTooLong));
    let agent =
        Agent::builder().model(model.clone()).tool(Shell::saying("x")).compactor(compactor).build().unwrap();
    let session = agent.session("s");
    session.send("one").await.unwrap();
    session.send("two").await.unwrap();
    let reasoning = |items: &[Arc<Item>]| {
        items.iter().flat_map(|item| &item.parts).filter(|part| **part == signed).count()
    };
    let requests = model.requests();
    assert_eq!(reasoning(&requests[1]), 1, "in flight");
    assert_eq!(reasoning(&requests[2]), 0, "the turn is over");
    assert_eq!(reasoning(&requests[3]), 1, "in flight again");
}

const ANSWER: &str = "It parses, checks and prints what it found, and it says so in more words than anybody \
    would want to carry along for the rest of a long conversation about something else entirely. It does \
    that by reading line by line, keeping a stack of what is open, and reporting what was never closed.";

fn question(turn: usize) -> String {
    format!("What does module {turn} do? {}", "Be thorough. ".repeat(30))
}

#[tokio::test]
async fn five_compactions_by_a_nested_agent_leave_one_summary() {
    let writer = Script::new(|_, _| Reply::Say("## Task: explain the modules, one after the other"));
    let compactor = summarising(AgentCompactor::builder().model(writer.clone()).build().unwrap());
    let model = Script::new(|_, _| Reply::Say(ANSWER));
    let events = Events::default();
    let agent = Agent::builder()
        .model(model.clone())
        .compactor(compactor)
        .observer(events.observer())
        .build()
        .unwrap();
    let session = agent.session("s");
    let mut turn = 0;
    while events.mutations().iter().filter(|(_, dirty, _)| *dirty).count() < 5 {
        session.send(question(turn)).await.unwrap();
        turn += 1;
        assert!(turn < 100, "it compacts");
    }
    let view = session.view();
    let summaries: Vec<_> = view.items().filter_map(|item| item.summary.clone()).collect();
    assert_eq!(summaries.len(), 1);
    assert_eq!(&*summaries[0].written_by, "agent:script");
    assert!(writer.requests().len() >= 5);
    let sent = model.requests();
    assert!(sent.iter().all(|items| items.iter().filter(|item| item.summary.is_some()).count() <= 1));
}
