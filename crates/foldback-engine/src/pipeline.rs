//! Strategies in order, pure ones and a host's own.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::executor;

/// Strategies in order, each on what the one before left. Is itself a strategy.
///
/// Pure steps in a row share one draft, and one compaction; what they ask for is written before a
/// step of the host's own runs. Cancellation is checked between steps.
///
/// ```
/// use foldback_core::{DropFailedToolResultsStrategy, DropReasoningStrategy, ItemKind, KeepRecentStrategy};
/// use foldback_engine::CompactionPipeline;
///
/// let pipeline = CompactionPipeline::new()
///     .with_strategy(DropReasoningStrategy::new())
///     .with_strategy(DropFailedToolResultsStrategy::new())
///     .with_strategy(KeepRecentStrategy::new(8).preserve_kind(ItemKind::System));
/// assert_eq!(format!("{pipeline:?}"), "drop-reasoning → drop-failed-tool-results → keep-recent(8)");
/// ```
#[derive(Clone, Default)]
pub struct CompactionPipeline {
    steps: Vec<Arc<dyn CompactionStrategy>>,
}

impl CompactionPipeline {
    /// A pipeline without steps, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same pipeline with one more step at its end.
    #[must_use]
    pub fn with_strategy(mut self, strategy: impl CompactionStrategy + 'static) -> Self {
        self.steps.push(Arc::new(strategy));
        self
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Arc<dyn CompactionStrategy>] {
        &self.steps
    }
}

#[async_trait]
impl CompactionStrategy for CompactionPipeline {
    async fn compact(
        &self,
        request: CompactionRequest,
        context: &CompactionContext,
    ) -> Result<CompactionResult, CompactionError> {
        Ok(executor::run(self, request, context).await?.result)
    }

    fn describe(&self) -> String {
        self.steps.iter().map(|step| step.describe()).collect::<Vec<_>>().join(" → ")
    }

    fn steps(&self) -> &[Arc<dyn CompactionStrategy>] {
        &self.steps
    }

    fn needs_budget(&self) -> bool {
        self.steps.iter().any(|step| step.needs_budget())
    }
}

impl fmt::Debug for CompactionPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}
