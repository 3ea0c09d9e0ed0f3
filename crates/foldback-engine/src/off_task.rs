//! Long pure work, off the task that waits for it: so a compaction can be cancelled, and its deadline
//! holds, while a long conversation is read.

use std::ops::Deref;

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

/// Something large. Giving its memory back takes long enough to be done off the task, too: a compaction
/// that is cancelled ends at once.
#[derive(Debug)]
pub(crate) struct Large<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Large<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Send + 'static> Deref for Large<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is taken out when it is dropped")
    }
}

impl<T: Send + 'static> Drop for Large<T> {
    fn drop(&mut self) {
        if let (Some(value), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn_blocking(move || drop(value));
        }
    }
}
