//! Compaction in the loop: any [`Compactor`] as a mutator.

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{CompactionReason, Metadata, MutationPoint, Timestamp, View};
use foldback_engine::{CompactionContext, CompactionRequest, CompactionResult, Compactor};

use crate::agent::AgentBuilder;
use crate::mutator::{LoopMutator, Mutation, MutationContext, MutatorError, Staged};

/// The label of the first compactor of an agent.
pub const COMPACTOR_LABEL: &str = "compactor";

/// Runs a [`Compactor`] where the loop may be changed.
///
/// Beside what the compactor's own trigger says, it compacts when the person asked for it and when
/// the provider rejected a request for its length. A compaction that fails leaves the view as it was
/// and does not end the turn (T8).
///
/// The model is sent the compacted view and nothing else. It sees that something was folded: a line over a
/// summary and a placeholder for a cleared result say so and name a handle, so that it can recall what it misses.
#[derive(Clone, Debug)]
pub struct CompactorMutator {
    compactor: Arc<dyn Compactor>,
    label: String,
    metadata: Metadata,
}

impl CompactorMutator {
    /// A mutator for this compactor.
    pub fn new(compactor: impl Compactor + 'static) -> Self {
        Self::shared(Arc::new(compactor))
    }

    /// A mutator for a compactor that the host keeps too.
    pub fn shared(compactor: Arc<dyn Compactor>) -> Self {
        Self { compactor, label: COMPACTOR_LABEL.to_owned(), metadata: Metadata::new() }
    }

    /// The same under another name.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// The same, passing this along with every compaction.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    fn reason(&self, view: &View, context: &MutationContext<'_>) -> Option<CompactionReason> {
        let trigger_context = context.trigger_context(view);
        let asked = || context.is_asked_for().then_some(CompactionReason::Manual);
        let rejected = || {
            let is_rejected = context.point == MutationPoint::AfterRequestRejected;
            is_rejected.then_some(CompactionReason::OverflowRejected)
        };
        let fired = self.compactor.should_compact(context.session_id, context.turn_id, &trigger_context);
        asked().or(fired).or_else(rejected)
    }

    fn request(
        &self,
        view: View,
        reason: CompactionReason,
        context: &MutationContext<'_>,
    ) -> CompactionRequest {
        let mut request = CompactionRequest::new(context.session_id.clone(), view, reason)
            .with_metadata(self.metadata.clone());
        request.turn_id = context.turn_id.cloned();
        request.budget = context.budget;
        request.dialect = context.dialect;
        request.focus = context.focus.cloned();
        request.limit = context.limit;
        request
    }
}

#[async_trait]
impl LoopMutator for CompactorMutator {
    fn label(&self) -> &str {
        &self.label
    }

    fn due_at(&self, view: &View, context: &MutationContext<'_>) -> Option<Timestamp> {
        self.compactor.due_at(context.session_id, &context.trigger_context(view))
    }

    async fn mutate(
        &self,
        staged: &mut Staged,
        context: &MutationContext<'_>,
    ) -> Result<Mutation, MutatorError> {
        let Some(reason) = self.reason(staged.view(), context) else { return Ok(Mutation::done()) };
        staged.begin(reason.clone(), self.compactor.describe_for(&reason));
        let request = self.request(staged.view().clone(), reason, context);
        let compaction = CompactionContext {
            metadata: self.metadata.clone(),
            cancellation: context.cancellation.clone(),
            ..CompactionContext::default()
        };
        Ok(match self.compactor.compact(request, &compaction).await {
            Err(error) => Mutation::failed(error.to_string()),
            Ok(result) => {
                if is_other(staged.view(), &result) {
                    staged.install(result.transcript);
                }
                Mutation::done().with_metadata(result.metadata)
            }
        })
    }
}

/// Whether a result is another view. Counts say it: compactions only ever add blocks, and repairs
/// add items.
fn is_other(view: &View, result: &CompactionResult) -> bool {
    let block_count = |view: &View| view.overlay().blocks().len();
    result.replaced_items > 0
        || block_count(view) != block_count(&result.transcript)
        || view.transcript().len() != result.transcript.transcript().len()
}

/// Adds `.compactor(..)` to the builder of an agent.
pub trait AgentBuilderCompactorExt: Sized {
    /// Compacts with this at every mutation point. Several run in the order they were added.
    #[must_use]
    fn compactor(self, compactor: impl Compactor + 'static) -> Self;

    /// The same with a compactor that the host keeps too.
    #[must_use]
    fn shared_compactor(self, compactor: Arc<dyn Compactor>) -> Self;
}

impl AgentBuilderCompactorExt for AgentBuilder {
    fn compactor(self, compactor: impl Compactor + 'static) -> Self {
        self.shared_compactor(Arc::new(compactor))
    }

    fn shared_compactor(self, compactor: Arc<dyn Compactor>) -> Self {
        let label = self.compactor_label();
        self.mutator(CompactorMutator::shared(compactor).with_label(label))
    }
}
