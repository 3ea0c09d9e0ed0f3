//! Everything that any crate logs, searched for keys.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How every key of the test begins.
pub(crate) const KEY_START: &str = "sk-never-log-";

/// Leaks that are kept; the first ones say enough.
const LEAKS_MAX: usize = 10;

static COUNT: AtomicU64 = AtomicU64::new(0);
static LOG_COUNT: AtomicU64 = AtomicU64::new(0);
static LEAKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Listens to all that is logged from now on.
pub(crate) fn listen() {
    crate::listening::listen(|line| {
        LOG_COUNT.fetch_add(u64::from(line.starts_with("log ")), Ordering::Relaxed);
        search(line);
    });
}

/// How many lines were searched.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// How many of them came through `log`, which the HTTP client uses.
pub(crate) fn log_count() -> u64 {
    LOG_COUNT.load(Ordering::Relaxed)
}

/// The lines with a key in them.
pub(crate) fn leaks() -> Vec<String> {
    LEAKS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Looks at a text, whoever wrote it.
pub(crate) fn search(text: &str) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    if text.contains(KEY_START) {
        let mut leaks = LEAKS.lock().unwrap_or_else(PoisonError::into_inner);
        if leaks.len() < LEAKS_MAX {
            leaks.push(text.to_owned());
        }
    }
}
