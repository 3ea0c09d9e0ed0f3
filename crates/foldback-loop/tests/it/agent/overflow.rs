//! A provider that rejects requests for their length.

use std::sync::Arc;

use foldback_core::{Budget, Item, KeepRecentStrategy, LadderStrategy, MutationPoint, Tokens};
use foldback_engine::BackendError;
use foldback_loop::{Agent, AgentBuilderCompactorExt, AgentEvent, AgentLimits, LoopError};

use crate::agent::support::*;

/// Rejects whatever holds more bytes of text than this.
fn rejecting(bytes_max: usize, limit: Option<Tokens>) -> Script {
    Script::new(move |_, items: &[Arc<Item>]| match text(items).len() > bytes_max {
        true => Reply::Fail(BackendError::Overflow { limit }),
        false => Reply::Say("fine"),
    })
}

#[tokio::test]
async fn a_rejected_request_is_compacted_and_sent_again_though_no_trigger_fired() {
    let model = rejecting(30_000, Some(Tokens(8_000)));
    let events = Events::default();
    let budget = Budget::builder(Tokens(200_000)).build().unwrap();
    let agent = Agent::builder()
        .model(model.clone())
        .compactor(Strategic::new(LadderStrategy::new(), |_, _| None))
        .budget(budget)
        .observer(events.observer())
        .build()
        .unwrap();
    let session = agent.session("s");
    for n in 0..6 {
        session.push(Item::user(format!("u{n}"), format!("file {n}: {}", "word ".repeat(2_000)))).unwrap();
    }
    assert_eq!(session.send("go").await.unwrap().text, "fine");
    assert!(model.requests().len() >= 2);
    let rejected = |event: &AgentEvent| matches!(event, AgentEvent::RequestRejected { .. });
    assert!(events.all().iter().any(rejected));
    let at_rejection = |event: &AgentEvent| {
        matches!(
            event,
            AgentEvent::MutationFinished { point: MutationPoint::AfterRequestRejected, dirty: true, .. }
        )
    };
    assert!(events.all().iter().any(at_rejection));
}

#[tokio::test]
async fn recoveries_are_bounded_and_the_error_says_what_was_tried() {
    let model = rejecting(0, None);
    let limits = AgentLimits { recoveries_max: 3, ..AgentLimits::default() };
    let agent = Agent::builder()
        .model(model.clone())
        .compactor(Strategic::new(KeepRecentStrategy::new(1), |_, _| None))
        .limits(limits)
        .build()
        .unwrap();
    let session = agent.session("s");
    for n in 0..6 {
        session.push(Item::user(format!("u{n}"), "word ".repeat(100))).unwrap();
    }
    let error = session.send("go").await.unwrap_err();
    let LoopError::ContextOverflow { limit: None, tried } = &error else { panic!("{error}") };
    assert_eq!(tried.len(), 3);
    assert_eq!(tried[0].mutators, ["compactor"]);
    assert!(tried[1].mutators.is_empty());
    assert!(model.requests().len() <= 2, "what did not get shorter is not sent again");
    assert!(error.to_string().contains("no mutator changed anything"), "{error}");
}

#[tokio::test]
async fn without_anybody_to_compact_a_rejection_is_an_error_at_once() {
    let model = rejecting(0, Some(Tokens(10)));
    let agent = Agent::builder().model(model.clone()).build().unwrap();
    let error = agent.session("s").send("go").await.unwrap_err();
    assert!(matches!(error, LoopError::ContextOverflow { limit: Some(Tokens(10)), .. }), "{error}");
    assert_eq!(model.requests().len(), 1);
}
