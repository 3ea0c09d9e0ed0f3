//! How far to compact: the window, the target and the policy together, as a budget.

use foldback_core::{Budget, BudgetError, Level, Policy, Room, Tokens};

use crate::args::Aim;
use crate::failure::Failure;
use crate::model::{ChosenModel, ChosenWindow};
use crate::policy;
use crate::provider::ProviderCounts;
use crate::terminal::number;

/// What a session is to come down to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    /// Tokens, or a share of the window.
    Level(Level),
    /// A share of what it has now, in percent.
    PercentOfSession(f64),
}

/// How far one conversation is to be compacted, and in relation to what.
#[derive(Clone, Debug)]
pub(crate) struct Aimed {
    pub(crate) budget: Budget,
    /// The window that the budget goes by, if it goes by one.
    pub(crate) window: Option<ChosenWindow>,
    /// What a request is to come down to, by the provider's count; the budget is by the counter's.
    pub(crate) target_tokens: Tokens,
    /// What the target is a share of, in words; none where it is a number of tokens.
    share: Option<String>,
}

impl Aimed {
    /// The target in words: `4,000`, or `20,000: 10% of the 200,000 that the window leaves`.
    pub(crate) fn target(&self) -> String {
        let tokens = number(self.target_tokens.0);
        self.share.as_ref().map_or_else(|| tokens.clone(), |share| format!("{tokens}: {share}"))
    }
}

impl Aim {
    /// The policy that was asked for, or the default.
    pub(crate) fn policy(&self) -> Result<Policy, Failure> {
        policy::chosen(self.policy.as_deref(), &self.policy_from)
    }

    /// The budget of a policy for a model and a conversation of which so much is counted.
    ///
    /// Window and target are in the provider's tokens, and a target in tokens is one of a whole request,
    /// as agents show it. A share is one of what can be compacted. The budget is in the counter's.
    pub(crate) fn budget(
        &self,
        policy: &Policy,
        model: &ChosenModel,
        counted_before: Tokens,
        provider: &ProviderCounts,
    ) -> Result<Aimed, Failure> {
        let overhead = provider.overhead();
        let (level, share) = self.level(counted_before, provider)?;
        let aimed = |budget: Budget, window: Option<ChosenWindow>, share: Option<String>| {
            let target_tokens = budget.target() + overhead;
            let beside = (overhead > Tokens::ZERO)
                .then(|| format!(", and {} for system prompt and tools", number(overhead.0)));
            let share = share.map(|share| share + beside.as_deref().unwrap_or_default());
            Aimed { budget: budget.scaled(provider.scale()), window, target_tokens, share }
        };
        let no_budget = |error| self.no_budget(error, overhead);
        if let (None, Some(Level::Tokens(target))) = (self.window, level) {
            let whole = Budget::builder(target + overhead).overhead(overhead);
            let budget = whole.trigger(target).target(target).build().map_err(no_budget)?;
            return Ok(aimed(budget, None, share));
        }
        let window = model.window(self.window, provider.peak())?;
        let budget = match level {
            Some(target) => Budget::builder(window.tokens)
                .overhead(overhead)
                .trigger(Level::PercentOfUsable(100.0))
                .target(target)
                .build(),
            None => {
                let output_max = model.model().map_or(Tokens::ZERO, |model| model.output_max);
                policy.budget(Room::new(window.tokens).output_max(output_max).overhead(overhead))
            }
        };
        let budget = budget.map_err(no_budget)?;
        let share = share.or_else(|| share_of_window(level, &budget));
        Ok(aimed(budget, Some(window), share))
    }

    /// The target that was asked for, as a level of the conversation alone, and what it is a share of.
    fn level(
        &self,
        counted_before: Tokens,
        provider: &ProviderCounts,
    ) -> Result<(Option<Level>, Option<String>), Failure> {
        Ok(match self.target {
            Some(Target::PercentOfSession(percent)) => {
                let before = provider.scale().conversation(counted_before);
                let share = format!("{percent}% of the session's {}", number(before.0));
                (Some(Level::Tokens(before.scaled_down(percent / 100.0))), Some(share))
            }
            Some(Target::Level(Level::Tokens(target))) if provider.overhead() > Tokens::ZERO => {
                let left = target.saturating_sub(provider.overhead());
                if left == Tokens::ZERO {
                    return Err(Failure::OverheadAboveTarget { target, overhead: provider.overhead() });
                }
                (Some(Level::Tokens(left)), None)
            }
            Some(Target::Level(level)) => (Some(level), None),
            None => (None, None),
        })
    }

    /// Blames whoever set the window and the target.
    fn no_budget(&self, error: BudgetError, overhead: Tokens) -> Failure {
        let (window, target) = (self.window_from.name("window"), self.target_from.name("target"));
        match error {
            BudgetError::TargetAboveTrigger { target: tokens, trigger } => {
                let (tokens, left) = (number((tokens + overhead).0), number((trigger + overhead).0));
                Failure::usage(
                    format!("the target of {tokens} tokens is above the {left} that the window leaves"),
                    format!("lower {target}, or raise {window}"),
                )
            }
            BudgetError::NothingUsable { .. } | BudgetError::NoWindow => {
                Failure::usage(error.to_string(), format!("raise {window}"))
            }
            error => Failure::usage(error.to_string(), format!("look at {window} and {target}")),
        }
    }
}

/// What a share of the window is a share of.
fn share_of_window(level: Option<Level>, budget: &Budget) -> Option<String> {
    match level {
        Some(Level::PercentOfUsable(percent)) => {
            let usable = number(budget.usable().0);
            Some(format!("{percent}% of the {usable} that the window leaves for the conversation"))
        }
        Some(Level::PercentOfWindow(percent)) => {
            Some(format!("{percent}% of the window of {}", number(budget.window().0)))
        }
        Some(Level::Tokens(_)) => None,
        None => Some(format!("the policy's, at a window of {}", number(budget.window().0))),
    }
}
