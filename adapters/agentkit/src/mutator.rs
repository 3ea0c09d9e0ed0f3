//! [`FoldbackMutator`]: foldback where agentkit's loop may be changed.

use std::sync::Arc;

use agentkit_core::{Item, MetadataMap, TurnCancellation};
use agentkit_loop::{AgentEvent, LoopCtx, LoopError, LoopMutator, MutationPoint, TranscriptCursor};
use async_trait::async_trait;
use foldback::engine::messages::{CompactedMessages, History, MessageCompactor};
use foldback::engine::{CompactionContext, CompactionError, Compactor};
use foldback::{Dialect, Handle, SessionId, TokenCounter, TurnId, View};

use crate::items::Message;

/// The label in agentkit's events, unless another is chosen.
pub const MUTATOR_LABEL: &str = "foldback";

/// Compacts the transcripts of agentkit's agents with a foldback [`Compactor`].
///
/// agentkit's transcript holds what the model sees. What was folded out of it stays in the record that this
/// keeps of each session, and is read with [`recall`](Self::recall) or by the agent itself with a
/// [`RecallTool`](crate::RecallTool). Clones share the record.
///
/// Where a compaction fails, the turn goes on with the transcript as it was, and the event
/// [`AgentEvent::MutationFinished`] says why. A request that was rejected for its length is always answered
/// with a compaction; for that the agent needs a
/// [`context_recovery`](agentkit_loop::AgentBuilder::context_recovery) policy.
#[derive(Clone, Debug)]
pub struct FoldbackMutator {
    compactor: Arc<MessageCompactor<Message>>,
    label: String,
}

impl FoldbackMutator {
    /// Compacts when and how the compactor says, counting tokens by estimate.
    pub fn new(compactor: impl Compactor + 'static) -> Self {
        Self::of(MessageCompactor::new(compactor))
    }

    /// The same, counting with `counter`, for a provider where one is given: results keep its rules.
    pub fn counting(
        compactor: impl Compactor + 'static,
        counter: Arc<dyn TokenCounter>,
        dialect: Option<Dialect>,
    ) -> Self {
        let compactor = MessageCompactor::new(compactor).with_counter(counter);
        Self::of(match dialect {
            Some(dialect) => compactor.with_dialect(dialect),
            None => compactor,
        })
    }

    fn of(compactor: MessageCompactor<Message>) -> Self {
        Self { compactor: Arc::new(compactor), label: MUTATOR_LABEL.to_owned() }
    }

    /// The same under another label.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Everything that was said in a session, and what the model sees of it. None before the first mutation
    /// point.
    pub fn view(&self, session_id: &agentkit_core::SessionId) -> Option<View> {
        self.compactor.view(&session(session_id))
    }

    /// The items behind the handle of a summary, as agentkit recorded them.
    pub fn recall(&self, session_id: &agentkit_core::SessionId, handle: &Handle) -> Option<Vec<Item>> {
        let messages = self.compactor.recall(&session(session_id), handle)?;
        Some(messages.into_iter().map(|Message(item)| item).collect())
    }

    /// Forgets a session that is over.
    pub fn forget(&self, session_id: &agentkit_core::SessionId) {
        self.compactor.forget(&session(session_id));
    }

    fn finished(&self, ctx: &LoopCtx<'_>, is_dirty: bool, metadata: MetadataMap) {
        ctx.emitter.emit(AgentEvent::MutationFinished {
            session_id: ctx.session_id.clone(),
            turn_id: ctx.turn_id.cloned(),
            mutator: self.label.clone(),
            dirty: is_dirty,
            metadata,
        });
    }
}

#[async_trait]
impl LoopMutator for FoldbackMutator {
    async fn mutate(&self, cursor: &mut TranscriptCursor<'_>, ctx: LoopCtx<'_>) -> Result<(), LoopError> {
        let Some(point) = point(ctx.point) else { return Ok(()) };
        let turn_id = ctx.turn_id.map(|id| TurnId::from(id.0.as_str()));
        let messages: Vec<Message> = cursor.iter().cloned().map(Message).collect();
        let history = History::Shown(&messages);
        let due = self.compactor.due(&session(ctx.session_id), turn_id.as_ref(), history, point);
        let Some(due) = due else { return Ok(()) };
        ctx.emitter.emit(AgentEvent::MutationStarted {
            session_id: ctx.session_id.clone(),
            turn_id: ctx.turn_id.cloned(),
            mutator: self.label.clone(),
            point: ctx.point,
        });
        let mut metadata = MetadataMap::new();
        metadata.insert("reason".to_owned(), due.reason().to_string().into());
        metadata.insert("strategy".to_owned(), self.compactor.describe().into());
        let work = CompactionContext::default();
        // agentkit drops this future when its deadline has passed: then the work ends, too.
        let _ends_with_this = work.cancellation.clone().drop_guard();
        let compacted = tokio::select! {
            biased;
            () = cancelled(ctx.cancellation.as_ref()) => Err(CompactionError::Cancelled),
            compacted = self.compactor.compact(due, &work) => compacted,
        };
        match compacted {
            Ok(Some(compacted)) => {
                metadata.extend(told(&compacted));
                **cursor = compacted.messages.into_iter().map(|Message(item)| item).collect();
                self.finished(&ctx, true, metadata);
            }
            Ok(None) => self.finished(&ctx, false, metadata),
            Err(error) => {
                metadata.insert("error".to_owned(), error.to_string().into());
                self.finished(&ctx, false, metadata);
                if matches!(error, CompactionError::Cancelled) {
                    return Err(LoopError::Cancelled);
                }
            }
        }
        Ok(())
    }
}

fn session(id: &agentkit_core::SessionId) -> SessionId {
    id.0.as_str().into()
}

/// The point by foldback's name; none for one that agentkit has added since.
fn point(point: MutationPoint) -> Option<foldback::MutationPoint> {
    match point {
        MutationPoint::AfterToolResult => Some(foldback::MutationPoint::AfterToolResult),
        MutationPoint::AfterTurnEnded => Some(foldback::MutationPoint::AfterTurnEnded),
        MutationPoint::ContextLengthRejected => Some(foldback::MutationPoint::AfterRequestRejected),
        _ => None,
    }
}

async fn cancelled(cancellation: Option<&TurnCancellation>) {
    match cancellation {
        Some(cancellation) => cancellation.cancelled().await,
        None => std::future::pending().await,
    }
}

/// What an event says of a compaction.
fn told(compacted: &CompactedMessages<Message>) -> MetadataMap {
    let CompactedMessages { result, tokens_before, .. } = compacted;
    let numbers = [
        ("replaced_items", result.replaced_items as u64),
        ("tokens_before", tokens_before.0),
        ("tokens_after", result.transcript.tokens().0),
    ];
    let mut told: MetadataMap = result.metadata.clone().into_iter().collect();
    told.extend(numbers.map(|(name, number)| (name.to_owned(), number.into())));
    if !result.written_by.is_empty() {
        told.insert("summaries_by".to_owned(), result.written_by.clone().into());
    }
    told
}
