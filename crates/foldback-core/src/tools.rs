//! What a tool call does: the tools of many agents, brought down to a few actions.
//!
//! Known tools stand in a table. An unknown tool is understood where its name has a verb in it and
//! its input names one file or one command; else nothing is said about it.

mod input;
mod outcome;
mod patch;
mod script;
mod shell;
mod table;

use std::borrow::Cow;
use std::ops::Range;

use crate::part::{ToolCall, ToolInput};
use input::Input;
use table::{
    COMMAND, FIRST_LINE, FOLDER, JOB, LAST_LINE, PATCH, PATH, PATHS, PATTERN, TASK, TODOS, Verb,
    likely_verb_of, verb_of,
};

pub use outcome::{Outcome, TestRun};
pub(crate) use shell::is_check;

/// One thing that a call does. Paths are resolved against the folder that the call names, where it
/// names one, and are otherwise as the model wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Reads a file.
    Read {
        /// Which one.
        path: String,
        /// The lines, counted from 1, the end excluded; all of them if there is no range, and to
        /// the end of the file if the range ends at [`u32::MAX`].
        lines: Option<Range<u32>>,
    },
    /// Writes a whole file.
    Write {
        /// Which one.
        path: String,
    },
    /// Changes a file in places.
    Edit {
        /// Which one.
        path: String,
    },
    /// Deletes a file.
    Delete {
        /// Which one.
        path: String,
    },
    /// Looks for something.
    Search {
        /// What for.
        pattern: String,
        /// Where, if somewhere in particular.
        path: Option<String>,
    },
    /// Lists files.
    List {
        /// Where, or which: a folder or a pattern.
        path: String,
    },
    /// Runs a command. What it reads and changes follows as actions of its own: changes always,
    /// reads only where the command does nothing but look at things.
    Run {
        /// The command line.
        command: String,
        /// Where, if the call says so.
        folder: Option<String>,
    },
    /// Replaces the list of things to do.
    Todo(Vec<TodoEntry>),
    /// Has another agent do something.
    Agent {
        /// What it is to do.
        task: String,
    },
    /// Fetches a page.
    Fetch {
        /// Its address.
        url: String,
    },
    /// Waits for something that was started before, or looks how far it is.
    Wait {
        /// The name of what is waited for.
        job: String,
    },
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodoEntry {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub state: TodoState,
}

/// How far a thing to do is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TodoState {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Done,
    /// Given up.
    Cancelled,
}

impl Action {
    /// What a call does, in order; nothing where that is not known.
    pub fn of(call: &ToolCall) -> Vec<Self> {
        let input = Input::of(call);
        match verb_of(&call.name) {
            Some(verb) => known(verb, call, &input),
            None => unknown(call, &input),
        }
    }

    /// Whether a call may change a file, as far as the name of its tool tells.
    pub(crate) fn may_change(call: &ToolCall) -> bool {
        match verb_of(&call.name) {
            Some(
                Verb::Read
                | Verb::Search
                | Verb::List
                | Verb::Todo
                | Verb::Agent
                | Verb::Fetch
                | Verb::Wait
                | Verb::Nothing,
            ) => false,
            Some(Verb::Write | Verb::Edit | Verb::Delete | Verb::Run | Verb::Editor) | None => true,
        }
    }

    /// The file that is read or changed.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Read { path, .. } | Self::Write { path } | Self::Edit { path } | Self::Delete { path } => {
                Some(path)
            }
            Self::Search { .. }
            | Self::List { .. }
            | Self::Run { .. }
            | Self::Todo(_)
            | Self::Agent { .. }
            | Self::Fetch { .. }
            | Self::Wait { .. } => None,
        }
    }

    /// The same, to be named otherwise.
    pub(crate) fn file_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Read { path, .. } | Self::Write { path } | Self::Edit { path } | Self::Delete { path } => {
                Some(path)
            }
            _ => None,
        }
    }

    /// Whether all that some actions do is to look at something that can be looked at again.
    pub(crate) fn only_look(actions: &[Self]) -> bool {
        let looks = |action: &Self| {
            matches!(action, Self::Read { .. } | Self::Search { .. } | Self::List { .. } | Self::Fetch { .. })
        };
        let is_run = |action: &Self| matches!(action, Self::Run { .. });
        actions.iter().any(looks) && actions.iter().all(|action| looks(action) || is_run(action))
    }

    /// Whether a file is not afterwards what it was before.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Edit { .. } | Self::Delete { .. })
    }
}

fn known(verb: Verb, call: &ToolCall, input: &Input<'_>) -> Vec<Action> {
    let changed =
        |change: fn(String) -> Action| input.texts(PATH).iter().map(|path| change(plain(path))).collect();
    match verb {
        Verb::Read => reads(input),
        Verb::Write => changed(|path| Action::Write { path }),
        Verb::Delete => match input.texts(PATH).is_empty() {
            true => input.texts(PATHS).iter().map(|path| Action::Delete { path: plain(path) }).collect(),
            false => changed(|path| Action::Delete { path }),
        },
        Verb::Edit => match patched(call, input) {
            patched if patched.is_empty() => changed(|path| Action::Edit { path }),
            patched => patched,
        },
        Verb::Search => {
            let pattern = input.name(PATTERN);
            let path = input.text(&["path", "dirpath", "includepattern", "dir", "include", "glob"]);
            let path = path.map(|path| plain(&path));
            pattern.map(|pattern| Action::Search { pattern, path }).into_iter().collect()
        }
        Verb::List => {
            let path =
                input.text(&["pattern", "query", "filename", "path", "dirpath", "targetdirectory", "dir"]);
            vec![Action::List { path: path.map_or_else(|| ".".to_owned(), |path| plain(&path)) }]
        }
        Verb::Run => runs(call, input),
        Verb::Todo => todos(input).map(Action::Todo).into_iter().collect(),
        Verb::Agent => input.name(TASK).map(|task| Action::Agent { task }).into_iter().collect(),
        Verb::Fetch => address(input).map(|url| Action::Fetch { url }).into_iter().collect(),
        Verb::Wait => input.name(JOB).map(|job| Action::Wait { job }).into_iter().collect(),
        Verb::Editor => edits(input),
        Verb::Nothing => Vec::new(),
    }
}

fn unknown(call: &ToolCall, input: &Input<'_>) -> Vec<Action> {
    let edits = edits(input);
    if !edits.is_empty() {
        return edits;
    }
    match likely_verb_of(&call.name) {
        // With anything else in the input it may read something else than the file.
        Some(Verb::Read) if !input.holds_only(&[PATH, FIRST_LINE, LAST_LINE]) => Vec::new(),
        Some(Verb::Run) if input.texts(COMMAND).is_empty() => Vec::new(),
        Some(verb) => known(verb, call, input),
        None if input.holds_only(&[COMMAND, FOLDER, &["timeout", "description"]]) => runs(call, input),
        None => Vec::new(),
    }
}

fn reads(input: &Input<'_>) -> Vec<Action> {
    let read = |input: &Input<'_>| {
        let path = plain(&input.text(PATH)?);
        Some(Action::Read { path, lines: lines(input) })
    };
    if let Some(read) = read(input) {
        return vec![read];
    }
    let several: Vec<Action> = input.objects(PATHS).iter().filter_map(read).collect();
    if !several.is_empty() {
        return several;
    }
    let whole = |path: &Cow<'_, str>| Action::Read { path: plain(path), lines: None };
    let is_one_file = |path: &&Cow<'_, str>| !path.contains('*');
    input.texts(PATHS).iter().filter(is_one_file).map(whole).collect()
}

/// The lines that a read asks for. Tools differ in whether they count from 0 or from 1; within one
/// session it is the same tool.
fn lines(input: &Input<'_>) -> Option<Range<u32>> {
    let line = |number: i64| u32::try_from(number).unwrap_or(0);
    if let [first, last] = input.numbers(&["viewrange"])[..] {
        let end = if last < 0 { u32::MAX } else { line(last).saturating_add(1) };
        return Some(line(first)..end);
    }
    let first = input.number(&["offset", "startline", "startlineonebased", "linestart", "linenumber"]);
    let count = input.number(&["limit"]);
    let last = input.number(&["endline", "endlineonebased", "lineend", "endlineoneinclusive"]);
    if first.is_none() && count.is_none() && last.is_none() {
        return None;
    }
    let start = line(first.unwrap_or(1));
    let end = match (last, count) {
        (Some(last), _) if last >= 0 => line(last).saturating_add(1),
        (_, Some(count)) => start.saturating_add(line(count)),
        _ => u32::MAX,
    };
    Some(start..end)
}

/// One tool for several verbs, as OpenHands, SWE-agent and Anthropic's own have it.
fn edits(input: &Input<'_>) -> Vec<Action> {
    let (Some(command), Some(path)) = (input.text(&["command"]), input.text(PATH)) else { return Vec::new() };
    let path = plain(&path);
    match &*command {
        "view" => vec![Action::Read { path, lines: lines(input) }],
        "create" => vec![Action::Write { path }],
        "str_replace" | "insert" | "undo_edit" | "edit" => vec![Action::Edit { path }],
        "delete" => vec![Action::Delete { path }],
        _ => Vec::new(),
    }
}

/// What the patch in an input does.
fn patched(call: &ToolCall, input: &Input<'_>) -> Vec<Action> {
    match &call.input {
        ToolInput::Text(text) => patch::actions(text),
        ToolInput::Json(_) => input.text(PATCH).map_or_else(Vec::new, |text| patch::actions(&text)),
    }
}

fn runs(call: &ToolCall, input: &Input<'_>) -> Vec<Action> {
    if let ToolInput::Text(text) = &call.input {
        return script::actions(text);
    }
    let folder = input.text(FOLDER);
    let mut commands = input.texts(COMMAND);
    // An argument list: mostly a shell and what it is to run.
    if let [shell, flag, command, ..] = &commands[..]
        && flag.starts_with('-')
        && shell.ends_with("sh")
    {
        commands = vec![command.clone()];
    } else if commands.len() > 1
        && input.text(&["command"]).is_none()
        && input.texts(&["commands"]).is_empty()
    {
        commands = vec![commands.join(" ").into()];
    }
    commands.iter().flat_map(|command| shell::actions(command, folder.as_deref())).collect()
}

fn todos(input: &Input<'_>) -> Option<Vec<TodoEntry>> {
    let entry = |object: &Input<'_>| {
        let text = object.text(&["content", "step", "description", "title", "text", "task"])?.into_owned();
        let state = object.text(&["status", "state"]).map_or(TodoState::Pending, |state| state_of(&state));
        Some(TodoEntry { text, state })
    };
    let entries: Vec<TodoEntry> = input.objects(TODOS).iter().filter_map(entry).collect();
    if !entries.is_empty() {
        return Some(entries);
    }
    // A list in Markdown.
    let text = input.text(TODOS)?;
    let entry = |line: &str| {
        let rest = line.trim_start().trim_start_matches(['-', '*', ' ']).strip_prefix('[')?;
        let (mark, text) = rest.split_once(']')?;
        let state = match mark.trim() {
            "" => TodoState::Pending,
            "x" | "X" => TodoState::Done,
            _ => TodoState::InProgress,
        };
        Some(TodoEntry { text: text.trim().to_owned(), state })
    };
    let entries: Vec<TodoEntry> = text.lines().filter_map(entry).collect();
    (!entries.is_empty()).then_some(entries)
}

fn state_of(state: &str) -> TodoState {
    let state: String = state.chars().filter(char::is_ascii_alphabetic).collect();
    match state.to_ascii_lowercase().as_str() {
        "inprogress" | "active" | "doing" => TodoState::InProgress,
        "completed" | "complete" | "done" => TodoState::Done,
        "cancelled" | "canceled" => TodoState::Cancelled,
        _ => TodoState::Pending,
    }
}

/// The address in an input, also inside a prompt that says what to look for there.
fn address(input: &Input<'_>) -> Option<String> {
    if let Some(url) = input.name(&["url", "urls", "uri", "href"]) {
        return Some(url);
    }
    let text = input.text(&["prompt", "query", "input"])?;
    let start = text.find("http://").or_else(|| text.find("https://"))?;
    text[start..].split(char::is_whitespace).next().map(str::to_owned)
}

/// A path as written, without what changes nothing about where it leads.
fn plain(path: &str) -> String {
    resolved(None, path)
}

/// A path seen from `folder`, without what changes nothing about where it leads.
fn resolved(folder: Option<&str>, path: &str) -> String {
    let path = path.trim();
    let path = path.strip_prefix("file://").unwrap_or(path);
    let is_rooted = path.starts_with(['/', '~', '\\']) || path.get(1..2) == Some(":");
    let joined = match folder.map(str::trim).filter(|folder| !folder.is_empty()) {
        Some(folder) if !is_rooted => Cow::Owned(format!("{folder}/{path}")),
        Some(_) | None => Cow::Borrowed(path),
    };
    if is_direct(&joined) {
        return joined.into_owned();
    }
    let mut steps: Vec<&str> = Vec::new();
    for (index, step) in joined.split('/').enumerate() {
        match step {
            "." | "" if index > 0 => {}
            "." if joined.len() > 1 => {}
            ".." if steps.last().is_some_and(|last| !matches!(*last, ".." | "" | "~")) => {
                steps.pop();
            }
            step => steps.push(step),
        }
    }
    match steps[..] {
        [] => ".".to_owned(),
        [""] => "/".to_owned(),
        _ => steps.join("/"),
    }
}

/// Whether a path has no step that may change nothing: none is empty or begins with a dot.
fn is_direct(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_step = |two: &[u8]| !matches!(two, [b'/', b'/' | b'.']);
    bytes.windows(2).all(is_step) && !matches!(bytes, [] | [b'.', ..] | [.., b'/'])
}

#[cfg(test)]
mod tests;
