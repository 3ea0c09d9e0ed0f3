//! One conversation with an agent: [`AgentSession`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use foldback_core::{
    CompactionBlock, Item, ItemKind, MutationPoint, Part, SessionId, StructuralEvent, Text, TokenBounds,
    TurnId, Usage, View, check_request,
};
use futures_util::Stream;
use tokio_util::sync::CancellationToken;

use crate::agent::Parts;
use crate::error::{LoopError, MutationFault};
use crate::event::{AgentEvent, Emitter, Sink};
use crate::mutating::{Mutating, MutationRound};
use crate::mutator::LoopMutator;
use crate::state::State;
use crate::stored::Stored;
use crate::timer::{StartTimer, Timer};
use crate::turn::Turn;

/// What the handles of one session share.
pub(crate) struct Shared {
    pub(crate) parts: Arc<Parts>,
    pub(crate) id: SessionId,
    state: Mutex<State>,
    /// What may change the conversation, in order.
    pub(crate) mutators: Vec<Arc<dyn LoopMutator>>,
    /// Where it is kept, if it is.
    pub(crate) stored: Option<Arc<Stored>>,
    /// Held by whoever runs a turn, a compaction or an undo: one at a time, in the order they came.
    pub(crate) turn: tokio::sync::Mutex<()>,
    current: Mutex<Option<Current>>,
    pub(crate) timer: Timer,
}

/// What the session is doing.
#[derive(Debug)]
struct Current {
    token: CancellationToken,
    /// Whether it ends as soon as somebody wants a turn.
    gives_way: bool,
}

impl Shared {
    pub(crate) fn new(parts: Arc<Parts>, id: SessionId, view: View, stored: Option<Arc<Stored>>) -> Self {
        let before = stored.as_ref().map(|stored| stored.before()).unwrap_or_default();
        let state = Mutex::new(State::new(view, before, &parts.specs));
        let mut mutators = parts.mutators.clone();
        mutators.extend(parts.compaction.as_ref().map(|compaction| compaction.mutator(stored.as_ref())));
        let (turn, current, timer) = (tokio::sync::Mutex::default(), Mutex::default(), Timer::default());
        Self { parts, id, state, mutators, stored, turn, current, timer }
    }

    /// Brings what is new to the store, if the session is kept in one.
    pub(crate) async fn save(&self) -> Result<(), LoopError> {
        match &self.stored {
            Some(stored) => stored.save(self).await,
            None => Ok(()),
        }
    }

    /// Never held across an await. Where a panic left it, it is whole: items are appended one by one.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for the next stretch of work, which `interrupt` cancels.
    pub(crate) fn begin(&self) -> CancellationToken {
        self.begin_as(false)
    }

    /// The same for work that ends as soon as somebody wants a turn.
    pub(crate) fn begin_giving_way(&self) -> CancellationToken {
        self.begin_as(true)
    }

    fn begin_as(&self, gives_way: bool) -> CancellationToken {
        let token = self.parts.cancellation.child_token();
        *self.current() = Some(Current { token: token.clone(), gives_way });
        token
    }

    /// Nothing is being done any more.
    pub(crate) fn end(&self) {
        *self.current() = None;
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a turn, once whoever has it is done. What only the clock asked for gives way.
    async fn take_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        if let Some(Current { token, gives_way: true }) = &*self.current() {
            token.cancel();
        }
        self.turn.lock().await
    }

    pub(crate) fn interruption(&self) -> LoopError {
        match self.parts.cancellation.is_cancelled() {
            true => LoopError::Cancelled,
            false => LoopError::Interrupted,
        }
    }

    pub(crate) fn emitter(&self, sink: Option<Sink>) -> Emitter {
        Emitter { session_id: self.id.clone(), observers: Arc::clone(&self.parts.observers), sink }
    }
}

/// Leaves the conversation in order however the work ends, also where its future is dropped.
struct Running<'s>(&'s Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.close_calls();
        state.reopen();
        drop(state);
        self.0.end();
    }
}

/// One conversation. Clones are the same session.
#[derive(Clone)]
pub struct AgentSession {
    shared: Arc<Shared>,
}

/// What a turn came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnResult {
    /// Its name.
    pub turn_id: TurnId,
    /// The answer's text.
    pub text: String,
    /// The answer as recorded.
    pub item: Arc<Item>,
    /// How often the model answered.
    pub round_count: usize,
    /// How many tools were called.
    pub call_count: usize,
    /// What was reported for all of it.
    pub usage: Usage,
}

impl AgentSession {
    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The same, asking the mutators that are due by the clock from now on.
    pub(crate) fn opened(shared: Arc<Shared>) -> Self {
        Timer::start(&shared);
        Self { shared }
    }

    /// Its name.
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// What the model would see now. Costs nothing.
    pub fn view(&self) -> View {
        self.shared.state().view().clone()
    }

    /// What the next request costs, tool schemas included: what was reported last, and estimates for
    /// what came after.
    pub fn context(&self) -> TokenBounds {
        self.shared.state().context()
    }

    /// Says something and waits until the agent has answered. Turns of one session run one after the
    /// other. Dropping the future interrupts the turn.
    pub async fn send(&self, text: impl Into<Text> + Send) -> Result<TurnResult, LoopError> {
        self.send_parts(vec![Part::Text(text.into())]).await
    }

    /// The same with anything a user may say, such as images.
    pub async fn send_parts(&self, parts: Vec<Part>) -> Result<TurnResult, LoopError> {
        self.run(parts, None).await
    }

    /// Says something and hands out what happens as it happens; nothing happens unless it is read.
    pub fn stream(&self, text: impl Into<Text>) -> TurnStream {
        let sink = Sink::default();
        let (session, parts, events) = (self.clone(), vec![Part::Text(text.into())], sink.clone());
        let turn = Box::pin(async move { session.run(parts, Some(events)).await });
        TurnStream { turn: Some(turn), result: None, sink }
    }

    async fn run(&self, parts: Vec<Part>, sink: Option<Sink>) -> Result<TurnResult, LoopError> {
        let shared = &*self.shared;
        let _turn = shared.take_turn().await;
        let _timer = StartTimer(&self.shared);
        let _running = Running(shared);
        let turn = Turn::new(shared, shared.emitter(sink));
        turn.run(parts).await
    }

    /// Adds an item: a notification, a file, something the person says while the agent works. It
    /// stands at the end at once, or behind the answer or the results that are on their way. What a
    /// person says is answered before the turn ends.
    pub fn push(&self, item: Item) -> Result<(), LoopError> {
        self.shared.state().push(item).map(|_| ())
    }

    /// [`push`](Self::push) for text of the person.
    pub fn say(&self, text: impl Into<Text>) -> Result<(), LoopError> {
        let mut state = self.shared.state();
        let id = state.next_id(ItemKind::User);
        state.push(Item::user(id, text)).map(|_| ())
    }

    /// Stops what the session is doing. The turn ends with [`LoopError::Interrupted`]; calls that
    /// were running get results that say so.
    pub fn interrupt(&self) {
        if let Some(Current { token, .. }) = &*self.shared.current() {
            token.cancel();
        }
    }

    /// Lets the mutators run now, as asked for by the person; summaries attend to `focus`.
    pub async fn compact(&self, focus: Option<Text>) -> Result<MutationRound, LoopError> {
        let shared = &*self.shared;
        let _turn = shared.take_turn().await;
        let _timer = StartTimer(&self.shared);
        let _running = Running(shared);
        shared.state().note(StructuralEvent::AskedByUser);
        let token = shared.begin();
        let mutating = Mutating {
            shared,
            emitter: &shared.emitter(None),
            turn_id: None,
            point: MutationPoint::AfterTurnEnded,
            focus: focus.as_ref(),
            token: &token,
        };
        let round = mutating.run().await?;
        shared.save().await?;
        Ok(round)
    }

    /// Stores what was not stored yet. A turn does so by itself; what was [pushed](Self::push) after it waits
    /// for the next turn, or for this. Does nothing where the session is not kept in a store.
    pub async fn save(&self) -> Result<(), LoopError> {
        let _turn = self.shared.take_turn().await;
        self.shared.save().await
    }

    /// Takes off the newest compaction; what it was. `None` where there is none.
    pub async fn undo(&self) -> Result<Option<Arc<CompactionBlock>>, LoopError> {
        let shared = &*self.shared;
        let _turn = shared.take_turn().await;
        let base = shared.state().view().clone();
        let Some((mut view, taken_off)) = base.undo() else { return Ok(None) };
        let dialect = shared.parts.model.dialect();
        let refused = |why| LoopError::Mutator {
            mutator: "undo".to_owned(),
            point: MutationPoint::AfterTurnEnded,
            why,
        };
        let violations = check_request(view.items(), dialect);
        if !violations.is_empty() {
            return Err(refused(MutationFault::Invalid { violations }));
        }
        if let Some(stored) = &shared.stored {
            let Some(stored_view) = stored.undo(shared).await? else { return Ok(None) };
            view = stored_view;
        }
        shared.state().adopt(base.transcript().len(), view, dialect).map_err(refused)?;
        Ok(taken_off.into_iter().next())
    }
}

impl fmt::Debug for AgentSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSession").field("id", &self.shared.id).finish_non_exhaustive()
    }
}

type TurnFuture = Pin<Box<dyn Future<Output = Result<TurnResult, LoopError>> + Send>>;

/// A turn as a stream of events. Dropping it interrupts the turn.
pub struct TurnStream {
    turn: Option<TurnFuture>,
    result: Option<Result<TurnResult, LoopError>>,
    sink: Sink,
}

impl TurnStream {
    /// The next event; none once the turn is over.
    pub async fn next(&mut self) -> Option<AgentEvent> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// What the turn came to; lets it run to its end.
    pub async fn finish(mut self) -> Result<TurnResult, LoopError> {
        while self.next().await.is_some() {}
        self.result.take().expect("a turn whose events have ended has a result")
    }
}

impl Stream for TurnStream {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        if let Some(event) = self.sink.pop() {
            return Poll::Ready(Some(event));
        }
        let Some(turn) = &mut self.turn else { return Poll::Ready(None) };
        if let Poll::Ready(result) = turn.as_mut().poll(context) {
            self.result = Some(result);
            self.turn = None;
        }
        match self.sink.pop() {
            Some(event) => Poll::Ready(Some(event)),
            None if self.turn.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for TurnStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnStream").field("is_over", &self.turn.is_none()).finish_non_exhaustive()
    }
}
