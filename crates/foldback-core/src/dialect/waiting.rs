//! How long a call may wait for its result. One rule, for `check` and for whoever edits a view.
//!
//! A call waits while nothing that is sent stands behind it but further calls of its round and
//! results. Whatever else is sent ends the wait, of any kind: no provider takes it before the
//! result. What is not sent stands behind nothing.

use super::demands::{Demands, Lowered};
use crate::item::Item;

/// What an item means for the calls before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// It is not sent, or in a field of its own.
    Nothing,
    /// It makes further calls.
    Calls,
    /// It holds results, and each of them answers a call.
    Results,
    /// Anything else.
    Other,
}

impl Behind {
    /// What `item` means wherever it is sent at all: the calls that wait in one dialect wait by this,
    /// too.
    pub(crate) fn anywhere(item: &Item, answered_count: usize) -> Self {
        Self::of(Demands::of(None).lower(item), item, answered_count)
    }

    /// What an item that becomes `lowered` means. `answered_count` of its results answer a call.
    pub(super) fn of(lowered: Lowered, item: &Item, answered_count: usize) -> Self {
        let result_count = || item.results().count();
        match lowered {
            Lowered::Nothing | Lowered::Apart => Self::Nothing,
            Lowered::Assistant if item.calls().next().is_some() => Self::Calls,
            Lowered::Results if answered_count > 0 && answered_count == result_count() => Self::Results,
            Lowered::Assistant | Lowered::Results | Lowered::Instruction | Lowered::User | Lowered::Aside => {
                Self::Other
            }
        }
    }
}

/// Which calls may wait, known while a conversation grows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitingCalls {
    item_start: usize,
    has_results: bool,
}

impl WaitingCalls {
    /// Takes the next item.
    pub(crate) fn push(&mut self, item_index: usize, behind: Behind) {
        match behind {
            Behind::Nothing => {}
            // The model went on with some of the results.
            Behind::Calls if self.has_results => *self = Self { item_start: item_index, has_results: false },
            Behind::Calls => {}
            Behind::Results => self.has_results = true,
            Behind::Other => *self = Self { item_start: item_index + 1, has_results: false },
        }
    }

    /// Calls of this item and of those behind it may wait.
    pub(crate) fn item_start(self) -> usize {
        self.item_start
    }
}
