//! A trigger on the number of items.

use super::{CompactionReason, Trigger, TriggerContext};

/// Fires when there are more than so many items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemCountTrigger {
    items_max: usize,
}

impl ItemCountTrigger {
    /// Fires on more than `max_items`.
    pub fn new(max_items: usize) -> Self {
        Self { items_max: max_items }
    }
}

/// An [`ItemCountTrigger`].
pub fn item_count_trigger(max_items: usize) -> ItemCountTrigger {
    ItemCountTrigger::new(max_items)
}

impl Trigger for ItemCountTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        (context.sequence.len() > self.items_max).then_some(CompactionReason::TranscriptTooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::transcript::Transcript;
    use crate::trigger::MutationPoint;

    #[test]
    fn twelve_items_are_not_more_than_twelve() {
        let mut transcript: Transcript = (0..12).map(|id| Item::user(id.to_string(), "hello")).collect();
        let fires = |transcript: &Transcript| {
            item_count_trigger(12).fires(&TriggerContext::new(transcript, MutationPoint::AfterToolResult))
        };
        assert_eq!(fires(&transcript), None);
        transcript.push(Item::user("12", "one more"));
        assert_eq!(fires(&transcript), Some(CompactionReason::TranscriptTooLong));
    }
}
