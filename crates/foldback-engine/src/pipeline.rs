//! Strategies in order, pure ones and a host's own.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::compaction::{clean, judge, mend_above};
use foldback_core::diff::CUSTOM;
use foldback_core::{
    CompactionBlock, CompactionReason, Dialect, Draft, LadderStrategy, Overlay, Strategy, StrategyPipeline,
    Timestamp, Tokens, View,
};

use crate::chosen::IntoStrategy;
use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::executor::{Extent, recorded, run_pure};
use crate::off_task::off_task;

/// Strategies in order, each on what the one before left. Is itself a strategy.
///
/// Pure steps in a row share one draft, so that their summaries are written together and the prefix is
/// rewritten once; the summaries are there before a step of another kind begins. Such a run of steps is one
/// step: an item that two of them changed is replaced once, and cancellation is looked at before and after
/// it. Metadata of all steps is merged. A pipeline of pure steps alone is [`StrategyPipeline`]. Only the compactor holds what all steps left to the request's budget.
///
/// ```
/// use foldback_core::{DropReasoningStrategy, KeepRecentStrategy};
/// use foldback_engine::CompactionPipeline;
///
/// let pipeline = CompactionPipeline::new()
///     .with_strategy(DropReasoningStrategy::new())
///     .with_strategy(KeepRecentStrategy::new(8));
/// assert_eq!(format!("{pipeline:?}"), "drop-reasoning → keep-recent(8)");
/// ```
#[derive(Clone, Default)]
pub struct CompactionPipeline {
    steps: Vec<Arc<dyn CompactionStrategy>>,
}

impl CompactionPipeline {
    /// A pipeline without steps, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same pipeline with one more step at its end.
    #[must_use]
    pub fn with_strategy<How>(mut self, strategy: impl IntoStrategy<How>) -> Self {
        self.steps.push(strategy.into_strategy());
        self
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Arc<dyn CompactionStrategy>] {
        &self.steps
    }
}

impl fmt::Debug for CompactionPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

#[async_trait]
impl CompactionStrategy for CompactionPipeline {
    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        let mut done = CompactionResult::unchanged(request.transcript.clone());
        let is_pure = |step: &Arc<dyn CompactionStrategy>| Arc::clone(step).as_pure().is_some();
        for group in self.steps.chunk_by(|step, next| is_pure(step) && is_pure(next)) {
            context.go_on()?;
            let mut step = request.clone();
            step.transcript = done.transcript.clone();
            let result = match group {
                [custom] if !is_pure(custom) => run_custom(&**custom, step, context, Extent::Step).await?,
                _ => {
                    let pure = group.iter().filter_map(|step| Arc::clone(step).as_pure());
                    let pure: Arc<dyn Strategy> = Arc::new(pure.collect::<StrategyPipeline>());
                    run_pure(pure, &step, context, Extent::Step).await?
                }
            };
            done = done.followed_by(result, &request.transcript);
        }
        Ok(done)
    }

    fn describe(&self) -> String {
        self.steps.iter().map(|step| step.describe()).collect::<Vec<_>>().join(" → ")
    }

    fn before_repair(&self, draft: &mut Draft<'_>) {
        self.steps.iter().for_each(|step| step.before_repair(draft));
    }

    fn needs_budget(&self) -> bool {
        self.steps.iter().any(|step| step.needs_budget())
    }

    fn as_pure(self: Arc<Self>) -> Option<Arc<dyn Strategy>> {
        let steps = self.steps.iter().map(|step| Arc::clone(step).as_pure());
        Some(Arc::new(steps.collect::<Option<Vec<_>>>()?.into_iter().collect::<StrategyPipeline>()))
    }
}

/// One compaction: runs a strategy, pure or not, and sees to it that what is handed out fits.
pub(crate) async fn run_any(
    strategy: &Arc<dyn CompactionStrategy>,
    request: CompactionRequest,
    context: &CompactionContext,
) -> Result<CompactionResult, CompactionError> {
    match Arc::clone(strategy).as_pure() {
        Some(pure) => run_pure(pure, &request, context, Extent::Whole).await,
        None => run_custom(&**strategy, request, context, Extent::Whole).await,
    }
}

/// Runs a strategy of the host's own, and takes what it returns only if it kept the record (T1) and
/// made a view that is valid and no larger (T2, T7). Where that is the whole compaction and leaves too
/// much, the ladder goes on where it stopped. All blocks are undone together.
async fn run_custom(
    strategy: &dyn CompactionStrategy,
    mut request: CompactionRequest,
    context: &CompactionContext,
    extent: Extent,
) -> Result<CompactionResult, CompactionError> {
    let (tokens, dialect) = (recorded(&request), request.dialect);
    let whole = request.transcript.clone();
    let signed = (Some(&request.reason), Some(context.clock.now()));
    let cleaned = clean(&whole, &strategy.describe(), signed, |draft| strategy.before_repair(draft));
    let base = whole.overlay().blocks().len();
    let mended = off_task(tokens, move || mend_above(&cleaned, base, dialect)).await;
    request.transcript = mended.view;
    let signature = Signature {
        strategy: strategy.describe(),
        reason: request.reason.clone(),
        now: context.clock.now(),
        is_mended: mended.is_recorded,
    };
    let before = request.transcript.clone();
    let known = before.overlay().blocks().len();
    let cancellation = context.cancellation.clone();
    let mut result = tokio::select! {
        biased;
        () = cancellation.cancelled() => return Err(CompactionError::Cancelled),
        result = strategy.compact(request.clone(), context) => result?,
    };
    let (after, name) = (result.transcript.clone(), signature.strategy.clone());
    off_task(tokens, move || accept(&before, &after, &name, dialect)).await?;
    if extent == Extent::Whole {
        request.transcript = result.transcript.clone();
        let rest: Arc<dyn Strategy> = match strategy.needs_budget() {
            true => Arc::new(LadderStrategy::new()),
            // It runs where what is left is more than is usable, and not before.
            false => Arc::new(StrategyPipeline::new()),
        };
        result = result.followed_by(run_pure(rest, &request, context, Extent::Whole).await?, &whole);
    }
    let view = result.transcript;
    result.transcript = off_task(tokens, move || signature.under(&view, known)).await;
    Ok(result)
}

/// Refuses what no strategy may do.
fn accept(
    before: &View,
    after: &View,
    strategy: &str,
    dialect: Option<Dialect>,
) -> Result<(), CompactionError> {
    let failed = |why: &str| Err(CompactionError::Failed(format!("{strategy}: {why}")));
    let (recorded, records) = (before.transcript(), after.transcript());
    let is_kept = recorded.len() <= records.len()
        && recorded.items().zip(records.items()).all(|(then, now)| Arc::ptr_eq(then, now));
    if !is_kept {
        return failed("it changed or removed recorded items; hide them with edits instead");
    }
    if !after.overlay().blocks().starts_with(before.overlay().blocks()) {
        return failed("it took back an earlier compaction");
    }
    if after.tokens() > before.tokens() + asked_growth(before, after) {
        let (before, after) = (before.tokens(), after.tokens());
        return failed(&format!("it made the view larger, from {before} to {after} tokens"));
    }
    Ok(judge(after, strategy, dialect, None)?)
}

/// By how much summaries that the host asked for are larger than what they stand for. None is larger than its
/// strategy lets it be.
fn asked_growth(before: &View, after: &View) -> Tokens {
    let meter = after.transcript().meter();
    let blocks = after.overlay().blocks().iter().skip(before.overlay().blocks().len());
    let planned = blocks.filter(|block| block.strategy.as_str() != CUSTOM);
    let growth = planned.flat_map(|block| block.folds()).map(|(fold, items)| {
        let tokens: Tokens = items.iter().map(|item| meter.item(item).total).sum();
        tokens.saturating_sub(fold.tokens_before)
    });
    growth.sum()
}

/// Who made a block, why and when (T9), and whether a repair below belongs to it.
struct Signature {
    strategy: String,
    reason: CompactionReason,
    now: Timestamp,
    is_mended: bool,
}

impl Signature {
    /// The view with this under every block after the first `known` ones that does not say it.
    fn under(&self, view: &View, known: usize) -> View {
        let blocks = view.overlay().blocks();
        let mut overlay = Overlay::default();
        for (index, block) in blocks.iter().enumerate() {
            if index < known {
                overlay = overlay.with(Arc::clone(block));
                continue;
            }
            let mut block = CompactionBlock::clone(block);
            if block.strategy.as_str() == CUSTOM {
                block.strategy = self.strategy.as_str().into();
            }
            block.cause = block.cause.or_else(|| Some(self.reason.clone()));
            block.created_at = block.created_at.or(Some(self.now));
            block.is_joined |= index > known || self.is_mended;
            overlay = overlay.with(block);
        }
        View::through(view.transcript(), &overlay).expect("the same edits lie within the same transcript")
    }
}

/// A pure strategy behind a shared pointer, as a step.
pub(crate) fn shared(strategy: Arc<dyn Strategy>) -> Arc<dyn CompactionStrategy> {
    Arc::new(strategy)
}
