//! What somebody made of a view, as edits: [`diff`](fn@diff).
//!
//! A host that compacts in its own way returns a list of items. Stored as a list it could be neither
//! explained nor undone; as edits it is a compaction like any other (T1, T5, T9).

mod matching;
mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::draft::Draft;
use crate::edit::Reason;
use crate::handle::Handle;
use crate::ids::{CallId, ItemId, Tokens};
use crate::item::Item;
use crate::part::Part;
use crate::plan::{Compacted, Plan};
use crate::sequence::Entry;
use crate::summary::SummaryError;
use crate::view::View;

use matching::{Match, Matched};

/// Who proposed the edits, where nobody else says.
pub const CUSTOM: &str = "custom";

/// Places in which items may be replaced by new ones. Each is a fold, and a fold costs a pass over
/// the view.
pub const REPLACED_PLACES_MAX: usize = 1_024;

/// Why a list of items is not an edited view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// New items may only stand for what they replace.
    #[error("item {id} is new, and nothing was removed that it could stand for")]
    Added {
        /// The new item.
        id: ItemId,
    },
    /// The order is the transcript's.
    #[error("item {id} stands behind item {behind}, which comes after it in the transcript")]
    Moved {
        /// The item.
        id: ItemId,
        /// The item that it must stand before.
        behind: ItemId,
    },
    /// Everything is shown once.
    #[error("item {id} is there more than once")]
    Repeated {
        /// The item.
        id: ItemId,
    },
    /// Only parts can be rewritten.
    #[error("item {id} has another {field}; only its parts may change")]
    Changed {
        /// The item.
        id: ItemId,
        /// What else changed.
        field: &'static str,
    },
    /// Parts can be replaced or removed.
    #[error("item {id} has {count} parts, the recorded one {count_before}; parts cannot be added")]
    PartsAdded {
        /// The item.
        id: ItemId,
        /// How many it has.
        count: usize,
        /// How many it had.
        count_before: usize,
    },
    /// Something that no compaction may change (T4).
    #[error("item {id} may not be {what}: {why}")]
    Protected {
        /// The item.
        id: ItemId,
        /// What was done to it.
        what: &'static str,
        /// What protects it.
        why: &'static str,
    },
    /// A call without its result, or a result without its call (T2).
    #[error("item {id} keeps one half of call {call_id}; calls and results go together")]
    HalfPair {
        /// The item that keeps it.
        id: ItemId,
        /// The call.
        call_id: CallId,
    },
    /// A summary between a call and its result, or between thinking and what it leads to.
    #[error("the new item {id} comes between the parts of a unit; put it before the unit or after it")]
    SplitsUnit {
        /// The first of the new items.
        id: ItemId,
    },
    /// What stands for removed items is a summary: text with the authority of context.
    #[error("the new item {id} is no summary: {source}")]
    NotASummary {
        /// The first of the new items.
        id: ItemId,
        /// What is wrong with it.
        source: SummaryError,
    },
    /// There are too many summaries.
    #[error(
        "items are replaced in more than {REPLACED_PLACES_MAX} places; an item whose parts change keeps its id"
    )]
    TooManyPlaces,
    /// No edit leads to this list.
    #[error("no edit puts item {id} where it stands")]
    Inexpressible {
        /// The first item that would stand elsewhere.
        id: ItemId,
    },
}

/// The edits that make a list of items from a view, and what they lead to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diff {
    /// The edits.
    pub plan: Plan,
    /// The view they lead to, and the block that records them.
    pub compacted: Compacted,
}

/// Finds the edits that lead from `view` to `items`.
///
/// Items that are missing are dropped, items under the same id with other parts are rewritten, and
/// new items are the summary of what was removed: of the items in whose place they stand, or, where
/// they come behind items that stay (`[…tail, summary]`), of everything removed since the summary before
/// them. Everything else is refused: new items for which nothing was removed, another order, half a
/// pair, a change to what is protected. Costs O(n log n), and a pass for each place in which items were
/// replaced.
pub fn diff(view: &View, items: &[Arc<Item>]) -> Result<Diff, DiffError> {
    let matched = matching::matched(view, items)?;
    let mut draft = Draft::new(view);
    rewrite(&mut draft, &matched)?;
    let summaries = hide(&mut draft, &matched)?;
    keeps_pairs_whole(view, items, &matched)?;
    let plan = draft.finish(CUSTOM.to_owned()).expect("nobody has declared it infeasible");
    let firsts: Vec<ItemId> = summaries.iter().map(|items| items[0].id.clone()).collect();
    let compacted = plan.apply(summaries).map_err(|source| {
        let handle = handle_of(&source);
        let place = plan.folds().position(|fold| Some(&fold.handle) == handle);
        let id = place.and_then(|place| firsts.get(place)).or(firsts.first());
        DiffError::NotASummary { id: id.expect("what was refused was there").clone(), source }
    })?;
    leads_to(&compacted.view, items)?;
    Ok(Diff { plan, compacted })
}

fn handle_of(error: &SummaryError) -> Option<&Handle> {
    match error {
        SummaryError::Empty { handle }
        | SummaryError::Inflated { handle, .. }
        | SummaryError::WrongPart { handle, .. }
        | SummaryError::WrongKind { handle, .. } => Some(handle),
        SummaryError::Count { .. } => None,
    }
}

fn reason(why: &'static str) -> Reason {
    Reason::new(CUSTOM, why)
}

fn rewrite(draft: &mut Draft<'_>, matched: &Matched<'_>) -> Result<(), DiffError> {
    let reason = reason("rewritten by the host");
    for &Match { position, item } in &matched.changed {
        let entry = draft.view().get(position).expect("a match is a position of the view");
        let changes = parts::changes(entry.item(), item)?;
        if draft.is_unchangeable(position) {
            return Err(protected(draft, position, "rewritten"));
        }
        for (part_index, part) in changes {
            if !parts::may_change(draft, position, &entry.item().parts[part_index], part) {
                let (id, why) = (item.id.clone(), "it belongs to the loop in flight");
                return Err(DiffError::Protected { id, what: "rewritten", why });
            }
            draft.rewrite_given(position, part_index, part.cloned(), &reason);
        }
    }
    Ok(())
}

/// Drops what is missing, and folds it where something new stands for it. Returns the new items, fold by
/// fold.
fn hide(draft: &mut Draft<'_>, matched: &Matched<'_>) -> Result<Vec<Vec<Item>>, DiffError> {
    let mut summaries: Vec<Vec<Item>> = Vec::new();
    let (missing, replaced) = (reason("left out by the host"), reason("replaced by the host"));
    // What was removed since the last new items.
    let mut open: Vec<Range<usize>> = Vec::new();
    for gap in &matched.gaps {
        if let Some(position) = gap.removed.clone().find(|&position| draft.is_protected(position)) {
            return Err(protected(draft, position, "removed"));
        }
        let Some(first) = gap.new.first() else {
            open.push(gap.removed.clone());
            continue;
        };
        let (replaces, after) = match gap.removed.is_empty() {
            true => (std::mem::take(&mut open), gap.removed.start.checked_sub(1)),
            false => (vec![gap.removed.clone()], None),
        };
        if replaces.is_empty() {
            return Err(DiffError::Added { id: first.id.clone() });
        }
        if after.is_some_and(|after| !draft.may_follow(after)) {
            return Err(DiffError::SplitsUnit { id: first.id.clone() });
        }
        drop_all(draft, &mut open, &missing);
        if summaries.len() == REPLACED_PLACES_MAX {
            return Err(DiffError::TooManyPlaces);
        }
        let tokens: Tokens = gap.new.iter().map(|item| draft.meter().item(item).total).sum();
        draft.fold_given(&replaces, after, tokens, &replaced);
        summaries.push(gap.new.iter().map(|item| Item::clone(item)).collect());
    }
    drop_all(draft, &mut open, &missing);
    Ok(summaries)
}

fn drop_all(draft: &mut Draft<'_>, ranges: &mut Vec<Range<usize>>, reason: &Reason) {
    ranges.drain(..).flatten().for_each(|position| draft.drop_given(position, reason));
}

fn protected(draft: &Draft<'_>, position: usize, what: &'static str) -> DiffError {
    let item = draft.item(position).expect("a match is a position of the view");
    let why = if item.is_pinned() {
        "it is pinned"
    } else if draft.unit_in_flight().contains(&position) {
        "it belongs to the unit in flight"
    } else {
        "it is the newest user item"
    };
    DiffError::Protected { id: item.id.clone(), what, why }
}

/// How many calls and how many results an id has.
type Halves = BTreeMap<CallId, (usize, usize)>;

/// Whether every pair that was touched is still whole, or gone.
fn keeps_pairs_whole(view: &View, items: &[Arc<Item>], matched: &Matched<'_>) -> Result<(), DiffError> {
    let removed = matched.gaps.iter().flat_map(|gap| gap.removed.clone());
    let touched = removed.chain(matched.changed.iter().map(|change| change.position));
    let entries = touched.filter_map(|position| view.get(position)).map(Entry::item);
    let ids: BTreeSet<&CallId> = entries.flat_map(|item| &item.parts).filter_map(half).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let (before, after) = (halves(view.items(), &ids), halves(items.iter(), &ids));
    // An id that is used more than once, or on one side only, makes no pair; `check` judges those.
    let was_whole = |id: &CallId| before.get(id) == Some(&(1, 1));
    for item in items {
        for id in item.parts.iter().filter_map(half).filter(|id| ids.contains(id) && was_whole(id)) {
            if after.get(id) != Some(&(1, 1)) {
                return Err(DiffError::HalfPair { id: item.id.clone(), call_id: id.clone() });
            }
        }
    }
    Ok(())
}

fn half(part: &Part) -> Option<&CallId> {
    match part {
        Part::ToolCall(call) => Some(&call.id),
        Part::ToolResult(result) => Some(&result.call_id),
        Part::Text(_)
        | Part::Reasoning(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Structured(_)
        | Part::Opaque(_) => None,
    }
}

fn halves<'a>(items: impl Iterator<Item = &'a Arc<Item>>, wanted: &BTreeSet<&CallId>) -> Halves {
    let mut halves = Halves::new();
    for part in items.flat_map(|item| &item.parts) {
        let Some(id) = half(part).filter(|id| wanted.contains(id)) else { continue };
        let (calls, results) = halves.entry(id.clone()).or_default();
        match part {
            Part::ToolCall(_) => *calls += 1,
            _ => *results += 1,
        }
    }
    halves
}

/// The last look: the edits lead to the list, whatever was thought about them.
fn leads_to(view: &View, items: &[Arc<Item>]) -> Result<(), DiffError> {
    let is_same = |shown: &Item, given: &Item| {
        shown.id == given.id && shown.kind == given.kind && shown.parts == given.parts
    };
    let nothing = || ItemId::from("");
    let mut shown = view.items();
    for given in items {
        if !shown.next().is_some_and(|shown| Arc::ptr_eq(shown, given) || is_same(shown, given)) {
            return Err(DiffError::Inexpressible { id: given.id.clone() });
        }
    }
    match shown.next() {
        None => Ok(()),
        Some(_) => {
            Err(DiffError::Inexpressible { id: items.last().map_or_else(nothing, |item| item.id.clone()) })
        }
    }
}
