//! An agentkit agent reads forty files in a window that holds a few of them, and looks up the first one again.
//!
//! `cargo run --manifest-path adapters/Cargo.toml -p foldback-agentkit --example agentkit_rounds`
//!
//! The model is a script, so the example runs offline; the loop, its tools and its checks are agentkit's.
#![allow(clippy::print_stdout, clippy::expect_used, reason = "it shows what happens")]

mod scripted;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use agentkit_core::{Item, ItemKind, Part, ToolCallPart, ToolOutput, ToolResultPart};
use agentkit_loop::{
    Agent, AgentEvent, ContextRecoveryPolicy, LoopInterrupt, LoopObserver, LoopStep, ObservedEvent,
    SessionConfig,
};
use agentkit_tools_core::{Tool, ToolContext, ToolError, ToolRegistry, ToolRequest, ToolResult, ToolSpec};
use async_trait::async_trait;
use foldback::engine::StrategyCompactor;
use foldback::engine::recall::handles_in;
use foldback::{Policy, Room, Tokens};
use foldback_agentkit::{FoldbackMutator, RecallTool};
use serde_json::json;

use scripted::{Requests, ScriptedModel, tokens, unpaired};

/// What the model takes.
const WINDOW: usize = 12_000;
const FILE_COUNT: usize = 40;
const TASK: &str = "Which of the forty modules opens a socket? Never edit a generated file.";

/// A file system in which every file is there.
struct ReadFile(ToolSpec);

impl ReadFile {
    fn new() -> Self {
        let schema =
            json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        Self(ToolSpec::new("read_file", "Reads a file.", schema))
    }
}

fn file(path: &str) -> String {
    (0..60).map(|line| format!("{path}:{line}: let value_{line} = parse(input, {line})?;\n")).collect()
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn invoke(
        &self,
        request: ToolRequest,
        _context: &mut ToolContext<'_>,
    ) -> Result<ToolResult, ToolError> {
        let path = request.input["path"].as_str().unwrap_or_default();
        Ok(ToolResult::new(ToolResultPart::success(request.call_id, ToolOutput::text(file(path)))))
    }
}

/// Prints what the loop says of compactions.
struct Printer;

impl LoopObserver for Printer {
    fn handle_event(&self, event: ObservedEvent) {
        if let AgentEvent::MutationFinished { mutator, metadata, .. } = &event.event {
            let number = |name: &str| metadata.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
            let (before, after) = (number("tokens_before"), number("tokens_after"));
            println!("{mutator}: {before} → {after} tokens, {}", metadata["reason"]);
        }
    }
}

/// Reads one file after the other, then recalls the oldest, then answers.
fn answer(number: usize, transcript: &[Item]) -> Vec<Part> {
    let call =
        |name: &str, input| vec![Part::ToolCall(ToolCallPart::new(format!("call-{number}"), name, input))];
    match number {
        0..FILE_COUNT => call("read_file", json!({"path": format!("src/module_{number}.rs")})),
        FILE_COUNT => call("recall", json!({"handle": oldest_handle(transcript)})),
        _ => vec![Part::text("None of them opens a socket.")],
    }
}

/// The first name of something hidden, in a summary or in place of a result.
fn oldest_handle(transcript: &[Item]) -> String {
    let seen = serde_json::to_string(transcript).expect("items are JSON");
    handles_in(&seen).first().expect("forty files do not fit").to_string()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let policy = Policy::named("ladder").expect("the default policy");
    let room = Room::new(Tokens(WINDOW as u64));
    let mutator = FoldbackMutator::new(StrategyCompactor::builder().policy(&policy, room).build()?);
    let requests = Requests::default();
    let model = ScriptedModel { window: WINDOW, script: Arc::new(answer), requests: Arc::clone(&requests) };
    let agent = Agent::builder()
        .model(model)
        .add_tool_source(ToolRegistry::new().with(ReadFile::new()).with(RecallTool::new(&mutator)))
        .transcript(vec![Item::text(ItemKind::System, "You read code.")])
        .input(vec![Item::text(ItemKind::User, TASK)])
        .context_recovery(ContextRecoveryPolicy { max_attempts: 2, budget: Duration::from_secs(10) })
        .mutator(mutator)
        .observer(Printer)
        .build()?;
    let mut driver = agent.start(SessionConfig::new("rounds")).await?;
    let result = loop {
        match driver.next().await? {
            LoopStep::Finished(result) => break result,
            LoopStep::Interrupt(LoopInterrupt::AfterToolResult(_)) => {}
            LoopStep::Interrupt(other) => return Err(format!("nobody asked for {other:?}").into()),
        }
    };
    println!("{:?}", result.items.last().map(|item| &item.parts));
    check(&requests.lock().expect("nobody panics"));
    Ok(())
}

/// What has to be true of every request that the model was sent.
fn check(requests: &[Vec<Item>]) {
    assert_eq!(requests.len(), FILE_COUNT + 2, "no request was rejected");
    for (number, request) in requests.iter().enumerate() {
        assert!(tokens(request) <= WINDOW, "request {number} is longer than the window");
        assert_eq!(unpaired(request), [""; 0], "request {number}");
        let said = serde_json::to_string(request).expect("items are JSON");
        assert!(said.contains("Never edit a generated file."), "request {number} lost what the user said");
        let newest = format!("src/module_{}.rs", number.wrapping_sub(1));
        if (1..=FILE_COUNT).contains(&number) {
            let Some(Part::ToolResult(result)) = request.last().and_then(|item| item.parts.first()) else {
                panic!("request {number} ends in the newest result");
            };
            assert_eq!(result.output, ToolOutput::text(file(&newest)), "the newest result is as it was");
        }
    }
    let recalled = requests.last().and_then(|request| request.last()).expect("there were requests");
    let recalled = serde_json::to_string(recalled).expect("items are JSON");
    assert!(recalled.contains("src/module_0.rs:0: let value_0"), "the first file is read again: {recalled}");
}
