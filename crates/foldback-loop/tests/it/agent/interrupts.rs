//! Stopping: the transcript is whole whatever is stopped, and the next turn goes on.

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{FinishReason, MutationPoint};
use foldback_loop::{
    Agent, AgentEvent, AgentSession, LoopError, LoopMutator, Mutation, MutationContext, MutatorError, Staged,
    Tool, ToolContext, ToolError, ToolOutput,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::agent::support::*;

/// A tool that says it was called and never ends by itself.
#[derive(Debug)]
struct Forever(Arc<Notify>);

#[async_trait]
impl Tool for Forever {
    fn name(&self) -> &str {
        "shell"
    }

    fn description(&self) -> &str {
        "Runs for ever."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }

    async fn call(&self, input: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.notify_one();
        match input["command"].as_str() {
            Some("quick") => Ok("quick was done".into()),
            Some("polite") => {
                context.cancellation.cancelled().await;
                Ok("stopped half way".into())
            }
            _ => std::future::pending().await,
        }
    }
}

/// Takes note of the points at which it ran.
#[derive(Debug, Default)]
struct Points(Arc<std::sync::Mutex<Vec<(MutationPoint, bool)>>>);

#[async_trait]
impl LoopMutator for Points {
    fn label(&self) -> &str {
        "points"
    }

    async fn mutate(
        &self,
        _staged: &mut Staged,
        context: &MutationContext<'_>,
    ) -> Result<Mutation, MutatorError> {
        self.0.lock().unwrap().push((context.point, context.cancellation.is_cancelled()));
        Ok(Mutation::done())
    }
}

fn calling() -> Script {
    Script::new(|index, _| match index {
        0 => Reply::Parts(vec![call("c1", "quick"), call("c2", "polite"), call("c3", "stubborn")]),
        _ => Reply::Say("going on"),
    })
}

async fn results(session: &AgentSession) -> Vec<(String, bool)> {
    let view = session.view();
    let results = view.items().flat_map(|item| item.results());
    results.map(|(_, result)| (result.first_line().to_owned(), result.is_error)).collect()
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_gives_every_pending_call_a_result_and_runs_the_mutators() {
    let (model, called, points) = (calling(), Arc::new(Notify::new()), Points::default());
    let seen = Arc::clone(&points.0);
    let agent = Agent::builder()
        .model(model.clone())
        .tool(Forever(Arc::clone(&called)))
        .mutator(points)
        .build()
        .unwrap();
    let session = agent.session("s");
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.send("go").await }
    });
    called.notified().await;
    session.interrupt();
    let error = turn.await.unwrap().unwrap_err();
    assert!(matches!(error, LoopError::Interrupted), "{error}");
    let results = results(&session).await;
    assert_eq!(results[0], ("quick was done".to_owned(), false));
    assert_eq!(results[1], ("stopped half way".to_owned(), false));
    assert!(results[2].1 && results[2].0.starts_with("interrupted"), "{results:?}");
    assert_eq!(*seen.lock().unwrap(), [(MutationPoint::AfterTurnEnded, false)]);
    assert_eq!(session.send("go on").await.unwrap().text, "going on");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_host_ends_the_turn_and_leaves_the_transcript_whole() {
    let (cancellation, called, points) =
        (CancellationToken::new(), Arc::new(Notify::new()), Points::default());
    let seen = Arc::clone(&points.0);
    let agent = Agent::builder()
        .model(calling())
        .tool(Forever(Arc::clone(&called)))
        .mutator(points)
        .cancellation(cancellation.clone())
        .build()
        .unwrap();
    let session = agent.session("s");
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.send("go").await }
    });
    called.notified().await;
    cancellation.cancel();
    assert!(matches!(turn.await.unwrap().unwrap_err(), LoopError::Cancelled));
    assert_eq!(results(&session).await.len(), 3);
    assert_eq!(*seen.lock().unwrap(), [(MutationPoint::AfterTurnEnded, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_turn_leaves_no_call_without_a_result() {
    let (model, called) = (calling(), Arc::new(Notify::new()));
    let agent = Agent::builder().model(model.clone()).tool(Forever(Arc::clone(&called))).build().unwrap();
    let session = agent.session("s");
    tokio::select! {
        _ = session.send("go") => panic!("the tool never ends"),
        () = called.notified() => {}
    }
    let results = results(&session).await;
    assert_eq!(results.len(), 3);
    assert_eq!(session.view().pending_calls().count(), 0);
    assert_eq!(session.send("go on").await.unwrap().text, "going on");
}

#[tokio::test(start_paused = true)]
async fn what_an_interrupted_answer_said_is_kept() {
    let model = Script::new(|index, _| match index {
        0 => Reply::Hang("The answer is 4"),
        _ => Reply::Say("as I said"),
    });
    let agent = Agent::builder().model(model.clone()).build().unwrap();
    let session = agent.session("s");
    let mut stream = session.stream("what is it?");
    while let Some(event) = stream.next().await {
        if let AgentEvent::TextDelta { .. } = event {
            session.interrupt();
        }
    }
    assert!(matches!(stream.finish().await.unwrap_err(), LoopError::Interrupted));
    let view = session.view();
    let last = view.items().last().unwrap();
    assert_eq!(last.finish_reason, Some(FinishReason::Interrupted));
    session.send("go on").await.unwrap();
    assert!(text(&model.requests()[1]).contains("The answer is 4"));
}
