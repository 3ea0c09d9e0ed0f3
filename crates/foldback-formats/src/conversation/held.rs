//! Everything a file holds of a conversation: the history, and summaries of a past that is not in
//! the file.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::{Transcript, View};

use super::{Compaction, Conversation, Recorded, ranges};

impl Conversation {
    /// Everything the file holds of the conversation: what was said, and what was put in for a past
    /// that the file does not have.
    pub fn held_of(&self, transcript: &Transcript) -> View {
        Self::without(self.compactions.iter().flat_map(|made| self.not_held(made)), transcript)
    }

    /// The items of [`held_of`](Self::held_of), each with its index.
    pub fn held(&self) -> impl Iterator<Item = (usize, &Recorded)> {
        let mut not_held = self.compactions.iter().flat_map(|made| self.not_held(made)).peekable();
        let mut is_held = move |index: usize| {
            while not_held.next_if(|range| range.end <= index).is_some() {}
            !not_held.peek().is_some_and(|range| range.contains(&index))
        };
        self.recorded.iter().enumerate().filter(move |(index, _)| is_held(*index))
    }

    /// What of the items that a compaction put in stands for something that is there anyway. A
    /// summary after which everything is still shown stands for what the file does not have, and
    /// only the copies beside it are there twice.
    fn not_held(&self, made: &Compaction) -> Vec<Range<usize>> {
        let put_in = || made.inserted.clone();
        let address = |index: usize| self.recorded.get(index).map(|recorded| Arc::as_ptr(&recorded.item));
        let is_summary =
            |index: usize| self.recorded.get(index).is_some_and(|one| one.item.summary.is_some());
        let hidden_count: usize = made.hidden.iter().map(ExactSizeIterator::len).sum();
        if hidden_count < put_in().len() && put_in().any(is_summary) {
            let hidden: HashSet<_> = made.hidden.iter().cloned().flatten().map(address).collect();
            let is_copy = |index: &usize| hidden.contains(&address(*index));
            if put_in().filter(is_copy).count() == hidden_count {
                return ranges(put_in().filter(is_copy));
            }
        }
        vec![put_in()]
    }
}

#[cfg(test)]
mod tests {
    use foldback_core::{EstimatingCounter, Item, ItemKind, Tokens};

    use super::*;
    use crate::conversation::{Place, Shown};
    use crate::lowering::found_summary;

    fn said(item_count: usize) -> Conversation {
        let mut conversation = Conversation::new();
        for number in 0..item_count {
            conversation.push(Item::user(format!("m{number}"), "word"), Place::line(number + 1));
        }
        conversation
    }

    fn summary(id: &str) -> Item {
        found_summary(Item::text(id, ItemKind::Context, "so far"), "test", 9, Tokens(90))
    }

    fn held(conversation: &Conversation) -> Vec<&str> {
        let held: Vec<&str> = conversation.held().map(|(_, recorded)| recorded.item.id.as_str()).collect();
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), None);
        let shown = conversation.held_of(&transcript);
        assert!(shown.items().map(|item| item.id.as_str()).eq(held.iter().copied()));
        held
    }

    #[test]
    fn only_a_summary_of_what_the_file_does_not_have_is_held() {
        let mut absent = Conversation::new();
        absent.replace(Compaction::new("test", Place::line(1)), [Shown::New(summary("s"))]);
        absent.push(Item::user("u", "go on"), Place::line(2));
        assert_eq!(held(&absent), ["s", "u"]);
        let mut copied = said(2);
        let shown = [Shown::New(summary("s")), Shown::Kept(0), Shown::Kept(1)];
        copied.replace(Compaction::new("test", Place::line(3)), shown);
        assert_eq!(held(&copied), ["m0", "m1", "s"], "copies are not there twice");
        let mut present = said(2);
        present.replace(Compaction::new("test", Place::line(3)), [Shown::New(summary("s")), Shown::Kept(1)]);
        assert_eq!(held(&present), ["m0", "m1"]);
        let mut repaired = said(2);
        let added = [Shown::Kept(0), Shown::Kept(1), Shown::New(Item::user("new", "put in"))];
        repaired.replace(Compaction::new("test", Place::line(3)), added);
        assert_eq!(held(&repaired), ["m0", "m1"], "what is no summary stands for nothing");
    }
}
