//! How far back a context reaches.

use foldback_core::{LoopId, Tokens};
use serde::{Deserialize, Serialize};

use super::config::CompactionConfig;
use super::record::{LoopPlace, LoopRecord};
use super::{Session, SessionError};

/// Earlier loops that are loaded where nobody says otherwise.
const LOOPS_DEFAULT: usize = 3;

/// How many earlier loops of the chain are loaded before the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionScope {
    /// The newest so many.
    FixedCount(usize),
    /// As many as fit the window together with the current loop, newest first. A loop counts with
    /// what it costs as an older one: its summary fits where its items do not.
    TokenBudget,
}

impl Default for CompactionScope {
    fn default() -> Self {
        Self::FixedCount(LOOPS_DEFAULT)
    }
}

/// The loops that are loaded, oldest first; the current one is the last. It walks the chain of the current
/// loop itself and names the loops, so that nobody counts back along another chain.
pub fn resolve_scope(
    session: &Session,
    current_loop_id: &LoopId,
    config: &CompactionConfig,
    max_context_tokens: Tokens,
) -> Result<Vec<LoopId>, SessionError> {
    let chain = session.chain(current_loop_id)?;
    let (current, earlier) = chain.split_last().expect("a chain ends in the loop it was asked for");
    let count = match config.compaction_scope {
        CompactionScope::FixedCount(count) => count,
        CompactionScope::TokenBudget => {
            let mut left = max_context_tokens.saturating_sub(current.view(LoopPlace::MostRecent)?.tokens());
            let mut count = 0;
            for record in earlier.iter().rev() {
                let tokens = tokens_as_older(record, config)?;
                if tokens > left {
                    break;
                }
                left = left.saturating_sub(tokens);
                count += 1;
            }
            count
        }
    };
    let start = earlier.len().saturating_sub(count);
    Ok(chain[start..].iter().map(|record| record.id().clone()).collect())
}

/// What a loop costs as an older one, or would cost once it has a summary.
fn tokens_as_older(record: &LoopRecord, config: &CompactionConfig) -> Result<Tokens, SessionError> {
    let tokens = record.view(LoopPlace::Older)?.tokens();
    Ok(match record.older_block() {
        Some(_) => tokens,
        None => tokens.min(config.max_summary_tokens),
    })
}
