//! What a compactor remembers of a session between compactions: enough not to run in circles.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldback_core::{Budget, LastCompaction, SessionId, Timestamp, Tokens, TriggerContext, View};

use super::background::Job;

/// Sessions remembered at once; past it all are forgotten, which costs one needless attempt each.
const SESSION_COUNT_MAX: usize = 4_096;

/// Rejections for length in a row that are answered with a compaction.
pub(super) const REJECTION_COUNT_MAX: u32 = 4;

/// A compaction that saved less than this share of a view, in percent, saved too little to try again
/// soon.
const SAVED_PERCENT_MIN: u64 = 5;

/// After such a compaction the view must have grown by this share, in percent, for the next one.
const GROWN_PERCENT_MIN: u64 = 10;

/// Each rejection in a row lowers the target to this share of what was rejected, in percent.
const REJECTED_TARGET_PERCENT: u64 = 80;

/// What is known of one session.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// What the last compaction left.
    pub(super) last: Option<LastCompaction>,
    /// The view that was last compacted in vain: the next attempt waits until it has grown.
    tried: Option<(Tokens, usize)>,
    /// When a trigger fired last.
    pub(super) last_firing: Option<Timestamp>,
    /// How often in a row a request was rejected for its length.
    rejection_count: u32,
    /// The room there is since the model was switched.
    pub(super) budget: Option<Budget>,
    /// Whether nothing has been compacted since.
    pub(super) is_switched: bool,
    /// What is being prepared ahead.
    pub(super) job: Option<Job>,
}

impl Progress {
    /// Whether another compaction is worth it although the last one failed or saved too little.
    pub(super) fn is_worth_it(&self, context: &TriggerContext<'_, View>) -> bool {
        let Some((tokens, item_count)) = self.tried.filter(|_| !context.is_urgent()) else { return true };
        let has_grown = |now: u64, then: u64| now > then + then * GROWN_PERCENT_MIN / 100;
        has_grown(context.sequence.tokens().0, tokens.0)
            || has_grown(context.sequence.len() as u64, item_count as u64)
    }

    /// Whether a rejected request is answered with another compaction.
    pub(super) fn can_recover(&self) -> bool {
        self.rejection_count < REJECTION_COUNT_MAX
    }

    /// Notes a rejected request, and says down to what the view must go: below what was rejected and
    /// below the limit that the provider named, further with each rejection in a row, and never above
    /// what was aimed at anyway.
    pub(super) fn target_after_rejection(
        &mut self,
        rejected: Tokens,
        limit: Option<Tokens>,
        budget: &Budget,
    ) -> Tokens {
        self.rejection_count += 1;
        // A limit counts the answer and everything around the conversation too.
        let room = limit.map(|limit| limit.saturating_sub(budget.output_reserve() + budget.overhead()));
        let most = room.filter(|room| *room > Tokens::ZERO).map_or(rejected, |room| room.min(rejected));
        let lowered = Tokens(most.0.saturating_mul(REJECTED_TARGET_PERCENT) / 100);
        lowered.min(budget.target()).max(Tokens(1))
    }

    /// Notes what a compaction led to.
    pub(super) fn compacted(&mut self, before: Tokens, last: LastCompaction) {
        let saved = before.saturating_sub(last.tokens_after);
        let is_in_vain = saved.0 * 100 < before.0 * SAVED_PERCENT_MIN;
        self.tried = is_in_vain.then_some((last.tokens_after, last.item_count));
        self.last = Some(last);
        self.is_switched = false;
    }

    /// Notes that a view could not be compacted.
    pub(super) fn failed(&mut self, view: &View) {
        self.tried = Some((view.tokens(), view.len()));
    }

    /// Notes that a request went through, or that there was none.
    pub(super) fn went_on(&mut self) {
        self.rejection_count = 0;
    }
}

/// What is known of all sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    known: Mutex<HashMap<SessionId, Progress>>,
}

impl Sessions {
    /// Looks at a session, or changes what is known of it.
    pub(super) fn with<T>(&self, session_id: &SessionId, look: impl FnOnce(&mut Progress) -> T) -> T {
        let mut known = self.lock();
        if let Some(progress) = known.get_mut(session_id) {
            return look(progress);
        }
        if known.len() >= SESSION_COUNT_MAX {
            known.clear();
        }
        look(known.entry(session_id.clone()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Progress>> {
        // What is known after a panic is still no more than a hint.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
