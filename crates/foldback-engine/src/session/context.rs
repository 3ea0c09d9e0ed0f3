//! What the model sees of a session: the loops in scope, one after the other.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{Dialect, Item, LoopId, Meter, Repair, Tokens, check, repair};

use super::config::CompactionConfig;
use super::record::LoopPlace;
use super::scope::resolve_scope;
use super::{Session, SessionError};

/// Earlier instructions that one is compared with.
const INSTRUCTIONS_MAX: usize = 64;

/// One loop of a context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
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

impl SessionContext {
    /// What the model sees where these items come after: an instruction that was said before, word for word,
    /// is not said again.
    pub fn followed_by<'i>(&self, items: impl Iterator<Item = &'i Arc<Item>>) -> Vec<Arc<Item>> {
        let is_instruction = |item: &&Arc<Item>| item.kind.is_instruction() && !item.is_pinned();
        let said: Vec<Arc<Item>> =
            self.items.iter().filter(is_instruction).take(INSTRUCTIONS_MAX).cloned().collect();
        let is_new = |item: &&Arc<Item>| !(is_instruction(item) && is_repeated(item, &said));
        let mut all = self.items.clone();
        all.extend(items.filter(is_new).cloned());
        all
    }
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
    let mut loading = Loading::new(session.empty.meter());
    for loop_id in resolve_scope(session, current_loop_id, config, max_context_tokens)? {
        let place = if loop_id == *current_loop_id { LoopPlace::MostRecent } else { LoopPlace::Older };
        let view = session.record(&loop_id)?.view(place)?;
        for entry in view.iter() {
            loading.push(entry.item(), entry.tokens().total);
        }
        loading.end(loop_id, place);
    }
    Ok(loading.finish(config.dialect))
}

/// A context that is being loaded, loop by loop.
pub(super) struct Loading<'m> {
    meter: &'m Meter,
    items: Vec<Arc<Item>>,
    instructions: Vec<Arc<Item>>,
    loops: Vec<LoadedLoop>,
    tokens: Tokens,
    tokens_before: Tokens,
}

impl<'m> Loading<'m> {
    pub(super) fn new(meter: &'m Meter) -> Self {
        Self {
            meter,
            items: Vec::new(),
            instructions: Vec::new(),
            loops: Vec::new(),
            tokens: Tokens::ZERO,
            tokens_before: Tokens::ZERO,
        }
    }

    /// Adds a loop whose items have not been counted.
    pub(super) fn add(&mut self, loop_id: LoopId, place: LoopPlace, items: &[Arc<Item>]) {
        items.iter().for_each(|item| self.push(item, self.meter.item(item).total));
        self.end(loop_id, place);
    }

    fn push(&mut self, item: &Arc<Item>, tokens: Tokens) {
        if item.kind.is_instruction() && !item.is_pinned() {
            if is_repeated(item, &self.instructions) {
                return;
            }
            if self.instructions.len() < INSTRUCTIONS_MAX {
                self.instructions.push(Arc::clone(item));
            }
        }
        self.items.push(Arc::clone(item));
        self.tokens += tokens;
    }

    fn end(&mut self, loop_id: LoopId, place: LoopPlace) {
        let start = self.loops.last().map_or(0, |loaded| loaded.items.end);
        let tokens = self.tokens.saturating_sub(self.tokens_before);
        self.tokens_before = self.tokens;
        self.loops.push(LoadedLoop { loop_id, place, items: start..self.items.len(), tokens });
    }

    /// The context, repaired where loops were interrupted.
    pub(super) fn finish(self, dialect: Option<Dialect>) -> SessionContext {
        let Self { meter, items, loops, tokens, .. } = self;
        if check(&items, dialect).is_empty() {
            return SessionContext { items, loops, tokens, repairs: Vec::new() };
        }
        let repaired = repair(&items, dialect);
        let tokens = repaired.items.iter().map(|item| meter.item(item).total).sum();
        SessionContext { items: repaired.items, loops, tokens, repairs: repaired.repairs }
    }
}

fn is_repeated(item: &Item, earlier: &[Arc<Item>]) -> bool {
    earlier.iter().any(|other| other.kind == item.kind && other.parts == item.parts)
}
