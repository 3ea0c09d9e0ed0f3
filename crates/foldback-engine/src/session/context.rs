//! What the model sees of a session: the loops in scope, one after the other.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{Item, LoopId, Repair, Tokens, check, repair};

use super::config::CompactionConfig;
use super::record::LoopPlace;
use super::scope::resolve_scope;
use super::{Session, SessionError};

/// Earlier instructions that one is compared with.
const INSTRUCTIONS_MAX: usize = 64;

/// One loop of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedLoop {
    /// The loop.
    pub loop_id: LoopId,
    /// As what it was loaded.
    pub place: LoopPlace,
    /// Which items of the context come from it, before repairs.
    pub items: Range<usize>,
    /// What they cost.
    pub tokens: Tokens,
}

/// What the model sees of a session.
#[derive(Clone, Debug)]
pub struct SessionContext {
    /// The items, in order.
    pub items: Vec<Arc<Item>>,
    /// Where they come from, oldest loop first.
    pub loops: Vec<LoadedLoop>,
    /// What they cost.
    pub tokens: Tokens,
    /// What had to be repaired, because loops were interrupted.
    pub repairs: Vec<Repair>,
}

/// Loads the loops in scope: the most recent one as its first turns, summary and recent turns, older
/// ones as their summary, and as they were recorded where no compaction is in force. An instruction
/// that a loop repeats word for word is loaded once.
pub fn build_context_from_session(
    session: &Session,
    current_loop_id: &LoopId,
    config: &CompactionConfig,
    max_context_tokens: Tokens,
) -> Result<SessionContext, SessionError> {
    let scope = resolve_scope(session, current_loop_id, config, max_context_tokens)?;
    let mut items: Vec<Arc<Item>> = Vec::new();
    let mut instructions: Vec<Arc<Item>> = Vec::new();
    let mut loops = Vec::with_capacity(scope.len());
    let mut tokens = Tokens::ZERO;
    for loop_id in scope {
        let place = if loop_id == *current_loop_id { LoopPlace::MostRecent } else { LoopPlace::Older };
        let view = session.record(&loop_id)?.view(place)?;
        let (start, tokens_before) = (items.len(), tokens);
        for entry in view.iter() {
            let item = entry.item();
            if item.kind.is_instruction() && !item.is_pinned() {
                if is_repeated(item, &instructions) {
                    continue;
                }
                if instructions.len() < INSTRUCTIONS_MAX {
                    instructions.push(Arc::clone(item));
                }
            }
            items.push(Arc::clone(item));
            tokens += entry.tokens().total;
        }
        let tokens = tokens.saturating_sub(tokens_before);
        loops.push(LoadedLoop { loop_id, place, items: start..items.len(), tokens });
    }
    if check(&items, config.dialect).is_empty() {
        return Ok(SessionContext { items, loops, tokens, repairs: Vec::new() });
    }
    let repaired = repair(&items, config.dialect);
    let meter = session.empty.meter();
    let tokens = repaired.items.iter().map(|item| meter.item(item).total).sum();
    Ok(SessionContext { items: repaired.items, loops, tokens, repairs: repaired.repairs })
}

fn is_repeated(item: &Item, earlier: &[Arc<Item>]) -> bool {
    earlier.iter().any(|other| other.kind == item.kind && other.parts == item.parts)
}
