//! `foldback check`: what a provider would reject, with line and item; `--fix` repairs it.

use foldback_core::{Dialect, Violation, check};
use foldback_engine::mend;
use foldback_formats::Conversation;
use serde::Serialize;

use crate::args::{Check, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::output::{self, Destination};
use crate::scene::{Scene, as_recorded};
use crate::terminal::{GREEN, RED, STRONG, say, styled};

pub(crate) fn run(shared: &Shared, arguments: &Check) -> Result<Exit, Failure> {
    let is_single = input::is_single(&arguments.inputs);
    let destination = match arguments.fix {
        true => Destination::of(shared, arguments.output.as_deref(), arguments.in_place, is_single)?,
        false => Destination::Nowhere,
    };
    input::for_each(shared, &arguments.inputs, |opened| {
        let report = Report::new(opened, arguments);
        let repairs = match arguments.fix {
            true => fix(opened, arguments, &destination)?,
            false => Vec::new(),
        };
        let report = Report { repairs, ..report };
        match shared.json {
            true => output::print_json(&report)?,
            false if arguments.fix && shared.quiet => {}
            false if arguments.fix => report.tell_repairs(),
            false => output::print(&report.text())?,
        }
        Ok(if report.is_valid() || arguments.fix { Exit::Success } else { Exit::Found })
    })
}

#[derive(Serialize)]
struct Report {
    file: String,
    format: &'static str,
    valid: bool,
    checks: Vec<Verdict>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repairs: Vec<String>,
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

impl Report {
    fn new(opened: &Opened, arguments: &Check) -> Self {
        let session = &opened.session;
        let dialects = match arguments.dialect.or(session.dialect()) {
            Some(dialect) => vec![dialect],
            None => Dialect::ALL.to_vec(),
        };
        // Conversations of sub-agents begin in the middle; they are files of their own where they count.
        let own_count = if session.format().holds_many() { usize::MAX } else { 1 };
        let verdict = |dialect: Dialect| Verdict {
            dialect: dialect.as_str(),
            violations: session
                .conversations()
                .iter()
                .take(own_count)
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
            repairs: Vec::new(),
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
                1 => styled(RED, "1 violation"),
                count => styled(RED, format!("{count} violations")),
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
        let count = self.repairs.len();
        say(&format!("{}: {count} repair{}", styled(STRONG, &self.file), if count == 1 { "" } else { "s" }));
        self.repairs.iter().for_each(|repair| say(&format!("  {repair}")));
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

/// Writes the repaired session; what was done.
fn fix(opened: &Opened, arguments: &Check, destination: &Destination) -> Result<Vec<String>, Failure> {
    let session = &opened.session;
    let Some(conversation) = session.conversations().first() else {
        destination.write(opened, None)?;
        return Ok(Vec::new());
    };
    let dialect = arguments.dialect.or(session.dialect());
    let scene = Scene::estimated(conversation, dialect);
    let mended = mend(&scene.view(arguments.from), dialect);
    let items = session.arrange(as_recorded(&mended.view, conversation));
    let written = (!mended.repairs.is_empty()).then(|| session.compacted(conversation, &items));
    destination.write(opened, written.as_ref())?;
    Ok(mended.repairs.iter().map(ToString::to_string).collect())
}
