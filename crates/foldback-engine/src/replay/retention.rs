//! Retention: what the agent had to remember, and what a view still tells it.
//!
//! At a cut, the facts are those that the agent itself writes after it (in its text and in what it
//! gives to tools), that occurred before it, and that nothing after the cut told the agent again
//! before it used them. A view tells a fact where it stands inside [`CONTEXT_CHARACTERS`] consecutive
//! characters of a past line that held it, or inside the whole line if that is shorter: a list of bare
//! names tells nothing. White space is folded everywhere.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use foldback_core::ledger::scan;
use foldback_core::{FactKind, Item, ItemKind};

use super::lines::{History, view_text};

/// Items after a cut in which the agent's needs are looked for.
pub const HORIZON_ITEMS: usize = 120;

/// So much of a past line around a fact says what the fact is about.
pub const CONTEXT_CHARACTERS: usize = 40;

/// Facts that one cut asks for at most; the first that are used count.
const FACTS_MAX: usize = 20_000;

/// Different past lines that are kept for one fact.
const LINES_MAX: usize = 65_536;

/// Places in a view at which one fact is looked at.
const PLACES_MAX: usize = 4_096;

/// The longest a character is in UTF-8.
const CHARACTER_BYTES_MAX: usize = 4;

/// How many facts were needed, and how many of them a view tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// What the agent had to remember.
    pub needed: usize,
    /// How much of it the view tells.
    pub told: usize,
}

impl Tally {
    /// The share that is told; none where nothing was needed.
    pub fn retention(&self) -> Option<f64> {
        share(self.told, self.needed)
    }

    fn add(&mut self, other: &Self) {
        self.needed += other.needed;
        self.told += other.told;
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What a view still holds, by kind of fact. Kinds that were not needed are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// By kind, in the order of reports.
    pub by_kind: BTreeMap<FactKind, Tally>,
}

impl Retention {
    /// All kinds together.
    pub fn total(&self) -> Tally {
        let mut total = Tally::default();
        self.by_kind.values().for_each(|tally| total.add(tally));
        total
    }

    /// Adds what another view holds.
    pub fn add(&mut self, other: &Self) {
        for (&kind, tally) in &other.by_kind {
            self.by_kind.entry(kind).or_default().add(tally);
        }
    }
}

/// What the agent had to remember at one cut.
#[derive(Debug)]
pub struct Needs<'h> {
    facts: Vec<Fact<'h>>,
    finder: Finder,
}

#[derive(Debug)]
struct Fact<'h> {
    kind: FactKind,
    text: &'h str,
    /// The past lines that held it, and where.
    contexts: Vec<(&'h str, usize)>,
}

impl<'h> Needs<'h> {
    /// What the agent needed in the `horizon` items after the first `cut` ones.
    pub fn at(history: &'h History, cut: usize, horizon: usize) -> Self {
        let cut = cut.min(history.len());
        let end = history.len().min(cut.saturating_add(horizon));
        let wanted = untold(history, cut..end, uses(history, cut..end));
        let mut facts: Vec<Fact<'_>> =
            wanted.into_iter().map(|(text, kind)| Fact { kind, text, contexts: Vec::new() }).collect();
        find_contexts(history, cut, &mut facts);
        let commands: HashSet<&str> =
            history.items[..cut].iter().flat_map(|item| item.commands.iter().map(|line| &**line)).collect();
        facts.retain(|fact| {
            !fact.contexts.is_empty() && (fact.kind != FactKind::Command || commands.contains(fact.text))
        });
        let finder = Finder::new(facts.iter().map(|fact| fact.text));
        Self { facts, finder }
    }

    /// Whether nothing had to be remembered, so that retention cannot be measured.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// The facts and their kinds, in the order in which they were used.
    pub fn facts(&self) -> impl Iterator<Item = (FactKind, &str)> {
        self.facts.iter().map(|fact| (fact.kind, fact.text))
    }

    /// How much of it a view of these items holds.
    pub fn retention<'i>(&self, view: impl IntoIterator<Item = &'i Arc<Item>>) -> Retention {
        let mut retention = Retention::default();
        for (fact, state) in self.facts.iter().zip(self.states(&view_text(view))) {
            let tally = retention.by_kind.entry(fact.kind).or_default();
            tally.needed += 1;
            tally.told += usize::from(state == State::InContext);
        }
        retention
    }

    /// The facts that a view of these items no longer holds.
    pub fn lost<'i>(&self, view: impl IntoIterator<Item = &'i Arc<Item>>) -> Vec<(FactKind, &str)> {
        let states = self.states(&view_text(view));
        let lost = self.facts().zip(states).filter(|(_, state)| *state == State::Absent);
        lost.map(|(fact, _)| fact).collect()
    }

    fn states(&self, view: &str) -> Vec<State> {
        let mut states = vec![State::Absent; self.facts.len()];
        let mut places = vec![0; self.facts.len()];
        self.finder.find(view, |index, span| {
            if states[index] == State::InContext || places[index] == PLACES_MAX {
                return;
            }
            places[index] += 1;
            let fact = &self.facts[index];
            let is_here = |&(line, start): &(&str, usize)| {
                shares_context(view.as_bytes(), span.start, line, start, fact.text.len())
            };
            states[index] = match fact.contexts.iter().any(is_here) {
                true => State::InContext,
                false => State::Present,
            };
        });
        states
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Present,
    InContext,
}

/// What the agent writes in these items, in order of first use: text, kind, item.
fn uses(history: &History, items: Range<usize>) -> Vec<(&str, FactKind, usize)> {
    let mut seen = HashSet::new();
    let mut uses = Vec::new();
    for (index, item) in items.clone().zip(&history.items[items]) {
        if item.kind != ItemKind::Assistant {
            continue;
        }
        let mut push = |text, kind| {
            if uses.len() < FACTS_MAX && seen.insert(text) {
                uses.push((text, kind, index));
            }
        };
        // A command is one even where it is also a name.
        item.commands.iter().for_each(|command| push(&**command, FactKind::Command));
        for line in item.lines.iter().filter(|line| line.is_written) {
            scan(&line.text, |found| push(&line.text[found.span], found.kind));
        }
    }
    uses
}

/// Those of them that nothing told the agent again before it used them.
fn untold<'h>(
    history: &History,
    items: Range<usize>,
    uses: Vec<(&'h str, FactKind, usize)>,
) -> Vec<(&'h str, FactKind)> {
    let finder = Finder::new(uses.iter().map(|(text, ..)| *text));
    let mut told = vec![usize::MAX; uses.len()];
    for (index, item) in items.clone().zip(&history.items[items]) {
        if item.kind == ItemKind::Assistant {
            continue;
        }
        for line in &item.lines {
            finder.find(&line.text, |fact, _| told[fact] = told[fact].min(index));
        }
    }
    let untold = uses.into_iter().zip(told).filter(|((_, _, used), told)| told >= used);
    untold.map(|((text, kind, _), _)| (text, kind)).collect()
}

fn find_contexts<'h>(history: &'h History, cut: usize, facts: &mut [Fact<'h>]) {
    let finder = Finder::new(facts.iter().map(|fact| fact.text));
    let lines = history.items[..cut].iter().flat_map(|item| &item.lines);
    for line in lines.filter(|line| !line.is_repeated).map(|line| &*line.text) {
        finder.find(line, |index, span| {
            if facts[index].contexts.len() < LINES_MAX {
                facts[index].contexts.push((line, span.start));
            }
        });
    }
}

/// Whether the view at `place` and the line at `start`, where both hold a fact of `len` bytes, share
/// enough around it.
fn shares_context(view: &[u8], place: usize, line: &str, start: usize, len: usize) -> bool {
    let bytes = line.as_bytes();
    let reach = CONTEXT_CHARACTERS * CHARACTER_BYTES_MAX;
    let before = view[..place].iter().rev().zip(bytes[..start].iter().rev());
    let left = before.take(reach).take_while(|(one, other)| one == other).count();
    let after = view[place + len..].iter().zip(&bytes[start + len..]);
    let right = after.take(reach).take_while(|(one, other)| one == other).count();
    if left == start && start + len + right == bytes.len() {
        return true;
    }
    let mut end = start + len + right;
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    // A character of which only the end is shared begins outside, and is not counted.
    let is_first = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
    bytes[start - left..end].iter().filter(is_first).count() >= CONTEXT_CHARACTERS
}

/// Finds many facts in a text at once, where no letter, digit or underscore adjoins theirs.
#[derive(Debug)]
struct Finder {
    automaton: Option<AhoCorasick>,
}

impl Finder {
    fn new<'t>(facts: impl Iterator<Item = &'t str>) -> Self {
        // Only more states than fit into 32 bits are refused; without facts there is none to find.
        Self { automaton: AhoCorasick::new(facts).ok() }
    }

    fn find(&self, text: &str, mut found: impl FnMut(usize, Range<usize>)) {
        let Some(automaton) = &self.automaton else { return };
        for hit in automaton.find_overlapping_iter(text) {
            if is_apart(text.as_bytes(), hit.range()) {
                found(hit.pattern().as_usize(), hit.range());
            }
        }
    }
}

fn is_apart(text: &[u8], span: Range<usize>) -> bool {
    let joins = |one: Option<&u8>, other: Option<&u8>| {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        one.is_some_and(is_name) && other.is_some_and(is_name)
    };
    let before = span.start.checked_sub(1).and_then(|index| text.get(index));
    !joins(before, text.get(span.start)) && !joins(text.get(span.end - 1), text.get(span.end))
}

#[cfg(test)]
mod tests;
