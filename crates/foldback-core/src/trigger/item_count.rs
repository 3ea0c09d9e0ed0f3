//! A trigger on the number of items.

use serde::{Deserialize, Serialize};

use super::{CompactionReason, Trigger, TriggerContext, TriggerFn};

/// Fires when the model sees more than so many items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemCountTrigger {
    /// The largest number of items at which it does not fire.
    pub max_items: usize,
}

impl ItemCountTrigger {
    /// Fires on more than `max_items`.
    pub fn new(max_items: usize) -> Self {
        Self { max_items }
    }
}

/// An [`ItemCountTrigger`] as a closure.
pub fn item_count_trigger(max_items: usize) -> TriggerFn {
    let trigger = ItemCountTrigger::new(max_items);
    Box::new(move |context, _| trigger.fires(context))
}

impl Trigger for ItemCountTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        (context.sequence.len() > self.max_items).then_some(CompactionReason::TranscriptTooLong)
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
            let point = MutationPoint::AfterToolResult;
            item_count_trigger(12)(&TriggerContext::new(transcript, point), point)
        };
        assert_eq!(fires(&transcript), None);
        transcript.push(Item::user("12", "one more"));
        assert_eq!(fires(&transcript), Some(CompactionReason::TranscriptTooLong));
    }
}
