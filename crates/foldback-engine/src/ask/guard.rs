//! The guard of one backend: a circuit breaker and a limit to what is spent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldback_core::Tokens;
use tokio::time::Instant;

use crate::backend::BackendError;

/// When a backend is not asked any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardLimits {
    /// After so many failures in a row it is left alone for a while.
    pub failures_max: u32,
    /// For how long. Then one call is let through; its outcome decides for the others.
    pub cool_down: Duration,
    /// Dollars that its calls may cost, where its prices are known.
    pub dollars_max: Option<f64>,
    /// Tokens that it may read and write.
    pub tokens_max: Option<Tokens>,
}

impl Default for GuardLimits {
    fn default() -> Self {
        Self { failures_max: 5, cool_down: Duration::from_secs(60), dollars_max: None, tokens_max: None }
    }
}

/// What calls took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spend {
    /// Tokens read and written.
    pub tokens: Tokens,
    /// Dollars; nothing where prices are not known.
    pub dollars: f64,
}

impl Spend {
    fn add(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.dollars += other.dollars;
    }

    fn take(&mut self, other: Self) {
        self.tokens = self.tokens.saturating_sub(other.tokens);
        self.dollars = (self.dollars - other.dollars).max(0.0);
    }
}

/// Decides whether a backend is asked. It stands before the backend, for all who use it: see
/// [`GuardedBackend`](crate::GuardedBackend). Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct BackendGuard {
    limits: GuardLimits,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Failures since the last answer.
    failures: u32,
    /// Until when nobody is let through.
    closed_until: Option<Instant>,
    /// Whether a call is on its way that decides for the others.
    is_probed: bool,
    spent: Spend,
    /// What calls on their way may take.
    reserved: Spend,
}

impl BackendGuard {
    /// A guard that has seen nothing yet.
    pub fn new(limits: GuardLimits) -> Self {
        Self { limits, state: Arc::default() }
    }

    /// What the calls so far took.
    pub fn spent(&self) -> Spend {
        self.lock().spent
    }

    /// Lets a call through that takes at most `most`, or says why not. What comes of it must be
    /// reported to the admission; one that is dropped counts as having taken all of it.
    pub fn admit(&self, most: Spend) -> Result<Admission<'_>, BackendError> {
        let mut state = self.lock();
        let unavailable = |why: String| Err(BackendError::Unavailable { why });
        if let Some(over) = self.over(&state, most) {
            return unavailable(over);
        }
        if let Some(until) = state.closed_until {
            let wait = until.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                let (failures, wait) = (state.failures, wait.as_millis());
                return unavailable(format!("it failed {failures} times in a row; next try in {wait} ms"));
            }
            if state.is_probed {
                return unavailable("it failed too often and is being tried again".to_owned());
            }
            state.is_probed = true;
        }
        state.reserved.add(most);
        let is_probe = state.is_probed;
        drop(state);
        Ok(Admission { guard: self, most, is_probe, is_settled: false })
    }

    fn over(&self, state: &State, most: Spend) -> Option<String> {
        let mut all = state.spent;
        all.add(state.reserved);
        all.add(most);
        let Spend { tokens, dollars } = state.spent;
        if let Some(tokens_max) = self.limits.tokens_max.filter(|max| all.tokens > *max) {
            return Some(format!("it has taken {tokens} tokens of {tokens_max}"));
        }
        let dollars_max = self.limits.dollars_max.filter(|max| all.dollars > *max)?;
        Some(format!("it has cost ${dollars:.4} of ${dollars_max:.4}"))
    }

    /// Nothing in here panics while the lock is held, and a count that is off is better than none.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was let through.
#[derive(Debug)]
pub struct Admission<'g> {
    guard: &'g BackendGuard,
    most: Spend,
    is_probe: bool,
    is_settled: bool,
}

impl Admission<'_> {
    /// There was an answer, whatever is in it.
    pub fn answered(mut self, spend: Spend) {
        let mut state = self.settle(spend);
        state.failures = 0;
        state.closed_until = None;
    }

    /// There was none.
    pub fn failed(mut self, error: &BackendError) {
        let (is_alive, may_be_billed) = match error {
            // A server that refuses a request for its length works.
            BackendError::Overflow { .. } => (true, false),
            BackendError::Timeout { .. } | BackendError::Malformed { .. } => (false, true),
            BackendError::Cancelled
            | BackendError::RateLimited { .. }
            | BackendError::Server { .. }
            | BackendError::Connection { .. }
            | BackendError::Unauthorized { .. }
            | BackendError::Rejected { .. }
            | BackendError::Failed(_)
            | BackendError::Unavailable { .. } => (false, false),
        };
        if is_alive {
            return self.answered(Spend::default());
        }
        let limits = self.guard.limits;
        let (is_probe, spend) = (self.is_probe, if may_be_billed { self.most } else { Spend::default() });
        let mut state = self.settle(spend);
        state.failures = state.failures.saturating_add(1);
        if is_probe || state.failures >= limits.failures_max.max(1) {
            state.closed_until = Some(Instant::now() + limits.cool_down);
        }
    }

    fn settle(&mut self, spend: Spend) -> MutexGuard<'_, State> {
        self.is_settled = true;
        let mut state = self.guard.lock();
        state.reserved.take(self.most);
        state.spent.add(spend);
        if self.is_probe {
            state.is_probed = false;
        }
        state
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            let most = self.most;
            drop(self.settle(most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILURE: BackendError = BackendError::Server { status: 500, retry_after: None };

    fn guard(failures_max: u32) -> BackendGuard {
        let cool_down = Duration::from_secs(10);
        BackendGuard::new(GuardLimits { failures_max, cool_down, ..GuardLimits::default() })
    }

    fn admit(guard: &BackendGuard) -> Result<Admission<'_>, BackendError> {
        guard.admit(Spend::default())
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_close_the_way_until_one_call_succeeds() {
        let guard = guard(2);
        admit(&guard).unwrap().failed(&FAILURE);
        admit(&guard).unwrap().answered(Spend::default());
        admit(&guard).unwrap().failed(&FAILURE);
        admit(&guard).expect("not in a row").failed(&FAILURE);
        assert!(admit(&guard).is_err());
        tokio::time::advance(Duration::from_secs(10)).await;
        let probe = admit(&guard).unwrap();
        assert!(admit(&guard).is_err(), "only one is let through");
        probe.failed(&FAILURE);
        assert!(admit(&guard).is_err(), "it still fails");
        tokio::time::advance(Duration::from_secs(10)).await;
        admit(&guard).unwrap().answered(Spend::default());
        let both = (admit(&guard), admit(&guard));
        assert!(both.0.is_ok() && both.1.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_was_given_up_lets_the_next_one_through() {
        let guard = guard(1);
        admit(&guard).unwrap().failed(&FAILURE);
        tokio::time::advance(Duration::from_secs(10)).await;
        drop(admit(&guard).unwrap());
        assert!(admit(&guard).is_ok());
    }

    #[test]
    fn a_request_that_is_too_long_is_no_failure_of_the_server() {
        let guard = guard(1);
        admit(&guard).unwrap().failed(&BackendError::Overflow { limit: None });
        assert!(admit(&guard).is_ok());
    }

    #[test]
    fn calls_on_their_way_count_towards_the_limit() {
        let limits = GuardLimits { tokens_max: Some(Tokens(100)), ..GuardLimits::default() };
        let guard = BackendGuard::new(limits);
        let most = Spend { tokens: Tokens(60), dollars: 0.0 };
        let first = guard.admit(most).unwrap();
        assert!(guard.admit(most).is_err(), "together they may take 120");
        first.answered(Spend { tokens: Tokens(30), dollars: 0.0 });
        drop(guard.admit(most).expect("30 of 100 are taken"));
        assert_eq!(guard.spent().tokens, Tokens(90), "nobody knows what an abandoned call took");
        let refused = guard.admit(most).unwrap_err();
        assert!(refused.to_string().contains("90 tokens of 100"), "{refused}");
    }

    #[test]
    fn dollars_are_limited_across_clones() {
        let limits = GuardLimits { dollars_max: Some(1.0), ..GuardLimits::default() };
        let guard = BackendGuard::new(limits);
        let guards = [guard.clone(), guard];
        let spend = |dollars| Spend { tokens: Tokens(1), dollars };
        guards[0].admit(spend(0.9)).unwrap().answered(spend(0.8));
        assert!(guards[1].admit(spend(0.3)).is_err());
        assert!(guards[1].admit(spend(0.2)).is_ok());
    }
}
