//! `foldback explain`: what a compaction does to every item, why, and what is lost.

mod facts;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use foldback_core::secrets::first_line;
use foldback_core::view::Fate;
use foldback_core::{CompactionReason, Edit, Entry, Ledger, Part, Tokens, Transcript, View};
use foldback_engine::{Execution, compact};
use foldback_formats::Conversation;
use serde::Serialize;

use self::facts::Facts;
use crate::args::lab::Explain;
use crate::args::{Extent, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::lab::model;
use crate::lab::runs::{Fate as Names, by_kind};
use crate::places::Places;
use crate::plain;
use crate::provider::ProviderCounts;
use crate::scene::Scene;
use crate::staying::Staying;
use crate::terminal::{BLUE, FAINT, GREEN, RED, STRONG, YELLOW, number, styled};
use crate::{counting, output, policy, stats};

/// Reasons that are told for one item; the rest say the same of other parts.
const REASONS_MAX: usize = 3;

pub(crate) fn run(shared: &Shared, arguments: &Explain) -> Result<Exit, Failure> {
    let opened = input::look_at(shared, arguments.paths.first().map_or(Path::new("-"), PathBuf::as_path))?;
    let counter = counting::counter(shared);
    let Some(conversation) = opened.session.conversations().first() else {
        return Err(Failure::NoSessions { path: opened.path });
    };
    let scene = Scene::counted(conversation, &counter, opened.session.dialect());
    let change = match arguments.made {
        Some(number) => recorded(conversation, &scene.transcript, number)?,
        None => planned(shared, arguments, &opened, &scene)?,
    };
    let report = ExplainReport::new(&opened, conversation, &change);
    match shared.json {
        true => output::print_json(&report)?,
        false => output::print(&report.text())?,
    }
    Ok(Exit::Success)
}

/// A view before and after a compaction.
struct Change {
    by: String,
    before: View,
    after: View,
    repairs: Vec<String>,
}

/// The compaction that foldback would make.
fn planned(
    shared: &Shared,
    arguments: &Explain,
    opened: &Opened,
    scene: &Scene<'_>,
) -> Result<Change, Failure> {
    let policy = arguments.aim.policy()?;
    let model = model(shared, opened);
    let dialect = arguments.ways.dialect.or(opened.session.dialect()).or(model.dialect());
    let staying = Staying::new(&arguments.ways)?;
    let name = opened.path.display().to_string();
    let before = pinned(&staying, &name, arguments.ways.from.unwrap_or_default(), scene)?;
    let provider = ProviderCounts::of(shared, scene.conversation, &scene.transcript);
    let aimed = arguments.aim.budget(&policy, &model, before.tokens(), &provider)?;
    if !shared.quiet {
        model.tell(dialect, aimed.window.as_ref());
    }
    let execution = Execution {
        focus: arguments.ways.focus.as_deref().map(Into::into),
        keep: staying.lines().cloned(),
        ..Execution::new(before.clone(), policy.strategy())
            .with_budget(aimed.budget)
            .with_dialect(dialect)
            .caused_by(CompactionReason::Manual)
    };
    let outcome = compact(execution).map_err(|error| {
        let error = provider.in_error(error);
        let items = Places::new(&opened.path, scene.conversation, &before).to_blame(&error);
        Failure::Compaction { path: opened.path.clone(), error: Box::new(error), items }
    })?;
    let by = match policy::aims(&policy) {
        true => {
            let (target, counted) = (number(aimed.target_tokens.0), number(aimed.budget.target().0));
            let strategy = plain::by(&outcome.strategy);
            match provider.report() {
                Some(how) => format!(
                    "compacted by {strategy} towards {target} tokens by the provider's count, {counted} as \
                     counted here: {how}"
                ),
                None => format!("compacted by {strategy} towards {target} tokens"),
            }
        }
        false => format!("compacted by {}", plain::by(&outcome.strategy)),
    };
    if !shared.quiet {
        let kept = staying.fates(&outcome.view);
        staying.tell_unmatched(&name, kept.as_ref());
    }
    let repairs = outcome.repairs.iter().map(ToString::to_string).collect();
    Ok(Change { by, before, after: outcome.view, repairs })
}

/// What is compacted, with pins on what is to stay as it is.
fn pinned(staying: &Staying, name: &str, from: Extent, scene: &Scene<'_>) -> Result<View, Failure> {
    let view = scene.view(from);
    staying.check(name, view.len(), "foldback show --shape")?;
    match staying.pins() {
        true => Ok(scene.pinned(&view, from, |position, item| staying.is_pinned(position, item))),
        false => Ok(view),
    }
}

/// A compaction that the file records, counted from 1.
fn recorded(conversation: &Conversation, transcript: &Transcript, number: usize) -> Result<Change, Failure> {
    let step = number.checked_sub(1).and_then(|index| conversation.steps().get(index));
    let Some(step) = step else {
        let what = format!("there is no compaction {number} in this session");
        let hint = match conversation.steps().len() {
            0 => "it records none; without --made, the one that foldback would make is explained".to_owned(),
            count => format!("it records {count}"),
        };
        return Err(Failure::usage(what, hint));
    };
    let before = conversation.view_after(number - 1, &transcript.first(step.item_count_before()));
    let after = conversation.view_after(number, &transcript.first(step.item_count()));
    let by = format!("compacted by {} (line {})", plain::by(&stats::by(step)), step.place.line);
    Ok(Change { by, before, after, repairs: Vec::new() })
}

/// What happened, for scripts.
#[derive(Serialize)]
struct ExplainReport {
    file: String,
    by: String,
    tokens_before: u64,
    tokens_after: u64,
    /// Every item of the view before.
    items: Vec<Explained>,
    /// The summaries that were put in.
    summaries: Vec<Summary>,
    /// Names that the view told before, by kind.
    names: BTreeMap<&'static str, Names>,
    /// Those that it no longer tells.
    facts: Facts,
    repairs: Vec<String>,
}

#[derive(Serialize)]
struct Summary {
    tokens: u64,
    first_line: String,
    /// How many items it stands for.
    items: Option<u32>,
}

#[derive(Serialize)]
struct Explained {
    position: usize,
    id: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    tokens_before: u64,
    tokens_after: u64,
    what: What,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    why: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Kept,
    Shortened,
    Folded,
    Dropped,
}

impl ExplainReport {
    fn new(opened: &Opened, conversation: &Conversation, change: &Change) -> Self {
        let (before, after) = (&change.before, &change.after);
        let ledger = Ledger::of(after.transcript());
        let account = ledger.account(before, after);
        let reasons = Reasons::of(after, before.overlay().blocks().len());
        let fates = after.fates();
        let shown: BTreeMap<usize, Tokens> =
            after.iter().map(|entry| (entry.anchor(), entry.tokens().total)).collect();
        let explained = before.iter().enumerate().map(|(position, entry)| {
            let index = entry.anchor();
            let (what, handle) = match fates.get(index) {
                _ if reasons.of_item(index).is_empty() => (What::Kept, None),
                Some(Fate::Dropped(_)) => (What::Dropped, None),
                Some(Fate::Folded(handle)) => (What::Folded, Some(handle.to_string())),
                Some(Fate::Rewritten | Fate::Visible) | None => (What::Shortened, None),
            };
            let tokens_after = match what {
                What::Kept => entry.tokens().total,
                What::Shortened => shown.get(&index).copied().unwrap_or_default(),
                What::Folded | What::Dropped => Tokens::ZERO,
            };
            Explained {
                position,
                id: entry.item().id.to_string(),
                kind: entry.kind().as_str(),
                tool: tool(entry),
                tokens_before: entry.tokens().total.0,
                tokens_after: tokens_after.0,
                what,
                handle,
                why: reasons.of_item(index).to_vec(),
            }
        });
        Self {
            file: opened.path.display().to_string(),
            by: change.by.clone(),
            tokens_before: before.tokens().0,
            tokens_after: after.tokens().0,
            items: explained.collect(),
            summaries: after.iter().filter_map(Summary::of).collect(),
            names: by_kind(&account.by_kind, Names::new),
            facts: Facts::new(&account, before, conversation),
            repairs: change.repairs.clone(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let (before, after) = (number(self.tokens_before), number(self.tokens_after));
        let _ = writeln!(text, "{} {}", styled(STRONG, &self.file), self.by);
        if self.items.iter().all(|item| item.what == What::Kept) && self.repairs.is_empty() {
            let _ = writeln!(text, "nothing to explain: {before} tokens, and nothing changes");
            return text;
        }
        let _ = writeln!(text, "{before} → {after} tokens\n");
        self.repairs.iter().for_each(|repair| {
            let _ = writeln!(text, "  repaired first: {repair}");
        });
        let is_alike = |one: &Explained, other: &Explained| one.what == other.what && one.why == other.why;
        for run in self.items.chunk_by(is_alike) {
            write_run(&mut text, run);
        }
        for summary in &self.summaries {
            let items = summary.items.map_or_else(String::new, |count| format!(" for {count} items"));
            let _ = writeln!(
                text,
                "\n{}{items}, {} tokens: {}",
                styled(STRONG, "summary"),
                number(summary.tokens),
                summary.first_line
            );
        }
        self.write_names(&mut text);
        self.facts.write(&mut text, &self.names);
        text
    }

    /// The loss ledger.
    fn write_names(&self, text: &mut String) {
        if self.names.is_empty() {
            return;
        }
        let heading = "names and numbers that were told    still  recoverable   gone";
        let _ = writeln!(text, "\n{}", styled(STRONG, heading));
        for (kind, names) in &self.names {
            let Names { kept, recoverable, lost } = *names;
            let _ = writeln!(text, "  {kind:<32} {kept:>5}  {recoverable:>11}  {lost:>5}");
        }
        let _ =
            writeln!(text, "  recoverable: no longer told; `foldback recall HANDLE FILE` shows the original");
    }
}

/// Items in a row to which the same happened, for the same reasons.
fn write_run(text: &mut String, run: &[Explained]) {
    let [first, .., last] = run else {
        run.iter().for_each(|one| write_items(text, &one.position.to_string(), one, &[one]));
        return;
    };
    let all: Vec<&Explained> = run.iter().collect();
    write_items(text, &format!("{}-{}", first.position, last.position), first, &all);
}

fn write_items(text: &mut String, positions: &str, first: &Explained, all: &[&Explained]) {
    let (style, word) = match first.what {
        What::Kept => (GREEN, "kept"),
        What::Shortened => (YELLOW, "shortened"),
        What::Folded => (BLUE, "folded"),
        What::Dropped => (RED, "dropped"),
    };
    let before: u64 = all.iter().map(|item| item.tokens_before).sum();
    let after: u64 = all.iter().map(|item| item.tokens_after).sum();
    let who = match all {
        [one] => one.tool.clone().unwrap_or_else(|| one.kind.to_owned()),
        _ => format!("{} items", all.len()),
    };
    let tokens = match before == after {
        true => number(before),
        false => format!("{} → {}", number(before), number(after)),
    };
    let handle = first.handle.as_deref().map_or_else(String::new, |handle| format!(" {handle}"));
    let _ = writeln!(
        text,
        "  {positions:>11}  {who:<16} {tokens:>18}  {}{handle}  {}",
        styled(style, format!("{word:<9}")),
        styled(FAINT, first.why.join("; "))
    );
}

/// The tool that an item calls.
fn tool(entry: &Entry) -> Option<String> {
    entry.item().parts.iter().find_map(|part| match part {
        Part::ToolCall(call) => Some(call.name.to_string()),
        Part::Text(_)
        | Part::Reasoning(_)
        | Part::ToolResult(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Structured(_)
        | Part::Opaque(_) => None,
    })
}

impl Summary {
    fn of(entry: &Entry) -> Option<Self> {
        let origin = entry.item().summary.as_ref()?;
        let text = entry.item().parts.iter().find_map(|part| match part {
            Part::Text(text) => Some(first_line(text)).filter(|line| !line.is_empty()),
            _ => None,
        });
        Some(Self {
            tokens: entry.tokens().total.0,
            first_line: text.unwrap_or_default().into_owned(),
            items: Some(origin.item_count),
        })
    }
}

/// Why items changed, by their index.
struct Reasons {
    by_index: BTreeMap<usize, Vec<String>>,
}

impl Reasons {
    /// The reasons in the blocks of a view after its first ones.
    fn of(view: &View, blocks_before: usize) -> Self {
        let mut by_index: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        let new = view.overlay().blocks().iter().skip(blocks_before);
        for edit in new.flat_map(|block| &block.edits) {
            let why = edit.reason().to_string();
            let mut add = |index: usize| {
                let reasons = by_index.entry(index).or_default();
                if reasons.len() < REASONS_MAX && !reasons.contains(&why) {
                    reasons.push(why.clone());
                }
            };
            match edit {
                Edit::Drop(drop) => drop.range.clone().for_each(&mut add),
                Edit::Rewrite(rewrite) => add(rewrite.item_index),
                Edit::Fold(fold) => fold.folded().flatten().for_each(&mut add),
            }
        }
        Self { by_index }
    }

    fn of_item(&self, index: usize) -> &[String] {
        self.by_index.get(&index).map_or(&[], Vec::as_slice)
    }
}
