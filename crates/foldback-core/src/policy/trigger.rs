//! When a policy compacts: rules that can be written down, and the trigger they make.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{PolicyError, Room};
use crate::budget::{
    ANSWER_HEADROOM_MAX, Budget, BudgetError, LARGE_HEADROOM, Level, SMALL_HEADROOM_PERCENT, checked_percent,
};
use crate::cost::Prices;
use crate::ids::Tokens;
use crate::item::ItemKind;
use crate::trigger::{CompactionReason, ContextWindowTrigger, MutationPoint, Trigger, TriggerContext};

/// When a policy compacts: one of the rules that the systems behind the presets have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum PolicyTrigger {
    /// The request reaches a level. Tokens and shares of the window speak of the whole request,
    /// with what it holds beside the transcript; shares of what is usable speak of the transcript.
    Reaches {
        /// The level.
        at: Level,
    },
    /// The request takes all of the input limit but room for the answer, 20,000 tokens at most.
    InputLimit,
    /// Only a fixed headroom is left: see [`Budget::with_fixed_headroom`].
    FixedHeadroom,
    /// `compact_at − overhead/window − tokens/window` falls under `threshold`: see
    /// [`Budget::with_compact_at`].
    CompactAt {
        /// A share of the window, from 0 to 1.
        compact_at: f64,
        /// A share of the window, from 0 to 1.
        threshold: f64,
    },
    /// There are more items than this.
    Items {
        /// As many are still allowed.
        items_max: usize,
    },
    /// The input tokens that the provider reported last reach a share of the window.
    Reported {
        /// The share, in percent.
        percent: f64,
    },
}

impl PolicyTrigger {
    /// The level of the transcript at which it fires, where it goes by tokens.
    pub(super) fn level(self, room: Room, usable: Tokens) -> Result<Option<Tokens>, BudgetError> {
        let share = |of: Tokens, percent: f64| Ok(of.scaled_down(checked_percent(percent)? / 100.0));
        let beside = |request: Tokens| request.saturating_sub(room.overhead);
        let level = match self {
            Self::Reaches { at: Level::Tokens(tokens) } => beside(tokens),
            Self::Reaches { at: Level::PercentOfWindow(percent) } => beside(share(room.window, percent)?),
            Self::Reaches { at: Level::PercentOfUsable(percent) } => share(usable, percent)?,
            Self::InputLimit => usable,
            Self::FixedHeadroom => beside(Budget::with_fixed_headroom(room.window).build()?.trigger()),
            Self::CompactAt { compact_at, threshold } => {
                Budget::with_compact_at(room.window, room.overhead, compact_at, threshold)?.build()?.trigger()
            }
            Self::Items { .. } | Self::Reported { .. } => return Ok(None),
        };
        Ok(Some(level))
    }

    /// The rule itself, if it can be one.
    pub(super) fn checked(self) -> Result<Self, PolicyError> {
        let is_something = match self {
            Self::Reaches { at: Level::Tokens(tokens) } => tokens > Tokens::ZERO,
            Self::Reaches { at: Level::PercentOfWindow(percent) | Level::PercentOfUsable(percent) }
            | Self::Reported { percent } => checked_percent(percent)? > 0.0,
            Self::CompactAt { compact_at, threshold } => {
                checked_percent((compact_at - checked_percent(threshold * 100.0)? / 100.0) * 100.0)? > 0.0
            }
            Self::Items { items_max } => items_max > 0,
            Self::InputLimit | Self::FixedHeadroom => true,
        };
        if is_something { Ok(self) } else { Err(PolicyError::FiresAlways { rule: self }) }
    }
}

impl fmt::Display for PolicyTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reaches { at: Level::Tokens(tokens) } => write!(f, "the request reaches {tokens} tokens"),
            Self::Reaches { at: Level::PercentOfWindow(percent) } => {
                write!(f, "the request reaches {percent}% of the window")
            }
            Self::Reaches { at: Level::PercentOfUsable(percent) } => {
                write!(f, "the transcript reaches {percent}% of what is usable")
            }
            Self::InputLimit => {
                write!(f, "the request leaves only room for the answer, {ANSWER_HEADROOM_MAX} tokens at most")
            }
            Self::FixedHeadroom => write!(
                f,
                "{LARGE_HEADROOM} tokens of the window are left, or {SMALL_HEADROOM_PERCENT}% of one that is not large"
            ),
            Self::CompactAt { compact_at, threshold } => {
                write!(f, "less than {threshold} of the window is left below {compact_at} of it")
            }
            Self::Items { items_max } => write!(f, "there are more than {items_max} items"),
            Self::Reported { percent } => {
                write!(f, "the provider reports {percent}% of the window as input")
            }
        }
    }
}

/// How often a policy's triggers are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checked {
    /// Before every call of the model.
    #[default]
    EveryCall,
    /// Once for each turn, never inside a tool loop.
    OncePerTurn,
}

/// The triggers of one policy at the levels of one budget, or of the one that a session was switched to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fires {
    checked: Checked,
    level: Option<Tokens>,
    items_max: Option<usize>,
    reported: Option<ContextWindowTrigger>,
    cold: Option<Cold>,
}

/// When the prompt cache is cold, and what a compaction would then aim for.
#[derive(Clone, Copy, Debug)]
struct Cold {
    lifetime_millis: u64,
    target: Tokens,
}

/// A cold cache is no reason to compact what is hardly above the target.
const COLD_PERCENT_MIN: u64 = 150;

/// Items searched backwards for when the model was called last.
const CALL_SEARCH_ITEMS_MAX: usize = 256;

impl Fires {
    pub(super) fn new(rules: &[PolicyTrigger], checked: Checked, budget: &Budget) -> Self {
        let mut fires = Self { checked, level: None, items_max: None, reported: None, cold: None };
        let mut percent_min: Option<f64> = None;
        for &rule in rules {
            match rule {
                PolicyTrigger::Reaches { .. }
                | PolicyTrigger::InputLimit
                | PolicyTrigger::FixedHeadroom
                | PolicyTrigger::CompactAt { .. } => fires.level = Some(budget.trigger()),
                PolicyTrigger::Items { items_max } => {
                    fires.items_max = Some(fires.items_max.map_or(items_max, |least| least.min(items_max)));
                }
                PolicyTrigger::Reported { percent } => {
                    percent_min = Some(percent_min.map_or(percent, |least| least.min(percent)));
                }
            }
        }
        fires.reported = percent_min.map(|percent| {
            ContextWindowTrigger::new(budget.window(), percent)
                .expect("percentages are checked with the policy, and a budget has a window")
        });
        fires
    }

    /// Fires also where the cache of `prices` is cold and the transcript well above `target`.
    pub(super) fn when_cold(mut self, prices: &Prices, target: Tokens) -> Self {
        self.cold = Some(Cold { lifetime_millis: prices.lifetime_millis, target });
        self
    }

    fn is_cold(&self, context: &TriggerContext<'_>) -> bool {
        let Some(cold) = self.cold else { return false };
        let target = context.budget.map_or(cold.target, |budget| budget.target());
        if context.tokens.upper.0 < target.0.saturating_mul(COLD_PERCENT_MIN) / 100 {
            return false;
        }
        let newest = context.sequence.items().rev().take(CALL_SEARCH_ITEMS_MAX);
        let called = newest.into_iter().find(|item| item.kind == ItemKind::Assistant);
        let called_at = called.and_then(|item| item.created_at);
        let idle = context.now.zip(called_at).map(|(now, called_at)| now.millis_since(called_at));
        idle.is_some_and(|idle| idle > cold.lifetime_millis)
    }
}

impl Trigger for Fires {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        if context.was_rejected() {
            return Some(CompactionReason::OverflowRejected);
        }
        if self.checked == Checked::OncePerTurn && context.point == MutationPoint::AfterToolResult {
            return None;
        }
        let tokens = context.tokens.upper;
        let level = self.level.map(|level| context.budget.map_or(level, |budget| budget.trigger()));
        let reached = level.filter(|&level| tokens >= level);
        let has_too_many = self.items_max.is_some_and(|items_max| context.sequence.len() > items_max);
        reached
            .map(|level| CompactionReason::BudgetReached { tokens, level })
            .or_else(|| has_too_many.then_some(CompactionReason::TranscriptTooLong))
            .or_else(|| self.reported?.fires(context))
            .or_else(|| self.is_cold(context).then_some(CompactionReason::Idle))
    }
}
