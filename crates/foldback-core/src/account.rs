//! What a compaction did to the facts that a view told.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use memchr::memmem;

use crate::edit::Edit;
use crate::handle::Handle;
use crate::ledger::{Detail, Fact, FactIndex, FactKind, Ledger, Mention, names};
use crate::reading::text_of;
use crate::sequence::Sequence;
use crate::view::{Fate, View};

/// Facts that are listed of one kind and fate; the others are counted.
const LISTED_MAX: usize = 100;

/// What became of one fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactFate {
    /// The view still tells it.
    Kept,
    /// The view no longer tells it; this handle recalls an item or a part that does.
    Recoverable(Handle),
    /// Neither.
    Lost,
}

/// One fact, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Accounted<'l> {
    /// The fact.
    pub fact: &'l Fact,
    /// What became of it.
    pub fate: FactFate,
}

/// How many facts that a view told are still told, can be recalled, or are neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Still told.
    pub kept: usize,
    /// No longer told; they stand behind a handle.
    pub recoverable: usize,
    /// No longer told, and no handle leads to them.
    pub lost: usize,
}

impl Losses {
    /// How many there were.
    pub fn total(&self) -> usize {
        self.kept + self.recoverable + self.lost
    }

    fn count(&mut self, fate: &FactFate) -> usize {
        let count = match fate {
            FactFate::Kept => &mut self.kept,
            FactFate::Recoverable(_) => &mut self.recoverable,
            FactFate::Lost => &mut self.lost,
        };
        *count += 1;
        *count
    }
}

/// What became of every fact that a view told, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account<'l> {
    /// How many facts of each kind were told before, by what became of them. Kinds of which there
    /// were none are left out.
    pub by_kind: BTreeMap<FactKind, Losses>,
    /// The facts themselves, newest first; of each kind and fate a hundred at most.
    pub listed: Vec<Accounted<'l>>,
}

impl Account<'_> {
    /// All kinds together.
    pub fn total(&self) -> Losses {
        self.by_kind.values().fold(Losses::default(), |sum, one| Losses {
            kept: sum.kept + one.kept,
            recoverable: sum.recoverable + one.recoverable,
            lost: sum.lost + one.lost,
        })
    }

    /// Listed facts that are neither told nor behind a handle, newest first.
    pub fn lost(&self) -> impl Iterator<Item = &Fact> {
        self.listed.iter().filter(|one| one.fate == FactFate::Lost).map(|one| one.fact)
    }
}

impl Ledger {
    /// The facts of a transcript or of a list of visible items, by their index in it.
    pub fn of(items: &Sequence) -> Self {
        let mut ledger = Self::new();
        items.items().enumerate().for_each(|(index, item)| ledger.push(index, item));
        ledger
    }

    /// What became of the facts that `before` told, now that `after` is what the model sees.
    ///
    /// Both are views of the transcript that this ledger was made of; it may have grown between
    /// them. Questions that were answered and jobs that have ended are left out. Costs what the two
    /// views have visible.
    pub fn account(&self, before: &View, after: &View) -> Account<'_> {
        let told = self.told_by(before, |_| true);
        let kept = self.told_by(after, |index| told[index.0 as usize]);
        let handles = self.handles(after);
        let mut account = Account::default();
        for (index, fact) in self.facts.iter().enumerate().rev() {
            if !told[index] || !fact.is_current() {
                continue;
            }
            let fate = match (kept[index], handles[index]) {
                (true, _) => FactFate::Kept,
                (false, Some(handle)) => FactFate::Recoverable(handle.clone()),
                (false, None) => FactFate::Lost,
            };
            if account.by_kind.entry(fact.kind).or_default().count(&fate) <= LISTED_MAX {
                account.listed.push(Accounted { fact, fate });
            }
        }
        account
    }

    /// The facts that a text tells, in the order in which they were found.
    pub fn told_in<'l>(&'l self, text: &str) -> impl Iterator<Item = &'l Fact> + use<'l> {
        let mut folded = String::new();
        push_folded(&mut folded, text);
        let mut told = vec![false; self.facts.len()];
        self.mark_named_in(&folded, &mut told);
        let facts = self.facts.iter().zip(told);
        facts.filter(move |(fact, told)| *told || is_written_in(fact, &folded)).map(|(fact, _)| fact)
    }

    /// Which facts a view tells, by their index. Of those that are not `wanted` nothing is said.
    fn told_by(&self, view: &View, wanted: impl Fn(FactIndex) -> bool) -> Vec<bool> {
        let mut told = vec![false; self.facts.len()];
        let mut others = String::new();
        for entry in view.iter() {
            let recorded = view.transcript().get(entry.anchor()).map(|entry| entry.item());
            let is_recorded = recorded.is_some_and(|item| Arc::ptr_eq(item, entry.item()));
            if is_recorded {
                self.mark(entry.anchor(), |_| true, &mut told);
                continue;
            }
            // A summary, or an item of which some parts were replaced.
            let recorded = recorded.filter(|item| item.id == entry.item().id);
            let mut same_parts = Vec::new();
            for (position, part) in entry.item().parts.iter().enumerate() {
                let part_index = entry.recorded_part(position);
                match recorded.and_then(|item| item.parts.get(part_index)) {
                    Some(same) if same == part => same_parts.push(part_index as u32),
                    Some(_) | None => push_folded(&mut others, &text_of(part)),
                }
            }
            self.mark(entry.anchor(), |part_index| same_parts.contains(&part_index), &mut told);
        }
        self.mark_named_in(&others, &mut told);
        for (index, fact) in self.facts.iter().enumerate() {
            let is_open = !told[index] && wanted(FactIndex(index as u32));
            told[index] |= is_open && is_written_in(fact, &others);
        }
        told
    }

    /// Marks the facts of some parts of one item.
    fn mark(&self, item_index: usize, is_visible: impl Fn(u32) -> bool, told: &mut [bool]) {
        let found = self.items.binary_search_by_key(&item_index, |told| told.item_index);
        let facts = found.map_or(&[][..], |position| &self.items[position].facts);
        for &(part_index, index) in facts.iter().filter(|(part_index, _)| is_visible(*part_index)) {
            told[index.0 as usize] |= self.tells(item_index, part_index, index);
        }
    }

    /// Whether a place of a fact tells it as it is now.
    fn tells(&self, item_index: usize, part_index: u32, index: FactIndex) -> bool {
        let fact = self.fact(index);
        let is_here =
            |place: &Mention| (place.item_index, place.part_index) == (item_index, part_index as usize);
        !fact.is_a_state() || fact.mentions.last().is_some_and(is_here)
    }

    fn mark_named_in(&self, text: &str, told: &mut [bool]) {
        names(text, |kind, span| {
            if let Some(index) = self.find(kind, &text[span]) {
                told[index.0 as usize] = true;
            }
        });
    }

    /// A handle for each fact behind which it stands, of several the one that leads to its newest
    /// place.
    fn handles<'v>(&self, view: &'v View) -> Vec<Option<&'v Handle>> {
        let mut handles = vec![None; self.facts.len()];
        let fates = view.fates();
        let rewrites = rewrites(view);
        for told in &self.items {
            let Some(fate) = fates.get(told.item_index) else { continue };
            for &(part_index, index) in &told.facts {
                let handle = match fate {
                    _ if !self.tells(told.item_index, part_index, index) => None,
                    Fate::Folded(handle) => Some(*handle),
                    Fate::Rewritten => rewrites.get(&(told.item_index, part_index as usize)).copied(),
                    Fate::Visible | Fate::Dropped(_) => None,
                };
                handles[index.0 as usize] = handle.or(handles[index.0 as usize]);
            }
        }
        handles
    }
}

/// The handles of the parts that were rewritten.
fn rewrites(view: &View) -> BTreeMap<(usize, usize), &Handle> {
    let edits = view.overlay().blocks().iter().flat_map(|block| &block.edits);
    edits
        .filter_map(|edit| match edit {
            Edit::Rewrite(rewrite) => Some(((rewrite.item_index, rewrite.part_index), &rewrite.handle)),
            Edit::Drop(_) | Edit::Fold(_) => None,
        })
        .collect()
}

/// Whether a text that is no recorded part, such as a summary, says a fact in its own words. Names
/// are found by scanning; only what no scan finds is looked for here.
fn is_written_in(fact: &Fact, text: &str) -> bool {
    match &fact.detail {
        Detail::Name => false,
        // A path that nobody did anything to was found by scanning, and is again.
        Detail::Path(history) => history.last.is_some() && contains_word(text, &fact.text),
        // Of a command with several lines the first is what is quoted.
        Detail::Command(_) | Detail::Job { .. } => contains(text, first_line(&fact.text)),
        Detail::TestResult(history) => {
            let (command, clause) = (folded(first_line(&fact.text)), history.clause());
            memmem::find_iter(text.as_bytes(), clause.as_bytes()).any(|at| {
                let start = text[..at].rfind('\n').map_or(0, |start| start + 1);
                text[start..at].contains(&*command)
            })
        }
        Detail::Error(_)
        | Detail::Constraint { .. }
        | Detail::Decision { .. }
        | Detail::Todo(_)
        | Detail::Question { .. } => contains(text, &fact.text),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

fn contains(text: &str, words: &str) -> bool {
    memmem::find(text.as_bytes(), folded(words).as_bytes()).is_some()
}

/// Whether a text has these words in it, with no letter of another word on either side.
fn contains_word(text: &str, words: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    memmem::find_iter(text.as_bytes(), words.as_bytes()).any(|at| {
        let after = &text[at + words.len()..];
        !text[..at].ends_with(is_inside) && (!after.starts_with(is_inside) || after.starts_with('.'))
    })
}

/// The text with every run of white space as one space.
fn folded(text: &str) -> Cow<'_, str> {
    let is_folded = !text.contains("  ") && !text.contains(['\t', '\n', '\r']);
    match is_folded && text.trim() == text {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

/// Adds the lines of a text, each with its white space folded.
fn push_folded(all: &mut String, text: &str) {
    for line in text.lines() {
        all.push_str(&folded(line));
        all.push('\n');
    }
}
