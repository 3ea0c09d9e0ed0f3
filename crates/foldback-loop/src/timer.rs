//! Asks mutators that are due by the clock, while nobody is at work.
//!
//! After every turn, and when a session is opened, a task waits for the earliest time that a mutator names
//! ([`LoopMutator::due_at`](crate::LoopMutator::due_at)). It then takes the place of a turn, so that nothing
//! runs on a conversation in the middle of a request. A turn that begins meanwhile stops it.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use foldback_core::MutationPoint;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::mutating::Mutating;
use crate::session::Shared;

/// The shortest wait after mutators were asked: one that is always due must not keep the machine busy.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait at once. The machine may have slept meanwhile, which timers do not count.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The task that waits for the next mutator that is due. Ends when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Timer(Mutex<Option<AbortOnDropHandle<()>>>);

impl Timer {
    /// Waits for the next mutator that is due, if any names a time. Does nothing outside a tokio runtime.
    pub(crate) fn start(shared: &Arc<Shared>) {
        let task = next_wait(shared).and_then(|_| {
            let waiting = wait(Arc::downgrade(shared), shared.parts.cancellation.clone());
            Some(AbortOnDropHandle::new(Handle::try_current().ok()?.spawn(waiting)))
        });
        *shared.timer.0.lock().unwrap_or_else(PoisonError::into_inner) = task;
    }
}

/// Starts the timer of a session when it is dropped.
pub(crate) struct StartTimer<'s>(pub(crate) &'s Arc<Shared>);

impl Drop for StartTimer<'_> {
    fn drop(&mut self) {
        Timer::start(self.0);
    }
}

async fn wait(session: Weak<Shared>, cancellation: CancellationToken) {
    let mut wait_min = Duration::ZERO;
    loop {
        let Some(wait) = session.upgrade().as_ref().and_then(next_wait) else { return };
        tokio::select! {
            () = tokio::time::sleep(wait.clamp(wait_min, WAIT_MAX)) => {}
            () = cancellation.cancelled() => return,
        }
        let Some(shared) = session.upgrade() else { return };
        let _turn = shared.turn.lock().await;
        if next_wait(&shared).is_some_and(|wait| wait.is_zero()) {
            shared.between_turns().await;
            wait_min = WAIT_MIN;
        }
    }
}

/// How long it is until a mutator is due.
fn next_wait(shared: &Arc<Shared>) -> Option<Duration> {
    let token = CancellationToken::new();
    let emitter = shared.emitter(None);
    let due = Mutating::between_turns(shared, &emitter, &token).due_at()?;
    Some(Duration::from_millis(due.millis_since(shared.parts.clock.now())))
}

impl Shared {
    /// Lets the mutators that are due run. Held back by no one: the caller has the place of a turn.
    async fn between_turns(&self) {
        let token = self.begin_giving_way();
        let emitter = self.emitter(None);
        // What a mutator failed with is in the events; the next turn goes on with the view as it was.
        let round = Mutating::between_turns(self, &emitter, &token).run().await;
        let saved = self.save().await;
        tracing::debug!(session = %self.id, ?round, ?saved, "the clock asked");
        self.end();
    }
}

impl<'a> Mutating<'a> {
    fn between_turns(
        shared: &'a Shared,
        emitter: &'a crate::event::Emitter,
        token: &'a CancellationToken,
    ) -> Self {
        Self { shared, emitter, turn_id: None, point: MutationPoint::BetweenTurns, focus: None, token }
    }
}
