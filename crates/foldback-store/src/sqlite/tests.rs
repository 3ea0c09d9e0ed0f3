//! What a process knows of the tail of its file.

use foldback_engine::store::Version;

use super::*;

/// A store with a tail of several changes' length, which nobody settles in the background.
async fn with_tail(folder: &tempfile::TempDir) -> (SqliteStore, Version) {
    let store = SqliteStore::open(folder.path().join("store.db")).await.unwrap();
    store.shared.is_settling.store(true, Ordering::Release);
    let mut version = store.create(&NewSession::new("s", "main")).await.unwrap();
    for number in 0..20 {
        version = append(&store, version, &"long words ".repeat(4_000 + number)).await;
    }
    (store, version)
}

async fn append(store: &SqliteStore, version: Version, text: &str) -> Version {
    let (session, loop_id) = ("s".into(), "main".into());
    let at = At { session: &session, loop_id: &loop_id, version };
    store.append(&at, &[Arc::new(Item::user(version.to_string(), text))]).await.unwrap()
}

fn unsettled(store: &SqliteStore) -> usize {
    tail::item_count(&store.shared.writer()).unwrap()
}

/// One thread for what blocks: what is asked for is done behind what was begun before.
fn one_by_one() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap()
}

#[test]
fn an_append_settles_some_of_a_tail_that_is_too_long_and_none_once_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    one_by_one().block_on(async {
        let (store, version) = with_tail(&folder).await;
        let counted = &store.shared.tail_bytes;
        let stored = || tail::bytes(&store.shared.writer()).unwrap();
        assert_eq!((unsettled(&store), counted.load(Ordering::Relaxed)), (20, stored()));
        let others = TAIL_BYTES_MAX - stored();
        counted.fetch_add(others, Ordering::Relaxed);
        let version = append(&store, version, "short").await;
        let left = unsettled(&store);
        assert!((2..20).contains(&left), "some of them were settled: {left} are left");
        assert_eq!(counted.load(Ordering::Relaxed), others + stored(), "what was settled is taken off");
        append(&store, version, "short").await;
        assert_eq!(unsettled(&store), left + 1, "it is no longer too long");
    });
}

#[test]
fn a_long_tail_is_settled_in_the_background_and_nothing_of_it_stays_counted() {
    let folder = tempfile::tempdir().unwrap();
    one_by_one().block_on(async {
        let (store, version) = with_tail(&folder).await;
        store.shared.is_settling.store(false, Ordering::Release);
        store.shared.tail_bytes.fetch_add(TAIL_BYTES, Ordering::Relaxed);
        append(&store, version, "short").await;
        store.session(&"s".into()).await.unwrap();
        assert!(!store.shared.is_settling.load(Ordering::Acquire));
        assert_eq!((unsettled(&store), store.shared.tail_bytes.load(Ordering::Relaxed)), (0, 0));
    });
}
