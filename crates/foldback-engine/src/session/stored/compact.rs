//! Compacting a stored session: by its configuration, or with a compactor of the host's.

use std::sync::Arc;

use foldback_core::{Budget, CompactionBlock, CompactionReason, Tokens, View};

use super::{Change, OLDER_NOTE, OlderNote, SeenExtent, StoredSession, StoredSessionError};
use crate::compaction::CompactionContext;
use crate::compactor::StrategyCompactor;
use crate::session::SessionError;
use crate::session::config::CompactionConfig;
use crate::session::context::build_context_from_session;
use crate::session::orchestrate::{LoopCompaction, SessionCompaction};
use crate::session::record::{LoopPlace, LoopRecord};
use crate::session::work::{Attempt, Work};
use crate::store::{LoopInfo, Revision};

/// How often a compaction is made anew because somebody else wrote first.
const COMPACTIONS_MAX: usize = 4;

impl StoredSession {
    /// Compacts the loops in scope. Items that others append meanwhile stay, behind what was
    /// compacted; where another compaction was committed first, it is made anew on that.
    pub async fn compact(
        &mut self,
        config: &CompactionConfig,
        max_context_tokens: Tokens,
    ) -> Result<SessionCompaction, StoredSessionError> {
        let context = CompactionContext::default();
        let work = Work::by_sections(&*config.block_strategy, config, max_context_tokens, &context)?;
        self.carry_out(work).await
    }

    /// The same for a reason of the host's, which hooks and events are told, and with its cancellation.
    pub async fn compact_for(
        &mut self,
        reason: CompactionReason,
        config: &CompactionConfig,
        max_context_tokens: Tokens,
        context: &CompactionContext,
    ) -> Result<SessionCompaction, StoredSessionError> {
        let work = Work::by_sections(&*config.block_strategy, config, max_context_tokens, context)?;
        self.carry_out(work.because(reason)).await
    }

    /// Compacts the loops in scope with a compactor of the host's: its policy, its backend, its hooks, for
    /// older loops too. Each older loop comes down to the share that a summary may take, and the current
    /// one to what they leave of the budget.
    ///
    /// Hooks run and events are told for what is carried out, once, however often somebody else writes
    /// first. Of a strategy of the host's own it is not known beforehand whether it will change anything.
    pub async fn compact_loops_with(
        &mut self,
        compactor: &StrategyCompactor,
        config: &CompactionConfig,
        budget: Budget,
        context: &CompactionContext,
    ) -> Result<SessionCompaction, StoredSessionError> {
        self.carry_out(Work::by_compactor(compactor, config, budget, context)).await
    }

    /// What [`compact_loops_with`](Self::compact_loops_with) would do. Nothing is stored, and hooks are told
    /// that it did not come to it.
    pub async fn preview_loops_with(
        &self,
        compactor: &StrategyCompactor,
        config: &CompactionConfig,
        budget: Budget,
        context: &CompactionContext,
    ) -> Result<SessionCompaction, StoredSessionError> {
        let mut work = Work::by_compactor(compactor, config, budget, context);
        let (mut session, current) = (self.load().await?, self.current.clone());
        let Attempt { reason, tokens_before, made } = work.attempt(&session, &current).await?;
        work.give_up("it was a preview");
        session.commit(made.iter().map(|made| &made.done));
        let after = build_context_from_session(&session, &current, config, budget.window())?;
        let loops = made.into_iter().map(|made| made.done).collect();
        Ok(SessionCompaction { reason, tokens_before, tokens_after: after.tokens, loops })
    }

    async fn carry_out(&mut self, mut work: Work<'_>) -> Result<SessionCompaction, StoredSessionError> {
        let (mut loops, mut first) = (Vec::new(), None);
        for _ in 0..COMPACTIONS_MAX {
            self.refresh().await?;
            // What is committed after this is noticed when the loop is written.
            let infos = self.store.loops(&self.id).await?;
            let (session, current) = (self.load().await?, self.current.clone());
            let Attempt { reason, tokens_before, made } = work.attempt(&session, &current).await?;
            let (reason, tokens_before) = first.get_or_insert((reason, tokens_before)).clone();
            let mut is_stored = true;
            for made in made {
                let record = session.record(&made.done.loop_id)?;
                is_stored = self.put(&infos, record, &made.done).await?;
                if !is_stored {
                    break;
                }
                loops.push(work.ended(made).await);
            }
            if is_stored {
                work.give_up("another compaction came first");
                let tokens_after = self.context(work.config, work.budget.window()).await?.tokens;
                return Ok(SessionCompaction { reason, tokens_before, tokens_after, loops });
            }
        }
        let error = self.outrun();
        work.give_up(&error.to_string());
        Err(error.into())
    }

    /// Puts in force what a compaction made of a loop, if the loop is as it was seen. Returns whether it
    /// did. Items that came meanwhile do not matter, edits name places in an append-only record; where
    /// repaired items are recorded, those places are taken.
    async fn put(
        &mut self,
        infos: &[LoopInfo],
        record: &LoopRecord,
        done: &LoopCompaction,
    ) -> Result<bool, StoredSessionError> {
        let Some(seen) = infos.iter().find(|info| info.id == done.loop_id) else { return Ok(false) };
        let item_count = record.transcript().len();
        let (mut blocks, mut metadata) = (done.blocks.clone(), None);
        if done.place == LoopPlace::Older {
            let item_count = item_count + done.repaired.len();
            let blocks_noted = blocks.iter().map(|block| CompactionBlock::clone(block)).collect();
            let note = OlderNote { item_count, blocks: blocks_noted };
            let note = serde_json::to_value(note).expect("a block has string keys only");
            let mut notes = seen.metadata.clone();
            notes.insert(OLDER_NOTE.to_owned(), note);
            metadata = Some(notes);
            blocks = hiding(record, done).map_err(SessionError::from)?;
        }
        let is_anew = self.seen.extent == SeenExtent::History && done.place == LoopPlace::MostRecent;
        if is_anew {
            // What hides the copies of earlier compactions stays below.
            let below = record.view(LoopPlace::MostRecent).map_err(SessionError::from)?;
            blocks.splice(0..0, below.overlay().blocks().iter().cloned());
        }
        let (is_repaired, is_noted) = (!done.repaired.is_empty(), metadata.is_some());
        let is_as_seen = |info: &LoopInfo| {
            let is_as_long =
                if is_repaired { info.item_count == item_count } else { info.item_count >= item_count };
            is_as_long && info.stack.top == seen.stack.top && (!is_noted || info.metadata == seen.metadata)
        };
        let repaired = self.seen.stored(&done.repaired);
        let (items, base) = (&repaired[..], seen.stack.top.filter(|_| !is_anew));
        let revision = Revision { items, base, blocks: &blocks, metadata: metadata.as_ref() };
        let change = match (is_repaired || is_anew, &metadata) {
            (true, _) => Change::Revise(&done.loop_id, &revision),
            (false, Some(metadata)) => Change::Note(&done.loop_id, metadata),
            (false, None) => Change::Commit(&done.loop_id, &blocks),
        };
        Ok(self.change_if(&change, Some((&done.loop_id, &is_as_seen))).await?)
    }
}

/// Where the loop is the most recent one, nothing is seen of what was recorded for its place as an older one.
fn hiding(
    record: &LoopRecord,
    done: &LoopCompaction,
) -> Result<Vec<Arc<CompactionBlock>>, foldback_core::OverlayError> {
    if done.repaired.is_empty() {
        return Ok(Vec::new());
    }
    let mut view: View = record.view(LoopPlace::MostRecent)?;
    let first = view.transcript().len();
    done.repaired.iter().for_each(|item| view.push(Arc::clone(item)));
    let copies = first..view.transcript().len();
    let hiding = view.hiding(std::slice::from_ref(&copies))?;
    Ok(hiding.overlay().blocks().last().cloned().into_iter().collect())
}
