//! What is said in words: rules, decisions, things to do, questions.

use std::ops::Range;
use std::sync::LazyLock;

use super::FactKind;
use super::book::{FactIndex, Ledger, Spot};
use super::constraint::{Cues, find_cue, is_constraint};
use super::fact::{Detail, Mention};
use super::own::{RULES_BYTES_MAX, SENTENCE_BYTES_MAX, outside_code, own_words};
use crate::ids::Text;
use crate::item::ItemKind;
use crate::reading::clipped;
use crate::tools::TodoState;

/// Words with which an agent says that it settled something, or found out why it is so.
const DECISION_CUES: &[&str] = &[
    "decided",
    "decision",
    "because",
    "instead of",
    "rather than",
    "let's use",
    "let's go with",
    "i'll use",
    "i will use",
    "we'll use",
    "going with",
    "opted",
    "chose",
    "the root cause",
    "the cause is",
    "the problem is",
    "the issue is",
    "the bug is",
    "turns out",
    "entschieden",
    "weil",
    "parce que",
    "décidé",
    "porque",
    "decidido",
    "решил",
    "потому что",
    "因为",
    "決め",
    "决定",
];

/// Words after which the reason stands.
const REASON_CUES: &[&str] =
    &["because", "since", "so that", "due to", "weil", "parce que", "porque", "потому что", "因为"];

/// Shorter sentences decide nothing that can be understood later.
const DECISION_BYTES_MIN: usize = 16;

/// Shorter questions ask "OK?".
const QUESTION_BYTES_MIN: usize = 8;

/// What stands before something to do in the middle of a text.
const TODO_MARK: &str = "TODO:";

/// Rules, questions and things to do in what a user typed.
pub(super) fn push_user(ledger: &mut Ledger, at: &Spot<'_>) {
    let own = own_words(at.text);
    let is_typed = own.iter().map(ExactSizeIterator::len).sum::<usize>() <= RULES_BYTES_MAX;
    for span in own {
        if is_typed {
            note_rule(ledger, at, &span, ItemKind::User);
        }
        note_question(ledger, at, &span, ItemKind::User);
    }
    note_todos(ledger, at);
}

/// Rules in a system or developer prompt.
pub(super) fn push_instructions(ledger: &mut Ledger, at: &Spot<'_>, given_by: ItemKind) {
    own_words(at.text).iter().for_each(|span| note_rule(ledger, at, span, given_by));
}

/// Decisions, questions and things to do in what the agent says.
pub(super) fn push_agent(ledger: &mut Ledger, at: &Spot<'_>) {
    for span in own_words(at.text) {
        note_decision(ledger, at, &span);
        note_question(ledger, at, &span, ItemKind::Assistant);
    }
    note_todos(ledger, at);
}

/// The sentence at a span, of a long one the beginning, and where that stands.
fn sentence<'t>(at: &Spot<'t>, span: &Range<usize>) -> (&'t str, Mention) {
    let sentence = clipped(&at.text[span.clone()], SENTENCE_BYTES_MAX);
    (sentence, at.place(span.start..span.start + sentence.len()))
}

fn note_rule(ledger: &mut Ledger, at: &Spot<'_>, span: &Range<usize>, given_by: ItemKind) {
    let (sentence, place) = sentence(at, span);
    if !is_constraint(sentence) {
        return;
    }
    let rule = || Detail::Constraint { given_by };
    // A rule of the prompt that the user gives too is the user's.
    if let Some(index) = ledger.note(FactKind::Constraint, sentence, place, rule)
        && given_by == ItemKind::User
    {
        ledger.fact_mut(index).detail = rule();
    }
}

fn note_decision(ledger: &mut Ledger, at: &Spot<'_>, span: &Range<usize>) {
    let (sentence, place) = sentence(at, span);
    if sentence.len() >= DECISION_BYTES_MIN && !is_question(sentence) && is_decision(sentence) {
        let detail = || Detail::Decision { reason: reason_in(sentence).map(Text::from) };
        ledger.note(FactKind::Decision, sentence, place, detail);
    }
}

pub(crate) fn is_decision(sentence: &str) -> bool {
    static INDEX: LazyLock<Cues> = LazyLock::new(|| Cues::new(DECISION_CUES));
    INDEX.are_in(sentence)
}

/// What follows the first word that gives a reason.
fn reason_in(sentence: &str) -> Option<&str> {
    // Lowering may change how long letters are, so the cue is looked for as written.
    let ends = REASON_CUES.iter().filter_map(|cue| find_cue(sentence, cue).map(|at| at + cue.len()));
    let reason = sentence.get(ends.min()?..)?.trim().trim_end_matches(['.', '!', '。']);
    (!reason.is_empty()).then_some(reason)
}

fn is_question(sentence: &str) -> bool {
    sentence.ends_with(['?', '？'])
}

fn note_question(ledger: &mut Ledger, at: &Spot<'_>, span: &Range<usize>, asked_by: ItemKind) {
    let (sentence, place) = sentence(at, span);
    if !is_question(sentence) || sentence.len() < QUESTION_BYTES_MIN {
        return;
    }
    let asked = || Detail::Question { asked_by, answered_by: None };
    let Some(index) = ledger.note(FactKind::Question, sentence, place, asked) else { return };
    // Asked again, it is open again.
    ledger.fact_mut(index).detail = asked();
    match asked_by {
        ItemKind::User => ledger.user_questions.push(index),
        _ => ledger.agent_questions.push(index),
    }
}

/// Lines of a check list, and what stands behind a mark.
fn note_todos(ledger: &mut Ledger, at: &Spot<'_>) {
    for line in outside_code(at.text) {
        let Some((span, state)) = todo_in(&at.text[line.clone()]) else { continue };
        let span = line.start + span.start..line.start + span.end;
        ledger.note_todo(at.place(span.clone()), &at.text[span], state);
    }
}

/// Where in a line something to do stands, and how far it is.
fn todo_in(line: &str) -> Option<(Range<usize>, TodoState)> {
    let listed = || {
        let (mark, text) = line
            .trim_start()
            .strip_prefix(['-', '*', '+'])?
            .trim_start()
            .strip_prefix('[')?
            .split_once(']')?;
        let state = match mark.trim() {
            "" => TodoState::Pending,
            "x" | "X" | "✓" => TodoState::Done,
            "~" | "-" | ">" | "/" => TodoState::InProgress,
            _ => return None,
        };
        Some((text, state))
    };
    let marked = || line.split_once(TODO_MARK).map(|(_, text)| (text, TodoState::Pending));
    let (rest, state) = listed().or_else(marked)?;
    let start = line.len() - rest.trim_start().len();
    let text = clipped(rest.trim(), SENTENCE_BYTES_MAX);
    (!text.is_empty()).then(|| (start..start + text.len(), state))
}

impl Ledger {
    /// Notes something to do, and how far it is now.
    pub(super) fn note_todo(&mut self, place: Mention, text: &str, state: TodoState) -> Option<FactIndex> {
        let index = self.note(FactKind::Todo, text, place, || Detail::Todo(state))?;
        self.fact_mut(index).detail = Detail::Todo(state);
        Some(index)
    }
}
