//! Planning: a strategy on a view, alone or within a room.

use super::{LadderStrategy, Strategy};
use crate::budget::Budget;
use crate::draft::{Draft, SummarySize, SummaryWriter};
use crate::ids::Tokens;
use crate::keep::KeptLines;
use crate::plan::{BudgetInfeasible, Plan};
use crate::view::View;

/// Plans what `strategy` alone does to `view`. Pure: nothing changes until the plan is applied. A
/// [`Compaction`](crate::compaction::Compaction) also goes on where a strategy leaves too much.
pub fn plan(view: &View, strategy: &dyn Strategy, budget: Option<&Budget>) -> Result<Plan, PlanError> {
    plan_draft(Draft::new(view), strategy, budget)
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

/// A plan that stays within a room. What summaries of a known size leave of it goes to items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fitting<'a> {
    pub(crate) strategy: &'a dyn Strategy,
    pub(crate) budget: Option<&'a Budget>,
    pub(crate) room: Option<Tokens>,
    pub(crate) summary_size: Option<SummarySize>,
    pub(crate) writer: SummaryWriter,
    pub(crate) lines: &'a KeptLines,
}

impl<'a> Fitting<'a> {
    /// Plans the strategy and, in the same draft, the ladder where the strategy leaves more than there
    /// is room for. With the plan comes the size that it worked towards, if it did.
    pub(crate) fn plan(&self, view: &View) -> Result<(Plan, Option<Tokens>), PlanError> {
        let alone = plan_draft(self.draft(view, self.writer), self.strategy, self.budget)?;
        let target = self.budget.map(Budget::target);
        if self.room.is_none_or(|room| alone.tokens_after() <= room) {
            return Ok((alone, target.filter(|_| self.strategy.needs_budget())));
        }
        let further = Further { strategy: self.strategy, room: self.room };
        // Where room is short, no summary may take more of it than what it stands for.
        let draft = self.draft(view, SummaryWriter::Digest);
        Ok((plan_draft(draft, &further, self.budget)?, target))
    }

    fn draft<'v>(&self, view: &'v View, writer: SummaryWriter) -> Draft<'v>
    where
        'a: 'v,
    {
        Draft::new(view).keeping(self.lines).with_summary_size(self.summary_size).written_by(writer)
    }
}

/// A strategy, and the ladder where it leaves more than there is room for.
#[derive(Debug)]
struct Further<'a> {
    strategy: &'a dyn Strategy,
    room: Option<Tokens>,
}

impl Strategy for Further<'_> {
    fn id(&self) -> &'static str {
        self.strategy.id()
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        self.strategy.plan(draft, budget);
        draft.keep_user_first();
        if self.room.is_some_and(|room| draft.tokens() > room) {
            LadderStrategy::new().plan(draft, budget);
        }
    }

    fn describe(&self) -> String {
        let (first, ladder) = (self.strategy.describe(), LadderStrategy::new().describe());
        if first.is_empty() { ladder } else { format!("{first} → {ladder}") }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
