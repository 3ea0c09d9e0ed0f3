//! How far to compact: the window, the target and the policy together, as a budget.

use foldback_core::{Budget, BudgetError, Level, Model, Policy, Room, Tokens};

use crate::args::Aim;
use crate::failure::Failure;
use crate::policy;
use crate::terminal::number;

/// The window where neither the command line nor the session says which model it is.
pub(crate) const WINDOW_DEFAULT: Tokens = Tokens(200_000);

impl Aim {
    /// The policy that was asked for, or the default.
    pub(crate) fn policy(&self) -> Result<Policy, Failure> {
        policy::chosen(self.policy.as_deref(), &self.policy_from)
    }

    /// The budget of a policy for a model.
    pub(crate) fn budget(&self, policy: &Policy, model: Option<&Model>) -> Result<Budget, Failure> {
        let window = self.window.or(model.map(|model| model.window)).unwrap_or(WINDOW_DEFAULT);
        let budget = match (self.window, self.target) {
            (None, Some(Level::Tokens(target))) => Budget::for_target(target),
            (_, Some(target)) => {
                Budget::builder(window).trigger(Level::PercentOfUsable(100.0)).target(target).build()
            }
            (_, None) => {
                let output_max = model.map_or(Tokens::ZERO, |model| model.output_max);
                policy.budget(Room::new(window).output_max(output_max))
            }
        };
        budget.map_err(|error| self.no_budget(error))
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
