//! What a host runs around every compaction, and who is told of it.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::Span;

use crate::compaction::{CompactionContext, CompactionError, CompactionRequest, CompactionResult};
use crate::event::{CompactionEventKind, CompactionObserver, CompactionReport};
use crate::telemetry;

/// Why there is no view where nobody waited for one.
const DROPPED: &str = "the compaction was dropped before it ended";

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

    /// Says that a compaction begins.
    pub(crate) fn announce(
        &self,
        request: CompactionRequest,
        context: CompactionContext,
        strategy: String,
    ) -> Announced {
        let span = telemetry::span(&request, &strategy);
        let (reason, tokens_before) = (request.reason.clone(), request.transcript.tokens());
        let kind =
            CompactionEventKind::CompactionStarted { reason, strategy: strategy.clone(), tokens_before };
        context.emit(&request, kind);
        let hooks = self.clone();
        Announced { hooks, request, context, strategy, span, started: Instant::now(), is_over: false }
    }
}

/// A compaction that was said to begin. What begins is always said to end, even where it is dropped.
#[derive(Debug)]
pub(crate) struct Announced {
    hooks: CompactionHooks,
    pub(crate) request: CompactionRequest,
    pub(crate) context: CompactionContext,
    pub(crate) span: Span,
    strategy: String,
    started: Instant,
    is_over: bool,
}

impl Announced {
    /// An error where the host says no.
    pub(crate) fn allow(&self) -> Result<(), CompactionError> {
        match &self.hooks.before {
            Some(before) => before(&self.request).map_err(|why| CompactionError::Vetoed { why }),
            None => Ok(()),
        }
    }

    /// Says what it led to.
    pub(crate) fn ended(mut self, result: &CompactionResult) {
        self.is_over = true;
        let strategy = self.strategy.clone();
        let report = CompactionReport::of(&self.request, result, strategy, self.started.elapsed());
        let _entered = self.span.enter();
        telemetry::ended(&self.span, &report);
        self.context.emit(&self.request, CompactionEventKind::CompactionEnded(report));
        if let Some(after) = &self.hooks.after {
            after(&self.request, result);
        }
    }

    /// Says that there is no compacted view.
    pub(crate) fn failed(mut self, why: String) {
        self.tell_failed(why);
    }

    fn tell_failed(&mut self, why: String) {
        self.is_over = true;
        let _entered = self.span.enter();
        telemetry::failed(&why);
        let tokens = self.request.transcript.tokens();
        let fits = self.request.budget.map(|budget| tokens <= budget.usable());
        let duration = self.started.elapsed();
        self.context
            .emit(&self.request, CompactionEventKind::CompactionFailed { why, tokens, fits, duration });
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if !self.is_over {
            self.tell_failed(DROPPED.to_owned());
        }
    }
}
