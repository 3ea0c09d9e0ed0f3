//! What a process knows of the tail on its server.

use foldback_engine::store::Version;

use super::*;

async fn append(store: &PostgresStore, version: Version, text: &str) -> Version {
    let (session, loop_id) = ("s".into(), "main".into());
    let at = At { session: &session, loop_id: &loop_id, version };
    store.append(&at, &[Arc::new(Item::user(version.to_string(), text))]).await.unwrap()
}

/// How many items are not settled, and how many bytes they take.
async fn unsettled(store: &PostgresStore) -> (usize, u64) {
    let items = store.read("counting", async |db| tail::item_count(db).await).await.unwrap();
    (items, tail::bytes(&store.connection().await.unwrap()).await.unwrap())
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn an_append_settles_some_of_a_tail_that_is_too_long_and_none_once_it_is_not() {
    let schema = format!("tail_{}", std::process::id());
    let options = PostgresOptions { schema, ..PostgresOptions::default() };
    let store = PostgresStore::open_with(&foldback_testkit::needs::postgres(), options).await.unwrap();
    let counted = &store.tail.bytes;
    // Nobody settles it in the background.
    store.tail.is_settling.store(true, Ordering::Release);
    let mut version = store.create(&NewSession::new("s", "main")).await.unwrap();
    for number in 0..20 {
        version = append(&store, version, &"long words ".repeat(4_000 + number)).await;
    }
    let (items, stored) = unsettled(&store).await;
    assert_eq!((items, stored), (20, counted.load(Ordering::Relaxed)));
    let others = TAIL_BYTES_MAX - stored;
    counted.fetch_add(others, Ordering::Relaxed);
    let version = append(&store, version, "short").await;
    let (left, stored) = unsettled(&store).await;
    assert!((2..20).contains(&left), "some of them were settled: {left} are left");
    assert_eq!(counted.load(Ordering::Relaxed), others + stored, "what was settled is taken off");
    append(&store, version, "short").await;
    assert_eq!(unsettled(&store).await.0, left + 1, "it is no longer too long");
}
