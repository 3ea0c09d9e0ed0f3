//! The digest as text: sections of sentences and typed lines.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

use super::choose::Choice;
use super::lines::Lines;
use super::passages::Passages;
use super::sources::{Author, Source, Sources, Subject, Topic, first_sentence};
use super::words::Words;
use crate::ledger::{is_decision, sentences};
use crate::reading::clipped;
use crate::tools::TodoState;
use crate::written::{SECTION_MARK, USER_MARK, USER_SAID};

pub(super) const STATE: &str = "Where it stands";
pub(super) const FILES: &str = "Files";
pub(super) const COMMANDS: &str = "Commands";
const ERRORS: &str = "Errors";
const DECISIONS: &str = "Decisions";
const NOTES: &str = "Notes, in the agent's words";
const ELSEWHERE: &str = "Also seen";
pub(super) const EARLIER: &str = "From an earlier summary";
pub(super) const QUOTE_MARK: &str = "  | ";
/// Between two quotations on one line.
pub(super) const JOINT: &str = " … ";
pub(super) const NAMES: &str = "mentions: ";
pub(super) const DONE: &str = "Done: ";
pub(super) const IN_PROGRESS: &str = "In progress: ";
pub(super) const NEXT: &str = "Next: ";

/// As much is quoted of why a file was changed.
const WHY_BYTES_MAX: usize = 100;

/// As much is told of a command.
const COMMAND_BYTES_MAX: usize = 200;

/// Errors that are listed, newest first.
const ERRORS_MAX: usize = 8;

/// Things to do that are listed of each state.
const TODOS_MAX: usize = 20;

/// One error for so many tokens of digest.
const TOKENS_PER_ERROR: usize = 3_000;

/// As much is quoted of what the agent said last: of the digest, and at most.
const LAST_DIVISOR: usize = 80;
const LAST_BYTES_MAX: usize = 400;
const BYTES_PER_TOKEN: usize = 4;

/// Share of a digest for what the agent decided, and how much is quoted of one decision.
const DECISIONS_DIVISOR: usize = 40;
const DECISION_BYTES_MAX: usize = 240;

/// What stands in every digest, whatever else there is room for.
pub(super) fn frame(sources: &Sources<'_>, words: &Words, tokens_max: u64) -> Frame {
    let tokens_max = tokens_max as usize;
    let last_bytes_max = (tokens_max * BYTES_PER_TOKEN / LAST_DIVISOR).min(LAST_BYTES_MAX);
    let errors_max = (tokens_max / TOKENS_PER_ERROR).clamp(1, ERRORS_MAX);
    Frame {
        said: said(sources, words),
        state: state(sources, last_bytes_max),
        errors: errors(sources, errors_max),
        decisions: decisions(sources, tokens_max * BYTES_PER_TOKEN / DECISIONS_DIVISOR),
    }
}

/// The sections that do not depend on what is chosen.
#[derive(Debug, Default)]
pub(super) struct Frame {
    said: String,
    state: String,
    errors: String,
    decisions: String,
}

impl Frame {
    /// All of it.
    pub(super) fn text(&self) -> String {
        [&*self.said, &self.state, &self.errors, &self.decisions].concat()
    }
}

fn section(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("\n{SECTION_MARK}{title}{body}") }
}

fn said(sources: &Sources<'_>, words: &Words) -> String {
    let mut body = String::new();
    let mut end_before: Option<(u32, usize)> = None;
    for (source_index, span) in &words.spans {
        let text = &sources.texts[*source_index as usize].text;
        let joint =
            end_before.filter(|&(source, _)| source == *source_index).map(|(_, end)| &text[end..span.start]);
        match joint {
            // Sentences that stood side by side still do.
            Some(between) if between.trim().is_empty() && !between.contains('\n') => body.push_str(between),
            _ => {
                body.push('\n');
                body.push_str(USER_MARK);
            }
        }
        body.push_str(&text[span.clone()]);
        end_before = Some((*source_index, span.end));
    }
    section(USER_SAID, &body)
}

fn state(sources: &Sources<'_>, last_bytes_max: usize) -> String {
    let mut body = String::new();
    for (mark, state) in [
        (DONE, TodoState::Done),
        (IN_PROGRESS, TodoState::InProgress),
        (NEXT, TodoState::Pending),
        ("Given up: ", TodoState::Cancelled),
    ] {
        let todos = sources.todos.iter().filter(|todo| todo.state == state);
        let texts: Vec<&str> =
            todos.map(|todo| todo.text.lines().next().unwrap_or("")).take(TODOS_MAX).collect();
        if !texts.is_empty() {
            body.push('\n');
            body.push_str(mark);
            body.push_str(&texts.join("; "));
        }
    }
    let is_note = |source: &&Source<'_>| {
        source.author == Author::Agent
            && !source.is_beside
            && sources.topic(source.topic).subject == Subject::Notes
    };
    if let Some(last) = sources.texts.iter().rev().find(is_note) {
        let text: String = last.text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Writing into a string cannot fail.
        let _ = write!(body, "\nLast said: {}", clipped(&text, last_bytes_max));
    }
    section(STATE, &body)
}

fn errors(sources: &Sources<'_>, errors_max: usize) -> String {
    let mut open: Vec<(usize, &str, &Topic<'_>)> = sources
        .topics
        .iter()
        .filter_map(|topic| topic.open_error.as_ref().map(|(item, line)| (*item, line.as_str(), topic)))
        .filter(|(_, line, _)| !line.is_empty())
        .collect();
    open.sort_by_key(|&(item, ..)| std::cmp::Reverse(item));
    open.truncate(errors_max);
    let mut body = String::new();
    let last = sources.last_error.as_ref().map(|(topic, line)| (line.as_str(), sources.topic(*topic)));
    if let Some((line, topic)) = last.filter(|(line, _)| open.iter().all(|(_, open, _)| open != line)) {
        let is_open = topic.open_error.as_ref().is_some_and(|(_, open)| open == line);
        push_error(&mut body, if is_open { "open" } else { "fixed since" }, line, topic);
    }
    for (_, line, topic) in open {
        push_error(&mut body, "open", line, topic);
    }
    section(ERRORS, &body)
}

fn push_error(body: &mut String, state: &str, line: &str, topic: &Topic<'_>) {
    // Writing into a string cannot fail.
    let _ = match &topic.subject {
        Subject::Command(command) => write!(body, "\n- {state}, `{}`: {line}", first_sentence(command, 120)),
        Subject::File(path) => write!(body, "\n- {state}, {path}: {line}"),
        Subject::Tool(name) => write!(body, "\n- {state}, {name}: {line}"),
        Subject::Notes | Subject::Scene | Subject::Earlier => write!(body, "\n- {state}: {line}"),
    };
}

/// What the agent decided, the newest first to be kept, in order.
fn decisions(sources: &Sources<'_>, bytes_max: usize) -> String {
    let (mut kept, mut left): (Vec<&str>, usize) = (Vec::new(), bytes_max);
    for source in sources.texts.iter().rev() {
        let spans = decisions_in(sources, source);
        for &(start, end) in spans.iter().rev() {
            let sentence = &source.text[start as usize..end as usize];
            if !kept.contains(&sentence) {
                let Some(rest) = left.checked_sub(sentence.len()) else {
                    kept.reverse();
                    return listed(&kept);
                };
                left = rest;
                kept.push(sentence);
            }
        }
    }
    kept.reverse();
    listed(&kept)
}

/// Where the agent tells a decision.
pub(super) fn decisions_in<'r>(sources: &Sources<'_>, source: &'r Source<'_>) -> Cow<'r, [(u32, u32)]> {
    let is_note = source.author == Author::Agent && sources.topic(source.topic).subject == Subject::Notes;
    let told = || decisions_told(&source.text);
    match source.known {
        _ if !is_note => Cow::Borrowed(&[]),
        Some(known) => Cow::Borrowed(known.decisions(told)),
        None => Cow::Owned(told()),
    }
}

/// Where a text tells a decision; of long sentences the beginning.
pub(super) fn decisions_told(text: &str) -> Vec<(u32, u32)> {
    let clipped = |span: Range<usize>| (span.start, clipped(&text[span], DECISION_BYTES_MAX));
    let decisions = sentences(text).into_iter().map(clipped).filter(|(_, sentence)| is_decision(sentence));
    decisions.map(|(start, sentence)| (start as u32, (start + sentence.len()) as u32)).collect()
}

fn listed(sentences: &[&str]) -> String {
    let lines: String = sentences.iter().map(|sentence| format!("\n- {sentence}")).collect();
    section(DECISIONS, &lines)
}

/// The line under which a topic's passages stand; empty where each stands for itself.
pub(super) fn heading(topic: &Topic<'_>) -> String {
    let mut text = String::new();
    match &topic.subject {
        Subject::File(path) => {
            push_all(&mut text, &["\n- ", path]);
            push_file_clause(&mut text, topic);
        }
        Subject::Command(command) => {
            push_all(&mut text, &["\n- `", &command_told(command), "`"]);
            push_run_clause(&mut text, topic);
        }
        Subject::Tool(name) => {
            push_all(&mut text, &["\n- ", name]);
            push_run_clause(&mut text, topic);
        }
        Subject::Notes | Subject::Scene | Subject::Earlier => {}
    }
    text
}

fn push_all(text: &mut String, pieces: &[&str]) {
    text.reserve(pieces.iter().map(|piece| piece.len()).sum());
    text.extend(pieces.iter().copied());
}

/// A command as it is told: one line of it, and not all of a long one.
fn command_told(command: &str) -> Cow<'_, str> {
    let line = command.lines().next().unwrap_or(command);
    let clip = clipped(line, COMMAND_BYTES_MAX);
    if clip.len() == command.len() { Cow::Borrowed(command) } else { Cow::Owned(format!("{clip} …")) }
}

fn push_file_clause(text: &mut String, topic: &Topic<'_>) {
    if let Some(earlier) = topic.earlier.as_ref().filter(|_| topic.change_count + topic.read_count == 0) {
        return text.push_str(earlier);
    }
    let deleted_count = usize::from(topic.is_deleted);
    let clauses =
        [(topic.change_count, "changed"), (topic.read_count, "read"), (deleted_count, "deleted in the end")];
    for (position, (count, clause)) in clauses.into_iter().filter(|(count, _)| *count > 0).enumerate() {
        push_all(text, &[if position == 0 { ": " } else { ", " }, clause]);
        push_times(text, count);
    }
    let why = topic.why.map(|said| first_sentence(said, WHY_BYTES_MAX));
    if let Some(why) = why.filter(|why| !why.is_empty()) {
        push_all(text, &["; ", why]);
    }
}

fn push_run_clause(text: &mut String, topic: &Topic<'_>) {
    if let Some(earlier) = topic.earlier.as_ref().filter(|_| topic.call_count == 0) {
        return text.push_str(earlier);
    }
    push_times(text, topic.call_count);
    if let Some(outcome) = &topic.outcome {
        push_all(text, &[": ", outcome]);
    }
}

/// How often something happened, if more than once.
fn push_times(text: &mut String, count: usize) {
    if count > 1 {
        // Writing into a string cannot fail.
        let _ = write!(text, " ×{count}");
    }
}

/// All sections, with what was chosen.
pub(super) fn write(
    frame: &Frame,
    sources: &Sources<'_>,
    passages: &Passages<'_>,
    headings: &[String],
    choice: &Choice,
) -> String {
    let Lines { mut topics, notes, others } = Lines::of(sources, passages, choice);
    let mut is_written = vec![false; topics.len()];
    let mut body = |is_wanted: &dyn Fn(&Topic<'_>) -> bool| {
        let mut body = String::new();
        for (index, group) in topics.iter_mut().enumerate() {
            let is_shown = choice.is_open[index] || !group.is_empty();
            if is_wanted(&sources.topics[index]) && is_shown && !is_written[index] {
                is_written[index] = true;
                body.push_str(&headings[index]);
                body.push_str(&std::mem::take(group));
            }
        }
        body
    };
    let changed = body(&|topic| matches!(topic.subject, Subject::File(_)) && topic.change_count > 0);
    let files = changed + &body(&|topic| matches!(topic.subject, Subject::File(_)));
    let commands = body(&|topic| matches!(topic.subject, Subject::Command(_)));
    let notes: String = notes.into_iter().map(|note| note.lines).collect();
    let elsewhere = body(&|_| true) + &others;
    [
        frame.said.clone(),
        frame.state.clone(),
        section(FILES, &files),
        section(COMMANDS, &commands),
        frame.errors.clone(),
        frame.decisions.clone(),
        section(NOTES, &notes),
        section(ELSEWHERE, &elsewhere),
    ]
    .concat()
}
