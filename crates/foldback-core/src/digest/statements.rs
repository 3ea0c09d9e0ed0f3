//! What the user said, sentence by sentence: which give a rule, which state something to remember, and
//! which no longer hold because the user said them again, or with another value.

use foldhash::{HashMap, HashMapExt, HashSet};
use std::ops::Range;

use super::story::{Story, What};
use crate::ledger::{SENTENCE_BYTES_MAX, is_constraint, own_words};
use crate::reading::clipped;

/// A longer sentence tells a story rather than one thing to remember.
const FACT_BYTES_MAX: usize = 300;

/// Facts that are compared with each other, the newest.
const FACTS_MAX: usize = 400;

/// A message of so many sentences is about one thing.
const SHORT_MESSAGE_SENTENCES: usize = 2;

/// Two sentences are about the same where they share this part of their rare words.
const SAME_PERCENT: f64 = 0.35;

/// Words with which somebody tells what they want, what holds, or what comes next.
const TELLING: &[&str] = &[
    "prefer",
    "goal",
    "want",
    "would like",
    "remember",
    "aim ",
    "plan to",
    "next step",
    "next up",
    "deadline",
    "call me",
    "my ",
    "our ",
    "i am",
    "i'm",
    "we are",
    "we're",
    "favourite",
    "favorite",
    "instead",
    "from now on",
    "no longer",
];

/// Words that say nothing about what a sentence is about.
const COMMON: &[&str] = &[
    "the", "a", "an", "is", "are", "was", "be", "to", "of", "in", "on", "for", "and", "or", "with", "this",
    "that", "it", "its", "as", "at", "by", "from", "we", "our", "you", "i", "do", "not", "no", "any", "all",
    "every", "must", "never", "always", "use", "used", "will", "my", "me", "does", "did", "has", "have",
    "now", "then", "than", "past", "more", "without", "under", "user", "team",
];

/// Words with which somebody forbids something, or leaves no choice.
const FORBIDDING: &[&str] = &[
    "never",
    "do not",
    "don't",
    "must not",
    "mustn't",
    "may not",
    "under no circumstances",
    "no more",
    "only",
    "forbidden",
    "prohibited",
    "not allowed",
    "off limits",
    "nie ",
    "niemals",
    "jamais",
    "nunca",
    "никогда",
    "нельзя",
    "禁止",
    "不要",
];

/// What a sentence of the user's is good for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    /// It forbids something, or leaves no choice.
    Ban,
    /// It says how to do something.
    Rule,
    /// It states something to remember: a wish, a value, a name.
    Fact,
    Talk,
    /// The user said it again later, or with another value.
    Outdated,
}

#[derive(Clone, Debug)]
pub(super) struct Sentence {
    pub(super) span: Range<usize>,
    pub(super) worth: Worth,
}

/// The sentences of every message of the user, by the number of its event.
#[derive(Debug, Default)]
pub(super) struct Statements(HashMap<usize, Vec<Sentence>>);

impl Statements {
    pub(super) fn of(story: &Story<'_>) -> Self {
        let mut all: HashMap<usize, Vec<Sentence>> = HashMap::new();
        let mut said_again: HashMap<String, (usize, usize)> = HashMap::new();
        let mut repeated: Vec<(usize, usize)> = Vec::new();
        let mut facts: Vec<Fact> = Vec::new();
        // What was worked on was a task: the next one replaces nothing.
        let mut is_task = false;
        for (number, event) in story.events.iter().enumerate().rev() {
            is_task |= matches!(event.what, What::Did(_));
            let What::User(text) = &event.what else { continue };
            let is_task = std::mem::take(&mut is_task);
            let mut sentences = sentences_of(text);
            for (place, sentence) in sentences.iter_mut().enumerate().rev() {
                let said = &text[sentence.span.clone()];
                let said_later = said_again.entry(said.trim().to_lowercase()).or_insert((number, place));
                if *said_later != (number, place) && says_something(said) {
                    sentence.worth = Worth::Outdated;
                    repeated.push(*said_later);
                } else if sentence.worth < Worth::Talk
                    && !is_task
                    && said.len() <= FACT_BYTES_MAX
                    && facts.len() < FACTS_MAX
                {
                    facts.push(Fact::new(number, place, said));
                }
            }
            all.insert(number, sentences);
        }
        for (event, place) in outdated(&facts) {
            let Some(sentences) = all.get_mut(&event) else { continue };
            // What is said beside it in a short message is about it.
            let place = if sentences.len() <= SHORT_MESSAGE_SENTENCES {
                0..sentences.len()
            } else {
                place..place + 1
            };
            sentences[place].iter_mut().for_each(|sentence| sentence.worth = Worth::Outdated);
        }
        // What is said again and again, and is no rule, is small talk.
        for (event, place) in repeated {
            if let Some(sentence) = all.get_mut(&event).and_then(|sentences| sentences.get_mut(place)) {
                sentence.worth = if sentence.worth == Worth::Fact { Worth::Talk } else { sentence.worth };
            }
        }
        Self(all)
    }

    /// The sentences of one message.
    pub(super) fn at(&self, event: usize) -> &[Sentence] {
        self.0.get(&event).map_or(&[], Vec::as_slice)
    }

    /// Whether nothing that a message says holds any longer, or is not said again later.
    pub(super) fn is_outdated(&self, event: usize) -> bool {
        let sentences = self.at(event);
        !sentences.is_empty() && sentences.iter().all(|sentence| sentence.worth == Worth::Outdated)
    }
}

/// A word alone is an answer: the same answer may be given to two questions.
fn says_something(said: &str) -> bool {
    said.split_whitespace().nth(2).is_some()
}

/// The sentences that somebody wrote with their own hands, each with its worth.
pub(super) fn sentences_of(text: &str) -> Vec<Sentence> {
    let sentence = |span: Range<usize>| {
        let said = clipped(&text[span.clone()], SENTENCE_BYTES_MAX);
        let worth = match (is_constraint(said), is_fact(said)) {
            (true, _) if is_ban(said) => Worth::Ban,
            (true, _) => Worth::Rule,
            (false, true) => Worth::Fact,
            (false, false) => Worth::Talk,
        };
        Sentence { span: span.start..span.start + said.len(), worth }
    };
    own_words(text).into_iter().map(sentence).collect()
}

fn is_ban(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let opens_with_no =
        || words(&lower).any(|(word, opens)| opens && word == "no") || lower.contains(": no ");
    FORBIDDING.iter().any(|cue| lower.contains(cue)) || opens_with_no()
}

fn is_fact(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let is_told = || {
        TELLING.iter().any(|cue| lower.contains(cue)) || words(sentence).any(|(word, at)| is_value(word, at))
    };
    sentence.len() <= FACT_BYTES_MAX && !sentence.ends_with(['?', '？']) && is_told()
}

/// The words of a sentence, each with whether it opens the sentence.
fn words(sentence: &str) -> impl Iterator<Item = (&str, bool)> {
    let all = sentence.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    all.filter(|word| !word.is_empty()).enumerate().map(|(place, word)| (word, place == 0))
}

/// Whether a word is a number, a name, a path or a code.
fn is_value(word: &str, opens: bool) -> bool {
    let is_name = || word.len() > 1 && !opens && word.starts_with(char::is_uppercase);
    word.bytes().any(|byte| byte.is_ascii_digit() || byte == b'/') || is_name()
}

/// A sentence to compare with others.
struct Fact {
    event: usize,
    place: usize,
    about: HashSet<String>,
    values: HashSet<String>,
}

impl Fact {
    fn new(event: usize, place: usize, said: &str) -> Self {
        let (mut about, mut values) = (HashSet::default(), HashSet::default());
        for (word, opens) in words(said) {
            let lower = word.to_lowercase();
            if is_value(word, opens) {
                values.insert(lower);
            } else if !COMMON.contains(&lower.as_str()) {
                about.insert(lower);
            }
        }
        Self { event, place, about, values }
    }
}

/// Facts, the newest first, that a newer one states with another value.
fn outdated(facts: &[Fact]) -> Vec<(usize, usize)> {
    let mut counts: HashMap<&str, f64> = HashMap::new();
    for word in facts.iter().flat_map(|fact| &fact.about) {
        *counts.entry(word).or_default() += 1.0;
    }
    let weight = |words: &mut dyn Iterator<Item = &String>| -> f64 {
        words.filter_map(|word| counts.get(word.as_str())).map(|count| 1.0 / count).sum()
    };
    let is_replaced = |(number, old): &(usize, &Fact)| {
        facts[..*number].iter().any(|new| {
            let differs = old.values.difference(&new.values).next().is_some()
                && new.values.difference(&old.values).next().is_some();
            let all = weight(&mut old.about.iter()).min(weight(&mut new.about.iter()));
            differs && all > 0.0 && weight(&mut old.about.intersection(&new.about)) >= all * SAME_PERCENT
        })
    };
    facts.iter().enumerate().filter(is_replaced).map(|(_, fact)| (fact.event, fact.place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of some sentences, in order, no longer hold.
    fn outdated_of(said: &[&str]) -> Vec<usize> {
        let newest_first: Vec<Fact> =
            said.iter().enumerate().rev().map(|(number, said)| Fact::new(number, 0, said)).collect();
        outdated(&newest_first).into_iter().map(|(event, _)| event).collect()
    }

    #[test]
    fn what_is_stated_again_with_another_value_replaces_the_older() {
        let said =
            ["The deadline is 4 May.", "The server runs on port 8080.", "Our deadline moved to 9 June."];
        assert_eq!(outdated_of(&said), [0]);
        assert!(outdated_of(&["Fix issue 12.", "The docs live in docs/a.md.", "Thanks, Anna."]).is_empty());
    }

    #[test]
    fn rules_without_a_value_add_up() {
        assert!(outdated_of(&["Never use tabs in the code.", "Never use globals in the code."]).is_empty());
    }

    #[test]
    fn a_sentence_is_a_rule_a_fact_or_talk() {
        let worth = |text: &str| sentences_of(text)[0].worth;
        assert_eq!(worth("Never touch the lexer."), Worth::Ban);
        assert_eq!(worth("Always format the code."), Worth::Rule);
        assert_eq!(worth("The staging server is staging-3.example.org."), Worth::Fact);
        assert_eq!(worth("I would like shorter answers."), Worth::Fact);
        assert_eq!(worth("Looks good to me so far."), Worth::Talk);
    }
}
