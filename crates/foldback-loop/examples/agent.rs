//! An agent whose conversation outgrows it, compacted in three ways: by rules alone, by keeping what
//! is recent and summarising the rest, and by an agent that writes the summary.
//!
//! `cargo run -p foldback-loop --example agent`
//!
//! The models are scripted, so it runs offline; put a `ModelClient` in their place for real ones.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use foldback_core::{
    DropFailedToolResultsStrategy, DropReasoningStrategy, Item, ItemKind, KeepRecentStrategy, Part,
    SessionId, SummarizeOlderStrategy,
};
use foldback_engine::{BackendError, CompactionPipeline, Compactor, DigestBackend, StrategyCompactor};
use foldback_loop::{
    Agent, AgentBuilderCompactorExt, AgentCompactor, AgentEvent, Model, ModelAnswer, ModelRequest, OnDelta,
    RecallTool, Tool, ToolContext, ToolError, ToolOutput,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Reads one file per question, then answers.
#[derive(Debug, Default)]
struct Reader {
    asked_count: AtomicUsize,
}

#[async_trait]
impl Model for Reader {
    async fn ask(
        &self,
        _request: &ModelRequest<'_>,
        _on_delta: &mut OnDelta<'_>,
        _cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        let count = self.asked_count.fetch_add(1, Ordering::Relaxed);
        let parts = match count % 2 {
            0 => {
                let input = json!({"path": format!("src/module_{count}.rs")});
                let call = Part::call(format!("call-{count}"), "read_file", &input);
                vec![Part::reasoning("I should look at the file before I answer."), call]
            }
            _ => vec![Part::text(format!("Module {count} parses, checks and prints what it was given."))],
        };
        Ok(ModelAnswer { item: Item::assistant("answer", parts), usage: None, finish: None, model: None })
    }

    fn name(&self) -> &str {
        "reader"
    }
}

/// Writes a summary of whatever it is shown.
#[derive(Debug)]
struct Writer;

#[async_trait]
impl Model for Writer {
    async fn ask(
        &self,
        _request: &ModelRequest<'_>,
        _on_delta: &mut OnDelta<'_>,
        _cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        let text = "## Task: explain the modules of the parser\n## State: the first modules are explained";
        let item = Item::assistant("summary", vec![Part::text(text)]);
        Ok(ModelAnswer { item, usage: None, finish: None, model: None })
    }

    fn name(&self) -> &str {
        "writer"
    }
}

/// A file system that has every file, but one.
#[derive(Debug)]
struct ReadFile;

#[async_trait]
impl Tool for ReadFile {
    fn name(&self) -> &str {
        "read_file"
    }

    fn description(&self) -> &str {
        "Returns the content of a file."
    }

    fn input_schema(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
    }

    async fn call(&self, input: Value, _context: ToolContext) -> Result<ToolOutput, ToolError> {
        match input["path"].as_str() {
            Some("src/module_4.rs") => Err(ToolError::new("no such file: src/module_4.rs")),
            Some(path) => {
                Ok(format!("// {path}\n{}", "pub fn parse(input: &str) -> Tree {}\n".repeat(30)).into())
            }
            None => Err(ToolError::new("give a path")),
        }
    }
}

fn structural() -> Result<StrategyCompactor, Box<dyn Error>> {
    let pipeline = CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(KeepRecentStrategy::new(8).preserve_kind(ItemKind::System));
    Ok(StrategyCompactor::builder().item_count_trigger(12).strategy(pipeline).build()?)
}

fn hybrid() -> Result<StrategyCompactor, Box<dyn Error>> {
    let pipeline = CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(SummarizeOlderStrategy::new(8).preserve_kind(ItemKind::System));
    Ok(StrategyCompactor::builder()
        .item_count_trigger(12)
        .strategy(pipeline)
        .backend(DigestBackend)
        .build()?)
}

fn nested() -> Result<StrategyCompactor, Box<dyn Error>> {
    let writer =
        AgentCompactor::builder().model(Writer).system("You are brief.").session_id("nested").build()?;
    let strategy = SummarizeOlderStrategy::new(8).preserve_kind(ItemKind::System);
    Ok(StrategyCompactor::builder().item_count_trigger(12).strategy(strategy).backend(writer).build()?)
}

fn show(_session_id: &SessionId, event: &AgentEvent) {
    if let AgentEvent::MutationFinished { point, dirty: true, tokens_before, tokens_after, .. } = event {
        println!("  compacted at {point:?}: {tokens_before} to {tokens_after} tokens");
    }
}

async fn talk(name: &str, compactor: impl Compactor + 'static) -> Result<(), Box<dyn Error>> {
    println!("{name}");
    let agent = Agent::builder()
        .model(Reader::default())
        .tool(ReadFile)
        .tool(RecallTool::new())
        .system("You explain code.")
        .compactor(compactor)
        .observer(show)
        .build()?;
    let session = agent.session(name);
    for question in 0..6 {
        session.send(format!("What does module {question} do?")).await?;
    }
    let view = session.view();
    println!("  {} items recorded, {} sent with the next request:", view.transcript().len(), view.len());
    for item in view.items() {
        let what: Vec<&str> = item.parts.iter().map(Part::kind_name).collect();
        let summary = if item.summary.is_some() { ", a summary" } else { "" };
        println!("    {} ({}{summary})", item.kind, what.join(", "));
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    talk("structural", structural()?).await?;
    talk("hybrid", hybrid()?).await?;
    talk("nested agent", nested()?).await?;
    Ok(())
}
