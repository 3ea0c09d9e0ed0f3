//! Turns: what is asked, what is recorded, what is handed out.

use foldback_core::{ItemKind, Part, Transcript, View};
use foldback_engine::BackendError;
use foldback_loop::{Agent, AgentBuildError, AgentEvent, AgentLimits, LoopError};
use std::time::Duration;

use crate::agent::support::*;

#[tokio::test]
async fn a_turn_asks_calls_and_asks_again_until_there_is_an_answer() {
    let model = Script::new(|index, _| match index {
        0 => Reply::Parts(vec![Part::text("Looking."), call("c1", "ls")]),
        _ => Reply::Say("Two files."),
    });
    let agent = Agent::builder()
        .model(model.clone())
        .tool(Shell::saying("a.rs\nb.rs"))
        .system("You are terse.")
        .build()
        .unwrap();
    let session = agent.session("s");
    let result = session.send("What files are there?").await.unwrap();
    assert_eq!((result.text.as_str(), result.round_count, result.call_count), ("Two files.", 2, 1));
    assert_eq!(kinds(session.view().items()), ["system", "user", "assistant", "tool", "assistant"]);
    let requests = model.requests();
    assert_eq!(kinds(&requests[0]), ["system", "user"]);
    assert_eq!(kinds(&requests[1]), ["system", "user", "assistant", "tool"]);
    assert!(text(&requests[1]).contains("a.rs\nb.rs"));
}

#[tokio::test]
async fn the_next_turn_begins_with_all_of_the_one_before() {
    let model = Script::new(|_, _| Reply::Say("Yes."));
    let agent = Agent::builder().model(model.clone()).build().unwrap();
    let session = agent.session("s");
    session.send("one").await.unwrap();
    agent.session("s").send("two").await.unwrap();
    assert_eq!(kinds(&model.requests()[1]), ["user", "assistant", "user"]);
    let other = agent.session("other");
    assert!(other.view().is_empty());
}

#[tokio::test]
async fn a_stream_hands_out_what_happens_in_order_and_then_the_result() {
    let model = Script::new(|index, _| match index {
        0 => Reply::Parts(vec![Part::reasoning("hm"), call("c1", "ls")]),
        _ => Reply::Say("done"),
    });
    let agent = Agent::builder().model(model).tool(Shell::saying("x")).build().unwrap();
    let mut stream = agent.session("s").stream("go");
    let mut names = Vec::new();
    while let Some(event) = stream.next().await {
        names.push(match event {
            AgentEvent::TurnStarted { .. } => "started",
            AgentEvent::ModelAsked { .. } => "asked",
            AgentEvent::ReasoningDelta { .. } => "reasoning",
            AgentEvent::CallDelta { .. } => "call",
            AgentEvent::TextDelta { .. } => "text",
            AgentEvent::ModelAnswered { .. } => "answered",
            AgentEvent::ToolStarted { .. } => "tool",
            AgentEvent::ToolFinished { .. } => "result",
            AgentEvent::TurnEnded { .. } => "ended",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(
        names,
        [
            "started",
            "asked",
            "reasoning",
            "call",
            "answered",
            "tool",
            "result",
            "asked",
            "text",
            "answered",
            "ended"
        ]
    );
    assert_eq!(stream.finish().await.unwrap().text, "done");
}

#[tokio::test(start_paused = true)]
async fn failures_that_may_pass_are_asked_again_and_others_are_not() {
    let model = Script::new(|index, _| match index {
        0 => Reply::Fail(BackendError::RateLimited { retry_after: Some(Duration::from_secs(3)) }),
        1 => Reply::Fail(BackendError::Server { status: 529, retry_after: None }),
        _ => Reply::Say("at last"),
    });
    let events = Events::default();
    let agent = Agent::builder().model(model.clone()).observer(events.observer()).build().unwrap();
    let before = tokio::time::Instant::now();
    assert_eq!(agent.session("s").send("go").await.unwrap().text, "at last");
    assert!(before.elapsed() >= Duration::from_millis(3_500), "{:?}", before.elapsed());
    let retried =
        events.all().iter().filter(|event| matches!(event, AgentEvent::ModelRetried { .. })).count();
    assert_eq!((retried, model.requests().len()), (2, 3));

    let refusing = Script::new(|_, _| Reply::Fail(BackendError::Unauthorized { status: 401 }));
    let agent = Agent::builder().model(refusing.clone()).build().unwrap();
    let error = agent.session("s").send("go").await.unwrap_err();
    assert!(matches!(error, LoopError::Model(BackendError::Unauthorized { status: 401 })), "{error}");
    assert_eq!(refusing.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn waits_before_another_attempt_differ_between_seeds_and_stay_between_half_and_all_of_it() {
    let waits = async |backoff_seed: u64| {
        let model = Script::new(|_, _| Reply::Fail(BackendError::Server { status: 500, retry_after: None }));
        let events = Events::default();
        let limits = AgentLimits { backoff_seed: Some(backoff_seed), ..AgentLimits::default() };
        let agent = Agent::builder().model(model).observer(events.observer()).limits(limits).build().unwrap();
        agent.session("s").send("go").await.unwrap_err();
        let wait = |event: &AgentEvent| match event {
            AgentEvent::ModelRetried { wait, .. } => Some(*wait),
            _ => None,
        };
        events.all().iter().filter_map(wait).collect::<Vec<Duration>>()
    };
    let first = waits(1).await;
    assert_eq!(first, waits(1).await);
    assert_ne!(first, waits(2).await);
    for (wait, most) in first.iter().zip([500, 1_000, 2_000].map(Duration::from_millis)) {
        assert!(*wait >= most / 2 && *wait <= most, "{first:?}");
    }
    assert_eq!(first.len(), 3);
}

#[tokio::test]
async fn rounds_are_limited_and_leave_a_conversation_that_goes_on() {
    let model = Script::new(|index, _| match index {
        0..3 => Reply::Parts(vec![call("same-id", "again")]),
        _ => Reply::Say("enough"),
    });
    let limits = AgentLimits { rounds_max: 3, ..AgentLimits::default() };
    let agent =
        Agent::builder().model(model.clone()).tool(Shell::saying("x")).limits(limits).build().unwrap();
    let session = agent.session("s");
    let error = session.send("go").await.unwrap_err();
    assert!(matches!(error, LoopError::RoundLimit { rounds_max: 3 }), "{error}");
    // The script checks every request, and the model gave the same id three times.
    assert_eq!(session.send("stop").await.unwrap().text, "enough");
}

#[tokio::test]
async fn a_recorded_conversation_is_resumed_with_its_open_calls_answered() {
    let mut transcript = Transcript::default();
    transcript.push(foldback_core::Item::user("u", "go"));
    transcript.push(foldback_core::Item::assistant("a", vec![call("c1", "ls"), call("c2", "pwd")]));
    let model = Script::new(|_, _| Reply::Say("going on"));
    let agent = Agent::builder().model(model.clone()).build().unwrap();
    let session = agent.resume("s", View::of(&transcript));
    session.send("go on").await.unwrap();
    assert_eq!(kinds(&model.requests()[0]), ["user", "assistant", "tool", "tool", "user"]);
    let session = agent.session("s");
    assert_eq!(session.view().items().last().unwrap().kind, ItemKind::Assistant);
}

#[tokio::test]
async fn what_the_person_says_meanwhile_is_answered_before_the_turn_ends() {
    let model = Script::new(|index, items| match index {
        0 => Reply::Parts(vec![call("c1", "slow")]),
        _ => {
            assert!(text(items).contains("and the other one"));
            Reply::Say("both")
        }
    });
    let session: std::sync::Arc<std::sync::OnceLock<foldback_loop::AgentSession>> = Default::default();
    let handle = std::sync::Arc::clone(&session);
    let shell = Shell::new(move |_| {
        handle.get().unwrap().say("and the other one").unwrap();
        Ok("ok".to_owned())
    });
    let agent = Agent::builder().model(model.clone()).tool(shell).build().unwrap();
    session.set(agent.session("s")).unwrap();
    assert_eq!(session.get().unwrap().send("fix this one").await.unwrap().text, "both");
    assert_eq!(kinds(&model.requests()[1]), ["user", "assistant", "tool", "user"]);
}

#[test]
fn agents_that_cannot_work_are_not_built() {
    let model = || Script::new(|_, _| Reply::Say(""));
    let error = |builder: foldback_loop::AgentBuilder| builder.build().map(|_| ()).unwrap_err();
    assert_eq!(error(Agent::builder()), AgentBuildError::NoModel);
    let twice = Agent::builder().model(model()).tool(Shell::saying("")).tool(Shell::saying(""));
    assert_eq!(error(twice), AgentBuildError::DuplicateTool { name: "shell".to_owned() });
    let limits = AgentLimits { rounds_max: 0, ..AgentLimits::default() };
    let never = Agent::builder().model(model()).limits(limits);
    assert_eq!(error(never), AgentBuildError::LimitZero { limit: "rounds_max" });
}
