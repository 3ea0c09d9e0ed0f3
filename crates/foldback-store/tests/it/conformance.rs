//! What every store promises, asked of each of them.

pub(crate) mod cases;
mod damage;
mod finding;
mod model;
mod postgres;
mod revising;
mod room;
pub(crate) mod sqlite;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use foldback_core::Timestamp;
use foldback_engine::Clock;

/// A clock that tests set.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandClock(Arc<AtomicI64>);

impl HandClock {
    fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Hands the list of cases to a macro that makes tests of them.
macro_rules! every_case {
    ($make:ident) => {
        $make!(
            a_compaction_of_several_blocks_is_undone_in_one_step,
            chinese_and_japanese_are_found_by_their_words,
            rare_words_are_found_among_very_common_ones,
            a_search_that_stopped_early_goes_on_where_it_stopped,
            a_search_without_words_gives_each_item_on_one_page,
            a_search_with_words_gives_each_item_on_one_page_too,
            a_branch_shares_what_came_before_and_nothing_after,
            a_call_is_recalled_with_a_result_that_much_came_before,
            a_deleted_session_is_gone_and_its_handles_are_errors,
            a_fold_is_recalled_as_it_was_recorded,
            a_job_that_fails_too_often_is_kept_as_failed,
            a_lost_lease_is_noticed,
            a_revision_is_made_whole_or_not_at_all,
            a_session_is_compacted_by_one_worker_at_a_time,
            a_session_that_is_not_there_is_a_typed_error,
            a_store_restored_from_a_backup_is_the_same,
            an_original_file_comes_back_byte_for_byte,
            gc_removes_old_sessions_and_never_a_live_one,
            gc_that_moves_bodies_together_changes_no_item,
            of_two_writers_one_wins_and_nothing_is_lost,
            search_finds_folded_and_live_content,
            sessions_are_listed_by_their_last_change,
            switching_loops_changes_which_is_current_and_nothing_else,
            the_notes_of_a_loop_are_replaced_and_those_of_others_stay,
            undo_after_undo_restores_every_earlier_view,
        );
    };
}
pub(crate) use every_case;
