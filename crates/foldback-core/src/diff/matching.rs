//! Which item of a list is which of a view, and what stands between them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::DiffError;
use crate::ids::ItemId;
use crate::item::Item;
use crate::sequence::Entry;
use crate::view::View;

/// Items under one id that are looked at for the one meant: recorded sessions repeat ids, but an id
/// that is everywhere names nothing.
const SAME_ID_MAX: usize = 16;

/// An item of the list that is one of the view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match<'i> {
    pub(super) position: usize,
    pub(super) item: &'i Arc<Item>,
}

/// What lies between two items that stayed.
#[derive(Clone, Debug)]
pub(super) struct Gap<'i> {
    pub(super) removed: Range<usize>,
    pub(super) new: &'i [Arc<Item>],
}

/// A view and a list, side by side.
#[derive(Debug, Default)]
pub(super) struct Matched<'i> {
    /// Items whose parts are others.
    pub(super) changed: Vec<Match<'i>>,
    /// Where something was removed or added.
    pub(super) gaps: Vec<Gap<'i>>,
}

/// Finds every item of the list in the view, in order.
pub(super) fn matched<'i>(view: &View, items: &'i [Arc<Item>]) -> Result<Matched<'i>, DiffError> {
    let places = Places::of(view);
    let mut matched = Matched::default();
    // The first position and the first given item that nothing was said about yet.
    let (mut position, mut index) = (0, 0);
    for (given, item) in items.iter().enumerate() {
        let Some(found) = places.find(item, position)? else {
            places.is_new(item, position)?;
            continue;
        };
        matched.close(position..found, &items[index..given]);
        let entry = places.view.get(found).expect("a place is a position of the view");
        if !is_same(entry, item) {
            matched.changed.push(Match { position: found, item });
        }
        (position, index) = (found + 1, given + 1);
    }
    matched.close(position..view.len(), &items[index..]);
    Ok(matched)
}

impl<'i> Matched<'i> {
    fn close(&mut self, removed: Range<usize>, new: &'i [Arc<Item>]) {
        if !removed.is_empty() || !new.is_empty() {
            self.gaps.push(Gap { removed, new });
        }
    }
}

/// Where the items of a view stand: by identity, and by id.
struct Places<'v> {
    view: &'v View,
    by_pointer: HashMap<*const Item, Vec<usize>>,
    by_id: HashMap<&'v ItemId, Vec<usize>>,
}

impl<'v> Places<'v> {
    fn of(view: &'v View) -> Self {
        let mut by_pointer: HashMap<*const Item, Vec<usize>> = HashMap::with_capacity(view.len());
        let mut by_id: HashMap<&ItemId, Vec<usize>> = HashMap::with_capacity(view.len());
        for (position, item) in view.items().enumerate() {
            by_pointer.entry(Arc::as_ptr(item)).or_default().push(position);
            by_id.entry(&item.id).or_default().push(position);
        }
        Self { view, by_pointer, by_id }
    }

    /// Where `item` stands at or after `from`: itself, or else one that is equal, or else a recorded
    /// one of the same id.
    fn find(&self, item: &Arc<Item>, from: usize) -> Result<Option<usize>, DiffError> {
        let at_or_after = |positions: &'_ [usize]| positions.partition_point(|&position| position < from);
        if let Some(positions) = self.by_pointer.get(&Arc::as_ptr(item)) {
            if let Some(&position) = positions.get(at_or_after(positions)) {
                return Ok(Some(position));
            }
            return Err(self.out_of_order(item, from));
        }
        let Some(positions) = self.by_id.get(&item.id) else { return Ok(None) };
        let candidates = positions[at_or_after(positions)..].iter().take(SAME_ID_MAX);
        let entries = candidates.filter_map(|&position| Some((position, self.view.get(position)?)));
        let is_equal = |(_, entry): &(usize, &Entry)| entry.item() == item;
        let equal = entries.clone().find(is_equal);
        let is_recorded = |(_, entry): &(usize, &Entry)| !self.is_written(entry);
        let found = equal.or_else(|| entries.clone().find(is_recorded)).map(|(position, _)| position);
        Ok(found)
    }

    /// Whether an item that was not found may be new: not if it stands before.
    fn is_new(&self, item: &Arc<Item>, from: usize) -> Result<(), DiffError> {
        let Some(positions) = self.by_id.get(&item.id) else { return Ok(()) };
        let is_before = positions.iter().any(|&position| position < from);
        let is_behind = positions.iter().any(|&position| position >= from);
        if is_before && !is_behind { Err(self.out_of_order(item, from)) } else { Ok(()) }
    }

    fn out_of_order(&self, item: &Item, from: usize) -> DiffError {
        let id = item.id.clone();
        let newest = from.checked_sub(1).and_then(|last| self.view.get(last)).map(Entry::item);
        match newest {
            Some(newest) if newest.id != item.id => DiffError::Moved { id, behind: newest.id.clone() },
            _ => DiffError::Repeated { id },
        }
    }

    /// Whether an entry is a summary that an earlier compaction wrote: it is not recorded, so its
    /// parts cannot be rewritten.
    fn is_written(&self, entry: &Entry) -> bool {
        let recorded = self.view.transcript().get(entry.anchor());
        entry.item().summary.is_some()
            && !recorded.is_some_and(|recorded| Arc::ptr_eq(recorded.item(), entry.item()))
    }
}

fn is_same(entry: &Entry, item: &Arc<Item>) -> bool {
    Arc::ptr_eq(entry.item(), item) || entry.item() == item
}
