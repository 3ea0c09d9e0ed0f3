//! What `foldback compact` did, for scripts and for people.

use foldback_core::{Change, Edit, Policy, Prices, Tokens};
use serde::Serialize;

use super::{Done, Failed, Folded};
use crate::args::{Compact, Extent};
use crate::input::Opened;
use crate::model::{ModelReport, WindowReport};
use crate::places::Places;
use crate::provider::CalibrationReport;
use crate::staying::KeptReport;
use crate::summarizer::Account;
use crate::terminal::{counted, number, say, styled};
use crate::written::{WrittenReport, tell_some};
use crate::{picture, policy, terminal};

/// Conversations of one file that are told in full; the rest are summed up.
const CONVERSATIONS_TOLD_MAX: usize = 3;

/// What happened, for scripts.
#[derive(Serialize)]
pub(super) struct CompactReport {
    pub(super) file: String,
    pub(super) format: &'static str,
    pub(super) dialect: Option<&'static str>,
    pub(super) counter: String,
    pub(super) from: Extent,
    pub(super) policy: String,
    /// The model it is compacted for, if one is named.
    pub(super) model: Option<ModelReport>,
    /// The window, where the target is a share of one.
    pub(super) window: Option<WindowReport>,
    /// What the policy aims for; none where it does not aim at a size.
    pub(super) target: Option<u64>,
    pub(super) conversations: Vec<FoldedReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) failed: Vec<FailedReport>,
    pub(super) written: Option<WrittenReport>,
    /// How it would be written, where that was only asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) would_write: Option<WrittenReport>,
}

/// A conversation that stays as it was.
#[derive(Serialize)]
pub(super) struct FailedReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    error: String,
}

impl FailedReport {
    pub(super) fn new(failed: &Failed) -> Self {
        Self { name: failed.name.clone(), error: failed.failure.what() }
    }
}

#[derive(Serialize)]
pub(super) struct FoldedReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// What it was to come down to, where the policy aims at a size.
    target: Option<u64>,
    strategy: String,
    /// How counts became the provider's tokens, where usage was reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<CalibrationReport>,
    tokens_before: u64,
    tokens_after: u64,
    items_before: usize,
    items_after: usize,
    kept: usize,
    rewritten: usize,
    folded: usize,
    dropped: usize,
    first_changed: Option<usize>,
    prefix_tokens_kept: u64,
    /// When it has paid for the prefix that has to be cached again, where the model's prices are known.
    break_even: Option<BreakEven>,
    /// What became of the lines that match `--keep`, where that was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_lines: Option<KeptReport>,
    edits: usize,
    repairs: Vec<String>,
    /// Who wrote each summary that is new.
    written_by: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<Account>,
}

#[derive(Serialize)]
struct BreakEven {
    calls: u64,
    prices: &'static str,
    dated: &'static str,
}

impl BreakEven {
    fn of(opened: &Opened, folded: &Folded<'_>, change: &Change) -> Option<Self> {
        let prices = Prices::of_model(opened.session.model()?)?;
        let (before, after) = (folded.before(), folded.after());
        let prefix = folded.provider.request(change.prefix_tokens_kept);
        let calls = prices.break_even(before, after, prefix)?;
        Some(Self { calls, prices: prices.name, dated: prices.dated })
    }
}

impl FoldedReport {
    pub(super) fn new(folded: &Folded<'_>, opened: &Opened, policy: &Policy) -> Self {
        let outcome = &folded.outcome;
        let counts = picture::Fates::of(&outcome.mended, folded.edits());
        let conversation = &opened.session.conversations()[folded.conversation_index];
        let repairs = match &outcome.repairs[..] {
            [] => Vec::new(),
            repairs => {
                let places = Places::new(&opened.path, conversation, &outcome.before);
                places.repair_lines(&places.repairs(&outcome.mended, repairs))
            }
        };
        let change = outcome.change();
        let origins = outcome.summaries().filter_map(|item| item.summary.as_ref());
        Self {
            name: conversation.name().map(ToOwned::to_owned),
            target: policy::aims(policy).then_some(folded.aimed.target_tokens.0),
            strategy: outcome.strategy.to_string(),
            calibration: folded.provider.report(),
            tokens_before: folded.before().0,
            tokens_after: folded.after().0,
            items_before: outcome.before.len(),
            items_after: outcome.view.len(),
            kept: counts.kept,
            rewritten: counts.rewritten,
            folded: counts.folded,
            dropped: counts.dropped,
            first_changed: change.first_changed,
            prefix_tokens_kept: folded.provider.request(change.prefix_tokens_kept).0,
            break_even: BreakEven::of(opened, folded, &change).filter(|_| folded.edits().next().is_some()),
            kept_lines: folded.kept,
            edits: folded.edits().count(),
            repairs,
            written_by: origins.map(|origin| origin.written_by.to_string()).collect(),
            backend: folded.account.clone(),
        }
    }
}

impl Folded<'_> {
    /// What a request cost before, by the provider's count.
    fn before(&self) -> Tokens {
        self.provider.request(self.outcome.before.tokens())
    }

    /// What one costs now.
    fn after(&self) -> Tokens {
        self.provider.request(self.outcome.view.tokens())
    }

    /// What was committed, without the repair.
    fn edits(&self) -> impl Iterator<Item = &Edit> {
        self.outcome.compactions().flat_map(|block| &block.edits)
    }
}

/// Says what of the command line has no effect.
pub(super) fn tell_what_is_ignored(arguments: &Compact, policy: &Policy) {
    if arguments.aim.target.is_some() && !policy::aims(policy) {
        let target = arguments.aim.target_from.name("target");
        terminal::note(&format!(
            "{target} has no effect: the policy {} keeps what it keeps, whatever its size; only where that is more \
             than the window holds, more is compacted",
            policy.name()
        ));
    }
    if arguments.ways.focus.is_some() && !policy::asks_for_summaries(policy) {
        terminal::note(&format!("--focus has no effect: the policy {} writes no summary", policy.name()));
    }
}

/// What happened, for people.
pub(super) fn tell(done: &Done, report: &CompactReport) {
    let is_alone = done.folded.len() == 1;
    let changed = || {
        let all = done.folded.iter().zip(&report.conversations);
        all.filter(|(folded, _)| is_alone || !folded.is_unchanged())
    };
    for (folded, told) in changed().take(CONVERSATIONS_TOLD_MAX) {
        let name = told.name.as_deref().map_or_else(String::new, |name| format!(" ({name})"));
        let heading = format!("{}{name}", report.file);
        let dialect = report.dialect.map_or_else(String::new, |dialect| format!(" for {dialect}"));
        let calibration = told.calibration.as_ref().map_or_else(String::new, |how| format!(", {how}"));
        say(&format!(
            "{} {}{dialect}{}, counted by {}{calibration}",
            styled(terminal::STRONG, heading),
            report.format,
            told_model(report),
            report.counter
        ));
        tell_one(folded, told);
    }
    let more = changed().skip(CONVERSATIONS_TOLD_MAX);
    let sums = more.fold((0, 0, 0), |(count, before, after), (_, told)| {
        (count + 1, before + told.tokens_before, after + told.tokens_after)
    });
    if let (count @ 1.., before, after) = sums {
        let (before, after) = (number(before), number(after));
        let count = counted(count, "more conversation");
        say(&format!("{count}: {before} → {after} tokens together"));
    }
    let unchanged = done.folded.iter().filter(|folded| folded.is_unchanged()).count();
    if !is_alone && unchanged > 0 {
        let all = done.folded.len() + done.failed.len();
        let is_aimed = report.conversations.iter().any(|told| told.target.is_some());
        let why = if is_aimed { "are already under the target" } else { "have nothing to compact" };
        say(&format!("{unchanged} of {all} conversations {why}"));
    }
    if let Some(written) = report.written.as_ref().or(report.would_write.as_ref()) {
        written.tell("compaction");
    }
}

/// The model and the window, each with who says so, as far as they decide anything.
fn told_model(report: &CompactReport) -> String {
    let model = report.model.as_ref().map(|model| format!(", for {model}")).unwrap_or_default();
    let window = report.window.as_ref().map(|window| format!(", {window}")).unwrap_or_default();
    format!("{model}{window}")
}

fn tell_one(folded: &Folded<'_>, told: &FoldedReport) {
    let target = told.target.map(|_| folded.aimed.target());
    if folded.is_unchanged() {
        let tokens = number(told.tokens_before);
        return say(&match target {
            Some(target) => format!("  already under the target: {tokens} tokens, the target is {target}"),
            None => format!("  nothing to do: {tokens} tokens"),
        });
    }
    let (before, after) = (number(told.tokens_before), number(told.tokens_after));
    let after = styled(terminal::STRONG, after);
    let target = target.map_or_else(String::new, |target| format!(" (target {target})"));
    say(&format!("  {before} → {after} tokens{target}"));
    for line in picture::timeline(&folded.outcome.mended, folded.edits(), terminal::width() - 4) {
        say(&format!("  {line}"));
    }
    let (kept, rewritten) = (number(told.kept as u64), number(told.rewritten as u64));
    say(&format!(
        "  {} items kept as they were, {} shortened or cleared, {} folded into a summary, {} dropped",
        styled(terminal::GREEN, kept),
        styled(terminal::YELLOW, rewritten),
        styled(terminal::BLUE, number(told.folded as u64)),
        styled(terminal::RED, number(told.dropped as u64)),
    ));
    if let Some(kept) = told.kept_lines.and_then(|kept| kept.told()) {
        say(&format!("  {kept}"));
    }
    if let Some(first) = told.first_changed {
        let prefix = number(told.prefix_tokens_kept);
        say(&format!(
            "  first changed item: {first}; {prefix} tokens of prefix stay in the provider's cache"
        ));
    }
    if let Some(account) = &told.backend {
        tell_account(account, &told.written_by);
    }
    if let Some(BreakEven { calls, prices, dated }) = &told.break_even {
        let calls = counted(usize::try_from(*calls).unwrap_or(usize::MAX), "call");
        say(&format!("  saves money after {calls} of the model, at the prices of {prices} ({dated})"));
    }
    tell_some("repaired", &told.repairs);
}

fn tell_account(account: &Account, written_by: &[String]) {
    let by = match written_by {
        [] => "no summary was needed".to_owned(),
        writers => format!("summary by {}", writers.join(", ")),
    };
    let usage = account.usage.map_or_else(String::new, |usage| {
        let (read, wrote) = (number(usage.input_tokens), number(usage.output_tokens));
        let calls = counted(usize::try_from(usage.calls).unwrap_or(usize::MAX), "call");
        format!("; {calls}, {read} tokens read, {wrote} written")
    });
    let cost = account.cost.map_or_else(String::new, |dollars| format!(", ${dollars:.4}"));
    say(&format!("  {by}{usage}{cost}"));
}
