//! How far to compact: the window, the target and the policy together, as a budget.

use foldback_core::{Budget, BudgetError, Level, Policy, Room, Tokens};

use crate::args::Aim;
use crate::failure::Failure;
use crate::model::{ChosenModel, ChosenWindow};
use crate::policy;
use crate::terminal::number;

impl Aim {
    /// The policy that was asked for, or the default.
    pub(crate) fn policy(&self) -> Result<Policy, Failure> {
        policy::chosen(self.policy.as_deref(), &self.policy_from)
    }

    /// The budget of a policy for a model, and the window that it goes by, if it goes by one.
    pub(crate) fn budget(
        &self,
        policy: &Policy,
        model: &ChosenModel,
    ) -> Result<(Budget, Option<ChosenWindow>), Failure> {
        if let (None, Some(Level::Tokens(target))) = (self.window, self.target) {
            let budget = Budget::for_target(target).map_err(|error| self.no_budget(error))?;
            return Ok((budget, None));
        }
        let window = model.window(self.window)?;
        let budget = match self.target {
            Some(target) => {
                Budget::builder(window.tokens).trigger(Level::PercentOfUsable(100.0)).target(target).build()
            }
            None => {
                let output_max = model.model().map_or(Tokens::ZERO, |model| model.output_max);
                policy.budget(Room::new(window.tokens).output_max(output_max))
            }
        };
        Ok((budget.map_err(|error| self.no_budget(error))?, Some(window)))
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
