//! Preparing a compaction ahead, so that nobody waits for it.

use std::sync::Arc;
use std::time::Duration;

use foldback_core::View;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
use crate::pipeline::run_any;
use crate::rebase::{is_same_overlay, rebase};

/// How long a compaction that is needed now waits for one that is being prepared. The digest takes
/// a fraction of it.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A compaction that is being prepared. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Job {
    base: View,
    task: AbortOnDropHandle<Result<CompactionResult, CompactionError>>,
}

/// What became of one.
#[derive(Debug)]
pub(super) enum Prepared {
    /// It is ready, with everything that was pushed since.
    Ready(Box<CompactionResult>),
    /// It is no use: it failed, or the conversation is not the one it was made for.
    Useless,
    /// It takes too long.
    Late,
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
        is_same_overlay(self.base.overlay(), view.overlay())
    }

    /// The compaction, for the view as it is now.
    pub(super) async fn finish(self, view: &View) -> Prepared {
        if !self.is_for(view) {
            return Prepared::Useless;
        }
        let mut result = match timeout(WAIT_MAX, self.task).await {
            Ok(Ok(Ok(result))) => result,
            Ok(Ok(Err(_)) | Err(_)) => return Prepared::Useless,
            Err(_) => return Prepared::Late,
        };
        match rebase(&self.base, &result.transcript, view) {
            Ok(rebased) => {
                result.transcript = rebased;
                Prepared::Ready(Box::new(result))
            }
            Err(_) => Prepared::Useless,
        }
    }
}
