//! The same road for whoever may wait: strategies of a host's own, summaries by a backend,
//! cancellation at every await.

use std::sync::Arc;

use foldback_core::diff::CUSTOM;
use foldback_core::{Compacted, Metadata, Overlay, Plan, Strategy, StrategySteps, Usage, View};

use super::{Execution, judge, planned};
use crate::ask::{Asking, fill};
use crate::change::Change;
use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::event::{CompactionEvent, CompactionEventKind};
use crate::mend::mend;
use crate::rebase::{begins_with, extends};

/// Pipelines inside pipelines that are taken apart; deeper ones run as one step.
const DEPTH_MAX: usize = 8;

/// The note under which repairs are counted.
const REPAIRS: &str = "repairs";

/// A compaction that was carried out, and what it took.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    /// What the host gets.
    pub(crate) result: CompactionResult,
    /// What the summary calls cost in dollars, where prices are known.
    pub(crate) cost: Option<f64>,
    /// What was reported for them.
    pub(crate) usage: Usage,
    /// Who wrote each summary.
    pub(crate) written_by: Vec<String>,
}

/// Mends, runs every step, checks. An error, a cancellation and a dropped future leave the view of
/// the request what it was: nothing is changed but copies (T8).
pub(crate) async fn run(
    strategy: &dyn CompactionStrategy,
    request: CompactionRequest,
    context: &CompactionContext,
) -> Result<Ran, CompactionError> {
    tokio::select! {
        biased;
        () = context.cancellation.cancelled() => Err(CompactionError::Cancelled),
        ran = walk(strategy, request, context) => ran,
    }
}

async fn walk(
    strategy: &dyn CompactionStrategy,
    mut request: CompactionRequest,
    context: &CompactionContext,
) -> Result<Ran, CompactionError> {
    let mended = mend(&request.transcript, request.dialect);
    let mut ran = Ran {
        result: CompactionResult::unchanged(mended.view.clone()),
        cost: None,
        usage: Usage::default(),
        written_by: Vec::new(),
    };
    if !mended.repairs.is_empty() {
        ran.result.replaced_items = Change::between(&request.transcript, &mended.view).replaced_items;
        ran.result.metadata.insert(REPAIRS.to_owned(), mended.repairs.len().into());
    }
    request.transcript = mended.view.clone();
    let mut steps = Vec::new();
    flatten(strategy, 0, &mut steps);
    let mut next = 0;
    while let Some(&step) = steps.get(next) {
        if context.cancellation.is_cancelled() {
            return Err(CompactionError::Cancelled);
        }
        let pure: Vec<&dyn Strategy> = steps[next..].iter().map_while(|step| step.as_pure()).collect();
        next += pure.len().max(1);
        match pure.is_empty() {
            true => run_custom(step, &request, context, &mut ran).await?,
            false => run_pure(&pure.into_iter().collect(), &request, context, &mut ran).await?,
        }
        request.transcript = ran.result.transcript.clone();
    }
    let view = &ran.result.transcript;
    judge(&strategy.describe(), &mended.view, view, target(strategy, &request), request.dialect)?;
    Ok(ran)
}

fn target(strategy: &dyn CompactionStrategy, request: &CompactionRequest) -> Option<foldback_core::Tokens> {
    request.budget.filter(|_| strategy.needs_budget()).map(|budget| budget.target())
}

/// The steps of a pipeline, those of pipelines inside it among them.
fn flatten<'s>(
    strategy: &'s dyn CompactionStrategy,
    depth: usize,
    steps: &mut Vec<&'s dyn CompactionStrategy>,
) {
    let parts = strategy.steps();
    if parts.is_empty() || depth == DEPTH_MAX {
        steps.push(strategy);
        return;
    }
    parts.iter().for_each(|part| flatten(&**part, depth + 1, steps));
}

/// Pure steps in a row, as one compaction.
async fn run_pure(
    steps: &StrategySteps<'_>,
    request: &CompactionRequest,
    context: &CompactionContext,
    ran: &mut Ran,
) -> Result<(), CompactionError> {
    let execution = Execution {
        view: &request.transcript,
        strategy: steps,
        budget: request.budget.as_ref(),
        dialect: request.dialect,
        cause: Some(&request.reason),
        now: context.now,
    };
    let mut plan = planned(&execution, &request.transcript)?;
    if let Some(focus) = &request.focus {
        plan = plan.focused_on(focus);
    }
    if plan.is_empty() {
        return Ok(());
    }
    let compacted = filled(&plan, steps, request, context, ran).await?;
    let summaries = compacted.block.summaries.iter().flatten();
    let origins = summaries.filter_map(|item| item.summary.as_ref());
    ran.written_by.extend(origins.map(|origin| origin.written_by.to_string()));
    take(ran, &request.transcript, compacted.view, Metadata::new());
    Ok(())
}

/// The plan with its summaries written: by the backend, or by the digest where there is none and the
/// strategy is content with it.
async fn filled(
    plan: &Plan,
    steps: &StrategySteps<'_>,
    request: &CompactionRequest,
    context: &CompactionContext,
    ran: &mut Ran,
) -> Result<Compacted, CompactionError> {
    let is_asking = plan.folds().next().is_some();
    let backend = match &context.backend {
        Some(backend) if is_asking => backend,
        None if is_asking && steps.wants_backend() => {
            return Err(CompactionError::MissingBackend { strategy: Strategy::describe(steps) });
        }
        Some(_) | None => return Ok(plan.apply_digest()),
    };
    let mut metadata = context.metadata.clone();
    metadata.extend(request.metadata.clone());
    let emit = |kind: CompactionEventKind| {
        let Some(observer) = &context.observer else { return };
        let (session_id, turn_id) = (request.session_id.clone(), request.turn_id.clone());
        observer.on_event(&CompactionEvent { session_id, turn_id, kind });
    };
    let asking = Asking {
        backend: &**backend,
        limits: &context.limits,
        guard: &context.guard,
        cancellation: &context.cancellation,
        session_id: &request.session_id,
        turn_id: request.turn_id.as_ref(),
        reason: Some(&request.reason),
        metadata: &metadata,
        emit: &emit,
        seed: plan.tokens_before().0 ^ plan.view().transcript().len() as u64,
    };
    let filled = fill(plan, &asking).await?;
    ran.cost = match (ran.cost, filled.cost) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0.0) + other.unwrap_or(0.0)),
    };
    add_usage(&mut ran.usage, &filled.usage);
    ran.result.metadata.extend(filled.metadata);
    // What was written was judged before; should a summary be refused all the same, the digest
    // stands in its place (T8).
    Ok(plan.apply(filled.summaries).unwrap_or_else(|_| plan.apply_digest()))
}

fn add_usage(usage: &mut Usage, more: &Usage) {
    usage.input_tokens += more.input_tokens;
    usage.cached_tokens += more.cached_tokens;
    usage.cache_write_tokens += more.cache_write_tokens;
    usage.output_tokens += more.output_tokens;
    usage.reasoning_tokens += more.reasoning_tokens;
}

/// A step of the host's own. What it returns must be the view it was given under more blocks.
async fn run_custom(
    step: &dyn CompactionStrategy,
    request: &CompactionRequest,
    context: &CompactionContext,
    ran: &mut Ran,
) -> Result<(), CompactionError> {
    let result = step.compact(request.clone(), context).await?;
    let (before, after) = (&request.transcript, &result.transcript);
    let failed = |why: &str| Err(CompactionError::Failed { strategy: step.describe(), why: why.to_owned() });
    if !begins_with(after, before) {
        return failed("it changed recorded items");
    }
    if !extends(after.overlay(), before.overlay()) {
        return failed("it took back blocks that were in force");
    }
    let view = signed(step, request, context, result.transcript);
    take(ran, before, view, result.metadata);
    Ok(())
}

/// The view with every new block saying who made it, why and when (T9).
fn signed(
    step: &dyn CompactionStrategy,
    request: &CompactionRequest,
    context: &CompactionContext,
    view: View,
) -> View {
    let known = request.transcript.overlay().blocks().len();
    let is_signed =
        |block: &foldback_core::CompactionBlock| block.cause.is_some() && block.strategy.as_str() != CUSTOM;
    if view.overlay().blocks()[known..].iter().all(|block| is_signed(block)) {
        return view;
    }
    let mut overlay = Overlay::default();
    for (index, block) in view.overlay().blocks().iter().enumerate() {
        if index < known || is_signed(block) {
            overlay = overlay.with(Arc::clone(block));
            continue;
        }
        let mut block = foldback_core::CompactionBlock::clone(block);
        if block.strategy.as_str() == CUSTOM {
            block.strategy = step.describe().into();
        }
        block.cause = block.cause.or_else(|| Some(request.reason.clone()));
        block.created_at = block.created_at.or(context.now);
        overlay = overlay.with(block);
    }
    View::through(view.transcript(), &overlay).expect("the same edits lie within the same transcript")
}

fn take(ran: &mut Ran, before: &View, after: View, metadata: Metadata) {
    ran.result.replaced_items += Change::between(before, &after).replaced_items;
    ran.result.metadata.extend(metadata);
    ran.result.transcript = after;
}
