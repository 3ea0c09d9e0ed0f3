//! Correcting counts by what providers report.
//!
//! A count is off by a ratio (another vocabulary) and by a sum (a system prompt and tool schemas
//! that are not in the transcript). [`Calibration`] learns both from reported usage.

use std::collections::VecDeque;

use super::scale::Reported;
use super::{EstimatingCounter, Precision, TokenCounter};
use crate::ids::Tokens;
use crate::item::Usage;

/// Observations kept; older ones come from contexts and models that may be gone.
const OBSERVATION_COUNT_MAX: usize = 16;

/// No vocabulary in use needs fewer than this many reported tokens for each counted one.
pub(super) const RATIO_MIN: f64 = 0.5;

/// No vocabulary in use needs more than this; what is beyond it is overhead.
pub(super) const RATIO_MAX: f64 = 2.0;

/// Below this many counted tokens, overhead hides the ratio.
const COUNTED_MIN: Tokens = Tokens(64);

/// The largest context must be this many times the smallest before ratio and overhead can be told
/// apart.
const SPREAD_MIN: f64 = 1.5;

/// Added at least to the largest ratio seen, because the next one may be larger.
const UPPER_MARGIN_MIN: f64 = 0.05;

/// From this many observations on, half of the counter's own margin is enough: the mean of the
/// context is known then, and only single texts still differ from it.
const TRUSTED_COUNT: usize = 3;

/// An estimate and a bound that the real count almost never exceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBounds {
    /// The best guess.
    pub estimate: Tokens,
    /// What triggers decide on. Never below the estimate.
    pub upper: Tokens,
}

impl TokenBounds {
    /// Bounds of a number that is known.
    pub fn exact(tokens: Tokens) -> Self {
        Self { estimate: tokens, upper: tokens }
    }

    /// The same without `overhead`, which a budget accounts for by itself.
    #[must_use]
    pub fn without(self, overhead: Tokens) -> Self {
        Self { estimate: self.estimate.saturating_sub(overhead), upper: self.upper.saturating_sub(overhead) }
    }
}

impl std::ops::Add for TokenBounds {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { estimate: self.estimate + other.estimate, upper: self.upper + other.upper }
    }
}

/// One report beside what had been counted for the same request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observation {
    counted: f64,
    reported: f64,
}

impl From<Reported> for Observation {
    fn from(seen: Reported) -> Self {
        Self { counted: seen.counted.0 as f64, reported: seen.reported.0 as f64 }
    }
}

/// Whether the overhead is known or learned.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Overhead {
    Given(f64),
    Learned(f64),
}

impl Overhead {
    fn tokens(self) -> f64 {
        match self {
            Self::Given(tokens) | Self::Learned(tokens) => tokens,
        }
    }
}

/// The ratio of reported to counted tokens, and the overhead that is not in the transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    counter_factor: f64,
    observations: VecDeque<Observation>,
    overhead: Overhead,
    ratio: f64,
    upper_ratio: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self::new(EstimatingCounter.precision())
    }
}

impl Calibration {
    /// Knows nothing yet but how far the counter can be off.
    pub fn new(precision: Precision) -> Self {
        let counter_factor = match precision {
            Precision::Exact => 1.0,
            Precision::Estimate { upper_factor } if upper_factor.is_finite() => upper_factor.max(1.0),
            Precision::Estimate { .. } => RATIO_MAX,
        };
        let overhead = Overhead::Learned(0.0);
        let observations = VecDeque::new();
        Self { counter_factor, observations, overhead, ratio: 1.0, upper_ratio: counter_factor }
    }

    /// The same with an overhead that is known, so that it need not be learned.
    #[must_use]
    pub fn with_overhead(mut self, overhead: Tokens) -> Self {
        self.overhead = Overhead::Given(overhead.0 as f64);
        self.learn();
        self
    }

    /// Learns from one request: what had been counted for it, and what the provider reported.
    pub fn observe(&mut self, counted: Tokens, reported: &Usage) {
        let prompt = reported.prompt_tokens();
        if counted < COUNTED_MIN || prompt == Tokens::ZERO {
            return;
        }
        if self.observations.len() == OBSERVATION_COUNT_MAX {
            self.observations.pop_front();
        }
        self.observations.push_back(Observation { counted: counted.0 as f64, reported: prompt.0 as f64 });
        self.learn();
    }

    /// Reported tokens for each counted one, by the best guess.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }

    /// Reported tokens for each counted one, almost never exceeded.
    pub fn upper_ratio(&self) -> f64 {
        self.upper_ratio
    }

    /// What every request costs beside the transcript.
    pub fn overhead(&self) -> Tokens {
        Tokens(self.overhead.tokens().ceil() as u64)
    }

    /// What a request with `counted` tokens of transcript will cost, overhead included.
    pub fn bounds(&self, counted: Tokens) -> TokenBounds {
        self.added(counted) + TokenBounds::exact(self.overhead())
    }

    /// What `counted` tokens add to a request that is there already.
    pub fn added(&self, counted: Tokens) -> TokenBounds {
        TokenBounds { estimate: counted.scaled_up(self.ratio), upper: counted.scaled_up(self.upper_ratio) }
    }

    fn learn(&mut self) {
        let Some(newest) = self.observations.back().copied() else { return };
        if let Overhead::Learned(_) = self.overhead {
            self.overhead = Overhead::Learned(self.learned_overhead(newest));
        }
        let overhead = self.overhead.tokens();
        let ratio = |seen: &Observation| {
            ((seen.reported - overhead).max(0.0) / seen.counted).clamp(RATIO_MIN, RATIO_MAX)
        };
        let largest = self.observations.iter().map(ratio).fold(RATIO_MIN, f64::max);
        self.ratio = median(self.observations.iter().map(ratio).collect());
        let own_margin = self.counter_factor - 1.0;
        let is_trusted = self.observations.len() >= TRUSTED_COUNT;
        let margin = if is_trusted { own_margin / 2.0 } else { own_margin }.max(UPPER_MARGIN_MIN);
        self.upper_ratio = largest * (1.0 + margin);
    }

    /// The part of what is reported that does not grow with the transcript: the median over all
    /// pairs is indifferent to a few odd reports.
    fn learned_overhead(&self, newest: Observation) -> f64 {
        let counted = || self.observations.iter().map(|seen| seen.counted);
        let smallest = counted().fold(f64::INFINITY, f64::min);
        let largest = counted().fold(0.0, f64::max);
        if largest < smallest * SPREAD_MIN {
            // Ratio and overhead cannot be told apart; only an impossible ratio must be overhead.
            return (newest.reported - newest.counted * RATIO_MAX).max(0.0);
        }
        let seen: Vec<Observation> = self.observations.iter().copied().collect();
        let slope = median(slopes(&seen, 0.0)).clamp(RATIO_MIN, RATIO_MAX);
        median(self.observations.iter().map(|seen| seen.reported - slope * seen.counted).collect()).max(0.0)
    }
}

/// At most [`OBSERVATION_COUNT_MAX`] of these, from the first to the last.
pub(super) fn spread(seen: &[Reported]) -> impl Iterator<Item = Reported> {
    let last = seen.len().saturating_sub(1);
    let count = seen.len().min(OBSERVATION_COUNT_MAX);
    (0..count).map(move |index| seen[index * last / (count - 1).max(1)])
}

/// Reported tokens for each counted one, between any two observations that are far enough apart.
pub(super) fn slopes(seen: &[Observation], difference_min: f64) -> Vec<f64> {
    let pairs = seen.iter().enumerate().flat_map(|(index, one)| {
        let others = seen.iter().skip(index + 1);
        others.map(move |other| if one.counted <= other.counted { (one, other) } else { (other, one) })
    });
    let is_apart = |(less, more): &(&Observation, &Observation)| {
        more.counted >= less.counted * SPREAD_MIN && more.counted - less.counted >= difference_min
    };
    let slope = |(less, more): (&Observation, &Observation)| {
        (more.reported - less.reported) / (more.counted - less.counted)
    };
    pairs.filter(is_apart).map(slope).collect()
}

/// The upper of the two in the middle where their number is even; 1 of none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usage(fresh: u64, cached: u64, output: u64) -> Usage {
        Usage {
            input_tokens: Tokens(fresh),
            cached_tokens: Tokens(cached),
            output_tokens: Tokens(output),
            ..Usage::default()
        }
    }

    #[test]
    fn without_an_observation_the_upper_bound_is_the_counters_own() {
        let calibration = Calibration::new(Precision::Estimate { upper_factor: 1.5 });
        assert_eq!(
            calibration.bounds(Tokens(100)),
            TokenBounds { estimate: Tokens(100), upper: Tokens(150) }
        );
        let exact = Calibration::new(Precision::Exact).bounds(Tokens(100));
        assert_eq!(exact, TokenBounds::exact(Tokens(100)));
    }

    #[test]
    fn cached_and_cache_written_tokens_are_part_of_what_is_learned() {
        let mut calibration = Calibration::default().with_overhead(Tokens::ZERO);
        let mut reported = usage(1_000, 90_000, 500);
        reported.cache_write_tokens = Tokens(29_000);
        calibration.observe(Tokens(100_000), &reported);
        assert!((calibration.ratio() - 1.2).abs() < 1e-9, "{}", calibration.ratio());
    }

    #[test]
    fn a_ratio_and_an_overhead_are_told_apart() {
        let mut calibration = Calibration::default();
        for counted in [5_000, 20_000, 40_000, 80_000] {
            calibration.observe(Tokens(counted), &usage(12_000 + counted * 13 / 10, 0, 100));
        }
        assert!((calibration.ratio() - 1.3).abs() < 0.01, "{}", calibration.ratio());
        assert!(calibration.overhead().0.abs_diff(12_000) < 50, "{}", calibration.overhead());
    }

    #[test]
    fn a_large_system_prompt_over_a_short_transcript_is_not_taken_for_a_ratio() {
        let mut calibration = Calibration::default();
        calibration.observe(Tokens(1_000), &usage(15_000, 0, 10));
        let bounds = calibration.bounds(Tokens(100_000));
        assert!(bounds.upper < Tokens(300_000), "{bounds:?}");
        assert!(calibration.bounds(Tokens(1_000)).upper >= Tokens(15_000));
    }

    #[test]
    fn one_odd_report_does_not_move_the_estimate() {
        let mut calibration = Calibration::default().with_overhead(Tokens::ZERO);
        for _ in 0..5 {
            calibration.observe(Tokens(10_000), &usage(11_000, 0, 0));
        }
        calibration.observe(Tokens(10_000), &usage(40, 0, 0));
        assert!((calibration.ratio() - 1.1).abs() < 1e-9);
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn the_upper_bound_is_never_below_the_estimate(
            observations in proptest::collection::vec((0u64..1 << 40, 0u64..1 << 40), 0..40),
            overhead in proptest::option::of(0u64..1 << 40),
            counted in 0u64..1 << 50,
        ) {
            let mut calibration = Calibration::default();
            if let Some(overhead) = overhead {
                calibration = calibration.with_overhead(Tokens(overhead));
            }
            for (seen, reported) in observations {
                calibration.observe(Tokens(seen), &usage(reported, 0, 0));
                prop_assert!((RATIO_MIN..=RATIO_MAX).contains(&calibration.ratio()));
            }
            let bounds = calibration.bounds(Tokens(counted));
            prop_assert!(bounds.upper >= bounds.estimate);
            prop_assert!(calibration.observations.len() <= OBSERVATION_COUNT_MAX);
        }
    }
}
