//! Counts heap allocations, but only while asked to.
//!
//! Timed runs and counted runs are different runs: a counter that is always on would charge its
//! own cost to whoever allocates more, and that is never foldback. Off, it costs one relaxed load.
//! This is the only file of the crate with `unsafe` in it.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

struct CountingAllocator;

/// What a piece of work asked the allocator for, on all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allocations {
    /// Calls to `alloc`, `alloc_zeroed` and `realloc`.
    pub(crate) calls: u64,
    /// Bytes asked for; a `realloc` counts what it grows by.
    pub(crate) bytes: u64,
}

/// Runs `work` and counts what it allocates.
pub(crate) fn count<T>(work: impl FnOnce() -> T) -> (T, Allocations) {
    CALLS.store(0, Relaxed);
    BYTES.store(0, Relaxed);
    IS_COUNTING.store(true, Relaxed);
    let output = work();
    IS_COUNTING.store(false, Relaxed);
    (output, Allocations { calls: CALLS.load(Relaxed), bytes: BYTES.load(Relaxed) })
}

/// Panics where counting is broken. Called once before anything is measured, and not a test: tests
/// run on several threads, and the allocator counts them all.
pub(crate) fn self_check() {
    let (kept, allocations) = count(|| Vec::<u8>::with_capacity(64));
    assert_eq!(allocations, Allocations { calls: 1, bytes: 64 }, "one vector is one allocation");
    drop(kept);
    let (_, allocations) = count(|| ());
    assert_eq!(allocations, Allocations::default(), "counting itself does not allocate");
}

fn note(bytes: usize) {
    if IS_COUNTING.load(Relaxed) {
        CALLS.fetch_add(1, Relaxed);
        BYTES.fetch_add(bytes as u64, Relaxed);
    }
}

// SAFETY: every method passes its arguments on to `System` unchanged and returns what it returned;
// `note` touches only atomics, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller upholds `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller upholds `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size.saturating_sub(layout.size()));
        // SAFETY: the caller upholds `realloc`'s contract.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds `dealloc`'s contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}
