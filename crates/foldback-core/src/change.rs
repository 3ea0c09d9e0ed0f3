//! What changed between two views of one transcript.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ids::Tokens;
use crate::item::Item;
use crate::sequence::Entry;
use crate::view::View;

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first position that is another; none if nothing changed.
    pub first_changed: Option<usize>,
    /// What everything before it costs.
    pub prefix_tokens_kept: Tokens,
    /// How many items of the first view are gone or others.
    pub replaced_items: usize,
}

impl Change {
    /// Compares what both show. Costs what is visible.
    pub fn between(before: &View, after: &View) -> Self {
        let first = before.items().zip(after.items()).take_while(|(one, other)| is_same(one, other)).count();
        if first == before.len() && first == after.len() {
            return Self { first_changed: None, prefix_tokens_kept: before.tokens(), replaced_items: 0 };
        }
        let replaced_items = before.len() - first - kept_count(before, after, first);
        let prefix_tokens_kept = before.tokens_of(0..first);
        Self { first_changed: Some(first), prefix_tokens_kept, replaced_items }
    }
}

/// No position.
const NOWHERE: u32 = u32::MAX;

/// How many of the items from `first` on are still there as they were.
fn kept_count(before: &View, after: &View, first: usize) -> usize {
    // A repair records items again that it did not change: they are where they were, among others.
    let mut shared: HashMap<*const Item, usize> = HashMap::new();
    before
        .range(first..before.len())
        .for_each(|entry| *shared.entry(Arc::as_ptr(entry.item())).or_default() += 1);
    // The first index that an entry stands for names it; only the items of one summary share one.
    let mut positions = vec![NOWHERE; before.transcript().len()];
    for (position, entry) in (first..).zip(before.range(first..before.len())) {
        let place = &mut positions[entry.span().start];
        if *place == NOWHERE {
            *place = u32::try_from(position).unwrap_or(NOWHERE);
        }
    }
    let (mut kept, mut name, mut offset) = (0, None, 0);
    for entry in after.range(first..after.len()) {
        if let Some(left) = shared.get_mut(&Arc::as_ptr(entry.item())).filter(|left| **left > 0) {
            *left -= 1;
            kept += 1;
            continue;
        }
        let start = entry.span().start;
        offset = if name == Some(start) { offset + 1 } else { 0 };
        name = Some(start);
        let position = positions.get(start).filter(|&&position| position != NOWHERE);
        let was = position.and_then(|&position| before.get(position as usize + offset));
        kept += usize::from(was.is_some_and(|was: &Entry| is_same(was.item(), entry.item())));
    }
    kept
}

fn is_same(one: &Arc<Item>, other: &Arc<Item>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}
