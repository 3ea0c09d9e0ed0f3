//! Compacts the loops that a context is made of.

use std::sync::Arc;

use foldback_core::{CompactionReason, Item, LoopId, Tokens, View};

use super::config::CompactionConfig;
use super::context::build_context_from_session;
use super::record::LoopPlace;
use super::strategy::BlockCompactionStrategy;
use super::work::{Attempt, Work};
use super::{Session, SessionError};
use crate::compaction::CompactionContext;

/// Under which key the metadata of a request name the loop that it is about.
pub const LOOP_KEY: &str = "loop";

/// What became of one loop.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoopCompaction {
    /// The loop.
    pub loop_id: LoopId,
    /// The place it was compacted for.
    pub place: LoopPlace,
    /// What it cost before.
    pub tokens_before: Tokens,
    /// What it costs now.
    pub tokens_after: Tokens,
    /// What was put in force, oldest first; for an older loop all that hides its items.
    pub blocks: Vec<Arc<foldback_core::CompactionBlock>>,
    /// What is seen of it now.
    pub view: View,
    /// What was recorded behind its items, in a form that the provider accepts.
    pub repaired: Vec<Arc<Item>>,
}

/// What a compaction of a session did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionCompaction {
    /// Why it was made.
    pub reason: CompactionReason,
    /// What the context cost before.
    pub tokens_before: Tokens,
    /// What it costs now.
    pub tokens_after: Tokens,
    /// The loops that changed, oldest first; none if there was nothing to do.
    pub loops: Vec<LoopCompaction>,
}

/// Compacts the loops in scope for a window of this size: older ones to a summary, the most recent
/// one to sections, and further, by the in-memory strategy, where that leaves the context over its
/// target. The backend of the configuration writes the summaries, the digest where there is none. All or
/// nothing: an error leaves the session as it was, and so does a hook that says no. A second call with
/// nothing recorded in between changes nothing.
///
/// The hooks of the configuration are run for every loop that changes, and its observer is told.
pub async fn compact_session_loops(
    session: &mut Session,
    current_loop_id: &LoopId,
    strategy: &dyn BlockCompactionStrategy,
    config: &CompactionConfig,
    max_context_tokens: Tokens,
) -> Result<SessionCompaction, SessionError> {
    let context = CompactionContext::default();
    let mut work = Work::by_sections(strategy, config, max_context_tokens, &context)?;
    let Attempt { reason, tokens_before, made } = work.attempt(session, current_loop_id).await?;
    session.commit(made.iter().map(|made| &made.done));
    let mut loops = Vec::with_capacity(made.len());
    for made in made {
        loops.push(work.ended(made).await);
    }
    let after = build_context_from_session(session, current_loop_id, config, max_context_tokens)?;
    Ok(SessionCompaction { reason, tokens_before, tokens_after: after.tokens, loops })
}
