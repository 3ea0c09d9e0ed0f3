//! A stored session with an agent in it: what the agent shows in memory is brought to the store.

use std::sync::Arc;

use foldback_core::{CompactionBlock, CompactionReason, Tokens, View};

use super::{Change, StoredSession, StoredSessionError};
use crate::compaction::CompactionContext;
use crate::session::config::CompactionConfig;
use crate::session::context::SessionContext;
use crate::session::orchestrate::SessionCompaction;
use crate::store::{BlockNumber, LoopInfo, Revision, StoreError, loop_info};

/// A stored session that one agent is at work in. The agent shows a [`View`] of the current loop;
/// [`record`](Self::record) brings what is new in it to the store. Other processes may read meanwhile. Where
/// one writes to the same loop, the next call is [`StoredSessionError::ChangedElsewhere`].
#[derive(Debug)]
pub struct LiveSession {
    stored: StoredSession,
    config: CompactionConfig,
    max_context_tokens: Tokens,
    before: Arc<SessionContext>,
    /// What the store has of the current loop.
    item_count: usize,
    block_count: usize,
    top: Option<BlockNumber>,
    /// Whether a change of the store was begun of which it is not known how far it came.
    is_in_doubt: bool,
}

impl LiveSession {
    /// Goes on with the current loop of a session, for a window of this size. Returns what the model sees of
    /// that loop; what it sees of the loops before is [`before`](Self::before).
    pub async fn open(
        stored: StoredSession,
        config: CompactionConfig,
        max_context_tokens: Tokens,
    ) -> Result<(Self, View), StoredSessionError> {
        let mut live = Self {
            stored,
            config,
            max_context_tokens,
            before: Arc::default(),
            item_count: 0,
            block_count: 0,
            top: None,
            is_in_doubt: true,
        };
        let view = live.reload().await?;
        Ok((live, view))
    }

    /// The session.
    pub fn stored(&self) -> &StoredSession {
        &self.stored
    }

    /// What the model sees of the loops before the current one.
    pub fn before(&self) -> &Arc<SessionContext> {
        &self.before
    }

    /// What the store shows, where a compaction or an undo failed or was dropped before its end: the number of
    /// items that were recorded before it, and the view now. Nothing where that is known.
    pub async fn resolve(&mut self) -> Result<Option<(usize, View)>, StoredSessionError> {
        let item_count = self.item_count;
        match self.is_in_doubt {
            true => Ok(Some((item_count, self.reload().await?))),
            false => Ok(None),
        }
    }

    /// Records what this view of the current loop has and the store has not: items, and compactions.
    pub async fn record(&mut self, view: &View) -> Result<(), StoredSessionError> {
        let items: Vec<_> = view.transcript().items().skip(self.item_count).cloned().collect();
        let blocks: &[Arc<CompactionBlock>] =
            view.overlay().blocks().get(self.block_count..).unwrap_or_default();
        if items.is_empty() && blocks.is_empty() {
            return Ok(());
        }
        let loop_id = self.stored.current.clone();
        let (item_count, top) = (self.item_count, self.top);
        let is_as_known = |info: &LoopInfo| info.item_count == item_count && info.stack.top == top;
        let revision = Revision { items: &items, base: top, blocks, metadata: None };
        let change = match blocks.is_empty() {
            true => Change::Append(&loop_id, &items),
            false => Change::Revise(&loop_id, &revision),
        };
        if !self.stored.change_if(&change, Some((&loop_id, &is_as_known))).await? {
            return Err(StoredSessionError::ChangedElsewhere { session: self.stored.id.clone() });
        }
        self.item_count = view.transcript().len();
        if !blocks.is_empty() {
            self.block_count = view.overlay().blocks().len();
            self.top = self.info().await?.stack.top;
        }
        Ok(())
    }

    /// Compacts the loops in scope as the configuration says. Returns the new view of the current loop, or
    /// nothing where there was nothing to do. Call [`record`](Self::record) before.
    pub async fn compact(
        &mut self,
        reason: CompactionReason,
        config: &CompactionConfig,
        max_context_tokens: Tokens,
        context: &CompactionContext,
    ) -> Result<Option<(View, SessionCompaction)>, StoredSessionError> {
        self.is_in_doubt = true;
        let done = self.stored.compact_for(reason, config, max_context_tokens, context).await?;
        let view = self.reload().await?;
        Ok((!done.loops.is_empty()).then_some((view, done)))
    }

    /// Takes the newest compaction of the current loop off again. Returns the view without it, or nothing
    /// where there is none. Call [`record`](Self::record) before.
    pub async fn undo(&mut self) -> Result<Option<View>, StoredSessionError> {
        self.is_in_doubt = true;
        let undone = match self.stored.undo().await {
            Err(StoreError::NothingTo { .. }) => false,
            undone => undone.map(|()| true)?,
        };
        let view = self.reload().await?;
        Ok(undone.then_some(view))
    }

    async fn reload(&mut self) -> Result<View, StoredSessionError> {
        let info = self.info().await?;
        let (transcript, overlay) = self.stored.load_record(&info).await?;
        let view = View::through(&transcript, &overlay)?;
        let before = self.stored.context_before(&self.config, self.max_context_tokens, view.tokens());
        self.before = Arc::new(before.await?);
        self.item_count = info.item_count;
        self.block_count = overlay.blocks().len();
        self.top = info.stack.top;
        self.is_in_doubt = false;
        Ok(view)
    }

    async fn info(&self) -> Result<LoopInfo, StoreError> {
        loop_info(&*self.stored.store, &self.stored.id, &self.stored.current).await
    }
}
