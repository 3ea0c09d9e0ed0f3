//! Policy, model and hooks together on a stored session: the host is asked and told once for what is stored.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use foldback_core::{Budget, Item, ItemKind, Metadata, Part, Policy, Room, Tokens, ToolResult, check};
use foldback_engine::session::{CompactionConfig, LOOP_KEY, LoopPlace, StoredSession};
use foldback_engine::{
    BackendError, CompactionBackend, CompactionContext, CompactionEvent, CompactionEventKind,
    CompactionObserver, Store, StrategyCompactor, SummaryRequest, SummaryResult,
};
use foldback_store::SqliteStore;
use tokio_util::sync::CancellationToken;

const TARGET: Tokens = Tokens(3_000);

/// What happened, a line each.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn count(&self, line: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|told| *told == line).count()
    }
}

impl CompactionObserver for Log {
    fn on_event(&self, event: &CompactionEvent) {
        match &event.kind {
            CompactionEventKind::CompactionStarted { .. } => self.push("started"),
            CompactionEventKind::CompactionEnded(report) => {
                self.push(format!("ended with {}", report.written_by.join(", ")));
            }
            CompactionEventKind::CompactionFailed { why, .. } => self.push(format!("failed: {why}")),
            _ => {}
        }
    }
}

/// Answers, or fails; while it is asked for the first time, somebody else compacts the same session.
#[derive(Debug)]
struct Model {
    is_failing: bool,
    meddles_with: Mutex<Option<StoredSession>>,
}

#[async_trait]
impl CompactionBackend for Model {
    async fn summarize(
        &self,
        _request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        let other = self.meddles_with.lock().unwrap().take();
        if let Some(mut other) = other {
            let budget = Budget::for_target(TARGET).unwrap();
            let (config, context) = (CompactionConfig::default(), CompactionContext::default());
            let compactor = compactor(&Log::default());
            other.compact_loops_with(&compactor, &config, budget, &context).await.unwrap();
            other.append(&said(9, 30)).await.unwrap();
        }
        if self.is_failing {
            return Err(BackendError::Unauthorized { status: 401 });
        }
        let items = vec![Item::text("answer", ItemKind::Context, "A parser was asked about.")];
        Ok(SummaryResult { items, ..SummaryResult::default() })
    }

    fn name(&self) -> &str {
        "model"
    }
}

/// A policy and hooks that write to the log.
fn compactor(log: &Log) -> StrategyCompactor {
    let budget = Budget::for_target(TARGET).unwrap();
    let (before, after) = (log.clone(), log.clone());
    StrategyCompactor::builder()
        .policy(&Policy::named("goose").unwrap(), Room::new(budget.window()))
        .budget(budget)
        .before_compaction_start(move |request| {
            before.push(format!("may {}?", request.metadata[LOOP_KEY]));
            Ok(())
        })
        .after_compaction_end(move |request, _| after.push(format!("did {}", request.metadata[LOOP_KEY])))
        .observer(log.clone())
        .build()
        .unwrap()
}

fn said(number: usize, count: usize) -> Vec<Arc<Item>> {
    let asked = "and what about src/parser.rs? ".repeat(20);
    let said = |turn| Item::user(format!("u{number}-{turn}"), asked.as_str());
    (0..count).map(|turn| Arc::new(said(turn))).collect()
}

/// Two loops of talk, of which the first is an older one.
async fn two_loops(folder: &tempfile::TempDir, broken: &[Arc<Item>]) -> StoredSession {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("s.db")).await.unwrap());
    let mut session = StoredSession::create(store, "talk", Metadata::new()).await.unwrap();
    session.append(&said(0, 20)).await.unwrap();
    session.append(broken).await.unwrap();
    session.append(&said(1, 20)).await.unwrap();
    session.begin_loop().await.unwrap();
    session.append(&said(2, 40)).await.unwrap();
    session
}

async fn compact(session: &mut StoredSession, log: &Log, model: Model) -> Vec<LoopPlace> {
    let config = CompactionConfig::default();
    let budget = Budget::for_target(TARGET).unwrap();
    let context = CompactionContext::default().with_backend(model);
    let done = session.compact_loops_with(&compactor(log), &config, budget, &context).await.unwrap();
    let shown = session.context(&config, budget.window()).await.unwrap();
    assert_eq!(shown.tokens, done.tokens_after);
    assert!(shown.tokens <= TARGET);
    done.loops.iter().map(|done| done.place).collect()
}

fn model(is_failing: bool) -> Model {
    Model { is_failing, meddles_with: Mutex::default() }
}

#[tokio::test]
async fn a_policy_a_model_and_hooks_work_together_for_every_loop() {
    for (is_failing, writer) in [(false, "model"), (true, "digest")] {
        let (folder, log) = (tempfile::tempdir().unwrap(), Log::default());
        let mut session = two_loops(&folder, &[]).await;
        let places = compact(&mut session, &log, model(is_failing)).await;
        assert_eq!(places, [LoopPlace::Older, LoopPlace::MostRecent]);
        let ended = format!("ended with {writer}");
        let expected = ["started", "may \"talk-0\"?", "started", "may \"talk-1\"?"];
        let expected =
            expected.into_iter().chain([ended.as_str(), "did \"talk-0\"", &ended, "did \"talk-1\""]);
        assert_eq!(*log.0.lock().unwrap(), expected.collect::<Vec<_>>());
        let told = log.0.lock().unwrap().len();
        assert_eq!(compact(&mut session, &log, model(is_failing)).await, []);
        assert_eq!(log.0.lock().unwrap().len(), told, "what changes nothing is not told");
    }
}

#[tokio::test]
async fn whoever_writes_meanwhile_the_host_is_asked_and_told_once() {
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::default());
    let mut session = two_loops(&folder, &[]).await;
    let other = StoredSession::open(Arc::clone(session.store()), session.id()).await.unwrap();
    let model = Model { is_failing: false, meddles_with: Mutex::new(Some(other)) };
    let places = compact(&mut session, &log, model).await;
    assert!(places.contains(&LoopPlace::MostRecent), "{places:?}");
    for line in ["may \"talk-0\"?", "may \"talk-1\"?", "did \"talk-1\""] {
        assert_eq!(log.count(line), 1, "{line}: {log:?}");
    }
    let ended = log
        .0
        .lock()
        .unwrap()
        .iter()
        .filter(|line| line.starts_with("ended") || line.starts_with("failed"))
        .count();
    assert_eq!((log.count("started"), ended), (2, 2), "what begins is said to end: {log:?}");
}

#[tokio::test]
async fn a_repair_of_an_older_loop_is_stored_and_seen_only_in_its_place() {
    let stray = Item::tool("stray", ToolResult::text("nobody", "out of nowhere"));
    let pinned = Item::tool("pinned", ToolResult::text("nobody-either", "kept as it is")).pinned();
    let answer = Item::assistant("a", vec![Part::text("because")]);
    let broken = [answer, stray, pinned].map(Arc::new);
    let (folder, log) = (tempfile::tempdir().unwrap(), Log::default());
    let mut session = two_loops(&folder, &broken).await;
    let (older, current) = ("talk-0".into(), session.current().clone());
    session.resume(&older).await.unwrap();
    let seen: Vec<Arc<Item>> = session.view().await.unwrap().items().cloned().collect();
    session.resume(&current).await.unwrap();

    assert_eq!(compact(&mut session, &log, model(false)).await, [LoopPlace::Older, LoopPlace::MostRecent]);
    assert_eq!(compact(&mut session, &log, model(false)).await, []);
    let budget = Budget::for_target(TARGET).unwrap();
    let shown = session.context(&CompactionConfig::default(), budget.window()).await.unwrap();
    assert!(shown.repairs.is_empty() && check(&shown.items, None).is_empty());
    let memory = session.load().await.unwrap();
    let record = memory.record(&older).unwrap();
    assert!(record.transcript().len() > seen.len(), "the repaired items are recorded");
    let in_memory = record.view(LoopPlace::Older).unwrap();
    assert!(shown.items.iter().take(in_memory.len()).eq(in_memory.items()));

    session.resume(&older).await.unwrap();
    assert!(session.view().await.unwrap().items().eq(&seen), "a loop that is resumed is seen as it was left");
    let head = session.store().head(session.id(), &older).await.unwrap();
    assert_eq!(head.context(), seen);
    assert!(record.view(LoopPlace::MostRecent).unwrap().items().eq(&seen));
    assert!(session.store().verify(foldback_engine::store::Repairs::None).await.unwrap().is_clean());
}
