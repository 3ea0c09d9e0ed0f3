//! What every store promises, asked of each of them.

mod cases;
mod damage;
mod model;
mod sqlite;

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
