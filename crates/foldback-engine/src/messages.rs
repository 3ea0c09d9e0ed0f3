//! Compaction for programs whose conversation is a list of messages of their own type.
//!
//! A [`MessageCompactor`] keeps foldback's record beside the list: the messages as items, and every
//! compaction of them. The program asks with its list and gets a list back. A message that a compaction
//! leaves alone comes back as the value that was given; only what is new or changed is made from items.

mod mirror;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldback_core::{
    CompactionReason, Dialect, Handle, Item, MutationPoint, Part, Recalled, SessionId, StructuralEvent,
    TokenCounter, Tokens, Transcript, TriggerContext, TurnId, View,
};

use crate::compaction::{CompactionContext, CompactionError, CompactionRequest, CompactionResult};
use crate::compactor::Compactor;

use mirror::Mirror;

/// Sessions whose record is kept at once; of more, the one asked for longest ago is forgotten.
pub const SESSION_RECORDS_MAX: usize = 256;

/// A message of the program's own type.
pub trait HostMessage: Clone + PartialEq + Send + Sync + 'static {
    /// The message as items, at least one: several where it holds what foldback keeps apart, such as results
    /// and the user's words. Their parts are the message's pieces, in its order. An id that is empty or was
    /// used before is replaced.
    fn to_items(&self) -> Vec<Item>;

    /// An item that no message of the program stands for: a summary, a repaired call or result.
    fn from_item(item: &Item) -> Self;

    /// The same message with the pieces that are left of it, at least one of them removed or replaced.
    #[must_use]
    fn with_pieces(&self, pieces: &[Piece<'_>]) -> Self;
}

/// A session's messages, as the program has them.
#[derive(Debug)]
pub enum History<'a, M> {
    /// What the model was shown, and what came after it: the program keeps what a compaction gives it in
    /// place of what there was. A list that does not go on from the one shown last starts a new record.
    Shown(&'a [M]),
    /// Everything that was ever said: the program keeps that, and shows what a compaction gives it. A list
    /// that does not begin as before starts a new record.
    Whole(&'a [M]),
}

impl<M> Clone for History<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for History<'_, M> {}

impl<'a, M> History<'a, M> {
    fn messages(self) -> &'a [M] {
        match self {
            Self::Shown(messages) | Self::Whole(messages) => messages,
        }
    }
}

/// What is left of one piece of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<'a> {
    /// Which piece: its number among the parts of all items that the message was turned into.
    pub index: usize,
    /// What stands in its place; `None` where it is unchanged.
    pub replaced: Option<&'a Part>,
}

/// A list of messages that a compaction led to.
#[derive(Clone, Debug)]
pub struct CompactedMessages<M> {
    /// What to send and keep from now on.
    pub messages: Vec<M>,
    /// What the list cost before, by foldback's count.
    pub tokens_before: Tokens,
    /// What the compactor says about it, and the view that `messages` shows.
    pub result: CompactionResult,
}

/// A compaction that was decided on, to be carried out by [`MessageCompactor::compact`].
#[derive(Clone, Debug)]
pub struct DueCompaction {
    request: CompactionRequest,
    version: u64,
}

impl DueCompaction {
    /// Why it is due.
    pub fn reason(&self) -> &CompactionReason {
        &self.request.reason
    }
}

/// Runs a [`Compactor`] on messages of type `M`, for any number of sessions.
///
/// ```
/// use foldback_core::{CompactionReason, Item, KeepRecentStrategy, MutationPoint, Part};
/// use foldback_engine::messages::{History, HostMessage, MessageCompactor, Piece};
/// use foldback_engine::{CompactionContext, StrategyCompactor};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Line(String);
///
/// impl HostMessage for Line {
///     fn to_items(&self) -> Vec<Item> {
///         vec![Item::user("", self.0.as_str())]
///     }
///     fn from_item(item: &Item) -> Self {
///         Self(item.parts.iter().filter_map(|part| match part {
///             Part::Text(text) => Some(text.as_str()),
///             _ => None,
///         }).collect())
///     }
///     fn with_pieces(&self, pieces: &[Piece<'_>]) -> Self {
///         match pieces {
///             [Piece { replaced: Some(Part::Text(text)), .. }] => Self(text.to_string()),
///             _ => self.clone(),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let keep = StrategyCompactor::builder().item_count_trigger(4).strategy(KeepRecentStrategy::new(2)).build()?;
/// let compactor = MessageCompactor::<Line>::new(keep);
/// let lines: Vec<Line> = (0..5).map(|n| Line(format!("line {n}"))).collect();
/// let (session, history) = ("s".into(), History::Shown(&lines));
/// let due = compactor.due(&session, None, history, MutationPoint::AfterTurnEnded).expect("five lines");
/// assert_eq!(due.reason(), &CompactionReason::TranscriptTooLong);
/// let compacted = compactor.compact(due, &CompactionContext::default()).await?.expect("three were dropped");
/// assert_eq!(compacted.messages, lines[3..]);
/// # Ok(())
/// # }
/// ```
pub struct MessageCompactor<M> {
    compactor: Arc<dyn Compactor>,
    /// What new records count with.
    empty: Transcript,
    dialect: Option<Dialect>,
    sessions: Mutex<Sessions<M>>,
}

#[derive(Debug)]
struct Sessions<M> {
    mirrors: HashMap<SessionId, Mirror<M>>,
    /// Counts the accesses, so that the oldest is known.
    clock: u64,
}

impl<M> fmt::Debug for MessageCompactor<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageCompactor")
            .field("compactor", &self.compactor)
            .field("dialect", &self.dialect)
            .finish_non_exhaustive()
    }
}

impl<M: HostMessage> MessageCompactor<M> {
    /// Runs this compactor, counting tokens by estimate.
    pub fn new(compactor: impl Compactor + 'static) -> Self {
        Self::shared(Arc::new(compactor))
    }

    /// The same with a compactor that the program keeps too.
    pub fn shared(compactor: Arc<dyn Compactor>) -> Self {
        let sessions = Mutex::new(Sessions { mirrors: HashMap::new(), clock: 0 });
        Self { compactor, empty: Transcript::default(), dialect: None, sessions }
    }

    /// The same, counting with `counter`.
    #[must_use]
    pub fn with_counter(mut self, counter: Arc<dyn TokenCounter>) -> Self {
        self.empty = match self.dialect {
            Some(dialect) => Transcript::for_dialect(counter, dialect),
            None => Transcript::new(counter),
        };
        self
    }

    /// The same for one provider: results keep its rules, and media count as it counts them.
    #[must_use]
    pub fn with_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = Some(dialect);
        let counter = Arc::clone(self.empty.meter().counter());
        self.with_counter(counter)
    }

    /// The compactor's name, for events.
    pub fn describe(&self) -> String {
        self.compactor.describe()
    }

    /// Takes note of a session's messages as they are now, and asks the compactor whether to compact.
    pub fn due(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        history: History<'_, M>,
        point: MutationPoint,
    ) -> Option<DueCompaction> {
        let (view, version, is_longer) = {
            let mut sessions = self.sessions();
            let mirror = sessions.of(session_id, &self.empty);
            let is_longer = mirror.take_in(history, &self.empty);
            (mirror.view().clone(), mirror.version(), is_longer)
        };
        let events = events(point, is_longer);
        let mut context = TriggerContext::new(&view, point).with_events(&events);
        context.needs_follow_up =
            matches!(point, MutationPoint::AfterToolResult | MutationPoint::AfterRequestRejected);
        context.has_pending_input =
            view.items().next_back().is_some_and(|item| item.kind.has_user_authority());
        let fired = self.compactor.should_compact(session_id, turn_id, &context.about(&view));
        let rejected = || context.was_rejected().then_some(CompactionReason::OverflowRejected);
        let reason = fired.or_else(rejected)?;
        Some(self.request(session_id, turn_id, view, (reason, version)))
    }

    /// A compaction that the person or the program asks for, whatever the trigger says.
    pub fn asked_for(&self, session_id: &SessionId, history: History<'_, M>) -> DueCompaction {
        let mut sessions = self.sessions();
        let mirror = sessions.of(session_id, &self.empty);
        mirror.take_in(history, &self.empty);
        let (view, version) = (mirror.view().clone(), mirror.version());
        self.request(session_id, None, view, (CompactionReason::Manual, version))
    }

    fn request(
        &self,
        session_id: &SessionId,
        turn_id: Option<&TurnId>,
        view: View,
        (reason, version): (CompactionReason, u64),
    ) -> DueCompaction {
        let mut request = CompactionRequest::new(session_id.clone(), view, reason);
        (request.turn_id, request.dialect) = (turn_id.cloned(), self.dialect);
        DueCompaction { request, version }
    }

    /// Carries a compaction out. `None` where it led to the same messages, or where the session has gone on
    /// meanwhile. An error leaves the record as it was (T8).
    pub async fn compact(
        &self,
        due: DueCompaction,
        context: &CompactionContext,
    ) -> Result<Option<CompactedMessages<M>>, CompactionError> {
        let DueCompaction { request, version } = due;
        let (session_id, tokens_before) = (request.session_id.clone(), request.transcript.tokens());
        let result = self.compactor.compact(request, context).await?;
        let mut sessions = self.sessions();
        let mirror = sessions.of(&session_id, &self.empty);
        let messages = match mirror.version() == version {
            true => mirror.show(result.transcript.clone()),
            false => None,
        };
        Ok(messages.map(|messages| CompactedMessages { messages, tokens_before, result }))
    }

    /// The record of a session: everything that was said, and what the model sees of it.
    pub fn view(&self, session_id: &SessionId) -> Option<View> {
        self.sessions().mirrors.get(session_id).map(|mirror| mirror.view().clone())
    }

    /// The messages that the model sees in a session.
    pub fn shown(&self, session_id: &SessionId) -> Option<Vec<M>> {
        self.sessions().mirrors.get(session_id).map(Mirror::shown)
    }

    /// The messages behind a handle, as the program gave them. None where nothing has this handle, or where
    /// the handle stands for one part of a message; [`view`](Self::view) recalls that.
    pub fn recall(&self, session_id: &SessionId, handle: &Handle) -> Option<Vec<M>> {
        let sessions = self.sessions();
        let mirror = sessions.mirrors.get(session_id)?;
        match mirror.view().recall(handle)? {
            Recalled::Items(items) => Some(mirror.originals(&items)),
            Recalled::Part(_) => None,
        }
    }

    /// Forgets a session, and with it what could be recalled.
    pub fn forget(&self, session_id: &SessionId) {
        self.sessions().mirrors.remove(session_id);
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions<M>> {
        // A panic elsewhere leaves a mirror that its next list of messages is compared with.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<M: HostMessage> Sessions<M> {
    fn of(&mut self, session_id: &SessionId, empty: &Transcript) -> &mut Mirror<M> {
        self.clock += 1;
        if self.mirrors.len() >= SESSION_RECORDS_MAX && !self.mirrors.contains_key(session_id) {
            let oldest = self.mirrors.iter().min_by_key(|(_, mirror)| mirror.used_at);
            if let Some(oldest) = oldest.map(|(session_id, _)| session_id.clone()) {
                self.mirrors.remove(&oldest);
            }
        }
        let mirror = self.mirrors.entry(session_id.clone()).or_insert_with(|| Mirror::new(empty));
        mirror.used_at = self.clock;
        mirror
    }
}

/// What happened since the last list.
fn events(point: MutationPoint, is_longer: bool) -> Vec<StructuralEvent> {
    let is_answered = is_longer && point == MutationPoint::AfterToolResult;
    let is_rejected = point == MutationPoint::AfterRequestRejected;
    let happened = [
        (is_longer, StructuralEvent::NewItem),
        (is_answered, StructuralEvent::ToolOutput),
        (is_rejected, StructuralEvent::RequestRejectedForLength),
    ];
    happened.into_iter().filter(|(did_happen, _)| *did_happen).map(|(_, event)| event).collect()
}
