//! Triggers on tokens.

use super::{CompactionReason, Trigger, TriggerContext, TriggerError, TriggerFn};
use crate::budget::{Budget, BudgetError, Level, checked_percent};
use crate::ids::Tokens;

/// Fires when the upper bound of the view reaches a level, at every point: inside a tool loop as
/// well as after a turn. A rejected request fires whatever was counted, because the provider knows
/// better. Once the model was switched, the level is that of [its budget](TriggerContext::budget).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetTrigger {
    level: Tokens,
}

impl BudgetTrigger {
    /// At the trigger level of a budget.
    pub fn new(budget: &Budget) -> Self {
        Self { level: budget.trigger() }
    }

    /// At a share of a window, in percent.
    pub fn at_percent_of_window(window: Tokens, percent: f64) -> Result<Self, TriggerError> {
        let budget = Budget::builder(window).trigger(Level::PercentOfWindow(percent)).build()?;
        Ok(Self::new(&budget))
    }

    /// With a fixed headroom left: see [`Budget::with_fixed_headroom`].
    pub fn with_fixed_headroom(window: Tokens) -> Result<Self, TriggerError> {
        Ok(Self::new(&Budget::with_fixed_headroom(window).build()?))
    }

    /// When shares of a window are used up: see [`Budget::with_compact_at`].
    pub fn with_compact_at(
        window: Tokens,
        system: Tokens,
        compact_at: f64,
        threshold: f64,
    ) -> Result<Self, TriggerError> {
        Ok(Self::new(&Budget::with_compact_at(window, system, compact_at, threshold)?.build()?))
    }

    /// At a limit chosen for the model.
    pub fn at_limit(limit: Tokens) -> Result<Self, TriggerError> {
        if limit == Tokens::ZERO { Err(TriggerError::NoLimit) } else { Ok(Self { level: limit }) }
    }
}

impl Trigger for BudgetTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        if context.was_rejected() {
            return Some(CompactionReason::OverflowRejected);
        }
        reached(context.tokens.upper, context.budget.map_or(self.level, |budget| budget.trigger()))
    }
}

fn reached(tokens: Tokens, level: Tokens) -> Option<CompactionReason> {
    (tokens >= level).then_some(CompactionReason::BudgetReached { tokens, level })
}

/// Fires when the input tokens that the provider reported last, cached ones included, reach a
/// share of the window, and when it rejected a request for its length. Once the model was switched, the
/// window is that of [its budget](TriggerContext::budget).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextWindowTrigger {
    window: Tokens,
    percent: f64,
}

/// A [`ContextWindowTrigger`] as a closure. It is heard at every point, because a tool loop can outgrow the
/// window before the turn ends, and goes by the newest report there is, because a tool result brings none. One
/// that cannot be, such as one at 101 percent, fires only on a
/// rejected request; [`ContextWindowTrigger::new`] says what is wrong with it.
///
/// ```
/// use foldback_core::{MutationPoint, Transcript, TriggerContext, context_window_trigger};
///
/// let trigger = context_window_trigger(200_000, 90);
/// let (transcript, point) = (Transcript::default(), MutationPoint::AfterTurnEnded);
/// assert_eq!(trigger(&TriggerContext::new(&transcript, point), point), None);
/// ```
pub fn context_window_trigger(window: impl Into<Tokens>, percent: impl Into<f64>) -> TriggerFn {
    let trigger = ContextWindowTrigger::new(window, percent);
    Box::new(move |context, _| match &trigger {
        Ok(trigger) => trigger.fires(context),
        Err(_) => context.was_rejected().then_some(CompactionReason::OverflowRejected),
    })
}

impl ContextWindowTrigger {
    /// Fires at `window × percent / 100`. Refuses a window of nothing, and what is no percentage.
    pub fn new(window: impl Into<Tokens>, percent: impl Into<f64>) -> Result<Self, TriggerError> {
        let (window, percent) = (window.into(), checked_percent(percent.into())?);
        if window == Tokens::ZERO {
            return Err(BudgetError::NoWindow.into());
        }
        let trigger = Self { window, percent };
        if trigger.level(window) == Tokens::ZERO { Err(TriggerError::NoLimit) } else { Ok(trigger) }
    }

    fn level(&self, window: Tokens) -> Tokens {
        window.scaled_up(self.percent / 100.0)
    }
}

impl Trigger for ContextWindowTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        if context.was_rejected() {
            return Some(CompactionReason::OverflowRejected);
        }
        let window = context.budget.map_or(self.window, |budget| budget.window());
        reached(context.reported_usage()?.prompt_tokens(), self.level(window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Item, Usage};
    use crate::part::ToolResult;
    use crate::tokens::TokenBounds;
    use crate::transcript::Transcript;
    use crate::trigger::{LastCompaction, MutationPoint};

    fn reporting(fresh: u64, cached: u64) -> Transcript {
        let usage = Usage { input_tokens: Tokens(fresh), cached_tokens: Tokens(cached), ..Usage::default() };
        let mut transcript = Transcript::default();
        transcript.push(Item::user("1", "go on"));
        transcript.push(Item::assistant("2", vec![]).with_usage(usage));
        transcript
    }

    #[test]
    fn a_trigger_built_for_one_window_goes_by_the_window_switched_to() {
        let budget = |window| Budget::builder(Tokens(window)).build().unwrap();
        let transcript = reporting(95_000, 0);
        let at = |switched: Option<Budget>| {
            let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded)
                .with_tokens(TokenBounds::exact(Tokens(95_000)));
            switched.map_or(context.clone(), |budget| context.switched_to(budget))
        };
        let triggers: [Box<dyn Trigger>; 3] = [
            Box::new(BudgetTrigger::new(&budget(100_000))),
            Box::new(BudgetTrigger::at_limit(Tokens(90_000)).unwrap()),
            Box::new(ContextWindowTrigger::new(Tokens(100_000), 90.0).unwrap()),
        ];
        for trigger in triggers {
            assert!(trigger.fires(&at(None)).is_some(), "{trigger:?}");
            assert_eq!(trigger.fires(&at(Some(budget(200_000)))), None, "{trigger:?}");
            assert!(trigger.fires(&at(Some(budget(50_000)))).is_some(), "{trigger:?}");
        }
    }

    #[test]
    fn cached_tokens_count_so_5k_fresh_and_190k_cached_of_200k_fire() {
        let trigger = ContextWindowTrigger::new(Tokens(200_000), 90.0).unwrap();
        let transcript = reporting(5_000, 190_000);
        let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded);
        assert!(trigger.fires(&context).is_some());
        let fresh_only = reporting(5_000, 0);
        assert_eq!(trigger.fires(&TriggerContext::new(&fresh_only, MutationPoint::AfterTurnEnded)), None);
    }

    #[test]
    fn a_token_trigger_fires_inside_a_tool_loop_although_the_newest_item_reports_nothing() {
        let mut transcript = reporting(5_000, 190_000);
        transcript.push(Item::tool("3", ToolResult::text("c", "ok")));
        let context = TriggerContext::new(&transcript, MutationPoint::AfterToolResult);
        assert!(ContextWindowTrigger::new(Tokens(200_000), 90.0).unwrap().fires(&context).is_some());
        let counted = context.with_tokens(TokenBounds { estimate: Tokens(1), upper: Tokens(180_000) });
        let trigger = BudgetTrigger::at_percent_of_window(Tokens(200_000), 90.0).unwrap();
        assert!(trigger.fires(&counted).is_some(), "triggers decide on the upper bound");
    }

    #[test]
    fn a_rejected_request_fires_however_little_was_counted() {
        let transcript = reporting(10, 0);
        let context = TriggerContext::new(&transcript, MutationPoint::AfterRequestRejected);
        let reason = Some(CompactionReason::OverflowRejected);
        assert_eq!(ContextWindowTrigger::new(Tokens(200_000), 90.0).unwrap().fires(&context), reason);
        assert_eq!(BudgetTrigger::at_limit(Tokens(200_000)).unwrap().fires(&context), reason);
    }

    #[test]
    fn a_report_from_before_the_last_compaction_does_not_fire_again() {
        let transcript = reporting(5_000, 190_000);
        let last = LastCompaction { tokens_after: Tokens(50_000), at: None, item_count: transcript.len() };
        let context =
            TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded).with_last_compaction(last);
        assert_eq!(ContextWindowTrigger::new(Tokens(200_000), 90.0).unwrap().fires(&context), None);
    }

    #[test]
    fn the_headroom_form_fires_above_81k_of_100k_with_4k_system() {
        let trigger = BudgetTrigger::with_compact_at(Tokens(100_000), Tokens(4_000), 0.90, 0.05).unwrap();
        let transcript = Transcript::default();
        let context = |tokens| {
            TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded)
                .with_tokens(TokenBounds::exact(Tokens(tokens)))
        };
        assert_eq!(trigger.fires(&context(81_000)), None);
        assert!(trigger.fires(&context(81_001)).is_some());
        let fixed = BudgetTrigger::with_fixed_headroom(Tokens(400_000)).unwrap();
        assert_eq!(fixed.fires(&context(379_999)), None);
        assert!(fixed.fires(&context(380_000)).is_some());
    }

    #[test]
    fn impossible_levels_are_refused() {
        let percent = |percent| ContextWindowTrigger::new(Tokens(200_000), percent);
        assert!(matches!(percent(101.0), Err(TriggerError::Budget(BudgetError::NotAPercentage { .. }))));
        assert!(percent(f64::NAN).is_err());
        assert_eq!(percent(0.0), Err(TriggerError::NoLimit));
        assert_eq!(ContextWindowTrigger::new(Tokens(0), 90.0), Err(BudgetError::NoWindow.into()));
        assert_eq!(BudgetTrigger::at_limit(Tokens(0)), Err(TriggerError::NoLimit));
        assert!(BudgetTrigger::at_percent_of_window(Tokens(1_000), 100.5).is_err());
        assert!(BudgetTrigger::with_compact_at(Tokens(1_000), Tokens(0), 1.2, 0.05).is_err());
    }
}
