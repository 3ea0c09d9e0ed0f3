//! What the rungs gave up without need goes back to the view.
//!
//! A rung stops at the first step that reaches the target, and that step may free far more than was
//! missing: one output of 69,000 tokens, cleared after fifteen small ones, makes those fifteen steps
//! needless. So the steps are looked at again, the last one first, because rungs go by growing loss and
//! each from the oldest item to the newest. A step that fits into what is left is taken back. Then the
//! newest step that does not fit is taken back in part: an output keeps as much of its head and tail as
//! there is room for.
//!
//! Afterwards no single step could be taken back without leaving the target.

use super::shorten::shortened;
use crate::draft::{Draft, DraftMark, GivenUp};
use crate::ids::Tokens;
use crate::part::{Part, ResultPart, ToolCall};
use crate::placeholder::shorten_input;
use crate::tokens::CALL_OVERHEAD_TOKENS;

/// Less room is not worth a longer head and tail.
const PARTLY_TOKENS_MIN: u64 = 200;

/// Steps that are tried to be taken back in part; each costs a look at as much text as there is room for.
const PARTLY_TRIES_MAX: usize = 3;

/// Takes back what was done since `mark` and is not needed to stay within the target.
pub(super) fn give_back(draft: &mut Draft<'_>, target: Tokens, mark: DraftMark) {
    let room = |draft: &Draft<'_>| target.saturating_sub(draft.tokens());
    if room(draft) == Tokens::ZERO {
        return;
    }
    let mut needed = Vec::new();
    for step in draft.given_up_since(mark) {
        match step.saved <= room(draft) {
            true => draft.give_back(&step),
            false if needed.len() < PARTLY_TRIES_MAX && is_text(draft, &step) => needed.push(step),
            false => {}
        }
    }
    for step in &needed {
        let room = room(draft);
        if room.0 < PARTLY_TOKENS_MIN {
            return;
        }
        if let Some(part) = longer(draft, step, room) {
            draft.give_back_partly(step, part);
        }
    }
}

fn original<'v>(draft: &Draft<'v>, step: &GivenUp) -> Option<&'v Part> {
    draft.item(step.position)?.parts.get(step.part_index)
}

/// Whether there is something between all of it and what is left of it.
fn is_text(draft: &Draft<'_>, step: &GivenUp) -> bool {
    match original(draft, step) {
        Some(Part::Text(_) | Part::ToolCall(_)) => true,
        Some(Part::ToolResult(result)) => result.content.iter().any(|part| part.as_text().is_some()),
        Some(Part::Reasoning(_) | Part::Media(_) | Part::File(_) | Part::Structured(_) | Part::Opaque(_))
        | None => false,
    }
}

/// The part as it was, cut to what it costs now and `room` more.
fn longer(draft: &Draft<'_>, step: &GivenUp, room: Tokens) -> Option<Part> {
    let original = original(draft, step)?;
    let now = Tokens(u64::from(draft.part_tokens(step.position, step.part_index)));
    let (before, after_max) = (now + step.saved, now + room);
    let handle = draft.part_handle(step.position, step.part_index);
    let longer = match original {
        Part::ToolCall(call) => {
            let input_max = after_max.saturating_sub(Tokens(CALL_OVERHEAD_TOKENS));
            let input = shorten_input(&call.input, input_max, &handle, draft.meter())?;
            Part::ToolCall(ToolCall { input, ..call.clone() })
        }
        Part::ToolResult(result) => {
            let texts = result.content.iter().filter_map(ResultPart::as_text).count().max(1) as u64;
            let text_max = Tokens(after_max.saturating_sub(Tokens(CALL_OVERHEAD_TOKENS)).0 / texts);
            shortened(original, before, text_max, &handle, draft.meter())?
        }
        _ => shortened(original, before, after_max, &handle, draft.meter())?,
    };
    let after = Tokens(u64::from(draft.meter().part(&longer)));
    (now < after && after <= after_max).then_some(longer)
}
