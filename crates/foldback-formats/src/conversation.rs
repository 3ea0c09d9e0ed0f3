//! One conversation as a file records it: the items in order, and the compactions among them.
//!
//! Items are what was said. A compaction is a [`CompactionBlock`], whoever made it: foldback writes
//! its own into the file ([`note`]), and an agent's is worked out from what the file shows afterwards
//! ([`replace`](Conversation::replace)). So a conversation is a transcript and the blocks in force, as
//! in a store, and copies that an agent needs to resume are not taken for something said again.

mod cover;
mod metered;
mod note;
mod replace;
mod reported;
mod sent;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::edit::{Drop, Edit};
use foldback_core::splice::{covers, unite};
use foldback_core::{
    BlockKind, CompactionBlock, Dialect, Handle, Item, ItemKind, Overlay, Part, Reason, Rewrite, Text,
    Timestamp, TokenCounter, Tokens, Transcript, TurnId, View,
};

use cover::{hidden_by, summaries_of};
pub use metered::{MeteredStep, MeteredSteps};
pub(crate) use note::{Extension, Kept, Note};
pub use reported::ReportsOnView;
pub use sent::Sent;

/// Where something stands in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePlace {
    /// The line of its first record, counted from 1.
    pub line: usize,
}

impl FilePlace {
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
    pub place: FilePlace,
}

/// A change of what the model sees, found in a file.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where the file has it.
    pub place: FilePlace,
    /// What it does.
    pub action: StepAction,
    /// The blocks that it puts in force; for an undo, those that it takes off, the newest first.
    pub blocks: Vec<Arc<CompactionBlock>>,
    /// What the agent says the context held before.
    pub tokens_before: Option<Tokens>,
    /// How many blocks stay in force, and what is put in force on them.
    keeps: usize,
    added: Vec<Arc<CompactionBlock>>,
    /// How many items were recorded by then.
    item_count: usize,
}

impl Step {
    /// How many items were recorded when it was made, those recorded for it included.
    pub fn item_count(&self) -> usize {
        self.item_count
    }

    /// How many items there were before it.
    pub fn item_count_before(&self) -> usize {
        let copies = self.added.iter().filter_map(|block| block.copies.as_ref());
        let is_own = |copies: &&Range<usize>| copies.end == self.item_count && !copies.is_empty();
        copies.filter(is_own).map(|copies| copies.start).min().unwrap_or(self.item_count)
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepAction {
    /// Puts a compaction in force.
    Compact,
    /// Takes the newest compaction off.
    Undo,
    /// Puts the compaction in force again that was undone last.
    Redo,
}

/// Who made a compaction, where and when.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) by: Text,
    pub(crate) place: FilePlace,
    pub(crate) created_at: Option<Timestamp>,
    /// What the agent says the context held before.
    pub(crate) tokens_before: Option<Tokens>,
}

impl Made {
    /// Made by `by`, recorded at `place`.
    pub(crate) fn by(by: impl Into<Text>, place: FilePlace) -> Self {
        Self { by: by.into(), place, created_at: None, tokens_before: None }
    }
}

/// A part that a compaction replaced or removed.
#[derive(Clone, Debug)]
pub(crate) struct Cleared {
    /// The item's index.
    pub(crate) item_index: usize,
    /// The part's index.
    pub(crate) part_index: usize,
    /// What stands there now.
    pub(crate) replacement: Option<Part>,
}

/// Something that the model sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    /// A recorded item, by its index.
    Item(usize),
    /// A summary that a compaction put in, by its number.
    Summary(usize),
}

/// One entry of what the model sees after a compaction.
#[expect(clippy::large_enum_variant, reason = "these lists live for a moment, and boxes would cost more")]
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// Something that was there before.
    Kept(Seen),
    /// Something new, such as a summary, or an old item in another form.
    New(Item),
}

/// A summary that a fold put in.
#[derive(Clone, Debug)]
struct Summary {
    item: Arc<Item>,
    /// The transcript indices that its fold covers; the first names it.
    range: Range<usize>,
    anchor: usize,
    /// Whether it is the only item of its fold's summary.
    is_alone: bool,
}

/// How many undos can be redone; older ones are forgotten.
const UNDONE_MAX: usize = 64;

/// One conversation as a file records it.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    name: Option<Text>,
    recorded: Vec<Recorded>,
    steps: Vec<Step>,
    in_force: Vec<Arc<CompactionBlock>>,
    /// What was in force before each undo that can be redone, the newest last.
    undone: Vec<Vec<Arc<CompactionBlock>>>,
    /// What the model sees, in order.
    visible: Vec<Seen>,
    summaries: Vec<Summary>,
    turn: Option<TurnId>,
    turn_count: usize,
    copy_count: usize,
    look_count: usize,
    /// The names of the newest records that repeat items, by the items' indices.
    copy_names: HashMap<usize, Text>,
    /// The first compaction that was too much to follow.
    left_at: Option<FilePlace>,
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

    /// Appends an item and gives its index. A user item begins a turn; items without a turn of their
    /// own belong to the one that is running.
    pub fn push(&mut self, item: impl Into<Arc<Item>>, place: FilePlace) -> usize {
        let mut item = item.into();
        if item.kind == ItemKind::User {
            self.turn_count += 1;
            self.turn = Some(format!("turn-{}", self.turn_count).into());
        }
        if item.turn_id.is_none() && self.turn.is_some() {
            Arc::make_mut(&mut item).turn_id = self.turn.clone();
        }
        self.record(item, place)
    }

    fn record(&mut self, item: Arc<Item>, place: FilePlace) -> usize {
        self.visible.push(Seen::Item(self.recorded.len()));
        self.recorded.push(Recorded { item, place });
        self.recorded.len() - 1
    }

    /// Adds parts to an item recorded before: one message of an API can be several records.
    pub(crate) fn extend_item(&mut self, item_index: usize, parts: impl IntoIterator<Item = Part>) {
        if let Some(recorded) = self.recorded.get_mut(item_index) {
            Arc::make_mut(&mut recorded.item).parts.extend(parts);
        }
    }

    /// Changes what is recorded beside the parts of an item, such as usage that came later.
    pub(crate) fn amend_item(&mut self, item_index: usize, amend: impl FnOnce(&mut Item)) {
        if let Some(recorded) = self.recorded.get_mut(item_index) {
            amend(Arc::make_mut(&mut recorded.item));
        }
    }

    /// Records that parts of visible items were replaced, and nothing hidden.
    pub(crate) fn clear(&mut self, made: &Made, cleared: Vec<Cleared>) {
        let reason = made.reason();
        let rewrite = |part: Cleared| {
            let item = &self.recorded.get(part.item_index)?.item;
            let handle = Handle::of_part(part.item_index, &item.id, part.part_index);
            let rewrite = Rewrite {
                item_index: part.item_index,
                part_index: part.part_index,
                replacement: part.replacement,
                tokens: 0,
                handle,
                reason: reason.clone(),
            };
            (part.part_index < item.parts.len()).then_some(Edit::Rewrite(rewrite))
        };
        let edits = cleared.into_iter().filter_map(rewrite).collect();
        let block = self.imported(made, edits, Vec::new());
        self.commit(made.place, made.tokens_before, self.in_force.len(), vec![block.into()]);
    }

    /// The block of a compaction that an agent made. Its tokens are counted when they are asked for.
    fn imported(&self, made: &Made, edits: Vec<Edit>, summaries: Vec<Vec<Item>>) -> CompactionBlock {
        CompactionBlock {
            kind: BlockKind::Imported,
            strategy: made.by.clone(),
            created_at: made.created_at,
            item_count: self.recorded.len(),
            edits,
            summaries,
            ..CompactionBlock::default()
        }
    }

    /// Puts blocks in force on top of the first `keeps` that are.
    fn commit(
        &mut self,
        place: FilePlace,
        tokens_before: Option<Tokens>,
        keeps: usize,
        added: Vec<Arc<CompactionBlock>>,
    ) {
        let is_undo_block = |block: &Arc<CompactionBlock>| block.kind == BlockKind::Undo;
        let taken_off = self.in_force.split_off(keeps.min(self.in_force.len()));
        let keeps = self.in_force.len();
        let is_undo = !taken_off.is_empty() && added.iter().all(is_undo_block);
        let before = is_undo.then(|| self.in_force.iter().chain(&taken_off).cloned().collect());
        self.in_force.extend(added.iter().cloned());
        let action = match self.undone.last() {
            Some(undone) if *undone == self.in_force => {
                self.undone.pop();
                StepAction::Redo
            }
            _ if is_undo => {
                self.undone.extend(before);
                let forgotten = self.undone.len().saturating_sub(UNDONE_MAX);
                self.undone.drain(..forgotten);
                StepAction::Undo
            }
            _ => {
                self.undone.clear();
                StepAction::Compact
            }
        };
        match taken_off.is_empty() {
            true => added.iter().for_each(|block| self.apply(block)),
            false => self.look_again(),
        }
        let told = if is_undo { taken_off.iter().rev() } else { added.iter().rev() };
        let mut blocks: Vec<Arc<CompactionBlock>> =
            told.filter(|block| !is_undo_block(block)).cloned().collect();
        if !is_undo {
            blocks.reverse();
        }
        let item_count = self.recorded.len();
        self.steps.push(Step { place, action, blocks, keeps, added, item_count, tokens_before });
    }

    /// Changes what is visible as a block says.
    fn apply(&mut self, block: &CompactionBlock) {
        let hidden = united(hidden_by(block));
        let summaries = &self.summaries;
        self.visible.retain(|seen| match seen {
            Seen::Item(index) => !covers(&hidden, *index),
            Seen::Summary(number) => !covers(&hidden, summaries[*number].range.start),
        });
        for (fold, items) in block.folds() {
            let at = self.visible.partition_point(|&seen| self.anchor(seen) <= fold.anchor);
            let first = self.summaries.len();
            self.summaries.extend(summaries_of(fold, items));
            self.visible.splice(at..at, (first..self.summaries.len()).map(Seen::Summary));
        }
    }

    fn anchor(&self, seen: Seen) -> usize {
        match seen {
            Seen::Item(index) => index,
            Seen::Summary(number) => self.summaries[number].anchor,
        }
    }

    /// The first compaction that is recorded and not followed, because a file asked for more than
    /// any session does. A reader need not work out what later ones show.
    pub(crate) fn left_at(&self) -> Option<FilePlace> {
        self.left_at
    }

    /// What the model saw last, before parts were replaced.
    pub(crate) fn visible(&self) -> &[Seen] {
        &self.visible
    }

    /// The item behind something that the model sees, before parts were replaced.
    pub(crate) fn item(&self, seen: Seen) -> Option<&Arc<Item>> {
        match seen {
            Seen::Item(index) => self.recorded.get(index).map(|recorded| &recorded.item),
            Seen::Summary(number) => self.summaries.get(number).map(|summary| &summary.item),
        }
    }

    /// Notes that a record of this name repeats something that the model sees.
    pub(crate) fn repeat(&mut self, seen: Seen, record: impl Into<Text>) {
        if let Seen::Item(index) = seen {
            self.copy_names.insert(index, record.into());
        }
    }

    /// The name of the newest record that shows an item: its own, or that of a copy.
    pub fn record_of(&self, item_index: usize) -> Option<&str> {
        let own = || self.recorded.get(item_index).map(|recorded| &*recorded.item.id);
        self.copy_names.get(&item_index).map(|name| &**name).or_else(own)
    }

    /// Makes the newest step part of the one before it, so that both are undone together.
    pub(crate) fn join_steps(&mut self) {
        let Some(newest) = self.steps.pop() else { return };
        let Some(step) = self.steps.last_mut() else { return self.steps.push(newest) };
        let joined: Vec<_> = newest
            .added
            .into_iter()
            .map(|block| Arc::new(CompactionBlock { is_joined: true, ..Arc::unwrap_or_clone(block) }))
            .collect();
        self.in_force.truncate(self.in_force.len() - joined.len());
        self.in_force.extend(joined.iter().cloned());
        step.blocks.extend(joined.iter().cloned());
        step.added.extend(joined);
        step.item_count = newest.item_count;
    }

    /// How many items are recorded, those repaired for compactions included.
    pub fn len(&self) -> usize {
        self.recorded.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty()
    }

    /// All recorded items in order, those that were recorded for compactions included.
    pub fn recorded(&self) -> &[Recorded] {
        &self.recorded
    }

    /// What changed what the model sees, in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// What a redo puts in force: the blocks that were in force before the last undo.
    pub fn redo(&self) -> Option<Overlay> {
        self.undone.last().map(|blocks| blocks.iter().cloned().collect())
    }

    /// How many blocks are in force.
    pub fn block_count(&self) -> usize {
        self.in_force.len()
    }

    /// The items of the history: what was said, without what was recorded for compactions.
    pub fn history(&self) -> impl Iterator<Item = &Recorded> {
        self.said().map(|(_, recorded)| recorded)
    }

    /// The same, each with its index.
    pub fn said(&self) -> impl Iterator<Item = (usize, &Recorded)> {
        let copies = self.copies();
        self.recorded.iter().enumerate().filter(move |(index, _)| !covers(&copies, *index))
    }

    /// Where items stand that were recorded for compactions, in order.
    pub fn copies(&self) -> Vec<Range<usize>> {
        let blocks = self.steps.iter().flat_map(|step| &step.blocks);
        united(blocks.filter_map(|block| block.copies.clone()).filter(|copies| !copies.is_empty()).collect())
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
        let steps = self.steps.iter().take_while(|step| step.item_count <= transcript.len());
        self.view_after(steps.count(), transcript)
    }

    /// What the model saw after so many steps, in a transcript that has all items by then.
    pub fn view_after(&self, step_count: usize, transcript: &Transcript) -> View {
        let overlay: Overlay = self.blocks_after(step_count, transcript).into_iter().collect();
        View::through(transcript, &overlay).expect("a conversation's blocks lie within it")
    }

    /// Everything that was said, as if nothing had been compacted.
    pub fn history_of(&self, transcript: &Transcript) -> View {
        let is_there = |range: &Range<usize>| range.end <= transcript.len();
        let ranges: Vec<Range<usize>> = self.copies().into_iter().filter(is_there).collect();
        let view = View::of(transcript);
        if ranges.is_empty() {
            return view;
        }
        view.hiding(&ranges).expect("what was recorded for compactions lies within the conversation")
    }
}

impl Made {
    fn reason(&self) -> Reason {
        Reason::new("recorded", format!("compacted by {} (line {})", self.by, self.place.line))
    }
}

fn drop_of(range: Range<usize>, reason: &Reason) -> Edit {
    Edit::Drop(Drop { range, reason: reason.clone() })
}

/// Whether an item can be the summary of a fold: text with the authority of context that says what it
/// stands for.
fn is_summary(item: &Item) -> bool {
    item.kind == ItemKind::Context
        && item.summary.is_some()
        && item.parts.iter().all(|part| matches!(part, Part::Text(_) | Part::Structured(_)))
}

/// Ranges in order, those that touch as one.
fn united(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    unite(&mut ranges);
    ranges
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
