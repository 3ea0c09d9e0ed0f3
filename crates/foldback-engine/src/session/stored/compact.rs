//! Compacting a stored session: by its configuration, or with a compactor of the host's.

use std::sync::Arc;

use foldback_core::{BlockKind, Budget, CompactionBlock, CompactionReason, Dialect, Item, Tokens, View};

use super::{OlderNote, StoredSession, StoredSessionError};
use crate::compaction::{CompactionContext, CompactionError};
use crate::compactor::Compactor;
use crate::session::SessionError;
use crate::session::config::CompactionConfig;
use crate::session::context::build_context_from_session;
use crate::session::orchestrate::{
    LoopCompaction, SessionCompaction, compact_session_loops, due, is_summarised, older_tokens_max,
    request_for,
};
use crate::session::record::{LoopPlace, LoopRecord};
use crate::session::scope::resolve_scope;
use crate::session::strategy::as_seen;

/// How often a compaction is made anew because another one was committed first.
const COMPACTIONS_MAX: usize = 4;

impl StoredSession {
    /// Compacts the loops in scope. Items that others append meanwhile stay, behind what was
    /// compacted; where another compaction was committed first, it is made anew on that.
    pub async fn compact(
        &mut self,
        config: &CompactionConfig,
        max_context_tokens: Tokens,
    ) -> Result<SessionCompaction, StoredSessionError> {
        for _ in 0..COMPACTIONS_MAX {
            self.refresh().await?;
            let mut session = self.load().await?;
            let (current, strategy) = (self.current.clone(), Arc::clone(&config.block_strategy));
            let done = compact_session_loops(&mut session, &current, &*strategy, config, max_context_tokens)?;
            let base = self.top(&current).await?;
            let recorded = session.record(&current)?.transcript().len();
            let most_recent = done.loops.iter().filter(|done| done.place == LoopPlace::MostRecent);
            let blocks: Vec<_> = most_recent.flat_map(|done| done.blocks.iter().cloned()).collect();
            if !self.commit(&current, base, recorded, &blocks).await? {
                continue;
            }
            for older in done.loops.iter().filter(|done| done.place == LoopPlace::Older) {
                let item_count = session.record(&older.loop_id)?.transcript().len();
                for block in &older.blocks {
                    self.note_older(
                        &older.loop_id,
                        OlderNote { item_count, block: CompactionBlock::clone(block) },
                    )
                    .await?;
                }
            }
            return Ok(done);
        }
        Err(self.outrun().into())
    }

    /// Compacts the loops in scope with a compactor of the host's: its policy, its backend, its hooks, for
    /// older loops too. Each older loop comes down to the share that a summary may take, and the current
    /// one to what they leave of the budget.
    pub async fn compact_loops_with(
        &mut self,
        compactor: &dyn Compactor,
        config: &CompactionConfig,
        budget: Budget,
        context: &CompactionContext,
    ) -> Result<SessionCompaction, StoredSessionError> {
        self.refresh().await?;
        let session = self.load().await?;
        let before = build_context_from_session(&session, &self.current, config, budget.window())?;
        let reason = due(before.tokens, &budget);
        let scope = resolve_scope(&session, &self.current, config, budget.window())?;
        let (_, older) = scope.split_last().expect("a scope ends in the loop it was asked for");
        let tokens_max = older_tokens_max(config, &budget, older.len());
        let (mut loops, mut older_tokens) = (Vec::new(), Tokens::ZERO);
        for loop_id in older {
            let record = session.record(loop_id)?;
            let view = record.view(LoopPlace::Older)?;
            let done = match is_summarised(record, &view, tokens_max) || view.tokens() <= tokens_max {
                true => None,
                false => self.compact_older_with(compactor, record, &reason, tokens_max, context).await?,
            };
            older_tokens += done.as_ref().map_or(view.tokens(), |done| done.tokens_after);
            loops.extend(done);
        }
        let room = (Some(budget.beside(older_tokens).map_err(SessionError::from)?), config.dialect);
        let (seen, led_to) = self.compact_current_with(compactor, &reason, room, context).await?;
        let known = seen.overlay().blocks().len();
        let blocks = led_to.overlay().blocks().get(known..).unwrap_or_default().to_vec();
        if !blocks.is_empty() {
            let (tokens_before, tokens_after) = (seen.tokens(), led_to.tokens());
            let (loop_id, place) = (self.current.clone(), LoopPlace::MostRecent);
            loops.push(LoopCompaction { loop_id, place, tokens_before, tokens_after, blocks });
        }
        let tokens_after = self.context(config, budget.window()).await?.tokens;
        Ok(SessionCompaction { reason, tokens_before: before.tokens, tokens_after, loops })
    }

    /// Compacts a loop for its place as an older one. It stays as it is where it cannot become so small,
    /// or would have to be repaired first: loading repairs it as well.
    async fn compact_older_with(
        &mut self,
        compactor: &dyn Compactor,
        record: &LoopRecord,
        reason: &CompactionReason,
        tokens_max: Tokens,
        context: &CompactionContext,
    ) -> Result<Option<LoopCompaction>, StoredSessionError> {
        let seen = View::of(&as_seen(record.transcript(), LoopPlace::Older));
        let tokens_before = record.view(LoopPlace::Older)?.tokens();
        let mut request = request_for(&self.id, record.id(), seen, reason);
        request.budget = Some(Budget::for_target(tokens_max).map_err(SessionError::from)?);
        let view = match compactor.compact(request, context).await {
            Ok(result) => result.transcript,
            Err(CompactionError::Refused(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let [block] = view.overlay().blocks() else { return Ok(None) };
        let (item_count, tokens_after) = (record.transcript().len(), view.tokens());
        if block.kind != BlockKind::Compaction || tokens_after >= tokens_before {
            return Ok(None);
        }
        let (loop_id, block) = (record.id().clone(), Arc::clone(block));
        self.note_older(&loop_id, OlderNote { item_count, block: CompactionBlock::clone(&block) }).await?;
        let (place, blocks) = (LoopPlace::Older, vec![block]);
        Ok(Some(LoopCompaction { loop_id, place, tokens_before, tokens_after, blocks }))
    }

    /// Compacts the current loop with a compactor of the host's, which may ask a model. Returns the
    /// view it led to.
    pub async fn compact_with(
        &mut self,
        compactor: &dyn Compactor,
        reason: &CompactionReason,
        room: (Option<Budget>, Option<Dialect>),
        context: &CompactionContext,
    ) -> Result<View, StoredSessionError> {
        Ok(self.compact_current_with(compactor, reason, room, context).await?.1)
    }

    /// The same, with the view that was compacted.
    async fn compact_current_with(
        &mut self,
        compactor: &dyn Compactor,
        reason: &CompactionReason,
        room: (Option<Budget>, Option<Dialect>),
        context: &CompactionContext,
    ) -> Result<(View, View), StoredSessionError> {
        for _ in 0..COMPACTIONS_MAX {
            self.refresh().await?;
            let (current, view) = (self.current.clone(), self.view().await?);
            let base = self.top(&current).await?;
            let recorded = view.transcript().len();
            let known = view.overlay().blocks().len();
            let mut request = request_for(&self.id, &current, view.clone(), reason);
            (request.budget, request.dialect) = room;
            let led_to = compactor.compact(request, context).await?.transcript;
            let blocks = led_to.overlay().blocks().get(known..).unwrap_or_default().to_vec();
            // Repairs are recorded behind all others, and blocks name their places.
            let repaired: Vec<Arc<Item>> = led_to.transcript().items().skip(recorded).cloned().collect();
            let is_committed = match repaired.is_empty() {
                true => self.commit(&current, base, recorded, &blocks).await?,
                false => self.commit_repaired(&current, (base, recorded), &repaired, &blocks).await?,
            };
            if is_committed {
                return Ok((view, led_to));
            }
        }
        Err(self.outrun().into())
    }
}
