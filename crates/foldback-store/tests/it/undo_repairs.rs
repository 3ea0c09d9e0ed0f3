//! Compactions of a stored session that had to repair the view first, undone and redone.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use foldback_core::{Budget, Dialect, Item, LadderStrategy, Metadata, Part, Tokens, ToolResult};
use foldback_engine::session::{CompactionConfig, StoredSession};
use foldback_engine::{CompactionContext, Store, StoreError, StrategyCompactor};
use foldback_store::{PostgresOptions, PostgresStore, SqliteStore};
use proptest::prelude::{Just, Strategy as Generator, prop, prop_oneof, proptest};

/// Long questions around a result that no call asked for.
fn items(from: usize) -> Vec<Arc<Item>> {
    let said = |n: usize| Item::user(format!("u{n}"), format!("question {n}: {}", "why so? ".repeat(60)));
    let answer = Item::assistant(format!("a{from}"), vec![Part::text("because")]);
    let stray = Item::tool(format!("t{from}"), ToolResult::text(format!("nobody-{from}"), "out of nowhere"));
    let items = (from..from + 20).map(said).chain([answer, stray]).chain((from + 20..from + 40).map(said));
    items.map(Arc::new).collect()
}

async fn seen(session: &StoredSession) -> Vec<Arc<Item>> {
    session.view().await.unwrap().items().cloned().collect()
}

async fn compacted(session: &mut StoredSession) {
    compacted_to(session, Tokens(2_000)).await;
}

async fn compacted_to(session: &mut StoredSession, target: Tokens) {
    let compactor = StrategyCompactor::builder().item_count_trigger(1).strategy(LadderStrategy::new());
    let budget = Budget::for_target(target).unwrap();
    let compactor = compactor.budget(budget).dialect(Dialect::Anthropic).build().unwrap();
    let config = CompactionConfig { dialect: Some(Dialect::Anthropic), ..CompactionConfig::default() };
    session.compact_loops_with(&compactor, &config, budget, &CompactionContext::default()).await.unwrap();
}

#[tokio::test]
async fn undo_gives_back_what_was_stored_before_the_repair() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("s.db")).await.unwrap());
    let mut session = StoredSession::create(Arc::clone(&store), "s", Metadata::new()).await.unwrap();
    session.append(&items(0)).await.unwrap();
    let first = seen(&session).await;
    compacted(&mut session).await;
    session.append(&items(100)).await.unwrap();
    let second = seen(&session).await;
    compacted(&mut session).await;
    let all = session.view().await.unwrap().transcript().len();
    assert!(all > 84, "repaired items were recorded: {all}");

    session.undo().await.unwrap();
    assert_eq!(seen(&session).await, second);
    session.undo().await.unwrap();
    let expected: Vec<Arc<Item>> = first.into_iter().chain(items(100)).collect();
    assert_eq!(seen(&session).await, expected);
    assert!(matches!(session.undo().await, Err(StoreError::NothingTo { .. })));
    assert_eq!(seen(&session).await, expected, "what was hidden stays hidden");
    assert_eq!(session.view().await.unwrap().transcript().len(), all, "the record is append-only");

    compacted(&mut session).await;
    assert!(seen(&session).await.len() < expected.len());
    let reopened = StoredSession::open(store, session.id()).await.unwrap();
    assert_eq!(seen(&reopened).await, seen(&session).await);
}

/// What a person does to a session.
#[derive(Clone, Debug)]
enum Step {
    /// Some items, of which one is a result that no call asked for, or not.
    Append {
        is_broken: bool,
    },
    Compact {
        tokens: u64,
    },
    Undo,
    Redo,
    Reopen,
}

fn step() -> impl Generator<Value = Step> {
    prop_oneof![
        4 => prop::bool::ANY.prop_map(|is_broken| Step::Append { is_broken }),
        4 => (1_000..4_000_u64).prop_map(|tokens| Step::Compact { tokens }),
        4 => Just(Step::Undo),
        4 => Just(Step::Redo),
        1 => Just(Step::Reopen),
    ]
}

/// What is seen, and what undo and redo lead to: each with what was appended since.
#[derive(Default)]
struct Model {
    seen: Vec<Arc<Item>>,
    earlier: Vec<Vec<Arc<Item>>>,
    undone: Vec<Vec<Arc<Item>>>,
}

impl Model {
    fn append(&mut self, items: &[Arc<Item>]) {
        let all = std::iter::once(&mut self.seen).chain(&mut self.earlier).chain(&mut self.undone);
        all.for_each(|seen| seen.extend_from_slice(items));
    }

    fn compact(&mut self, seen: Vec<Arc<Item>>) {
        self.earlier.push(std::mem::replace(&mut self.seen, seen));
        self.undone.clear();
    }

    fn undo(&mut self) -> bool {
        let earlier = self.earlier.pop();
        earlier.map(|earlier| self.undone.push(std::mem::replace(&mut self.seen, earlier))).is_some()
    }

    fn redo(&mut self) -> bool {
        let undone = self.undone.pop();
        undone.map(|undone| self.earlier.push(std::mem::replace(&mut self.seen, undone))).is_some()
    }
}

async fn top(session: &StoredSession) -> Option<foldback_engine::store::BlockNumber> {
    let loops = session.store().loops(session.id()).await.unwrap();
    loops.iter().find(|info| info.id == *session.current()).unwrap().stack.top
}

/// Does the steps, and compares after each what is seen with what the model says.
async fn follow(store: Arc<dyn Store>, steps: &[Step]) {
    let mut session = StoredSession::create(Arc::clone(&store), "s", Metadata::new()).await.unwrap();
    let mut model = Model::default();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Append { is_broken } => {
                let mut appended = items(number * 100);
                appended.retain(|item| *is_broken || item.kind != foldback_core::ItemKind::Tool);
                session.append(&appended).await.unwrap();
                model.append(&appended);
            }
            Step::Compact { tokens } => {
                let before = top(&session).await;
                compacted_to(&mut session, Tokens(*tokens)).await;
                if top(&session).await != before {
                    model.compact(seen(&session).await);
                }
            }
            Step::Undo | Step::Redo => {
                let (done, is_possible) = match step {
                    Step::Undo => (session.undo().await, model.undo()),
                    _ => (session.redo().await, model.redo()),
                };
                let is_refused = matches!(done, Err(StoreError::NothingTo { .. }));
                assert!(if is_possible { done.is_ok() } else { is_refused }, "{number}: {done:?}");
            }
            Step::Reopen => {
                session = StoredSession::open(Arc::clone(&store), &"s".into()).await.unwrap();
            }
        }
        assert_eq!(seen(&session).await, model.seen, "after step {number}");
        let head = store.head(session.id(), session.current()).await.unwrap();
        assert_eq!(head.context(), model.seen, "as it is loaded after step {number}");
    }
    assert!(store.verify(foldback_engine::store::Repairs::None).await.unwrap().is_clean());
}

/// Waits of one change, at most.
const WAITS_MAX: usize = 1_000;

/// Does something until it waits once more than so often, and then no more of it, as if the program had ended
/// there. Answers what it led to, where it came to its end.
async fn abandoned<F: Future>(waits_max: usize, work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut waits = 0;
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if waits == waits_max => Poll::Ready(None),
        Poll::Pending => {
            waits += 1;
            Poll::Pending
        }
    })
    .await
}

/// Undoes and redoes a compaction with repairs and gives it up wherever it waits.
async fn give_up_undoing(store: Arc<dyn Store>) {
    let mut session = StoredSession::create(Arc::clone(&store), "s", Metadata::new()).await.unwrap();
    session.append(&items(0)).await.unwrap();
    let before = seen(&session).await;
    compacted(&mut session).await;
    let after = seen(&session).await;
    for waits in 0..WAITS_MAX {
        session.refresh().await.unwrap();
        let undone = abandoned(waits, session.undo()).await;
        session.refresh().await.unwrap();
        let left = seen(&session).await;
        assert!(left == before || left == after, "given up after {waits} waits: {}", left.len());
        if left == after {
            session.undo().await.unwrap();
        }
        let redone = abandoned(waits, session.redo()).await;
        session.refresh().await.unwrap();
        let left = seen(&session).await;
        assert!(left == before || left == after, "given up after {waits} waits: {}", left.len());
        if left == before {
            session.redo().await.unwrap();
        }
        assert!(seen(&session).await == after, "given up after {waits} waits");
        if let (Some(undone), Some(redone)) = (undone, redone) {
            undone.unwrap();
            return redone.unwrap();
        }
    }
    panic!("it waited more than {WAITS_MAX} times");
}

/// Compacts with repairs and gives it up wherever it waits.
async fn give_up_compacting(store: Arc<dyn Store>) {
    for waits in 0..WAITS_MAX {
        let name = format!("s{waits}");
        let mut session = StoredSession::create(Arc::clone(&store), name, Metadata::new()).await.unwrap();
        session.append(&items(0)).await.unwrap();
        let before = seen(&session).await;
        let done = abandoned(waits, compacted(&mut session)).await;
        session.refresh().await.unwrap();
        let left = seen(&session).await;
        match top(&session).await {
            None => assert!(left == before, "given up after {waits} waits: {}", left.len()),
            Some(_) => assert!(left.len() < before.len(), "given up after {waits} waits"),
        }
        if done.is_some() {
            return;
        }
    }
    panic!("it waited more than {WAITS_MAX} times");
}

/// One thread for what blocks, so that what was begun before it was given up is over when the next begins.
fn one_by_one() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap()
}

#[test]
fn an_undo_that_is_given_up_anywhere_is_done_or_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    one_by_one().block_on(async {
        let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
        give_up_undoing(Arc::new(store)).await;
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn an_undo_that_is_given_up_anywhere_is_done_or_not_begun_on_a_server() {
    one_by_one().block_on(async { give_up_undoing(Arc::new(server().await)).await });
}

#[test]
fn a_compaction_that_is_given_up_anywhere_is_done_or_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    one_by_one().block_on(async {
        let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
        give_up_compacting(Arc::new(store)).await;
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_compaction_that_is_given_up_anywhere_is_done_or_not_begun_on_a_server() {
    one_by_one().block_on(async { give_up_compacting(Arc::new(server().await)).await });
}

/// Schemas that were used.
static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// A store of its own on the server, with one connection: changes come one after the other.
async fn server() -> PostgresStore {
    let number = SCHEMAS.fetch_add(1, Ordering::SeqCst);
    let schema = format!("redo_{}_{number}", std::process::id());
    let options = PostgresOptions { schema, connections_max: 1, ..PostgresOptions::default() };
    PostgresStore::open_with(&foldback_testkit::needs::postgres(), options).await.unwrap()
}

proptest! {
    #![proptest_config(foldback_testkit::costly(60))]

    /// Whatever was repaired, undo and redo lead to exactly what was seen, in a file.
    #[test]
    fn redo_leads_back_to_exactly_what_undo_took_off(steps in prop::collection::vec(step(), 1..20)) {
        let folder = tempfile::tempdir().unwrap();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
            follow(Arc::new(store), &steps).await;
        });
    }

    /// And on a server.
    #[test]
    #[ignore = "needs PostgreSQL"]
    fn redo_leads_back_to_exactly_what_undo_took_off_on_a_server(
        steps in prop::collection::vec(step(), 1..20)
    ) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            follow(Arc::new(server().await), &steps).await;
        });
    }
}
