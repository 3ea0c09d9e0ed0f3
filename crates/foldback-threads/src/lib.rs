//! Work on several cores.
//!
//! The only place where foldback's libraries start threads to be quicker. What comes out does not depend
//! on how many threads there are: answers stand in the order of what was asked. A panic on another thread
//! goes on in the calling one, and nothing runs on after a function here returned.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// How many threads may work together: as many as there are cores, at most `threads_max`.
pub fn threads(threads_max: usize) -> usize {
    // Asked once: the answer is read from several files.
    static CORES: OnceLock<usize> = OnceLock::new();
    (*CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))).min(threads_max)
}

/// Runs `here` on the calling thread and `there` on `count` others at the same time.
pub fn beside<T: Send, R>(
    count: usize,
    there: impl Fn() -> T + Sync,
    here: impl FnOnce() -> R,
) -> (R, Vec<T>) {
    thread::scope(|scope| {
        let others: Vec<_> = (0..count).map(|_| scope.spawn(&there)).collect();
        let done = here();
        let others =
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (done, others.collect())
    })
}

/// What `each` makes of every item, in order, on `threads` threads, of which one is the caller's. A thread
/// that is done with an item takes the next, so items should be worth more than a lock.
pub fn map<I, T, R>(threads: usize, items: I, each: impl Fn(T) -> R + Sync) -> Vec<R>
where
    I: IntoIterator<Item = T, IntoIter: ExactSizeIterator + Send>,
    R: Send,
{
    let items = items.into_iter();
    let others = threads.min(items.len()).saturating_sub(1);
    let waiting = Mutex::new(items.enumerate());
    let claim = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut done = Vec::new();
        while let Some((index, item)) = claim() {
            done.push((index, each(item)));
        }
        done
    };
    let (mut done, more) = beside(others, work, work);
    done.extend(more.into_iter().flatten());
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_in_order_whatever_the_number_of_threads() {
        let expected: Vec<usize> = (0..500).map(|number| number * 3).collect();
        for threads in [0, 1, 2, 7, 1_000] {
            assert_eq!(map(threads, 0..500_usize, |number| number * 3), expected, "{threads} threads");
        }
        assert!(map(4, 0..0_usize, |number| number).is_empty());
    }

    #[test]
    fn one_thread_is_the_callers() {
        let caller = thread::current().id();
        assert!(map(1, 0..9_usize, |_| thread::current().id()).into_iter().all(|id| id == caller));
        let (here, there) = beside(1, || thread::current().id(), || thread::current().id());
        assert!(here == caller && there[0] != caller);
    }

    #[test]
    fn a_panic_elsewhere_is_a_panic_here() {
        let run = || beside(2, || panic!("there"), || ());
        let panic = std::panic::catch_unwind(run).expect_err("it goes on");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"there"));
    }
}
