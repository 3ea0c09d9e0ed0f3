//! The `push-trigger` cases: what appending one item and asking the trigger costs, and whether
//! that depends on how much came before.
//!
//! Both cases push the very same 100,000 items: once into one transcript, once into a hundred
//! transcripts of 1,000. So only the length of the transcript differs, not what is pushed nor how
//! cold it is in the processor's caches.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use foldback_core::{Item, Transcript};

use crate::allocations::{self, Allocations};
use crate::conversation::conversation;
use crate::foldback_side;
use crate::measure::{Effort, Nanos, median, show};

const SHORT_LEN: usize = 1_000;
const SHORT_COUNT: usize = 100;
const LONG_LEN: usize = SHORT_LEN * SHORT_COUNT;

/// What pushing costs, by item.
#[derive(Clone, Debug)]
pub(crate) struct PushCost {
    short: Nanos,
    long: Nanos,
    ratio_min: f64,
    ratio_max: f64,
    short_allocations: Allocations,
    long_allocations: Allocations,
}

/// Measures both lengths alternately.
pub(crate) fn measure(effort: Effort) -> PushCost {
    let short: Vec<Vec<Arc<Item>>> = (0..SHORT_COUNT)
        .map(|index| foldback_side::items(&conversation(&index.to_string(), index as u64, SHORT_LEN)))
        .collect();
    let long: Vec<Vec<Arc<Item>>> = vec![short.concat()];

    push_all(&short);
    push_all(&long);
    let (mut short_nanos, mut long_nanos) = (Vec::new(), Vec::new());
    for sample_index in 0..effort.sample_count() {
        if sample_index % 2 == 0 {
            short_nanos.push(push_all(&short));
            long_nanos.push(push_all(&long));
        } else {
            long_nanos.push(push_all(&long));
            short_nanos.push(push_all(&short));
        }
    }
    let ratios = || long_nanos.iter().zip(&short_nanos).map(|(long, short)| long / short);
    PushCost {
        short: median(&short_nanos),
        long: median(&long_nanos),
        ratio_min: ratios().fold(f64::INFINITY, f64::min),
        ratio_max: ratios().fold(0.0, f64::max),
        short_allocations: count_all(&short),
        long_allocations: count_all(&long),
    }
}

impl PushCost {
    pub(crate) fn short_line(&self, name: &str) -> String {
        let allocations = per_item(self.short_allocations);
        format!("{name} foldback={}/item peer=none ratio=none spread=none {allocations}", show(self.short))
    }

    /// `ratio` is the cost of an item in the long transcript over that in a short one.
    pub(crate) fn long_line(&self, name: &str) -> String {
        format!(
            "{name} foldback={}/item peer=none ratio={:.2} spread={:.2}..{:.2} {}",
            show(self.long),
            self.long / self.short,
            self.ratio_min,
            self.ratio_max,
            per_item(self.long_allocations),
        )
    }
}

fn per_item(Allocations { calls, bytes }: Allocations) -> String {
    let by_item = |total: u64| total as f64 / LONG_LEN as f64;
    format!("allocs={:.2}/none alloc_bytes={:.0}/none", by_item(calls), by_item(bytes))
}

/// Pushes each list into a transcript of its own; the time for one item. Making the list and
/// dropping the transcript is not timed.
fn push_all(lists: &[Vec<Arc<Item>>]) -> Nanos {
    let mut nanos = 0;
    for list in lists {
        let list = list.clone();
        let started_at = Instant::now();
        let transcript = push(list);
        nanos += started_at.elapsed().as_nanos();
        drop(transcript);
    }
    nanos as Nanos / LONG_LEN as Nanos
}

fn count_all(lists: &[Vec<Arc<Item>>]) -> Allocations {
    let mut total = Allocations::default();
    for list in lists {
        let list = list.clone();
        let (transcript, allocations) = allocations::count(|| push(list));
        drop(transcript);
        total.calls += allocations.calls;
        total.bytes += allocations.bytes;
    }
    total
}

fn push(items: Vec<Arc<Item>>) -> Transcript {
    let mut transcript = Transcript::default();
    for item in items {
        transcript.push(item);
        black_box(foldback_side::trigger_fires(&transcript));
    }
    transcript
}
