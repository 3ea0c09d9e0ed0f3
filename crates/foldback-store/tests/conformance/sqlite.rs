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

conforms!(
    a_branch_shares_what_came_before_and_nothing_after,
    a_deleted_session_is_gone_and_its_handles_are_errors,
    a_fold_is_recalled_as_it_was_recorded,
    a_job_that_fails_too_often_is_kept_as_failed,
    a_lost_lease_is_noticed,
    a_session_is_compacted_by_one_worker_at_a_time,
    a_session_that_is_not_there_is_a_typed_error,
    a_store_restored_from_a_backup_is_the_same,
    an_original_file_comes_back_byte_for_byte,
    gc_removes_old_sessions_and_never_a_live_one,
    gc_that_moves_bodies_together_changes_no_item,
    of_two_writers_one_wins_and_nothing_is_lost,
    search_finds_folded_and_live_content,
    sessions_are_listed_by_their_last_change,
    undo_after_undo_restores_every_earlier_view,
);

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
