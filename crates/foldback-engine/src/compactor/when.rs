//! The triggers that a compactor can be given, as one.

use std::fmt;

use foldback_core::{Budget, CompactionReason, Policy, SessionId, Trigger, TriggerContext, TurnId, View};

use super::{CompactionTrigger, TriggerFn};

/// Says when.
pub(super) enum When {
    /// A closure over the view and the point.
    Fn(Box<TriggerFn>),
    /// A trigger.
    Trigger(Box<dyn CompactionTrigger>),
    /// What a policy says at the levels of a budget; another budget makes it another trigger.
    Policy { policy: Policy, trigger: Box<dyn Trigger> },
}

impl When {
    pub(super) fn fires(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        view: &View,
        context: &TriggerContext<'_>,
    ) -> Option<CompactionReason> {
        match self {
            Self::Fn(decide) => decide(view, context.point),
            Self::Trigger(trigger) => trigger.should_compact(session_id, turn_id, context),
            Self::Policy { trigger, .. } => trigger.fires(context),
        }
    }

    /// The trigger at other levels, where it goes by levels of a budget.
    pub(super) fn at_levels_of(&self, budget: &Budget) -> Option<Self> {
        match self {
            Self::Fn(_) | Self::Trigger(_) => None,
            Self::Policy { policy, .. } => {
                Some(Self::Policy { policy: policy.clone(), trigger: policy.trigger(budget) })
            }
        }
    }
}

impl fmt::Debug for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fn(_) => f.write_str("a closure"),
            Self::Trigger(trigger) => trigger.fmt(f),
            Self::Policy { policy, .. } => f.write_str(policy.name()),
        }
    }
}
