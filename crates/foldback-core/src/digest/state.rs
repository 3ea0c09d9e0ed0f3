//! Where the work stands: what is to be done, what was left behind, what the checks said last, the
//! newest failure, which files were changed.

use foldhash::{HashMap, HashMapExt};

use super::deeds::program;
use super::story::{Did, Event, Story, What};
use super::text::{LEFT_OUT, decisive, in_one_line, set_back};
use super::traces::traces;
use crate::ledger::test_clause;
use crate::reading::{clipped, fields};
use crate::tools::{Action, TodoEntry, TodoState, is_check};

/// Bytes of one thing to do.
const TODO_BYTES_MAX: usize = 160;

/// Checks whose last verdict is told, the newest.
const CHECKS_MAX: usize = 5;

/// Bytes of a command, and of what it said in one line.
const COMMAND_BYTES_MAX: usize = 140;
const VERDICT_BYTES_MAX: usize = 200;

/// Things that are left behind are told up to this many; of more the newest.
const TRACES_MAX: usize = 60;

/// More bare names in a row nobody reads.
const NAMES_MAX: usize = 8;

/// A failure is the newest one only in the last part of what happened: one in so many events.
const RECENT_DIVISOR: usize = 4;

/// The pieces of the state, those first that matter most; each within a share of `bytes_max`.
pub(super) fn state(story: &Story<'_>, bytes_max: usize) -> Vec<String> {
    let pieces = [
        failure(story, (bytes_max / 3).min(2_400)),
        todos(story, (bytes_max / 3).min(2_000)),
        left_behind(story, (bytes_max / 3).min(4_000)),
        checks(story, (bytes_max / 4).min(1_600)),
        files(story, (bytes_max / 4).min(3_000)),
    ];
    pieces.into_iter().flatten().collect()
}

/// What was done, in order, with its place.
pub(super) fn deeds<'s, 'r>(
    story: &'s Story<'r>,
) -> impl DoubleEndedIterator<Item = (usize, &'s Event<'r>, &'s Did<'r>)> {
    story.events.iter().enumerate().filter_map(|(number, event)| match &event.what {
        What::Did(did) => Some((number, event, did)),
        _ => None,
    })
}

/// A command without what only sets it up or trims what it says.
pub(super) fn plain_command(command: &str) -> String {
    let mut command = command.trim();
    while let Some(rest) = command.strip_prefix("cd ").or_else(|| command.strip_prefix("export ")) {
        let Some((_, rest)) = rest.split_once("&& ").or_else(|| rest.split_once('\n')) else { break };
        command = rest.trim_start();
    }
    let command = command.lines().next().unwrap_or("");
    let end =
        ["2>&1", "| tail", "| head", "|tail", "|head"].iter().filter_map(|sign| command.find(sign)).min();
    let command = end.map_or(command, |end| &command[..end]).trim();
    in_one_line(command, COMMAND_BYTES_MAX)
}

/// How a command ended, in one line.
pub(super) fn verdict(did: &Did<'_>) -> String {
    if let Some(tests) = &did.outcome.tests {
        return test_clause(tests);
    }
    if did.outcome.failed {
        let said = decisive(did.answer.as_deref().unwrap_or(""), VERDICT_BYTES_MAX);
        let line = said.lines().find(|line| !line.starts_with(LEFT_OUT)).unwrap_or("");
        return format!("failed: {}", in_one_line(line, VERDICT_BYTES_MAX));
    }
    match did.said_lines().next_back() {
        Some(line) => in_one_line(line, VERDICT_BYTES_MAX),
        None => "passed".to_owned(),
    }
}

/// The newest list of things to do, where the reader does not see it.
fn todos(story: &Story<'_>, bytes_max: usize) -> Option<String> {
    let newest = deeds(story).rev().find(|(_, _, did)| did.has_todos());
    let kept = kept_tasks(story);
    let entries = match newest {
        Some((_, event, _)) if event.is_visible && kept.is_empty() => return None,
        Some((_, _, did)) => did.actions.iter().find_map(|action| match action {
            Action::Todo(entries) => Some(entries.clone()),
            _ => None,
        })?,
        None if kept.is_empty() => return None,
        None => kept,
    };
    let listed_at = newest.map_or(0, |(number, ..)| number);
    let is_answered = story.events[listed_at..].iter().any(|event| matches!(event.what, What::User(_)));
    let mut text = match is_answered {
        true => "To do, as listed before the user's newest message:".to_owned(),
        false => "To do, as listed last:".to_owned(),
    };
    for (title, state) in [
        ("in progress", TodoState::InProgress),
        ("next", TodoState::Pending),
        ("given up", TodoState::Cancelled),
        ("done", TodoState::Done),
    ] {
        let of_state: Vec<String> = entries
            .iter()
            .filter(|entry| entry.state == state)
            .map(|entry| in_one_line(&entry.text, TODO_BYTES_MAX))
            .collect();
        if !of_state.is_empty() && text.len() < bytes_max {
            let room = bytes_max - text.len();
            text.push_str(&format!("\n  {title}: {}", listed(&of_state, "; ", room)));
        }
    }
    Some(text)
}

/// Things to do that are kept one by one: made by one tool, changed by another.
fn kept_tasks(story: &Story<'_>) -> Vec<TodoEntry> {
    let mut tasks: Vec<(String, TodoEntry)> = Vec::new();
    for (_, _, did) in deeds(story) {
        let name: String = did.call.name.chars().filter(char::is_ascii_alphanumeric).collect();
        let field = |keys: &[&str]| {
            fields(did.call)
                .into_iter()
                .find(|field| keys.contains(&field.key.as_str()))
                .map(|field| field.value.into_owned())
        };
        match name.to_ascii_lowercase().as_str() {
            "taskcreate" => {
                let digits = |text: &str| {
                    text.split('#')
                        .nth(1)
                        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>())
                };
                let id = did.answer.as_deref().and_then(digits).unwrap_or_default();
                if let Some(text) = field(&["subject", "title", "description"]) {
                    tasks.push((id, TodoEntry { text, state: TodoState::Pending }));
                }
            }
            "taskupdate" => {
                let (id, status) = (field(&["taskId", "task_id", "id"]), field(&["status"]));
                let task = tasks.iter_mut().find(|(known, _)| Some(known) == id.as_ref());
                if let (Some((_, entry)), Some(status)) = (task, status) {
                    entry.state = match status.as_str() {
                        "completed" => TodoState::Done,
                        "in_progress" => TodoState::InProgress,
                        "deleted" | "cancelled" => TodoState::Cancelled,
                        _ => TodoState::Pending,
                    };
                }
            }
            _ => {}
        }
    }
    tasks.into_iter().map(|(_, entry)| entry).collect()
}

/// Commits, branches, pull requests, in order.
fn left_behind(story: &Story<'_>, bytes_max: usize) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for (_, _, did) in deeds(story).filter(|(_, _, did)| !did.outcome.failed) {
        if let (Some(command), Some(answer)) = (did.command(), &did.answer) {
            for trace in traces(command, answer) {
                // A branch is pushed again and again: where it stands is known from the last time.
                all.retain(|known| *known != trace);
                all.push(trace);
            }
        }
    }
    let start = all.len().saturating_sub(TRACES_MAX);
    (!all.is_empty()).then(|| format!("Left behind, in order: {}", listed(&all[start..], "; ", bytes_max)))
}

/// What each checking command said last.
fn checks(story: &Story<'_>, bytes_max: usize) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut passed: Vec<Tried> = Vec::new();
    let mut lines = Vec::new();
    let mut is_outdated = false;
    for (_, event, did) in deeds(story).rev() {
        is_outdated |= !did.outcome.failed && did.actions.iter().any(|action| action.is_change());
        let Some(command) = did.command().filter(|command| is_check(command) && did.answer.is_some()) else {
            continue;
        };
        let plain = plain_command(command);
        let families = families(did);
        if seen.contains(&plain)
            || (did.outcome.failed && families.iter().any(|family| family.is_right_after(&passed)))
        {
            continue;
        }
        if !did.outcome.failed {
            passed.extend(families);
        }
        if !event.is_visible {
            let since = if is_outdated { " (files were changed since)" } else { "" };
            lines.push(format!("`{plain}` → {}{since}", verdict(did)));
        }
        seen.push(plain);
        if seen.len() == CHECKS_MAX {
            break;
        }
    }
    lines.reverse();
    (!lines.is_empty())
        .then(|| format!("Checks, as they ended last:\n  {}", listed(&lines, "\n  ", bytes_max)))
}

/// The newest failure that nothing put right, with the lines that decide what to do.
fn failure(story: &Story<'_>, bytes_max: usize) -> Option<String> {
    let oldest = story.events.len() - story.events.len() / RECENT_DIVISOR;
    let mut succeeded: Vec<Tried> = Vec::new();
    let mut is_committed = false;
    for (number, event, did) in deeds(story).rev() {
        if number < oldest || is_committed {
            break;
        }
        if did.answer.is_some() && !did.outcome.failed {
            is_committed = did.command().is_some_and(|command| command.contains("git commit"));
            succeeded.extend(families(did));
            continue;
        }
        let is_right = || families(did).iter().any(|family| family.is_right_after(&succeeded));
        if !did.outcome.failed || did.only_looks() || did.is_refused() || is_right() {
            continue;
        }
        if event.is_visible {
            return None;
        }
        let told = decisive(did.answer.as_deref().unwrap_or(""), bytes_max);
        let is_before = story.events[number..].iter().any(|event| matches!(event.what, What::User(_)));
        let when = if is_before { ", before the user's newest message" } else { "" };
        return Some(format!(
            "Newest failure, not put right yet{when}, of {}:\n    {}",
            tried(did),
            set_back(&told)
        ));
    }
    None
}

/// Something that was tried, so that it is known when something like it succeeds.
pub(super) struct Tried {
    /// The program and what it was told to do; the tool and its file.
    what: String,
    /// How many words the command has: a part of the tests says nothing about all of them.
    word_count: usize,
}

impl Tried {
    /// Whether it was put right by what succeeded afterwards.
    pub(super) fn is_right_after(&self, succeeded: &[Self]) -> bool {
        succeeded.iter().any(|later| later.what == self.what && later.word_count <= self.word_count)
    }
}

pub(super) fn families(did: &Did<'_>) -> Vec<Tried> {
    match did.command() {
        Some(command) => command
            .split("&&")
            .map(|command| Tried {
                what: program(command),
                word_count: plain_command(command).split_whitespace().count(),
            })
            .filter(|tried| tried.what != "echo")
            .collect(),
        None => vec![Tried { what: tried(did), word_count: 0 }],
    }
}

/// What a call tried, so that a later success is known.
pub(super) fn tried(did: &Did<'_>) -> String {
    match did.command() {
        Some(command) => format!("`{}`", plain_command(command)),
        None => match did.actions.iter().find_map(Action::file) {
            Some(path) => {
                format!("`{}`", in_one_line(&format!("{} {path}", did.call.name.as_str()), COMMAND_BYTES_MAX))
            }
            None => format!("`{}`", in_one_line(did.call.name.as_str(), COMMAND_BYTES_MAX)),
        },
    }
}

/// Every file that was changed, with the number of changes, the most changed first.
fn files(story: &Story<'_>, bytes_max: usize) -> Option<String> {
    struct Changed {
        path: String,
        count: usize,
        is_deleted: bool,
        newest: usize,
    }
    let mut changed: Vec<Changed> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut committed = None;
    for (number, _, did) in deeds(story).filter(|(_, _, did)| !did.outcome.failed) {
        if did.command().is_some_and(|command| command.contains("git commit")) {
            committed = Some(number);
        }
        for action in did.actions.iter().filter(|action| action.is_change()) {
            let Some(path) = action.file().filter(|path| is_kept_file(path)) else { continue };
            let place = *places.entry(path.to_owned()).or_insert_with(|| {
                changed.push(Changed { path: path.to_owned(), count: 0, is_deleted: false, newest: 0 });
                changed.len() - 1
            });
            let file = &mut changed[place];
            file.count += 1;
            file.newest = number;
            file.is_deleted = matches!(action, Action::Delete { .. });
        }
    }
    if changed.is_empty() {
        return None;
    }
    changed.sort_by_key(|file| (std::cmp::Reverse(file.count), std::cmp::Reverse(file.newest)));
    let is_since = |file: &Changed| committed.is_some_and(|committed| file.newest > committed);
    let has_both = changed.iter().any(is_since) && !changed.iter().all(is_since);
    let named = |file: &Changed| {
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        let since = if has_both && is_since(file) { ", since the last commit" } else { "" };
        match (file.is_deleted, file.count) {
            (true, _) => format!("{name} (deleted{since})"),
            (false, 1) if since.is_empty() => name.to_owned(),
            (false, count) => format!("{name} (×{count}{since})"),
        }
    };
    // By folder, so that a path is said once; the folder first whose file was changed most.
    let mut folders: Vec<(&str, Vec<String>)> = Vec::new();
    for file in &changed {
        let folder = file.path.rfind('/').map_or("", |at| &file.path[..=at]);
        match folders.iter_mut().find(|(known, _)| *known == folder) {
            Some((_, names)) => names.push(named(file)),
            None => folders.push((folder, vec![named(file)])),
        }
    }
    let lines = folders.iter().flat_map(|(folder, names)| {
        let title = if folder.is_empty() { String::new() } else { format!("{folder}: ") };
        names.chunks(NAMES_MAX).map(move |names| format!("- {title}{}", names.join(", ")))
    });
    let lines: Vec<String> = lines.collect();
    Some(format!("Files changed:\n  {}", listed(&lines, "\n  ", bytes_max)))
}

/// Not what a command only throws away or keeps for itself.
fn is_kept_file(path: &str) -> bool {
    !path.starts_with("/dev/") && !path.contains('$')
}

/// As many as fit, with the number of those that do not.
pub(super) fn listed(texts: &[String], joint: &str, bytes_max: usize) -> String {
    let mut all = String::new();
    for (number, text) in texts.iter().enumerate() {
        if !all.is_empty() && all.len() + text.len() > bytes_max {
            return format!("{all}{joint}{LEFT_OUT} {} more", texts.len() - number);
        }
        if !all.is_empty() {
            all.push_str(joint);
        }
        all.push_str(clipped(text, bytes_max.max(joint.len() + 40)));
    }
    all
}
