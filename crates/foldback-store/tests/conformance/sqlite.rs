//! The suite on SQLite.

use foldback_store::{SqliteOptions, SqliteStore};
use proptest::prelude::{ProptestConfig, prop, proptest};
use tempfile::TempDir;

use crate::{HandClock, cases, model};

/// Each case opens a store and closes it several times.
const CASES: u32 = 40;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
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
            runtime().block_on(async { cases::$case(&open(&folder, &clock).await, &clock).await });
        })*
    };
}

crate::every_case!(conforms);

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..foldback_testkit::config() })]

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
