//! A compaction of a stored session that had to repair the view first, undone.
#![allow(clippy::unwrap_used, reason = "a failed test says where")]

use std::sync::Arc;

use foldback_core::{
    Budget, CompactionReason, Dialect, Item, LadderStrategy, Metadata, Part, Tokens, ToolResult,
};
use foldback_engine::session::StoredSession;
use foldback_engine::{CompactionContext, Store, StoreError, StrategyCompactor};
use foldback_store::SqliteStore;

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
    let compactor = StrategyCompactor::builder().item_count_trigger(1).strategy(LadderStrategy::new());
    let budget = Budget::for_target(Tokens(2_000)).unwrap();
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
