//! All, any, not, and closures.

use std::fmt::{self, Debug};

use super::{CompactionReason, Growth, HysteresisTrigger, Trigger, TriggerContext, TriggerError};
use crate::ids::Timestamp;

/// Fires when all of its triggers do, with the reason of the first. None of none: it never fires
/// empty.
#[derive(Debug, Default)]
pub struct AllTrigger {
    triggers: Vec<Box<dyn Trigger>>,
}

impl AllTrigger {
    /// All of these.
    pub fn new(triggers: Vec<Box<dyn Trigger>>) -> Self {
        Self { triggers }
    }
}

impl Trigger for AllTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        let (first, others) = self.triggers.split_first()?;
        let reason = first.fires(context)?;
        others.iter().all(|trigger| trigger.fires(context).is_some()).then_some(reason)
    }

    fn due_at(&self, context: &TriggerContext<'_>) -> Option<Timestamp> {
        self.triggers.iter().filter_map(|trigger| trigger.due_at(context)).max()
    }
}

/// Fires when one of its triggers does, with the reason of the first that does.
#[derive(Debug, Default)]
pub struct AnyTrigger {
    triggers: Vec<Box<dyn Trigger>>,
}

impl AnyTrigger {
    /// Any of these.
    pub fn new(triggers: Vec<Box<dyn Trigger>>) -> Self {
        Self { triggers }
    }
}

impl Trigger for AnyTrigger {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        self.triggers.iter().find_map(|trigger| trigger.fires(context))
    }

    fn due_at(&self, context: &TriggerContext<'_>) -> Option<Timestamp> {
        self.triggers.iter().filter_map(|trigger| trigger.due_at(context)).min()
    }
}

/// Fires when its trigger does not.
#[derive(Debug)]
pub struct NotTrigger<T> {
    trigger: T,
    reason: CompactionReason,
}

impl<T: Trigger> NotTrigger<T> {
    /// Not this one; `reason` is given because the trigger gives none when it does not fire.
    pub fn new(trigger: T, reason: CompactionReason) -> Self {
        Self { trigger, reason }
    }
}

impl<T: Trigger> Trigger for NotTrigger<T> {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        match self.trigger.fires(context) {
            Some(_) => None,
            None => Some(self.reason.clone()),
        }
    }
}

/// A closure as a trigger. The closure answers as a [`Trigger`] must: purely.
pub struct FnTrigger<F> {
    name: &'static str,
    decide: F,
}

impl<F> FnTrigger<F>
where
    F: Fn(&TriggerContext<'_>) -> Option<CompactionReason> + Send + Sync,
{
    /// A trigger that shows as `name` where triggers are printed.
    pub fn new(name: &'static str, decide: F) -> Self {
        Self { name, decide }
    }
}

impl<F> Debug for FnTrigger<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FnTrigger").field(&self.name).finish()
    }
}

impl<F> Trigger for FnTrigger<F>
where
    F: Fn(&TriggerContext<'_>) -> Option<CompactionReason> + Send + Sync,
{
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        (self.decide)(context)
    }
}

/// Composition as methods.
pub trait TriggerExt: Trigger + Sized + 'static {
    /// Fires when both do, with this one's reason.
    fn and(self, other: impl Trigger + 'static) -> AllTrigger {
        AllTrigger::new(vec![Box::new(self), Box::new(other)])
    }

    /// Fires when either does.
    fn or(self, other: impl Trigger + 'static) -> AnyTrigger {
        AnyTrigger::new(vec![Box::new(self), Box::new(other)])
    }

    /// Fires when this one does and `other` does not.
    fn unless(self, other: impl Trigger + 'static) -> AllTrigger {
        self.and(NotTrigger::new(other, CompactionReason::Custom("not held back".into())))
    }

    /// Waits for growth after each compaction.
    fn with_hysteresis(self, growth: Growth) -> Result<HysteresisTrigger<Self>, TriggerError> {
        HysteresisTrigger::new(self, growth)
    }
}

impl<T: Trigger + 'static> TriggerExt for T {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Tokens;
    use crate::item::Item;
    use crate::tokens::TokenBounds;
    use crate::transcript::Transcript;
    use crate::trigger::{
        BudgetTrigger, ItemCountTrigger, MutationPoint, NeedsFollowUpTrigger, PendingInputTrigger,
    };

    fn context(transcript: &Transcript, tokens: u64) -> TriggerContext<'_> {
        TriggerContext::new(transcript, MutationPoint::AfterTurnEnded)
            .with_tokens(TokenBounds::exact(Tokens(tokens)))
    }

    #[test]
    fn over_the_limit_fires_only_where_there_is_more_to_do() {
        // total >= limit && (needs_follow_up || has_pending_input)
        let trigger =
            BudgetTrigger::at_limit(Tokens(100)).unwrap().and(NeedsFollowUpTrigger.or(PendingInputTrigger));
        let transcript = Transcript::default();
        assert!(trigger.fires(&context(&transcript, 100).needing_follow_up()).is_some());
        assert!(trigger.fires(&context(&transcript, 100).with_pending_input()).is_some());
        assert_eq!(trigger.fires(&context(&transcript, 100)), None);
        assert_eq!(trigger.fires(&context(&transcript, 99).needing_follow_up()), None);
        let reason = trigger.fires(&context(&transcript, 100).with_pending_input());
        let (tokens, level) = (Tokens(100), Tokens(100));
        assert_eq!(reason, Some(CompactionReason::BudgetReached { tokens, level }));
    }

    #[test]
    fn all_of_none_and_any_of_none_never_fire() {
        let transcript = Transcript::default();
        assert_eq!(AllTrigger::default().fires(&context(&transcript, 1)), None);
        assert_eq!(AnyTrigger::default().fires(&context(&transcript, 1)), None);
    }

    #[test]
    fn unless_holds_a_trigger_back() {
        let trigger = ItemCountTrigger::new(0).unless(PendingInputTrigger);
        let transcript: Transcript = [Item::user("1", "hello")].into_iter().collect();
        let reason = Some(CompactionReason::TranscriptTooLong);
        assert_eq!(trigger.fires(&context(&transcript, 1)), reason);
        assert_eq!(trigger.fires(&context(&transcript, 1).with_pending_input()), None);
    }

    #[test]
    fn a_closure_is_a_trigger_and_prints_its_name() {
        let trigger = FnTrigger::new("on-friday", |context: &TriggerContext<'_>| {
            (context.point == MutationPoint::AfterTurnEnded).then_some(CompactionReason::Manual)
        });
        let transcript = Transcript::default();
        assert_eq!(trigger.fires(&context(&transcript, 1)), Some(CompactionReason::Manual));
        let boxed: Box<dyn Trigger> = Box::new(trigger);
        assert!(boxed.fires(&context(&transcript, 1)).is_some());
        assert!(format!("{boxed:?}").contains("on-friday"));
    }
}
