//! How much a context may hold: [`Budget`], its levels and the rules they come from.
//!
//! Everything is checked at construction, because a budget that aims above its own trigger
//! compacts on every turn and changes nothing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::Tokens;
use crate::tokens::{Calibration, TokenScale};

/// Where compaction starts unless told otherwise, in percent of what is usable.
pub const TRIGGER_PERCENT: f64 = 85.0;

/// What compaction aims for unless told otherwise, in percent of what is usable.
pub const TARGET_PERCENT: f64 = 50.0;

/// Windows above this many tokens keep a fixed headroom free; smaller ones a share.
pub const LARGE_WINDOW: Tokens = Tokens(200_000);

/// The headroom of a large window.
pub const LARGE_HEADROOM: Tokens = Tokens(20_000);

/// The headroom of a window that is not large, in percent of it.
pub const SMALL_HEADROOM_PERCENT: f64 = 20.0;

/// No more than this is set aside for the answer where the rule is the input limit.
pub const ANSWER_HEADROOM_MAX: Tokens = Tokens(20_000);

/// Why a budget cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// A window of no tokens.
    #[error("the window is 0 tokens")]
    NoWindow,
    /// Nothing is left for the transcript.
    #[error(
        "reserve ({output_reserve}) and overhead ({overhead}) leave nothing of a window of {window} tokens"
    )]
    NothingUsable {
        /// The whole window.
        window: Tokens,
        /// Set aside for the answer.
        output_reserve: Tokens,
        /// System prompt and tool schemas.
        overhead: Tokens,
    },
    /// A percentage that is not one.
    #[error("{percent} is not a percentage between 0 and 100")]
    NotAPercentage {
        /// What was given.
        percent: f64,
    },
    /// A level that is neither a number of tokens nor a percentage.
    #[error("{text:?} is not a level: write tokens such as 120000, \"85%\" or \"90% of window\"")]
    NotALevel {
        /// What was given.
        text: String,
    },
    /// Compaction would start only when it is too late.
    #[error("the trigger ({trigger}) is above what is usable ({usable})")]
    TriggerAboveUsable {
        /// Where compaction would start.
        trigger: Tokens,
        /// What the transcript may take.
        usable: Tokens,
    },
    /// Every compaction would leave a context that triggers the next one.
    #[error("the target ({target}) is above the trigger ({trigger})")]
    TargetAboveTrigger {
        /// What compaction would aim for.
        target: Tokens,
        /// Where it would start.
        trigger: Tokens,
    },
    /// Nothing can be brought to no tokens.
    #[error("the target is 0 tokens")]
    NoTarget,
}

/// A level of a budget, before the budget is known. A new unit is a breaking change: whoever reads a level
/// has to work it out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// So many tokens of transcript.
    Tokens(Tokens),
    /// A share of what is usable, in percent.
    PercentOfUsable(f64),
    /// A share of the whole window, in percent.
    PercentOfWindow(f64),
}

impl Level {
    fn tokens(self, window: Tokens, usable: Tokens) -> Result<Tokens, BudgetError> {
        match self {
            Self::Tokens(tokens) => Ok(tokens),
            Self::PercentOfUsable(percent) => Ok(usable.scaled_down(checked_percent(percent)? / 100.0)),
            Self::PercentOfWindow(percent) => Ok(window.scaled_down(checked_percent(percent)? / 100.0)),
        }
    }
}

/// The percentage itself, if it is one.
pub(crate) fn checked_percent(percent: f64) -> Result<f64, BudgetError> {
    // Written so that a number that is not one fails as well.
    if (0.0..=100.0).contains(&percent) { Ok(percent) } else { Err(BudgetError::NotAPercentage { percent }) }
}

impl From<Tokens> for Level {
    fn from(tokens: Tokens) -> Self {
        Self::Tokens(tokens)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => write!(f, "{tokens}"),
            Self::PercentOfUsable(percent) => write!(f, "{percent}%"),
            Self::PercentOfWindow(percent) => write!(f, "{percent}% of window"),
        }
    }
}

impl FromStr for Level {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let not_a_level = || BudgetError::NotALevel { text: text.to_owned() };
        let Some((number, of)) = text.split_once('%') else {
            return text.trim().parse().map(|tokens| Self::Tokens(Tokens(tokens))).map_err(|_| not_a_level());
        };
        let percent = number.trim().parse().map_err(|_| not_a_level())?;
        match of.trim() {
            "" | "of usable" => Ok(Self::PercentOfUsable(percent)),
            "of window" => Ok(Self::PercentOfWindow(percent)),
            _ => Err(not_a_level()),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenLevel {
    Tokens(Tokens),
    Text(String),
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match WrittenLevel::deserialize(deserializer)? {
            WrittenLevel::Tokens(tokens) => Ok(Self::Tokens(tokens)),
            WrittenLevel::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl Serialize for Level {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Tokens(tokens) => tokens.serialize(serializer),
            Self::PercentOfUsable(_) | Self::PercentOfWindow(_) => serializer.collect_str(self),
        }
    }
}

/// How much the context may hold, when compaction starts and what it aims for.
///
/// Trigger and target are levels of the transcript alone; the overhead is what a request holds
/// beside it. Always: `0 < target ≤ trigger ≤ usable = window − output reserve − overhead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BudgetBuilder")]
pub struct Budget {
    window: Tokens,
    output_reserve: Tokens,
    overhead: Tokens,
    trigger: Tokens,
    target: Tokens,
}

impl Budget {
    /// A budget for a window of so many tokens.
    pub fn builder(window: Tokens) -> BudgetBuilder {
        BudgetBuilder {
            window,
            output_reserve: Tokens::ZERO,
            overhead: Tokens::ZERO,
            trigger: None,
            target: None,
        }
    }

    /// Just bring it under this many tokens.
    pub fn for_target(tokens: Tokens) -> Result<Self, BudgetError> {
        Self::builder(tokens).trigger(tokens).target(tokens).build()
    }

    /// Starts with [`LARGE_HEADROOM`] left of a window above [`LARGE_WINDOW`], and with
    /// [`SMALL_HEADROOM_PERCENT`] left of any other.
    pub fn with_fixed_headroom(window: Tokens) -> BudgetBuilder {
        let headroom = if window > LARGE_WINDOW {
            LARGE_HEADROOM
        } else {
            window.scaled_up(SMALL_HEADROOM_PERCENT / 100.0)
        };
        Self::builder(window).trigger(window.saturating_sub(headroom))
    }

    /// Starts when `compact_at − system/window − tokens/window` falls under `threshold`: both are
    /// shares of the window, 0.90 and 0.05 in the system this rule comes from.
    pub fn with_compact_at(
        window: Tokens,
        system: Tokens,
        compact_at: f64,
        threshold: f64,
    ) -> Result<BudgetBuilder, BudgetError> {
        let share = checked_percent(compact_at * 100.0)? - checked_percent(threshold * 100.0)?;
        let limit = window.scaled_down(checked_percent(share)? / 100.0).saturating_sub(system);
        // The rule fires above the limit, a budget at its trigger.
        Ok(Self::builder(window).overhead(system).trigger(limit + Tokens(1)))
    }

    /// Uses the model's input limit but for room for its answer, [`ANSWER_HEADROOM_MAX`] at most.
    pub fn with_input_limit(input_limit: Tokens, output_max: Tokens) -> BudgetBuilder {
        Self::builder(input_limit)
            .output_reserve(output_max.min(ANSWER_HEADROOM_MAX))
            .trigger(Level::PercentOfUsable(100.0))
    }

    /// The whole window.
    pub fn window(&self) -> Tokens {
        self.window
    }

    /// What is set aside for the answer.
    pub fn output_reserve(&self) -> Tokens {
        self.output_reserve
    }

    /// What a request holds beside the transcript.
    pub fn overhead(&self) -> Tokens {
        self.overhead
    }

    /// What the transcript may take at most.
    pub fn usable(&self) -> Tokens {
        self.window.saturating_sub(self.output_reserve + self.overhead)
    }

    /// Compaction starts when the transcript takes this much.
    pub fn trigger(&self) -> Tokens {
        self.trigger
    }

    /// Compaction aims for this or less.
    pub fn target(&self) -> Tokens {
        self.target
    }

    /// What is left of it beside `tokens` that are sent as well and are not compacted.
    pub fn beside(&self, tokens: Tokens) -> Result<Self, BudgetError> {
        let left = |level: Tokens| level.saturating_sub(tokens).max(Tokens(1));
        Self::builder(self.window)
            .output_reserve(self.output_reserve)
            .overhead(self.overhead + tokens)
            .trigger(left(self.trigger))
            .target(left(self.target))
            .build()
    }

    /// The same budget in counted tokens: whatever counts as inside it is inside the real one even
    /// if every count is as far off as `calibration` thinks possible.
    #[must_use]
    pub fn calibrated(&self, calibration: &Calibration) -> Self {
        let factor = calibration.upper_ratio().max(f64::MIN_POSITIVE);
        let down = |tokens: Tokens| {
            let counted = tokens.scaled_down(1.0 / factor);
            // The division may have rounded up, and inside means inside.
            counted.saturating_sub(Tokens(u64::from(counted.scaled_up(factor) > tokens)))
        };
        self.in_counts(down, factor, calibration.overhead())
    }

    /// The same budget in counted tokens: what counts as inside it is inside by the provider's count.
    #[must_use]
    pub fn scaled(&self, scale: &TokenScale) -> Self {
        self.in_counts(|tokens| scale.counted(tokens), scale.ratio(), scale.overhead())
    }

    /// `down` gives what of so many tokens may be counted, where one counted costs `factor` of them.
    fn in_counts(&self, down: impl Fn(Tokens) -> Tokens, factor: f64, overhead: Tokens) -> Self {
        let overhead = self.overhead.max(overhead);
        let unplanned = overhead.saturating_sub(self.overhead);
        let up = |tokens: Tokens| tokens.scaled_up(1.0 / factor);
        let usable = down(self.usable().saturating_sub(unplanned));
        // Where overhead takes it all, one token keeps the order of the levels; compaction will
        // then say what cannot shrink.
        let trigger = down(self.trigger.saturating_sub(unplanned)).min(usable).max(Tokens(1));
        let target = down(self.target.saturating_sub(unplanned)).min(trigger).max(Tokens(1));
        let (output_reserve, overhead) = (up(self.output_reserve), up(overhead));
        let window = usable.max(trigger) + output_reserve + overhead;
        Self { window, output_reserve, overhead, trigger, target }
    }
}

/// A budget that has not been checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetBuilder {
    window: Tokens,
    #[serde(default)]
    output_reserve: Tokens,
    #[serde(default)]
    overhead: Tokens,
    trigger: Option<Level>,
    target: Option<Level>,
}

impl BudgetBuilder {
    /// Sets tokens aside for the answer.
    #[must_use]
    pub fn output_reserve(mut self, tokens: Tokens) -> Self {
        self.output_reserve = tokens;
        self
    }

    /// Accounts for the system prompt and tool schemas that are not in the transcript.
    #[must_use]
    pub fn overhead(mut self, tokens: Tokens) -> Self {
        self.overhead = tokens;
        self
    }

    /// Where compaction starts; [`TRIGGER_PERCENT`] of what is usable if not set.
    #[must_use]
    pub fn trigger(mut self, level: impl Into<Level>) -> Self {
        self.trigger = Some(level.into());
        self
    }

    /// What compaction aims for; [`TARGET_PERCENT`] of what is usable if not set, or the trigger
    /// where that is lower.
    #[must_use]
    pub fn target(mut self, level: impl Into<Level>) -> Self {
        self.target = Some(level.into());
        self
    }

    /// Checks it all.
    pub fn build(self) -> Result<Budget, BudgetError> {
        let Self { window, output_reserve, overhead, .. } = self;
        if window == Tokens::ZERO {
            return Err(BudgetError::NoWindow);
        }
        let usable = window.saturating_sub(output_reserve + overhead);
        if usable == Tokens::ZERO {
            return Err(BudgetError::NothingUsable { window, output_reserve, overhead });
        }
        let trigger =
            self.trigger.unwrap_or(Level::PercentOfUsable(TRIGGER_PERCENT)).tokens(window, usable)?;
        let target = match self.target {
            Some(level) => level.tokens(window, usable)?,
            None => Level::PercentOfUsable(TARGET_PERCENT).tokens(window, usable)?.min(trigger),
        };
        if trigger > usable {
            return Err(BudgetError::TriggerAboveUsable { trigger, usable });
        }
        if target > trigger {
            return Err(BudgetError::TargetAboveTrigger { target, trigger });
        }
        if target == Tokens::ZERO {
            return Err(BudgetError::NoTarget);
        }
        Ok(Budget { window, output_reserve, overhead, trigger, target })
    }
}

impl TryFrom<BudgetBuilder> for Budget {
    type Error = BudgetError;
    fn try_from(builder: BudgetBuilder) -> Result<Self, BudgetError> {
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::item::Usage;
    use crate::tokens::{Precision, Reported};

    const K: u64 = 1_000;

    fn window(tokens: u64) -> BudgetBuilder {
        Budget::builder(Tokens(tokens))
    }

    #[test]
    fn the_default_levels_are_85_and_50_percent_of_what_is_usable() {
        let budget = window(220 * K).output_reserve(Tokens(15 * K)).overhead(Tokens(5 * K)).build().unwrap();
        assert_eq!(budget.usable(), Tokens(200 * K));
        assert_eq!((budget.trigger(), budget.target()), (Tokens(170 * K), Tokens(100 * K)));
    }

    #[test]
    fn a_budget_that_cannot_work_is_refused_with_its_reason() {
        use BudgetError as E;
        assert_eq!(window(0).build(), Err(E::NoWindow));
        let full = window(10).output_reserve(Tokens(6)).overhead(Tokens(4)).build();
        assert!(matches!(full, Err(E::NothingUsable { .. })));
        for percent in [100.1, -1.0, f64::INFINITY] {
            let refused = window(10).trigger(Level::PercentOfUsable(percent)).build();
            assert_eq!(refused, Err(E::NotAPercentage { percent }));
        }
        let nan = window(10).target(Level::PercentOfWindow(f64::NAN)).build();
        assert!(matches!(nan, Err(E::NotAPercentage { .. })));
        let late = window(10).overhead(Tokens(5)).trigger(Tokens(6)).build();
        assert_eq!(late, Err(E::TriggerAboveUsable { trigger: Tokens(6), usable: Tokens(5) }));
        assert_eq!(window(10).target(Tokens(0)).build(), Err(E::NoTarget));
        assert_eq!(window(10).trigger(Tokens(0)).build(), Err(E::NoTarget));
        assert_eq!(Budget::for_target(Tokens(0)), Err(E::NoWindow));
    }

    #[test]
    fn triggering_at_81k_while_aiming_for_96k_cannot_be_built() {
        let rule = Budget::with_compact_at(Tokens(100 * K), Tokens(4 * K), 0.90, 0.05).unwrap();
        let refused = rule.target(Tokens(96 * K)).build();
        let (target, trigger) = (Tokens(96 * K), Tokens(81_001));
        assert_eq!(refused, Err(BudgetError::TargetAboveTrigger { target, trigger }));
        assert_eq!(rule.build().unwrap().trigger(), trigger);
    }

    #[test]
    fn the_headroom_rules_give_the_levels_of_their_systems() {
        let trigger = |builder: BudgetBuilder| builder.build().unwrap().trigger().0;
        assert_eq!(trigger(Budget::with_fixed_headroom(Tokens(1_000 * K))), 980 * K);
        assert_eq!(trigger(Budget::with_fixed_headroom(Tokens(200 * K))), 160 * K);
        assert_eq!(trigger(Budget::with_input_limit(Tokens(200 * K), Tokens(64 * K))), 180 * K);
        assert_eq!(trigger(Budget::with_input_limit(Tokens(200 * K), Tokens(8 * K))), 192 * K);
    }

    #[test]
    fn a_written_budget_is_checked_like_a_built_one() {
        let read = |json: &str| serde_json::from_str::<Budget>(json);
        let budget = read(r#"{"window":1000,"trigger":"80% of window","target":"40%"}"#).unwrap();
        assert_eq!((budget.trigger(), budget.target()), (Tokens(800), Tokens(400)));
        assert_eq!(read(&serde_json::to_string(&budget).unwrap()).unwrap(), budget);
        let refused = read(r#"{"window":1000,"trigger":500,"target":600}"#).unwrap_err().to_string();
        assert!(refused.contains("the target (600) is above the trigger (500)"), "{refused}");
        assert!(read(r#"{"window":1000,"trigger":"most of it"}"#).is_err());
        assert!(read(r#"{"window":1000,"triger":500}"#).is_err());
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn what_counts_as_inside_a_calibrated_budget_is_inside_the_real_one(
            window_tokens in 1_000u64..2_000_000,
            overhead_percent in 0u64..50,
            counted in 100u64..1_000_000,
            reported in 100u64..1_500_000,
        ) {
            let overhead = Tokens(window_tokens * overhead_percent / 100);
            let budget = window(window_tokens).overhead(overhead).build().unwrap();
            let mut calibration = Calibration::new(Precision::Estimate { upper_factor: 1.35 });
            calibration.observe(Tokens(counted), &Usage { input_tokens: Tokens(reported), ..Usage::default() });
            let inside = budget.calibrated(&calibration);
            prop_assert!(inside.target() >= Tokens(1));
            prop_assert!(inside.target() <= inside.trigger() && inside.trigger() <= inside.usable());
            // One token is what is left where overhead takes everything.
            if inside.target() > Tokens(1) {
                let real = calibration.bounds(inside.target()).upper;
                prop_assert!(real <= budget.target() + budget.overhead(), "{real} for {budget:?}");
            }
        }

        #[test]
        fn what_counts_as_inside_a_scaled_budget_is_inside_by_the_providers_count(
            window_tokens in 1_000u64..2_000_000,
            overhead_percent in 0u64..50,
            counted in 100u64..1_000_000,
            reported in 100u64..1_500_000,
        ) {
            let overhead = Tokens(window_tokens * overhead_percent / 100);
            let budget = window(window_tokens).overhead(overhead).build().unwrap();
            let report = Reported { counted: Tokens(counted), reported: Tokens(reported) };
            let scale = TokenScale::default().through(report);
            let inside = budget.scaled(&scale);
            prop_assert!(inside.target() >= Tokens(1));
            prop_assert!(inside.target() <= inside.trigger() && inside.trigger() <= inside.usable());
            // One token is what is left where overhead takes everything.
            if inside.target() > Tokens(1) {
                let real = scale.request(inside.target());
                let whole = budget.target() + budget.overhead().max(scale.overhead());
                prop_assert!(real <= whole, "{real} for {budget:?}");
            }
        }
    }
}
