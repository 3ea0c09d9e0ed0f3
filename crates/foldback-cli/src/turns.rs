//! Which turn of the session an item belongs to. Turns are counted from 1 over the whole history, so
//! that a turn keeps its number whatever was compacted since.

use std::ops::Range;

use foldback_core::{Entry, ItemKind, View};
use foldback_formats::{Conversation, Recorded};

use crate::picture::first_line;

/// The turns of a conversation.
pub(crate) struct Turns<'a> {
    conversation: &'a Conversation,
    /// The index at which each begins.
    starts: Vec<usize>,
    /// Where items stand that were recorded for compactions, in order.
    copies: Vec<Range<usize>>,
}

impl<'a> Turns<'a> {
    pub(crate) fn of(conversation: &'a Conversation) -> Self {
        let is_start = |(_, recorded): &(usize, &Recorded)| recorded.item.kind == ItemKind::User;
        let starts = conversation.said().filter(is_start).map(|(index, _)| index).collect();
        Self { conversation, starts, copies: conversation.copies() }
    }

    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    /// The index at which turn `number` begins.
    pub(crate) fn start(&self, number: usize) -> Option<usize> {
        self.starts.get(number.checked_sub(1)?).copied()
    }

    /// The turn of every entry; none for what came before the first one, and for summaries, which
    /// stand for several.
    pub(crate) fn of_view(&self, view: &View) -> Vec<Option<usize>> {
        let mut running = None;
        let numbered = view.iter().map(|entry| {
            if entry.item().summary.is_some() {
                return None;
            }
            running = self.of_entry(entry, running);
            running
        });
        numbered.collect()
    }

    /// What an agent wrote anew in a compaction has no place in the history: it is known by its turn
    /// or its prompt, and else belongs to the turn that is running.
    fn of_entry(&self, entry: &Entry, running: Option<usize>) -> Option<usize> {
        let recorded = self.conversation.recorded().get(entry.anchor()).map_or(entry.item(), |one| &one.item);
        if !self.copies.iter().any(|copies| copies.contains(&entry.anchor())) {
            return self.at(entry.anchor());
        }
        let later = || self.starts.iter().enumerate().skip(running.unwrap_or(0));
        let begun_by = |start: usize| self.conversation.recorded().get(start).map(|begun| &begun.item);
        let same_turn = |&(_, &start): &(usize, &usize)| {
            recorded.turn_id.is_some()
                && begun_by(start).is_some_and(|begun| begun.turn_id == recorded.turn_id)
        };
        let same_prompt = |&(_, &start): &(usize, &usize)| {
            begun_by(start).is_some_and(|begun| first_line(begun) == first_line(recorded))
        };
        let found = match recorded.kind {
            ItemKind::User => later().find(same_turn).or_else(|| later().find(same_prompt)),
            _ => later().find(same_turn),
        };
        found.map(|(turn_index, _)| turn_index + 1).or(running)
    }

    fn at(&self, index: usize) -> Option<usize> {
        let number = self.starts.partition_point(|&start| start <= index);
        (number > 0).then_some(number)
    }
}
