//! A trigger that waits for growth after each compaction.

use super::{CompactionReason, Trigger, TriggerContext, TriggerError};
use crate::budget::checked_percent;
use crate::ids::{Timestamp, Tokens};

/// How far a context must grow before it is compacted again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// By so many tokens.
    Tokens(Tokens),
    /// By a share of what the last compaction left, in percent.
    Percent(f64),
}

impl Growth {
    /// Enough that a compaction is followed by turns without one.
    pub const DEFAULT: Self = Self::Percent(10.0);
}

/// Holds a trigger back after a compaction until the context has grown: a compaction that freed
/// little would otherwise be followed by one every turn. A rejected request, a model switch and an
/// explicit request always get through.
#[derive(Clone, Debug)]
pub struct HysteresisTrigger<T> {
    trigger: T,
    growth: Growth,
}

impl<T: Trigger> HysteresisTrigger<T> {
    /// Holds `trigger` back until the context has grown by `growth`.
    pub fn new(trigger: T, growth: Growth) -> Result<Self, TriggerError> {
        let is_none = match growth {
            Growth::Tokens(tokens) => tokens == Tokens::ZERO,
            Growth::Percent(percent) => checked_percent(percent)? == 0.0,
        };
        if is_none { Err(TriggerError::NoGrowth) } else { Ok(Self { trigger, growth }) }
    }

    fn is_held_back(&self, context: &TriggerContext<'_>) -> bool {
        let Some(last) = context.last_compaction else { return false };
        let growth = match self.growth {
            Growth::Tokens(tokens) => tokens,
            Growth::Percent(percent) => last.tokens_after.scaled_up(percent / 100.0),
        };
        context.tokens.upper < last.tokens_after + growth
    }
}

impl<T: Trigger> Trigger for HysteresisTrigger<T> {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        if !context.is_urgent() && self.is_held_back(context) {
            return None;
        }
        self.trigger.fires(context)
    }

    fn due_at(&self, context: &TriggerContext<'_>) -> Option<Timestamp> {
        self.trigger.due_at(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::TokenBounds;
    use crate::transcript::Transcript;
    use crate::trigger::{
        BudgetTrigger, EventKind, LastCompaction, MutationPoint, StructuralEvent, StructuralTrigger,
        TriggerExt,
    };

    const LEFT: LastCompaction = LastCompaction { tokens_after: Tokens(80_900), at: None, item_count: 40 };

    fn context(transcript: &Transcript, tokens: u64) -> TriggerContext<'_> {
        TriggerContext::new(transcript, MutationPoint::AfterTurnEnded)
            .with_tokens(TokenBounds::exact(Tokens(tokens)))
            .with_last_compaction(LEFT)
    }

    #[test]
    fn a_compaction_that_freed_little_does_not_run_again_every_turn() {
        let budget = BudgetTrigger::at_limit(Tokens(81_000)).unwrap();
        let patient = budget.with_hysteresis(Growth::DEFAULT).unwrap();
        let transcript = Transcript::default();
        let firings = |trigger: &dyn Trigger| {
            (0..20).filter(|turn| trigger.fires(&context(&transcript, 81_000 + turn * 200)).is_some()).count()
        };
        assert_eq!(firings(&budget), 20);
        assert_eq!(firings(&patient), 0);
        assert!(patient.fires(&context(&transcript, 89_000)).is_some());
    }

    #[test]
    fn a_rejection_a_model_switch_and_a_request_get_through() {
        let transcript = Transcript::default();
        let patient = BudgetTrigger::at_limit(Tokens(81_000))
            .unwrap()
            .or(StructuralTrigger::on(EventKind::AskedByUser))
            .with_hysteresis(Growth::Tokens(Tokens(50_000)))
            .unwrap();
        assert_eq!(patient.fires(&context(&transcript, 81_000)), None);
        let (window_before, window_after) = (Tokens(200_000), Tokens(100_000));
        for event in [
            StructuralEvent::AskedByUser,
            StructuralEvent::RequestRejectedForLength,
            StructuralEvent::ModelSwitched { window_before, window_after },
        ] {
            let events = [event];
            assert!(patient.fires(&context(&transcript, 81_000).with_events(&events)).is_some(), "{event:?}");
        }
        let mut rejected = context(&transcript, 100);
        rejected.point = MutationPoint::AfterRequestRejected;
        assert_eq!(patient.fires(&rejected), Some(CompactionReason::OverflowRejected));
    }

    #[test]
    fn the_first_compaction_is_not_held_back_and_no_growth_is_refused() {
        let budget = BudgetTrigger::at_limit(Tokens(100)).unwrap();
        let transcript = Transcript::default();
        let mut first = context(&transcript, 100);
        first.last_compaction = None;
        assert!(budget.with_hysteresis(Growth::DEFAULT).unwrap().fires(&first).is_some());
        for growth in [Growth::Tokens(Tokens(0)), Growth::Percent(0.0)] {
            assert_eq!(budget.with_hysteresis(growth).unwrap_err(), TriggerError::NoGrowth);
        }
        assert!(budget.with_hysteresis(Growth::Percent(f64::NAN)).is_err());
    }
}
