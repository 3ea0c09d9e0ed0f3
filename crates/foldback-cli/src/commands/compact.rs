//! `foldback compact`: brings sessions under a budget.

use std::sync::Arc;

use foldback_core::{
    Budget, BudgetError, Dialect, Item, LadderStrategy, Level, Model, Plan, Repair, Strategy, TokenCounter,
    Tokens, View, check,
};
use foldback_engine::{CompactionError, Execution, compact, dry_run};
use foldback_formats::{Conversation, Format, Session, Written, WrittenAs, write};
use regex::RegexSet;
use serde::Serialize;

use crate::args::{Compact, From, PolicyName, Shared};
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::output::{Destination, Place};
use crate::scene::{as_recorded, recorded, seen};
use crate::terminal::{number, say, styled};
use crate::{counting, output, picture, terminal};

/// The window where neither the command line nor the session says which model it is.
const WINDOW_DEFAULT: Tokens = Tokens(200_000);

/// Losses and repairs that are told one by one; the rest are counted.
const TOLD_MAX: usize = 5;

pub(crate) fn run(shared: &Shared, arguments: &Compact) -> Result<Exit, Failure> {
    input::look(&arguments.inputs)?;
    let is_single = input::is_single(&arguments.inputs);
    let destination = match arguments.dry_run {
        true => Destination::Nowhere,
        false => Destination::of(shared, arguments.output.as_deref(), arguments.in_place, is_single)?,
    };
    let keep = RegexSet::new(&arguments.keep)
        .map_err(|error| Failure::usage(format!("--keep: {error}"), "give a regular expression"))?;
    let counter = counting::counter(shared);
    if !shared.quiet {
        tell_what_is_ignored(shared, arguments);
    }
    input::for_each(shared, &arguments.inputs, |opened| {
        let job = Job { shared, arguments, counter: &counter, keep: &keep, opened };
        let done = job.run()?;
        let written = done.write(&job, &destination)?;
        let report = done.report(&job, written);
        match shared.json {
            true => output::print_json(&report)?,
            false if shared.quiet => {}
            false => tell(&done, &report),
        }
        Ok(Exit::Success)
    })
}

/// One session to compact.
struct Job<'a> {
    shared: &'a Shared,
    arguments: &'a Compact,
    counter: &'a Arc<dyn TokenCounter>,
    keep: &'a RegexSet,
    opened: &'a Opened,
}

/// One conversation of it, compacted.
struct Folded {
    conversation_index: usize,
    before: View,
    plan: Plan,
    /// The view it led to; none for a dry run.
    after: Option<View>,
    /// What the model sees now, in the order in which the session's format can show it.
    items: Vec<Arc<Item>>,
    repairs: Vec<Repair>,
}

impl Folded {
    fn is_unchanged(&self) -> bool {
        self.plan.is_empty() && self.repairs.is_empty()
    }
}

struct Done {
    folded: Vec<Folded>,
    budget: Budget,
    dialect: Option<Dialect>,
}

impl<'a> Job<'a> {
    fn session(&self) -> &'a Session {
        &self.opened.session
    }

    fn run(&self) -> Result<Done, Failure> {
        let session = self.session();
        let budget = self.budget().map_err(|error| self.no_budget(error))?;
        let named = self.shared.model.as_deref().and_then(Model::named).map(|model| model.dialect);
        let dialect = self.arguments.dialect.or(session.dialect()).or(named);
        let count = if session.format().holds_many() { usize::MAX } else { 1 };
        let conversations = session.conversations().iter().enumerate().take(count);
        let folded = conversations
            .map(|(index, conversation)| self.fold(index, conversation, &budget, dialect))
            .collect::<Result<_, _>>()?;
        Ok(Done { folded, budget, dialect })
    }

    fn budget(&self) -> Result<Budget, BudgetError> {
        if let (None, Some(Level::Tokens(target))) = (self.arguments.window, self.arguments.target) {
            return Budget::for_target(target);
        }
        let model = self.shared.model.as_deref().or(self.session().model()).and_then(Model::named);
        let window = self.arguments.window.or(model.map(|model| model.window)).unwrap_or(WINDOW_DEFAULT);
        let builder = Budget::builder(window);
        match self.arguments.target {
            Some(target) => builder.trigger(Level::PercentOfUsable(100.0)).target(target).build(),
            None => builder.build(),
        }
    }

    /// Blames whoever set the window and the target.
    fn no_budget(&self, error: BudgetError) -> Failure {
        let window = self.arguments.window_from.name("window");
        let target = self.arguments.target_from.name("target");
        match error {
            BudgetError::TargetAboveTrigger { target: tokens, trigger } => Failure::usage(
                format!("the target of {tokens} tokens is above the {trigger} that the window leaves"),
                format!("lower {target}, or raise {window}"),
            ),
            BudgetError::NothingUsable { .. } | BudgetError::NoWindow => {
                Failure::usage(error.to_string(), format!("raise {window}"))
            }
            error => Failure::usage(error.to_string(), format!("look at {window} and {target}")),
        }
    }

    fn strategy(&self) -> Box<dyn Strategy> {
        match self.arguments.policy.unwrap_or_default() {
            PolicyName::Ladder => match &self.arguments.focus {
                Some(focus) => Box::new(LadderStrategy::new().focus(focus.as_str())),
                None => Box::new(LadderStrategy::new()),
            },
        }
    }

    fn fold(
        &self,
        conversation_index: usize,
        conversation: &Conversation,
        budget: &Budget,
        dialect: Option<Dialect>,
    ) -> Result<Folded, Failure> {
        let recorded = recorded(conversation);
        let transcript = counting::transcript(self.counter, dialect, &recorded);
        let mut before = self.start(conversation, &transcript);
        if let Some(range) = self.arguments.range.as_ref().filter(|range| range.start >= before.len()) {
            let what = format!("--range begins at item {}, but there are {}", range.start, before.len());
            return Err(Failure::usage(what, "`foldback show --shape` counts the items"));
        }
        let pinned = self.pinned(&before, &recorded);
        if let Some(pinned) = &pinned {
            let mut transcript = transcript.clone_empty();
            for (item, entry) in pinned.iter().zip(before.transcript().iter()) {
                transcript.push_counted(Arc::clone(item), entry.tokens().clone());
            }
            before = self.start(conversation, &transcript);
        }
        let strategy = self.strategy();
        let execution = Execution {
            view: &before,
            strategy: &*strategy,
            budget: Some(budget),
            dialect,
            cause: Some(&foldback_core::CompactionReason::Manual),
            now: None,
        };
        let failed = |error| {
            let file = self.opened.path.display();
            let named = conversation.name().map(|name| format!("{file} ({name})").into());
            let path = named.unwrap_or_else(|| self.opened.path.clone());
            Failure::Compaction { path, error: Box::new(error) }
        };
        if self.arguments.dry_run {
            let (plan, repairs) = dry_run(&execution).map_err(failed)?;
            return Ok(Folded { conversation_index, before, plan, after: None, items: Vec::new(), repairs });
        }
        let outcome = compact(&execution).map_err(failed)?;
        let after = outcome.compacted.view;
        let items = self.session().arrange(as_recorded(&after, conversation));
        let violations = check(&items, dialect);
        if !violations.is_empty() {
            let strategy = outcome.plan.strategy().to_owned();
            return Err(failed(CompactionError::Invalid { strategy, violations }));
        }
        let (plan, repairs) = (outcome.plan, outcome.repairs);
        Ok(Folded { conversation_index, before, plan, after: Some(after), items, repairs })
    }

    fn start(&self, conversation: &Conversation, transcript: &foldback_core::Transcript) -> View {
        seen(conversation, transcript, self.arguments.from.unwrap_or_default())
    }

    /// The items with pins on what is to be kept, where that was asked for.
    fn pinned(&self, view: &View, recorded: &[Arc<Item>]) -> Option<Vec<Arc<Item>>> {
        if self.keep.is_empty() && self.arguments.range.is_none() {
            return None;
        }
        let mut pinned = recorded.to_vec();
        let mut is_matched = self.keep.is_empty();
        for (position, entry) in view.iter().enumerate() {
            let is_outside = self.arguments.range.as_ref().is_some_and(|range| !range.contains(&position));
            let is_kept = !self.keep.is_empty() && matches(self.keep, entry.item());
            is_matched |= is_kept;
            if is_outside || is_kept {
                pinned[entry.anchor()] = Arc::new(Item::clone(entry.item()).pinned());
            }
        }
        if !is_matched && !self.shared.quiet {
            terminal::warning(&format!("{}: nothing matches --keep", self.opened.path.display()));
        }
        Some(pinned)
    }
}

fn matches(keep: &RegexSet, item: &Item) -> bool {
    item.parts.iter().any(|part| picture::texts(part).any(|text| keep.is_match(text)))
}

impl Done {
    fn is_unchanged(&self) -> bool {
        self.folded.iter().all(Folded::is_unchanged)
    }

    /// The bytes to write; none where nothing changes and the bytes stay what they are.
    fn written<'a>(&self, job: &Job<'a>) -> Result<Option<Written<'a>>, Failure> {
        let session = job.session();
        let [folded] = &self.folded[..] else {
            if self.is_unchanged() {
                return Ok(None);
            }
            let shown = |folded: &Folded| (!folded.is_unchanged()).then_some(folded.items.clone());
            let shown: Vec<Option<Vec<Arc<Item>>>> = self.folded.iter().map(shown).collect();
            let each = session.conversations().iter().zip(shown.iter().map(|items| items.as_deref()));
            return Ok(Some(session.compacted_native(&each.collect::<Vec<_>>())));
        };
        let conversation = &session.conversations()[folded.conversation_index];
        if job.arguments.fresh {
            let format = if session.format().is_writable() { session.format() } else { Format::Native };
            let fresh = write(format, &folded.items, Some(session));
            return fresh.map(Some).map_err(|error| Failure::Format { path: job.opened.path.clone(), error });
        }
        let from_history = job.arguments.from == Some(From::History);
        if folded.is_unchanged() && (!from_history || conversation.compactions().is_empty()) {
            return Ok(None);
        }
        Ok(Some(session.compacted(conversation, &folded.items)))
    }

    fn write(&self, job: &Job<'_>, destination: &Destination) -> Result<Option<WrittenReport>, Failure> {
        let written = match destination {
            Destination::Nowhere => return Ok(None),
            _ => self.written(job)?,
        };
        let place = destination.write(job.opened, written.as_ref())?;
        Ok(place.map(|place| WrittenReport::new(&place, job.session(), written.as_ref())))
    }

    fn report(&self, job: &Job<'_>, written: Option<WrittenReport>) -> Report {
        let session = job.session();
        Report {
            file: job.opened.path.display().to_string(),
            format: session.format().as_str(),
            dialect: self.dialect.map(Dialect::as_str),
            counter: job.counter.name().to_owned(),
            from: job.arguments.from.unwrap_or_default(),
            target: self.budget.target().0,
            conversations: self.folded.iter().map(|folded| FoldedReport::new(folded, session)).collect(),
            written,
        }
    }
}

/// What happened, for scripts.
#[derive(Serialize)]
struct Report {
    file: String,
    format: &'static str,
    dialect: Option<&'static str>,
    counter: String,
    from: From,
    target: u64,
    conversations: Vec<FoldedReport>,
    written: Option<WrittenReport>,
}

#[derive(Serialize)]
struct FoldedReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    strategy: String,
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
    edits: usize,
    repairs: Vec<String>,
}

impl FoldedReport {
    fn new(folded: &Folded, session: &Session) -> Self {
        let counts = picture::Fates::of(folded.before_plan(), &folded.plan);
        let conversation = session.conversations().get(folded.conversation_index);
        let after = folded.after.as_ref();
        Self {
            name: conversation.and_then(Conversation::name).map(ToOwned::to_owned),
            strategy: folded.plan.strategy().to_owned(),
            tokens_before: folded.before.tokens().0,
            tokens_after: after.map_or(folded.plan.tokens_after(), |view| view.tokens()).0,
            items_before: folded.before.len(),
            items_after: after
                .map_or_else(|| counts.visible() + folded.plan.folds().count(), |view| view.len()),
            kept: counts.kept,
            rewritten: counts.rewritten,
            folded: counts.folded,
            dropped: counts.dropped,
            first_changed: folded.plan.first_changed(),
            prefix_tokens_kept: folded.plan.prefix_tokens_kept().0,
            edits: folded.plan.edits().len(),
            repairs: folded.repairs.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Folded {
    /// The view that was planned on: the one before, repaired.
    fn before_plan(&self) -> &View {
        self.plan.view()
    }
}

#[derive(Serialize)]
struct WrittenReport {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<String>,
    format: &'static str,
    how: &'static str,
    losses: Vec<String>,
}

impl WrittenReport {
    fn new(place: &Place, session: &Session, written: Option<&Written<'_>>) -> Self {
        let (format, how) = match written.map(|written| written.written_as) {
            None => (session.format(), "unchanged"),
            Some(WrittenAs::Appended(format)) => (format, "appended"),
            Some(WrittenAs::Fresh(format)) => (format, "fresh"),
        };
        let losses = written.into_iter().flat_map(|written| &written.losses);
        Self {
            path: place.path.display().to_string(),
            backup: place.backup.as_ref().map(|backup| backup.display().to_string()),
            format: format.as_str(),
            how,
            losses: losses.map(|loss| format!("{}: {}", loss.item_id, loss.what)).collect(),
        }
    }
}

/// Says what of the command line has no effect.
fn tell_what_is_ignored(shared: &Shared, arguments: &Compact) {
    if arguments.focus.is_some() {
        terminal::note("--focus is for summaries that a model writes; this one is written without");
    }
    if let Some(model) = shared.model.as_deref().filter(|model| Model::named(model).is_none()) {
        let window = number(WINDOW_DEFAULT.0);
        terminal::note(&format!("the model {model} is not known: a window of {window} tokens is assumed"));
    }
}

/// What happened, for people.
fn tell(done: &Done, report: &Report) {
    for (folded, told) in done.folded.iter().zip(&report.conversations) {
        if done.folded.len() > 1 && folded.is_unchanged() {
            continue;
        }
        let name = told.name.as_deref().map_or_else(String::new, |name| format!(" ({name})"));
        let heading = format!("{}{name}", report.file);
        let dialect = report.dialect.map_or_else(String::new, |dialect| format!(" for {dialect}"));
        say(&format!(
            "{} {}{dialect}, counted by {}",
            styled(terminal::STRONG, heading),
            report.format,
            report.counter
        ));
        tell_one(folded, told, report.target);
    }
    let unchanged = done.folded.iter().filter(|folded| folded.is_unchanged()).count();
    if done.folded.len() > 1 && unchanged > 0 {
        say(&format!("{unchanged} of {} conversations already fit", done.folded.len()));
    }
    if let Some(written) = &report.written {
        tell_written(written);
    }
}

fn tell_one(folded: &Folded, told: &FoldedReport, target: u64) {
    if folded.is_unchanged() {
        let (tokens, target) = (number(told.tokens_before), number(target));
        return say(&format!("  nothing to do: {tokens} tokens, the target is {target}"));
    }
    let (before, after) = (number(told.tokens_before), number(told.tokens_after));
    let at_most = if folded.after.is_some() { "" } else { "at most " };
    let after = styled(terminal::STRONG, after);
    say(&format!("  {before} → {at_most}{after} tokens (target {})", number(target)));
    for line in picture::timeline(folded.before_plan(), &folded.plan, terminal::width() - 4) {
        say(&format!("  {line}"));
    }
    let (kept, rewritten) = (number(told.kept as u64), number(told.rewritten as u64));
    say(&format!(
        "  {} kept as they were, {} shortened or cleared, {} folded into a summary, {} dropped",
        styled(terminal::GREEN, kept),
        styled(terminal::YELLOW, rewritten),
        styled(terminal::BLUE, number(told.folded as u64)),
        styled(terminal::RED, number(told.dropped as u64)),
    ));
    if let Some(first) = told.first_changed {
        let prefix = number(told.prefix_tokens_kept);
        say(&format!(
            "  first changed item: {first}; {prefix} tokens of prefix stay in the provider's cache"
        ));
    }
    tell_some("repaired", &told.repairs);
}

fn tell_written(written: &WrittenReport) {
    let how = match written.how {
        "unchanged" => "unchanged".to_owned(),
        "appended" => "the compaction was added after the original records".to_owned(),
        _ => format!("a fresh file in {} form: the format has no compaction record", written.format),
    };
    say(&format!("  wrote {}: {how}", styled(terminal::STRONG, &written.path)));
    if let Some(backup) = &written.backup {
        say(&format!("  the file as it was: {backup}"));
    }
    tell_some("could not be written", &written.losses);
}

fn tell_some(what: &str, all: &[String]) {
    for one in all.iter().take(TOLD_MAX) {
        say(&format!("  {what}: {one}"));
    }
    if all.len() > TOLD_MAX {
        say(&format!("  {what}: {} more", all.len() - TOLD_MAX));
    }
}
