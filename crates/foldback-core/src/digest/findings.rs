//! What was found in an item when a digest first read it, so that the next one need not look again.
//!
//! Findings stand beside the items of a transcript and are shared by its clones: an append-only list
//! never makes them wrong. All of them follow from the item alone or, where tokens are counted, from
//! the item and the transcript's meter.

use std::sync::OnceLock;

use super::cut::Cut;
use super::words::Said;
use crate::item::Item;
use crate::part::{Part, ToolCall, ToolResult};
use crate::reading::text_of;
use crate::tools::{Action, Outcome};

/// What is found in a longer part is not kept: it would take as much room again.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What was found in an item, by part.
#[derive(Debug, Default)]
pub(crate) struct ItemFindings {
    parts: Vec<PartFindings>,
}

impl ItemFindings {
    /// Nothing yet.
    pub(crate) fn of(item: &Item) -> Self {
        Self { parts: item.parts.iter().map(|_| PartFindings::default()).collect() }
    }

    /// What was found in a part, if it is kept.
    pub(super) fn part(&self, part_index: usize, part_bytes: usize) -> Option<&PartFindings> {
        self.parts.get(part_index).filter(|_| part_bytes <= KEPT_BYTES_MAX)
    }
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
