//! What a compactor remembers of each session, so that it neither thrashes nor gives up.

use std::collections::BTreeMap;

use foldback_core::{
    Budget, BudgetError, CompactionReason, LastCompaction, SessionId, Timestamp, Tokens, TriggerContext, View,
};

use super::background::Job;

/// Sessions that are remembered; of more, the one asked about longest ago is forgotten.
const SESSIONS_MAX: usize = 4_096;

/// A compaction that frees less of the view, in percent, was in vain.
const FREED_PERCENT_MIN: u64 = 5;

/// After a compaction in vain the view must grow by this much, in percent, before the next one;
/// after each further one by twice as much.
const GROWTH_PERCENT: u64 = 5;

/// No more doublings of that.
const GROWTH_DOUBLINGS_MAX: u32 = 3;

/// Rejected requests in a row that are answered with a compaction.
const REJECTIONS_MAX: u32 = 5;

/// Each rejection of a view that was thought to fit lowers the target to this share, in percent.
const REJECTED_TARGET_PERCENT: u64 = 80;

/// The target is not lowered below this share of it, in percent.
const TARGET_PERCENT_MIN: u64 = 10;

/// Whether to compact, before any trigger is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Whatever the trigger says.
    Now(CompactionReason),
    /// Whatever the trigger says, again.
    NotNow,
    /// As it says.
    AskTrigger,
}

/// One session.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) last_compaction: Option<LastCompaction>,
    pub(super) last_firing: Option<Timestamp>,
    /// Rejected requests in a row.
    rejections: u32,
    /// Model switches that it knows of.
    switches: u64,
    pub(super) job: Option<Job>,
    /// Compactions in vain, in a row.
    futile: u32,
    /// Below this, compacting has been tried in vain.
    retry_at: Tokens,
    asked_at: u64,
}

impl Session {
    /// What the past of the session says about compacting now.
    pub(super) fn answer(
        &mut self,
        view: &View,
        context: &TriggerContext<'_>,
        budget: Option<&Budget>,
        switches: u64,
    ) -> Answer {
        if context.was_rejected() {
            return match (self.rejected(), budget) {
                (false, _) => Answer::NotNow,
                (true, Some(_)) => Answer::Now(CompactionReason::OverflowRejected),
                (true, None) => Answer::AskTrigger,
            };
        }
        self.rejections = 0;
        let is_switched = std::mem::replace(&mut self.switches, switches) != switches;
        let is_over = |budget: &Budget| context.tokens.upper >= budget.trigger();
        if is_switched && budget.is_some_and(is_over) {
            return Answer::Now(CompactionReason::ModelSwitched);
        }
        match self.is_held_back(view) && !context.is_urgent() {
            true => Answer::NotNow,
            false => Answer::AskTrigger,
        }
    }

    /// Whether it is too early to try again.
    pub(super) fn is_held_back(&self, view: &View) -> bool {
        view.tokens() < self.retry_at
    }

    /// Whether one more rejected request is answered with a compaction.
    fn rejected(&mut self) -> bool {
        self.rejections = self.rejections.saturating_add(1);
        self.rejections <= REJECTIONS_MAX
    }

    /// Takes note of a compaction.
    pub(super) fn compacted(&mut self, before: &View, after: &View, at: Timestamp) {
        let (tokens_before, tokens_after) = (before.tokens(), after.tokens());
        let freed = tokens_before.saturating_sub(tokens_after);
        let item_count = after.len();
        self.last_compaction = Some(LastCompaction { tokens_after, at: Some(at), item_count });
        match freed.0 * 100 < tokens_before.0 * FREED_PERCENT_MIN {
            true => self.in_vain(tokens_after),
            false => (self.futile, self.retry_at) = (0, Tokens::ZERO),
        }
    }

    /// Takes note of a compaction that failed, or freed too little of a view of `tokens`.
    pub(super) fn in_vain(&mut self, tokens: Tokens) {
        let percent = GROWTH_PERCENT << self.futile.min(GROWTH_DOUBLINGS_MAX);
        self.futile = self.futile.saturating_add(1);
        self.retry_at = tokens + Tokens(tokens.0 * percent / 100 + 1);
    }

    /// What to aim for after rejections: lower each time, because the provider counts more than was
    /// counted here.
    pub(super) fn aim(&self, budget: Budget, view: &View) -> Result<Budget, BudgetError> {
        let believed_to_fit = view.tokens() <= budget.usable();
        let lowerings = self.rejections.saturating_sub(u32::from(!believed_to_fit)).min(REJECTIONS_MAX);
        if lowerings == 0 {
            return Ok(budget);
        }
        let most = budget.target().min(view.tokens());
        let least = Tokens(budget.target().0 * TARGET_PERCENT_MIN / 100).min(most);
        let lowered = (0..lowerings).fold(most.0, |target, _| target * REJECTED_TARGET_PERCENT / 100);
        Budget::builder(budget.window())
            .output_reserve(budget.output_reserve())
            .overhead(budget.overhead())
            .trigger(budget.trigger())
            .target(Tokens(lowered).max(least).max(Tokens(1)))
            .build()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    by_id: BTreeMap<SessionId, Session>,
    /// How often anything was asked: the order in which sessions are forgotten.
    asked: u64,
    /// How much room there is, unless a request says otherwise.
    pub(super) budget: Option<Budget>,
    /// How often the model was switched.
    pub(super) switches: u64,
}

impl Sessions {
    /// What is remembered of a session.
    pub(super) fn of(&mut self, session_id: &SessionId) -> &mut Session {
        self.asked += 1;
        if !self.by_id.contains_key(session_id) {
            if self.by_id.len() >= SESSIONS_MAX {
                let oldest = self.by_id.iter().min_by_key(|(_, session)| session.asked_at);
                let oldest = oldest.map(|(id, _)| id.clone());
                oldest.and_then(|id| self.by_id.remove(&id));
            }
            let fresh = Session { switches: self.switches, ..Session::default() };
            self.by_id.insert(session_id.clone(), fresh);
        }
        let session = self.by_id.get_mut(session_id).expect("it was put there");
        session.asked_at = self.asked;
        session
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{Item, Transcript};

    fn view(items: usize) -> View {
        View::of(&(0..items).map(|n| Item::user(format!("u{n}"), "word ".repeat(20))).collect::<Transcript>())
    }

    #[test]
    fn a_compaction_in_vain_waits_for_growth_and_longer_each_time() {
        let mut session = Session::default();
        let (large, small) = (view(100), view(40));
        let mut waits = Vec::new();
        for _ in 0..6 {
            session.compacted(&large, &large, Timestamp(0));
            assert!(session.is_held_back(&large));
            waits.push(session.retry_at.0 - large.tokens().0);
        }
        assert!(waits[0] < waits[1] && waits[2] < waits[3], "{waits:?}");
        assert_eq!(waits[4], waits[5], "but not for ever longer");
        session.compacted(&large, &small, Timestamp(0));
        assert!(!session.is_held_back(&small));
    }

    #[test]
    fn each_rejection_aims_lower_and_the_last_one_gives_up() {
        let mut session = Session::default();
        let view = view(10);
        let budget = Budget::builder(view.tokens() + Tokens(10_000)).build().unwrap();
        let mut targets = vec![session.aim(budget, &view).unwrap().target()];
        while session.rejected() {
            targets.push(session.aim(budget, &view).unwrap().target());
        }
        assert_eq!(targets.len(), REJECTIONS_MAX as usize + 1);
        assert!(targets.windows(2).all(|pair| pair[0] > pair[1]), "{targets:?}");
        assert!(targets[1] < view.tokens(), "a view that was thought to fit must shrink");
    }

    #[test]
    fn a_view_that_was_known_to_be_too_large_is_first_brought_to_its_target() {
        let mut session = Session::default();
        let view = view(100);
        let budget = Budget::builder(Tokens(view.tokens().0 / 2)).build().unwrap();
        session.rejected();
        assert_eq!(session.aim(budget, &view), Ok(budget));
        session.rejected();
        assert!(session.aim(budget, &view).unwrap().target() < budget.target());
    }

    #[test]
    fn only_so_many_sessions_are_remembered() {
        let mut sessions = Sessions::default();
        for number in 0..SESSIONS_MAX + 10 {
            sessions.of(&SessionId::from(format!("s{number}")));
        }
        assert_eq!(sessions.by_id.len(), SESSIONS_MAX);
        assert!(!sessions.by_id.contains_key("s0") && sessions.by_id.contains_key("s10"));
    }
}
