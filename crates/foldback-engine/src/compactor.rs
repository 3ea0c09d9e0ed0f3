//! What a host registers: it says when to compact, and compacts.

mod background;
mod builder;
mod progress;
mod strategy_compactor;

use std::fmt;

use async_trait::async_trait;
use foldback_core::{CompactionReason, SessionId, Timestamp, Trigger, TriggerContext, TurnId, View};

use crate::compaction::{CompactionContext, CompactionError, CompactionRequest, CompactionResult};
use crate::naming::type_name;

pub use builder::{StrategyCompactorBuildError, StrategyCompactorBuilder};
pub use strategy_compactor::StrategyCompactor;

/// Says when, and may remember sessions and turns. Every pure [`Trigger`] is one. It is handed a context that
/// dereferences to what the model sees, and not a slice of items; see [`TriggerFn`](foldback_core::TriggerFn).
pub trait CompactionTrigger: Send + Sync {
    /// The reason to compact now, or none. Must be cheap: it is asked at every mutation point.
    fn should_compact(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        context: &TriggerContext<'_>,
    ) -> Option<CompactionReason>;

    /// The earliest time at which it may fire although nothing happens until then; see [`Trigger::due_at`].
    fn due_at(&self, _session_id: &SessionId, _context: &TriggerContext<'_>) -> Option<Timestamp> {
        None
    }

    /// What it shows as where compactors are printed; the type's name by default.
    fn describe(&self) -> String {
        type_name::<Self>()
    }
}

impl fmt::Debug for dyn CompactionTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl<T: Trigger> CompactionTrigger for T {
    fn should_compact(
        &self,
        _session_id: &SessionId,
        _turn_id: Option<&TurnId>,
        context: &TriggerContext<'_>,
    ) -> Option<CompactionReason> {
        self.fires(context)
    }

    fn due_at(&self, _session_id: &SessionId, context: &TriggerContext<'_>) -> Option<Timestamp> {
        Trigger::due_at(self, context)
    }

    fn describe(&self) -> String {
        format!("{self:?}")
    }
}

/// Decides when and compacts: for hosts that own both decisions, and for the agent loop.
#[async_trait]
pub trait Compactor: fmt::Debug + Send + Sync {
    /// The reason to compact now, or none. Must be cheap: it is asked at every mutation point. The context
    /// dereferences to the view.
    fn should_compact(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        context: &TriggerContext<'_, View>,
    ) -> Option<CompactionReason>;

    /// The earliest time at which it may want to compact although nothing happens until then. A running agent
    /// asks [`should_compact`](Self::should_compact) again at that time, unless the agent is at work.
    fn due_at(&self, _session_id: &SessionId, _context: &TriggerContext<'_, View>) -> Option<Timestamp> {
        None
    }

    /// Compacts. An error leaves the host with the view it had (T8).
    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError>;

    /// The name in events, such as `keep-recent(8)`; the type's name by default.
    fn describe(&self) -> String {
        type_name::<Self>()
    }

    /// The name of what it does for this reason; [`describe`](Self::describe) by default.
    fn describe_for(&self, _reason: &CompactionReason) -> String {
        self.describe()
    }
}
