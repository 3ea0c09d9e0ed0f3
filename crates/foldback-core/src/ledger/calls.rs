//! What calls and their results tell: what was done to files, how commands and tests ended, what
//! went wrong and what put it right.

use xxhash_rust::xxh3::xxh3_64;

use super::FactKind;
use super::book::{FactIndex, Ledger, Spot};
use super::fact::{
    CommandHistory, CommandRun, Detail, ErrorState, Mention, Operation, PathHistory, TestHistory,
};
use crate::part::{ToolCall, ToolResult};
use crate::reading::clipped;
use crate::tools::{Action, Outcome, TodoEntry, TodoState};

/// Of longer commands the beginning is kept.
const COMMAND_BYTES_MAX: usize = 160;

/// As much is quoted of an error.
const ERROR_BYTES_MAX: usize = 160;

/// Errors of one attempt that are watched for what fixes them.
const ERRORS_WATCHED_MAX: usize = 64;

/// Of things to do the beginning is kept.
const TODO_BYTES_MAX: usize = 400;

/// A call that waits for its result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OpenCall {
    pub(super) item_index: usize,
    actions: Vec<Action>,
    /// The files that its actions are about.
    paths: Vec<(Operation, FactIndex)>,
    commands: Vec<FactIndex>,
    /// What it tries, so that a later call that tries the same is known.
    attempt: u64,
}

/// A command as it is kept and quoted.
pub(crate) fn command_text(command: &str) -> &str {
    clipped(command.trim(), COMMAND_BYTES_MAX)
}

/// The line that says what went wrong: the first that names an error, else the last.
pub(crate) fn error_line(text: &str) -> &str {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let named = lines.clone().find(|line| is_error_line(line));
    clipped(named.or_else(|| lines.next_back()).unwrap_or(""), ERROR_BYTES_MAX)
}

/// Whether a line names an error. Some tools say that there was none.
fn is_error_line(line: &str) -> bool {
    !line.ends_with("(none)")
        && ["error", "Error", "ERROR", "panicked", "Exception", "FAILED", "fatal:", "failed", "not found"]
            .iter()
            .any(|word| line.contains(word))
}

impl Ledger {
    pub(super) fn push_call(&mut self, at: &Spot<'_>, call: &ToolCall) {
        let actions = Action::of(call);
        let mut open = OpenCall {
            item_index: at.item_index,
            paths: Vec::new(),
            commands: Vec::new(),
            attempt: attempt_of(call, &actions),
            actions: Vec::new(),
        };
        for action in &actions {
            match action {
                Action::Read { path, .. } => self.note_path(at, path, Operation::Read, &mut open),
                Action::Write { path } => self.note_path(at, path, Operation::Written, &mut open),
                Action::Edit { path } => self.note_path(at, path, Operation::Edited, &mut open),
                Action::Delete { path } => self.note_path(at, path, Operation::Deleted, &mut open),
                Action::Search { path: Some(path), .. } | Action::List { path } => {
                    self.note_path(at, path, Operation::Searched, &mut open);
                }
                Action::Run { command, .. } => {
                    let text = command_text(command);
                    let new = || Detail::Command(CommandHistory::default());
                    open.commands.extend(self.note(FactKind::Command, text, at.place_of(text), new));
                }
                Action::Todo(entries) => self.replace_todos(at, entries),
                // Addresses are found as names, jobs below.
                Action::Search { path: None, .. }
                | Action::Agent { .. }
                | Action::Fetch { .. }
                | Action::Wait { .. } => {}
            }
        }
        self.start_jobs(at, call, &actions);
        open.actions = actions;
        self.calls.insert(call.id.clone(), open);
    }

    pub(super) fn push_result(&mut self, at: &Spot<'_>, result: &ToolResult) {
        let Some(open) = self.calls.remove(&result.call_id) else {
            if result.is_error {
                self.raise(at, None);
            }
            return;
        };
        let outcome = Outcome::of(result, &open.actions);
        for &command in &open.commands {
            if let Detail::Command(history) = &mut self.fact_mut(command).detail {
                let (exit_code, failed) = (outcome.exit_code, outcome.failed);
                history.add(CommandRun { item_index: at.item_index, exit_code, failed });
            }
        }
        self.note_tests(at, &open, &outcome);
        self.answer_jobs(at, result, &open.actions, &outcome);
        if outcome.failed {
            self.raise(at, Some(&open));
            return;
        }
        for &(operation, path) in &open.paths {
            if let Detail::Path(history) = &mut self.fact_mut(path).detail {
                history.add(operation, open.item_index);
            }
        }
        for error in self.errors.remove(&open.attempt).unwrap_or_default() {
            if let Detail::Error(state) = &mut self.fact_mut(error).detail {
                state.fixed_by = Some(at.item_index);
            }
        }
    }

    fn note_path(&mut self, at: &Spot<'_>, path: &str, operation: Operation, open: &mut OpenCall) {
        // The folder one is in and patterns name no file.
        if path == "." || path.contains('*') || path.contains('\n') {
            return;
        }
        let new = || Detail::Path(PathHistory::default());
        let path = self.note(FactKind::Path, path, at.place_of(path), new);
        open.paths.extend(path.map(|path| (operation, path)));
    }

    fn note_tests(&mut self, at: &Spot<'_>, open: &OpenCall, outcome: &Outcome) {
        let (Some(newest), Some(&command)) = (outcome.tests, open.commands.first()) else { return };
        let text = self.fact(command).text.clone();
        let new = || Detail::TestResult(TestHistory { newest, run_count: 0 });
        let Some(index) = self.note(FactKind::TestResult, &text, whole(at), new) else { return };
        if let Detail::TestResult(history) = &mut self.fact_mut(index).detail {
            *history = TestHistory { newest, run_count: history.run_count + 1 };
        }
    }

    fn raise(&mut self, at: &Spot<'_>, open: Option<&OpenCall>) {
        let text = error_line(at.text);
        let state =
            ErrorState { raised_by: at.item_index, call: open.map(|open| open.item_index), fixed_by: None };
        let new = || Detail::Error(state.clone());
        let Some(index) = self.note(FactKind::Error, text, at.place_of(text), new) else { return };
        self.fact_mut(index).detail = Detail::Error(state);
        if let Some(open) = open {
            let errors = self.errors.entry(open.attempt).or_default();
            if errors.len() < ERRORS_WATCHED_MAX && !errors.contains(&index) {
                errors.push(index);
            }
        }
    }

    /// What is no longer on the list was given up, unless it was done.
    fn replace_todos(&mut self, at: &Spot<'_>, entries: &[TodoEntry]) {
        for index in std::mem::take(&mut self.todos) {
            if let Detail::Todo(state @ (TodoState::Pending | TodoState::InProgress)) =
                &mut self.fact_mut(index).detail
            {
                *state = TodoState::Cancelled;
            }
        }
        for entry in entries {
            let text = clipped(entry.text.trim(), TODO_BYTES_MAX);
            let index = self.note_todo(at.place_of(text), text, entry.state);
            self.todos.extend(index);
        }
    }
}

fn whole(at: &Spot<'_>) -> Mention {
    at.place(0..at.text.len())
}

/// What a call tries: to run this command, to read or change this file, else this very call.
fn attempt_of(call: &ToolCall, actions: &[Action]) -> u64 {
    let (verb, what) = match actions.first() {
        Some(Action::Run { command, .. }) => ("run", command.as_str()),
        Some(Action::Write { path } | Action::Edit { path }) => ("change", path.as_str()),
        Some(Action::Read { path, .. }) => ("read", path.as_str()),
        Some(Action::Delete { path }) => ("delete", path.as_str()),
        Some(
            Action::Search { .. }
            | Action::List { .. }
            | Action::Todo(_)
            | Action::Agent { .. }
            | Action::Fetch { .. }
            | Action::Wait { .. },
        )
        | None => (call.name.as_str(), call.input.as_str()),
    };
    xxh3_64(format!("{verb}\n{what}").as_bytes())
}
