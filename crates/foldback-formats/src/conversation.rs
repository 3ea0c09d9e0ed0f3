//! One conversation as a file records it: the items in order, and the compactions among them.
//!
//! A compaction that an agent made hides items and may put in others: a summary, and copies of
//! what it kept. Both stay in the list, in the order of the file, so that the list is append-only
//! like a transcript; an overlay of drops and rewrites over it is what the model saw last, and
//! another one, which drops what compactions put in, is the history.

mod held;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::edit::{Drop, Edit};
use foldback_core::{
    CompactionBlock, Dialect, Handle, Item, ItemKind, Overlay, Part, Reason, Rewrite, Text, Timestamp,
    TokenCounter, Tokens, Transcript, TurnId, View,
};

/// Where something stands in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line of its first record, counted from 1.
    pub line: usize,
}

impl Place {
    /// On this line.
    pub fn line(line: usize) -> Self {
        Self { line }
    }
}

/// An item and where it stands.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The item.
    pub item: Arc<Item>,
    /// Where the file has it.
    pub place: Place,
}

/// A compaction found in a file.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// Where the file has it.
    pub place: Place,
    /// Who made it.
    pub by: Text,
    /// When.
    pub created_at: Option<Timestamp>,
    /// What the agent says the context held before.
    pub tokens_before: Option<Tokens>,
    /// The items it put in: summaries and copies.
    pub inserted: Range<usize>,
    /// The items it hid.
    pub hidden: Vec<Range<usize>>,
    /// The parts it replaced.
    pub cleared: Vec<Cleared>,
}

/// A part that a compaction replaced or removed.
#[derive(Clone, Debug)]
pub struct Cleared {
    /// The item's index.
    pub item_index: usize,
    /// The part's index.
    pub part_index: usize,
    /// What stands there now.
    pub replacement: Option<Part>,
}

/// One entry of what the model sees after a compaction.
#[expect(clippy::large_enum_variant, reason = "these lists live for a moment, and boxes would cost more")]
#[derive(Clone, Debug)]
pub enum Shown {
    /// An item recorded before, by its index.
    Kept(usize),
    /// Something new, such as a summary, or an old item in another form.
    New(Item),
}

/// Items that all compactions of a conversation together may put in again. A record of a few bytes
/// can ask for all that was said before it, so that a small file could fill any memory.
const COPY_COUNT_MAX: usize = 1_000_000;

/// Entries that are looked at for all compactions of a conversation together: real sessions stay
/// far below, and a file of nothing but compactions ends in seconds.
const LOOK_COUNT_MAX: usize = 20_000_000;

/// One conversation as a file records it.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    name: Option<Text>,
    recorded: Vec<Recorded>,
    compactions: Vec<Compaction>,
    /// What the model sees: indices, in order.
    visible: Vec<usize>,
    turn: Option<TurnId>,
    turn_count: usize,
    copy_count: usize,
    look_count: usize,
    /// The first compaction that was too much to follow.
    left_at: Option<Place>,
}

impl Conversation {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with the name that the file gives it.
    #[must_use]
    pub fn named(mut self, name: impl Into<Text>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The name that the file gives it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Appends an item of the history and gives its index. A user item begins a turn; items
    /// without a turn of their own belong to the one that is running.
    pub fn push(&mut self, item: impl Into<Arc<Item>>, place: Place) -> usize {
        self.visible.push(self.recorded.len());
        self.record(item.into(), place)
    }

    fn record(&mut self, mut item: Arc<Item>, place: Place) -> usize {
        if item.kind == ItemKind::User {
            self.turn_count += 1;
            self.turn = Some(format!("turn-{}", self.turn_count).into());
        }
        if item.turn_id.is_none() && self.turn.is_some() {
            Arc::make_mut(&mut item).turn_id = self.turn.clone();
        }
        self.recorded.push(Recorded { item, place });
        self.recorded.len() - 1
    }

    /// Adds parts to an item recorded before: one message of an API can be several records.
    pub fn extend_item(&mut self, item_index: usize, parts: impl IntoIterator<Item = Part>) {
        if let Some(recorded) = self.recorded.get_mut(item_index) {
            Arc::make_mut(&mut recorded.item).parts.extend(parts);
        }
    }

    /// Changes what is recorded beside the parts of an item, such as usage that came later.
    pub fn amend_item(&mut self, item_index: usize, amend: impl FnOnce(&mut Item)) {
        if let Some(recorded) = self.recorded.get_mut(item_index) {
            amend(Arc::make_mut(&mut recorded.item));
        }
    }

    /// Records a compaction after which the model sees exactly `shown`.
    ///
    /// Kept items stay where they are as long as they come first and in order; from the first new
    /// entry on, the rest is put in again behind everything recorded so far, as copies that share
    /// the item, because places in a transcript do not change.
    ///
    /// From the first compaction on that goes beyond what is followed ([`left_at`](Self::left_at)),
    /// none hides or puts in anything: what was said stays visible.
    pub fn replace(&mut self, mut compaction: Compaction, shown: impl IntoIterator<Item = Shown>) {
        let mut shown = shown.into_iter().peekable();
        self.look_count = self.look_count.saturating_add(self.visible.len());
        if self.left_at.is_some() || self.look_count > LOOK_COUNT_MAX {
            return self.leave(compaction);
        }
        let mut kept: Vec<usize> = Vec::new();
        let in_order = |kept: &[usize], index: usize| kept.last().is_none_or(|&last| last < index);
        while let Some(Shown::Kept(index)) = shown.peek() {
            let index = *index;
            // A kept item may have been hidden by an earlier compaction, and hidden is for good.
            if !in_order(&kept, index) || self.visible.binary_search(&index).is_err() {
                break;
            }
            kept.push(index);
            shown.next();
        }
        let copies_left = COPY_COUNT_MAX - self.copy_count;
        let mut copy_count = 0;
        let mut rest = Vec::new();
        for entry in shown {
            copy_count += usize::from(matches!(entry, Shown::Kept(_)));
            if copy_count > copies_left {
                return self.leave(compaction);
            }
            rest.push(entry);
        }
        self.copy_count += copy_count;
        let mut kept_next = kept.iter().peekable();
        let hidden = self.visible.iter().filter(|index| kept_next.next_if_eq(index).is_none());
        compaction.hidden = ranges(hidden.copied());
        let inserted_start = self.recorded.len();
        for entry in rest {
            match entry {
                Shown::Kept(index) => {
                    if let Some(copy) = self.recorded.get(index).cloned() {
                        self.recorded.push(copy);
                    }
                }
                Shown::New(item) => {
                    let turn = item.turn_id.clone();
                    self.recorded.push(Recorded { item: Arc::new(item), place: compaction.place });
                    self.turn = turn.or_else(|| self.turn.take());
                }
            }
        }
        compaction.inserted = inserted_start..self.recorded.len();
        self.visible = kept;
        self.visible.extend(compaction.inserted.clone());
        self.compactions.push(compaction);
    }

    /// Records a compaction that hides nothing and puts in one item, and gives the item's index.
    pub fn insert(&mut self, mut compaction: Compaction, item: Item) -> usize {
        let index = self.recorded.len();
        self.turn = item.turn_id.clone().or_else(|| self.turn.take());
        self.recorded.push(Recorded { item: Arc::new(item), place: compaction.place });
        self.visible.push(index);
        compaction.inserted = index..index + 1;
        self.compactions.push(compaction);
        index
    }

    fn leave(&mut self, mut compaction: Compaction) {
        self.left_at.get_or_insert(compaction.place);
        compaction.inserted = self.recorded.len()..self.recorded.len();
        self.compactions.push(compaction);
    }

    /// The first compaction that is recorded and not followed, because a file asked for more than
    /// any session does. A reader need not work out what later ones show.
    pub fn left_at(&self) -> Option<Place> {
        self.left_at
    }

    /// Records that parts of visible items were replaced, and nothing hidden.
    pub fn clear(&mut self, mut compaction: Compaction, cleared: Vec<Cleared>) {
        compaction.inserted = self.recorded.len()..self.recorded.len();
        compaction.cleared = cleared;
        compaction.cleared.retain(|part| {
            let recorded = self.recorded.get(part.item_index);
            recorded.is_some_and(|recorded| part.part_index < recorded.item.parts.len())
        });
        self.compactions.push(compaction);
    }

    /// How many items it has, those that compactions put in included.
    pub fn len(&self) -> usize {
        self.recorded.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// All items in the order of the file, those that compactions put in included.
    pub fn recorded(&self) -> &[Recorded] {
        &self.recorded
    }

    /// The items of the history: what was said, without what compactions put in.
    pub fn history(&self) -> impl Iterator<Item = &Recorded> {
        // What compactions put in lies in their order.
        let mut put_in = self.compactions.iter().map(|made| &made.inserted).peekable();
        let mut is_said = move |index: usize| {
            while put_in.next_if(|range| range.end <= index).is_some() {}
            !put_in.peek().is_some_and(|range| range.contains(&index))
        };
        self.recorded.iter().enumerate().filter(move |(index, _)| is_said(*index)).map(|(_, item)| item)
    }

    /// The indices of what the model saw last, before parts were replaced.
    pub fn visible(&self) -> &[usize] {
        &self.visible
    }

    /// The index of every item, by its address: what a compaction leaves as it was is the same item
    /// still. Of several places that share an item, the last one counts.
    pub fn indices(&self) -> HashMap<*const Item, usize> {
        let addresses = self.recorded.iter().map(|recorded| Arc::as_ptr(&recorded.item));
        addresses.enumerate().map(|(index, address)| (address, index)).collect()
    }

    /// The compactions in order.
    pub fn compactions(&self) -> &[Compaction] {
        &self.compactions
    }

    /// Everything as a transcript.
    pub fn transcript(&self, counter: Arc<dyn TokenCounter>, dialect: Option<Dialect>) -> Transcript {
        let mut transcript = match dialect {
            Some(dialect) => Transcript::for_dialect(counter, dialect),
            None => Transcript::new(counter),
        };
        transcript.extend(self.recorded.iter().map(|recorded| Arc::clone(&recorded.item)));
        transcript
    }

    /// What the model saw when `transcript`, the beginning of this conversation, was all there was.
    pub fn view_of(&self, transcript: &Transcript) -> View {
        let in_force = self.compactions.iter().filter(|made| made.inserted.end <= transcript.len());
        let mut visible = vec![true; transcript.len()];
        let mut tokens = Tokens::ZERO;
        let mut counted = 0;
        let total = |range: Range<usize>| transcript.tokens_of(range);
        let blocks = in_force.map(|made| {
            tokens += total(counted..made.inserted.start);
            let tokens_before = tokens;
            let (edits, saved) = edits_of(made, transcript, &mut visible);
            tokens = tokens.saturating_sub(saved) + total(made.inserted.clone());
            counted = made.inserted.end;
            CompactionBlock {
                kind: foldback_core::BlockKind::Imported,
                strategy: made.by.clone(),
                created_at: made.created_at,
                item_count: made.inserted.end,
                tokens_before,
                tokens_after: tokens,
                edits,
                ..CompactionBlock::default()
            }
        });
        let overlay: Overlay = blocks.collect();
        View::through(transcript, &overlay).expect("a conversation's compactions lie within it")
    }

    /// Everything that was said, as if nothing had been compacted.
    pub fn history_of(&self, transcript: &Transcript) -> View {
        Self::without(self.compactions.iter().map(|made| made.inserted.clone()), transcript)
    }

    /// Everything but these ranges of what compactions put in.
    fn without(inserted: impl Iterator<Item = Range<usize>>, transcript: &Transcript) -> View {
        let reason = Reason::new("recorded", "put in by an earlier compaction, not said");
        let ranges: Vec<Range<usize>> =
            inserted.filter(|range| !range.is_empty() && range.end <= transcript.len()).collect();
        if ranges.is_empty() {
            return View::of(transcript);
        }
        let dropped: Tokens = ranges.iter().map(|range| transcript.tokens_of(range.clone())).sum();
        let drop_range = |range| Edit::Drop(Drop { range, reason: reason.clone() });
        let overlay = Overlay::default().with(CompactionBlock {
            kind: foldback_core::BlockKind::Undo,
            strategy: "history".into(),
            item_count: transcript.len(),
            tokens_before: transcript.tokens(),
            tokens_after: transcript.tokens().saturating_sub(dropped),
            edits: ranges.into_iter().map(drop_range).collect(),
            ..CompactionBlock::default()
        });
        View::through(transcript, &overlay).expect("what compactions put in lies within the conversation")
    }
}

impl Compaction {
    /// A compaction made by `by`, recorded at `place`.
    pub fn new(by: impl Into<Text>, place: Place) -> Self {
        Self {
            place,
            by: by.into(),
            created_at: None,
            tokens_before: None,
            inserted: 0..0,
            hidden: Vec::new(),
            cleared: Vec::new(),
        }
    }
}

/// The edits of a recorded compaction, and the tokens they save.
fn edits_of(made: &Compaction, transcript: &Transcript, visible: &mut [bool]) -> (Vec<Edit>, Tokens) {
    let why: Text = format!("compacted by {} (line {})", made.by, made.place.line).into();
    let reason = Reason::new("recorded", why);
    let mut edits = Vec::new();
    let mut saved = Tokens::ZERO;
    for range in &made.hidden {
        for index in range.clone() {
            if std::mem::take(&mut visible[index]) {
                saved += transcript.tokens_of(index..index + 1);
            }
        }
        edits.push(Edit::Drop(Drop { range: range.clone(), reason: reason.clone() }));
    }
    for part in &made.cleared {
        let Some(entry) = transcript.get(part.item_index) else { continue };
        let tokens = part.replacement.as_ref().map_or(0, |part| transcript.meter().part(part));
        let before = entry.tokens().parts.get(part.part_index).copied().unwrap_or(0);
        if visible[part.item_index] {
            saved += Tokens(u64::from(before.saturating_sub(tokens)));
        }
        edits.push(Edit::Rewrite(Rewrite {
            item_index: part.item_index,
            part_index: part.part_index,
            replacement: part.replacement.clone(),
            tokens,
            handle: Handle::of_part(part.item_index, &entry.item().id, part.part_index),
            reason: reason.clone(),
        }));
    }
    (edits, saved)
}

/// Ascending indices as ranges.
fn ranges(indices: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for index in indices {
        match ranges.last_mut() {
            Some(range) if range.end == index => range.end += 1,
            _ => ranges.push(index..index + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::EstimatingCounter;

    fn long(item_count: usize) -> Conversation {
        let mut conversation = Conversation::new();
        for number in 0..item_count {
            conversation.push(Item::user(format!("m{number}"), "word"), Place::line(number + 1));
        }
        conversation
    }

    fn view(conversation: &Conversation) -> View {
        conversation.view_of(&conversation.transcript(Arc::new(EstimatingCounter), None))
    }

    #[test]
    fn thousands_of_compactions_take_time_that_grows_with_the_file() {
        let mut conversation = long(5_000);
        for number in 0..50_000 {
            let summary = Item::text(format!("s{number}"), ItemKind::Context, "so far");
            conversation.insert(Compaction::new("test", Place::line(1)), summary);
        }
        assert_eq!(conversation.history().count(), 5_000);
        assert_eq!(view(&conversation).len(), 55_000);
    }

    #[test]
    fn compactions_that_ask_for_too_many_copies_are_not_followed() {
        let mut conversation = long(5_000);
        for _ in 0..5_000 {
            let summary = Item::text("s", ItemKind::Context, "so far");
            let shown = std::iter::once(Shown::New(summary)).chain((0..5_000).map(Shown::Kept));
            conversation.replace(Compaction::new("test", Place::line(7)), shown);
        }
        assert_eq!(conversation.left_at(), Some(Place::line(7)));
        assert!(conversation.len() <= 5_000 + COPY_COUNT_MAX + COPY_COUNT_MAX / 5_000);
        assert_eq!(conversation.history().count(), 5_000);
        assert_eq!(view(&conversation).len(), 5_001, "what was visible then still is");
    }

    #[test]
    fn one_compaction_that_shows_everything_many_times_is_not_followed() {
        let mut conversation = long(10_000);
        let shown = (0..10_000).flat_map(|_| (0..10_000).map(Shown::Kept));
        conversation.replace(Compaction::new("test", Place::line(7)), shown);
        assert_eq!((conversation.len(), view(&conversation).len()), (10_000, 10_000));
    }
}
