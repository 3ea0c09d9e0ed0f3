//! The suite on SQLite.

use std::sync::Arc;

use foldback_core::{Item, LoopId, SessionId};
use foldback_engine::Store;
use foldback_engine::store::{At, NewSession};
use foldback_store::{SqliteOptions, SqliteStore};
use proptest::prelude::{prop, proptest};
use tempfile::TempDir;

use crate::conformance::{HandClock, cases, model};

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime that can do without one of its threads for a while: appends stay on theirs.
fn threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

pub(crate) async fn open(folder: &TempDir, clock: &HandClock) -> SqliteStore {
    let options = SqliteOptions { clock: std::sync::Arc::new(clock.clone()), ..SqliteOptions::default() };
    SqliteStore::open_with(folder.path().join("store.db"), options).await.unwrap()
}

macro_rules! conforms {
    ($($case:ident),* $(,)?) => {
        $(#[test]
        fn $case() {
            let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::default());
            threads().block_on(async { cases::$case(&open(&folder, &clock).await, &clock).await });
        })*
    };
}

crate::conformance::every_case!(conforms);

proptest! {
    #![proptest_config(foldback_testkit::costly(40))]

    /// Whatever is done in whatever order, the store holds what a list in memory holds.
    #[test]
    fn a_store_does_what_a_list_in_memory_does(steps in prop::collection::vec(model::step(), 1..24)) {
        let (folder, clock) = (tempfile::tempdir().unwrap(), HandClock::default());
        runtime().block_on(async {
            let reopen = || async { Box::new(open(&folder, &clock).await) as Box<dyn foldback_engine::Store> };
            model::run(&steps, reopen).await
        })?;
    }
}

#[test]
fn an_append_waits_for_another_process_that_writes_and_loses_nothing() {
    let (session, loop_id): (SessionId, LoopId) = ("session".into(), "main".into());
    let items = [Arc::new(Item::user("u", "hello"))];
    for runtime in [runtime(), threads()] {
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let store = open(&folder, &HandClock::default()).await;
            let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await.unwrap();
            let at = At { session: &session, loop_id: &loop_id, version };
            let other = rusqlite::Connection::open(store.path()).unwrap();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            // Asked for first, so that it finds the file taken.
            let release = async { other.execute_batch("COMMIT").unwrap() };
            let (appended, ()) = tokio::join!(biased; store.append(&at, &items), release);
            let version = appended.unwrap();
            let empty = store.append(&At { version, ..at }, &[]).await.unwrap();
            assert_eq!(store.session(&session).await.unwrap().version, empty);
            assert_eq!(store.items(&session, &loop_id, 0..9).await.unwrap(), items);
        });
    }
}
