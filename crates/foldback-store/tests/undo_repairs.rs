//! Compactions of a stored session that had to repair the view first, undone and redone.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use foldback_core::{
    Budget, CompactionReason, Dialect, Item, LadderStrategy, Metadata, Part, Tokens, ToolResult,
};
use foldback_engine::session::StoredSession;
use foldback_engine::{CompactionContext, Store, StoreError, StrategyCompactor};
use foldback_store::{PostgresOptions, PostgresStore, SqliteStore};
use proptest::prelude::{Just, ProptestConfig, Strategy as Generator, prop, prop_oneof, proptest};

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
    let room = (Some(budget), Some(Dialect::Anthropic));
    let context = CompactionContext::default();
    session.compact_with(&compactor, &CompactionReason::Manual, room, &context).await.unwrap();
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

/// Schemas that were used.
static SCHEMAS: AtomicU32 = AtomicU32::new(0);

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..foldback_testkit::config() })]

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
    fn redo_leads_back_to_exactly_what_undo_took_off_on_a_server(
        steps in prop::collection::vec(step(), 1..20)
    ) {
        let url = std::env::var("FOLDBACK_POSTGRES_URL");
        let url = url.expect("FOLDBACK_POSTGRES_URL names a PostgreSQL server; `cargo xtask test` sets it");
        let number = SCHEMAS.fetch_add(1, Ordering::SeqCst);
        let schema = format!("redo_{}_{number}", std::process::id());
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let options = PostgresOptions { schema, ..PostgresOptions::default() };
            let store = PostgresStore::open_with(&url, options).await.unwrap();
            follow(Arc::new(store), &steps).await;
        });
    }
}
