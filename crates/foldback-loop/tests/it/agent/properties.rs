//! Whatever the model says, whatever tools do, whenever the person interrupts: what is sent is valid,
//! and nothing that was said is lost.

use std::sync::Arc;

use foldback_core::{
    CompactionReason, Dialect, DropReasoningStrategy, KeepRecentStrategy, Part, Reasoning, StrategyPipeline,
    SummarizeOlderStrategy, ToolCall, ToolInput, check_request,
};
use foldback_engine::BackendError;
use foldback_loop::{Agent, AgentBuilderCompactorExt, AgentEvent, AgentLimits, AgentSession};
use proptest::prelude::*;

use crate::agent::support::*;

/// What one answer of the model is made of.
#[derive(Clone, Debug)]
enum Answered {
    Text(&'static str),
    Thinking,
    Call { id: u8, tool: &'static str, input: &'static str },
}

/// One answer, or a failure.
#[derive(Clone, Debug)]
enum Round {
    Parts(Vec<Answered>),
    Overflow,
    Refused,
}

/// A turn: what the person says, what the model answers, and after which event it is interrupted.
type Turn = (Vec<Round>, Option<usize>);

fn answered() -> impl Strategy<Value = Answered> {
    let call = (
        0u8..4,
        prop::sample::select(vec!["shell", "missing"]),
        prop::sample::select(vec![
            r#"{"command": "ok"}"#,
            r#"{"command": "fail"}"#,
            "",
            "{\"command\": \"cut",
        ]),
    );
    prop_oneof![
        prop::sample::select(vec!["", "  ", "I will look.", "Done."]).prop_map(Answered::Text),
        Just(Answered::Thinking),
        call.prop_map(|(id, tool, input)| Answered::Call { id, tool, input }),
    ]
}

fn round() -> impl Strategy<Value = Round> {
    prop_oneof![
        8 => prop::collection::vec(answered(), 0..5).prop_map(Round::Parts),
        1 => Just(Round::Overflow),
        1 => Just(Round::Refused),
    ]
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = (prop::collection::vec(round(), 1..6), prop::option::weighted(0.3, 0usize..20));
    prop::collection::vec(turn, 1..5)
}

fn parts(answered: &[Answered]) -> Vec<Part> {
    let part = |answered: &Answered| match answered {
        Answered::Text(text) => Part::text(*text),
        Answered::Thinking => Part::Reasoning(Reasoning {
            text: "hm".into(),
            signature: Some("c2lnbmVk".into()),
            ..Reasoning::default()
        }),
        Answered::Call { id, tool, input } => Part::ToolCall(ToolCall {
            id: format!("c{id}").into(),
            name: (*tool).into(),
            input: ToolInput::Text((*input).into()),
            signature: None,
        }),
    };
    answered.iter().map(part).collect()
}

/// Says it, and interrupts after so many events.
async fn say(session: &AgentSession, text: String, interrupt_after: Option<usize>) {
    let mut stream = session.stream(text);
    let mut event_count = 0;
    while let Some(event) = stream.next().await {
        if Some(event_count) == interrupt_after {
            session.say(format!("meanwhile at {event_count}")).unwrap();
            session.interrupt();
        }
        event_count += 1;
        if let AgentEvent::MutationFinished { .. } = event {
            let view = session.view();
            assert_eq!(check_request(view.items(), Some(Dialect::Anthropic)), [], "after a mutation");
        }
    }
    // How it ends is up to the script; that the transcript is whole is not.
    let _ = stream.finish().await;
}

async fn talk(turns: &[Turn], items_max: usize) -> (AgentSession, Script) {
    let rounds: Vec<Round> = turns.iter().flat_map(|(rounds, _)| rounds.clone()).collect();
    // The script itself checks that every request is valid.
    let model = Script::new(move |index, _| match rounds.get(index) {
        None => Reply::Say("That is all."),
        Some(Round::Parts(answered)) => Reply::Parts(parts(answered)),
        Some(Round::Overflow) => Reply::Fail(BackendError::Overflow { limit: None }),
        Some(Round::Refused) => Reply::Fail(BackendError::Rejected { status: 400, message: "no".to_owned() }),
    });
    let shell = Shell::new(|command| match command {
        "fail" => Err("exit code 1".to_owned()),
        _ => Ok("line\n".repeat(40)),
    });
    let pipeline = StrategyPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(SummarizeOlderStrategy::new(items_max));
    let too_long = move |len: usize| (len > items_max).then_some(CompactionReason::TranscriptTooLong);
    let agent = Agent::builder()
        .model(model.clone())
        .tool(shell)
        .compactor(Strategic::new(pipeline, move |view, _| too_long(view.len())))
        .compactor(Strategic::new(KeepRecentStrategy::new(items_max), |_, _| None))
        .limits(AgentLimits { rounds_max: 6, ..AgentLimits::default() })
        .build()
        .unwrap();
    let session = agent.session("s");
    for (turn, (_, interrupt_after)) in turns.iter().enumerate() {
        say(&session, format!("question {turn}"), *interrupt_after).await;
    }
    (session, model)
}

proptest! {
    #![proptest_config(foldback_testkit::costly(10))]

    /// T1, T2.
    #[test]
    fn every_request_is_valid_and_everything_said_is_recorded(turns in turns(), items_max in 2usize..12) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (session, model) = runtime.block_on(talk(&turns, items_max));
        let view = session.view();
        prop_assert_eq!(check_request(view.items(), Some(Dialect::Anthropic)), []);
        let recorded: Vec<_> = view.transcript().items().cloned().collect();
        let said = text(&recorded);
        let places: Vec<_> = (0..turns.len()).map(|turn| said.find(&format!("question {turn}"))).collect();
        prop_assert!(places.iter().all(Option::is_some), "{said}");
        prop_assert!(places.is_sorted());
        let calls = recorded.iter().flat_map(|item| item.calls()).count();
        let results = recorded.iter().flat_map(|item| item.results()).count();
        prop_assert_eq!(calls, results);
        prop_assert!(model.requests().iter().all(|items: &Vec<Arc<_>>| !items.is_empty()));
    }
}
