//! Which result answers which call, and where results belong.
//!
//! One pass over the items with borrowed ids. Matching is positional: a result answers the newest
//! unanswered call with its id, so a repeated id never ties a result to a call of an older round.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::Rule;
use super::demands::{Adjacency, CallIds, Demands, Lowered};
use super::waiting::{Behind, WaitingCalls};
use crate::ids::CallId;
use crate::item::Item;

/// One part of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallPlace {
    pub item_index: usize,
    pub part_index: usize,
}

/// A call that stands in an assistant item.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub id: &'a CallId,
    pub place: CallPlace,
    pub answer: Option<Answer>,
    /// It shares its id with an earlier call in a way that the dialect rejects.
    pub is_repeat: bool,
    message_index: usize,
    /// The next older call with this id that is open too.
    open_below: Option<usize>,
}

/// The result of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub place: CallPlace,
    pub is_adjacent: bool,
}

/// Consecutive assistant items, which are sent as one message.
#[derive(Debug)]
struct Message {
    item_first: usize,
    item_last: usize,
    calls_start: usize,
    answers_start: usize,
}

/// A result that answers no call.
#[derive(Debug)]
pub(super) struct Stray<'a> {
    pub id: &'a CallId,
    pub place: CallPlace,
    pub rule: Rule,
}

/// Where a missing or distant result belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// In a tool item of its own, after this item.
    After {
        /// An assistant item or a tool item.
        item_index: usize,
    },
    /// Inside a tool item, before this part, because the order of results demands it.
    Before(CallPlace),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The message before is complete: a result here is not adjacent to it.
    Closed,
    /// Assistant items are being merged into the newest message.
    Calling,
    /// Results of the newest message may stand here.
    Answering,
}

/// Calls and results of a list of items.
#[derive(Debug)]
pub(super) struct Pairing<'a> {
    demands: &'static Demands,
    pub calls: Vec<Call<'a>>,
    pub strays: Vec<Stray<'a>>,
    messages: Vec<Message>,
    /// Adjacent answers as they occur, as indices of their calls.
    answers: Vec<usize>,
    /// The newest open call of each id ever called. Never iterated, and hashed the same each time (T6).
    open: HashMap<&'a str, Option<usize>, FixedState>,
    phase: Phase,
    waiting: WaitingCalls,
}

impl<'a> Pairing<'a> {
    /// Room for a call in every other item: growing the index hashes every id again, and those
    /// ids are all over the memory.
    pub(super) fn with_capacity(demands: &'static Demands, item_count: usize) -> Self {
        let call_count = item_count / 2;
        Self {
            demands,
            calls: Vec::with_capacity(call_count),
            strays: Vec::new(),
            messages: Vec::with_capacity(call_count),
            answers: Vec::with_capacity(call_count),
            open: HashMap::with_capacity_and_hasher(call_count, FixedState::default()),
            phase: Phase::Closed,
            waiting: WaitingCalls::default(),
        }
    }

    pub(super) fn of(demands: &'static Demands, items: &[&'a Item]) -> Self {
        let mut pairing = Self::with_capacity(demands, items.len());
        for (item_index, item) in items.iter().enumerate() {
            pairing.push(item_index, item, demands.lower(item));
        }
        pairing
    }

    /// Takes the next item.
    pub(super) fn push(&mut self, item_index: usize, item: &'a Item, lowered: Lowered) {
        self.advance(item_index, lowered);
        let mut answered_count = 0;
        match lowered {
            Lowered::Assistant => {
                for (part_index, call) in item.calls() {
                    self.open_call(CallPlace { item_index, part_index }, &call.id);
                }
            }
            Lowered::Results => {
                for (part_index, result) in item.results() {
                    let is_answer = self.answer_call(CallPlace { item_index, part_index }, &result.call_id);
                    answered_count += usize::from(is_answer);
                }
            }
            Lowered::Nothing | Lowered::Apart | Lowered::Instruction | Lowered::User | Lowered::Aside => {}
        }
        self.waiting.push(item_index, Behind::of(lowered, item, answered_count));
    }

    fn advance(&mut self, item_index: usize, lowered: Lowered) {
        match lowered {
            Lowered::Nothing | Lowered::Apart => {}
            Lowered::Instruction | Lowered::User => self.phase = Phase::Closed,
            Lowered::Assistant => self.continue_message(item_index),
            Lowered::Results => {
                if self.phase == Phase::Calling {
                    self.phase = Phase::Answering;
                }
            }
            Lowered::Aside => match (self.demands.adjacency, self.phase) {
                (Adjacency::WithinRound, Phase::Calling | Phase::Answering) => self.phase = Phase::Answering,
                _ => self.phase = Phase::Closed,
            },
        }
    }

    fn continue_message(&mut self, item_index: usize) {
        match self.messages.last_mut() {
            Some(message) if self.phase == Phase::Calling => message.item_last = item_index,
            _ => self.messages.push(Message {
                item_first: item_index,
                item_last: item_index,
                calls_start: self.calls.len(),
                answers_start: self.answers.len(),
            }),
        }
        self.phase = Phase::Calling;
    }

    fn open_call(&mut self, place: CallPlace, id: &'a CallId) {
        let call_index = self.calls.len();
        let earlier = self.open.insert(id.as_str(), Some(call_index));
        let open_below = earlier.flatten();
        let is_repeat = match self.demands.call_ids {
            CallIds::Unique => earlier.is_some(),
            CallIds::UniqueWhileOpen => open_below.is_some(),
        };
        let message_index = self.messages.len() - 1;
        self.calls.push(Call { id, place, answer: None, is_repeat, message_index, open_below });
    }

    /// Takes a result; whether it answers a call.
    fn answer_call(&mut self, place: CallPlace, id: &'a CallId) -> bool {
        let Some(newest_open) = self.open.get_mut(id.as_str()) else {
            self.strays.push(Stray { id, place, rule: Rule::ResultWithoutCall });
            return false;
        };
        let Some(call_index) = *newest_open else {
            self.strays.push(Stray { id, place, rule: Rule::DuplicateResult });
            return false;
        };
        let call = &mut self.calls[call_index];
        *newest_open = call.open_below;
        let is_adjacent = match self.demands.adjacency {
            Adjacency::Anywhere => true,
            Adjacency::WithinRound | Adjacency::Directly => {
                self.phase == Phase::Answering && call.message_index + 1 == self.messages.len()
            }
        };
        call.answer = Some(Answer { place, is_adjacent });
        if is_adjacent && self.demands.adjacency != Adjacency::Anywhere {
            self.answers.push(call_index);
        }
        true
    }

    /// Whether the call waits for its result, and may: nothing wrong yet.
    pub(super) fn is_pending(&self, call: &Call<'_>) -> bool {
        call.answer.is_none() && call.place.item_index >= self.waiting.item_start()
    }

    /// The first item of the message whose calls wait: nothing but results may be put behind it.
    pub(super) fn waiting_message(&self) -> Option<usize> {
        let waiting = self.calls.iter().rev().find(|call| self.is_pending(call))?;
        Some(self.messages[waiting.message_index].item_first)
    }

    /// Whether the call needs another id. A pending call keeps its own, because its result is
    /// under way by that name.
    pub(super) fn needs_other_id(&self, call: &Call<'_>) -> bool {
        !self.is_pending(call) && (call.is_repeat || self.is_shadowed(call))
    }

    /// Whether a result made up for the call would be taken for one of a call in the same message that
    /// still waits.
    fn is_shadowed(&self, call: &Call<'_>) -> bool {
        let newest =
            self.open.get(call.id.as_str()).copied().flatten().and_then(|index| self.calls.get(index));
        call.answer.is_none()
            && newest
                .is_some_and(|newest| newest.message_index == call.message_index && self.is_pending(newest))
    }

    /// Calls whose result is missing or not adjacent, and where it belongs: behind the results of
    /// the calls made before it.
    pub(super) fn homeless(&self) -> impl Iterator<Item = (&Call<'a>, Home)> {
        self.messages.iter().enumerate().flat_map(move |(message_index, message)| {
            let answers = self.answers_of(message_index);
            let mut rank = 0;
            self.calls_of(message_index).iter().filter_map(move |call| {
                let is_in_place = call.answer.is_some_and(|answer| answer.is_adjacent);
                if is_in_place {
                    rank += 1;
                    return None;
                }
                (!self.is_pending(call)).then(|| (call, self.home(message, answers, rank)))
            })
        })
    }

    fn home(&self, message: &Message, answers: &[usize], rank: usize) -> Home {
        // Where results may stand anywhere, `answers` is not kept: next to the call is best.
        let Some(previous) = rank.checked_sub(1).and_then(|previous| answers.get(previous)) else {
            return Home::After { item_index: message.item_last };
        };
        let item_index = self.answer_place(*previous).item_index;
        match answers.get(rank).map(|&next| self.answer_place(next)) {
            Some(next) if self.demands.results_ordered && next.item_index == item_index => Home::Before(next),
            _ => Home::After { item_index },
        }
    }

    /// Results that stand where another result of the same message belongs: both places, the
    /// wrong occupant's and its own, message by message.
    pub(super) fn out_of_order(&self) -> impl Iterator<Item = Displaced> {
        let message_count = if self.demands.results_ordered { self.messages.len() } else { 0 };
        (0..message_count).flat_map(move |message_index| {
            let in_place = |call: &&Call<'_>| call.answer.is_some_and(|answer| answer.is_adjacent);
            let wanted = self.calls_of(message_index).iter().filter(in_place);
            self.answers_of(message_index).iter().zip(wanted).filter_map(move |(&found, wanted)| {
                let (found, wanted) = (self.answer_place(found), wanted.answer?.place);
                (found != wanted).then_some(Displaced { message_index, found, wanted })
            })
        })
    }

    fn calls_of(&self, message_index: usize) -> &[Call<'a>] {
        let end = self.messages.get(message_index + 1).map_or(self.calls.len(), |next| next.calls_start);
        &self.calls[self.messages[message_index].calls_start..end]
    }

    fn answers_of(&self, message_index: usize) -> &[usize] {
        let end = self.messages.get(message_index + 1).map_or(self.answers.len(), |next| next.answers_start);
        &self.answers[self.messages[message_index].answers_start..end]
    }

    fn answer_place(&self, call_index: usize) -> CallPlace {
        let call = &self.calls[call_index];
        call.answer.map_or(call.place, |answer| answer.place)
    }
}

/// The result at `found` stands where the one at `wanted` belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Displaced {
    pub message_index: usize,
    pub found: CallPlace,
    pub wanted: CallPlace,
}
