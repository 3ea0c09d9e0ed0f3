//! Folds a recorded session and shows what became of it.
//!
//! `cargo run -p foldback --example fold [-- [target-tokens] [session.jsonl]]`
//!
//! Without arguments it takes the session beside this file: a coding agent's, ending in the middle
//! of a tool loop.
#![allow(clippy::print_stderr, reason = "a program on a command line reports its errors there")]

use std::error::Error;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use foldback::formats::{Conversation, Format, SessionFile};
use foldback::{
    Budget, BudgetTrigger, Calibration, CompactionBlock, Dialect, Edit, Fate, Handle, Item, LadderStrategy,
    MutationPoint, Part, Recalled, Sequence, TokenCounter, Tokens, Transcript, Trigger, TriggerContext, View,
    check_request, plan,
};

const SESSION: &[u8] = include_bytes!("session.jsonl");
/// The window of a small model; a larger target than fits into it asks for a larger window.
const WINDOW: Tokens = Tokens(16_000);
const ANSWER: Tokens = Tokens(2_000);
const TRIGGER: Tokens = Tokens(11_900);
const TARGET: Tokens = Tokens(4_000);

fn main() -> ExitCode {
    let (mut target, mut path) = (None, None);
    for argument in std::env::args().skip(1) {
        match argument.parse() {
            Ok(tokens) if target.is_none() => target = Some(Tokens(tokens)),
            Err(_) if path.is_none() && !argument.starts_with('-') => path = Some(argument),
            _ => {
                eprintln!("error: {argument} is one argument too many or an option, and there are none");
                eprintln!("usage: cargo run -p foldback --example fold [-- [target-tokens] [session.jsonl]]");
                return ExitCode::from(2);
            }
        }
    }
    let is_closed = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
    match fold(&mut io::stdout(), target.unwrap_or(TARGET), path.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads along has seen enough.
        Err(error) if error.downcast_ref().is_some_and(is_closed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn fold(out: &mut dyn Write, target: Tokens, path: Option<&str>) -> Result<(), Box<dyn Error>> {
    // Read: native JSONL, one item per line.
    let bytes = match path {
        Some(path) => std::fs::read(path).map_err(|error| format!("{path}: {error}"))?,
        None => SESSION.to_vec(),
    };
    let name = path.unwrap_or("session.jsonl");
    let session = SessionFile::read_as(Format::Native, bytes)
        .map_err(|error| format!("{name}: {error}\nhint: {}", error.hint()))?;
    if let Some(problem) = session.problems().first() {
        return Err(format!("{name}: {problem}\nhint: {}", problem.fault.hint()).into());
    }
    let recorded = session.conversations().iter().flat_map(Conversation::recorded);
    let items: Vec<Arc<Item>> = recorded.map(|recorded| Arc::clone(&recorded.item)).collect();

    // Record: every item is counted once, when it is pushed.
    let counter = counter();
    let mut transcript = Transcript::new(Arc::clone(&counter));
    transcript.extend(items.iter().cloned());
    let estimated: Transcript = items.iter().cloned().collect();
    heading(out, &format!("{name}: {} items in {} turns", transcript.len(), transcript.turn_count()))?;
    let (tokens, by) = (transcript.tokens(), counter.name());
    writeln!(out, "{tokens} tokens by {by}, {} by estimate", estimated.tokens())?;

    // Decide: does it still fit? Triggers look at the upper bound of what was counted.
    let calibration = Calibration::new(counter.precision());
    let window = WINDOW.max(target + ANSWER);
    let budget =
        Budget::builder(window).output_reserve(ANSWER).trigger(TRIGGER.max(target)).target(target).build()?;
    let context = TriggerContext::new(&transcript, MutationPoint::AfterToolResult)
        .with_tokens(calibration.bounds(tokens));
    let Some(reason) = BudgetTrigger::new(&budget).fires(&context) else {
        return Ok(writeln!(out, "it is below the trigger at {}: nothing to do", budget.trigger())?);
    };
    writeln!(out, "trigger: {reason}, the target is {}", budget.target())?;

    // Plan: pure; this is where a dry run stops.
    let before = View::of(&transcript);
    let plan = plan(&before, &LadderStrategy::new(), Some(&budget.calibrated(&calibration)))?;

    // Apply: floor summaries need no model.
    let compacted = plan.apply_floor();
    let after = &compacted.view;
    heading(out, &format!("{}: {} → {} tokens", plan.strategy(), before.tokens(), after.tokens()))?;
    show_timeline(out, &transcript, after)?;
    let first_changed = plan.first_changed().map_or("none".to_owned(), |position| position.to_string());
    let prefix = plan.prefix_tokens_kept();
    writeln!(out, "\nfirst changed position: {first_changed}; prefix kept: {prefix} tokens")?;

    heading(out, "would the provider accept it?")?;
    for dialect in Dialect::ALL {
        let (name, was, is) = (dialect.as_str(), verdict(&before, dialect), verdict(after, dialect));
        writeln!(out, "{name:<17} {was} → {is}")?;
    }

    heading(out, "what the model sees now")?;
    show_lines(out, &after.shape())?;
    show_summary_and_recall(out, &compacted.block, after)?;

    // Undo: what was seen before the newest compaction.
    let (restored, _) = after.undo().ok_or("there is nothing to undo, which is a bug")?;
    if !restored.items().eq(&items) {
        return Err("undo did not give back what was read, which is a bug".into());
    }
    heading(out, "undo")?;
    let (items, tokens) = (restored.len(), restored.tokens());
    Ok(writeln!(out, "{items} items, {tokens} tokens: exactly what was read")?)
}

#[cfg(feature = "tokens")]
fn counter() -> Arc<dyn TokenCounter> {
    Arc::new(foldback::counters::BpeCounter::o200k())
}

#[cfg(not(feature = "tokens"))]
fn counter() -> Arc<dyn TokenCounter> {
    Arc::new(foldback::EstimatingCounter)
}

const MARKS: [(&str, &str, u8); 4] =
    [("·", "kept", GREEN), ("~", "rewritten", YELLOW), ("S", "folded", BLUE), ("-", "dropped", RED)];

/// One row per turn, one character per recorded item.
fn show_timeline(out: &mut dyn Write, transcript: &Transcript, view: &View) -> io::Result<()> {
    let mark_of = |fate: Fate<'_>| match fate {
        Fate::Visible => 0,
        Fate::Rewritten => 1,
        Fate::Folded(_) => 2,
        Fate::Dropped(_) => 3,
    };
    let marks: Vec<usize> = view.fates().into_iter().map(mark_of).collect();
    let legend = MARKS.iter().enumerate().map(|(index, (mark, name, _))| {
        format!("{mark} {name} {}", marks.iter().filter(|&&mark| mark == index).count())
    });
    writeln!(out, "{}\n", legend.collect::<Vec<_>>().join("   "))?;
    let later_starts = || transcript.turn_starts().filter(|&start| start > 0);
    for (start, end) in [0].into_iter().chain(later_starts()).zip(later_starts().chain([transcript.len()])) {
        let row = marks[start..end].iter().map(|&mark| paint(MARKS[mark].0, MARKS[mark].2));
        writeln!(out, "{start:>4}  {}", row.collect::<String>())?;
    }
    Ok(())
}

fn verdict(sequence: &Sequence, dialect: Dialect) -> String {
    match check_request(sequence.items(), Some(dialect)).as_slice() {
        [] => paint("valid", GREEN),
        [first, ..] => paint(&first.to_string(), RED),
    }
}

/// The floor summary names every unit it stands for, and every placeholder names what it hides;
/// each of these names can be recalled.
fn show_summary_and_recall(out: &mut dyn Write, block: &CompactionBlock, view: &View) -> io::Result<()> {
    let texts = block.summaries.iter().flatten().flat_map(|item| &item.parts).filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let summary = texts.collect::<Vec<_>>().join("\n");
    if !summary.is_empty() {
        heading(out, "the summary that stands for what was folded")?;
        show_lines(out, &summary)?;
    }
    let in_summary = summary.lines().filter_map(|line| Handle::parse(line.get(..11)?));
    let in_placeholders = block.edits.iter().filter_map(|edit| match edit {
        Edit::Rewrite(rewrite) => Some(rewrite.handle.clone()),
        Edit::Drop(_) | Edit::Fold(_) => None,
    });
    let Some(handle) = in_summary.chain(in_placeholders).nth(1) else { return Ok(()) };
    heading(out, &format!("recall {handle}"))?;
    let recalled = match view.recall(&handle) {
        Some(Recalled::Items(items)) => items.into_iter().collect::<Transcript>().shape(),
        Some(Recalled::Part(Part::ToolResult(result))) => {
            result.content.iter().filter_map(|part| part.as_text()).collect()
        }
        Some(Recalled::Part(part)) => format!("a {} part", part.kind_name()),
        None => "nothing has this name".to_owned(),
    };
    show_lines(out, &recalled)
}

const LINES_MAX: usize = 8;
const COLUMNS_MAX: usize = 100;

fn show_lines(out: &mut dyn Write, text: &str) -> io::Result<()> {
    for line in text.lines().take(LINES_MAX) {
        writeln!(out, "{}", line.chars().take(COLUMNS_MAX).collect::<String>())?;
    }
    match text.lines().count().saturating_sub(LINES_MAX) {
        0 => Ok(()),
        hidden => writeln!(out, "… and {hidden} more lines"),
    }
}

const BOLD: u8 = 1;
const RED: u8 = 31;
const GREEN: u8 = 32;
const YELLOW: u8 = 33;
const BLUE: u8 = 34;

/// Colour on a terminal, plain text everywhere else.
fn paint(text: &str, code: u8) -> String {
    let is_plain = !io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    if is_plain { text.to_owned() } else { format!("\x1b[{code}m{text}\x1b[0m") }
}

fn heading(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{}", paint(text, BOLD))
}
