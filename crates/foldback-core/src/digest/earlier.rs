//! Reads an earlier summary back: a digest by its own sections, anything else as notes.

use std::borrow::Cow;

use super::sources::{Author, Source, Sources, Subject};
use super::write::{COMMANDS, DONE, EARLIER, FILES, IN_PROGRESS, JOINT, NAMES, NEXT, QUOTE_MARK};
use crate::secrets::redact;
use crate::tokens::Meter;
use crate::tools::{TodoEntry, TodoState};
use crate::written::{SECTION_MARK, SummaryForm, USER_MARK, USER_SAID, WrittenSummary, said_by_user};

/// What a line costs beside its words: its end, and a mark.
const LINE_TOKENS: u64 = 2;

/// Shorter lines may stand in others by chance.
const REPEATED_BYTES_MIN: usize = 16;

/// Takes the text of an earlier summary in.
pub(super) fn take_in<'r>(sources: &mut Sources<'r>, item_index: usize, text: Cow<'r, str>) {
    match WrittenSummary::parse(&text) {
        Some(written) if written.form == SummaryForm::Digest => {
            let lines = written.lines.to_owned();
            take_sections(sources, item_index, &lines);
        }
        Some(written) if written.form == SummaryForm::Model => {
            let said = said_by_user(written.lines);
            let told_start = said.last().map_or(0, |last| last.end);
            let told = written.lines[told_start..].to_owned();
            let said: Vec<String> = said.into_iter().map(|span| written.lines[span].to_owned()).collect();
            for words in said {
                push(sources, item_index, Author::User, Subject::Notes, Cow::Owned(words));
            }
            push(sources, item_index, Author::Agent, Subject::Earlier, Cow::Owned(told));
        }
        _ => push(sources, item_index, Author::Agent, Subject::Earlier, text),
    }
}

fn push<'r>(
    sources: &mut Sources<'r>,
    item_index: usize,
    author: Author,
    subject: Subject,
    text: Cow<'r, str>,
) {
    let topic = sources.about(subject);
    if !text.trim().is_empty() {
        sources.texts.push(Source {
            item_index,
            author,
            topic,
            text,
            is_beside: false,
            is_old: false,
            known: None,
        });
    }
}

/// What earlier summaries say that `digest` does not, line by line as far as `tokens_max` goes: what was
/// told once is the best there is for room that nothing else wants.
pub(super) fn rest(sources: &Sources<'_>, digest: &str, tokens_max: u64, meter: &Meter) -> String {
    let is_earlier = |source: &&Source<'_>| {
        source.author == Author::Agent && sources.topic(source.topic).subject == Subject::Earlier
    };
    let mut rest = format!("\n{SECTION_MARK}{EARLIER}");
    let mut left = tokens_max.saturating_sub(meter.text(&rest));
    let empty_len = rest.len();
    for line in sources.texts.iter().filter(is_earlier).flat_map(|source| source.text.lines()) {
        let line = line.trim_end();
        let is_told = line.len() >= REPEATED_BYTES_MIN && digest.contains(line.trim_start());
        // What only looks like the user's words would be taken for them.
        let claims_user = line.trim_start().starts_with(USER_MARK.trim_end());
        if line.is_empty() || is_told || claims_user {
            continue;
        }
        // No section of this one.
        let mark = if line.starts_with(SECTION_MARK) { "- " } else { "" };
        let line = redact(line);
        let Some(after) = left.checked_sub(meter.text(&line) + LINE_TOKENS) else { break };
        left = after;
        rest.extend(["\n", mark, &*line]);
    }
    if rest.len() == empty_len { String::new() } else { rest }
}

fn take_sections(sources: &mut Sources<'_>, item_index: usize, lines: &str) {
    let mut section = "";
    let mut subject = Subject::Earlier;
    // What is read back was worth keeping: it counts as the agent's own.
    let note = |sources: &mut Sources<'_>, subject: &Subject, text: &str| {
        push(sources, item_index, Author::Agent, subject.clone(), Cow::Owned(text.to_owned()));
    };
    for line in lines.lines() {
        if let Some(title) = line.strip_prefix(SECTION_MARK) {
            (section, subject) = (title, Subject::Earlier);
        } else if let Some(words) = line.strip_prefix(USER_MARK).filter(|_| section == USER_SAID) {
            push(sources, item_index, Author::User, Subject::Notes, Cow::Owned(words.to_owned()));
        } else if let Some(quote) = line.strip_prefix(QUOTE_MARK) {
            quote.split(JOINT).for_each(|quote| note(sources, &subject, quote));
        } else if let Some(names) = line.trim_start().strip_prefix(NAMES) {
            note(sources, &subject, names);
        } else if let Some(heading) = line.strip_prefix("- ") {
            subject = subject_of(section, heading);
            match subject {
                Subject::Earlier => note(sources, &subject, heading),
                _ => {
                    let topic = sources.about(subject.clone());
                    let topic = sources.topic_mut(topic);
                    topic.newest_item = item_index;
                    topic.earlier = clause_of(&subject, heading).map(str::to_owned);
                }
            }
        } else if !take_todos(sources, line) {
            note(sources, &Subject::Earlier, line);
        }
    }
}

fn subject_of(section: &str, heading: &str) -> Subject {
    match section {
        FILES => Subject::File(heading.split(": ").next().unwrap_or(heading).to_owned()),
        COMMANDS => match heading.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
            Some((command, _)) => Subject::Command(command.to_owned()),
            None => Subject::Earlier,
        },
        _ => Subject::Earlier,
    }
}

/// What a heading says of its subject.
fn clause_of<'h>(subject: &Subject, heading: &'h str) -> Option<&'h str> {
    match subject {
        Subject::File(path) => heading.strip_prefix(path.as_str()),
        Subject::Command(command) => heading.get(command.len() + 2..),
        Subject::Tool(_) | Subject::Notes | Subject::Scene | Subject::Earlier => None,
    }
}

fn take_todos(sources: &mut Sources<'_>, line: &str) -> bool {
    let states = [(DONE, TodoState::Done), (IN_PROGRESS, TodoState::InProgress), (NEXT, TodoState::Pending)];
    let Some((list, state)) =
        states.iter().find_map(|&(mark, state)| Some((line.strip_prefix(mark)?, state)))
    else {
        return false;
    };
    let entries = list.split("; ").map(|text| TodoEntry { text: text.trim().to_owned(), state });
    sources.todos.extend(entries);
    true
}
