//! What is still running: commands in the background, other agents.

use super::FactKind;
use super::book::{FactIndex, Ledger, Spot};
use super::calls::command_text;
use super::fact::Detail;
use crate::ids::{CallId, Text};
use crate::part::{ToolCall, ToolResult};
use crate::reading::fields;
use crate::tools::{Action, Outcome};

/// Jobs that are watched; of more the oldest are taken to run on.
const JOBS_WATCHED_MAX: usize = 64;

/// Where an answer says that something runs on, and what it goes by.
const HEAD_BYTES: usize = 600;

/// Longer names are no names of jobs.
const NAME_BYTES_MAX: usize = 64;

/// What stands before the name of a job, in lower case.
const NAME_SIGNS: &[&str] = &[
    "background with id",
    "session id",
    "session_id",
    "agentid",
    "agent_id",
    "agent id",
    "task_id",
    "task id",
    "shell id",
    "bash_id",
    "shellid",
];

/// Words of an answer that comes before the end, in lower case, where it may be one.
const RUNNING_SIGNS: &[&str] = &["background", "running", "launched", "spawned", "agent_id", "agentid"];

/// Words that say so of any command, in lower case.
const LEFT_RUNNING_SIGNS: &[&str] = &["running in background with id", "running with session id"];

/// Words that say a job has ended, in lower case.
const END_SIGNS: &[&str] =
    &["completed", "finished", "failed", "killed", "exited", "exit code", "terminated", "stopped", "done"];

/// A job that has not ended yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OpenJob {
    fact: FactIndex,
    call: CallId,
    name: Option<Text>,
}

impl Ledger {
    /// Notes what a call starts, and ends what it stops.
    pub(super) fn start_jobs(&mut self, at: &Spot<'_>, call: &ToolCall, actions: &[Action]) {
        let is_background = asks_for_background(call);
        for action in actions {
            match action {
                Action::Agent { task } => self.start_job(at, task, &call.id),
                Action::Run { command, .. } if is_background => self.start_job(at, command, &call.id),
                Action::Run { .. }
                | Action::Read { .. }
                | Action::Write { .. }
                | Action::Edit { .. }
                | Action::Delete { .. }
                | Action::Search { .. }
                | Action::List { .. }
                | Action::Todo(_)
                | Action::Fetch { .. }
                | Action::Wait { .. } => {}
            }
        }
        let name = call.name.to_ascii_lowercase();
        if name.contains("kill") || name.contains("stop") || name.contains("close") {
            let named: Vec<String> = fields(call).into_iter().map(|field| field.value.into_owned()).collect();
            self.end_jobs(at.item_index, |job| {
                job.name.as_deref().is_some_and(|name| named.iter().any(|value| value == name))
            });
        }
    }

    fn start_job(&mut self, at: &Spot<'_>, what: &str, call: &CallId) {
        let text = command_text(what);
        let new = || Detail::Job { name: None, ended_by: None };
        let Some(fact) = self.note(FactKind::Job, text, at.place_of(text), new) else { return };
        self.fact_mut(fact).detail = new();
        if self.jobs.len() == JOBS_WATCHED_MAX {
            self.jobs.remove(0);
        }
        self.jobs.push(OpenJob { fact, call: call.clone(), name: None });
    }

    /// What the answer to a call says of jobs: one runs on under a name, or has ended.
    pub(super) fn answer_jobs(
        &mut self,
        at: &Spot<'_>,
        result: &ToolResult,
        actions: &[Action],
        outcome: &Outcome,
    ) {
        let head = at.text[..at.text.floor_char_boundary(HEAD_BYTES)].to_ascii_lowercase();
        let says = |signs: &[&str]| signs.iter().any(|sign| head.contains(sign));
        let is_over = outcome.exit_code.is_some();
        let waited = actions.iter().find_map(|action| match action {
            Action::Wait { job } => Some(job.as_str()),
            _ => None,
        });
        if let Some(job) = waited {
            if is_over || (says(END_SIGNS) && !says(RUNNING_SIGNS)) {
                self.end_jobs(at.item_index, |open| open.name.as_deref() == Some(job));
            }
            return;
        }
        let name = name_in(at.text, &head);
        // A command may be left running although the call did not ask for it.
        let is_known = self.jobs.iter().any(|job| job.call == result.call_id);
        if let Some(Action::Run { command, .. }) = actions.first().filter(|_| !is_known)
            && says(LEFT_RUNNING_SIGNS)
            && !is_over
        {
            self.start_job(at, command, &result.call_id);
        }
        match name.filter(|_| says(RUNNING_SIGNS) && !is_over) {
            Some(name) => self.name_jobs(&result.call_id, name),
            None => self.end_jobs(at.item_index, |job| job.call == result.call_id),
        }
    }

    fn name_jobs(&mut self, call: &CallId, name: &str) {
        let named = self.jobs.iter_mut().filter(|job| job.call == *call);
        let facts: Vec<FactIndex> = named
            .map(|job| {
                job.name = Some(name.into());
                job.fact
            })
            .collect();
        for fact in facts {
            self.fact_mut(fact).detail = Detail::Job { name: Some(name.into()), ended_by: None };
        }
    }

    /// A text that names a job and says that it has ended.
    pub(super) fn end_jobs_told_of(&mut self, at: &Spot<'_>) {
        if self.jobs.iter().all(|job| job.name.is_none()) {
            return;
        }
        let lowered = at.text.to_ascii_lowercase();
        if END_SIGNS.iter().any(|sign| lowered.contains(sign)) {
            self.end_jobs(at.item_index, |job| {
                job.name.as_deref().is_some_and(|name| names_job(at.text, name))
            });
        }
    }

    fn end_jobs(&mut self, item_index: usize, has_ended: impl Fn(&OpenJob) -> bool) {
        let (ended, open): (Vec<OpenJob>, Vec<OpenJob>) =
            std::mem::take(&mut self.jobs).into_iter().partition(|job| has_ended(job));
        self.jobs = open;
        for job in ended {
            let runs_again = self.jobs.iter().any(|other| other.fact == job.fact);
            if let Detail::Job { ended_by, .. } = &mut self.fact_mut(job.fact).detail
                && !runs_again
            {
                *ended_by = Some(item_index);
            }
        }
    }
}

/// Whether a call asks for its command or agent to run in the background.
fn asks_for_background(call: &ToolCall) -> bool {
    // Hardly any call does, and reading an input means decoding it.
    call.input.as_str().contains("ackground")
        && fields(call).iter().any(|field| {
            let letters = field.key.chars().filter(char::is_ascii_alphabetic);
            let key: String = letters.map(|letter| letter.to_ascii_lowercase()).collect();
            matches!(key.as_str(), "runinbackground" | "background" | "isbackground") && field.value == "true"
        })
}

/// The name that an answer gives what it started; `head` is its start in lower case.
fn name_in<'t>(text: &'t str, head: &str) -> Option<&'t str> {
    let start = NAME_SIGNS.iter().find_map(|sign| head.find(sign).map(|at| at + sign.len()))?;
    let rest = text[start..].trim_start_matches([' ', ':', '=', '"', '\'', '`', '>', '\\']);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = &rest[..rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())];
    (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// Whether a text has the name of a job in it as a whole word.
fn names_job(text: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_name) && !text[at + name.len()..].starts_with(is_name))
}
