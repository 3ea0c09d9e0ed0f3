//! How far to compact: the window, the target and the policy together, as a budget.

use foldback_core::{Budget, BudgetError, Level, Policy, Room, Tokens};

use crate::args::Aim;
use crate::failure::Failure;
use crate::model::{ChosenModel, ChosenWindow};
use crate::policy;
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
    /// What the target is a share of, in words; none where it is a number of tokens.
    share: Option<String>,
}

impl Aimed {
    /// The target in words: `4,000`, or `20,000: 10% of the 200,000 that the window leaves`.
    pub(crate) fn target(&self) -> String {
        let tokens = number(self.budget.target().0);
        self.share.as_ref().map_or_else(|| tokens.clone(), |share| format!("{tokens}: {share}"))
    }
}

impl Aim {
    /// The policy that was asked for, or the default.
    pub(crate) fn policy(&self) -> Result<Policy, Failure> {
        policy::chosen(self.policy.as_deref(), &self.policy_from)
    }

    /// The budget of a policy for a model and a conversation of so many tokens.
    pub(crate) fn budget(
        &self,
        policy: &Policy,
        model: &ChosenModel,
        tokens_before: Tokens,
    ) -> Result<Aimed, Failure> {
        let of_session = match self.target {
            Some(Target::PercentOfSession(percent)) => {
                let share = format!("{percent}% of the session's {}", number(tokens_before.0));
                Some((tokens_before.scaled_down(percent / 100.0), share))
            }
            _ => None,
        };
        let level = match (&of_session, self.target) {
            (Some((tokens, _)), _) => Some(Level::Tokens(*tokens)),
            (None, Some(Target::Level(level))) => Some(level),
            (None, _) => None,
        };
        let share = of_session.map(|(_, share)| share);
        if let (None, Some(Level::Tokens(target))) = (self.window, level) {
            let budget = Budget::for_target(target).map_err(|error| self.no_budget(error))?;
            return Ok(Aimed { budget, window: None, share });
        }
        let window = model.window(self.window)?;
        let budget = match level {
            Some(target) => {
                Budget::builder(window.tokens).trigger(Level::PercentOfUsable(100.0)).target(target).build()
            }
            None => {
                let output_max = model.model().map_or(Tokens::ZERO, |model| model.output_max);
                policy.budget(Room::new(window.tokens).output_max(output_max))
            }
        };
        let budget = budget.map_err(|error| self.no_budget(error))?;
        let share = share.or_else(|| share_of_window(level, &budget));
        Ok(Aimed { budget, window: Some(window), share })
    }

    /// Blames whoever set the window and the target.
    fn no_budget(&self, error: BudgetError) -> Failure {
        let (window, target) = (self.window_from.name("window"), self.target_from.name("target"));
        match error {
            BudgetError::TargetAboveTrigger { target: tokens, trigger } => {
                let (tokens, left) = (number(tokens.0), number(trigger.0));
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
