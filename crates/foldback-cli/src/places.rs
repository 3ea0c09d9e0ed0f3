//! Where items stand, for people: file and line, kind and size. Ids are the format's own affair.

use std::collections::HashMap;
use std::path::Path;

use foldback_core::{Entry, ItemId, KernelItem, Precision, Repair, View, Violation};
use foldback_engine::{CompactionError, Refusal};
use foldback_formats::{Conversation, Loss};

use crate::terminal::number;

/// Places that one message names; the rest are counted.
const NAMED_MAX: usize = 5;

/// The places of a view's items.
pub(crate) struct Places<'a> {
    path: &'a Path,
    conversation: &'a Conversation,
    view: &'a View,
    /// Where ids repeat, the first counts.
    positions: HashMap<&'a str, usize>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(path: &'a Path, conversation: &'a Conversation, view: &'a View) -> Self {
        let mut positions = HashMap::new();
        for (position, item) in view.items().enumerate() {
            positions.entry(item.id.as_str()).or_insert(position);
        }
        Self { path, conversation, view, positions }
    }

    fn entry(&self, id: &ItemId) -> Option<(usize, &Entry)> {
        let position = *self.positions.get(id.as_str())?;
        self.view.get(position).map(|entry| (position, entry))
    }

    /// The line of the file.
    pub(crate) fn line(&self, position: usize) -> Option<usize> {
        let anchor = self.view.get(position)?.anchor();
        self.conversation.recorded().get(anchor).map(|recorded| recorded.place.line)
    }

    /// `file:line`, or the file alone.
    pub(crate) fn at(&self, position: Option<usize>) -> String {
        let line = position.and_then(|position| self.line(position));
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{line}", self.path.display())
    }

    /// `file:line`, or the file alone for an item that is new.
    pub(crate) fn of(&self, id: &ItemId) -> String {
        self.at(self.positions.get(id.as_str()).copied())
    }

    /// `user item 3`: counted as `foldback show --shape` counts.
    pub(crate) fn item(&self, id: &ItemId) -> String {
        match self.entry(id) {
            Some((position, entry)) => format!("{} item {position}", entry.item().kind),
            None => "an item that is new".to_owned(),
        }
    }

    /// What a format cannot hold, and of which item.
    pub(crate) fn loss(&self, loss: &Loss) -> String {
        let tokens = self.entry(&loss.item_id).map_or_else(String::new, |(_, entry)| {
            let about = match self.view.transcript().meter().counter().precision() {
                Precision::Exact => "",
                Precision::Estimate { .. } => "about ",
            };
            format!(", {about}{} tokens", number(entry.tokens().total.0))
        });
        format!("{} ({}{tokens})", loss.what, self.item(&loss.item_id))
    }

    /// What was repaired in this view, `mended` being the result, by positions in this view: those
    /// that `check` names. What is new stands behind an item, and has its place.
    pub(crate) fn repairs(&self, mended: &View, repairs: &[Repair]) -> Vec<Repair> {
        let mut of_id: HashMap<&str, Vec<usize>> = HashMap::new();
        for (position, item) in self.view.items().enumerate().collect::<Vec<_>>().into_iter().rev() {
            of_id.entry(item.id.as_str()).or_default().push(position);
        }
        let mut last = 0;
        let before: Vec<usize> = mended
            .items()
            .map(|item| {
                last = of_id.get_mut(item.id.as_str()).and_then(Vec::pop).unwrap_or(last);
                last
            })
            .collect();
        let placed = repairs.iter().map(|repair| {
            let item_index = before.get(repair.item_index).copied().unwrap_or(last);
            let item = self.view.get(item_index).map(|entry| entry.item().id.clone());
            Repair { item_index, item_id: item.unwrap_or_else(|| repair.item_id.clone()), ..repair.clone() }
        });
        placed.collect()
    }

    /// The items that an error is about, each with its place; the first few.
    pub(crate) fn to_blame(&self, error: &CompactionError) -> Vec<String> {
        let lines = match error {
            CompactionError::Refused(Refusal::BudgetInfeasible(infeasible)) => {
                let named = |item: &KernelItem| {
                    let tokens = number(item.tokens.0);
                    format!("{}: {}, {tokens} tokens at its smallest", self.of(&item.id), self.item(&item.id))
                };
                infeasible.kernel.iter().map(named).collect()
            }
            CompactionError::Refused(Refusal::Invalid { violations, .. }) => {
                let named = |violation: &Violation| format!("{}: {violation}", self.of(&violation.item_id));
                violations.iter().map(named).collect()
            }
            _ => Vec::new(),
        };
        some(lines)
    }

    /// Repairs as lines.
    pub(crate) fn repair_lines(&self, repairs: &[Repair]) -> Vec<String> {
        repairs.iter().map(|repair| format!("{}: {repair}", self.at(Some(repair.item_index)))).collect()
    }
}

/// The first few, and how many there are besides.
fn some(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(NAMED_MAX);
    lines.truncate(NAMED_MAX);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}
