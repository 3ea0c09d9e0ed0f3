//! What a host runs around every compaction, and who is told of it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use crate::compaction::{CompactionContext, CompactionError, CompactionRequest, CompactionResult};
use crate::event::{CompactionEventKind, CompactionObserver, CompactionReport};
use crate::telemetry;

/// Why there is no view where nobody waited for one.
const DROPPED: &str = "the compaction was dropped before it ended";

/// What a host runs around every compaction. Both methods do nothing by default.
///
/// ```
/// use async_trait::async_trait;
/// use foldback_core::KeepRecentStrategy;
/// use foldback_engine::{CompactionHook, CompactionRequest, StrategyCompactor};
///
/// struct Index;
///
/// #[async_trait]
/// impl CompactionHook for Index {
///     async fn before_compaction_start(&self, request: &CompactionRequest) -> Result<(), String> {
///         // Index what is about to be folded, in a service that takes its time.
///         tokio::task::yield_now().await;
///         if request.transcript.is_empty() { Err("there is nothing to compact".to_owned()) } else { Ok(()) }
///     }
/// }
///
/// let compactor = StrategyCompactor::builder()
///     .item_count_trigger(12)
///     .strategy(KeepRecentStrategy::new(8))
///     .hook(Index);
/// # let _ = compactor;
/// ```
#[async_trait]
pub trait CompactionHook: Send + Sync {
    /// Runs before a compaction begins: the place to index what is about to be folded. `Err` with the reason
    /// is a veto, and the view stays as it is.
    async fn before_compaction_start(&self, _request: &CompactionRequest) -> Result<(), String> {
        Ok(())
    }

    /// Runs after a compaction that was carried out: the place to verify it.
    async fn after_compaction_end(&self, _request: &CompactionRequest, _result: &CompactionResult) {}
}

struct Before<F>(F);

#[async_trait]
impl<F> CompactionHook for Before<F>
where
    F: Fn(&CompactionRequest) -> Result<(), String> + Send + Sync,
{
    async fn before_compaction_start(&self, request: &CompactionRequest) -> Result<(), String> {
        (self.0)(request)
    }
}

struct After<F>(F);

#[async_trait]
impl<F: Fn(&CompactionRequest, &CompactionResult) + Send + Sync> CompactionHook for After<F> {
    async fn after_compaction_end(&self, request: &CompactionRequest, result: &CompactionResult) {
        (self.0)(request, result);
    }
}

/// The hooks of a host, in the order in which they run, and who is told of it. Nothing and nobody by default.
#[derive(Clone, Default)]
pub struct CompactionHooks {
    hooks: Vec<Arc<dyn CompactionHook>>,
    pub(crate) observer: Option<Arc<dyn CompactionObserver>>,
}

impl fmt::Debug for CompactionHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hooks, observer) = (self.hooks.len(), &self.observer);
        f.debug_struct("CompactionHooks").field("hooks", &hooks).field("observer", observer).finish()
    }
}

impl CompactionHooks {
    /// Runs around every compaction, after the hooks that were added before it.
    #[must_use]
    pub fn hook(mut self, hook: impl CompactionHook + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Runs before a compaction, and may say no to it.
    #[must_use]
    pub fn before_compaction_start(
        self,
        hook: impl Fn(&CompactionRequest) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.hook(Before(hook))
    }

    /// Runs after a compaction that was carried out.
    #[must_use]
    pub fn after_compaction_end(
        self,
        hook: impl Fn(&CompactionRequest, &CompactionResult) + Send + Sync + 'static,
    ) -> Self {
        self.hook(After(hook))
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
    pub(crate) async fn allow(&self) -> Result<(), CompactionError> {
        for hook in &self.hooks.hooks {
            let allowed = hook.before_compaction_start(&self.request).await;
            allowed.map_err(|why| CompactionError::Vetoed { why })?;
        }
        Ok(())
    }

    /// Says what it led to.
    pub(crate) async fn ended(mut self, result: &CompactionResult) {
        self.is_over = true;
        let strategy = self.strategy.clone();
        let report = CompactionReport::of(&self.request, result, strategy, self.started.elapsed());
        self.span.in_scope(|| {
            telemetry::ended(&self.span, &report);
            self.context.emit(&self.request, CompactionEventKind::CompactionEnded(report));
        });
        for hook in &self.hooks.hooks {
            hook.after_compaction_end(&self.request, result).instrument(self.span.clone()).await;
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
