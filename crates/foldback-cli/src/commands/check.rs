//! `foldback check`: what a provider would reject, with line and item; `--fix` repairs it.

use foldback_core::compaction::mend_above;
use foldback_core::{Dialect, Repair, Rule, View, Violation, check};
use foldback_formats::{Committed, Conversation, SessionFile, Written, WrittenAs};
use serde::Serialize;

use crate::args::{Check, Extent, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::output::{self, Destination, OutputPlace};
use crate::places::Places;
use crate::requests::unanswered_calls;
use crate::scene::Scene;
use crate::terminal::{GREEN, RED, STRONG, counted, say, styled};
use crate::written::{Fresh, WrittenReport};

/// What one dialect asks for may stand in the way of another's rules once: each is looked at again.
const MEND_PASS_COUNT_MAX: usize = 4;

pub(crate) fn run(shared: &Shared, arguments: &Check) -> Result<Exit, Failure> {
    let is_single = input::is_single(&arguments.inputs);
    let destination = match arguments.fix {
        true => Destination::of(shared, arguments.output.as_deref(), arguments.in_place, is_single)?,
        false => Destination::Nowhere,
    };
    input::for_each(shared, &arguments.inputs, |opened| {
        let mut report = CheckReport::new(opened, arguments);
        if arguments.fix {
            report.fixed = Some(fix(opened, arguments, &destination)?);
        }
        match shared.json {
            true => output::print_json(&report)?,
            false => match &report.fixed {
                Some(_) if shared.quiet => {}
                Some(fixed) => report.tell(fixed),
                None => output::print(&report.text())?,
            },
        }
        Ok(if report.is_good() { Exit::Success } else { Exit::Negative })
    })
}

#[derive(Serialize)]
struct CheckReport {
    file: String,
    format: &'static str,
    valid: bool,
    checks: Vec<Verdict>,
    #[serde(flatten)]
    fixed: Option<Fixed>,
}

/// What came of a repair.
#[derive(Serialize)]
struct Fixed {
    /// What was repaired, at the places that the violations name.
    repairs: Vec<Mended>,
    /// What the dialects say of the session as it is written.
    left: Vec<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<WrittenReport>,
}

/// What one dialect says.
#[derive(Serialize)]
struct Verdict {
    dialect: &'static str,
    violations: Vec<Found>,
    /// Calls at the very end that have no result yet: a session may end so, a request may not.
    waiting_calls: usize,
}

#[derive(Serialize)]
struct Found {
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<String>,
    line: Option<usize>,
    #[serde(flatten)]
    violation: Violation,
}

#[derive(Serialize)]
struct Mended {
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<String>,
    line: Option<usize>,
    #[serde(flatten)]
    repair: Repair,
}

impl CheckReport {
    fn new(opened: &Opened, arguments: &Check) -> Self {
        let session = &opened.session;
        let checks = verdicts(session.own_conversations(), &dialects(opened, arguments), arguments.from);
        Self {
            file: opened.path.display().to_string(),
            format: session.format().as_str(),
            valid: checks.iter().all(Verdict::is_valid),
            checks,
            fixed: None,
        }
    }

    /// Whether nothing is left to do: nothing is rejected, or not any more.
    fn is_good(&self) -> bool {
        match &self.fixed {
            Some(fixed) => fixed.left.iter().all(Verdict::is_valid),
            None => self.valid,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for verdict in &self.checks {
            let told = match verdict.violations.len() {
                0 => styled(GREEN, "valid"),
                count => styled(RED, counted(count, "violation")),
            };
            let waiting = match verdict.waiting_calls {
                0 => String::new(),
                count => format!("; {} at the end without a result yet", counted(count, "call")),
            };
            let heading = format!("{} ({})", styled(STRONG, &self.file), self.format);
            text.push_str(&format!("{heading} for {}: {told}{waiting}\n", verdict.dialect));
            for found in &verdict.violations {
                let line = found.line.map_or_else(String::new, |line| format!(":{line}"));
                text.push_str(&format!("{}{line}: {}\n", self.file, found.violation));
            }
        }
        text
    }

    fn tell(&self, fixed: &Fixed) {
        let told = match fixed.repairs.len() {
            0 => "nothing to repair".to_owned(),
            count => counted(count, "repair"),
        };
        let (valid, left): (Vec<_>, Vec<_>) = fixed.left.iter().partition(|verdict| verdict.is_valid());
        let valid: Vec<&str> = valid.into_iter().map(|verdict| verdict.dialect).collect();
        let valid = match valid.is_empty() {
            true => String::new(),
            false => format!("; valid for {}", valid.join(", ")),
        };
        say(&format!("{}: {told}{valid}", styled(STRONG, &self.file)));
        for mended in &fixed.repairs {
            let line = mended.line.map_or_else(String::new, |line| format!(":{line}"));
            say(&format!("{}{line}: {}", self.file, mended.repair));
        }
        for verdict in left {
            let count = styled(RED, counted(verdict.violations.len(), "violation"));
            say(&format!("  left for {}: {count} that no repair takes away in this format", verdict.dialect));
            for found in &verdict.violations {
                say(&format!("    {}", found.violation));
            }
        }
        if let Some(written) = &fixed.written {
            written.tell("repair");
        }
    }
}

impl Verdict {
    fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Whose rules count: the one asked for, the one that the session shows, or all.
fn dialects(opened: &Opened, arguments: &Check) -> Vec<Dialect> {
    match arguments.dialect.or(opened.session.dialect()) {
        Some(dialect) => vec![dialect],
        None => Dialect::ALL.to_vec(),
    }
}

fn verdicts(conversations: &[Conversation], dialects: &[Dialect], from: Extent) -> Vec<Verdict> {
    dialects.iter().map(|&dialect| verdict(conversations, dialect, from)).collect()
}

fn verdict(conversations: &[Conversation], dialect: Dialect, from: Extent) -> Verdict {
    let mut verdict = Verdict { dialect: dialect.as_str(), violations: Vec::new(), waiting_calls: 0 };
    for conversation in conversations {
        let scene = Scene::estimated(conversation, Some(dialect));
        let view = scene.view(from);
        let violations = check(view.items(), Some(dialect));
        if view.pending_calls().next().is_some() {
            let unanswered = violations.iter().filter(|violation| violation.rule == Rule::UnansweredCall);
            verdict.waiting_calls += unanswered_calls(view.items(), Some(dialect)) - unanswered.count();
        }
        verdict.violations.extend(violations.into_iter().map(|violation| Found {
            conversation: conversation.name().map(ToOwned::to_owned),
            line: view.get(violation.item_index).and_then(|entry| scene.line(entry.anchor())),
            violation,
        }));
    }
    verdict
}

/// Writes the session repaired for all these dialects; what was done, what is left, and where it went.
fn fix(opened: &Opened, arguments: &Check, destination: &Destination) -> Result<Fixed, Failure> {
    let session = &opened.session;
    let dialects = dialects(opened, arguments);
    let mut repairs = Vec::new();
    let mut committed: Vec<Option<Committed<'_>>> = Vec::new();
    for conversation in session.own_conversations() {
        let scene = Scene::estimated(conversation, dialects.first().copied());
        let view = scene.view(arguments.from);
        let places = Places::new(&opened.path, conversation, &view);
        let (mended, done) = mend_for_all(&view, &dialects, &places);
        let is_repaired = !done.is_empty();
        repairs.extend(done.into_iter().map(|repair| Mended {
            conversation: conversation.name().map(ToOwned::to_owned),
            line: places.line(repair.item_index),
            repair,
        }));
        let keeps = arguments.from.keeps(conversation);
        committed.push(is_repaired.then(|| session.committed(conversation, &mended, keeps)));
    }
    let whole = opened.whole()?;
    let written = match (session.own_conversations(), &committed[..]) {
        _ if repairs.is_empty() => None,
        ([_], [Some(committed)]) => Some(whole.compacted(committed)),
        (conversations, _) => {
            let committed = committed.iter().map(Option::as_ref);
            Some(session.compacted_native(&conversations.iter().zip(committed).collect::<Vec<_>>()))
        }
    };
    let left = match &written {
        Some(written) => verdicts(read_again(opened, written)?.own_conversations(), &dialects, Extent::View),
        None => verdicts(session.own_conversations(), &dialects, arguments.from),
    };
    let place = destination.write(opened, written.as_ref(), None)?;
    let report = |place: OutputPlace| {
        WrittenReport::new(Some(&place), opened, written.as_ref(), Vec::new(), Fresh::WhereNeeded)
    };
    Ok(Fixed { repairs, left, written: place.map(report) })
}

/// The view repaired for one dialect after the other, as one step, and what was done at which place.
fn mend_for_all(view: &View, dialects: &[Dialect], places: &Places<'_>) -> (View, Vec<Repair>) {
    let known = view.overlay().blocks().len();
    let (mut mended, mut repairs) = (view.clone(), Vec::new());
    for _ in 0..MEND_PASS_COUNT_MAX {
        let repair_count = repairs.len();
        for &dialect in dialects {
            let next = mend_above(&mended, known, Some(dialect));
            repairs.extend(places.repairs(&next.view, &next.repairs));
            mended = next.view;
        }
        if repairs.len() == repair_count {
            break;
        }
    }
    (mended, repairs)
}

/// The session as it will be read from the file: a format may hold less than was repaired.
fn read_again(opened: &Opened, written: &Written<'_>) -> Result<SessionFile, Failure> {
    let (WrittenAs::Appended(format) | WrittenAs::Fresh(format)) = written.written_as;
    let failed = |error| Failure::Format { path: opened.path.clone(), error };
    SessionFile::read_as(format, written.to_bytes()).map_err(failed)
}
