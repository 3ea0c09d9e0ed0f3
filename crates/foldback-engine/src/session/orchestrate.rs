//! Compacts the loops that a context is made of.

use std::sync::Arc;

use foldback_core::{
    Budget, BudgetInfeasible, Compacted, CompactionReason, Entry, KernelItem, LoopId, Plan, Timestamp,
    Tokens, View,
};

use super::block::CompactionBlock;
use super::config::CompactionConfig;
use super::context::build_context_from_session;
use super::record::{LoopPlace, LoopRecord};
use super::scope::resolve_scope;
use super::strategy::{BlockCompactionStrategy, LoopTurns, as_seen};
use super::{Session, SessionError};

/// A summary smaller than this says nothing that is worth a loop.
const SUMMARY_TOKENS_LEAST: u64 = 200;

/// Summaries of older loops take at most this share of the target together.
const OLDER_SHARE: u64 = 2;

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
/// target. All or nothing: an error leaves the session as it was. A second call with nothing recorded
/// in between changes nothing.
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
    let reason = match before.tokens >= budget.trigger() {
        true => CompactionReason::BudgetReached { tokens: before.tokens, level: budget.trigger() },
        false => CompactionReason::Manual,
    };
    let (_, older) = scope.split_last().expect("a scope ends in the loop it was asked for");
    let share = budget.target().0 / OLDER_SHARE / older.len().max(1) as u64;
    let summary_tokens_max = config.max_summary_tokens.min(Tokens(share.max(SUMMARY_TOKENS_LEAST)));
    let config = CompactionConfig { max_summary_tokens: summary_tokens_max, ..config.clone() };
    let work = Work { strategy, config: &config, budget: &budget, reason: &reason, now: session.clock.now() };
    let (mut loops, mut older_views) = (Vec::new(), Vec::new());
    for loop_id in older {
        let (view, compacted) = work.compact_older(session.record(loop_id)?)?;
        older_views.push(view);
        loops.extend(compacted);
    }
    let older_tokens: Tokens = older_views.iter().map(|view| view.tokens()).sum();
    if older_tokens > budget.usable() {
        return Err(SessionError::BudgetInfeasible(must_stay(&older_views, older_tokens, budget.usable())));
    }
    loops.extend(work.compact_most_recent(session.record(current_loop_id)?, older_tokens)?);
    if !loops.is_empty() {
        let blocks = loops.iter().map(|done| (done.loop_id.clone(), done.place, done.blocks.clone()));
        session.commit(blocks.collect());
    }
    let after = build_context_from_session(session, current_loop_id, &config, max_context_tokens)?;
    Ok(SessionCompaction { reason, tokens_before: before.tokens, tokens_after: after.tokens, loops })
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
    strategy: &'a dyn BlockCompactionStrategy,
    config: &'a CompactionConfig,
    budget: &'a Budget,
    reason: &'a CompactionReason,
    now: Timestamp,
}

impl Work<'_> {
    /// A block for an older loop is made once, and again when the loop has grown since or its summary
    /// has become too large for the window. Beside it, what is seen of the loop then.
    fn compact_older(&self, record: &LoopRecord) -> Result<(View, Option<LoopCompaction>), SessionError> {
        let before = record.view(LoopPlace::Older)?;
        let is_current = |item_count: usize| item_count == record.transcript().len();
        let summaries = before.items().filter(|item| item.summary.is_some());
        let summary_tokens: Tokens = summaries.map(|item| record.transcript().meter().item(item).total).sum();
        let is_made = record.older_block().is_some_and(|logged| is_current(logged.item_count));
        if is_made && summary_tokens <= self.config.max_summary_tokens {
            return Ok((before, None));
        }
        let seen = View::of(&as_seen(record.transcript(), LoopPlace::Older));
        let (turns, name) = (record.turns(), self.strategy.describe());
        let messages = LoopTurns { transcript: record.transcript(), turns: &turns };
        let sections = self.sections(messages, &name, LoopPlace::Older)?;
        let plan = sections.plan(&seen, messages, &name, None)?;
        let compacted = self.fill(&sections, plan, messages, &name)?;
        let tokens_after = compacted.view.tokens();
        if compacted.block.edits.is_empty() || tokens_after >= before.tokens() {
            return Ok((before, None));
        }
        let done = LoopCompaction {
            loop_id: record.id().clone(),
            place: LoopPlace::Older,
            tokens_before: before.tokens(),
            tokens_after,
            blocks: vec![compacted.block],
        };
        Ok((compacted.view, Some(done)))
    }

    fn compact_most_recent(
        &self,
        record: &LoopRecord,
        older_tokens: Tokens,
    ) -> Result<Option<LoopCompaction>, SessionError> {
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
            let compacted = self.fill(&sections, plan, messages, &name)?;
            blocks.push(compacted.block);
            view = compacted.view;
            if view.tokens() + older_tokens <= self.budget.target() {
                break;
            }
        }
        let (loop_id, tokens_before) = (record.id().clone(), before.tokens());
        let (place, tokens_after) = (LoopPlace::MostRecent, view.tokens());
        let done = LoopCompaction { loop_id, place, tokens_before, tokens_after, blocks };
        Ok((!done.blocks.is_empty()).then_some(done))
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
