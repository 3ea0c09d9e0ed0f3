//! Compacts the loops that a context is made of.

use std::sync::Arc;

use foldback_core::{
    Budget, BudgetInfeasible, Change, Compacted, CompactionReason, Entry, KernelItem, LoopId, Plan,
    SessionId, Timestamp, Tokens, View,
};
use tokio::time::Instant;

use super::block::CompactionBlock;
use super::config::CompactionConfig;
use super::context::build_context_from_session;
use super::record::{LoopPlace, LoopRecord};
use super::scope::resolve_scope;
use super::strategy::{BlockCompactionStrategy, LoopTurns, as_seen};
use super::{Session, SessionError};
use crate::compaction::{CompactionContext, CompactionRequest, CompactionResult};
use crate::event::CompactionReport;
use crate::hooks::{CompactionHooks, failed, started};

/// Under which key the metadata of a request name the loop that it is about.
pub const LOOP_KEY: &str = "loop";

/// A summary smaller than this says nothing that is worth a loop.
const SUMMARY_TOKENS_LEAST: u64 = 200;

/// Summaries of older loops take at most this share of the target together.
const OLDER_DIVISOR: u64 = 2;

/// Compactions beyond sections that one call makes of a loop.
const ROUNDS_MAX: usize = 4;

/// What became of one loop.
#[derive(Clone, Debug)]
pub struct LoopCompaction {
    /// The loop.
    pub loop_id: LoopId,
    /// The place it was compacted for.
    pub place: LoopPlace,
    /// What it cost before.
    pub tokens_before: Tokens,
    /// What it costs now.
    pub tokens_after: Tokens,
    /// What was put in force, oldest first.
    pub blocks: Vec<Arc<foldback_core::CompactionBlock>>,
}

/// What a compaction of a session did.
#[derive(Clone, Debug)]
pub struct SessionCompaction {
    /// Why it was made.
    pub reason: CompactionReason,
    /// What the context cost before.
    pub tokens_before: Tokens,
    /// What it costs now.
    pub tokens_after: Tokens,
    /// The loops that changed, oldest first; none if there was nothing to do.
    pub loops: Vec<LoopCompaction>,
}

/// Compacts the loops in scope for a window of this size: older ones to a summary, the most recent
/// one to sections, and further, by the in-memory strategy, where that leaves the context over its
/// target. All or nothing: an error leaves the session as it was, and so does a hook that says no. A
/// second call with nothing recorded in between changes nothing.
///
/// The hooks of the configuration are run for every loop that changes, and its observer is told.
pub fn compact_session_loops(
    session: &mut Session,
    current_loop_id: &LoopId,
    strategy: &dyn BlockCompactionStrategy,
    config: &CompactionConfig,
    max_context_tokens: Tokens,
) -> Result<SessionCompaction, SessionError> {
    let budget = config.budget(max_context_tokens)?;
    let before = build_context_from_session(session, current_loop_id, config, max_context_tokens)?;
    let scope = resolve_scope(session, current_loop_id, config, max_context_tokens)?;
    let reason = due(before.tokens, &budget);
    let summary_tokens_max = older_tokens_max(config, &budget, scope.len().saturating_sub(1));
    let config = CompactionConfig { max_summary_tokens: summary_tokens_max, ..config.clone() };
    let (observer, clock) = (config.hooks.observer.clone(), Arc::clone(&session.clock));
    let now = clock.now();
    let context = CompactionContext { observer, clock, ..CompactionContext::default() };
    let work = Work {
        session: &*session,
        strategy,
        config: &config,
        budget: &budget,
        reason: &reason,
        now,
        context,
    };
    let mut made = Vec::new();
    if let Err(error) = work.compact(&scope, &mut made) {
        made.iter().for_each(|made| failed(&made.request, &work.context, error.to_string(), made.started));
        return Err(error);
    }
    let context = work.context;
    if !made.is_empty() {
        let blocks =
            made.iter().map(|Made { done, .. }| (done.loop_id.clone(), done.place, done.blocks.clone()));
        session.commit(blocks.collect());
    }
    let loops = made.into_iter().map(|made| made.ended(&config.hooks, &context, strategy)).collect();
    let after = build_context_from_session(session, current_loop_id, &config, max_context_tokens)?;
    Ok(SessionCompaction { reason, tokens_before: before.tokens, tokens_after: after.tokens, loops })
}

/// Why a context of so many tokens is compacted.
pub(super) fn due(tokens: Tokens, budget: &Budget) -> CompactionReason {
    match tokens >= budget.trigger() {
        true => CompactionReason::BudgetReached { tokens, level: budget.trigger() },
        false => CompactionReason::Manual,
    }
}

/// What the summary of each of so many older loops may cost.
pub(super) fn older_tokens_max(config: &CompactionConfig, budget: &Budget, loop_count: usize) -> Tokens {
    let share = budget.target().0 / OLDER_DIVISOR / loop_count.max(1) as u64;
    config.max_summary_tokens.min(Tokens(share.max(SUMMARY_TOKENS_LEAST)))
}

/// Whether an older loop has a summary that covers all of it and is no larger than this.
pub(super) fn is_summarised(record: &LoopRecord, view: &View, tokens_max: Tokens) -> bool {
    let is_current = |item_count: usize| item_count == record.transcript().len();
    let summaries = view.items().filter(|item| item.summary.is_some());
    let summary_tokens: Tokens = summaries.map(|item| record.transcript().meter().item(item).total).sum();
    record.older_block().is_some_and(|logged| is_current(logged.item_count)) && summary_tokens <= tokens_max
}

/// What a compaction of one loop of a session asks for, wherever the summaries come from.
pub(super) fn request_for(
    session_id: &SessionId,
    loop_id: &LoopId,
    view: View,
    reason: &CompactionReason,
) -> CompactionRequest {
    let mut request = CompactionRequest::new(session_id.clone(), view, reason.clone());
    request.metadata.insert(LOOP_KEY.to_owned(), loop_id.as_str().into());
    request
}

/// A loop that was compacted, and what was asked.
struct Made {
    done: LoopCompaction,
    request: CompactionRequest,
    started: Instant,
    view: View,
}

impl Made {
    /// Tells the host what was done.
    fn ended(
        self,
        hooks: &CompactionHooks,
        context: &CompactionContext,
        strategy: &dyn BlockCompactionStrategy,
    ) -> LoopCompaction {
        let Self { done, request, started, view } = self;
        let replaced_items = Change::between(&request.transcript, &view).replaced_items;
        let mut result = CompactionResult::new(view, replaced_items);
        let summaries = done.blocks.iter().flat_map(|block| block.summaries.iter().flatten());
        let origins = summaries.filter_map(|item| item.summary.as_ref());
        result.written_by = origins.map(|origin| origin.written_by.to_string()).collect();
        let report = CompactionReport::of(&request, &result, strategy.describe(), started.elapsed());
        hooks.ended(&request, context, &result, report);
        done
    }
}

/// What is left of older loops, which is more than the window holds: pins, above all.
fn must_stay(views: &[View], kernel_tokens: Tokens, target: Tokens) -> BudgetInfeasible {
    let name = |entry: &Entry| {
        let item = entry.item();
        KernelItem { id: item.id.clone(), kind: item.kind, tokens: entry.tokens().total }
    };
    let mut kernel: Vec<KernelItem> = views.iter().flat_map(|view| view.iter().map(name)).collect();
    kernel.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.id.cmp(&b.id)));
    BudgetInfeasible { kernel, kernel_tokens, target }
}

/// What is the same for every loop of a compaction.
struct Work<'a> {
    session: &'a Session,
    strategy: &'a dyn BlockCompactionStrategy,
    config: &'a CompactionConfig,
    budget: &'a Budget,
    reason: &'a CompactionReason,
    now: Timestamp,
    context: CompactionContext,
}

impl Work<'_> {
    /// Compacts the loops of a scope, of which the last is the most recent. What was begun is in `made`.
    fn compact(&self, scope: &[LoopId], made: &mut Vec<Made>) -> Result<(), SessionError> {
        let (current, older) = scope.split_last().expect("a scope ends in the loop it was asked for");
        let mut older_views = Vec::new();
        for loop_id in older {
            let compacted = self.compact_older(self.session.record(loop_id)?)?;
            older_views.push(match &compacted {
                Some(compacted) => compacted.view.clone(),
                None => self.session.record(loop_id)?.view(LoopPlace::Older)?,
            });
            made.extend(compacted);
        }
        let older_tokens: Tokens = older_views.iter().map(|view| view.tokens()).sum();
        if older_tokens > self.budget.usable() {
            let usable = self.budget.usable();
            return Err(SessionError::BudgetInfeasible(must_stay(&older_views, older_tokens, usable)));
        }
        made.extend(self.compact_most_recent(self.session.record(current)?, older_tokens)?);
        Ok(())
    }

    /// Says that a loop is about to be compacted, and asks the host whether it may be.
    fn announce(
        &self,
        record: &LoopRecord,
        before: &View,
    ) -> Result<(CompactionRequest, Instant), SessionError> {
        let mut request = request_for(self.session.id(), record.id(), before.clone(), self.reason);
        (request.budget, request.dialect) = (Some(*self.budget), self.config.dialect);
        request.focus.clone_from(&self.config.focus);
        let began = Instant::now();
        started(&request, &self.context, self.strategy.describe());
        if let Err(error) = self.config.hooks.allow(&request) {
            failed(&request, &self.context, error.to_string(), began);
            return Err(SessionError::Vetoed { why: error.to_string() });
        }
        Ok((request, began))
    }

    /// A block for an older loop is made once, and again when the loop has grown since or its summary
    /// has become too large for the window.
    fn compact_older(&self, record: &LoopRecord) -> Result<Option<Made>, SessionError> {
        let before = record.view(LoopPlace::Older)?;
        if is_summarised(record, &before, self.config.max_summary_tokens) {
            return Ok(None);
        }
        let seen = View::of(&as_seen(record.transcript(), LoopPlace::Older));
        let (turns, name) = (record.turns(), self.strategy.describe());
        let messages = LoopTurns { transcript: record.transcript(), turns: &turns };
        let sections = self.sections(messages, &name, LoopPlace::Older)?;
        let plan = sections.plan(&seen, messages, &name, None)?;
        let compacted = self.fill(&sections, plan, messages, &name)?;
        if compacted.block.edits.is_empty() || compacted.view.tokens() >= before.tokens() {
            return Ok(None);
        }
        let (request, started) = self.announce(record, &before)?;
        let done = LoopCompaction {
            loop_id: record.id().clone(),
            place: LoopPlace::Older,
            tokens_before: before.tokens(),
            tokens_after: compacted.view.tokens(),
            blocks: vec![compacted.block],
        };
        Ok(Some(Made { done, request, started, view: compacted.view }))
    }

    fn compact_most_recent(
        &self,
        record: &LoopRecord,
        older_tokens: Tokens,
    ) -> Result<Option<Made>, SessionError> {
        let before = record.view(LoopPlace::MostRecent)?;
        let (turns, name) = (record.turns(), self.strategy.describe());
        let messages = LoopTurns { transcript: record.transcript(), turns: &turns };
        let sections = self.sections(messages, &name, LoopPlace::MostRecent)?;
        let (mut view, mut blocks) = (before.clone(), Vec::new());
        // What a compaction to the window leaves may fit the target after all; the next run would see.
        for _ in 0..ROUNDS_MAX {
            let mut plan = sections.plan(&view, messages, &name, None)?;
            if plan.tokens_after() + older_tokens > self.budget.target() {
                plan = self.plan_further(&sections, &view, messages, older_tokens)?;
            }
            if plan.is_empty() {
                break;
            }
            let plan = if blocks.is_empty() { plan } else { plan.joined() };
            let compacted = self.fill(&sections, plan, messages, &name)?;
            blocks.push(compacted.block);
            view = compacted.view;
            if view.tokens() + older_tokens <= self.budget.target() {
                break;
            }
        }
        if blocks.is_empty() {
            return Ok(None);
        }
        let (request, started) = self.announce(record, &before)?;
        let (loop_id, tokens_before) = (record.id().clone(), before.tokens());
        let (place, tokens_after) = (LoopPlace::MostRecent, view.tokens());
        let done = LoopCompaction { loop_id, place, tokens_before, tokens_after, blocks };
        Ok(Some(Made { done, request, started, view }))
    }

    /// What the strategy proposes, if it can be loaded.
    fn sections(
        &self,
        messages: LoopTurns<'_>,
        name: &str,
        place: LoopPlace,
    ) -> Result<CompactionBlock, SessionError> {
        let block = self.strategy.compact(messages, self.config, place, Some(self.now));
        let refused = |source| SessionError::Section { strategy: name.to_owned(), source };
        block.check(messages, place).map_err(refused)?;
        Ok(block)
    }

    /// Brings the loop to what the older ones leave of the target or, where what must stay is larger,
    /// of the window.
    fn plan_further(
        &self,
        sections: &CompactionBlock,
        view: &View,
        messages: LoopTurns<'_>,
        older_tokens: Tokens,
    ) -> Result<Plan, SessionError> {
        let name = self.strategy.describe();
        let within = |limit: Tokens| -> Result<Plan, SessionError> {
            let budget = Budget::for_target(limit.saturating_sub(older_tokens).max(Tokens(1)))?;
            let further = Some((&*self.config.in_memory_strategy, &budget));
            Ok(sections.plan(view, messages, &name, further)?)
        };
        match within(self.budget.target()) {
            Err(SessionError::BudgetInfeasible(_)) => within(self.budget.usable()),
            planned => planned,
        }
    }

    fn fill(
        &self,
        sections: &CompactionBlock,
        plan: Plan,
        messages: LoopTurns<'_>,
        name: &str,
    ) -> Result<Compacted, SessionError> {
        let plan = plan.caused_by(self.reason.clone()).made_at(self.now);
        let refused = |source| SessionError::Summary { strategy: name.to_owned(), source };
        sections.fill(&plan, messages).map_err(refused)
    }
}
