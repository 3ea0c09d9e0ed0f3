//! An agent with a model of its own, two tools, a session that survives a restart, a policy and recall.
use foldback::agent::{
    Agent, AgentBuilderCompactorExt, FnTool, Model, ModelAnswer, ModelRequest, OnDelta, RecallTool, ToolError,
};
use foldback::engine::{
    BackendError, CancellationToken, StrategyCompactor, async_trait, session::StoredSession,
};
use foldback::serde_json::json;
use foldback::{Part, Policy, Room, Tokens, store::SqliteStore};
use std::{error::Error, path::Path, sync::Arc};

/// Put a call to your provider here. This one reads a file for every question, then answers.
struct MyModel;

#[async_trait]
impl Model for MyModel {
    fn name(&self) -> &str {
        "my-model"
    }

    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        _: &mut OnDelta<'_>,
        _: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        let is_read = request.items.last().is_some_and(|item| item.results().next().is_some());
        let call = Part::call("", "read_file", &json!({"path": "src/main.rs"}));
        Ok(ModelAnswer::new(vec![if is_read { Part::text("It starts the program.") } else { call }]))
    }
}

/// One run of the program: opens the session and asks. Returns the tokens that are recorded, and seen.
async fn run(store: &Path, question_count: usize) -> Result<(Tokens, Tokens), Box<dyn Error>> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let read_file = FnTool::new("read_file", "Reads a file.", schema, async |input, _| {
        let path = input["path"].as_str().ok_or_else(|| ToolError::new("give `path`"))?;
        Ok(format!("// {path}\n{}", "fn main() { start(); }\n".repeat(80)).into())
    });
    let policy = Policy::named("ladder").ok_or("no such policy")?;
    let compactor = StrategyCompactor::builder().policy(&policy, Room::new(Tokens(16_000))).build()?;
    let agent = Agent::builder().model(MyModel).system("Never edit generated files.").compactor(compactor);
    let agent = agent.tool(read_file).tool(RecallTool::new()).build()?;
    let stored = StoredSession::open_or_create(Arc::new(SqliteStore::open(store).await?), "work").await?;
    let session = agent.open(stored).await?;
    for number in 0..question_count {
        session.send(format!("Question {number}: what does main do?")).await?;
    }
    Ok((session.view().transcript().tokens(), session.view().tokens()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (recorded, seen) = run(&folder.path().join("sessions.db"), 40).await?;
    assert!(seen < Tokens(16_000) && seen < recorded, "the model sees {seen} of {recorded} tokens");
    assert_eq!(run(&folder.path().join("sessions.db"), 0).await?, (recorded, seen), "after a restart");
    Ok(())
}
