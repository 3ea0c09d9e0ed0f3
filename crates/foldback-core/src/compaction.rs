//! One compaction, from a view to the blocks that record it.
//!
//! The steps are always the same: mend, plan, ask for summaries, write digests where none come, check,
//! commit. Nothing here does I/O. A driver holds a [`Compaction`] and differs from other drivers only in
//! how it answers: not at all ([`Compaction::digest`]), or with what a backend wrote
//! ([`Compaction::answer`]).
//!
//! ```
//! use foldback_core::{Budget, Compaction, Execution, Item, LadderStrategy, Tokens, Transcript, View};
//!
//! let transcript: Transcript = (0..40).map(|n| Item::user(format!("u{n}"), "word ".repeat(50))).collect();
//! let budget = Budget::for_target(Tokens(500))?;
//! let execution = Execution::new(View::of(&transcript), LadderStrategy::new()).with_budget(budget);
//! let outcome = Compaction::begin(execution)?.digest()?;
//! assert!(outcome.view.tokens() <= Tokens(500));
//! assert_eq!(outcome.blocks[0].tokens_after, outcome.view.tokens());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use crate::block::{BlockKind, CompactionBlock};
use crate::budget::Budget;
use crate::change::Change;
use crate::dialect::{Dialect, Repair, Violation, check};
use crate::draft::{Draft, SummarySize, SummaryWriter};
use crate::ids::{Text, Timestamp, Tokens};
use crate::item::Item;
use crate::keep::{KeepLines, KeptLines};
use crate::mend::{Mended, mend};
use crate::plan::{BudgetInfeasible, Compacted, Plan};
use crate::strategy::{Fitting, PlanError, Strategy};
use crate::summary::FoldRequest;
use crate::trigger::CompactionReason;
use crate::view::View;

/// Where summaries leave more than this share of the target unused, it is planned once more.
const UNUSED_PERCENT_MAX: u64 = 5;

/// What a summary of a model is planned to cost where nobody says otherwise: models tell what matters of a
/// long session in so much, and what they leave is worth more as items that stay as they were.
pub const MODEL_SUMMARY_TOKENS: Tokens = Tokens(4_000);

/// What the header of a summary may cost more with another handle in it.
const HEADER_TOKENS_SLACK: Tokens = Tokens(16);

/// What to compact, how, and for whom.
#[derive(Clone, Debug)]
pub struct Execution<S> {
    /// What the model sees now.
    pub view: View,
    /// What to do about it.
    pub strategy: S,
    /// How much room there is; structural strategies need none.
    pub budget: Option<Budget>,
    /// Whose rules the result must keep; without one, those that all share.
    pub dialect: Option<Dialect>,
    /// Why it is done (T9).
    pub cause: Option<CompactionReason>,
    /// When it is done.
    pub now: Option<Timestamp>,
    /// What every summary should attend to, whatever the strategy asked for.
    pub focus: Option<Text>,
    /// Which lines of the record every summary repeats word for word where nothing else shows them. An item
    /// that holds one is folded or left as it is.
    pub keep: Option<KeepLines>,
    /// What summaries are planned to cost together at most where a model writes them and the strategy sets
    /// no size; a digest takes all the room that there is for one.
    pub summaries_max: Option<Tokens>,
}

impl<S: Strategy> Execution<S> {
    /// Compacts a view, with no budget and no dialect, for no reason that is recorded.
    pub fn new(view: View, strategy: S) -> Self {
        Self {
            view,
            strategy,
            budget: None,
            dialect: None,
            cause: None,
            now: None,
            focus: None,
            keep: None,
            summaries_max: None,
        }
    }

    /// The same, towards a budget.
    #[must_use]
    pub fn with_budget(mut self, budget: impl Into<Option<Budget>>) -> Self {
        self.budget = budget.into();
        self
    }

    /// The same, for a provider.
    #[must_use]
    pub fn with_dialect(mut self, dialect: impl Into<Option<Dialect>>) -> Self {
        self.dialect = dialect.into();
        self
    }

    /// The same, with a reason to record.
    #[must_use]
    pub fn caused_by(mut self, cause: CompactionReason) -> Self {
        self.cause = Some(cause);
        self
    }

    /// The size that the result must not exceed. A strategy that does not work towards the target may
    /// keep what it keeps, as long as the next request is not rejected.
    fn room(&self) -> Option<Tokens> {
        let aims = self.strategy.needs_budget() || self.cause == Some(CompactionReason::OverflowRejected);
        self.budget.map(|budget| if aims { budget.target() } else { budget.usable() })
    }
}

/// Why there is no compacted view. The view that was given is what it was (T8).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// What must stay is larger than the target.
    #[error(transparent)]
    BudgetInfeasible(BudgetInfeasible),
    /// The strategy aims at a size, and none was given.
    #[error("{strategy} works towards a budget; pass one")]
    BudgetRequired {
        /// The strategy or pipeline.
        strategy: String,
    },
    /// The result is one that the provider would reject.
    #[error("{strategy} led to a request that would be rejected: {}", first(.violations))]
    Invalid {
        /// The strategy or pipeline.
        strategy: String,
        /// Everything that is wrong with it.
        violations: Vec<Violation>,
    },
    /// The result is larger than its room.
    #[error("{strategy} stopped at {tokens} tokens, the target is {target}")]
    OverTarget {
        /// The strategy or pipeline.
        strategy: String,
        /// What it came to.
        tokens: Tokens,
        /// What was aimed at.
        target: Tokens,
    },
}

fn first(violations: &[Violation]) -> String {
    violations.first().map_or_else(String::new, ToString::to_string)
}

impl From<PlanError> for Refusal {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::BudgetInfeasible(error) => Self::BudgetInfeasible(error),
            PlanError::BudgetRequired { strategy } => Self::BudgetRequired { strategy },
        }
    }
}

/// A compaction that is planned and waits for its summaries.
#[derive(Clone, Debug)]
pub struct Compaction<S> {
    execution: Execution<S>,
    mended: Mended,
    /// The lines to keep, found in the record.
    lines: Arc<KeptLines>,
    /// What the result must not exceed.
    room: Option<Tokens>,
    /// What the plan worked towards, if it did.
    target: Option<Tokens>,
    plan: Arc<Plan>,
}

impl<S: Strategy> Compaction<S> {
    /// Mends the view and plans. Where the strategy leaves more than there is room for, the ladder goes on
    /// in the same plan.
    pub fn begin(execution: Execution<S>) -> Result<Self, Refusal> {
        let room = execution.room();
        Self::within(execution, room)
    }

    /// The same for one step of several: the strategy alone, because whoever runs the steps sees to the
    /// size of what all of them leave.
    pub fn begin_step(execution: Execution<S>) -> Result<Self, Refusal> {
        Self::within(execution, None)
    }

    fn within(execution: Execution<S>, room: Option<Tokens>) -> Result<Self, Refusal> {
        let mended = prepared(&execution);
        let size = execution.summaries_max.map(SummarySize::AtMost);
        let writer = match execution.summaries_max {
            Some(_) => SummaryWriter::Model,
            None => SummaryWriter::Digest,
        };
        let lines = Arc::new(lines_of(&execution, &mended));
        let (plan, target) = planned(&execution, (&mended, &lines), room, (size, writer))?;
        Ok(Self { execution, mended, lines, room: room.or(target), target, plan: Arc::new(plan) })
    }

    /// What will be done.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The summaries that are asked for, in the order in which [`Compaction::answer`] takes them.
    pub fn asks(&self) -> impl Iterator<Item = FoldRequest<'_>> {
        self.plan.requests()
    }

    /// Ends it without asking anybody: digests are the summaries.
    pub fn digest(self) -> Result<Outcome, Refusal> {
        self.answer(Vec::new())
    }

    /// Ends it with these summaries, one list of items for each fold in order. The digest stands where
    /// there is none, or one that cannot be taken. Without any, the outcome is that of
    /// [`Compaction::digest`]. What they leave of the target goes to the newest items of what was folded:
    /// those stay after all.
    pub fn answer(self, mut summaries: Vec<Option<Vec<Item>>>) -> Result<Outcome, Refusal> {
        summaries.resize(self.plan.folds().count(), None);
        let is_answered = summaries.iter().any(Option::is_some);
        let compacted = if is_answered { self.answered(summaries) } else { self.digested() };
        judge(&compacted.view, &compacted.block.strategy, self.execution.dialect, self.room)?;
        Ok(Outcome::new(self.execution.view, self.mended, compacted))
    }

    /// Applies the plan with what was written. Where that is shorter than it left room for, items that it
    /// folded stay after all: as many as the summaries leave room for, and none that was visible goes.
    fn answered(&self, summaries: Vec<Option<Vec<Item>>>) -> Compacted {
        let first = self.plan.apply_or_digest(summaries);
        let after = first.view.tokens();
        if !self.leaves_much(after) {
            return first;
        }
        let meter = first.view.transcript().meter();
        let written: Tokens = first.block.summaries.iter().flatten().map(|item| meter.item(item).total).sum();
        let written = written + HEADER_TOKENS_SLACK;
        let narrower = |size: SummarySize| {
            let summaries = (Some(size), SummaryWriter::Model);
            let (plan, _) =
                planned(&self.execution, (&self.mended, &self.lines), self.room, summaries).ok()?;
            let second = plan.apply_narrowed(&self.plan, &first.block.summaries)?;
            judge(&second.view, &second.block.strategy, self.execution.dialect, self.room).ok()?;
            (second.view.tokens() > after).then_some(second)
        };
        let second =
            [SummarySize::Written(written), SummarySize::AtMost(written)].into_iter().find_map(narrower);
        second.unwrap_or(first)
    }

    /// Applies the plan with digests. Where they have much less to tell than it left room for, items that
    /// it folded stay after all.
    fn digested(&self) -> Compacted {
        let plan_again = |size: Option<SummarySize>| {
            let summaries = (size, SummaryWriter::Digest);
            planned(&self.execution, (&self.mended, &self.lines), self.room, summaries)
                .ok()
                .map(|(plan, _)| Arc::new(plan))
        };
        // The room that was left for a model is not a digest's: it tells more in more of it.
        let for_digest = self.execution.summaries_max.and_then(|_| plan_again(None));
        let plan = for_digest.as_ref().unwrap_or(&self.plan);
        let first = plan.apply_digest();
        let (after, reserved) = (first.view.tokens(), plan.summaries_max());
        if !self.leaves_much(after) || reserved == Tokens::ZERO {
            return first;
        }
        let written = reserved.saturating_sub(plan.tokens_after().saturating_sub(after));
        let second = plan_again(Some(SummarySize::AtMost(written))).map(|plan| plan.apply_digest());
        second.filter(|second| second.view.tokens() > after).unwrap_or(first)
    }

    /// Whether a view of this size leaves so much of the target that it is planned once more.
    fn leaves_much(&self, after: Tokens) -> bool {
        let unused = self.target.unwrap_or_default().saturating_sub(after);
        unused.0 * 100 > (after + unused).0 * UNUSED_PERCENT_MAX
    }
}

/// The lines that are to be kept, wherever in the record they stand.
fn lines_of<S>(execution: &Execution<S>, mended: &Mended) -> KeptLines {
    let items = mended.view.transcript().items().enumerate();
    let items = items.map(|(index, item)| (index, &**item));
    execution.keep.as_ref().map_or_else(KeptLines::default, |keep| keep.in_items(items))
}

/// The view without what the strategy takes out before a repair would quote it, and repaired.
fn prepared<S: Strategy>(execution: &Execution<S>) -> Mended {
    let Execution { view, strategy, dialect, cause, now, .. } = execution;
    let signed = (cause.as_ref(), *now);
    let cleaned = clean(view, &strategy.describe(), signed, |draft| strategy.before_repair(draft));
    mend_above(&cleaned, view.overlay().blocks().len(), *dialect)
}

/// The view through what a strategy of this name edits before the view is repaired. Nothing is edited where
/// there is nothing to repair.
pub fn clean(
    view: &View,
    strategy: &str,
    (cause, now): (Option<&CompactionReason>, Option<Timestamp>),
    edit: impl FnOnce(&mut Draft<'_>),
) -> View {
    if view.is_plain() {
        return view.clone();
    }
    let mut draft = Draft::new(view);
    edit(&mut draft);
    let plan = draft.finish(strategy.to_owned()).expect("only planning finds a budget infeasible");
    let plan = cause.cloned().into_iter().fold(plan, Plan::caused_by);
    now.into_iter().fold(plan, Plan::made_at).apply_digest().view
}

/// Repairs a view. Blocks above the first `known` ones are undone together with the repair.
pub fn mend_above(view: &View, known: usize, dialect: Option<Dialect>) -> Mended {
    let mut mended = mend(view, dialect);
    let blocks = mended.view.overlay().blocks();
    if blocks.len() > known + 1 {
        let above = CompactionBlock::joined(blocks[known..].to_vec());
        let overlay = blocks[..known].iter().cloned().chain(above).collect();
        mended.view = View::through(mended.view.transcript(), &overlay)
            .expect("the same edits lie within the same transcript");
    }
    mended.is_recorded |= mended.view.overlay().blocks().len() > known;
    mended
}

/// A plan for the mended view, and what it works towards.
fn planned<S: Strategy>(
    execution: &Execution<S>,
    (mended, lines): (&Mended, &Arc<KeptLines>),
    room: Option<Tokens>,
    (summary_size, writer): (Option<SummarySize>, SummaryWriter),
) -> Result<(Plan, Option<Tokens>), PlanError> {
    let Execution { strategy, budget, .. } = execution;
    let fitting = Fitting { strategy, budget: budget.as_ref(), room, summary_size, writer, lines };
    let (mut plan, target) = fitting.plan(&mended.view)?;
    if let Some(cause) = &execution.cause {
        plan = plan.caused_by(cause.clone());
    }
    if let Some(now) = execution.now {
        plan = plan.made_at(now);
    }
    if mended.is_recorded {
        plan = plan.joined();
    }
    if let Some(focus) = &execution.focus {
        plan = plan.focused_on(focus);
    }
    plan = plan.keeping(lines);
    Ok((plan, target))
}

/// The last look before a commit: the view is valid for the dialect, and within its room.
pub fn judge(
    view: &View,
    strategy: &str,
    dialect: Option<Dialect>,
    room: Option<Tokens>,
) -> Result<(), Refusal> {
    let violations = check(view.items(), dialect);
    if !violations.is_empty() {
        return Err(Refusal::Invalid { strategy: strategy.to_owned(), violations });
    }
    match room {
        Some(target) if view.tokens() > target => {
            Err(Refusal::OverTarget { strategy: strategy.to_owned(), tokens: view.tokens(), target })
        }
        _ => Ok(()),
    }
}

/// A compaction that was carried out, in memory. What it reports is what was done.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the model saw.
    pub before: View,
    /// The same, repaired: what was planned on.
    pub mended: View,
    /// What the model sees now.
    pub view: View,
    /// The blocks that record the compaction, in the order in which they are put in force: first that of
    /// the repair, if there is one.
    pub blocks: Vec<Arc<CompactionBlock>>,
    /// What had to be repaired first.
    pub repairs: Vec<Repair>,
    /// The strategy that planned it, and the ladder where that had to go on.
    pub strategy: Text,
}

impl Outcome {
    fn new(before: View, mended: Mended, compacted: Compacted) -> Self {
        let known = before.overlay().blocks().len();
        let blocks = compacted.view.overlay().blocks().get(known..).unwrap_or_default().to_vec();
        let Mended { view: mended, repairs, .. } = mended;
        let strategy = compacted.block.strategy.clone();
        Self { before, mended, view: compacted.view, blocks, repairs, strategy }
    }

    /// Whether nothing changed.
    pub fn is_unchanged(&self) -> bool {
        self.blocks.is_empty() && self.repairs.is_empty()
    }

    /// The blocks that compact, without that of the repair.
    pub fn compactions(&self) -> impl Iterator<Item = &CompactionBlock> {
        self.blocks.iter().map(|block| &**block).filter(|block| block.kind == BlockKind::Compaction)
    }

    /// The summaries that are new.
    pub fn summaries(&self) -> impl Iterator<Item = &Item> {
        self.compactions().flat_map(|block| block.summaries.iter().flatten())
    }

    /// What changed in what the model sees.
    pub fn change(&self) -> Change {
        Change::between(&self.before, &self.view)
    }
}
