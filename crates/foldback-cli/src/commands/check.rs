//! `foldback check`: what a provider would reject, with line and item; `--fix` repairs it.

use foldback_core::{Dialect, Repair, Violation, check};
use foldback_engine::mend;
use foldback_formats::{Committed, Conversation};
use serde::Serialize;

use crate::args::{Check, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::output::{self, Destination, OutputPlace};
use crate::places::Places;
use crate::scene::Scene;
use crate::terminal::{GREEN, RED, STRONG, counted, say, styled};
use crate::written::{Fresh, WrittenReport};

pub(crate) fn run(shared: &Shared, arguments: &Check) -> Result<Exit, Failure> {
    let is_single = input::is_single(&arguments.inputs);
    let destination = match arguments.fix {
        true => Destination::of(shared, arguments.output.as_deref(), arguments.in_place, is_single)?,
        false => Destination::Nowhere,
    };
    input::for_each(shared, &arguments.inputs, |opened| {
        let report = CheckReport::new(opened, arguments);
        let report = match arguments.fix {
            true => {
                let (repairs, written) = fix(opened, arguments, &destination)?;
                CheckReport { repairs: Some(repairs), written, ..report }
            }
            false => report,
        };
        match shared.json {
            true => output::print_json(&report)?,
            false if arguments.fix && shared.quiet => {}
            false if arguments.fix => report.tell_repairs(),
            false => output::print(&report.text())?,
        }
        Ok(if report.is_valid() || arguments.fix { Exit::Success } else { Exit::Negative })
    })
}

#[derive(Serialize)]
struct CheckReport {
    file: String,
    format: &'static str,
    valid: bool,
    checks: Vec<Verdict>,
    /// What was repaired, at the places that the violations name.
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<Vec<Mended>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<WrittenReport>,
}

/// What one dialect says.
#[derive(Serialize)]
struct Verdict {
    dialect: &'static str,
    violations: Vec<Found>,
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
        let dialects = match arguments.dialect.or(session.dialect()) {
            Some(dialect) => vec![dialect],
            None => Dialect::ALL.to_vec(),
        };
        let verdict = |dialect: Dialect| Verdict {
            dialect: dialect.as_str(),
            violations: session
                .own_conversations()
                .iter()
                .flat_map(|conversation| violations(conversation, arguments, dialect))
                .collect(),
        };
        let checks: Vec<Verdict> = dialects.into_iter().map(verdict).collect();
        let valid = checks.iter().all(|verdict| verdict.violations.is_empty());
        Self {
            file: opened.path.display().to_string(),
            format: session.format().as_str(),
            valid,
            checks,
            repairs: None,
            written: None,
        }
    }

    fn is_valid(&self) -> bool {
        self.valid
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for verdict in &self.checks {
            let told = match verdict.violations.len() {
                0 => styled(GREEN, "valid"),
                count => styled(RED, counted(count, "violation")),
            };
            let heading = format!("{} ({})", styled(STRONG, &self.file), self.format);
            text.push_str(&format!("{heading} for {}: {told}\n", verdict.dialect));
            for found in &verdict.violations {
                let line = found.line.map_or_else(String::new, |line| format!(":{line}"));
                text.push_str(&format!("{}{line}: {}\n", self.file, found.violation));
            }
        }
        text
    }

    fn tell_repairs(&self) {
        let repairs = self.repairs.as_deref().unwrap_or_default();
        let told = match repairs.len() {
            0 => "nothing to repair".to_owned(),
            count => counted(count, "repair"),
        };
        say(&format!("{}: {told}", styled(STRONG, &self.file)));
        for mended in repairs {
            let line = mended.line.map_or_else(String::new, |line| format!(":{line}"));
            say(&format!("{}{line}: {}", self.file, mended.repair));
        }
        if let Some(written) = &self.written {
            written.tell("repair");
        }
    }
}

fn violations(conversation: &Conversation, arguments: &Check, dialect: Dialect) -> Vec<Found> {
    let scene = Scene::estimated(conversation, Some(dialect));
    let view = scene.view(arguments.from);
    let found = check(view.items(), Some(dialect)).into_iter().map(|violation| Found {
        conversation: conversation.name().map(ToOwned::to_owned),
        line: view.get(violation.item_index).and_then(|entry| scene.line(entry.anchor())),
        violation,
    });
    found.collect()
}

/// Writes the repaired session; what was done, and where it went.
fn fix(
    opened: &Opened,
    arguments: &Check,
    destination: &Destination,
) -> Result<(Vec<Mended>, Option<WrittenReport>), Failure> {
    let session = &opened.session;
    let dialect = arguments.dialect.or(session.dialect());
    let mut repairs = Vec::new();
    let mut committed: Vec<Option<Committed<'_>>> = Vec::new();
    for conversation in session.own_conversations() {
        let scene = Scene::estimated(conversation, dialect);
        let view = scene.view(arguments.from);
        let mended = mend(&view, dialect);
        let places = Places::new(&opened.path, conversation, &view);
        repairs.extend(places.repairs(&mended.view, &mended.repairs).into_iter().map(|repair| Mended {
            conversation: conversation.name().map(ToOwned::to_owned),
            line: places.line(repair.item_index),
            repair,
        }));
        let is_repaired = !mended.repairs.is_empty();
        let keeps = arguments.from.keeps(conversation);
        committed.push(is_repaired.then(|| session.committed(conversation, &mended.view, keeps)));
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
    let place = destination.write(opened, written.as_ref(), None)?;
    let report = |place: OutputPlace| {
        WrittenReport::new(&place, opened, written.as_ref(), Vec::new(), Fresh::WhereNeeded)
    };
    Ok((repairs, place.map(report)))
}
