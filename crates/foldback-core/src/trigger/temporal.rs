//! Triggers on time, which is passed in.

use std::sync::Arc;
use std::time::Duration;

use super::{CompactionReason, Trigger, TriggerContext, TriggerError};
use crate::ids::Timestamp;
use crate::item::Item;

/// Items searched for one that says when it was made: prompts and notes often do not.
const DATED_SEARCH_ITEMS_MAX: usize = 64;

fn first_dated<'i>(items: impl Iterator<Item = &'i Arc<Item>>) -> Option<Timestamp> {
    items.take(DATED_SEARCH_ITEMS_MAX).find_map(|item| item.created_at)
}

fn checked_millis(interval: Duration) -> Result<u64, TriggerError> {
    match u64::try_from(interval.as_millis()).unwrap_or(u64::MAX) {
        0 => Err(TriggerError::NoInterval),
        millis => Ok(millis),
    }
}

/// Fires every so often: since the last firing, or since the first item where there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EveryTrigger {
    interval_ms: u64,
}

impl EveryTrigger {
    /// Fires once `interval` has passed; less than a millisecond is refused.
    pub fn new(interval: Duration) -> Result<Self, TriggerError> {
        Ok(Self { interval_ms: checked_millis(interval)? })
    }
}

impl Trigger for EveryTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        (context.now? >= self.due_at(context)?).then_some(CompactionReason::Interval)
    }

    fn due_at(&self, context: &TriggerContext<'_>) -> Option<Timestamp> {
        let first = || first_dated(context.sequence.items());
        Some(context.last_firing.or_else(first)?.after_millis(self.interval_ms))
    }
}

/// Fires once when nothing was said for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTrigger {
    idle_ms: u64,
}

impl IdleTrigger {
    /// Fires once the newest item is `idle` old; less than a millisecond is refused.
    pub fn new(idle: Duration) -> Result<Self, TriggerError> {
        Ok(Self { idle_ms: checked_millis(idle)? })
    }
}

impl Trigger for IdleTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        (context.now? >= self.due_at(context)?).then_some(CompactionReason::Idle)
    }

    fn due_at(&self, context: &TriggerContext<'_>) -> Option<Timestamp> {
        let newest = first_dated(context.sequence.items().rev())?;
        let has_fired = context.last_firing.is_some_and(|fired| fired > newest);
        (!has_fired).then(|| newest.after_millis(self.idle_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Transcript;
    use crate::trigger::MutationPoint;

    const MINUTE_MS: i64 = 60_000;

    fn said_at(minute: i64) -> Transcript {
        let mut item = Item::user("1", "hello");
        item.created_at = Some(Timestamp(minute * MINUTE_MS));
        [item].into_iter().collect()
    }

    fn at(transcript: &Transcript, minute: i64) -> TriggerContext<'_> {
        TriggerContext::new(transcript, MutationPoint::AfterTurnEnded).at(Timestamp(minute * MINUTE_MS))
    }

    #[test]
    fn an_interval_is_measured_from_the_last_firing() {
        let every = EveryTrigger::new(Duration::from_secs(600)).unwrap();
        let transcript = said_at(0);
        assert_eq!(every.fires(&at(&transcript, 9)), None);
        assert_eq!(every.fires(&at(&transcript, 10)), Some(CompactionReason::Interval));
        let fired = Timestamp(10 * MINUTE_MS);
        assert_eq!(every.fires(&at(&transcript, 19).last_fired_at(fired)), None);
        assert!(every.fires(&at(&transcript, 20).last_fired_at(fired)).is_some());
    }

    #[test]
    fn idleness_fires_once_until_something_new_is_said() {
        let idle = IdleTrigger::new(Duration::from_secs(300)).unwrap();
        let transcript = said_at(10);
        assert_eq!(idle.fires(&at(&transcript, 14)), None);
        assert_eq!(idle.fires(&at(&transcript, 15)), Some(CompactionReason::Idle));
        assert_eq!(idle.fires(&at(&transcript, 40).last_fired_at(Timestamp(15 * MINUTE_MS))), None);
        let newer = said_at(30);
        assert!(idle.fires(&at(&newer, 40).last_fired_at(Timestamp(15 * MINUTE_MS))).is_some());
    }

    #[test]
    fn without_a_time_nothing_fires_and_an_interval_of_zero_is_refused() {
        let transcript = said_at(0);
        let timeless = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded);
        assert_eq!(EveryTrigger::new(Duration::from_secs(1)).unwrap().fires(&timeless), None);
        assert_eq!(IdleTrigger::new(Duration::from_secs(1)).unwrap().fires(&timeless), None);
        assert_eq!(EveryTrigger::new(Duration::ZERO), Err(TriggerError::NoInterval));
        assert_eq!(IdleTrigger::new(Duration::ZERO), Err(TriggerError::NoInterval));
    }
}
