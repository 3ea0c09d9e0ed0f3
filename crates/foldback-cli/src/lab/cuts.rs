//! Fixed cuts at equal tokens: what each policy remembers, as a table and for scripts.

use std::collections::BTreeMap;
use std::fmt::Write;

use foldback_core::{FactKind, TokenCounter, Tokens};
use foldback_engine::replay::measure::{CUT_PERCENTS, Measure, Measurement, measure};
use foldback_engine::replay::retention::{HORIZON_ITEMS, Tally};
use foldback_engine::replay::{ReplayPolicy, Spread};
use serde::Serialize;

use super::policies::Chosen;
use super::{Recording, recordings, room, window};
use crate::args::{Inputs, Shared};
use crate::failure::{Exit, Failure};
use crate::terminal::{FAINT, STRONG, counted, number, styled};
use crate::{counting, input};

/// What to measure, and how much may be kept.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) inputs: &'a Inputs,
    pub(crate) window: Option<Tokens>,
    pub(crate) tokens_min: Tokens,
    pub(crate) chosen: &'a Chosen,
    pub(crate) budget_percents: &'a [u64],
}

/// Measures every conversation of the inputs that is large enough.
pub(crate) fn measured(shared: &Shared, asked: &Asked<'_>) -> Result<(Vec<Cut>, Exit), Failure> {
    let counter = counting::counter(shared);
    let again = counting::counter(shared);
    let plan = Plan { cut_percents: &CUT_PERCENTS, budget_percents: asked.budget_percents, counter: &*again };
    let (sessions, exit) = input::in_parallel(shared, asked.inputs, |opened| {
        let policies = asked.chosen.at(room(shared, window(shared, asked.window, opened)?, opened))?;
        let large =
            recordings(opened, &counter).filter(|recording| recording.history.tokens() >= asked.tokens_min);
        Ok(large.map(|recording| Cut::of(&recording, &policies, &plan)).collect::<Vec<_>>())
    })?;
    Ok((sessions.into_iter().flatten().collect(), exit))
}

/// What to cut and how much may be kept.
#[derive(Clone, Copy, Debug)]
struct Plan<'a> {
    cut_percents: &'a [u64],
    budget_percents: &'a [u64],
    /// Counts the views again.
    counter: &'a dyn TokenCounter,
}

/// One conversation, measured.
#[derive(Debug, Serialize)]
pub(crate) struct Cut {
    pub(crate) file: String,
    pub(crate) format: &'static str,
    pub(crate) tokens: u64,
    pub(crate) items: usize,
    pub(crate) measurements: Vec<Row>,
}

/// One policy at one cut and one size.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    policy: String,
    cut_percent: u64,
    cut_index: usize,
    tokens_before: u64,
    budget_percent: u64,
    budget: u64,
    /// The independent count of the view; none where there is no view.
    tokens: Option<u64>,
    is_over: bool,
    /// None where nothing had to be remembered.
    retention: Option<f64>,
    by_kind: BTreeMap<&'static str, Kind>,
    /// The share of the user's rules that are there verbatim; none where no rule is known.
    constraints: Option<f64>,
    files: Option<f64>,
    last_error: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Kind {
    needed: usize,
    told: usize,
}

impl Cut {
    fn of(recording: &Recording, policies: &[ReplayPolicy], plan: &Plan<'_>) -> Self {
        let measurements = measure(
            &Measure {
                history: &recording.history,
                reading: &recording.reading,
                dialect: recording.dialect,
                counter: plan.counter,
                cut_percents: plan.cut_percents,
                budget_percents: plan.budget_percents,
                horizon: HORIZON_ITEMS,
                constraints: &[],
            },
            policies,
        );
        Self {
            file: recording.file.clone(),
            format: recording.format,
            tokens: recording.history.tokens().0,
            items: recording.history.len(),
            measurements: measurements.iter().map(Row::new).collect(),
        }
    }
}

impl Cut {
    /// What was measured at one size at those cuts at which no policy failed.
    fn same_cuts(&self, budget_percent: u64) -> impl Iterator<Item = &Row> {
        let rows = move || self.measurements.iter().filter(move |row| row.budget_percent == budget_percent);
        let failed: Vec<u64> = rows().filter(|row| row.error.is_some()).map(|row| row.cut_percent).collect();
        rows().filter(move |row| !failed.contains(&row.cut_percent))
    }
}

impl Row {
    fn new(measurement: &Measurement) -> Self {
        let budget = measurement.budget;
        let measured = measurement.outcome.as_ref().ok();
        let total = measured.map(|measured| measured.retention.total());
        let tokens = measured.map(|measured| measured.tokens);
        let by_kind = measured.into_iter().flat_map(|measured| &measured.retention.by_kind);
        let kept = measured.map(|measured| measured.kept);
        Self {
            policy: measurement.policy.clone(),
            cut_percent: measurement.cut_percent,
            cut_index: measurement.cut_index,
            tokens_before: measurement.tokens_before.0,
            budget_percent: measurement.budget_percent,
            budget: budget.0,
            tokens: tokens.map(|tokens| tokens.0),
            is_over: tokens.is_some_and(|tokens: Tokens| tokens > budget),
            retention: total.as_ref().and_then(Tally::retention),
            by_kind: by_kind.map(|(kind, tally)| (kind.name(), Kind::new(tally))).collect(),
            constraints: kept.and_then(|kept| kept.constraints.share()),
            files: kept.and_then(|kept| kept.files.share()),
            last_error: kept.and_then(|kept| kept.last_error),
            error: measurement.outcome.as_ref().err().map(ToString::to_string),
        }
    }
}

impl Kind {
    fn new(tally: &Tally) -> Self {
        Self { needed: tally.needed, told: tally.told }
    }
}

/// One policy at one size, over all cuts and sessions.
#[derive(Debug, Serialize)]
pub(crate) struct Mean {
    pub(crate) policy: String,
    pub(crate) budget_percent: u64,
    #[serde(flatten)]
    pub(crate) all: Figures,
    /// Over those cuts only at which every policy has a view of the size.
    at_same_cuts: Figures,
    pub(crate) by_kind: BTreeMap<&'static str, Figures>,
    pub(crate) by_format: BTreeMap<&'static str, Figures>,
    /// Shares of the changed files that the view names.
    files: Option<Shown>,
    /// Share of the cuts whose last error the view tells.
    last_error: Option<Shown>,
    /// Cuts at which there was nothing to remember.
    not_measurable: usize,
    /// Cuts at which there is no view of this size.
    pub(crate) failed: usize,
    /// Views that an independent count finds too large.
    pub(crate) over: usize,
}

/// Means over cuts and sessions, with their spread.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) retention: Option<Shown>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) mean: f64,
    deviation: f64,
    least: f64,
    most: f64,
    count: usize,
}

impl From<Spread> for Shown {
    fn from(spread: Spread) -> Self {
        let Spread { mean, deviation, least, most, count } = spread;
        Self { mean, deviation, least, most, count }
    }
}

fn shown(figures: impl IntoIterator<Item = f64>) -> Option<Shown> {
    Spread::of(figures).map(Shown::from)
}

impl Figures {
    fn of<'r>(rows: impl Iterator<Item = &'r Row> + Clone) -> Self {
        Self { retention: shown(rows.filter_map(|row| row.retention)) }
    }

    fn of_kind<'r>(rows: impl Iterator<Item = &'r Row> + Clone, kind: &str) -> Self {
        let tallies = rows.filter_map(|row| row.by_kind.get(kind)).filter(|tally| tally.needed > 0);
        let share = |part: usize, whole: usize| part as f64 / whole as f64;
        Self { retention: shown(tallies.map(|tally| share(tally.told, tally.needed))) }
    }
}

/// The means of every policy at every size, in the order in which they were measured.
pub(crate) fn means(cuts: &[Cut]) -> Vec<Mean> {
    let mut keys: Vec<(u64, &str)> = Vec::new();
    for row in cuts.iter().flat_map(|cut| &cut.measurements) {
        if !keys.contains(&(row.budget_percent, row.policy.as_str())) {
            keys.push((row.budget_percent, row.policy.as_str()));
        }
    }
    keys.sort_by_key(|(budget, _)| std::cmp::Reverse(*budget));
    keys.into_iter().map(|(budget, policy)| Mean::of(cuts, policy, budget)).collect()
}

impl Mean {
    fn of(cuts: &[Cut], policy: &str, budget_percent: u64) -> Self {
        let is_meant = |row: &&Row| row.policy == policy && row.budget_percent == budget_percent;
        let rows_of = |format: Option<&str>| -> Vec<&Row> {
            let cuts = cuts.iter().filter(|cut| format.is_none_or(|format| cut.format == format));
            cuts.flat_map(|cut| &cut.measurements).filter(is_meant).collect()
        };
        let rows = rows_of(None);
        let same: Vec<&Row> =
            cuts.iter().flat_map(|cut| cut.same_cuts(budget_percent)).filter(is_meant).collect();
        let each = || rows.iter().copied();
        let mut formats: Vec<&'static str> = cuts.iter().map(|cut| cut.format).collect();
        formats.sort_unstable();
        formats.dedup();
        let of_format = |format: &'static str| (format, Figures::of(rows_of(Some(format)).into_iter()));
        let of_kind = |kind: &FactKind| (kind.name(), Figures::of_kind(each(), kind.name()));
        Self {
            policy: policy.to_owned(),
            budget_percent,
            all: Figures::of(each()),
            at_same_cuts: Figures::of(same.into_iter()),
            by_kind: FactKind::ALL.iter().map(of_kind).filter(|(_, of)| of.retention.is_some()).collect(),
            by_format: formats.into_iter().map(of_format).collect(),
            files: shown(each().filter_map(|row| row.files)),
            last_error: shown(each().filter_map(|row| row.last_error).map(|kept| f64::from(u8::from(kept)))),
            not_measurable: each().filter(|row| row.tokens.is_some() && row.retention.is_none()).count(),
            failed: each().filter(|row| row.error.is_some()).count(),
            over: each().filter(|row| row.is_over).count(),
        }
    }
}

/// The means as tables.
pub(crate) fn table(cuts: &[Cut], means: &[Mean]) -> String {
    let mut text = String::new();
    let measured = cuts.iter().map(|cut| cut.tokens).sum();
    let _ = writeln!(text, "{}, {} tokens", counted(cuts.len(), "conversation"), number(measured));
    let mut budget = None;
    for mean in means {
        if budget != Some(mean.budget_percent) {
            budget = Some(mean.budget_percent);
            let heading = format!("at {}% of the tokens before the cut", mean.budget_percent);
            let _ = writeln!(text, "\n{}", styled(STRONG, heading));
            let columns = "policy            retention      at the same cuts  files  error  notes";
            let _ = writeln!(text, "  {}", styled(FAINT, columns));
        }
        let _ = writeln!(
            text,
            "  {:<16}  {:<13}  {:<16}  {:<5}  {:<5}  {}",
            mean.policy,
            spread(mean.all.retention),
            plain(mean.at_same_cuts.retention),
            plain(mean.files),
            plain(mean.last_error),
            mean.notes()
        );
    }
    for (heading, of) in [("by kind", by_kind as By), ("by format", by_format as By)] {
        for mean in means {
            let rows = of(mean);
            if rows.values().any(|figures| figures.retention.is_some()) {
                let heading = format!("{heading}: {} at {}%", mean.policy, mean.budget_percent);
                let _ = writeln!(text, "\n{}", styled(STRONG, heading));
            }
            for (name, figures) in rows.iter().filter(|(_, figures)| figures.retention.is_some()) {
                let _ = writeln!(text, "  {name:<16}  {}", spread(figures.retention));
            }
        }
    }
    text
}

type By = fn(&Mean) -> &BTreeMap<&'static str, Figures>;

fn by_kind(mean: &Mean) -> &BTreeMap<&'static str, Figures> {
    &mean.by_kind
}

fn by_format(mean: &Mean) -> &BTreeMap<&'static str, Figures> {
    &mean.by_format
}

impl Mean {
    fn notes(&self) -> String {
        let cuts = self.all.retention.map_or(0, |shown| shown.count);
        let mut notes = vec![format!("{cuts} cuts")];
        let mut note = |count: usize, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        note(self.not_measurable, "not measurable");
        note(self.failed, "could not be compacted");
        note(self.over, "over budget");
        notes.join(", ")
    }
}

fn spread(shown: Option<Shown>) -> String {
    shown.map_or_else(|| "-".to_owned(), |shown| format!("{:.3} ±{:.3}", shown.mean, shown.deviation))
}

fn plain(shown: Option<Shown>) -> String {
    shown.map_or_else(|| "-".to_owned(), |shown| format!("{:.3}", shown.mean))
}
