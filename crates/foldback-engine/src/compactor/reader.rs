//! Reads what is new for the digest to come, on a thread that nobody waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldback_core::{Budget, Tokens, View};
use tokio::runtime::Handle;

/// Items that are read in one go, and tokens, unless one item alone has more: a program that ends waits
/// for the thread.
const ITEMS_MAX: usize = 4_096;
const TOKENS_MAX: Tokens = Tokens(500_000);

/// Below this share of the level at which compaction starts, in percent, nothing is read ahead.
const LEVEL_PERCENT_MIN: u64 = 50;

/// Reads ahead for one compactor, one thread at a time.
#[derive(Debug, Default)]
pub(super) struct Reader {
    is_reading: Arc<AtomicBool>,
}

impl Reader {
    /// Begins to read what was recorded since `read_count` items were read, unless somebody reads or
    /// there is no runtime to read on: a digest says the same either way. Returns how many are read, or
    /// will be. Costs nothing that grows with the items.
    pub(super) fn read(&self, view: &View, read_count: usize, budget: &Budget) -> usize {
        let transcript = view.transcript();
        let last = transcript.shared_len();
        let start = read_count.min(last);
        let is_soon = view.tokens().0.saturating_mul(100) >= budget.trigger().0 * LEVEL_PERCENT_MIN;
        if start == last || !is_soon {
            return read_count;
        }
        let Ok(runtime) = Handle::try_current() else { return read_count };
        let Some(turn) = Turn::taken(&self.is_reading) else { return read_count };
        let mut end = last.min(start + ITEMS_MAX);
        while end - start > 1 && transcript.tokens_of(start..end) > TOKENS_MAX {
            end = start + (end - start) / 2;
        }
        let transcript = transcript.clone();
        runtime.spawn_blocking(move || {
            let _turn = turn;
            (start..end).for_each(|index| transcript.read_ahead(index));
        });
        end
    }
}

/// Whose turn it is to read; given back however the reading ends, or if it never begins.
struct Turn(Arc<AtomicBool>);

impl Turn {
    fn taken(is_reading: &Arc<AtomicBool>) -> Option<Self> {
        (!is_reading.swap(true, Ordering::Acquire)).then(|| Self(Arc::clone(is_reading)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
