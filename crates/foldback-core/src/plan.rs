//! A plan: the edits of one compaction, to be inspected, applied or thrown away.

use std::sync::Arc;

use crate::block::{BlockKind, CompactionBlock};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::{Edit, Fold};
use crate::ids::{ItemId, Text, Timestamp, Tokens};
use crate::item::{Item, ItemKind};
use crate::strategy::{LadderStrategy, Strategy};
use crate::summary::{FoldRequest, SummaryError};
use crate::trigger::CompactionReason;
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
    draft.settle(strategy, budget);
    Ok(draft.finish(strategy.describe())?)
}

/// A plan that stays within a room. `written` is what the summaries of an earlier such plan needed,
/// where they needed less than it left for them: the rest goes to items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fitting<'a> {
    pub(crate) strategy: &'a dyn Strategy,
    pub(crate) budget: Option<&'a Budget>,
    pub(crate) room: Option<Tokens>,
    pub(crate) written: Option<Tokens>,
}

impl Fitting<'_> {
    /// Plans the strategy and, in the same draft, the ladder where the strategy leaves more than there
    /// is room for. With the plan comes the size that it worked towards, if it did.
    pub(crate) fn plan(&self, view: &View) -> Result<(Plan, Option<Tokens>), PlanError> {
        let alone = plan_draft(self.draft(view), self.strategy, self.budget)?;
        let target = self.budget.map(Budget::target);
        if self.room.is_none_or(|room| alone.tokens_after <= room) {
            return Ok((alone, target.filter(|_| self.strategy.needs_budget())));
        }
        let further = Further { strategy: self.strategy, room: self.room };
        Ok((plan_draft(self.draft(view), &further, self.budget)?, target))
    }

    fn draft<'v>(&self, view: &'v View) -> Draft<'v> {
        match self.written {
            Some(written) => Draft::new(view).with_summaries_max(written),
            None => Draft::new(view),
        }
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

/// What must stay is larger than the target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the items that cannot shrink cost {kernel_tokens} tokens, the target is {target}: {}; \
     raise the target, unpin items or shorten the newest message",
    list(.kernel)
)]
pub struct BudgetInfeasible {
    /// The items that cannot go, largest first, with what each costs at its smallest.
    pub kernel: Vec<KernelItem>,
    /// What they cost together.
    pub kernel_tokens: Tokens,
    /// What was aimed at.
    pub target: Tokens,
}

/// An item that cannot go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelItem {
    /// Its id.
    pub id: ItemId,
    /// Its kind.
    pub kind: ItemKind,
    /// What it costs at its smallest.
    pub tokens: Tokens,
}

/// Kernel items named in the message; the rest are counted.
const NAMED_MAX: usize = 5;

fn list(kernel: &[KernelItem]) -> String {
    let name = |item: &KernelItem| format!("{} {} ({} tokens)", item.kind, item.id, item.tokens);
    let mut named: Vec<String> = kernel.iter().take(NAMED_MAX).map(name).collect();
    if kernel.len() > NAMED_MAX {
        named.push(format!("and {} more", kernel.len() - NAMED_MAX));
    }
    named.join(", ")
}

/// The edits of one compaction.
#[derive(Clone, Debug)]
pub struct Plan {
    view: View,
    edits: Vec<Edit>,
    tokens_after: Tokens,
    first_changed: Option<usize>,
    strategy: String,
    cause: Option<CompactionReason>,
    made_at: Option<Timestamp>,
    is_joined: bool,
}

impl Plan {
    pub(crate) fn new(
        view: View,
        edits: Vec<Edit>,
        tokens_after: Tokens,
        first_changed: Option<usize>,
        strategy: String,
    ) -> Self {
        Self {
            view,
            edits,
            tokens_after,
            first_changed,
            strategy,
            cause: None,
            made_at: None,
            is_joined: false,
        }
    }

    /// Records why the compaction is made (T9).
    #[must_use]
    pub fn caused_by(mut self, cause: CompactionReason) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Records that the block below belongs to this compaction: both are undone together.
    #[must_use]
    pub fn joined(mut self) -> Self {
        self.is_joined = true;
        self
    }

    /// Records when the compaction is made; core reads no clock.
    #[must_use]
    pub fn made_at(mut self, now: Timestamp) -> Self {
        self.made_at = Some(now);
        self
    }

    /// Asks every summary to attend to something, whatever the strategy asked for.
    #[must_use]
    pub fn focused_on(mut self, focus: &Text) -> Self {
        for edit in &mut self.edits {
            match edit {
                Edit::Fold(fold) => fold.spec.focus = Some(focus.clone()),
                Edit::Drop(_) | Edit::Rewrite(_) => {}
            }
        }
        self
    }

    /// What it changes, in order of the transcript.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The view it was planned on.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The strategy or pipeline that planned it.
    pub fn strategy(&self) -> &str {
        &self.strategy
    }

    /// What the view costs now.
    pub fn tokens_before(&self) -> Tokens {
        self.view.tokens()
    }

    /// What it will cost at most: summaries may turn out smaller than asked for.
    pub fn tokens_after(&self) -> Tokens {
        self.tokens_after
    }

    /// The first position of the view that changes; everything before is byte-stable (T6).
    pub fn first_changed(&self) -> Option<usize> {
        self.first_changed
    }

    /// What the unchanged prefix costs: how much of the prompt cache survives.
    pub fn prefix_tokens_kept(&self) -> Tokens {
        self.view.tokens_of(0..self.first_changed.unwrap_or(self.view.len()))
    }

    /// The folds, in the order in which their summaries are expected.
    pub fn folds(&self) -> impl Iterator<Item = &Fold> {
        self.edits.iter().filter_map(|edit| match edit {
            Edit::Fold(fold) => Some(fold),
            Edit::Drop(_) | Edit::Rewrite(_) => None,
        })
    }

    /// What its summaries may cost together.
    pub fn summaries_max(&self) -> Tokens {
        self.folds().map(|fold| fold.spec.tokens_max).sum()
    }

    /// The summaries it asks for.
    pub fn requests(&self) -> impl Iterator<Item = FoldRequest<'_>> {
        self.folds().map(|fold| FoldRequest::new(fold, &self.view, &self.edits))
    }

    /// Applies it with these summaries, one list of items per request in order. Each is judged;
    /// nothing is applied if one is refused.
    pub fn apply(&self, summaries: Vec<Vec<Item>>) -> Result<Compacted, SummaryError> {
        let (expected, given) = (self.folds().count(), summaries.len());
        if expected != given {
            return Err(SummaryError::Count { expected, given });
        }
        let accepted = self.requests().zip(summaries).map(|(request, items)| request.accept(items));
        Ok(self.commit(accepted.collect::<Result<_, _>>()?))
    }

    /// Applies it with digests. Needs no model and cannot fail.
    pub fn apply_digest(&self) -> Compacted {
        let summaries = self.requests().map(|request| vec![request.digest()]).collect();
        self.commit(summaries)
    }

    /// Applies it with these summaries, one for each request in order; the digest stands where there is
    /// none, or one that is refused.
    pub(crate) fn apply_or_digest(&self, summaries: Vec<Option<Vec<Item>>>) -> Compacted {
        let taken = self.requests().zip(summaries).map(|(request, given)| {
            let accepted = given.and_then(|items| request.accept(items).ok());
            accepted.unwrap_or_else(|| vec![request.digest()])
        });
        self.commit(taken.collect())
    }

    /// Applies it with floor summaries, which say least and cost least to write.
    pub fn apply_floor(&self) -> Compacted {
        let summaries = self.requests().map(|request| vec![request.floor()]).collect();
        self.commit(summaries)
    }

    fn commit(&self, summaries: Vec<Vec<Item>>) -> Compacted {
        let meter = self.view.transcript().meter();
        let written: Tokens = summaries.iter().flatten().map(|item| meter.item(item).total).sum();
        let block = Arc::new(CompactionBlock {
            kind: BlockKind::Compaction,
            strategy: self.strategy.as_str().into(),
            cause: self.cause.clone(),
            created_at: self.made_at,
            item_count: self.view.transcript().len(),
            tokens_before: self.tokens_before(),
            tokens_after: self.tokens_after.saturating_sub(self.summaries_max()) + written,
            edits: self.edits.clone(),
            summaries,
            is_joined: self.is_joined,
            copies: None,
        });
        if self.is_empty() {
            return Compacted { view: self.view.clone(), block };
        }
        let overlay = self.view.overlay().with(Arc::clone(&block));
        let view = View::through(self.view.transcript(), &overlay)
            .expect("a plan's edits lie within the view they were planned on");
        debug_assert_eq!(view.tokens(), block.tokens_after, "a plan knows what it leads to");
        Compacted { view, block }
    }
}

/// A plan carried out: the view it led to and the block that records it.
#[derive(Clone, Debug)]
pub struct Compacted {
    /// What the model sees now.
    pub view: View,
    /// What to store.
    pub block: Arc<CompactionBlock>,
}
