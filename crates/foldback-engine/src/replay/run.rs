//! A recorded session again, call by call, under a policy: what each call would have read, what of
//! it the cache would have held, when the policy would have compacted, and what all of it costs.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldback_core::account::Losses;
use foldback_core::compaction::Outcome;
use foldback_core::cost::Call;
use foldback_core::trigger::LastCompaction;
use foldback_core::{
    Change, CompactionReason, Cost, Dialect, Entry, Execution, FactKind, Fate, ItemKind, Ledger,
    MutationPoint, Overlay, Prices, Sequence, Timestamp, Tokens, Transcript, TriggerContext, Usage, View,
    plan,
};

use super::kept::{Keepsakes, Kept};
use super::lines::History;
use super::retention::{Needs, Retention};
use super::{ReplayPolicy, Writer};
use crate::executor::compact;

/// After a compaction that failed or changed nothing, the view must grow by this much before it is
/// tried again.
const RETRY_GROWTH_PERCENT: u64 = 5;

/// Failures that are kept with their reason; the rest are counted.
const FAILURES_MAX: usize = 16;

/// A session to run.
#[derive(Clone, Copy, Debug)]
pub struct Replay<'a> {
    /// The whole history, counted.
    pub history: &'a Transcript,
    /// The same history, read.
    pub reading: &'a History,
    /// Whose rules the views must keep.
    pub dialect: Option<Dialect>,
    /// What calls cost.
    pub prices: &'a Prices,
    /// Items after a compaction that are looked at for what was needed.
    pub horizon: usize,
    /// Rules that must be kept besides those that the ledger finds, each with the item that gave it.
    pub constraints: &'a [(usize, &'a str)],
}

/// One model call.
#[derive(Clone, Copy, Debug)]
pub struct CallRecord {
    /// The first item that the model wrote.
    pub item_index: usize,
    /// What it read and wrote.
    pub call: Call,
    /// What that costs.
    pub cost: Cost,
}

/// What has become of the items recorded so far, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemFates {
    /// The model sees them as they were recorded.
    pub kept: usize,
    /// The model sees some of their parts, or what stands for them.
    pub shortened: usize,
    /// A summary stands for them.
    pub folded: usize,
    /// Nothing stands for them.
    pub dropped: usize,
}

impl ItemFates {
    fn of(view: &View) -> Self {
        let mut fates = Self::default();
        for fate in view.fates() {
            *match fate {
                Fate::Visible => &mut fates.kept,
                Fate::Rewritten => &mut fates.shortened,
                Fate::Folded(_) => &mut fates.folded,
                Fate::Dropped(_) => &mut fates.dropped,
            } += 1;
        }
        fates
    }
}

/// One compaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionRecord {
    /// Before which call.
    pub call_index: usize,
    /// After how many items of the history.
    pub item_index: usize,
    /// Why.
    pub reason: CompactionReason,
    /// What the view cost before.
    pub tokens_before: Tokens,
    /// What it costs now.
    pub tokens_after: Tokens,
    /// The first position that changed.
    pub first_changed: Option<usize>,
    /// What the unchanged beginning costs.
    pub prefix_kept: Tokens,
    /// After how many calls it has paid for itself; none where it never does.
    pub break_even: Option<u64>,
    /// What writing its summaries costs.
    pub summary_cost: Cost,
    /// What has become of the items.
    pub items: ItemFates,
    /// What the view holds of what was needed afterwards.
    pub retention: Retention,
    /// What else the view holds of the history.
    pub kept: Kept,
    /// What became of the facts that the view told, by kind.
    pub losses: BTreeMap<FactKind, Losses>,
}

/// A session under a policy.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The policy.
    pub policy: String,
    /// The calls in order.
    pub calls: Vec<CallRecord>,
    /// The compactions in order.
    pub compactions: Vec<CompactionRecord>,
    /// The largest prompt.
    pub peak: Tokens,
    /// What the calls cost, summaries not included.
    pub cost: Cost,
    /// What writing summaries costs.
    pub summary_cost: Cost,
    /// Calls whose prompt was larger than the window leaves room for.
    pub overflow_count: usize,
    /// Compactions that were tried and not made.
    pub failure_count: usize,
    /// The first of them, and why.
    pub failures: Vec<(usize, String)>,
}

impl Run {
    /// What all of it costs, in dollars.
    pub fn total_cost(&self) -> f64 {
        self.cost.total() + self.summary_cost.total()
    }

    /// The mean retention over the compactions; none where there is nothing to measure.
    pub fn retention(&self) -> Option<f64> {
        let figures: Vec<f64> =
            self.compactions.iter().filter_map(|made| made.retention.total().retention()).collect();
        (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
    }
}

/// Runs a session again under a policy.
pub fn replay(session: &Replay<'_>, policy: &ReplayPolicy) -> Run {
    let mut player = Player::new(session, policy);
    let mut is_answering = false;
    for (index, entry) in session.history.iter().enumerate() {
        let is_assistant = entry.kind() == ItemKind::Assistant;
        // Items of the model in a row are one answer.
        if is_assistant && !is_answering {
            player.call(index, entry.item().created_at);
        } else if is_assistant {
            player.answer_goes_on(entry.tokens().total);
        }
        is_answering = is_assistant;
        player.push(index);
    }
    let mut run = player.run;
    run.calls.iter().for_each(|record| run.cost += record.cost);
    run
}

struct Player<'a> {
    session: &'a Replay<'a>,
    policy: &'a ReplayPolicy,
    run: Run,
    /// What is recorded: the history so far, and repairs.
    recorded: Transcript,
    overlay: Overlay,
    /// The facts of what was recorded up to the last compaction.
    ledger: Ledger,
    /// What the model sees, as a list that grows by a push.
    shown: Transcript,
    /// What of it the last call read as well.
    shared: Tokens,
    last_call: Option<Timestamp>,
    last_compaction: Option<LastCompaction>,
    last_firing: Option<Timestamp>,
    /// Whether a tool result came since the last call.
    has_result: bool,
    /// Below this, compacting has been tried in vain.
    retry_at: Tokens,
}

impl<'a> Player<'a> {
    fn new(session: &'a Replay<'a>, policy: &'a ReplayPolicy) -> Self {
        Self {
            session,
            policy,
            run: Run { policy: policy.name.clone(), ..Run::default() },
            recorded: session.history.clone_empty(),
            overlay: Overlay::default(),
            ledger: Ledger::new(),
            shown: session.history.clone_empty(),
            shared: Tokens::ZERO,
            last_call: None,
            last_compaction: None,
            last_firing: None,
            has_result: false,
            retry_at: Tokens::ZERO,
        }
    }

    fn push(&mut self, index: usize) {
        if let Some(entry) = self.session.history.get(index) {
            self.recorded.push_counted(Arc::clone(entry.item()), entry.tokens().clone());
            self.shown.push_counted(Arc::clone(entry.item()), entry.tokens().clone());
            self.has_result |= entry.kind() == ItemKind::Tool;
        }
    }

    /// What a policy does to every result as it is recorded. No call has read it yet, so what it
    /// changes is in no cache, and it is no compaction.
    fn record(&mut self) {
        let Some(recording) = &self.policy.recording else { return };
        if !std::mem::take(&mut self.has_result) {
            return;
        }
        let view = self.view();
        // A step that needs a budget has one; what must stay is not too large for a step that
        // aims at nothing.
        let Ok(plan) = plan(&view, &**recording, Some(&self.policy.budget)) else { return };
        if plan.is_empty() {
            return;
        }
        let after = plan.apply_digest().view;
        self.shared = self.shared.min(Change::between(&view, &after).prefix_tokens_kept);
        self.show(&after);
    }

    fn view(&self) -> View {
        View::through(&self.recorded, &self.overlay).expect("the overlay is this transcript's")
    }

    /// Takes into the ledger what was recorded since the last compaction.
    fn enter(&mut self, recorded: &Sequence) {
        let known = self.ledger.item_count();
        let new = (known..).zip(recorded.range(known..recorded.len()));
        new.for_each(|(index, entry)| self.ledger.push(index, entry.item()));
    }

    /// The model sees this now.
    fn show(&mut self, view: &View) {
        self.shown = self.recorded.clone_empty();
        for entry in view.iter() {
            self.shown.push_counted(Arc::clone(entry.item()), entry.tokens().clone());
        }
        self.recorded = view.transcript().clone();
        self.overlay = view.overlay().clone();
    }

    /// The model is asked, and its answer begins with item `index`.
    fn call(&mut self, index: usize, now: Option<Timestamp>) {
        self.record();
        if let Some(reason) = self.fires(now) {
            self.last_firing = now;
            self.compact(index, now, reason);
        }
        let prices = self.session.prices;
        let idle = now.zip(self.last_call).map(|(now, last)| now.millis_since(last));
        let prompt = self.shown.tokens();
        let cached = prices.cached_of(self.shared, idle);
        let output = self.session.history.get(index).map_or(Tokens::ZERO, |entry| entry.tokens().total);
        let call = Call { cached, fresh: prompt.saturating_sub(cached), output };
        let cost = prices.cost(&call);
        self.run.peak = self.run.peak.max(prompt);
        self.run.overflow_count += usize::from(prompt > self.policy.budget.usable());
        self.run.calls.push(CallRecord { item_index: index, call, cost });
        self.shared = prompt;
        self.last_call = now.or(self.last_call);
    }

    fn answer_goes_on(&mut self, tokens: Tokens) {
        if let Some(record) = self.run.calls.last_mut() {
            record.call.output += tokens;
            record.cost = self.session.prices.cost(&record.call);
        }
    }

    fn fires(&self, now: Option<Timestamp>) -> Option<CompactionReason> {
        if self.shown.tokens() < self.retry_at {
            return None;
        }
        let newest = self.shown.len().checked_sub(1).and_then(|index| self.shown.get(index))?;
        let point = match newest.kind() {
            ItemKind::Tool => MutationPoint::AfterToolResult,
            ItemKind::System
            | ItemKind::Developer
            | ItemKind::User
            | ItemKind::Assistant
            | ItemKind::Context
            | ItemKind::Notification => MutationPoint::AfterTurnEnded,
        };
        // What was reported when the session was recorded is not what this policy would have sent.
        let usage = Usage { input_tokens: self.shown.tokens(), ..Usage::default() };
        let mut context = TriggerContext::new(&self.shown, point).with_reported(usage);
        context.now = now;
        context.last_firing = self.last_firing;
        context.last_compaction = self.last_compaction;
        self.policy.trigger.fires(&context)
    }

    fn compact(&mut self, index: usize, now: Option<Timestamp>, reason: CompactionReason) {
        let view = self.view();
        let mut execution = Execution::new(view, &*self.policy.strategy)
            .with_budget(self.policy.budget)
            .with_dialect(self.session.dialect)
            .caused_by(reason.clone());
        execution.now = now;
        let tried_at = self.shown.tokens();
        self.retry_at = tried_at + Tokens(tried_at.0 * RETRY_GROWTH_PERCENT / 100 + 1);
        match compact(execution) {
            Ok(outcome) if outcome.is_unchanged() => {}
            Ok(outcome) => {
                self.retry_at = Tokens::ZERO;
                self.commit(index, now, reason, &outcome);
            }
            Err(error) => {
                self.run.failure_count += 1;
                if self.run.failures.len() < FAILURES_MAX {
                    self.run.failures.push((index, error.to_string()));
                }
            }
        }
    }

    fn commit(&mut self, index: usize, now: Option<Timestamp>, reason: CompactionReason, outcome: &Outcome) {
        let (before, after) = (&outcome.before, &outcome.view);
        self.enter(after.transcript());
        let needs = Needs::at(self.session.reading, index, self.session.horizon);
        let history = self.session.history.range(0..index).map(Entry::item);
        let rules = self.session.constraints.iter().filter(|(told, _)| *told < index);
        let rules: Vec<&str> = rules.map(|(_, rule)| *rule).collect();
        let Change { first_changed, prefix_tokens_kept: prefix_kept, .. } = outcome.change();
        let summary_cost = self.summary_cost(outcome, now);
        self.run.summary_cost += summary_cost;
        self.run.compactions.push(CompactionRecord {
            call_index: self.run.calls.len(),
            item_index: index,
            reason,
            tokens_before: before.tokens(),
            tokens_after: after.tokens(),
            first_changed,
            prefix_kept,
            break_even: self.session.prices.break_even(before.tokens(), after.tokens(), prefix_kept),
            summary_cost,
            items: ItemFates::of(after),
            retention: needs.retention(after.items()),
            kept: Keepsakes::of(history, &self.ledger, &rules).kept(after.items()),
            losses: self.ledger.account(before, after).by_kind,
        });
        self.shared = self.shared.min(prefix_kept);
        let (tokens_after, item_count) = (after.tokens(), after.len());
        self.last_compaction = Some(LastCompaction { tokens_after, at: now, item_count });
        self.show(after);
    }

    /// A model that writes a summary reads what the agent would have read, of which the cache holds
    /// what the last call read.
    fn summary_cost(&self, outcome: &Outcome, now: Option<Timestamp>) -> Cost {
        let output: Tokens = match self.policy.writer {
            Writer::Digest => return Cost::default(),
            Writer::Model => outcome.summaries().map(|item| self.recorded.meter().item(item).total).sum(),
        };
        if output == Tokens::ZERO {
            return Cost::default();
        }
        let (prices, read) = (self.session.prices, outcome.before.tokens());
        let idle = now.zip(self.last_call).map(|(now, last)| now.millis_since(last));
        let cached = prices.cached_of(self.shared.min(read), idle);
        prices.cost(&Call { cached, fresh: read.saturating_sub(cached), output })
    }
}

#[cfg(test)]
mod tests;
