//! Triggers say when to compact, and why.
//!
//! A [`Trigger`] is a pure question to a [`TriggerContext`]; what it needs to know is passed in,
//! the time included. Deciding costs O(1) at any size of the transcript.

mod budget;
mod combine;
mod hysteresis;
mod item_count;
mod structural;
mod temporal;

use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use budget::{BudgetTrigger, ContextWindowTrigger, context_window_trigger};
pub use combine::{AllTrigger, AnyTrigger, FnTrigger, NotTrigger, TriggerExt};
pub use hysteresis::{Growth, HysteresisTrigger};
pub use item_count::{ItemCountTrigger, item_count_trigger};
pub use structural::{
    EventKind, NeedsFollowUpTrigger, PendingInputTrigger, StructuralTrigger, ToolOutputTrigger,
};
pub use temporal::{EveryTrigger, IdleTrigger};

use crate::budget::{Budget, BudgetError};
use crate::ids::{Text, Timestamp, Tokens};
use crate::item::Usage;
use crate::sequence::Sequence;
use crate::tokens::TokenBounds;

/// Says whether to compact now, and why.
///
/// Implementors guarantee: the same context gives the same answer, no clock is read, and the cost
/// does not depend on how long the transcript is.
pub trait Trigger: Debug + Send + Sync {
    /// The reason to compact now, or none.
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason>;

    /// The earliest time at which it may fire although nothing happens until then. A running agent asks again
    /// at that time. None for a trigger that only fires on what happens.
    fn due_at(&self, _context: &TriggerContext<'_>) -> Option<Timestamp> {
        None
    }
}

/// A trigger as a closure over what a trigger may decide on, and the place where the agent asks. The context
/// dereferences to what the model sees, so `transcript.len()` and `transcript.items()` work on it. It is no
/// slice of items: items are shared and not copied to be looked at, and token counts, the time and what
/// happened stand beside them.
pub type TriggerFn =
    Box<dyn Fn(&TriggerContext<'_>, MutationPoint) -> Option<CompactionReason> + Send + Sync>;

impl<T: Trigger + ?Sized> Trigger for Box<T> {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        (**self).fires(context)
    }

    fn due_at(&self, context: &TriggerContext<'_>) -> Option<Timestamp> {
        (**self).due_at(context)
    }
}

impl<T: Trigger + ?Sized> Trigger for Arc<T> {
    fn fires(&self, context: &TriggerContext<'_>) -> Option<CompactionReason> {
        (**self).fires(context)
    }

    fn due_at(&self, context: &TriggerContext<'_>) -> Option<Timestamp> {
        (**self).due_at(context)
    }
}

/// Where in its work an agent asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MutationPoint {
    /// Inside a tool loop, before the model is asked again.
    AfterToolResult,
    /// After the final answer, an interrupt or a cancellation.
    AfterTurnEnded,
    /// The provider rejected a request for its length.
    AfterRequestRejected,
    /// Nobody is at work, and a trigger on time is due.
    BetweenTurns,
}

/// Something that happened since the last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StructuralEvent {
    /// An item was pushed.
    NewItem,
    /// A tool answered; the newest item holds the result.
    ToolOutput,
    /// A compaction was committed.
    CompactionCompleted,
    /// The person asked for a compaction.
    AskedByUser,
    /// The next request goes to a model with another window.
    ModelSwitched {
        /// The window there was.
        window_before: Tokens,
        /// The window there is.
        window_after: Tokens,
    },
    /// The provider rejected a request for its length.
    RequestRejectedForLength,
}

/// What the last compaction left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCompaction {
    /// The upper bound of what the view cost after it.
    pub tokens_after: Tokens,
    /// When it was committed, where known.
    pub at: Option<Timestamp>,
    /// How many items the view had after it.
    pub item_count: usize,
}

/// Everything a trigger may decide on. Triggers go by a [`Sequence`]; a compactor is handed the
/// [`View`](crate::View) in its place, because it may begin to work on it.
#[derive(Clone, Debug)]
pub struct TriggerContext<'a, S = Sequence> {
    /// What the model would see.
    pub sequence: &'a S,
    /// What the view costs, overhead excluded. Triggers decide on the upper bound.
    pub tokens: TokenBounds,
    /// Where in its work the agent asks.
    pub point: MutationPoint,
    /// What happened since the last decision.
    pub events: &'a [StructuralEvent],
    /// What the provider reported last; the newest items are searched for it if it is not set.
    pub reported: Option<Usage>,
    /// The time.
    pub now: Option<Timestamp>,
    /// When a trigger fired last.
    pub last_firing: Option<Timestamp>,
    /// What the last compaction left.
    pub last_compaction: Option<LastCompaction>,
    /// Whether the model will be asked again without the person saying anything.
    pub needs_follow_up: bool,
    /// Whether the person has said something that was not sent yet.
    pub has_pending_input: bool,
    /// The room there is since the model was switched: triggers that were built for a window go by this
    /// one instead. None where nothing was switched.
    pub budget: Option<Budget>,
}

impl<S> Deref for TriggerContext<'_, S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.sequence
    }
}

/// Items searched backwards for the newest reported usage: more than one round of parallel calls.
const REPORT_SEARCH_ITEMS_MAX: usize = 256;

impl<'a> TriggerContext<'a> {
    /// A context that knows the view and nothing else; its counts are taken as exact.
    pub fn new(sequence: &'a Sequence, point: MutationPoint) -> Self {
        Self {
            sequence,
            tokens: TokenBounds::exact(sequence.tokens()),
            point,
            events: &[],
            reported: None,
            now: None,
            last_firing: None,
            last_compaction: None,
            needs_follow_up: false,
            has_pending_input: false,
            budget: None,
        }
    }

    /// The newest usage that still describes the view: items that a compaction kept carry reports
    /// about a prefix that is gone.
    pub fn reported_usage(&self) -> Option<Usage> {
        self.reported.or_else(|| {
            let stale_count = self.last_compaction.map_or(0, |last| last.item_count);
            let fresh_count = self.sequence.len().saturating_sub(stale_count);
            let newest = self.sequence.items().rev().take(fresh_count.min(REPORT_SEARCH_ITEMS_MAX));
            newest.filter_map(|item| item.usage).find(|usage| usage.prompt_tokens() > Tokens::ZERO)
        })
    }
}

impl<'a, S> TriggerContext<'a, S> {
    /// The same about `sequence`, which is what the model would see in another form.
    #[must_use]
    pub fn about<T>(&self, sequence: &'a T) -> TriggerContext<'a, T> {
        TriggerContext {
            sequence,
            tokens: self.tokens,
            point: self.point,
            events: self.events,
            reported: self.reported,
            now: self.now,
            last_firing: self.last_firing,
            last_compaction: self.last_compaction,
            needs_follow_up: self.needs_follow_up,
            has_pending_input: self.has_pending_input,
            budget: self.budget,
        }
    }

    /// With bounds from a calibration or a tracker.
    #[must_use]
    pub fn with_tokens(mut self, tokens: TokenBounds) -> Self {
        self.tokens = tokens;
        self
    }

    /// With what happened.
    #[must_use]
    pub fn with_events(mut self, events: &'a [StructuralEvent]) -> Self {
        self.events = events;
        self
    }

    /// With what the provider reported last.
    #[must_use]
    pub fn with_reported(mut self, usage: Usage) -> Self {
        self.reported = Some(usage);
        self
    }

    /// With the time.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// With the time a trigger fired last.
    #[must_use]
    pub fn last_fired_at(mut self, last_firing: Timestamp) -> Self {
        self.last_firing = Some(last_firing);
        self
    }

    /// With what the last compaction left.
    #[must_use]
    pub fn with_last_compaction(mut self, last: LastCompaction) -> Self {
        self.last_compaction = Some(last);
        self
    }

    /// The model will be asked again by itself.
    #[must_use]
    pub fn needing_follow_up(mut self) -> Self {
        self.needs_follow_up = true;
        self
    }

    /// The person has said something that was not sent yet.
    #[must_use]
    pub fn with_pending_input(mut self) -> Self {
        self.has_pending_input = true;
        self
    }

    /// With the room that another model has than the one the trigger was built for.
    #[must_use]
    pub fn switched_to(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Whether the provider rejected a request for its length.
    pub fn was_rejected(&self) -> bool {
        self.point == MutationPoint::AfterRequestRejected
            || self.events.contains(&StructuralEvent::RequestRejectedForLength)
    }

    /// Whether waiting is not an option: a rejected request, a model switch, an explicit request.
    pub fn is_urgent(&self) -> bool {
        self.was_rejected()
            || self.events.iter().any(|event| match event {
                StructuralEvent::AskedByUser
                | StructuralEvent::ModelSwitched { .. }
                | StructuralEvent::RequestRejectedForLength => true,
                StructuralEvent::NewItem
                | StructuralEvent::ToolOutput
                | StructuralEvent::CompactionCompleted => false,
            })
    }
}

/// Why a compaction runs. In JSON `"transcript_too_long"` or `{"custom": "…"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionReason {
    /// There are too many items.
    TranscriptTooLong,
    /// The person or the host asked.
    Manual,
    /// The host's own reason.
    Custom(Text),
    /// The context reached its level.
    BudgetReached {
        /// The upper bound of what it costs.
        tokens: Tokens,
        /// The level.
        level: Tokens,
    },
    /// The provider rejected a request for its length.
    OverflowRejected,
    /// The next model has a smaller window.
    ModelSwitched,
    /// Nothing happened for a while.
    Idle,
    /// It was time again.
    Interval,
    /// A tool answered.
    ToolOutput,
    /// An item arrived.
    NewItem,
    /// A compaction was committed, and this one builds on it.
    CompactionCompleted,
}

impl fmt::Display for CompactionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TranscriptTooLong => f.write_str("transcript too long"),
            Self::Manual => f.write_str("asked for"),
            Self::Custom(text) => f.write_str(text),
            Self::BudgetReached { tokens, level } => {
                write!(f, "{tokens} tokens reached the level of {level}")
            }
            Self::OverflowRejected => f.write_str("request rejected for its length"),
            Self::ModelSwitched => f.write_str("switched to a smaller window"),
            Self::Idle => f.write_str("idle"),
            Self::Interval => f.write_str("interval elapsed"),
            Self::ToolOutput => f.write_str("new tool output"),
            Self::NewItem => f.write_str("new item"),
            Self::CompactionCompleted => f.write_str("compaction completed"),
        }
    }
}

/// Why a trigger cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TriggerError {
    /// The budget behind it cannot be.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// An interval of no time fires always.
    #[error("the interval is zero")]
    NoInterval,
    /// A level of no tokens fires always.
    #[error("the limit is 0 tokens")]
    NoLimit,
    /// No growth is no hysteresis.
    #[error("the growth is zero")]
    NoGrowth,
}
