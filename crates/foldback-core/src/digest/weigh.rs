//! How likely it is that a name will be needed again.
//!
//! A logistic model over what is known about a name when its past is folded. The coefficients were
//! fitted on recorded sessions, by whether the agent wrote the name again later without having been
//! told it once more; BENCHMARKS.md says on which, and how it does on the others.

use super::passages::Name;
use super::sources::{Subject, Topic, TopicIndex};
use crate::ledger::FactKind;

const BASE: f64 = -4.68;
const PATH: f64 = 0.36;
const URL: f64 = -0.76;
const HASH: f64 = -1.12;
const NUMBER: f64 = -0.21;
/// For the logarithm of how many items ago it was last mentioned.
const AGE: f64 = -0.21;
/// For the logarithm of how often it was mentioned, and in how many items.
const MENTIONS: f64 = 0.18;
const ITEMS: f64 = 0.07;
/// Where the agent itself wrote it; how often, and how long ago.
const AGENT: f64 = 2.01;
const AGENT_ITEMS: f64 = 0.99;
const AGENT_AGE: f64 = -0.19;
const USER: f64 = 1.63;
/// For every twenty bytes of it.
const LENGTH: f64 = -0.16;

const LENGTH_UNIT: f64 = 20.0;
const LENGTH_MAX: usize = 60;

/// How much more a name counts that stands in what the summary was asked to attend to.
const FOCUS_FACTOR: f64 = 4.0;

/// The chance that a name is needed again, seen from item `now`.
pub(super) fn weight(name: &Name<'_>, now: usize) -> f64 {
    let age = |item: usize| ((now.saturating_sub(item) + 1) as f64).ln();
    let mut score = BASE + kind_score(name.kind);
    score += AGE * age(name.newest_item);
    score += MENTIONS * f64::from(name.mention_count).ln_1p();
    score += ITEMS * f64::from(name.item_count).ln_1p();
    if name.agent_item_count > 0 {
        score += AGENT + AGENT_ITEMS * f64::from(name.agent_item_count).ln_1p();
        score += AGENT_AGE * age(name.newest_agent_item);
    }
    if name.is_users {
        score += USER;
    }
    score += LENGTH * (name.text.len().min(LENGTH_MAX) as f64 / LENGTH_UNIT);
    1.0 / (1.0 + (-score).exp())
}

/// The chance that a command is run again: that of a name which only the agent wrote, as often as it
/// ran it. Nothing for what is no command.
pub(super) fn topic_weight(topic: &Topic, now: usize) -> f64 {
    let Subject::Command(command) = &topic.subject else { return 0.0 };
    let count = u32::try_from(topic.call_count).unwrap_or(u32::MAX);
    let name = Name {
        text: command,
        kind: FactKind::Command,
        mention_count: count,
        item_count: count,
        newest_item: topic.newest_item,
        agent_item_count: count,
        newest_agent_item: topic.newest_item,
        is_users: false,
        topic: TopicIndex(0),
    };
    weight(&name, now)
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
        FactKind::Identifier
        | FactKind::Command
        | FactKind::TestResult
        | FactKind::Error
        | FactKind::Constraint
        | FactKind::Decision
        | FactKind::Todo
        | FactKind::Question
        | FactKind::Job => 0.0,
    }
}
