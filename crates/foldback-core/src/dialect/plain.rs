//! Conversations that no dialect rejects anything of, known while they grow: `check` need not look
//! at every item again to find nothing.
//!
//! This is no second judge. It says yes only where every rule of every dialect holds at its
//! strictest, and where it says no, `check` decides.

use super::demands::ANTHROPIC_CACHE_MARKER_COUNT_MAX;
use crate::item::{Item, ItemKind};
use crate::part::{Part, ResultPart};

/// What is known of a conversation after each item.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain {
    /// Something was pushed that a dialect may reject.
    is_odd: bool,
    /// A user has spoken, or somebody with a user's authority.
    is_begun: bool,
    /// The last item that counts holds results: calls that still wait may not be joined by others.
    is_answering: bool,
    /// The last item ends in thinking, which something must follow.
    is_thinking: bool,
    /// Calls that wait for their results.
    waiting_count: u32,
    marker_count: usize,
    /// Item and part of the newest call that was answered.
    answered: Option<(u32, u32)>,
}

impl Plain {
    /// Whether no dialect rejects anything, and no call waits for its result.
    pub(crate) fn is_accepted(&self) -> bool {
        !self.is_odd && !self.is_thinking && self.waiting_count == 0
    }

    /// Takes the next item; what its results answer follows.
    pub(crate) fn push(&mut self, item: &Item) {
        // Items without parts are not sent.
        let Some(last) = item.parts.last() else { return };
        let is_out_of_place = item.parts.iter().any(|part| !is_in_place(part, item.kind));
        self.marker_count += usize::from(item.cache_marker);
        self.is_odd |= is_out_of_place || self.marker_count > ANTHROPIC_CACHE_MARKER_COUNT_MAX;
        match item.kind {
            ItemKind::Assistant => {
                self.is_odd |= !self.is_begun || (self.is_answering && self.waiting_count > 0);
                self.is_answering = false;
                self.is_thinking = matches!(last, Part::Reasoning(_));
                self.waiting_count += item.calls().count() as u32;
            }
            ItemKind::Tool => {
                self.is_odd |= !self.is_begun || self.is_thinking;
                self.is_answering = true;
            }
            ItemKind::User | ItemKind::Context | ItemKind::Notification => {
                self.is_odd |= self.is_thinking || self.waiting_count > 0;
                self.is_begun = true;
            }
            ItemKind::System | ItemKind::Developer => {
                self.is_odd |= self.is_thinking || self.waiting_count > 0;
            }
        }
    }

    /// A result of the item pushed last answers this call. The order of calls is that of results.
    pub(crate) fn answer(&mut self, call: (u32, u32)) {
        self.is_odd |= self.answered.is_some_and(|before| before >= call);
        self.answered = Some(call);
        self.waiting_count = self.waiting_count.saturating_sub(1);
    }
}

/// Whether a part may stand in an item of this kind wherever it is sent. Media may be too many or too
/// large: they are looked at.
fn is_in_place(part: &Part, kind: ItemKind) -> bool {
    match part {
        Part::Text(text) => kind != ItemKind::Tool && !text.trim_start().is_empty(),
        Part::ToolCall(_) | Part::Reasoning(_) => kind == ItemKind::Assistant,
        Part::ToolResult(result) => {
            let is_sent_anywhere = |part: &ResultPart| match part {
                ResultPart::Text(_) | ResultPart::Structured(_) | ResultPart::Opaque(_) => true,
                ResultPart::Media(_) | ResultPart::File(_) => false,
            };
            kind == ItemKind::Tool && result.content.iter().all(is_sent_anywhere)
        }
        Part::Structured(_) | Part::Opaque(_) => kind != ItemKind::Tool,
        Part::Media(_) | Part::File(_) => false,
    }
}
