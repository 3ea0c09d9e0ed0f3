//! Tool calls: each gets exactly one result, whatever the tool does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use foldback_core::{Item, Part, ToolCall, ToolInput};
use foldback_loop::{Agent, AgentLimits, Tool, ToolContext, ToolError, ToolOutput};
use serde_json::{Value, json};

use crate::agent::support::*;

/// Waits until so many calls wait, or for ever.
#[derive(Debug)]
struct Meeting {
    barrier: tokio::sync::Barrier,
    running: AtomicUsize,
    running_most: AtomicUsize,
}

#[derive(Debug)]
struct Meet(Arc<Meeting>);

#[async_trait]
impl Tool for Meet {
    fn name(&self) -> &str {
        "meet"
    }

    fn description(&self) -> &str {
        "Waits for the others."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }

    async fn call(&self, input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.running_most.fetch_max(running, Ordering::SeqCst);
        self.0.barrier.wait().await;
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        Ok(format!("met {}", input["n"]).into())
    }
}

fn meeting(party: usize) -> Arc<Meeting> {
    Arc::new(Meeting {
        barrier: tokio::sync::Barrier::new(party),
        running: AtomicUsize::new(0),
        running_most: AtomicUsize::new(0),
    })
}

fn results(items: &[Arc<Item>]) -> Vec<(String, String, bool)> {
    let results = items.iter().flat_map(|item| item.results());
    results
        .map(|(_, result)| (result.call_id.to_string(), result.first_line().to_owned(), result.is_error))
        .collect()
}

fn meets(count: usize) -> Script {
    Script::new(move |index, _| match index {
        0 => {
            Reply::Parts((0..count).map(|n| Part::call(format!("c{n}"), "meet", &json!({"n": n}))).collect())
        }
        _ => Reply::Say("all met"),
    })
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_answer_run_at_the_same_time_and_results_stand_in_their_order() {
    let (model, meeting) = (meets(4), meeting(4));
    let agent = Agent::builder().model(model.clone()).tool(Meet(Arc::clone(&meeting))).build().unwrap();
    agent.session("s").send("go").await.unwrap();
    let expected: Vec<_> = (0..4).map(|n| (format!("c{n}"), format!("met {n}"), false)).collect();
    assert_eq!(results(&model.requests()[1]), expected);
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_the_same_time_than_allowed() {
    let (model, meeting) = (meets(6), meeting(2));
    let limits = AgentLimits { calls_parallel_max: 2, ..AgentLimits::default() };
    let agent =
        Agent::builder().model(model).tool(Meet(Arc::clone(&meeting))).limits(limits).build().unwrap();
    agent.session("s").send("go").await.unwrap();
    assert_eq!(meeting.running_most.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_too_long_is_an_error_result() {
    let model = meets(1);
    let agent = Agent::builder().model(model.clone()).tool(Meet(meeting(2))).build().unwrap();
    assert_eq!(agent.session("s").send("go").await.unwrap().text, "all met");
    let (_, line, is_error) = results(&model.requests()[1]).remove(0);
    assert!(is_error && line.contains("5000 ms"), "{line}");
}

#[tokio::test]
async fn errors_panics_unknown_tools_and_bad_arguments_are_error_results() {
    let model = Script::new(|index, _| match index {
        0 => Reply::Parts(vec![
            call("fails", "fail"),
            call("panics", "panic"),
            call("silent", "silent"),
            Part::call("unknown", "fly", &json!({})),
            Part::ToolCall(ToolCall {
                id: "cut-off".into(),
                name: "shell".into(),
                input: ToolInput::Text("{\"command\": \"l".into()),
                signature: None,
            }),
        ]),
        _ => Reply::Say("noted"),
    });
    let shell = Shell::new(|command| match command {
        "panic" => panic!("on purpose"),
        "silent" => Ok(String::new()),
        _ => Err("exit code 1".to_owned()),
    });
    let agent = Agent::builder().model(model.clone()).tool(shell).build().unwrap();
    assert_eq!(agent.session("s").send("go").await.unwrap().text, "noted");
    let results = results(&model.requests()[1]);
    let is_error: Vec<(&str, bool)> =
        results.iter().map(|(id, _, is_error)| (id.as_str(), *is_error)).collect();
    assert_eq!(
        is_error,
        [("fails", true), ("panics", true), ("silent", false), ("unknown", true), ("cut-off", true)]
    );
    assert_eq!(results[0].1, "exit code 1");
    assert_eq!(results[2].1, "(no output)");
    assert!(results[3].1.contains("there are: shell"), "{}", results[3].1);
}
