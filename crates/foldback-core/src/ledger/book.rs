//! The ledger itself: facts in the order in which they were found, filled item by item.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;

use super::calls::OpenCall;
use super::fact::{Detail, Fact, Mention, PathHistory};
use super::jobs::OpenJob;
use super::names::names;
use super::{FactKind, said};
use crate::ids::{CallId, Text};
use crate::item::{Item, ItemKind};
use crate::part::Part;
use crate::reading::text_of;

/// Facts that a ledger holds at most; those found first are found again, new ones are left out.
const FACTS_MAX: usize = 1_000_000;

/// A fixed hasher draws no random numbers (A1).
pub(super) type FixedHasher = BuildHasherDefault<DefaultHasher>;

/// A fact's place in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FactIndex(pub(crate) u32);

/// The facts of one item, with the part that tells each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) item_index: usize,
    pub(crate) facts: Vec<(u32, FactIndex)>,
}

/// The facts of a transcript.
///
/// ```
/// use foldback_core::{FactKind, Item, Ledger};
///
/// let mut ledger = Ledger::new();
/// ledger.push(0, &Item::user("u", "Fix src/parser.rs. Never touch src/lexer.rs."));
/// let rules: Vec<&str> = ledger.of_kind(FactKind::Constraint).map(|fact| &*fact.text).collect();
/// assert_eq!(rules, ["Never touch src/lexer.rs."]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    pub(crate) facts: Vec<Fact>,
    /// By kind, then by text.
    index: [HashMap<Text, FactIndex, FixedHasher>; FactKind::ALL.len()],
    pub(crate) items: Vec<Told>,
    /// Calls without a result.
    pub(super) calls: HashMap<CallId, OpenCall, FixedHasher>,
    /// Errors that nothing has fixed, by what was tried.
    pub(super) errors: HashMap<u64, Vec<FactIndex>, FixedHasher>,
    /// The newest list of things to do.
    pub(super) todos: Vec<FactIndex>,
    /// Questions of the user and of the agent that are open.
    pub(super) user_questions: Vec<FactIndex>,
    pub(super) agent_questions: Vec<FactIndex>,
    pub(super) jobs: Vec<OpenJob>,
}

impl Ledger {
    /// A ledger without facts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one more item in. Costs what the item has to be read.
    ///
    /// # Panics
    ///
    /// If `item_index` is not above that of the item before: facts are found in order.
    pub fn push(&mut self, item_index: usize, item: &Item) {
        let is_next = self.items.last().is_none_or(|last| last.item_index < item_index);
        assert!(is_next, "items are pushed in the order of the transcript");
        self.items.push(Told { item_index, facts: Vec::new() });
        for (part_index, part) in item.parts.iter().enumerate() {
            let text = text_of(part);
            let at = Spot { item_index, part_index, text: &text, start: 0 };
            names(&text, |kind, span| {
                let detail = || match kind {
                    FactKind::Path => Detail::Path(PathHistory::default()),
                    _ => Detail::Name,
                };
                self.note(kind, &text[span.clone()], at.place(span), detail);
            });
            match part {
                Part::ToolCall(call) => self.push_call(&at, call),
                Part::ToolResult(result) => self.push_result(&at, result),
                Part::Text(_) => self.push_said(&at, item),
                Part::Reasoning(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Structured(_)
                | Part::Opaque(_) => {}
            }
        }
        self.close_questions(item_index, item);
    }

    /// How many items were pushed.
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// All facts, in the order in which they were first found.
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// The facts of one kind, in the order in which they were first found.
    pub fn of_kind(&self, kind: FactKind) -> impl DoubleEndedIterator<Item = &Fact> {
        self.facts.iter().filter(move |fact| fact.kind == kind)
    }

    /// A fact by its kind and text.
    pub fn get(&self, kind: FactKind, text: &str) -> Option<&Fact> {
        self.find(kind, text).map(|index| self.fact(index))
    }

    pub(crate) fn find(&self, kind: FactKind, text: &str) -> Option<FactIndex> {
        self.index[kind as usize].get(text).copied()
    }

    pub(crate) fn fact(&self, index: FactIndex) -> &Fact {
        &self.facts[index.0 as usize]
    }

    pub(super) fn fact_mut(&mut self, index: FactIndex) -> &mut Fact {
        &mut self.facts[index.0 as usize]
    }

    /// Notes that a fact stands somewhere; `detail` is asked for where it is new. `None` where the
    /// ledger is full.
    pub(super) fn note(
        &mut self,
        kind: FactKind,
        text: &str,
        place: Mention,
        detail: impl FnOnce() -> Detail,
    ) -> Option<FactIndex> {
        let index = match self.find(kind, text) {
            Some(index) => index,
            None if self.facts.len() >= FACTS_MAX || text.is_empty() => return None,
            None => {
                let index = FactIndex(u32::try_from(self.facts.len()).expect("FACTS_MAX is below 2^32"));
                let text = Text::from(text);
                self.index[kind as usize].insert(text.clone(), index);
                self.facts.push(Fact::new(kind, text, detail()));
                index
            }
        };
        let part_index = place.part_index as u32;
        if self.fact_mut(index).mention(place) {
            let told = self.items.last_mut().expect("facts are noted while an item is pushed");
            told.facts.push((part_index, index));
        }
        Some(index)
    }

    /// What is said in a text: rules, decisions, things to do, questions, and jobs that have ended. A summary
    /// says none of it again: it quotes tools as well.
    fn push_said(&mut self, at: &Spot<'_>, item: &Item) {
        match item.kind {
            _ if item.summary.is_some() => {}
            ItemKind::User => {
                for span in item.typed_spans(at.part_index) {
                    said::push_user(self, &Spot { text: &at.text[span.clone()], start: span.start, ..*at });
                }
                self.end_jobs_told_of(at);
            }
            ItemKind::System | ItemKind::Developer => said::push_instructions(self, at, item.kind),
            ItemKind::Assistant => said::push_agent(self, at),
            ItemKind::Context | ItemKind::Notification => self.end_jobs_told_of(at),
            // What a tool says is never a rule, a decision or a question (and it may pretend to be).
            ItemKind::Tool => {}
        }
    }

    /// An item of the user answers the agent, and a text of the agent answers the user. An agent that
    /// goes on working has found its answer or does not wait for it.
    fn close_questions(&mut self, item_index: usize, item: &Item) {
        if item.summary.is_some() {
            return;
        }
        let mut answered = Vec::new();
        let has_text =
            item.parts.iter().any(|part| matches!(part, Part::Text(text) if !text.trim().is_empty()));
        // Where tools have no calls of their own, what they answer is context.
        let is_work = matches!(item.kind, ItemKind::Tool | ItemKind::Context)
            || item.parts.iter().any(|part| matches!(part, Part::ToolCall(_) | Part::ToolResult(_)));
        if is_work || (item.kind == ItemKind::User && has_text) {
            answered.append(&mut self.agent_questions);
        }
        if item.kind == ItemKind::Assistant && has_text {
            answered.append(&mut self.user_questions);
        }
        for index in answered {
            if let Detail::Question { answered_by, .. } = &mut self.fact_mut(index).detail {
                *answered_by = Some(item_index);
            }
        }
    }
}

/// The part that is being read, or a stretch of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'t> {
    pub(super) item_index: usize,
    pub(super) part_index: usize,
    pub(super) text: &'t str,
    /// Where the text stands in the part.
    pub(super) start: usize,
}

impl Spot<'_> {
    pub(super) fn place(&self, span: std::ops::Range<usize>) -> Mention {
        let span = self.start + span.start..self.start + span.end;
        Mention { item_index: self.item_index, part_index: self.part_index, span }
    }

    /// The place of something that may be written here in other words.
    pub(super) fn place_of(&self, words: &str) -> Mention {
        let span = self.text.find(words).map(|start| start..start + words.len());
        self.place(span.unwrap_or(0..self.text.len()))
    }
}
