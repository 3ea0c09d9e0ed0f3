//! What goes wrong in the loop that this one is measured against, each a test that passes here.
//! That an invalid mutation is not kept is in `mutators`; nested summarisers are in the crate.

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{
    Budget, CompactionReason, DropReasoningStrategy, Item, ItemKind, LadderStrategy, MutationPoint, Part,
    Reasoning, SessionId, SummarizeOlderStrategy, Tokens, Trigger, TriggerContext, TurnId, View,
    context_window_trigger,
};
use foldback_engine::{CompactionContext, CompactionError, CompactionRequest, CompactionResult, Compactor};
use foldback_loop::{Agent, AgentBuilderCompactorExt, AgentEvent};

use crate::support::*;

#[tokio::test]
async fn a_token_trigger_fires_inside_a_tool_loop_and_counts_cached_tokens() {
    let budget = Budget::for_target(Tokens(2_000)).unwrap();
    let trigger = context_window_trigger(Tokens(200_000), 90.0).unwrap();
    let compactor = Strategic::new(LadderStrategy::new(), move |_, context| trigger.fires(context));
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
        .budget(budget)
        .observer(events.observer())
        .build()
        .unwrap();
    agent.session("s").send("go").await.unwrap();
    let inside = |event: &AgentEvent| {
        matches!(
            event,
            AgentEvent::MutationFinished { point: MutationPoint::AfterToolResult, dirty: true, .. }
        )
    };
    assert!(events.all().iter().any(inside));
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
        _view: &View,
        _context: &TriggerContext<'_>,
    ) -> Option<CompactionReason> {
        Some(CompactionReason::TranscriptTooLong)
    }

    async fn compact(
        &self,
        _request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        Err(CompactionError::Failed { strategy: "nested".to_owned(), why: "the backend is down".to_owned() })
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

#[tokio::test]
async fn five_compactions_leave_one_summary() {
    let compactor =
        Strategic::new(SummarizeOlderStrategy::new(4).preserve_kind(ItemKind::System), |view, _| {
            (view.len() > 8).then_some(CompactionReason::TranscriptTooLong)
        });
    let answer: String = "It parses, checks and prints what it found. ".repeat(20);
    let answer: &'static str = answer.leak();
    let model = Script::new(move |_, _| Reply::Say(answer));
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
        session.send(format!("What does module {turn} do? {}", "Be thorough. ".repeat(30))).await.unwrap();
        turn += 1;
        assert!(turn < 100, "it compacts");
    }
    let summaries = session.view().items().filter(|item| item.summary.is_some()).count();
    assert_eq!(summaries, 1);
    let sent = model.requests();
    assert!(sent.iter().all(|items| items.iter().filter(|item| item.summary.is_some()).count() <= 1));
}
