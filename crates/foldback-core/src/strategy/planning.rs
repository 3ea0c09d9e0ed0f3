//! From a strategy and a view to a plan.

use super::Strategy;
use crate::budget::Budget;
use crate::draft::Draft;
use crate::ids::Tokens;
use crate::plan::{BudgetInfeasible, Plan};
use crate::view::View;

/// Plans a compaction of `view`. Pure: nothing changes until the plan is applied.
pub fn plan(view: &View, strategy: &dyn Strategy, budget: Option<&Budget>) -> Result<Plan, PlanError> {
    plan_draft(Draft::new(view), strategy, budget)
}

/// Plans once more, where the summaries of a first plan turned out to need no more than `written`: what
/// they leave of the room, a strategy that works towards a budget may give to items.
pub fn plan_again(
    view: &View,
    strategy: &dyn Strategy,
    budget: Option<&Budget>,
    written: Tokens,
) -> Result<Plan, PlanError> {
    plan_draft(Draft::new(view).with_summaries_max(written), strategy, budget)
}

fn plan_draft(
    mut draft: Draft<'_>,
    strategy: &dyn Strategy,
    budget: Option<&Budget>,
) -> Result<Plan, PlanError> {
    if budget.is_none() && strategy.needs_budget() {
        return Err(PlanError::BudgetRequired { strategy: strategy.describe() });
    }
    draft.settle(|draft| strategy.plan(draft, budget));
    Ok(draft.finish(strategy.describe())?)
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The strategy aims at a size, and none was given.
    #[error("{strategy} works towards a budget; pass one")]
    BudgetRequired {
        /// The strategy or pipeline.
        strategy: String,
    },
    /// What must stay is larger than the target.
    #[error(transparent)]
    BudgetInfeasible(#[from] BudgetInfeasible),
}
