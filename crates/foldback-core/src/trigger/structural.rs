//! Triggers on what happened.

use super::{CompactionReason, StructuralEvent, Trigger, TriggerContext};
use crate::budget::TRIGGER_PERCENT;
use crate::holds::Holds;
use crate::ids::{Text, Tokens};
use crate::item::ItemKind;

/// What a [`StructuralTrigger`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// An item was pushed.
    NewItem,
    /// A tool answered.
    ToolOutput,
    /// A compaction was committed.
    CompactionCompleted,
    /// The person asked.
    AskedByUser,
    /// The window shrank, and the view fills most of the new one.
    ModelSwitched,
    /// The provider rejected a request for its length.
    RequestRejectedForLength,
}

/// Fires when something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructuralTrigger {
    awaited: EventKind,
}

impl StructuralTrigger {
    /// Fires on events of this kind.
    pub fn on(awaited: EventKind) -> Self {
        Self { awaited }
    }
}

impl Trigger for StructuralTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        let has = |event| context.events.contains(&event);
        let (happened, reason) = match self.awaited {
            EventKind::NewItem => (has(StructuralEvent::NewItem), CompactionReason::NewItem),
            EventKind::ToolOutput => (has(StructuralEvent::ToolOutput), CompactionReason::ToolOutput),
            EventKind::CompactionCompleted => {
                (has(StructuralEvent::CompactionCompleted), CompactionReason::CompactionCompleted)
            }
            EventKind::AskedByUser => (has(StructuralEvent::AskedByUser), CompactionReason::Manual),
            EventKind::ModelSwitched => (is_cramped_by_switch(context), CompactionReason::ModelSwitched),
            EventKind::RequestRejectedForLength => {
                (context.was_rejected(), CompactionReason::OverflowRejected)
            }
        };
        happened.then_some(reason)
    }
}

/// A larger window needs no compaction, and a smaller one only if the view comes near its end.
fn is_cramped_by_switch(context: &TriggerContext<'_>) -> bool {
    context.events.iter().any(|event| match *event {
        StructuralEvent::ModelSwitched { window_before, window_after } => {
            window_after < window_before
                && context.tokens.upper >= window_after.scaled_down(TRIGGER_PERCENT / 100.0)
        }
        StructuralEvent::NewItem
        | StructuralEvent::ToolOutput
        | StructuralEvent::CompactionCompleted
        | StructuralEvent::AskedByUser
        | StructuralEvent::RequestRejectedForLength => false,
    })
}

/// Fires when the newest item is a tool result of some size: shortened at once, it never builds
/// pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolOutputTrigger {
    tokens_min: Tokens,
}

impl ToolOutputTrigger {
    /// Fires on a result of at least so many tokens.
    pub fn of_at_least(tokens_min: Tokens) -> Self {
        Self { tokens_min }
    }
}

impl Trigger for ToolOutputTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        let newest = context.sequence.get(context.sequence.len().checked_sub(1)?)?;
        let is_large_result = newest.kind() == ItemKind::Tool
            && newest.holds().contains(Holds::RESULT)
            && newest.tokens().total >= self.tokens_min;
        is_large_result.then_some(CompactionReason::ToolOutput)
    }
}

/// Fires when the model will be asked again without the person saying anything; for composition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeedsFollowUpTrigger;

impl Trigger for NeedsFollowUpTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        context.needs_follow_up.then(|| CompactionReason::Custom(Text::from("follow-up needed")))
    }
}

/// Fires when the person has said something that was not sent yet; for composition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingInputTrigger;

impl Trigger for PendingInputTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        context.has_pending_input.then(|| CompactionReason::Custom(Text::from("input pending")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::part::ToolResult;
    use crate::tokens::TokenBounds;
    use crate::transcript::Transcript;
    use crate::trigger::MutationPoint;

    #[test]
    fn a_trigger_fires_on_its_own_event_and_on_no_other() {
        let kinds = [
            (EventKind::NewItem, StructuralEvent::NewItem),
            (EventKind::ToolOutput, StructuralEvent::ToolOutput),
            (EventKind::CompactionCompleted, StructuralEvent::CompactionCompleted),
            (EventKind::AskedByUser, StructuralEvent::AskedByUser),
            (EventKind::RequestRejectedForLength, StructuralEvent::RequestRejectedForLength),
            (
                EventKind::ModelSwitched,
                StructuralEvent::ModelSwitched { window_before: Tokens(200), window_after: Tokens(100) },
            ),
        ];
        let transcript = Transcript::default();
        for (awaited, _) in kinds {
            for (kind, event) in kinds {
                let events = [event];
                let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded)
                    .with_events(&events)
                    .with_tokens(TokenBounds::exact(Tokens(150)));
                let fired = StructuralTrigger::on(awaited).fires(&context).is_some();
                assert_eq!(fired, awaited == kind, "{awaited:?} on {event:?}");
            }
        }
    }

    #[test]
    fn a_model_switch_fires_only_where_the_new_window_is_smaller_and_nearly_full() {
        let fires = |window_before, window_after, tokens| {
            let transcript = Transcript::default();
            let events = [StructuralEvent::ModelSwitched {
                window_before: Tokens(window_before),
                window_after: Tokens(window_after),
            }];
            let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded)
                .with_events(&events)
                .with_tokens(TokenBounds::exact(Tokens(tokens)));
            StructuralTrigger::on(EventKind::ModelSwitched).fires(&context)
        };
        assert_eq!(fires(200_000, 100_000, 150_000), Some(CompactionReason::ModelSwitched));
        assert_eq!(fires(200_000, 100_000, 20_000), None);
        assert_eq!(fires(200_000, 1_000_000, 199_000), None);
    }

    #[test]
    fn only_a_large_fresh_result_fires_the_tool_output_trigger() {
        let trigger = ToolOutputTrigger::of_at_least(Tokens(500));
        let mut transcript = Transcript::default();
        let fires = |transcript: &Transcript| {
            trigger.fires(&TriggerContext::new(transcript, MutationPoint::AfterToolResult))
        };
        assert_eq!(fires(&transcript), None);
        transcript.push(Item::tool("1", ToolResult::text("c", "line of output\n".repeat(400))));
        assert_eq!(fires(&transcript), Some(CompactionReason::ToolOutput));
        transcript.push(Item::tool("2", ToolResult::text("d", "ok")));
        assert_eq!(fires(&transcript), None);
    }
}
