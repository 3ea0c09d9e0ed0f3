//! What was found in an item when a digest first read it, so that the next one need not look again.
//!
//! Findings stand beside the items of a transcript and are shared by its clones: an append-only list
//! never makes them wrong. All of them follow from the item alone or, where tokens are counted, from
//! the item and the transcript's meter.

use std::sync::{Arc, OnceLock};

use super::cut::Cut;
use super::words::Said;
use crate::item::Item;
use crate::part::{Part, ToolCall, ToolResult};
use crate::reading::text_of;
use crate::tools::{Action, Outcome};

/// What is found in a longer part is not kept: it would take as much room again.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Where it is kept what was found in an item; clones share it once there is something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(OnceLock<Arc<ItemFindings>>);

impl Findings {
    /// Whether anybody has looked.
    pub(crate) fn is_begun(&self) -> bool {
        self.0.get().is_some()
    }

    pub(super) fn get(&self) -> &ItemFindings {
        self.0.get_or_init(Arc::default)
    }
}

/// What was found in an item.
#[derive(Debug, Default)]
pub(super) struct ItemFindings {
    changes: OnceLock<Box<[Action]>>,
    parts: OnceLock<Box<[PartFindings]>>,
}

impl ItemFindings {
    /// Which files its calls change: all that is told of one of long ago.
    pub(super) fn changes(&self, item: &Item) -> &[Action] {
        self.changes.get_or_init(|| changes_of(item).into())
    }

    /// What was found in a part, if it is kept.
    pub(super) fn part(&self, item: &Item, part_index: usize, part_bytes: usize) -> Option<&PartFindings> {
        let none = || item.parts.iter().map(|_| PartFindings::default()).collect();
        self.parts.get_or_init(none).get(part_index).filter(|_| part_bytes <= KEPT_BYTES_MAX)
    }
}

/// Which files an item's calls change, in order.
pub(super) fn changes_of(item: &Item) -> Vec<Action> {
    let calls = item.calls().map(|(_, call)| call).filter(|call| Action::may_change(call));
    calls.flat_map(Action::of).filter(Action::is_change).collect()
}

/// What was found in a part, each when it was first asked for.
#[derive(Debug, Default)]
pub(super) struct PartFindings {
    call_text: OnceLock<Box<str>>,
    actions: OnceLock<Box<[Action]>>,
    /// Whether an exit code was looked for, and what was found.
    outcome: OnceLock<Box<(bool, Outcome)>>,
    cut: OnceLock<Box<Cut>>,
    said: OnceLock<Box<Said>>,
    decisions: OnceLock<Box<[(u32, u32)]>>,
}

impl PartFindings {
    /// What a tool was given, decoded.
    pub(super) fn call_text(&self, part: &Part) -> &str {
        self.call_text.get_or_init(|| text_of(part).into())
    }

    /// What a call does.
    pub(super) fn actions(&self, call: &ToolCall) -> &[Action] {
        self.actions.get_or_init(|| Action::of(call).into())
    }

    /// What came of a call. The same answer may be found to answer another call.
    pub(super) fn outcome(&self, result: &ToolResult, actions: &[Action]) -> Outcome {
        let is_looked_for = Outcome::may_be_an_exit_code(actions);
        let of = || Outcome::of(result, actions);
        match &**self.outcome.get_or_init(|| Box::new((is_looked_for, of()))) {
            (was_looked_for, outcome) if *was_looked_for == is_looked_for => outcome.clone(),
            _ => of(),
        }
    }

    /// Its passages and the names in them.
    pub(super) fn cut(&self, cut: impl FnOnce() -> Cut) -> &Cut {
        self.cut.get_or_init(|| Box::new(cut()))
    }

    /// Its sentences, where a user wrote it.
    pub(super) fn said(&self, said: impl FnOnce() -> Said) -> &Said {
        self.said.get_or_init(|| Box::new(said()))
    }

    /// Where it tells a decision.
    pub(super) fn decisions(&self, decisions: impl FnOnce() -> Vec<(u32, u32)>) -> &[(u32, u32)] {
        self.decisions.get_or_init(|| decisions().into())
    }
}
