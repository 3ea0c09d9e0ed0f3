//! The seam where the conversation may be changed: [`LoopMutator`].
//!
//! A mutation is a transaction. The mutator works on a [`Staged`] view; the loop validates what it
//! left and commits it, with everything that arrived meanwhile behind it, or refuses it and goes on
//! with the view it had.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{
    Budget, CompactionReason, Dialect, DiffError, Item, LastCompaction, Metadata, MutationPoint, SessionId,
    StructuralEvent, Text, Timestamp, TokenBounds, Tokens, TriggerContext, TurnId, Usage, View, diff,
};
use tokio_util::sync::CancellationToken;

use crate::error::MutationFault;
use crate::event::{AgentEvent, Emitter};

/// Changes what the model sees, at the mutation points.
///
/// Implementors guarantee: the label never changes; recorded items are hidden or folded, never
/// changed (T1); the work ends soon after `context.cancellation` is cancelled. What a mutator leaves
/// is checked against the model's dialect before it counts.
#[async_trait]
pub trait LoopMutator: Send + Sync {
    /// The name in events and errors.
    fn label(&self) -> &str;

    /// Looks at the conversation and changes it, or does not. An error ends the turn with the view as
    /// it was; what is no reason to end a turn is [`Mutation::failed`].
    async fn mutate(
        &self,
        staged: &mut Staged,
        context: &MutationContext<'_>,
    ) -> Result<Mutation, MutatorError>;

    /// The earliest time at which it may want to work although nothing happens until then. The loop runs it
    /// then, at [`MutationPoint::BetweenTurns`], unless a turn is running. None for a mutator that only
    /// works on what happens.
    fn due_at(&self, _view: &View, _context: &MutationContext<'_>) -> Option<Timestamp> {
        None
    }
}

impl fmt::Debug for dyn LoopMutator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A mutator cannot go on, and the turn must not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct MutatorError {
    /// What went wrong.
    pub why: String,
}

impl MutatorError {
    /// A failure in words.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

impl From<MutatorError> for MutationFault {
    fn from(error: MutatorError) -> Self {
        Self::Failed { why: error.why }
    }
}

/// What a mutator has to say about what it did. Whether it changed anything, the loop sees itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutation {
    /// For events.
    pub metadata: Metadata,
    /// Why it did not do what it wanted; what it staged is thrown away (T8).
    pub failure: Option<String>,
}

impl Mutation {
    /// Nothing to add.
    pub fn done() -> Self {
        Self::default()
    }

    /// It could not; the turn goes on with the view as it was.
    pub fn failed(why: impl Into<String>) -> Self {
        Self { metadata: Metadata::new(), failure: Some(why.into()) }
    }

    /// The same, with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// Why a mutator works, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) reason: Option<CompactionReason>,
    pub(crate) strategy: String,
}

/// The view that a mutator works on: a copy that costs nothing, until it is committed.
///
/// The first call of [`begin`](Self::begin), or the first change, tells observers that the mutator is at
/// work. A mutator that looks and decides against it is not heard of.
#[derive(Debug)]
pub struct Staged {
    view: View,
    is_changed: bool,
    label: String,
    point: MutationPoint,
    emitter: Emitter,
    work: Option<Work>,
}

impl Staged {
    pub(crate) fn new(view: View, label: &str, point: MutationPoint, emitter: Emitter) -> Self {
        Self { view, is_changed: false, label: label.to_owned(), point, emitter, work: None }
    }

    /// Says that the mutator has decided to work: observers are told once, with this reason and strategy.
    /// Work that takes long begins after this call.
    pub fn begin(&mut self, reason: CompactionReason, strategy: impl Into<String>) {
        self.start(Some(reason), strategy.into());
    }

    /// What the model would see.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Puts another view in its place. It must be one of the same transcript, which may have grown.
    pub fn install(&mut self, view: View) {
        self.begin_unannounced();
        self.view = view;
        self.is_changed = true;
    }

    /// Makes these the items that the model sees. They are compared with what it sees now: what is
    /// missing is dropped, what changed is rewritten, what is new is the summary of what it stands
    /// for; what cannot be said that way is refused.
    pub fn set_items(&mut self, items: &[Arc<Item>]) -> Result<(), DiffError> {
        let view = diff(&self.view, items)?.compacted.view;
        self.install(view);
        Ok(())
    }

    /// Records one more item at the end.
    pub fn push(&mut self, item: Item) {
        self.begin_unannounced();
        self.view.push(item);
        self.is_changed = true;
    }

    /// Whether anything was changed.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// The mutator does something without having said why.
    pub(crate) fn begin_unannounced(&mut self) {
        self.start(None, self.label.clone());
    }

    /// Why it works, if it does.
    pub(crate) fn work(&self) -> Option<&Work> {
        self.work.as_ref()
    }

    pub(crate) fn into_view(self) -> View {
        self.view
    }

    fn start(&mut self, reason: Option<CompactionReason>, strategy: String) {
        if self.work.is_some() {
            return;
        }
        self.emitter.emit(AgentEvent::MutationStarted {
            mutator: self.label.clone(),
            point: self.point,
            reason: reason.clone(),
            strategy: strategy.clone(),
            tokens: self.view.tokens(),
        });
        self.work = Some(Work { reason, strategy });
    }
}

/// What a mutator may decide on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MutationContext<'a> {
    /// Whose conversation it is.
    pub session_id: &'a SessionId,
    /// The turn it happens in; none between turns.
    pub turn_id: Option<&'a TurnId>,
    /// Where the loop is.
    pub point: MutationPoint,
    /// What happened since the last mutation point.
    pub events: &'a [StructuralEvent],
    /// What the view costs, tool schemas excluded.
    pub tokens: TokenBounds,
    /// What the provider reported last, if it still describes the view.
    pub reported: Option<Usage>,
    /// The time.
    pub now: Timestamp,
    /// When this mutator worked last.
    pub last_firing: Option<Timestamp>,
    /// What the last compaction left.
    pub last_compaction: Option<LastCompaction>,
    /// Whether the model will be asked again without the person saying anything.
    pub needs_follow_up: bool,
    /// Whether the person has said something that was not sent yet.
    pub has_pending_input: bool,
    /// How much room there is, in counted tokens: corrected by what the provider reported, and
    /// lowered by each rejection of the same request.
    pub budget: Option<Budget>,
    /// Whose rules the result must keep.
    pub dialect: Option<Dialect>,
    /// What the provider said its window is when it rejected the request.
    pub limit: Option<Tokens>,
    /// How often the same request was rejected for its length.
    pub rejection_count: u32,
    /// What the person asked the summary to attend to.
    pub focus: Option<&'a Text>,
    /// Ends the work.
    pub cancellation: &'a CancellationToken,
}

impl MutationContext<'_> {
    /// The same as compactors and triggers want it.
    pub fn trigger_context<'v>(&'v self, view: &'v View) -> TriggerContext<'v, View> {
        TriggerContext {
            sequence: view,
            tokens: self.tokens,
            point: self.point,
            events: self.events,
            reported: self.reported,
            now: Some(self.now),
            last_firing: self.last_firing,
            last_compaction: self.last_compaction,
            needs_follow_up: self.needs_follow_up,
            has_pending_input: self.has_pending_input,
            budget: None,
        }
    }

    /// Whether the person asked for a compaction.
    pub fn is_asked_for(&self) -> bool {
        self.events.contains(&StructuralEvent::AskedByUser)
    }
}
