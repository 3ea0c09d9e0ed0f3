//! Long pure work, off the task that waits for it: so a compaction can be cancelled, and its deadline
//! holds, while a long conversation is read.

use std::ops::Deref;

use foldback_core::Tokens;
use tokio::runtime::Handle;

/// Work on a conversation up to this size is done on the task itself, and what was found in it is given
/// back there: so little is not worth another thread.
const ON_TASK_TOKENS_MAX: Tokens = Tokens(4_000);

/// Does the work on a thread that may block, where a conversation of so many `tokens` makes it long and
/// there is a runtime with such threads; else here. Dropping the future does not end the work, only the
/// wait for it: it has no effects, and ends by itself.
pub(crate) async fn off_task<T: Send + 'static>(
    tokens: Tokens,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let Some(runtime) = runtime_for(tokens) else { return work() };
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down, and this task with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Where long work goes, if this is any.
fn runtime_for(tokens: Tokens) -> Option<Handle> {
    (tokens > ON_TASK_TOKENS_MAX).then(|| Handle::try_current().ok()).flatten()
}

/// What was found in a conversation. Where that is large, giving its memory back takes long enough to be
/// done off the task, too: a compaction that is cancelled ends at once.
#[derive(Debug)]
pub(crate) struct Large<T: Send + 'static> {
    value: Option<T>,
    /// What it was found in.
    tokens: Tokens,
}

impl<T: Send + 'static> Large<T> {
    /// Something found in a conversation of so many tokens.
    pub(crate) fn new(value: T, tokens: Tokens) -> Self {
        Self { value: Some(value), tokens }
    }
}

impl<T: Send + 'static> Deref for Large<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is taken out when it is dropped")
    }
}

impl<T: Send + 'static> Drop for Large<T> {
    fn drop(&mut self) {
        if let (Some(value), Some(runtime)) = (self.value.take(), runtime_for(self.tokens)) {
            runtime.spawn_blocking(move || drop(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{ThreadId, current};

    use super::*;

    /// Says on which thread it is given back.
    struct Told(Sender<ThreadId>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send(current().id()).expect("the test listens");
        }
    }

    /// On which thread something found in so many tokens is given back.
    fn given_back_on(tokens: Tokens) -> ThreadId {
        let (sender, dropped) = channel();
        drop(Large::new(Told(sender), tokens));
        dropped.recv().expect("it is given back")
    }

    #[tokio::test]
    async fn only_what_takes_long_leaves_the_task() {
        let more = ON_TASK_TOKENS_MAX + Tokens(1);
        assert_eq!(given_back_on(ON_TASK_TOKENS_MAX), current().id());
        assert_ne!(given_back_on(more), current().id());
        assert_eq!(off_task(ON_TASK_TOKENS_MAX, || current().id()).await, current().id());
        assert_ne!(off_task(more, || current().id()).await, current().id());
    }

    #[test]
    fn without_a_runtime_everything_is_done_where_it_is_asked_for() {
        assert_eq!(given_back_on(Tokens(u64::MAX)), current().id());
    }
}
