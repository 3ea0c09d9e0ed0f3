//! What foldback writes beside a compaction in a session file: the record itself.
//!
//! The agent does not look at it and goes on from the copies that stand beside it. foldback reads the
//! note and leaves the copies alone, so that what can be undone, recalled and explained in a store
//! can be in a file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::edit::Edit;
use foldback_core::{CompactionBlock, Item, ItemId, Text, Tokens, View};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::replace::COPY_COUNT_MAX;
use super::{Conversation, FilePlace, Recorded, Step, is_summary};
use crate::error::{Fault, Problem};
use crate::jsonl;

/// A compaction as foldback notes it in a session file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Note {
    /// How many items were recorded before, and the name of the last: beside other items the note
    /// means nothing.
    item_count: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<ItemId>,
    /// How many of the blocks in force stay.
    keeps: usize,
    /// Items that were recorded for it: repaired ones, and what stands behind them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recorded: Vec<Again>,
    /// What is put in force.
    blocks: Vec<CompactionBlock>,
}

/// Items that were recorded for a compaction.
#[expect(clippy::large_enum_variant, reason = "these lists live for a moment, and boxes would cost more")]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Again {
    /// Neighbouring items that were recorded before: the first index, and one past the last.
    Same(usize, usize),
    /// An item in another form.
    New(Item),
}

impl Again {
    /// These items, by their indices in `recorded` where they are there already, whatever was pinned.
    fn all<'i>(items: impl Iterator<Item = &'i Arc<Item>>, recorded: &[Recorded]) -> Vec<Self> {
        let mut items = items.peekable();
        let mut all: Vec<Self> = Vec::new();
        if items.peek().is_none() {
            return all;
        }
        let by_id: HashMap<&ItemId, usize> =
            recorded.iter().enumerate().map(|(index, one)| (&one.item.id, index)).collect();
        for item in items {
            let known = by_id.get(&item.id).copied().filter(|&index| is_same(item, &recorded[index].item));
            match (known, all.last_mut()) {
                (Some(index), Some(Self::Same(_, end))) if *end == index => *end += 1,
                (Some(index), _) => all.push(Self::Same(index, index + 1)),
                (None, _) => all.push(Self::New(Item::clone(item))),
            }
        }
        all
    }
}

fn is_same(item: &Item, recorded: &Item) -> bool {
    match item.pin == recorded.pin {
        true => item == recorded,
        false => Item { pin: recorded.pin, ..item.clone() } == *recorded,
    }
}

/// foldback's own field in the records of an agent's session file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Extension {
    /// The compaction. Notes that cannot be read say nothing.
    #[serde(deserialize_with = "if_readable", skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<Note>,
    /// The names of records that repeat what the model sees, and where each stands in the view. A
    /// record of several items is named for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) copies: Vec<(Text, usize)>,
}

fn if_readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Note>, D::Error> {
    let json = Box::<RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(json.get()).ok())
}

impl Extension {
    /// Of a compaction whose copies have these names.
    pub(crate) fn new(note: &Note, copies: Vec<(Text, usize)>) -> Self {
        Self { note: Some(note.clone()), copies }
    }

    /// As JSON, on one line.
    pub(crate) fn json(&self) -> String {
        jsonl::one_line(serde_json::to_string(self).expect("a note has only string keys"))
    }
}

/// A whole conversation, for a file that has no other place for its past.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What was said.
    items: Vec<Item>,
    /// What changed what the model sees, in order.
    made: Vec<Note>,
}

impl Kept {
    /// A conversation with one more compaction.
    pub(crate) fn of(conversation: &Conversation, newest: &Note) -> Self {
        let mut kept = Self { items: Vec::new(), made: Vec::new() };
        let mut next = 0;
        for step in &conversation.steps {
            let (made, end) = conversation.note_of(step, next);
            kept.add(&conversation.recorded[next..made.item_count]);
            kept.made.push(made);
            next = end;
        }
        kept.add(&conversation.recorded[next..]);
        kept.made.push(newest.clone());
        kept
    }

    fn add(&mut self, recorded: &[Recorded]) {
        self.items.extend(recorded.iter().map(|recorded| Item::clone(&recorded.item)));
    }

    /// The conversation; none where the notes belong to other items.
    pub(crate) fn conversation(self, place: FilePlace) -> Option<Conversation> {
        let mut conversation = Conversation::new();
        let mut items = self.items.into_iter();
        for note in self.made {
            let missing = note.item_count.checked_sub(conversation.len())?;
            items.by_ref().take(missing).for_each(|item| _ = conversation.push(item, place));
            if !conversation.take(note, None, place) {
                return None;
            }
        }
        items.for_each(|item| _ = conversation.push(item, place));
        Some(conversation)
    }
}

impl Note {
    /// What leads from a conversation to a view of it: the first `keeps` blocks of the view are those
    /// of the conversation.
    pub(crate) fn of(conversation: &Conversation, view: &View, keeps: usize) -> Self {
        let blocks = view.overlay().blocks().get(keeps..).unwrap_or_default();
        Self {
            item_count: conversation.len(),
            last: conversation.recorded.last().map(|recorded| recorded.item.id.clone()),
            keeps,
            recorded: Again::all(view.transcript().items().skip(conversation.len()), &conversation.recorded),
            blocks: blocks.iter().map(|block| CompactionBlock::clone(block)).collect(),
        }
    }

    /// What the view cost before it.
    pub(crate) fn tokens_before(&self) -> Tokens {
        self.blocks.first().map_or(Tokens::ZERO, |block| block.tokens_before)
    }

    /// How many items were recorded before it.
    pub(crate) fn item_count(&self) -> usize {
        self.item_count
    }
}

impl Conversation {
    /// Takes in a compaction that foldback noted. Returns whether it did: not where the note belongs
    /// to other items, as in a file that was cut or forked; then the copies beside it say what the model
    /// sees.
    pub(crate) fn take(&mut self, note: Note, tokens_before: Option<Tokens>, place: FilePlace) -> bool {
        let last = self.recorded.last().map(|recorded| &recorded.item.id);
        let is_ours = note.item_count == self.len()
            && note.last.as_ref() == last
            && note.keeps <= self.in_force.len()
            && self.may_look();
        let Some(recorded) = self.again(note.recorded).filter(|_| is_ours) else { return false };
        let item_count = self.len() + recorded.len();
        let part_count = |index: usize| match index.checked_sub(self.len()) {
            None => self.recorded[index].item.parts.len(),
            Some(offset) => recorded.get(offset).map_or(0, |item| item.parts.len()),
        };
        if !note.blocks.iter().all(|block| fits(block, item_count, part_count)) {
            return false;
        }
        self.copy_count += recorded.len();
        for item in recorded {
            self.record(item, place);
        }
        self.commit(place, tokens_before, note.keeps, note.blocks.into_iter().map(Arc::new).collect());
        true
    }
}

impl Conversation {
    /// What leads to a step, where items from `next` on are not told yet, and where what was recorded
    /// for it ends.
    pub(crate) fn note_of(&self, step: &Step, next: usize) -> (Note, usize) {
        let copies = step.added.iter().filter_map(|block| block.copies.as_ref());
        let is_new = |copies: &&Range<usize>| copies.start >= next && copies.end == step.item_count;
        let item_count = copies.filter(is_new).map(|copies| copies.start).min().unwrap_or(step.item_count);
        let recorded = self.recorded[item_count..step.item_count].iter().map(|recorded| &recorded.item);
        let last = item_count.checked_sub(1).map(|last| self.recorded[last].item.id.clone());
        let note = Note {
            item_count,
            last,
            keeps: step.keeps,
            recorded: Again::all(recorded, &self.recorded[..item_count]),
            blocks: step.added.iter().map(|block| CompactionBlock::clone(block)).collect(),
        };
        (note, step.item_count)
    }
}

impl FilePlace {
    /// The problem that a compaction at this place belongs to other items.
    pub(crate) fn other_items(self) -> Problem {
        let reason = "a compaction of other items than stand before it".to_owned();
        Problem { line: self.line, column: None, fault: Fault::NotUnderstood { reason } }
    }
}

impl Conversation {
    /// What was recorded for a compaction; none where it was not there before, or is too much.
    fn again(&self, recorded: Vec<Again>) -> Option<Vec<Arc<Item>>> {
        let mut items = Vec::new();
        for again in recorded {
            match again {
                Again::New(item) => items.push(item.into()),
                Again::Same(start, end) => {
                    let same = self.recorded.get(start..end)?;
                    if self.copy_count + items.len() + same.len() > COPY_COUNT_MAX {
                        return None;
                    }
                    items.extend(same.iter().map(|recorded| Arc::clone(&recorded.item)));
                }
            }
        }
        Some(items)
    }
}

/// Whether a block could have been made for so many items.
fn fits(block: &CompactionBlock, item_count: usize, part_count: impl Fn(usize) -> usize) -> bool {
    let part_is_there = |edit: &Edit| match edit {
        Edit::Rewrite(rewrite) => rewrite.part_index < part_count(rewrite.item_index),
        Edit::Drop(_) | Edit::Fold(_) => true,
    };
    let is_inside = |copies: &Range<usize>| copies.is_empty() || copies.end <= item_count;
    block.item_count <= item_count
        && block.copies.as_ref().is_none_or(is_inside)
        && block.check(item_count).is_ok()
        && block.edits.iter().all(part_is_there)
        && block.summaries.iter().flatten().all(is_summary)
}
