//! Sessions run again call by call: the figures for scripts, and the table for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use foldback_core::{FactKind, Tokens};
use foldback_engine::replay::retention::{HORIZON_ITEMS, Retention};
use foldback_engine::replay::run::{CompactionRecord, ItemFates};
use foldback_engine::replay::{Losses, Replay, ReplayPolicy, Run, Tally, replay};
use serde::Serialize;

use super::Recording;
use super::pricing::{self, Pricing};
use crate::terminal::{FAINT, STRONG, counted, number, styled};

/// One conversation under every policy.
#[derive(Debug, Serialize)]
pub(crate) struct ReplayedSession {
    pub(crate) file: String,
    pub(crate) format: &'static str,
    pub(crate) window: u64,
    pub(crate) tokens: u64,
    pub(crate) items: usize,
    pub(crate) prices: Pricing,
    pub(crate) policies: Vec<Policy>,
}

/// What came of one policy.
#[derive(Debug, Serialize)]
pub(crate) struct Policy {
    pub(crate) policy: String,
    pub(crate) calls: usize,
    pub(crate) peak: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cost: f64,
    pub(crate) summary_cost: f64,
    /// None where there is nothing to measure.
    pub(crate) retention: Option<f64>,
    pub(crate) by_kind: BTreeMap<&'static str, Kind>,
    pub(crate) overflows: usize,
    pub(crate) failures: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<String>,
    pub(crate) compactions: Vec<Compaction>,
    /// What each call read, and what of it came from the cache.
    pub(crate) curve: Vec<Point>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) prompt: u64,
    pub(crate) cached: u64,
    pub(crate) output: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Kind {
    pub(crate) needed: usize,
    pub(crate) told: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Compaction {
    pub(crate) call: usize,
    pub(crate) item: usize,
    pub(crate) reason: String,
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    pub(crate) first_changed: Option<usize>,
    pub(crate) prefix_kept: u64,
    /// After how many calls it has paid for itself; none where it never does.
    pub(crate) break_even: Option<u64>,
    pub(crate) retention: Option<f64>,
    /// The shares of the user's rules and of the changed files that the view still tells.
    pub(crate) constraints: Option<f64>,
    pub(crate) files: Option<f64>,
    pub(crate) last_error: Option<bool>,
    pub(crate) items: Items,
    pub(crate) names: BTreeMap<&'static str, Fate>,
}

/// What has become of the items recorded so far.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Items {
    pub(crate) kept: usize,
    pub(crate) shortened: usize,
    pub(crate) folded: usize,
    pub(crate) dropped: usize,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Fate {
    pub(crate) kept: usize,
    pub(crate) recoverable: usize,
    pub(crate) lost: usize,
}

impl ReplayedSession {
    pub(crate) fn of(
        recording: &Recording,
        policies: &[ReplayPolicy],
        prices: Pricing,
        window: Tokens,
    ) -> Self {
        let session = Replay {
            history: &recording.history,
            reading: &recording.reading,
            dialect: recording.dialect,
            prices: prices.prices,
            horizon: HORIZON_ITEMS,
            constraints: &[],
        };
        Self {
            file: recording.file.clone(),
            format: recording.format,
            window: window.0,
            tokens: recording.history.tokens().0,
            items: recording.history.len(),
            prices,
            policies: policies.iter().map(|policy| Policy::new(&replay(&session, policy))).collect(),
        }
    }
}

impl Policy {
    fn new(run: &Run) -> Self {
        let retention = run.retention();
        let calls = || run.calls.iter().map(|record| record.call);
        let sum =
            |tokens: &dyn Fn(foldback_core::cost::Call) -> Tokens| calls().map(tokens).sum::<Tokens>().0;
        let mut all = Retention::default();
        run.compactions.iter().for_each(|made| all.add(&made.retention));
        Self {
            policy: run.policy.clone(),
            calls: run.calls.len(),
            peak: run.peak.0,
            prompt_tokens: sum(&|call| call.prompt()),
            cached_tokens: sum(&|call| call.cached),
            output_tokens: sum(&|call| call.output),
            cost: run.total_cost(),
            summary_cost: run.summary_cost.total(),
            retention,
            by_kind: by_kind(&all.by_kind, |tally: &Tally| Kind { needed: tally.needed, told: tally.told }),
            overflows: run.overflow_count,
            failures: run.failure_count,
            failed: run.failures.iter().map(|(item, why)| format!("at item {item}: {why}")).collect(),
            compactions: run.compactions.iter().map(Compaction::new).collect(),
            curve: calls()
                .map(|call| Point { prompt: call.prompt().0, cached: call.cached.0, output: call.output.0 })
                .collect(),
        }
    }
}

impl Compaction {
    fn new(made: &CompactionRecord) -> Self {
        let total = made.retention.total();
        Self {
            call: made.call_index,
            item: made.item_index,
            reason: made.reason.to_string(),
            tokens_before: made.tokens_before.0,
            tokens_after: made.tokens_after.0,
            first_changed: made.first_changed,
            prefix_kept: made.prefix_kept.0,
            break_even: made.break_even,
            retention: total.retention(),
            constraints: made.kept.constraints.share(),
            files: made.kept.files.share(),
            last_error: made.kept.last_error,
            items: Items::new(made.items),
            names: by_kind(&made.losses, Fate::new),
        }
    }

    /// All kinds together.
    pub(crate) fn all_names(&self) -> Fate {
        self.names.values().fold(Fate::default(), |sum, one| Fate {
            kept: sum.kept + one.kept,
            recoverable: sum.recoverable + one.recoverable,
            lost: sum.lost + one.lost,
        })
    }
}

impl Items {
    fn new(fates: ItemFates) -> Self {
        let ItemFates { kept, shortened, folded, dropped } = fates;
        Self { kept, shortened, folded, dropped }
    }
}

impl Fate {
    pub(crate) fn new(losses: &Losses) -> Self {
        Self { kept: losses.kept, recoverable: losses.recoverable, lost: losses.lost }
    }
}

pub(crate) fn by_kind<T, U>(
    of: &BTreeMap<FactKind, T>,
    shown: impl Fn(&T) -> U,
) -> BTreeMap<&'static str, U> {
    of.iter().map(|(kind, one)| (kind.name(), shown(one))).collect()
}

/// A policy over all sessions.
#[derive(Debug, Serialize)]
pub(crate) struct Total {
    pub(crate) policy: String,
    pub(crate) cost: f64,
    pub(crate) summary_cost: f64,
    pub(crate) prompt_tokens: u64,
    pub(crate) cached_tokens: u64,
    pub(crate) peak: u64,
    pub(crate) compactions: usize,
    /// The mean over the sessions in which something could be measured.
    pub(crate) retention: Option<f64>,
    pub(crate) by_kind: BTreeMap<&'static str, Kind>,
    pub(crate) overflows: usize,
    pub(crate) failures: usize,
}

/// The policies in their order, each over all sessions.
pub(crate) fn totals(sessions: &[ReplayedSession]) -> Vec<Total> {
    let mut totals: Vec<Total> = Vec::new();
    for name in sessions.iter().flat_map(|session| &session.policies).map(|policy| &policy.policy) {
        if totals.iter().all(|total| total.policy != *name) {
            totals.push(Total::of(sessions, name));
        }
    }
    totals
}

impl Total {
    fn of(sessions: &[ReplayedSession], name: &str) -> Self {
        let all = sessions.iter().flat_map(|session| &session.policies);
        let policies: Vec<&Policy> = all.filter(|policy| policy.policy == name).collect();
        let mean = |figure: &dyn Fn(&Policy) -> Option<f64>| {
            let figures: Vec<f64> = policies.iter().filter_map(|policy| figure(policy)).collect();
            (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
        };
        let mut by_kind: BTreeMap<&'static str, Kind> = BTreeMap::new();
        for (&kind, one) in policies.iter().flat_map(|policy| &policy.by_kind) {
            let sum = by_kind.entry(kind).or_default();
            sum.needed += one.needed;
            sum.told += one.told;
        }
        Self {
            policy: name.to_owned(),
            cost: policies.iter().map(|policy| policy.cost).sum(),
            summary_cost: policies.iter().map(|policy| policy.summary_cost).sum(),
            prompt_tokens: policies.iter().map(|policy| policy.prompt_tokens).sum(),
            cached_tokens: policies.iter().map(|policy| policy.cached_tokens).sum(),
            peak: policies.iter().map(|policy| policy.peak).max().unwrap_or(0),
            compactions: policies.iter().map(|policy| policy.compactions.len()).sum(),
            retention: mean(&|policy| policy.retention),
            by_kind,
            overflows: policies.iter().map(|policy| policy.overflows).sum(),
            failures: policies.iter().map(|policy| policy.failures).sum(),
        }
    }

    fn notes(&self) -> String {
        let mut notes = Vec::new();
        let mut note = |count: usize, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        note(self.overflows, "calls over the window");
        note(self.failures, "compactions failed");
        notes.join(", ")
    }
}

/// What came of every policy, over all sessions.
pub(crate) fn table(sessions: &[ReplayedSession], totals: &[Total]) -> String {
    let mut text = String::new();
    let tokens = sessions.iter().map(|session| session.tokens).sum();
    let _ = writeln!(
        text,
        "{}, {} tokens; prices of {}",
        counted(sessions.len(), "conversation"),
        number(tokens),
        pricing::told(sessions)
    );
    let columns = "policy              cost  of it summaries  compactions       peak  cached  retention";
    let _ = writeln!(text, "  {}", styled(FAINT, columns));
    for total in totals {
        let cached = total.cached_tokens as f64 / (total.prompt_tokens.max(1)) as f64 * 100.0;
        let _ = writeln!(
            text,
            "  {} {:>10}  {:>15}  {:>11}  {:>9}  {:>5.0}%  {:>9}  {}",
            styled(STRONG, format!("{:<14}", total.policy)),
            dollars(total.cost),
            dollars(total.summary_cost),
            total.compactions,
            number(total.peak),
            cached,
            share(total.retention),
            styled(FAINT, total.notes())
        );
    }
    let legend = "  peak: the longest request, in tokens; cached: what the provider had in its cache;\n  \
                  retention: the share of names and numbers needed later that the model still saw";
    let _ = writeln!(text, "{}", styled(FAINT, legend));
    if totals.iter().all(|total| total.retention.is_none()) {
        let _ = writeln!(text, "  retention is not measurable: nothing was compacted that was needed later");
    }
    text
}

/// An amount of money, cents where that is enough.
pub(crate) fn dollars(amount: f64) -> String {
    if amount != 0.0 && amount.abs() < 0.1 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

/// A share, or a dash where there is none.
pub(crate) fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{share:.3}"))
}
