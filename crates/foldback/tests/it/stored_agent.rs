//! An agent in a stored session: what is said survives the process, and one configuration says how sessions
//! and conversations in memory are compacted. The store is a real one, in a file.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use foldback::agent::{
    Agent, AgentBuilder, AgentEvent, FnTool, LoopError, Model, ModelAnswer, ModelRequest, OnDelta, RecallTool,
};
use foldback::engine::session::{
    BlockCompactionStrategy, CompactedSection, CompactionConfig, LoopPlace, LoopTurns, StoredSession,
    StoredSessionError,
};
use foldback::engine::{BackendError, CancellationToken, CompactionError, CompactionHooks, async_trait};
use foldback::serde_json::json;
use foldback::store::SqliteStore;
use foldback::{
    CompactionReason, Dialect, Handle, Item, ItemKind, KeepRecentStrategy, Part, Tokens, ToolResult,
    TurnRange, check_request,
};
use tempfile::TempDir;

const WINDOW: Tokens = Tokens(6_000);
const RULE: &str = "Rule: never touch the generated files.";

type Requests = Arc<Mutex<Vec<Vec<Arc<Item>>>>>;

/// Calls a tool for every question, then answers. Refuses what a provider would refuse.
#[derive(Clone, Default)]
struct Script {
    requests: Requests,
    /// Rejects requests of more than so many items.
    items_max: Option<usize>,
    /// What it does instead of calling `read`.
    calls: Option<fn(&str) -> Part>,
}

impl Script {
    fn requests(&self) -> Vec<Vec<Arc<Item>>> {
        self.requests.lock().unwrap().clone()
    }

    fn last(&self) -> Vec<Arc<Item>> {
        self.requests().pop().unwrap()
    }
}

#[async_trait]
impl Model for Script {
    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        _on_delta: &mut OnDelta<'_>,
        _cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        assert_eq!(check_request(request.items, self.dialect()), []);
        if self.items_max.is_some_and(|items_max| request.items.len() > items_max) {
            return Err(BackendError::Overflow { limit: None });
        }
        self.requests.lock().unwrap().push(request.items.to_vec());
        let newest = request.items.last().unwrap();
        Ok(ModelAnswer::new(match newest.kind {
            ItemKind::Tool => vec![Part::text("I have read it. ".repeat(10))],
            _ => vec![match self.calls {
                Some(call) => call(&text(newest)),
                None => Part::call("", "read", &json!({"path": "src/lib.rs"})),
            }],
        }))
    }

    fn name(&self) -> &str {
        "script"
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(Dialect::Anthropic)
    }
}

fn text(item: &Item) -> String {
    let texts = item.parts.iter().map(|part| match part {
        Part::Text(text) => text.to_string(),
        Part::ToolResult(result) => {
            result.content.iter().filter_map(|part| part.as_text()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn tokens(items: &[Arc<Item>]) -> Tokens {
    let mut transcript = foldback::Transcript::default();
    transcript.extend(items.iter().cloned());
    transcript.tokens()
}

fn builder(model: &Script) -> AgentBuilder {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let read = FnTool::new("read", "Reads a file.", schema, async |_, _| {
        Ok("pub fn parse(input: &str) -> Tree {}\n".repeat(30).into())
    });
    Agent::builder()
        .model(model.clone())
        .tool(read)
        .tool(RecallTool::new().bytes_max(2_000))
        .system("You are careful.")
}

fn compacting(model: &Script) -> Agent {
    builder(model).compaction(CompactionConfig::default(), WINDOW).build().unwrap()
}

/// As a process that was just started would open it.
async fn opened(folder: &Path) -> StoredSession {
    let store = SqliteStore::open(folder.join("sessions.db")).await.unwrap();
    StoredSession::open_or_create(Arc::new(store), "work").await.unwrap()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_session_goes_on_after_a_restart_as_if_there_had_been_none() {
    let folder = folder();
    let first = Script::default();
    let session = compacting(&first).open(opened(folder.path()).await).await.unwrap();
    session.send(RULE).await.unwrap();
    for number in 0..30 {
        session.send(format!("question {number}")).await.unwrap();
    }
    let left = session.view();
    assert!(left.len() < left.transcript().len(), "it was compacted");
    drop(session);

    let second = Script::default();
    let session = compacting(&second).open(opened(folder.path()).await).await.unwrap();
    let found = session.view();
    assert!(found.items().eq(left.items()) && found.transcript().items().eq(left.transcript().items()));
    session.send("and now?").await.unwrap();
    let request = &second.requests()[0];
    assert!(request[..request.len() - 1].iter().eq(left.items()));
    assert!(request.iter().any(|item| text(item).contains(RULE)));
    let view = session.view();
    let calls: Vec<_> =
        view.transcript().items().flat_map(|item| item.calls().map(|(_, call)| &call.id)).collect();
    assert_eq!(calls.iter().collect::<std::collections::BTreeSet<_>>().len(), calls.len());
}

#[tokio::test]
async fn every_request_of_a_long_session_fits_and_undo_is_undone_in_the_store_too() {
    let folder = folder();
    let model = Script::default();
    let agent = compacting(&model);
    let session = agent.open(opened(folder.path()).await).await.unwrap();
    for number in 0..40 {
        session.send(format!("question {number}")).await.unwrap();
    }
    assert!(model.requests().iter().all(|request| tokens(request) < WINDOW));
    let blocks = session.view().overlay().blocks().len();
    assert!(blocks > 1);
    session.undo().await.unwrap().expect("there is a compaction");
    let undone = session.view();
    assert!(undone.overlay().blocks().len() < blocks);
    drop(session);
    let stored = opened(folder.path()).await.view().await.unwrap();
    assert!(stored.items().eq(undone.items()));
}

#[tokio::test]
async fn a_call_that_was_running_when_the_process_died_is_answered_as_interrupted() {
    let folder = folder();
    let model = Script { calls: Some(|_| Part::call("c1", "hang", &json!({}))), ..Script::default() };
    let begun = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&begun);
    let hang = FnTool::new("hang", "Hangs.", json!({"type": "object"}), move |_, _| {
        tell.notify_one();
        std::future::pending()
    });
    let agent = Agent::builder().model(model).tool(hang).build().unwrap();
    let session = agent.open(opened(folder.path()).await).await.unwrap();
    let turn = tokio::spawn(async move { session.send("go on").await });
    begun.notified().await;
    // What the store has now is what a killed process leaves.
    let left = opened(folder.path()).await.view().await.unwrap();
    assert_eq!(left.pending_calls().count(), 1);
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join("sessions.db"), copy.path().join("sessions.db")).unwrap();
    for suffix in ["-wal", "-shm"] {
        let name = format!("sessions.db{suffix}");
        let _ = std::fs::copy(folder.path().join(&name), copy.path().join(&name));
    }
    turn.abort();
    let model = Script::default();
    let session = compacting(&model).open(opened(copy.path()).await).await.unwrap();
    session.send("what happened?").await.unwrap();
    let answer = model.requests()[0].iter().map(|item| text(item)).collect::<String>();
    assert!(answer.contains("interrupted before the tool answered"), "{answer}");
}

/// Says of every loop that it was compacted.
struct Told;

#[async_trait]
impl BlockCompactionStrategy for Told {
    async fn keep_compacted(
        &self,
        messages: LoopTurns<'_>,
        _config: &CompactionConfig,
        place: LoopPlace,
    ) -> Result<Option<CompactedSection>, CompactionError> {
        let kept = if place == LoopPlace::Older { 0 } else { 2 };
        let Some(last) = messages.turns.turn_count().checked_sub(1 + kept) else { return Ok(None) };
        let range = TurnRange::new(0, last).unwrap();
        let summary = Item::text("told", ItemKind::Context, format!("{place:?}: told by the host's service"));
        Ok(Some(CompactedSection { range, messages: vec![summary.into()] }))
    }
}

fn choosing() -> CompactionConfig {
    CompactionConfig {
        block_strategy: Arc::new(Told),
        in_memory_strategy: Arc::new(KeepRecentStrategy::new(4)),
        ..CompactionConfig::default()
    }
}

fn strategies(events: &Mutex<Vec<AgentEvent>>) -> Vec<String> {
    let started = |event: &AgentEvent| match event {
        AgentEvent::MutationStarted { strategy, .. } => Some(strategy.clone()),
        _ => None,
    };
    let mut strategies: Vec<String> = events.lock().unwrap().iter().filter_map(started).collect();
    strategies.dedup();
    strategies
}

#[tokio::test]
async fn with_a_session_the_block_strategy_compacts_and_without_one_the_in_memory_strategy() {
    let folder = folder();
    let (model, events) = (Script::default(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&events);
    let agent = builder(&model)
        .compaction(choosing(), WINDOW)
        .observer(move |_: &_, event: &AgentEvent| seen.lock().unwrap().push(event.clone()))
        .build()
        .unwrap();
    let in_memory = agent.session("in memory");
    for number in 0..20 {
        in_memory.send(format!("question {number}")).await.unwrap();
    }
    assert_eq!(strategies(&events), ["keep-recent(4)"]);
    events.lock().unwrap().clear();
    let session = agent.open(opened(folder.path()).await).await.unwrap();
    for number in 0..20 {
        session.send(format!("question {number}")).await.unwrap();
    }
    assert_eq!(strategies(&events), ["Told"]);
    assert!(model.last().iter().any(|item| text(item).contains("MostRecent: told by the host's service")));
}

#[tokio::test]
async fn earlier_loops_are_seen_before_the_current_one_and_recalled_by_handle_and_by_words() {
    let folder = folder();
    let mut stored = opened(folder.path()).await;
    for number in 0..12 {
        let call = format!("c{number}");
        let output = format!("the gauge of pipe {number} is {}\n", 100 + number).repeat(20);
        let items = [
            Item::user(format!("u{number}"), format!("measure pipe {number}")),
            Item::assistant(format!("a{number}"), vec![Part::call(&*call, "measure", &json!({}))]),
            Item::tool(format!("t{number}"), ToolResult::text(&*call, output)),
            Item::assistant(format!("e{number}"), vec![Part::text("measured")]),
        ];
        stored.append(&items.map(Arc::new)).await.unwrap();
    }
    stored.begin_loop().await.unwrap();
    let model = Script::default();
    let session = compacting(&model).open(stored).await.unwrap();
    for number in 0..20 {
        session.send(format!("question {number}")).await.unwrap();
    }
    assert!(model.requests().iter().all(|request| tokens(request) < WINDOW));
    let request = model.last();
    let summary = request.iter().find_map(|item| item.summary.as_ref()).expect("the earlier loop is folded");
    let (recorded, handle) = (session.view().transcript().len(), summary.handle.clone());
    drop(session);

    static HANDLE: Mutex<Option<Handle>> = Mutex::new(None);
    *HANDLE.lock().unwrap() = Some(handle);
    let asks = |question: &str| match question {
        "by words" => Part::call("", "recall", &json!({"query": "gauge pipe 7"})),
        _ => {
            let handle = HANDLE.lock().unwrap().clone().unwrap().to_string();
            Part::call("", "recall", &json!({ "handle": handle }))
        }
    };
    let model = Script { calls: Some(asks), ..Script::default() };
    let session = compacting(&model).open(opened(folder.path()).await).await.unwrap();
    assert_eq!(session.view().transcript().len(), recorded, "the earlier loop is not copied");
    session.send("by handle").await.unwrap();
    let answer = text(model.last().last().unwrap());
    assert!(answer.contains("the gauge of pipe 0 is 100"), "{answer}");
    session.send("by words").await.unwrap();
    assert!(text(model.last().last().unwrap()).contains("the gauge of pipe 7 is 107"));
}

#[tokio::test]
async fn hooks_run_around_a_session_compaction_and_may_say_no() {
    let folder = folder();
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, reasons) = (Arc::clone(&asked), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&reasons);
    let hooks = CompactionHooks::default().before_compaction_start(move |request| {
        seen.lock().unwrap().push(request.reason.clone());
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => Err("the index is being written".to_owned()),
            _ => Ok(()),
        }
    });
    let (model, failures) = (Script::default(), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&failures);
    let agent = builder(&model)
        .compaction(CompactionConfig { hooks, ..CompactionConfig::default() }, Tokens(100_000))
        .observer(move |_: &_, event: &AgentEvent| {
            if let AgentEvent::MutationFinished { failure: Some(failure), .. } = event {
                told.lock().unwrap().push(failure.clone());
            }
        })
        .build()
        .unwrap();
    let session = agent.open(opened(folder.path()).await).await.unwrap();
    for number in 0..30 {
        session.send(format!("question {number}")).await.unwrap();
    }
    let before = session.view();
    assert_eq!(session.compact(None).await.unwrap().dirty, Vec::<String>::new());
    assert!(session.view().items().eq(before.items()));
    assert!(failures.lock().unwrap()[0].contains("the index is being written"));
    assert_eq!(session.compact(None).await.unwrap().dirty, ["compactor"]);
    assert!(session.view().tokens() < before.tokens());
    assert_eq!(*reasons.lock().unwrap(), [CompactionReason::Manual, CompactionReason::Manual]);
}

/// Never answers, and does not hear that it is to stop.
struct Deaf(Arc<tokio::sync::Notify>);

#[async_trait]
impl BlockCompactionStrategy for Deaf {
    async fn keep_compacted(
        &self,
        _messages: LoopTurns<'_>,
        _config: &CompactionConfig,
        _place: LoopPlace,
    ) -> Result<Option<CompactedSection>, CompactionError> {
        self.0.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_compaction_that_is_interrupted_leaves_a_session_that_goes_on_and_is_stored() {
    let folder = folder();
    let begun = Arc::new(tokio::sync::Notify::new());
    let block_strategy = Arc::new(Deaf(Arc::clone(&begun)));
    let config = CompactionConfig { block_strategy, ..CompactionConfig::default() };
    let model = Script::default();
    let agent = builder(&model).compaction(config, Tokens(100_000)).build().unwrap();
    let session = agent.open(opened(folder.path()).await).await.unwrap();
    session.send("one").await.unwrap();
    let (round, ()) = tokio::join!(session.compact(None), async {
        begun.notified().await;
        session.interrupt();
    });
    assert_eq!(round.unwrap().failures, ["the mutator was stopped"]);
    session.send("two").await.unwrap();
    let stored = opened(folder.path()).await.view().await.unwrap();
    assert!(stored.items().eq(session.view().items()));
}

#[tokio::test]
async fn a_rejected_request_is_made_to_fit_by_the_block_strategy() {
    let folder = folder();
    let model = Script { items_max: Some(60), ..Script::default() };
    let agent = builder(&model).compaction(CompactionConfig::default(), Tokens(200_000)).build().unwrap();
    let session = agent.open(opened(folder.path()).await).await.unwrap();
    for number in 0..40 {
        session.send(format!("question {number}")).await.unwrap();
    }
    assert!(!session.view().overlay().blocks().is_empty());
}

#[tokio::test]
async fn another_process_in_the_same_loop_is_noticed_before_anything_is_mixed() {
    let folder = folder();
    let model = Script::default();
    let session = compacting(&model).open(opened(folder.path()).await).await.unwrap();
    session.send("one").await.unwrap();
    let intruder = [Arc::new(Item::user("other", "from another process"))];
    opened(folder.path()).await.append(&intruder).await.unwrap();
    let error = session.send("two").await.unwrap_err();
    assert!(matches!(error, LoopError::Session(StoredSessionError::ChangedElsewhere { .. })), "{error}");
    drop(session);
    let session = compacting(&model).open(opened(folder.path()).await).await.unwrap();
    session.send("three").await.unwrap();
    assert!(model.last().iter().any(|item| text(item) == "from another process"));
}

#[tokio::test]
async fn what_is_pushed_between_turns_is_stored_when_asked_for() {
    let folder = folder();
    let session = compacting(&Script::default()).open(opened(folder.path()).await).await.unwrap();
    session.push(Item::new("n1", ItemKind::Notification, vec![Part::text("the build is done")])).unwrap();
    session.save().await.unwrap();
    let stored = opened(folder.path()).await.view().await.unwrap();
    assert!(stored.items().any(|item| text(item) == "the build is done"));
    assert_eq!(stored.items().next().unwrap().kind, ItemKind::System);
}
