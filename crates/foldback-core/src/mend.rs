//! Makes a view valid before it is planned on.
//!
//! Recorded sessions were interrupted, cut and edited: calls without results, results without
//! calls. A plan keeps what is valid valid; it does not repair. So the repair comes first, as a
//! block like any other: the repaired items are recorded behind all others, and what they replace
//! is dropped. The recorded items stay what they were (T1).

use std::collections::HashMap;
use std::sync::Arc;

use crate::block::{BlockKind, CompactionBlock};
use crate::dialect::{Dialect, Repair, check, repair};
use crate::edit::{Drop, Edit, Reason};
use crate::item::Item;
use crate::tokens::ItemTokens;
use crate::view::View;

/// A view that its dialect accepts, and what had to be done for it.
#[derive(Clone, Debug)]
pub struct Mended {
    /// What to plan on.
    pub view: View,
    /// What was repaired; empty where there was nothing to do.
    pub repairs: Vec<Repair>,
    /// Whether a block puts repaired items in place of others.
    pub is_recorded: bool,
}

/// The view, repaired where `dialect` would reject it. Costs what is behind the first repair, and
/// nothing where it was seen on push that there is nothing to repair.
pub fn mend(view: &View, dialect: Option<Dialect>) -> Mended {
    debug_assert!(!view.is_plain() || check(view.items(), dialect).is_empty(), "nothing was rejected");
    if view.is_plain() || check(view.items(), dialect).is_empty() {
        return Mended { view: view.clone(), repairs: Vec::new(), is_recorded: false };
    }
    let items: Vec<Arc<Item>> = view.items().cloned().collect();
    let repaired = repair(&items, dialect);
    let is_same = |(before, after): &(&Arc<Item>, &Arc<Item>)| Arc::ptr_eq(before, after);
    let first = items.iter().zip(&repaired.items).take_while(is_same).count();
    if first == items.len() && first == repaired.items.len() {
        return Mended { view: view.clone(), repairs: repaired.repairs, is_recorded: false };
    }
    let mut transcript = view.transcript().clone();
    let recorded = transcript.len();
    // What no repair touched has been counted already.
    let counted = view.range(first..view.len()).map(|entry| (Arc::as_ptr(entry.item()), entry.tokens()));
    let counted: HashMap<*const Item, &ItemTokens> = counted.collect();
    for item in &repaired.items[first..] {
        match counted.get(&Arc::as_ptr(item)) {
            Some(&tokens) => transcript.push_counted(Arc::clone(item), tokens.clone()),
            None => transcript.push(Arc::clone(item)),
        }
    }
    let start = view.get(first).map_or(recorded, |entry| entry.anchor());
    let reason = Reason::new("repair", "replaced by a form that the provider accepts");
    let edits = match start < recorded {
        true => vec![Edit::Drop(Drop { range: start..recorded, reason })],
        false => Vec::new(),
    };
    let block = CompactionBlock {
        kind: BlockKind::Repair,
        strategy: "repair".into(),
        item_count: transcript.len(),
        tokens_before: view.tokens(),
        tokens_after: view.tokens_of(0..first) + transcript.tokens_of(recorded..transcript.len()),
        edits,
        copies: Some(recorded..transcript.len()),
        ..CompactionBlock::default()
    };
    let view =
        View::through(&transcript, &view.overlay().with(block)).expect("the block drops recorded items only");
    debug_assert!(view.items().eq(repaired.items.iter()), "the view shows the repaired items");
    Mended { view, repairs: repaired.repairs, is_recorded: true }
}
