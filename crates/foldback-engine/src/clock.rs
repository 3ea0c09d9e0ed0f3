//! The port to the clock: replays and tests bring their own.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use foldback_core::Timestamp;
use tokio::time::Instant;

/// Tells the time of day. Waiting is tokio's.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Tells the time as tokio's timers do: it stands still while a test pauses them, and jumps with them.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
/// use std::time::Duration;
/// use foldback_core::Timestamp;
/// use foldback_engine::{Clock, TokioClock};
///
/// let clock = TokioClock::starting_at(Timestamp(0));
/// tokio::time::sleep(Duration::from_secs(3_600)).await;
/// assert_eq!(clock.now(), Timestamp(3_600_000));
/// # });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Timestamp,
    started: Instant,
}

impl TokioClock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, started: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.start.after_millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}
