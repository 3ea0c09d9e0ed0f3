//! Runs the sides in turn on the same input and says how they compare.
//!
//! Sides are sampled alternately, and who goes first alternates too, so that a machine that slows
//! down meanwhile slows all of them. Nothing here asserts anything about time.

use std::hint::black_box;
use std::time::Instant;

use crate::allocations::{self, Allocations};

/// How much patience there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    Quick,
    Full,
}

impl Effort {
    pub(crate) fn sample_count(self) -> usize {
        match self {
            Self::Quick => 3,
            Self::Full => 11,
        }
    }
}

/// A sample repeats its work until it takes about this long, or the clock would be measured.
const SAMPLE_NANOS_MIN: f64 = 2e6;
/// Inputs and outputs of a sample are alive at the same time: no more than this many.
const REPEATS_MAX: usize = 64;

/// Nanoseconds.
pub(crate) type Nanos = f64;

/// Something that can be timed and whose allocations can be counted.
pub(crate) trait Side {
    /// The mean time of one run out of `repeats`.
    fn time(&mut self, repeats: usize) -> Nanos;
    /// What one run allocates.
    fn allocations(&mut self) -> Allocations;
}

/// A side that only reads its input. It is passed in rather than captured, so that the optimiser
/// cannot see that every run reads the same and do the work once.
pub(crate) fn side<'a, I: ?Sized, O>(input: &'a I, run: impl FnMut(&'a I) -> O) -> impl Side {
    owning_side(move || input, run)
}

/// A side that consumes its input: `prepare` makes a new one for every run and is not measured.
/// Neither is dropping the output.
pub(crate) fn owning_side<I, O>(prepare: impl FnMut() -> I, run: impl FnMut(I) -> O) -> impl Side {
    Prepared { prepare, run }
}

struct Prepared<P, R> {
    prepare: P,
    run: R,
}

impl<I, O, P: FnMut() -> I, R: FnMut(I) -> O> Side for Prepared<P, R> {
    fn time(&mut self, repeats: usize) -> Nanos {
        let inputs: Vec<I> = (0..repeats).map(|_| (self.prepare)()).collect();
        let mut outputs = Vec::with_capacity(repeats);
        let started_at = Instant::now();
        for input in inputs {
            outputs.push(black_box((self.run)(black_box(input))));
        }
        let took = started_at.elapsed();
        drop(outputs);
        took.as_nanos() as Nanos / repeats as Nanos
    }

    fn allocations(&mut self) -> Allocations {
        let input = (self.prepare)();
        let (output, allocations) = allocations::count(|| (self.run)(input));
        drop(output);
        allocations
    }
}

/// What comparing two sides found.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) foldback: Nanos,
    pub(crate) peer: Nanos,
    /// One of the two driven in another way, in the order given.
    pub(crate) variants: Vec<Nanos>,
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
    foldback_allocations: Allocations,
    peer_allocations: Allocations,
}

/// Samples all sides alternately.
pub(crate) fn compare<'a>(
    effort: Effort,
    foldback: &'a mut dyn Side,
    peer: &'a mut dyn Side,
    variants: Vec<&'a mut dyn Side>,
) -> Comparison {
    let mut sides: Vec<&mut dyn Side> = [foldback, peer].into_iter().chain(variants).collect();
    let repeats: Vec<usize> = sides.iter_mut().map(|side| repeats(&mut **side)).collect();
    // Counted when everything that loads once is loaded.
    let foldback_allocations = sides[FOLDBACK].allocations();
    let peer_allocations = sides[PEER].allocations();

    let mut samples = vec![Vec::<Nanos>::new(); sides.len()];
    for sample_index in 0..effort.sample_count() {
        for step in 0..sides.len() {
            let side_index = (sample_index + step) % sides.len();
            samples[side_index].push(sides[side_index].time(repeats[side_index]));
        }
    }
    let ratios = || samples[PEER].iter().zip(&samples[FOLDBACK]).map(|(peer, foldback)| peer / foldback);
    let (foldback, peer) = (median(&samples[FOLDBACK]), median(&samples[PEER]));
    Comparison {
        foldback,
        peer,
        variants: samples[VARIANTS..].iter().map(|samples| median(samples)).collect(),
        ratio: peer / foldback,
        ratio_min: ratios().fold(f64::INFINITY, f64::min),
        ratio_max: ratios().fold(0.0, f64::max),
        foldback_allocations,
        peer_allocations,
    }
}

const FOLDBACK: usize = 0;
const PEER: usize = 1;
/// The first of them.
const VARIANTS: usize = 2;

/// What measuring foldback alone found.
#[derive(Clone, Debug)]
pub(crate) struct Alone {
    pub(crate) foldback: Nanos,
    samples_min: Nanos,
    samples_max: Nanos,
    allocations: Allocations,
}

/// Samples a side that has no peer.
pub(crate) fn alone(effort: Effort, foldback: &mut dyn Side) -> Alone {
    let repeats = repeats(foldback);
    let allocations = foldback.allocations();
    let samples: Vec<Nanos> = (0..effort.sample_count()).map(|_| foldback.time(repeats)).collect();
    Alone {
        foldback: median(&samples),
        samples_min: samples.iter().copied().fold(f64::INFINITY, f64::min),
        samples_max: samples.iter().copied().fold(0.0, f64::max),
        allocations,
    }
}

impl Alone {
    /// The line of a case without a peer; its spread is that of the time.
    pub(crate) fn line(&self, name: &str) -> String {
        let Allocations { calls, bytes } = self.allocations;
        format!(
            "{name} foldback={} peer=none ratio=none spread={}..{} allocs={calls}/none alloc_bytes={bytes}/none",
            show(self.foldback),
            show(self.samples_min),
            show(self.samples_max),
        )
    }
}

/// How often a sample repeats the work; finding out warms the side up.
fn repeats(side: &mut dyn Side) -> usize {
    let nanos = side.time(1);
    ((SAMPLE_NANOS_MIN / nanos.max(1.0)) as usize).clamp(1, REPEATS_MAX)
}

/// The middle value, or the mean of the two middle ones.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// A time in the unit that suits it: `950ns`, `1.25us`, `484.02ms`.
pub(crate) fn show(nanos: Nanos) -> String {
    match nanos {
        1e9.. => format!("{:.3}s", nanos / 1e9),
        1e6.. => format!("{:.2}ms", nanos / 1e6),
        1e3.. => format!("{:.2}us", nanos / 1e3),
        _ => format!("{nanos:.0}ns"),
    }
}

impl Comparison {
    /// The line of a case that has a peer.
    pub(crate) fn line(&self, name: &str) -> String {
        let Self { foldback_allocations: ours, peer_allocations: theirs, .. } = self;
        format!(
            "{name} foldback={} peer={} ratio={:.1} spread={:.1}..{:.1} allocs={}/{} alloc_bytes={}/{}",
            show(self.foldback),
            show(self.peer),
            self.ratio,
            self.ratio_min,
            self.ratio_max,
            ours.calls,
            theirs.calls,
            ours.bytes,
            theirs.bytes,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_ignores_the_outlier() {
        assert_eq!(median(&[3.0, 1.0, 1000.0]), 3.0);
        assert_eq!(median(&[4.0, 2.0]), 3.0);
    }
}
