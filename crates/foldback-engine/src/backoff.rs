//! How long to wait before a failed call is made again: one rule for summaries and for the turns of an
//! agent.

use std::time::Duration;

use crate::backend::BackendError;

/// Doublings of the wait that are computed; the wait has reached its cap long before.
const DOUBLINGS_MAX: u32 = 20;

/// The waits between the attempts at one call.
#[derive(Debug)]
pub struct Backoff {
    retries_left: u32,
    /// What the next wait is made from.
    doublings: u32,
    first: Duration,
    max: Duration,
    jitter: fastrand::Rng,
}

impl Backoff {
    /// At most so many retries. Waits begin at `first` and double up to `max`. The same seed gives the same
    /// waits; without one they differ.
    pub fn new(retries_max: u32, first: Duration, max: Duration, seed: Option<u64>) -> Self {
        let jitter = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self { retries_left: retries_max, doublings: 0, first, max, jitter }
    }

    /// How long to wait after this failure: at least as long as the server asked for. None where the call
    /// is not to be made again.
    pub fn after(&mut self, error: &BackendError) -> Option<Duration> {
        if !error.is_transient() {
            return None;
        }
        self.retries_left = self.retries_left.checked_sub(1)?;
        let doubled = self.first.saturating_mul(1 << self.doublings.min(DOUBLINGS_MAX));
        self.doublings += 1;
        // Between half of it and all of it, so that many clients do not come back at once.
        let backoff = doubled.min(self.max).mul_f64(0.5 + self.jitter.f64() / 2.0);
        Some(backoff.max(error.retry_after().unwrap_or_default()))
    }
}
