//! Long pure work, off the task that waits for it: so a compaction can be cancelled, and its deadline
//! holds, while a long conversation is read.

use tokio::runtime::Handle;

/// Does the work on a thread that may block, where there is a runtime with such threads; else here.
/// Dropping the future does not end the work, only the wait for it: it has no effects, and ends by
/// itself.
pub(crate) async fn off_task<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let Ok(runtime) = Handle::try_current() else { return work() };
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}
