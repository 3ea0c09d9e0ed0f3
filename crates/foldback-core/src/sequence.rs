//! The indexed list of items that transcripts and views are made of.
//!
//! Everything a trigger or a strategy asks for is kept up to date on push: token prefix sums, turn
//! starts, units, legal cuts, the call index. A push costs O(that item); a clone costs O(1).

mod entry;
#[cfg(test)]
mod tests;
mod tools;

use std::ops::Range;
use std::sync::Arc;

use rpds::HashTrieMapSync;

use crate::chunked::ChunkedVec;
use crate::dialect::{Behind, Plain, WaitingCalls};
use crate::holds::Holds;
use crate::ids::{CallId, Text, Tokens};
use crate::item::{Item, ItemKind};
use crate::part::{Part, ToolCall};
use crate::tokens::ItemTokens;

pub use entry::Entry;
pub(crate) use entry::Mark;
use tools::Tools;

/// How an item hangs together with others, kept apart from the entries for the same reason as marks.
#[derive(Clone, Copy, Debug)]
struct UnitLink {
    /// An earlier member of the unit, or the item itself if it is the first.
    parent: u32,
    /// In the first member: the last one.
    last: u32,
}

/// A failed result and the call that it answers, with what both cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    result: (u32, u32),
    call: Option<(u32, u32)>,
    pub(crate) result_tokens: u32,
    pub(crate) call_tokens: u32,
}

impl Failure {
    /// Where the result stands, as item and part index.
    pub(crate) fn result(self) -> (usize, usize) {
        (self.result.0 as usize, self.result.1 as usize)
    }

    /// Where its call stands; nowhere if there is none.
    pub(crate) fn call(self) -> Option<(usize, usize)> {
        self.call.map(|(item_index, part_index)| (item_index as usize, part_index as usize))
    }
}

/// Something about calls and results that a provider would reject, found on push.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anomaly {
    /// Two calls share an id.
    DuplicateCallId {
        /// The id.
        call_id: CallId,
        /// The later of the two.
        item_index: usize,
    },
    /// A result whose call was never made, or not before it.
    ResultWithoutCall {
        /// The id it names.
        call_id: CallId,
        /// The item that holds the result.
        item_index: usize,
    },
    /// A second result for one call.
    DuplicateResult {
        /// The id.
        call_id: CallId,
        /// The item that holds the second result.
        item_index: usize,
    },
    /// A call that was never answered although the conversation went on.
    UnansweredCall {
        /// The id.
        call_id: CallId,
        /// The item that made the call.
        item_index: usize,
    },
}

/// The newest call under an id. A result answers the newest call that is still open.
#[derive(Clone, Debug)]
struct CallState {
    item_index: u32,
    part_index: u32,
    is_open: bool,
    /// An older call under the same id that is open too.
    earlier: Option<Arc<CallState>>,
}

impl CallState {
    fn is_open_in(&self, item_index: usize) -> bool {
        let mut states = std::iter::successors(Some(self), |state| state.earlier.as_deref());
        states.any(|state| state.is_open && state.item_index as usize == item_index)
    }
}

/// Names and call ids come from providers and hosts, not from an attacker's choice of hash inputs,
/// and a fixed hasher keeps runs identical (T6).
type FixedHasher = foldhash::fast::FixedState;

/// The indexed list.
#[derive(Clone, Debug)]
pub struct Sequence {
    entries: ChunkedVec<Entry>,
    marks: ChunkedVec<Mark>,
    unit_links: ChunkedVec<UnitLink>,
    /// Items with reasoning.
    reasoning: ChunkedVec<u32>,
    failures: ChunkedVec<Failure>,
    turn_starts: ChunkedVec<u32>,
    cuts: ChunkedVec<u32>,
    calls: HashTrieMapSync<CallId, CallState, FixedHasher>,
    tools: Tools,
    anomalies: ChunkedVec<Anomaly>,
    /// An assistant item at the end of the conversation so far that ends in thinking.
    thinking: Option<u32>,
    plain: Plain,
    /// Which calls may wait in some dialect.
    waiting: WaitingCalls,
}

impl Default for Sequence {
    fn default() -> Self {
        Self {
            entries: ChunkedVec::default(),
            marks: ChunkedVec::default(),
            unit_links: ChunkedVec::default(),
            reasoning: ChunkedVec::default(),
            failures: ChunkedVec::default(),
            turn_starts: ChunkedVec::default(),
            cuts: ChunkedVec::default(),
            calls: HashTrieMapSync::new_with_hasher_and_ptr_kind(FixedHasher::default()),
            tools: Tools::default(),
            anomalies: ChunkedVec::default(),
            thinking: None,
            plain: Plain::default(),
            waiting: WaitingCalls::default(),
        }
    }
}

impl Sequence {
    /// How many items there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What all items cost together. O(1).
    pub fn tokens(&self) -> Tokens {
        self.entries.last().map_or(Tokens::ZERO, Entry::tokens_through)
    }

    /// The entry at `index`.
    pub fn get(&self, index: usize) -> Option<&Entry> {
        self.entries.get(index)
    }

    /// All entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Entry> + Clone {
        self.entries.iter()
    }

    /// The entries of `range`.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = &Entry> {
        self.entries.range(range)
    }

    /// What a pass needs to know of the items of `range`.
    pub(crate) fn marks(&self, range: Range<usize>) -> impl Iterator<Item = Mark> {
        self.marks.range(range).copied()
    }

    /// What a pass needs to know of the item at `index`.
    pub(crate) fn mark(&self, index: usize) -> Option<Mark> {
        self.marks.get(index).copied()
    }

    /// What the item at `index` costs.
    pub(crate) fn tokens_at(&self, index: usize) -> Tokens {
        let tokens = self.marks.get(index).and_then(|mark| mark.tokens());
        tokens.or_else(|| self.get(index).map(|entry| entry.tokens.total)).unwrap_or(Tokens::ZERO)
    }

    /// Indices of items with reasoning.
    pub fn with_reasoning(&self) -> impl Iterator<Item = usize> {
        self.reasoning.iter().map(|&index| index as usize)
    }

    /// Items of `range` that hold any of these.
    pub(crate) fn holding(&self, range: Range<usize>, wanted: Holds) -> impl Iterator<Item = usize> {
        let start = range.start;
        let marks = self.marks.range(range).enumerate();
        marks.filter(move |(_, mark)| mark.holds.intersects(wanted)).map(move |(offset, _)| start + offset)
    }

    /// Every call in order: the item that makes it, the number of its tool.
    pub(crate) fn tool_calls(&self) -> impl Iterator<Item = (usize, usize)> {
        self.tools.calls()
    }

    /// The names of tools in order of their numbers.
    pub(crate) fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.names().map(Text::as_str)
    }

    /// Failed results in order.
    pub(crate) fn failures(&self) -> impl DoubleEndedIterator<Item = Failure> {
        self.failures.iter().copied()
    }

    /// All items in order.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = &Arc<Item>> + Clone {
        self.entries.iter().map(Entry::item)
    }

    /// What the items of `range` cost. O(1).
    pub fn tokens_of(&self, range: Range<usize>) -> Tokens {
        let through = |end: usize| match end.checked_sub(1) {
            None => Tokens::ZERO,
            Some(last) => self.get(last).map_or_else(|| self.tokens(), Entry::tokens_through),
        };
        through(range.end).saturating_sub(through(range.start))
    }

    /// How many entries stand before this place of the transcript. O(log n).
    pub(crate) fn position_of_anchor(&self, anchor: usize) -> usize {
        self.entries.partition_point(|entry| entry.anchor() < anchor)
    }

    /// Indices of user items: where turns start.
    pub fn turn_starts(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.turn_starts.iter().map(|&start| start as usize)
    }

    /// How many turns there are.
    pub fn turn_count(&self) -> usize {
        self.turn_starts.len()
    }

    /// Where turn `turn_index` starts.
    pub fn turn_start(&self, turn_index: usize) -> Option<usize> {
        self.turn_starts.get(turn_index).map(|&start| start as usize)
    }

    /// The newest user item.
    pub fn newest_user(&self) -> Option<usize> {
        self.turn_starts.last().map(|&start| start as usize)
    }

    /// The latest legal cut at or before `index`. A cut at `c` separates items `c - 1` and `c`; it
    /// is legal if no unit has members on both sides. O(log n).
    pub fn cut_at_or_before(&self, index: usize) -> usize {
        if index >= self.len() {
            return self.len();
        }
        match self.cuts.partition_point(|&cut| cut as usize <= index) {
            0 => 0,
            count => self.cuts.get(count - 1).map_or(0, |&cut| cut as usize),
        }
    }

    /// The earliest legal cut at or after `index`. O(log n).
    pub fn cut_at_or_after(&self, index: usize) -> usize {
        let count = self.cuts.partition_point(|&cut| (cut as usize) < index);
        self.cuts.get(count).map_or(self.len(), |&cut| cut as usize)
    }

    /// Every legal cut in order, both ends left out.
    pub fn cuts(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.cuts.iter().map(|&cut| cut as usize).filter(|&cut| cut > 0)
    }

    /// The first member of the unit that `index` belongs to.
    pub fn unit_start(&self, index: usize) -> usize {
        let mut root = index;
        while let Some(link) = self.unit_links.get(root) {
            if link.parent as usize == root {
                break;
            }
            root = link.parent as usize;
        }
        root
    }

    /// The items of `range` with which a unit starts.
    pub(crate) fn unit_starts(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let links = range.clone().zip(self.unit_links.range(range));
        links.filter(|&(index, link)| link.parent as usize == index).map(|(index, _)| index)
    }

    /// The first and the last member of the unit that `index` belongs to.
    pub fn unit_ends(&self, index: usize) -> (usize, usize) {
        let start = self.unit_start(index);
        (start, self.unit_links.get(start).map_or(start, |link| link.last as usize))
    }

    /// Every member of the unit that `index` belongs to, in order.
    pub fn unit_members(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let (start, last) = self.unit_ends(index);
        (start..=last).filter(move |&member| member == start || self.unit_start(member) == start)
    }

    /// The loop in flight: the units after the newest user item, if the sequence ends in a tool
    /// result or in a call that waits. What may arrive in the middle of a loop does not end it:
    /// context, notifications, instructions and items of which nothing is sent.
    pub fn loop_in_flight(&self) -> Option<Range<usize>> {
        let unit = self.unit_in_flight()?;
        let is_spoken = |&user: &usize| self.get(user).is_some_and(Entry::is_spoken);
        let after_user = self.turn_starts().rev().find(is_spoken).map_or(0, |user| user + 1);
        // A unit that began before the newest user item and is still open belongs to the loop.
        Some(after_user.min(unit.start)..self.len())
    }

    /// What no call has read yet: everything behind the newest assistant item. O(that many).
    pub fn unread(&self) -> Range<usize> {
        let newest = self.entries.iter().rev().position(|entry| entry.kind == ItemKind::Assistant);
        newest.map_or(0, |count| self.len() - count)..self.len()
    }

    /// The unit in flight: the last unit of the loop in flight with every call that waits, and
    /// whatever arrived since. No edit puts anything among them.
    pub fn unit_in_flight(&self) -> Option<Range<usize>> {
        let waiting = self.pending_calls().next().map(|(item_index, _)| item_index);
        let start = waiting.or_else(|| self.newest_step())?;
        Some(self.cut_at_or_before(start)..self.len())
    }

    /// The newest item of the conversation, if it holds results or calls.
    fn newest_step(&self) -> Option<usize> {
        let ends_loop = |entry: &Entry| entry.is_spoken() && !entry.is_aside();
        let behind = self.entries.iter().rev().take_while(|entry| !ends_loop(entry)).count();
        let newest = self.len().checked_sub(behind + 1)?;
        let entry = self.get(newest)?;
        let is_step = match entry.kind {
            ItemKind::Tool => entry.holds.contains(Holds::RESULT),
            ItemKind::Assistant => entry.holds.contains(Holds::CALL),
            ItemKind::System
            | ItemKind::Developer
            | ItemKind::User
            | ItemKind::Context
            | ItemKind::Notification => false,
        };
        is_step.then_some(newest)
    }

    /// The newest call made under this id.
    pub fn call(&self, call_id: &CallId) -> Option<&ToolCall> {
        let item = &self.get(self.calls.get(call_id)?.item_index as usize)?.item;
        item.calls().map(|(_, call)| call).find(|call| call.id == *call_id)
    }

    /// Where the call stands that the result at `index`, `part_index` answers, as item and part
    /// index; nowhere if there is none.
    pub fn call_answered_by(&self, index: usize, part_index: usize) -> Option<(usize, usize)> {
        if let Some((item_index, part_index)) = self.get(index)?.answers {
            return Some((item_index as usize, part_index as usize));
        }
        // One of several results in an item: the unit is paired again up to it.
        let mut open: Vec<(&CallId, usize, usize)> = Vec::new();
        for member in self.unit_members(index) {
            for (place, part) in self.get(member)?.item.parts.iter().enumerate() {
                match part {
                    Part::ToolCall(call) => open.push((&call.id, member, place)),
                    Part::ToolResult(result) => {
                        let answered = open.iter().rposition(|(call_id, ..)| **call_id == result.call_id);
                        let answered = answered.map(|newest| open.remove(newest));
                        if (member, place) == (index, part_index) {
                            return answered.map(|(_, item_index, part_index)| (item_index, part_index));
                        }
                    }
                    Part::Text(_)
                    | Part::Reasoning(_)
                    | Part::Media(_)
                    | Part::File(_)
                    | Part::Structured(_)
                    | Part::Opaque(_) => {}
                }
            }
        }
        None
    }

    /// Calls at the end that may wait for their results in some dialect: nothing is wrong.
    /// [`check`](crate::check) knows which of them may in one.
    pub fn pending_calls(&self) -> impl Iterator<Item = (usize, &CallId)> {
        self.unanswered_from(self.waiting.item_start())
    }

    /// Everything about calls and results that a provider would reject. O(n); pushes stay O(1).
    pub fn anomalies(&self) -> Vec<Anomaly> {
        let waiting = self.waiting.item_start();
        let unanswered = self
            .unanswered_from(0)
            .filter(|&(item_index, _)| item_index < waiting)
            .map(|(item_index, call_id)| Anomaly::UnansweredCall { call_id: call_id.clone(), item_index });
        self.anomalies.iter().cloned().chain(unanswered).collect()
    }

    /// Whether no provider rejects anything of it, as far as that was seen on push. Where it was not,
    /// [`check`](crate::check) may still find nothing. O(1).
    pub fn is_plain(&self) -> bool {
        self.plain.is_accepted() && self.anomalies.len() == 0
    }

    fn unanswered_from(&self, start: usize) -> impl Iterator<Item = (usize, &CallId)> {
        let makes_calls = |&(_, entry): &(usize, &Entry)| entry.holds.contains(Holds::CALL);
        (start..).zip(self.range(start..self.len())).filter(makes_calls).flat_map(
            move |(item_index, entry)| {
                entry.item.calls().filter_map(move |(_, call)| {
                    let is_open = self.calls.get(&call.id)?.is_open_in(item_index);
                    is_open.then_some((item_index, &call.id))
                })
            },
        )
    }

    /// Appends an item that has been counted already. `span` is what it stands for in the
    /// transcript, `anchor` where it stands.
    pub(crate) fn push(&mut self, item: Arc<Item>, tokens: ItemTokens, span: Range<usize>, anchor: usize) {
        self.push_entry(Entry::new(item, tokens, span, anchor));
    }

    /// Appends an entry of another sequence as it is.
    pub(crate) fn push_counted(&mut self, entry: &Entry) {
        self.push_entry(entry.clone());
    }

    /// Appends an item some of whose parts differ from what was recorded at `index`.
    pub(crate) fn push_rewritten(
        &mut self,
        item: Arc<Item>,
        tokens: ItemTokens,
        index: usize,
        recorded_parts: Vec<u32>,
    ) {
        self.push(item, tokens, index..index + 1, index);
        self.entries.update(self.len() - 1, |entry| entry.recorded_parts = Some(recorded_parts.into()));
    }

    fn push_entry(&mut self, mut entry: Entry) {
        let index = u32::try_from(self.len()).expect("a sequence holds fewer than 2^32 items");
        if entry.kind == ItemKind::User {
            self.turn_starts.push(index);
        }
        let thinking = match entry.is_spoken() {
            true => std::mem::replace(&mut self.thinking, entry.ends_in_thinking().then_some(index)),
            false => None,
        };
        let continued = thinking.filter(|_| entry.kind == ItemKind::Assistant);
        if entry.holds.contains(Holds::REASONING) {
            self.reasoning.push(index);
        }
        self.cuts.push(index);
        self.marks.push(Mark::of(&entry));
        self.unit_links.push(UnitLink { parent: index, last: index });
        let item = Arc::clone(&entry.item);
        entry.tokens_through = self.tokens().0 + entry.tokens.total.0;
        entry.answers = None;
        self.entries.push(entry);
        if let Some(thinking) = continued {
            self.join(thinking, index);
        }
        self.plain.push(&item);
        let mut answered_count = 0;
        for (part_index, part) in (0..).zip(&item.parts) {
            match part {
                Part::ToolCall(call) => {
                    self.tools.push(index, &call.name);
                    self.index_call(&call.id, index, part_index);
                }
                Part::ToolResult(result) => {
                    let call = self.index_result(&result.call_id, index);
                    answered_count += usize::from(call.is_some());
                    if result.is_error {
                        self.note_failure((index, part_index), call);
                    }
                }
                Part::Text(_)
                | Part::Reasoning(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Structured(_)
                | Part::Opaque(_) => {}
            }
        }
        self.waiting.push(index as usize, Behind::anywhere(&item, answered_count));
    }

    fn index_call(&mut self, call_id: &CallId, index: u32, part_index: u32) {
        let state = CallState { item_index: index, part_index, is_open: true, earlier: None };
        match self.calls.get_mut(call_id) {
            None => self.calls.insert_mut(call_id.clone(), state),
            Some(known) => {
                let earlier = std::mem::replace(known, state);
                known.earlier = earlier.is_open.then(|| Arc::new(earlier));
                let item_index = index as usize;
                self.anomalies.push(Anomaly::DuplicateCallId { call_id: call_id.clone(), item_index });
            }
        }
    }

    /// Notes a result and returns where its call stands.
    fn index_result(&mut self, call_id: &CallId, index: u32) -> Option<(u32, u32)> {
        let item_index = index as usize;
        match self.calls.get_mut(call_id) {
            None => {
                self.anomalies.push(Anomaly::ResultWithoutCall { call_id: call_id.clone(), item_index });
                None
            }
            Some(CallState { is_open: false, .. }) => {
                self.anomalies.push(Anomaly::DuplicateResult { call_id: call_id.clone(), item_index });
                None
            }
            Some(state) => {
                let call = (state.item_index, state.part_index);
                match state.earlier.take() {
                    Some(earlier) => *state = CallState::clone(&earlier),
                    None => state.is_open = false,
                }
                self.entries.update(item_index, |entry| {
                    entry.answers = (entry.part_count() == 1).then_some(call);
                });
                self.join(call.0, index);
                self.plain.answer(call);
                Some(call)
            }
        }
    }

    fn note_failure(&mut self, result: (u32, u32), call: Option<(u32, u32)>) {
        let tokens_of = |(item_index, part_index): (u32, u32)| {
            let entry = self.get(item_index as usize)?;
            entry.tokens.parts.get(part_index as usize).copied()
        };
        let result_tokens = tokens_of(result).unwrap_or(0);
        let call_tokens = call.and_then(tokens_of).unwrap_or(0);
        self.failures.push(Failure { result, call, result_tokens, call_tokens });
    }

    /// Makes two items members of one unit; no cut may separate them any more.
    fn join(&mut self, earlier: u32, later: u32) {
        let (a, b) = (self.unit_start(earlier as usize) as u32, self.unit_start(later as usize) as u32);
        let (root, other) = (a.min(b), a.max(b));
        let last_of = |start: u32| self.unit_links.get(start as usize).map_or(start, |link| link.last);
        let last = last_of(root).max(last_of(other)).max(later);
        if root != other {
            self.unit_links.update(other as usize, |link| link.parent = root);
        }
        self.unit_links.update(root as usize, |link| link.last = last);
        while self.cuts.last().is_some_and(|&cut| cut > root) {
            self.cuts.pop();
        }
    }
}
