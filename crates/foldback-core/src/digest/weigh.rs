//! How likely it is that a name will be needed again.
//!
//! A logistic model over what is known about a name when its past is folded. The coefficients were
//! fitted on recorded sessions, by whether the agent wrote the name again later without having been
//! told it once more; BENCHMARKS.md says on which, and how it does on the others.

use super::passages::Name;
use super::sources::{Subject, Topic, TopicIndex};
use crate::ledger::FactKind;

const BASE: f64 = -2.22;
const PATH: f64 = -0.22;
const URL: f64 = -0.03;
const HASH: f64 = -0.36;
const NUMBER: f64 = -0.48;
/// Most commands are run once.
const COMMAND: f64 = -1.4;
/// For an identifier with a digit in it: many are made up by programs.
const DIGIT: f64 = -0.43;
/// For the logarithm of how many items ago it was last mentioned; and where that is not long ago.
const AGE: f64 = -0.07;
const NEAR: f64 = 0.87;
/// For the logarithm of how often it was mentioned, in how many items, and in how many of them only
/// because a tool answered so.
const MENTIONS: f64 = 0.37;
const ITEMS: f64 = 0.89;
const ANSWERS: f64 = -0.95;
/// Where the agent gave it to a tool, and where it spoke of it.
const GIVEN: f64 = 0.72;
const SAID: f64 = 0.18;
/// For the logarithm of how long the shortest text is in which it stood: a long one names much that
/// is never looked at.
const TEXT_BYTES: f64 = -0.39;
/// For a file that was read, and for one that was changed.
const READ: f64 = 0.43;
const CHANGED: f64 = 0.04;
/// For every twenty bytes of it.
const LENGTH: f64 = -0.20;

const LENGTH_UNIT: f64 = 20.0;
const LENGTH_MAX: usize = 60;

/// So many items ago is not long.
const NEAR_ITEMS: usize = 30;

/// How much more a name counts that stands in what the summary was asked to attend to.
const FOCUS_FACTOR: f64 = 4.0;

/// What everything weighs.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) names: Vec<f64>,
    pub(super) topics: Vec<f64>,
}

impl Weights {
    /// Weighs names and topics, seen from item `now`.
    pub(super) fn of(names: &[Name<'_>], topics: &[Topic<'_>], now: usize) -> Self {
        let mut logarithms = Logarithms::new();
        Self {
            names: names.iter().map(|name| weight(name, now, &mut logarithms)).collect(),
            topics: topics.iter().map(|topic| topic_weight(topic, now, &mut logarithms)).collect(),
        }
    }
}

/// Logarithms that were worked out before: most names are as old as their neighbours, as rare, and
/// stand in the same text.
struct Logarithms(Vec<(u64, f64)>);

/// How many are remembered.
const LOGARITHM_COUNT: usize = 1 << 10;

impl Logarithms {
    fn new() -> Self {
        Self(vec![(0, 0.0); LOGARITHM_COUNT])
    }

    /// The logarithm of a number and one.
    fn of(&mut self, number: u64) -> f64 {
        let known = &mut self.0[number as usize % LOGARITHM_COUNT];
        if known.0 != number {
            *known = (number, (number as f64).ln_1p());
        }
        known.1
    }
}

/// The chance that a name is needed again, seen from item `now`.
fn weight(name: &Name<'_>, now: usize, logarithms: &mut Logarithms) -> f64 {
    let indicator = |is_so: bool| f64::from(u8::from(is_so));
    let age = now.saturating_sub(name.newest_item);
    let has_digit = name.kind == FactKind::Identifier && name.text.bytes().any(|byte| byte.is_ascii_digit());
    let score = BASE
        + kind_score(name.kind)
        + DIGIT * indicator(has_digit)
        + AGE * logarithms.of(age as u64)
        + NEAR * indicator(age < NEAR_ITEMS)
        + MENTIONS * logarithms.of(u64::from(name.mention_count))
        + ITEMS * logarithms.of(u64::from(name.item_count))
        + ANSWERS * logarithms.of(u64::from(name.answer_count))
        + GIVEN * indicator(name.is_given)
        + SAID * indicator(name.is_said)
        + TEXT_BYTES * logarithms.of(name.text_bytes_min as u64)
        + READ * indicator(name.is_read)
        + CHANGED * indicator(name.is_changed)
        + LENGTH * (name.text.len().min(LENGTH_MAX) as f64 / LENGTH_UNIT);
    1.0 / (1.0 + (-score).exp())
}

/// The chance that a command is run again: that of a name which only the agent wrote, as often as it
/// ran it. Nothing for what is no command.
fn topic_weight(topic: &Topic<'_>, now: usize, logarithms: &mut Logarithms) -> f64 {
    let Subject::Command(command) = &topic.subject else { return 0.0 };
    let count = u32::try_from(topic.call_count).unwrap_or(u32::MAX);
    let mut name = Name::new(command, FactKind::Command, TopicIndex(0));
    name.mention_count = count;
    name.item_count = count;
    name.newest_item = topic.newest_item;
    name.is_given = true;
    name.text_bytes_min = command.len();
    weight(&name, now, logarithms)
}

/// The same for a name that somebody asked about.
pub(super) fn focused(weight: f64) -> f64 {
    weight * FOCUS_FACTOR
}

fn kind_score(kind: FactKind) -> f64 {
    match kind {
        FactKind::Path => PATH,
        FactKind::Url => URL,
        FactKind::Hash => HASH,
        FactKind::Number => NUMBER,
        FactKind::Command => COMMAND,
        FactKind::Identifier
        | FactKind::TestResult
        | FactKind::Error
        | FactKind::Constraint
        | FactKind::Decision
        | FactKind::Todo
        | FactKind::Question
        | FactKind::Job => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithm_that_is_remembered_is_the_same() {
        let mut logarithms = Logarithms::new();
        for number in (0..5_000).chain(0..5_000) {
            assert_eq!(logarithms.of(number), (number as f64).ln_1p());
        }
    }
}
