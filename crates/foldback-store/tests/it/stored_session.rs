//! Sessions on a real store: what is loaded is what would be loaded in memory, whoever else writes.

use std::sync::Arc;

use foldback_core::{Handle, Item, ItemKind, Metadata, Part, Policy, Room, SessionId, Tokens, ToolResult};
use foldback_engine::session::{
    CompactionConfig, CompactionScope, Secrets, StoredSession, build_context_from_session, search,
};
use foldback_engine::store::{Repairs, SearchQuery};
use foldback_engine::{CompactionContext, Store, StoreError, StrategyCompactor};
use foldback_store::SqliteStore;
use serde_json::json;

const WINDOW: Tokens = Tokens(20_000);

struct HandleTarget {
    _folder: tempfile::TempDir,
    store: Arc<dyn Store>,
}

async fn place() -> HandleTarget {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("s.db")).await.unwrap());
    HandleTarget { _folder: folder, store }
}

fn turn(number: usize, lines: usize) -> Vec<Arc<Item>> {
    let call = format!("c{number}");
    let output = format!("line of output {number}\n").repeat(lines);
    let words = "something was understood; ".repeat(10);
    let input = json!({"path": format!("src/part{number}.rs")});
    let items = [
        Item::user(format!("u{number}"), format!("request {number}: {words}")),
        Item::assistant(format!("a{number}"), vec![Part::call(call.as_str(), "read", &input)]),
        Item::tool(format!("t{number}"), ToolResult::text(call, output)),
        Item::assistant(format!("e{number}"), vec![Part::text(words)]),
    ];
    items.into_iter().map(Arc::new).collect()
}

async fn session(place: &HandleTarget, turns: usize) -> StoredSession {
    let store = Arc::clone(&place.store);
    let mut session = StoredSession::create(store, "s", Metadata::new()).await.unwrap();
    let system = Item::text("system", ItemKind::System, "You are careful.");
    session.append(&[Arc::new(system)]).await.unwrap();
    for number in 0..turns {
        session.append(&turn(number, 30)).await.unwrap();
    }
    session
}

async fn shown(session: &StoredSession) -> Vec<Arc<Item>> {
    session.context(&CompactionConfig::default(), WINDOW).await.unwrap().items
}

#[tokio::test]
async fn what_the_store_loads_is_what_memory_would_load() {
    let place = place().await;
    let mut stored = session(&place, 60).await;
    let config = CompactionConfig::default();
    for step in 0..3 {
        let done = stored.compact(&config, WINDOW).await.unwrap();
        assert!(done.tokens_after <= config.budget(WINDOW).unwrap().target(), "step {step}");
        let memory = stored.load().await.unwrap();
        let expected = build_context_from_session(&memory, stored.current(), &config, WINDOW).unwrap();
        assert_eq!(shown(&stored).await, expected.items, "step {step}");
        let again = stored.compact(&config, WINDOW).await.unwrap();
        assert!(again.loops.is_empty(), "a second compaction changes nothing");
        stored.begin_loop().await.unwrap();
        for number in 0..20 {
            stored.append(&turn(100 * (step + 1) + number, 20)).await.unwrap();
        }
    }
    let reopened = StoredSession::open(Arc::clone(&place.store), &SessionId::from("s")).await.unwrap();
    assert_eq!(shown(&reopened).await, shown(&stored).await);
    let wide = CompactionConfig { compaction_scope: CompactionScope::TokenBudget, ..config };
    let memory = stored.load().await.unwrap();
    let expected = build_context_from_session(&memory, stored.current(), &wide, WINDOW).unwrap();
    assert_eq!(stored.context(&wide, WINDOW).await.unwrap().items, expected.items);
}

#[tokio::test]
async fn undo_and_redo_give_back_exactly_what_was_shown() {
    let place = place().await;
    let mut stored = session(&place, 40).await;
    let before = shown(&stored).await;
    stored.compact(&CompactionConfig::default(), WINDOW).await.unwrap();
    let after = shown(&stored).await;
    assert!(after.len() < before.len());
    stored.undo().await.unwrap();
    assert_eq!(shown(&stored).await, before);
    stored.redo().await.unwrap();
    assert_eq!(shown(&stored).await, after);
    stored.undo().await.unwrap();
    assert!(matches!(stored.undo().await, Err(StoreError::NothingTo { .. })));
}

/// `[…tail, summary]`: stored and loaded in that order, with what is said later behind it.
#[tokio::test]
async fn a_summary_after_the_tail_is_stored_and_loaded_there() {
    let place = place().await;
    let mut stored = session(&place, 40).await;
    let config = CompactionConfig { compaction_scope: CompactionScope::FixedCount(0), ..Default::default() };
    let budget = config.budget(WINDOW).unwrap();
    let policy: Policy = serde_json::from_value(json!({
        "name": "after the tail",
        "steps": [{"strategy": "preserve-recent-turns", "turns_max": 2, "clamp_on": "each_turn",
            "clamp": {"percent": 25, "tokens_min": 2000, "tokens_max": 8000}, "summary_placement": "after_tail"}],
    }))
    .unwrap();
    let compactor =
        StrategyCompactor::builder().policy(&policy, Room::new(WINDOW)).budget(budget).build().unwrap();
    let context = CompactionContext::default();
    let before = shown(&stored).await;
    stored.compact_loops_with(&compactor, &config, budget, &context).await.unwrap();
    let label = |item: &Arc<Item>| if item.summary.is_some() { "S".into() } else { item.id.to_string() };
    let order = |items: &[Arc<Item>]| items.iter().map(label).collect::<Vec<_>>().join(" ");
    let tail = "system u38 a38 t38 e38 u39 a39 t39 e39 S";
    let after = shown(&stored).await;
    assert_eq!(order(&after), tail);
    let again = stored.compact_loops_with(&compactor, &config, budget, &context).await.unwrap();
    assert!(again.loops.is_empty(), "a second compaction changes nothing");

    stored.undo().await.unwrap();
    assert_eq!(shown(&stored).await, before);
    stored.redo().await.unwrap();
    assert_eq!(shown(&stored).await, after);
    stored.append(&turn(40, 2)).await.unwrap();
    let reopened = StoredSession::open(Arc::clone(&place.store), stored.id()).await.unwrap();
    let grown = shown(&reopened).await;
    assert_eq!(order(&grown), format!("{tail} u40 a40 t40 e40"));
    let memory = reopened.load().await.unwrap();
    let expected = build_context_from_session(&memory, reopened.current(), &config, WINDOW).unwrap();
    assert_eq!(grown, expected.items);
    assert!(place.store.verify(Repairs::None).await.unwrap().is_clean());
}

#[tokio::test]
async fn two_writers_lose_and_double_nothing() {
    let place = place().await;
    let mut first = session(&place, 40).await;
    let mut second = StoredSession::open(Arc::clone(&place.store), first.id()).await.unwrap();
    for number in 100..110 {
        first.append(&turn(number, 2)).await.unwrap();
        second.append(&turn(number + 100, 2)).await.unwrap();
    }
    // What the second one plans on is what the store holds by then.
    first.compact(&CompactionConfig::default(), WINDOW).await.unwrap();
    second.compact(&CompactionConfig::default(), WINDOW).await.unwrap();
    let memory = second.load().await.unwrap();
    let record = memory.record(second.current()).unwrap();
    let mut ids: Vec<&str> = record.transcript().items().map(|item| item.id.as_str()).collect();
    assert_eq!(ids.len(), 1 + 4 * 60);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1 + 4 * 60, "nothing was stored twice");
    first.refresh().await.unwrap();
    assert_eq!(shown(&first).await, shown(&second).await);
}

#[tokio::test]
async fn a_fork_and_a_rewind_leave_the_loop_alone() {
    let place = place().await;
    let mut stored = session(&place, 5).await;
    let (whole, trunk) = (shown(&stored).await, stored.current().clone());
    let branch = stored.rewind(5).await.unwrap();
    stored.append(&turn(9, 1)).await.unwrap();
    let ids: Vec<String> = shown(&stored).await.iter().map(|item| item.id.to_string()).collect();
    assert_eq!(ids, ["system", "u0", "a0", "t0", "e0", "u9", "a9", "t9", "e9"]);
    assert_ne!(branch, trunk);
    stored.resume(&trunk).await.unwrap();
    assert_eq!(shown(&stored).await, whole);
}

#[tokio::test]
async fn what_was_folded_is_found_and_recalled_without_its_secrets() {
    let place = place().await;
    let mut stored = session(&place, 40).await;
    let key = ["gh", "p_", "aB3dE7fG1hJ9kLmN0pQ2rS5tUvW8xYz4aB3d"].concat();
    let said = Item::user("secret", format!("the zeppelin token is {key}, keep it"));
    stored.append(&[Arc::new(said)]).await.unwrap();
    for number in 50..90 {
        stored.append(&turn(number, 30)).await.unwrap();
    }
    stored.compact(&CompactionConfig::default(), WINDOW).await.unwrap();
    while place.store.index(1_000).await.unwrap() > 0 {}

    let query = SearchQuery::text("zeppelin");
    let found = search(&*place.store, &query, Secrets::Replaced).await.unwrap();
    let hit = found.hits.first().unwrap();
    assert_eq!(hit.item_id.as_str(), "secret");
    assert!(!hit.excerpt.contains("aB3dE7fG") && hit.excerpt.contains("zeppelin"), "{}", hit.excerpt);
    let open = search(&*place.store, &query, Secrets::Shown).await.unwrap();
    assert!(open.hits[0].excerpt.contains("ghp_aB3d") || open.hits[0].excerpt.contains(&key));

    let recalled = stored.recall(&hit.handle).await.unwrap();
    assert!(!recalled.text(Secrets::Replaced).contains(&key));
    assert!(recalled.text(Secrets::Shown).contains(&key));
    let summary = shown(&stored).await.iter().find_map(|item| item.summary.clone()).unwrap();
    let folded = stored.recall(&summary.handle).await.unwrap();
    assert!(folded.text(Secrets::Shown).contains("request 10"));
    let nobody = stored.recall(&Handle::of_item(7, &"nobody".into())).await;
    assert!(matches!(nobody, Err(StoreError::NotFound { .. })));
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_store_is_its_owners_alone_and_one_that_is_there_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let store = SqliteStore::open(&path).await.unwrap();
    StoredSession::create(Arc::new(store.clone()), "s", Metadata::new()).await.unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    drop(store);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    SqliteStore::open(&path).await.unwrap();
    assert_eq!(mode(&path), 0o640);
}
