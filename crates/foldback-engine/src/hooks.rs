//! What a host runs around every compaction, and who is told of it.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use crate::compaction::{CompactionContext, CompactionError, CompactionRequest, CompactionResult};
use crate::event::{CompactionEventKind, CompactionObserver, CompactionReport};
use crate::telemetry;

/// May say no before a compaction begins: `Err` with the reason is a veto. The place to index what is
/// about to be folded.
type BeforeHook = dyn Fn(&CompactionRequest) -> Result<(), String> + Send + Sync;

/// Sees what a compaction led to.
type AfterHook = dyn Fn(&CompactionRequest, &CompactionResult) + Send + Sync;

/// What a host runs around every compaction, and who is told of it. Nothing and nobody by default.
#[derive(Clone, Default)]
pub struct CompactionHooks {
    before: Option<Arc<BeforeHook>>,
    after: Option<Arc<AfterHook>>,
    pub(crate) observer: Option<Arc<dyn CompactionObserver>>,
}

impl fmt::Debug for CompactionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionHooks").field("observer", &self.observer).finish_non_exhaustive()
    }
}

impl CompactionHooks {
    /// Runs before a compaction, and may say no to it.
    #[must_use]
    pub fn before_compaction_start(
        mut self,
        hook: impl Fn(&CompactionRequest) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.before = Some(Arc::new(hook));
        self
    }

    /// Runs after a compaction.
    #[must_use]
    pub fn after_compaction_end(
        mut self,
        hook: impl Fn(&CompactionRequest, &CompactionResult) + Send + Sync + 'static,
    ) -> Self {
        self.after = Some(Arc::new(hook));
        self
    }

    /// Sees what happens.
    #[must_use]
    pub fn observer(mut self, observer: impl CompactionObserver + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// An error where the host says no.
    pub(crate) fn allow(&self, request: &CompactionRequest) -> Result<(), CompactionError> {
        match &self.before {
            Some(before) => before(request).map_err(|why| CompactionError::Vetoed { why }),
            None => Ok(()),
        }
    }

    /// Tells the observer and the host what a compaction led to.
    pub(crate) fn ended(
        &self,
        request: &CompactionRequest,
        context: &CompactionContext,
        result: &CompactionResult,
        report: CompactionReport,
    ) {
        context.emit(request, CompactionEventKind::CompactionEnded(report));
        if let Some(after) = &self.after {
            after(request, result);
        }
    }
}

/// Tells that a compaction begins.
pub(crate) fn started(request: &CompactionRequest, context: &CompactionContext, strategy: String) {
    let (reason, tokens_before) = (request.reason.clone(), request.transcript.tokens());
    context.emit(request, CompactionEventKind::CompactionStarted { reason, strategy, tokens_before });
}

/// Tells that there is no compacted view.
pub(crate) fn failed(
    request: &CompactionRequest,
    context: &CompactionContext,
    why: String,
    started: Instant,
) {
    let tokens = request.transcript.tokens();
    let fits = request.budget.map(|budget| tokens <= budget.usable());
    telemetry::failed(&why);
    let duration = started.elapsed();
    context.emit(request, CompactionEventKind::CompactionFailed { why, tokens, fits, duration });
}
