//! Every policy on the same cuts at the same size: what each remembers of what was needed.

use std::sync::Arc;

use foldback_core::tokens::count_item;
use foldback_core::{
    Budget, CompactionReason, Dialect, Execution, Ledger, Sequence, TokenCounter, Tokens, Transcript, View,
};

use super::ReplayPolicy;
use super::kept::{Keepsakes, Kept};
use super::lines::History;
use super::retention::{Needs, Retention};
use crate::compaction::CompactionError;
use crate::executor::compact;

/// Where a session is cut, as shares of its tokens in percent.
pub const CUT_PERCENTS: [u64; 3] = [40, 60, 80];

/// What a policy may keep of the tokens before the cut, in percent.
pub const BUDGET_PERCENTS: [u64; 2] = [10, 5];

/// What is measured on a session.
#[derive(Clone, Copy, Debug)]
pub struct Measure<'a> {
    /// The whole history, counted.
    pub history: &'a Transcript,
    /// The same history, read.
    pub reading: &'a History,
    /// Whose rules the views must keep.
    pub dialect: Option<Dialect>,
    /// Counts the views again, independently of how they came about.
    pub counter: &'a dyn TokenCounter,
    /// Where to cut, in percent of the tokens.
    pub cut_percents: &'a [u64],
    /// What may be kept, in percent of the tokens before the cut.
    pub budget_percents: &'a [u64],
    /// Items after a cut that are looked at.
    pub horizon: usize,
    /// Rules that must be kept besides those that the ledger finds, each with the item that gave it.
    pub constraints: &'a [(usize, &'a str)],
}

/// One policy at one cut and one size.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Measurement {
    /// The policy.
    pub policy: String,
    /// Where the session was cut, in percent of its tokens.
    pub cut_percent: u64,
    /// How many items are before the cut.
    pub cut_index: usize,
    /// What they cost.
    pub tokens_before: Tokens,
    /// The size, in percent of that.
    pub budget_percent: u64,
    /// The size.
    pub budget: Tokens,
    /// What came of it.
    pub outcome: Result<Measured, CompactionError>,
}

/// What a compacted view holds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What it costs, counted anew item by item.
    pub tokens: Tokens,
    /// What it holds of what was needed.
    pub retention: Retention,
    /// What else it holds.
    pub kept: Kept,
}

/// Measures every policy at every cut and size. Cuts with nothing before or behind them are left out.
pub fn measure(what: &Measure<'_>, policies: &[ReplayPolicy]) -> Vec<Measurement> {
    let mut measurements = Vec::new();
    for &cut_percent in what.cut_percents {
        let Some(cut_index) = cut_at(what.history, cut_percent) else { continue };
        let past = beginning(what.history, cut_index);
        let needs = Needs::at(what.reading, cut_index, what.horizon);
        let rules = what.constraints.iter().filter(|(index, _)| *index < cut_index);
        let rules: Vec<&str> = rules.map(|(_, rule)| *rule).collect();
        let keepsakes = Keepsakes::of(past.items(), &Ledger::of(&past), &rules);
        let view = View::of(&past);
        for &budget_percent in what.budget_percents {
            let budget = Tokens((past.tokens().0 * budget_percent / 100).max(1));
            for policy in policies {
                let outcome = compacted(&view, policy, budget, what.dialect).map(|view| Measured {
                    tokens: counted(&view, what),
                    retention: needs.retention(view.items()),
                    kept: keepsakes.kept(view.items()),
                });
                measurements.push(Measurement {
                    policy: policy.name.clone(),
                    cut_percent,
                    cut_index,
                    tokens_before: past.tokens(),
                    budget_percent,
                    budget,
                    outcome,
                });
            }
        }
    }
    measurements
}

/// The first cut between units at which so many percent of the tokens have passed, if there is
/// something on either side of it.
pub fn cut_at(history: &Sequence, percent: u64) -> Option<usize> {
    let wanted = history.tokens().0 * percent / 100;
    let reached = history.iter().take_while(|entry| entry.tokens_through().0 < wanted).count() + 1;
    let cut = history.cut_at_or_after(reached.min(history.len()));
    (cut > 0 && cut < history.len()).then_some(cut)
}

/// The first items of a transcript, without counting them again.
pub fn beginning(history: &Transcript, len: usize) -> Transcript {
    let mut past = history.clone_empty();
    for entry in history.range(0..len) {
        past.push_counted(Arc::clone(entry.item()), entry.tokens().clone());
    }
    past
}

fn compacted(
    view: &View,
    policy: &ReplayPolicy,
    target: Tokens,
    dialect: Option<Dialect>,
) -> Result<View, CompactionError> {
    let budget = Budget::for_target(target).expect("a share of something is above zero");
    let execution = Execution::new(view.clone(), policy.sized())
        .with_budget(budget)
        .with_dialect(dialect)
        .caused_by(CompactionReason::Manual);
    compact(execution).map(|outcome| outcome.view)
}

fn counted(view: &View, what: &Measure<'_>) -> Tokens {
    view.items().map(|item| count_item(what.counter, what.dialect, item).total).sum()
}

/// How a figure is spread over cuts and sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many figures there were.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; zero for a single one.
    pub deviation: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// The spread of these figures; none where there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let figures: Vec<f64> = figures.into_iter().collect();
        let count = figures.len();
        let (least, most) = figures
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &one| (least.min(one), most.max(one)));
        let mean = figures.iter().sum::<f64>() / count as f64;
        let squares: f64 = figures.iter().map(|one| (one - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        (count > 0).then_some(Self { count, mean, deviation, least, most })
    }
}
