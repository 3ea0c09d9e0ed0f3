//! Time passes: triggers on time fire in a running agent, and only while nobody is at work. The clock is
//! tokio's, which stands still and jumps: an hour of a test takes no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use foldback_core::{
    BudgetTrigger, CompactionReason, EveryTrigger, IdleTrigger, Item, KeepRecentStrategy, MutationPoint,
    Timestamp, Tokens, TriggerExt,
};
use foldback_engine::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
    StrategyCompactor, StrategyCompactorBuilder, TokioClock,
};
use foldback_loop::{Agent, AgentBuilderCompactorExt, AgentEvent, LoopError};
use tokio::sync::Notify;

use crate::agent::support::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Lets this much time pass, and whatever is due by then happen.
async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

fn keeping(count: usize) -> StrategyCompactorBuilder {
    StrategyCompactor::builder().strategy(KeepRecentStrategy::new(count))
}

fn agent(compactor: StrategyCompactorBuilder, model: Script, events: &Events) -> Agent {
    Agent::builder()
        .model(model)
        .compactor(compactor.clock(TokioClock::starting_at(Timestamp(0))).build().unwrap())
        .clock(TokioClock::starting_at(Timestamp(0)))
        .observer(events.observer())
        .build()
        .unwrap()
}

fn talkative() -> Script {
    Script::new(|_, _| Reply::Say("I see."))
}

/// What happened between turns: why, and whether it changed anything.
fn between_turns(events: &Events) -> Vec<(Option<CompactionReason>, bool)> {
    let finished = |event| match event {
        AgentEvent::MutationFinished { point: MutationPoint::BetweenTurns, reason, dirty, .. } => {
            Some((reason, dirty))
        }
        _ => None,
    };
    events.all().into_iter().filter_map(finished).collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_touches_is_compacted_once_and_again_after_the_next_turn() {
    let events = Events::default();
    let idle = IdleTrigger::new(10 * MINUTE).unwrap();
    let agent = agent(keeping(2).compaction_trigger(idle), talkative(), &events);
    let session = agent.session("s");
    for n in 0..5 {
        session.send(format!("question {n}")).await.unwrap();
        pass(MINUTE).await;
    }
    pass(8 * MINUTE).await;
    assert_eq!(session.view().len(), 10, "nine minutes are not ten");
    pass(2 * MINUTE).await;
    assert_eq!(session.view().len(), 2);
    assert_eq!(between_turns(&events), [(Some(CompactionReason::Idle), true)]);
    pass(600 * MINUTE).await;
    assert_eq!(between_turns(&events).len(), 1, "it is idle once");
    session.send("and now?").await.unwrap();
    pass(11 * MINUTE).await;
    assert_eq!(between_turns(&events).len(), 2);
    assert_eq!(session.view().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn housekeeping_comes_every_so_often_while_there_is_something_to_do() {
    let events = Events::default();
    let every = EveryTrigger::new(30 * MINUTE).unwrap();
    let agent = agent(keeping(0).compaction_trigger(every), talkative(), &events);
    let session = agent.session("s");
    session.send("hello").await.unwrap();
    for hour in 1..=3 {
        for n in 0..20 {
            session.push(Item::user(format!("note {hour}-{n}"), "a note")).unwrap();
        }
        pass(60 * MINUTE).await;
        assert!(session.view().len() < 20, "{}", session.view().len());
    }
    let kept = between_turns(&events).into_iter().filter(|(_, dirty)| *dirty).count();
    assert_eq!(kept, 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_in_the_middle_of_a_request() {
    let events = Events::default();
    let idle = IdleTrigger::new(MINUTE).unwrap();
    let model = Script::new(|index, _| if index < 3 { Reply::Say("yes") } else { Reply::Hang("let me see") });
    let agent = agent(keeping(1).compaction_trigger(idle), model, &events);
    let session = agent.session("s");
    for _ in 0..3 {
        session.send("go on").await.unwrap();
    }
    let asking = session.clone();
    let turn = tokio::spawn(async move { asking.send("what is the meaning of all this?").await });
    pass(60 * MINUTE).await;
    assert_eq!(between_turns(&events), []);
    session.interrupt();
    assert!(matches!(turn.await.unwrap(), Err(LoopError::Interrupted)));
    pass(2 * MINUTE).await;
    assert_eq!(between_turns(&events), [(Some(CompactionReason::Idle), true)]);
}

#[tokio::test(start_paused = true)]
async fn conditions_beside_the_time_are_asked_at_that_time() {
    let idle = || IdleTrigger::new(MINUTE).unwrap();
    for (limit, compacted) in [(1_000_000, 0), (10, 1)] {
        let events = Events::default();
        let both = idle().and(BudgetTrigger::at_limit(Tokens(limit)).unwrap());
        let agent = agent(keeping(1).compaction_trigger(both), talkative(), &events);
        let session = agent.session("s");
        session.send("one").await.unwrap();
        session.send("two").await.unwrap();
        pass(60 * MINUTE).await;
        assert_eq!(between_turns(&events).len(), compacted, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_knows_no_time_is_not_asked_between_turns() {
    let (asked, events) = (Arc::new(AtomicUsize::new(0)), Events::default());
    let count = Arc::clone(&asked);
    let counting = keeping(1).trigger(Box::new(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        None
    }));
    let session = agent(counting, talkative(), &events).session("s");
    session.send("hello").await.unwrap();
    let before = asked.load(Ordering::Relaxed);
    pass(600 * MINUTE).await;
    assert_eq!(asked.load(Ordering::Relaxed), before);
}

/// Says that it began, and never ends.
struct Endless(Arc<Notify>);

#[async_trait]
impl CompactionStrategy for Endless {
    async fn compact(
        &self,
        _request: CompactionRequest,
        _context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        self.0.notify_one();
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_does_not_wait_for_what_only_the_clock_asked_for() {
    let (began, events) = (Arc::new(Notify::new()), Events::default());
    let endless = StrategyCompactor::builder()
        .strategy(Endless(Arc::clone(&began)))
        .compaction_trigger(IdleTrigger::new(MINUTE).unwrap());
    let session = agent(endless, talkative(), &events).session("s");
    session.send("hello").await.unwrap();
    began.notified().await;
    session.send("are you there?").await.unwrap();
    assert_eq!(session.view().len(), 4);
    let pairs = events.all().into_iter().filter_map(|event| match event {
        AgentEvent::MutationStarted { .. } => Some("started"),
        AgentEvent::MutationFinished { failure: Some(_), dirty: false, .. } => Some("stopped"),
        _ => None,
    });
    assert_eq!(pairs.collect::<Vec<_>>(), ["started", "stopped"]);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_conversation_is_idle_from_the_start() {
    let events = Events::default();
    let idle = || keeping(2).compaction_trigger(IdleTrigger::new(10 * MINUTE).unwrap());
    let view = {
        let session = agent(idle(), talkative(), &events).session("s");
        for n in 0..5 {
            session.send(format!("question {n}")).await.unwrap();
        }
        session.view()
    };
    pass(600 * MINUTE).await;
    assert_eq!(between_turns(&events), [], "nobody holds the session any more");
    let session = agent(idle(), talkative(), &events).resume("s", view);
    pass(11 * MINUTE).await;
    assert_eq!(session.view().len(), 2);
}
