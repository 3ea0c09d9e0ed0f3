//! A plan: the edits of one compaction, to be inspected, applied or thrown away.

use std::ops::Range;
use std::sync::Arc;

use crate::block::{BlockKind, CompactionBlock};
use crate::edit::{Edit, Fold};
use crate::ids::{ItemId, Text, Timestamp, Tokens};
use crate::item::{Item, ItemKind};
use crate::keep::KeptLines;
use crate::summary::{FoldRequest, SummaryError};
use crate::trigger::CompactionReason;
use crate::view::{View, covers};

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
    lines: Arc<KeptLines>,
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
            lines: Arc::default(),
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
    pub(crate) fn focused_on(mut self, focus: &Text) -> Self {
        for edit in &mut self.edits {
            match edit {
                Edit::Fold(fold) => fold.spec.focus = Some(focus.clone()),
                Edit::Drop(_) | Edit::Rewrite(_) => {}
            }
        }
        self
    }

    /// Asks its summaries to repeat these lines where nothing else would show them.
    #[must_use]
    pub(crate) fn keeping(mut self, lines: &Arc<KeptLines>) -> Self {
        self.lines = Arc::clone(lines);
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
        self.folds().map(|fold| FoldRequest::new(fold, &self.view, &self.edits, &self.lines))
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

    /// Applies it with summaries that were taken for the folds of a plan that hides more: each is named for
    /// what it stands for now. `None` where this plan hides anything else, or one does not fit it.
    pub(crate) fn apply_narrowed(&self, wider: &Self, summaries: &[Vec<Item>]) -> Option<Compacted> {
        if self.folds().count() != summaries.len() || !self.is_within(wider) {
            return None;
        }
        let requests = self.requests().zip(wider.requests()).zip(summaries);
        let narrowed = requests.map(|((request, wider), items)| request.take_over(&wider, items));
        Some(self.commit(narrowed.collect::<Result<_, _>>().ok()?))
    }

    /// Whether all that it hides is hidden by another plan as well, in the same fold where it is folded.
    fn is_within(&self, wider: &Self) -> bool {
        let mut hidden: Vec<Range<usize>> =
            wider.folds().flat_map(Fold::folded).chain(wider.drops()).collect();
        hidden.sort_by_key(|range| range.start);
        let is_hidden = |mut range: Range<usize>| range.all(|index| covers(&hidden, index));
        let is_told = |(fold, wider): (&Fold, &Fold)| fold.folded().flatten().all(|index| wider.hides(index));
        self.folds().count() == wider.folds().count()
            && self.folds().zip(wider.folds()).all(is_told)
            && self.drops().all(is_hidden)
    }

    fn drops(&self) -> impl Iterator<Item = Range<usize>> {
        self.edits.iter().filter_map(|edit| match edit {
            Edit::Drop(drop) => Some(drop.range.clone()),
            Edit::Rewrite(_) | Edit::Fold(_) => None,
        })
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
