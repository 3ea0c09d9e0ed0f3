//! The driver of core's `Compaction` for the loops of a session, in memory or in a store.
//!
//! For each loop in scope: what is seen of it is planned; where that gains something, the host is asked; the
//! summaries are written; what it came to is handed out, to be put in force; then the host is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldback_core::{
    BlockKind, Budget, BudgetInfeasible, Change, Compaction, CompactionReason, Entry, Execution, KernelItem,
    LoopId, Strategy, Tokens, TurnMap, View, mend,
};
use tracing::Instrument;

use super::block::Sections;
use super::config::CompactionConfig;
use super::context::build_context_from_session;
use super::orchestrate::{LOOP_KEY, LoopCompaction};
use super::record::{LoopPlace, LoopRecord};
use super::scope::resolve_scope;
use super::strategy::{BlockCompactionStrategy, LoopTurns};
use super::{Session, SessionError};
use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::compactor::StrategyCompactor;
use crate::executor::{Begun, Extent, begin, is_asking, recorded};
use crate::hooks::Announced;
use crate::off_task::off_task;
use crate::pipeline::run_any;
use foldback_core::compaction::Refusal;

/// A summary smaller than this says nothing that is worth a loop.
const SUMMARY_TOKENS_LEAST: u64 = 200;

/// Summaries of older loops take at most this share of the target together.
const OLDER_DIVISOR: u64 = 2;

/// Compactions that one call makes of a loop.
const ROUNDS_MAX: usize = 5;

/// Why a context of so many tokens is compacted.
fn due(tokens: Tokens, budget: &Budget) -> CompactionReason {
    match tokens >= budget.trigger() {
        true => CompactionReason::BudgetReached { tokens, level: budget.trigger() },
        false => CompactionReason::Manual,
    }
}

/// What the summary of each of so many older loops may cost.
fn older_tokens_max(config: &CompactionConfig, budget: &Budget, loop_count: usize) -> Tokens {
    let share = budget.target().0 / OLDER_DIVISOR / loop_count.max(1) as u64;
    config.max_summary_tokens.min(Tokens(share.max(SUMMARY_TOKENS_LEAST)))
}

/// Whether an older loop has a summary that covers all of it and is no larger than this.
fn is_summarised(record: &LoopRecord, view: &View, tokens_max: Tokens) -> bool {
    let is_current = |item_count: usize| item_count == record.transcript().len();
    let summaries = view.items().filter(|item| item.summary.is_some());
    let summary_tokens: Tokens = summaries.map(|item| record.transcript().meter().item(item).total).sum();
    record.older_block().is_some_and(|logged| is_current(logged.item_count)) && summary_tokens <= tokens_max
}

/// What is left of older loops, which is more than the window holds: pins, above all.
fn must_stay(views: &[View], kernel_tokens: Tokens, target: Tokens) -> SessionError {
    let name = |entry: &Entry| {
        let item = entry.item();
        KernelItem { id: item.id.clone(), kind: item.kind, tokens: entry.tokens().total }
    };
    let mut kernel: Vec<KernelItem> = views.iter().flat_map(|view| view.iter().map(name)).collect();
    kernel.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.id.cmp(&b.id)));
    let infeasible = BudgetInfeasible { kernel, kernel_tokens, target };
    CompactionError::from(Refusal::BudgetInfeasible(infeasible)).into()
}

/// What compacts the loops of a session.
#[derive(Clone, Copy)]
enum By<'a> {
    /// What divides them into sections.
    Sections(&'a dyn BlockCompactionStrategy),
    /// A compactor of the host's: older loops come down to the share that a summary may take.
    Compactor(&'a StrategyCompactor),
}

/// A compaction of the loops of a session, attempted until what it came to is put in force. The host is asked
/// and told once for each loop, however many attempts it takes.
pub(super) struct Work<'a> {
    by: By<'a>,
    pub(super) config: &'a CompactionConfig,
    pub(super) budget: Budget,
    context: CompactionContext,
    /// Why, where the host says it.
    reason: Option<CompactionReason>,
    announced: BTreeMap<LoopId, Announced>,
}

/// What a compaction came to, before it is put in force.
pub(super) struct Attempt {
    pub(super) reason: CompactionReason,
    pub(super) tokens_before: Tokens,
    pub(super) made: Vec<Made>,
}

/// What a compaction of one loop came to, before it is put in force.
pub(super) struct Made {
    pub(super) done: LoopCompaction,
    result: CompactionResult,
}

/// A loop that is to be compacted.
struct Task<'a> {
    session: &'a Session,
    record: &'a LoopRecord,
    place: LoopPlace,
    reason: &'a CompactionReason,
    /// What an older loop may cost, or the summary of it.
    older_max: Tokens,
    /// What the loops before it take of the budget.
    older_tokens: Tokens,
}

/// What is known before the host is asked.
enum Planned {
    Pure(Begun<Arc<dyn Strategy>>),
    /// What a strategy of the host's own does is not known before it has done it.
    Custom(Arc<dyn CompactionStrategy>),
}

impl Planned {
    fn is_worth_it(&self, tokens_max: Option<Tokens>) -> bool {
        match self {
            Self::Pure(begun) => {
                !begun.is_unchanged() && tokens_max.is_none_or(|max| begun.tokens_after() < max)
            }
            Self::Custom(_) => true,
        }
    }

    async fn carry_out(
        self,
        request: &CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        match self {
            Self::Pure(begun) => Ok(begun.end(request, context).await?.into()),
            Self::Custom(strategy) => run_any(&strategy, request.clone(), context).await,
        }
    }
}

impl<'a> Work<'a> {
    pub(super) fn by_sections(
        strategy: &'a dyn BlockCompactionStrategy,
        config: &'a CompactionConfig,
        max_context_tokens: Tokens,
        context: &CompactionContext,
    ) -> Result<Self, SessionError> {
        let (backend, observer) = (config.backend.clone(), config.hooks.observer.clone());
        let limits = config.limits.clone();
        let context = CompactionContext { backend, limits, observer, ..context.clone() };
        let (by, budget) = (By::Sections(strategy), config.budget(max_context_tokens)?);
        Ok(Self { by, config, budget, context, reason: None, announced: BTreeMap::new() })
    }

    /// The same for a reason that is known already.
    pub(super) fn because(mut self, reason: CompactionReason) -> Self {
        self.reason = Some(reason);
        self
    }

    pub(super) fn by_compactor(
        compactor: &'a StrategyCompactor,
        config: &'a CompactionConfig,
        budget: Budget,
        context: &CompactionContext,
    ) -> Self {
        let (by, context) = (By::Compactor(compactor), compactor.context(context));
        Self { by, config, budget, context, reason: None, announced: BTreeMap::new() }
    }

    /// Compacts the loops in scope. Nothing is put in force.
    pub(super) async fn attempt(
        &mut self,
        session: &Session,
        current: &LoopId,
    ) -> Result<Attempt, SessionError> {
        let attempt = self.compact(session, current).await;
        if let Err(error) = &attempt {
            self.give_up(&error.to_string());
        }
        attempt
    }

    /// Says of what was begun and not put in force that it failed.
    pub(super) fn give_up(&mut self, why: &str) {
        let announced = std::mem::take(&mut self.announced);
        announced.into_values().for_each(|announced| announced.failed(why.to_owned()));
    }

    /// Says of a loop that what was made of it is in force.
    pub(super) async fn ended(&mut self, made: Made) -> LoopCompaction {
        match (self.announced.remove(&made.done.loop_id), self.by) {
            (Some(announced), By::Sections(_)) => announced.ended(&made.result).await,
            (Some(announced), By::Compactor(compactor)) => compactor.ended(announced, &made.result).await,
            (None, _) => {}
        }
        made.done
    }

    async fn compact(&mut self, session: &Session, current: &LoopId) -> Result<Attempt, SessionError> {
        let (config, window) = (self.config, self.budget.window());
        let tokens_before = build_context_from_session(session, current, config, window)?.tokens;
        let reason = self.reason.clone().unwrap_or_else(|| due(tokens_before, &self.budget));
        let scope = resolve_scope(session, current, config, window)?;
        let (_, older) = scope.split_last().expect("a scope ends in the loop it was asked for");
        let summary_max = older_tokens_max(config, &self.budget, older.len());
        let task = |loop_id: &LoopId, place, (older_tokens, older_max)| {
            let record = session.record(loop_id)?;
            Ok::<_, SessionError>(Task { session, record, place, reason: &reason, older_max, older_tokens })
        };
        let mut excess = self.excess(tokens_before);
        if excess == Some(Tokens::ZERO) {
            return Ok(Attempt { reason, tokens_before, made: Vec::new() });
        }
        let (mut made, mut views) = (Vec::new(), Vec::new());
        for loop_id in older {
            let before = session.record(loop_id)?.view(LoopPlace::Older)?;
            // The oldest give way first, and no more than is missing.
            let older_max =
                excess.map_or(summary_max, |excess| before.tokens().saturating_sub(excess).max(summary_max));
            let task = task(loop_id, LoopPlace::Older, (Tokens::ZERO, older_max))?;
            let done = self.compact_loop(&task).await?;
            let view = done.as_ref().map_or_else(|| before.clone(), |made| made.result.transcript.clone());
            let freed = before.tokens().saturating_sub(view.tokens());
            excess = excess.map(|excess| excess.saturating_sub(freed));
            views.push(view);
            made.extend(done);
        }
        let older_tokens: Tokens = views.iter().map(|view| view.tokens()).sum();
        if older_tokens > self.budget.usable() {
            return Err(must_stay(&views, older_tokens, self.budget.usable()));
        }
        let task = task(current, LoopPlace::MostRecent, (older_tokens, summary_max))?;
        made.extend(self.compact_loop(&task).await?);
        Ok(Attempt { reason, tokens_before, made })
    }

    /// What a context of so many tokens is above the target; none where nobody works towards that.
    fn excess(&self, tokens: Tokens) -> Option<Tokens> {
        let By::Compactor(compactor) = self.by else { return None };
        let over = tokens.saturating_sub(self.budget.target());
        compactor.strategy().needs_budget().then_some(over)
    }

    /// Compacts a loop, if there is something to gain or to repair. An older loop stays as it is where it
    /// would not become smaller.
    async fn compact_loop(&mut self, task: &Task<'_>) -> Result<Option<Made>, SessionError> {
        let before = task.record.view(task.place)?;
        if task.place == LoopPlace::Older && self.is_small_enough(task, &before) {
            return Ok(None);
        }
        let mut request = self.request(task, &before)?;
        if self.asks() {
            if self.is_done(task, &before) {
                return Ok(None);
            }
            self.announce(task, &request, &before).await?;
        }
        let tokens_max = (task.place == LoopPlace::Older).then(|| before.tokens());
        let planned = match self.plan(task, &request).await {
            Err(SessionError::Compaction(CompactionError::Refused(_))) if tokens_max.is_some() => None,
            planned => Some(planned?),
        };
        let Some(planned) = planned.filter(|planned| planned.is_worth_it(tokens_max)) else {
            self.ended_unchanged(task, before).await;
            return Ok(None);
        };
        let known = request.transcript.overlay().blocks().len();
        let span = self.announce(task, &request, &before).await?;
        let work = async {
            let mut result = planned.carry_out(&request, &self.context).await?;
            for _ in 1..ROUNDS_MAX {
                request.transcript = result.transcript.clone();
                // What a compaction to the window leaves may fit the target after all; the next run would see.
                if !self.goes_on(task, &request.transcript) {
                    break;
                }
                let planned = self.plan(task, &request).await?;
                if !planned.is_worth_it(None) {
                    break;
                }
                result = result.followed_by(planned.carry_out(&request, &self.context).await?, &before);
            }
            Ok::<_, SessionError>(result)
        };
        let result = work.instrument(span).await?;
        self.made(task, &before, known, result).await
    }

    fn is_small_enough(&self, task: &Task<'_>, view: &View) -> bool {
        let is_small = matches!(self.by, By::Compactor(_)) && view.tokens() <= task.older_max;
        is_small || is_summarised(task.record, view, task.older_max)
    }

    /// Whether what divides the loop into sections may take its time over it.
    fn asks(&self) -> bool {
        matches!(self.by, By::Sections(strategy) if strategy.asks())
    }

    /// Whether the most recent loop was compacted as it is and fits: nobody is asked about that again.
    fn is_done(&self, task: &Task<'_>, view: &View) -> bool {
        let item_count = task.record.transcript().len();
        let newest = task.record.in_force().most_recent.last();
        let is_compacted = newest.and_then(|&index| task.record.blocks().get(index)).is_some_and(|logged| {
            logged.item_count == item_count && logged.block.kind == BlockKind::Compaction
        });
        task.place == LoopPlace::MostRecent
            && is_compacted
            && view.tokens() + task.older_tokens <= self.budget.target()
    }

    /// Says of a loop, if anything was said of it, that it is what it was.
    async fn ended_unchanged(&mut self, task: &Task<'_>, view: View) {
        if let Some(announced) = self.announced.remove(task.record.id()) {
            announced.ended(&CompactionResult::unchanged(view)).await;
        }
    }

    fn goes_on(&self, task: &Task<'_>, view: &View) -> bool {
        task.place == LoopPlace::MostRecent
            && matches!(self.by, By::Sections(strategy) if !strategy.asks())
            && view.tokens() + task.older_tokens > self.budget.target()
    }

    /// What is asked of whoever compacts the loop, on what is seen of it.
    fn request(&self, task: &Task<'_>, before: &View) -> Result<CompactionRequest, SessionError> {
        let (session_id, reason) = (task.session.id().clone(), task.reason.clone());
        let mut request = CompactionRequest::new(session_id, before.clone(), reason);
        request.metadata.insert(LOOP_KEY.to_owned(), task.record.id().as_str().into());
        (request.dialect, request.focus) = (self.config.dialect, self.config.focus.clone());
        request.keep.clone_from(&self.config.keep);
        if let By::Compactor(compactor) = self.by {
            request.budget = Some(self.budget.beside(task.older_tokens)?);
            request = compactor.complete(request);
        }
        if task.place == LoopPlace::Older {
            request.transcript = task.record.as_older(request.dialect)?;
            request.budget = match self.by {
                By::Sections(_) => None,
                By::Compactor(_) => Some(Budget::for_target(task.older_max)?),
            };
        }
        Ok(request)
    }

    async fn plan(&self, task: &Task<'_>, request: &CompactionRequest) -> Result<Planned, SessionError> {
        let compactor = match self.by {
            By::Sections(strategy) => return self.plan_sections(strategy, task, request).await,
            By::Compactor(compactor) => compactor,
        };
        let strategy = Arc::clone(compactor.strategy());
        let Some(pure) = Arc::clone(&strategy).as_pure() else { return Ok(Planned::Custom(strategy)) };
        let now = Some(self.context.clock.now());
        Ok(Planned::Pure(begin(pure, request, &self.context, (Extent::Whole, now)).await?))
    }

    /// Brings the loop to its sections and, where they leave too much, to what the older loops leave of the
    /// target or, where what must stay is larger, of the window.
    async fn plan_sections(
        &self,
        strategy: &dyn BlockCompactionStrategy,
        task: &Task<'_>,
        request: &CompactionRequest,
    ) -> Result<Planned, SessionError> {
        let sections = Arc::new(self.sections(strategy, task, request).await?);
        let mut compaction = self.begin(Arc::clone(&sections), request, None).await?;
        let tokens = compaction.plan().tokens_after() + task.older_tokens;
        if task.place == LoopPlace::MostRecent && tokens > self.budget.target() {
            let within = async |level: Tokens| {
                let further = Some(Arc::clone(&self.config.in_memory_strategy));
                let further = Sections { further, ..Sections::clone(&sections) };
                let budget = Budget::for_target(level.saturating_sub(task.older_tokens).max(Tokens(1)))?;
                self.begin(Arc::new(further), request, Some(budget)).await
            };
            compaction = match within(self.budget.target()).await {
                Err(SessionError::Compaction(CompactionError::Refused(Refusal::BudgetInfeasible(_)))) => {
                    within(self.budget.usable()).await?
                }
                begun => begun?,
            };
        }
        let is_asking = is_asking(&*sections, &self.context).map_err(SessionError::from)?;
        let is_own = sections.block.keep_compacted.as_ref().is_some_and(|section| !section.is_digest());
        let refused = |source| SessionError::Summary { strategy: strategy.describe(), source };
        let summary = match is_asking && !is_own {
            true => None,
            false => sections.summary(compaction.plan()).map_err(refused)?,
        };
        let begun = off_task(recorded(request), move || match summary {
            Some(summary) => compaction.answer(vec![Some(summary)]).map(|done| Begun::Over(Box::new(done))),
            None => Begun::new(compaction, is_asking),
        });
        Ok(Planned::Pure(begun.await.map_err(CompactionError::from)?))
    }

    /// What the strategy proposes, if it can be loaded.
    async fn sections(
        &self,
        strategy: &dyn BlockCompactionStrategy,
        task: &Task<'_>,
        request: &CompactionRequest,
    ) -> Result<Sections, SessionError> {
        let mended = mend(&request.transcript, request.dialect).view;
        let transcript = match task.place {
            LoopPlace::MostRecent => mended.transcript().clone(),
            // What was said behind an older loop is not one of its messages.
            LoopPlace::Older => mended.transcript().first(mended.transcript().len() - 1),
        };
        let turns = TurnMap::of(&transcript);
        let messages = LoopTurns { transcript: &transcript, turns: &turns };
        let config = CompactionConfig { max_summary_tokens: task.older_max, ..self.config.clone() };
        let block = strategy.compact(messages, &config, task.place, Some(self.context.clock.now())).await?;
        let strategy = strategy.describe();
        if let Err(source) = block.check(messages, task.place) {
            return Err(SessionError::Section { strategy, source });
        }
        let summary_max = match self.context.backend {
            Some(_) => task.older_max,
            None => Tokens::ZERO,
        };
        Ok(Sections { block, turns, strategy, further: None, summary_max })
    }

    async fn begin(
        &self,
        sections: Arc<Sections>,
        request: &CompactionRequest,
        budget: Option<Budget>,
    ) -> Result<Compaction<Arc<dyn Strategy>>, SessionError> {
        let strategy: Arc<dyn Strategy> = sections;
        let now = Some(self.context.clock.now());
        let execution = Execution { now, budget, ..request.execution(strategy) };
        let begun = off_task(recorded(request), move || Compaction::begin(execution));
        Ok(begun.await.map_err(CompactionError::from)?)
    }

    /// Says that a loop is about to be compacted, and asks the host whether it may be.
    async fn announce(
        &mut self,
        task: &Task<'_>,
        request: &CompactionRequest,
        before: &View,
    ) -> Result<tracing::Span, SessionError> {
        let mut told = CompactionRequest { transcript: before.clone(), ..request.clone() };
        told.budget = told.budget.or(Some(self.budget));
        if let Some(announced) = self.announced.get_mut(task.record.id()) {
            announced.request = told;
            return Ok(announced.span.clone());
        }
        let context = self.context.clone();
        let announced = match self.by {
            By::Sections(strategy) => self.config.hooks.announce(told, context, strategy.describe()),
            By::Compactor(compactor) => compactor.announce(told, context),
        };
        let (allowed, span) = (announced.allow().await, announced.span.clone());
        self.announced.insert(task.record.id().clone(), announced);
        allowed?;
        Ok(span)
    }

    /// What is to be put in force. Nothing where a strategy of the host's own gained nothing.
    async fn made(
        &mut self,
        task: &Task<'_>,
        before: &View,
        known: usize,
        mut result: CompactionResult,
    ) -> Result<Option<Made>, SessionError> {
        let led_to = result.transcript;
        let blocks = led_to.overlay().blocks();
        let (behind, blocks) = match task.place {
            LoopPlace::MostRecent => (0, blocks.get(known..).unwrap_or_default()),
            LoopPlace::Older => (1, blocks),
        };
        let item_count = task.record.transcript().len();
        let repaired = led_to.transcript().items().skip(item_count);
        let mut done = LoopCompaction {
            loop_id: task.record.id().clone(),
            place: task.place,
            tokens_before: before.tokens(),
            tokens_after: led_to.tokens(),
            view: led_to.clone(),
            blocks: foldback_core::CompactionBlock::joined(blocks.to_vec()),
            repaired: repaired.cloned().collect(),
        };
        done.repaired.truncate(led_to.transcript().len() - item_count - behind);
        let mut record = task.record.clone();
        record.commit(&done);
        result.transcript = record.view(task.place)?;
        done.tokens_after = result.transcript.tokens();
        done.view = result.transcript.clone();
        result.replaced_items = Change::between(before, &result.transcript).replaced_items;
        let is_worth_it = match task.place {
            LoopPlace::MostRecent => !done.blocks.is_empty(),
            LoopPlace::Older => done.tokens_after < done.tokens_before,
        };
        if !is_worth_it {
            self.ended_unchanged(task, before.clone()).await;
            return Ok(None);
        }
        Ok(Some(Made { done, result }))
    }
}
