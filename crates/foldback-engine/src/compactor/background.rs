//! Preparing a compaction ahead, so that nobody waits for it.

use std::sync::Arc;

use foldback_core::View;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::pipeline::run_any;
use crate::rebase::{blocks_since, rebase};

/// A compaction that is being prepared. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Job {
    base: View,
    task: AbortOnDropHandle<Result<CompactionResult, CompactionError>>,
}

/// A compaction that was prepared.
#[derive(Debug)]
pub(super) struct Prepared {
    base: View,
    result: CompactionResult,
}

impl Job {
    /// Starts to prepare. None where there is no runtime to do it on.
    pub(super) fn start(
        strategy: Arc<dyn CompactionStrategy>,
        request: CompactionRequest,
        context: CompactionContext,
    ) -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let base = request.transcript.clone();
        let task = runtime.spawn(async move { run_any(&strategy, request, &context).await });
        Some(Self { base, task: AbortOnDropHandle::new(task) })
    }

    /// Whether it prepares for this view, or for one that this view grew from.
    pub(super) fn is_for(&self, view: &View) -> bool {
        blocks_since(&self.base, view).is_some()
    }

    /// What was prepared; none if it failed, or is not ready now: a compaction that is needed does not
    /// wait for one that is being prepared.
    pub(super) async fn finish(self) -> Option<Prepared> {
        if !self.task.is_finished() {
            return None;
        }
        let result = self.task.await.ok()?.ok()?;
        Some(Prepared { base: self.base, result })
    }
}

impl Prepared {
    /// The compaction for the view as it is now, with everything that was pushed since. None if the
    /// conversation is not the one it was made for.
    pub(super) fn on(self, view: &View) -> Option<CompactionResult> {
        let mut result = self.result;
        result.transcript = rebase(&self.base, &result.transcript, view).ok()?;
        Some(result)
    }
}
