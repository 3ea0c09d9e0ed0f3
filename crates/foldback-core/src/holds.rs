//! What an item holds, found once: [`Holds`].

use bitflags::bitflags;

use crate::item::Item;
use crate::part::{Part, ResultPart};
use crate::tools::Action;

bitflags! {
    /// What an item holds, so that a pass over many items need not look into each.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Holds: u16 {
        /// At least one reasoning part.
        const REASONING = 1;
        /// At least one tool call.
        const CALL = 1 << 1;
        /// At least one tool result.
        const RESULT = 1 << 2;
        /// At least one failed tool result.
        const FAILURE = 1 << 3;
        /// Media or files, also inside a tool result.
        const MEDIA = 1 << 4;
        /// The item is pinned.
        const PIN = 1 << 5;
        /// The item is a summary of folded items.
        const SUMMARY = 1 << 6;
        /// The last part is reasoning.
        const REASONING_LAST = 1 << 7;
        /// A tool call that may change a file, as far as the name of its tool tells.
        const CHANGE = 1 << 8;
    }
}

impl Holds {
    pub(crate) fn of(item: &Item) -> Self {
        let mut holds = Self::empty();
        holds.set(Self::PIN, item.is_pinned());
        holds.set(Self::SUMMARY, item.summary.is_some());
        holds.set(Self::REASONING_LAST, matches!(item.parts.last(), Some(Part::Reasoning(_))));
        for part in &item.parts {
            holds |= match part {
                Part::Reasoning(_) => Self::REASONING,
                Part::ToolCall(call) if Action::may_change(call) => Self::CALL | Self::CHANGE,
                Part::ToolCall(_) => Self::CALL,
                Part::ToolResult(result) => {
                    let mut held = Self::RESULT;
                    held.set(Self::FAILURE, result.is_error);
                    let is_media =
                        |part: &ResultPart| matches!(part, ResultPart::Media(_) | ResultPart::File(_));
                    held.set(Self::MEDIA, result.content.iter().any(is_media));
                    held
                }
                Part::Media(_) | Part::File(_) => Self::MEDIA,
                Part::Text(_) | Part::Structured(_) | Part::Opaque(_) => Self::empty(),
            };
        }
        holds
    }
}
