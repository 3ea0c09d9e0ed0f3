//! [`FoldbackMemory`]: a memory of rig's that loads what fits.

use std::sync::Arc;

use foldback::engine::messages::{History, MessageCompactor};
use foldback::engine::{CompactionContext, Compactor};
use foldback::{Dialect, Handle, MutationPoint, SessionId, TokenCounter, View};
use rig_core::completion::Message;
use rig_core::id::ConversationId;
use rig_core::memory::{ConversationMemory, MemoryError};
use rig_core::wasm_compat::WasmBoxedFuture;

use crate::messages::{Told, history};

/// Stores conversations in another memory, whole, and loads them compacted by a foldback [`Compactor`].
///
/// Clones share everything: one goes to the agent, another to a [`RecallTool`](crate::RecallTool).
///
/// A compaction that fails does not end the run: the history is loaded as it was shown before, and a warning
/// says why.
#[derive(Debug)]
pub struct FoldbackMemory<S> {
    store: Arc<S>,
    compactor: Arc<MessageCompactor<Told>>,
}

impl<S> Clone for FoldbackMemory<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), compactor: Arc::clone(&self.compactor) }
    }
}

impl<S: ConversationMemory> FoldbackMemory<S> {
    /// Compacts what `store` holds when and how the compactor says, counting tokens by estimate.
    pub fn new(store: S, compactor: impl Compactor + 'static) -> Self {
        Self { store: Arc::new(store), compactor: Arc::new(MessageCompactor::new(compactor)) }
    }

    /// The same, counting with `counter`, for a provider where one is given: results keep its rules.
    pub fn counting(
        store: S,
        compactor: impl Compactor + 'static,
        counter: Arc<dyn TokenCounter>,
        dialect: Option<Dialect>,
    ) -> Self {
        let compactor = MessageCompactor::new(compactor).with_counter(counter);
        let compactor = match dialect {
            Some(dialect) => compactor.with_dialect(dialect),
            None => compactor,
        };
        Self { store: Arc::new(store), compactor: Arc::new(compactor) }
    }

    /// The memory that holds everything.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// A conversation as it was loaded last: everything that was said, and what the model sees of it.
    pub fn view(&self, conversation_id: &ConversationId) -> Option<View> {
        self.compactor.view(&session(conversation_id))
    }

    /// The messages behind the handle of a summary, as rig recorded them.
    pub fn recall(&self, conversation_id: &ConversationId, handle: &Handle) -> Option<Vec<Message>> {
        let told = self.compactor.recall(&session(conversation_id), handle)?;
        Some(told.into_iter().map(|Told(message)| message).collect())
    }

    pub(crate) fn compactor(&self) -> &Arc<MessageCompactor<Told>> {
        &self.compactor
    }

    async fn compacted(&self, conversation_id: &ConversationId) -> Result<Vec<Message>, MemoryError> {
        let said: Vec<Told> = self.store.load(conversation_id).await?.into_iter().map(Told).collect();
        let session_id = session(conversation_id);
        let point = MutationPoint::AfterTurnEnded;
        if let Some(due) = self.compactor.due(&session_id, None, History::Whole(&said), point) {
            let work = CompactionContext::default();
            // A load that is dropped ends the work, too.
            let _ends_with_this = work.cancellation.clone().drop_guard();
            if let Err(error) = self.compactor.compact(due, &work).await {
                tracing::warn!(%error, conversation = %conversation_id, "the history is loaded as it was");
            }
        }
        let shown = self.compactor.shown(&session_id).unwrap_or(said);
        Ok(history(shown))
    }
}

impl<S: ConversationMemory> ConversationMemory for FoldbackMemory<S> {
    fn load<'a>(
        &'a self,
        conversation_id: &'a ConversationId,
    ) -> WasmBoxedFuture<'a, Result<Vec<Message>, MemoryError>> {
        Box::pin(self.compacted(conversation_id))
    }

    fn append<'a>(
        &'a self,
        conversation_id: &'a ConversationId,
        messages: Vec<Message>,
    ) -> WasmBoxedFuture<'a, Result<(), MemoryError>> {
        self.store.append(conversation_id, messages)
    }

    fn clear<'a>(
        &'a self,
        conversation_id: &'a ConversationId,
    ) -> WasmBoxedFuture<'a, Result<(), MemoryError>> {
        self.compactor.forget(&session(conversation_id));
        self.store.clear(conversation_id)
    }
}

pub(crate) fn session(id: &ConversationId) -> SessionId {
    id.as_str().into()
}
