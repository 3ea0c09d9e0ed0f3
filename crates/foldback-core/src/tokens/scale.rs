//! From counted tokens to the provider's: [`TokenScale`].

use super::calibration::{Observation, RATIO_MAX, RATIO_MIN, median, slopes, spread};
use crate::ids::Tokens;

/// Views that the ratio is learned from, the newest first; older ones may be of another model.
const VIEW_COUNT_MAX: usize = 4;

/// Two counts that differ by less say nothing of a ratio.
const DIFFERENCE_MIN: f64 = 1_000.0;

/// No context in use is larger: a report of more is a mistake, or a joke.
const REPORTED_MAX: Tokens = Tokens(1 << 25);

/// A request: what was counted of its conversation, and what the provider reported for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The conversation, by the counter.
    pub counted: Tokens,
    /// The whole request, by the provider.
    pub reported: Tokens,
}

impl Reported {
    /// Whether the report can be one of a request that held what was counted.
    pub fn is_plausible(&self) -> bool {
        let least = self.counted.scaled_down(RATIO_MIN);
        (least.max(Tokens(1))..=REPORTED_MAX).contains(&self.reported)
    }
}

/// What a request costs by the provider's own count: `overhead + ratio × counted`.
///
/// The overhead is what no session file holds: the system prompt, the tools. The ratio is the
/// provider's vocabulary beside the counter's. Reports tell the two apart by this rule:
///
/// 1. The ratio is the median slope between two reports on one view, where their counts differ by
///    half and by a thousand tokens. At most 16 reports of each of the four newest views are
///    compared, spread from the view's first report to its last.
/// 2. The overhead is what leads the line through the newest report: there the scale says exactly
///    what the provider said.
/// 3. Where no two reports can be compared, the ratio is 1. Vocabularies differ little, and system
///    prompts and tools are 10 to 70 thousand tokens.
/// 4. An overhead is never negative: where it would be, the ratio gives way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenScale {
    ratio: f64,
    overhead: Tokens,
}

impl Default for TokenScale {
    /// The counter's own tokens.
    fn default() -> Self {
        Self { ratio: 1.0, overhead: Tokens::ZERO }
    }
}

impl TokenScale {
    /// Learns from reports, those on the newest view first and within a view the newest last; none
    /// where no report is plausible.
    pub fn of<'r>(views: impl IntoIterator<Item = &'r [Reported]>) -> Option<Self> {
        let plausible = |view: &[Reported]| -> Vec<Reported> {
            view.iter().copied().filter(Reported::is_plausible).collect()
        };
        let views = views.into_iter().map(plausible).filter(|view| !view.is_empty());
        let views: Vec<Vec<Reported>> = views.take(VIEW_COUNT_MAX).collect();
        let newest = *views.first()?.last()?;
        let slopes_of = |view: &Vec<Reported>| {
            let seen: Vec<Observation> = spread(view).map(Observation::from).collect();
            slopes(&seen, DIFFERENCE_MIN)
        };
        let ratio = median(views.iter().flat_map(slopes_of).collect()).clamp(RATIO_MIN, RATIO_MAX);
        Some(Self { ratio, overhead: Tokens::ZERO }.through(newest))
    }

    /// The same ratio led through one more report, such as what an agent says that its context holds.
    #[must_use]
    pub fn through(self, newest: Reported) -> Self {
        let (counted, reported) = (newest.counted.0 as f64, newest.reported.0 as f64);
        let ratio = if counted * self.ratio > reported { reported / counted } else { self.ratio };
        let overhead = newest.reported.saturating_sub(newest.counted.scaled_up(ratio));
        Self { ratio: ratio.max(f64::MIN_POSITIVE), overhead }
    }

    /// The provider's tokens for each counted one.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }

    /// What every request holds beside the conversation, in the provider's tokens.
    pub fn overhead(&self) -> Tokens {
        self.overhead
    }

    /// What a request costs of whose conversation so much is counted.
    pub fn request(&self, counted: Tokens) -> Tokens {
        self.overhead + self.conversation(counted)
    }

    /// The same without the overhead.
    pub fn conversation(&self, counted: Tokens) -> Tokens {
        counted.scaled_up(self.ratio)
    }

    /// How much may be counted of a conversation that costs no more than `tokens` without the overhead.
    pub fn counted(&self, tokens: Tokens) -> Tokens {
        let counted = tokens.scaled_down(1.0 / self.ratio);
        // The division may have rounded up, and no more means no more.
        counted.saturating_sub(Tokens(u64::from(self.conversation(counted) > tokens)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reported(counted: u64, reported: u64) -> Reported {
        Reported { counted: Tokens(counted), reported: Tokens(reported) }
    }

    fn scale(views: &[&[Reported]]) -> TokenScale {
        TokenScale::of(views.iter().copied()).unwrap()
    }

    #[test]
    fn a_vocabulary_and_a_system_prompt_are_told_apart() {
        let view: Vec<Reported> = (0..400).map(|n| reported(n * 500, 28_000 + n * 600)).collect();
        let scale = scale(&[&view]);
        assert!((scale.ratio() - 1.2).abs() < 0.01, "{scale:?}");
        assert!(scale.overhead().0.abs_diff(28_000) < 100, "{scale:?}");
    }

    #[test]
    fn one_report_is_overhead_and_no_ratio() {
        let scale = scale(&[&[reported(1_000, 41_000)]]);
        assert_eq!(scale.request(Tokens(51_000)), Tokens(91_000));
    }

    #[test]
    fn after_a_compaction_the_ratio_of_the_earlier_view_holds_and_its_size_does_not() {
        let earlier = [reported(10_000, 50_000), reported(100_000, 200_000)];
        let alone = [reported(5_000, 60_000)];
        let scale = scale(&[&alone, &earlier]);
        assert!((scale.ratio() - 5.0 / 3.0).abs() < 1e-9);
        assert_eq!(scale.request(Tokens(5_000)), Tokens(60_000));
    }

    #[test]
    fn reports_that_cannot_be_true_are_passed_over() {
        assert_eq!(TokenScale::of([&[reported(50_000, 3), reported(7, u64::MAX)][..]]), None);
        let scale = scale(&[&[reported(50_000, 80_000), reported(50_100, 12)]]);
        assert_eq!(scale.request(Tokens(50_000)), Tokens(80_000));
    }

    #[test]
    fn a_scale_without_reports_says_what_was_counted() {
        let scale = TokenScale::default();
        assert_eq!((scale.request(Tokens(123)), scale.counted(Tokens(123))), (Tokens(123), Tokens(123)));
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn the_newest_report_is_what_the_scale_says_and_what_comes_back_fits(
            views in proptest::collection::vec(
                proptest::collection::vec((0u64..1 << 21, 0u64..1 << 22), 0..40), 0..6),
            tokens in 0u64..1 << 30,
            counted in 0u64..1 << 30,
        ) {
            let views: Vec<Vec<Reported>> = views
                .iter()
                .map(|view| view.iter().map(|&(seen, told)| reported(seen, told)).collect())
                .collect();
            let Some(scale) = TokenScale::of(views.iter().map(Vec::as_slice)) else { return Ok(()) };
            let newest = views.iter().flat_map(|view| view.iter().rev()).find(|report| report.is_plausible());
            let newest = newest.unwrap();
            let there = scale.request(newest.counted);
            prop_assert!(there.0.abs_diff(newest.reported.0) <= 1, "{} for {}", there, newest.reported);
            // What may be counted costs no more, and one more would.
            prop_assert!(scale.conversation(scale.counted(Tokens(tokens))) <= Tokens(tokens));
            let back = scale.counted(scale.conversation(Tokens(counted)));
            prop_assert!(back.0.abs_diff(counted) <= 4, "{back} for {counted}");
            prop_assert!(scale.request(Tokens(counted)) <= scale.request(Tokens(counted + 1)));
            prop_assert!((0.0..=RATIO_MAX).contains(&scale.ratio()));
        }
    }
}
