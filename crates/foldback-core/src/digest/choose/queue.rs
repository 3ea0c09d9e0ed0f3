//! What can be written, the best first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::super::passages::NameIndex;
use super::super::sources::TopicIndex;

/// Something that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    /// A passage, with its topic's heading.
    Passage(u32),
    /// The heading alone.
    Heading(TopicIndex),
    /// A name in a list.
    Name(NameIndex),
}

#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) ratio: f64,
    /// It never costs less.
    pub(super) cost_min: f64,
    pub(super) which: Which,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ratio.total_cmp(&other.ratio).then_with(|| other.which.cmp(&self.which))
    }
}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Candidate {}

/// Candidates, the best first as far as they are sorted: most are never looked at.
#[derive(Default)]
pub(super) struct Ranked {
    candidates: Vec<Candidate>,
    sorted_count: usize,
}

/// So many are sorted at first, then as many again whenever there are no more.
const SORTED_COUNT_MIN: usize = 1 << 13;

impl Ranked {
    pub(super) fn of(candidates: Vec<Candidate>) -> Self {
        Self { candidates, sorted_count: 0 }
    }

    fn get(&mut self, index: usize) -> Option<&Candidate> {
        if index >= self.sorted_count {
            let rest = &mut self.candidates[self.sorted_count..];
            let more = self.sorted_count.max(SORTED_COUNT_MIN).min(rest.len());
            if more < rest.len() {
                rest.select_nth_unstable_by(more, |a, b| b.cmp(a));
            }
            rest[..more].sort_unstable_by(|a, b| b.cmp(a));
            self.sorted_count += more;
        }
        self.candidates.get(index)
    }
}

/// Candidates, the best first: those not looked at yet, and those that lost some of their gain.
pub(super) struct Queue<'c> {
    ranked: &'c mut Ranked,
    next: usize,
    pub(super) waiting: BinaryHeap<Candidate>,
}

impl<'c> Queue<'c> {
    pub(super) fn new(ranked: &'c mut Ranked) -> Self {
        Self { ranked, next: 0, waiting: BinaryHeap::new() }
    }

    pub(super) fn peek(&mut self) -> Option<&Candidate> {
        self.ranked.get(self.next).max(self.waiting.peek())
    }

    pub(super) fn pop(&mut self) -> Option<Candidate> {
        match self.ranked.get(self.next) {
            Some(&first) if Some(&first) >= self.waiting.peek() => {
                self.next += 1;
                Some(first)
            }
            _ => self.waiting.pop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_candidate_comes_first_whether_or_not_it_was_looked_at_before() {
        let candidate =
            |ratio: f64, name: u32| Candidate { ratio, cost_min: 1.0, which: Which::Name(NameIndex(name)) };
        let candidates = vec![candidate(0.5, 2), candidate(0.9, 0), candidate(0.1, 3), candidate(0.5, 1)];
        let mut ranked = Ranked::of(candidates);
        let mut queue = Queue::new(&mut ranked);
        queue.waiting.extend([candidate(0.6, 4), candidate(0.05, 5)]);
        let mut order = Vec::new();
        while let Some(best) = queue.pop() {
            assert!(queue.peek().is_none_or(|next| *next <= best));
            order.push(best.which);
        }
        assert_eq!(order, [0, 4, 1, 2, 3, 5].map(|name| Which::Name(NameIndex(name))));
    }

    #[test]
    fn candidates_are_in_order_however_many_are_sorted_at_once() {
        let candidate = |name: u32| {
            let ratio = f64::from(name.wrapping_mul(0x9e37_79b1) >> 12);
            Candidate { ratio, cost_min: 1.0, which: Which::Name(NameIndex(name)) }
        };
        let mut all: Vec<Candidate> = (0..3 * SORTED_COUNT_MIN as u32).map(candidate).collect();
        let mut ranked = Ranked::of(all.clone());
        assert!(ranked.get(0).is_some() && ranked.sorted_count < all.len(), "not all are sorted at first");
        all.sort_unstable_by(|a, b| b.cmp(a));
        for (index, candidate) in all.iter().enumerate() {
            assert_eq!(ranked.get(index).map(|ranked| ranked.which), Some(candidate.which));
        }
        assert!(ranked.get(all.len()).is_none());
    }
}
