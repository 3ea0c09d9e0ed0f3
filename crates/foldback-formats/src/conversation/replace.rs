//! A compaction that an agent made, as a block: worked out from what the model sees afterwards.
//!
//! A summary becomes a fold of everything that it hides. Items in another form than before have no
//! place of their own in the transcript: they, and all that is shown behind them, are recorded again
//! for the block, which says so.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::edit::{Edit, Fold};
use foldback_core::{Handle, Item, Reason, SummaryPlacement, SummarySpec, Tokens};

use super::{Conversation, Made, Seen, Shown, drop_of, is_summary, united};

/// Items that all compactions of a conversation together may have recorded again. A record of a few
/// bytes can ask for all that was said before it, so that a small file could fill any memory.
pub(super) const COPY_COUNT_MAX: usize = 1_000_000;

/// Entries that are looked at for all compactions of a conversation together: real sessions stay
/// far below, and a file of nothing but compactions ends in seconds.
pub(super) const LOOK_COUNT_MAX: usize = 20_000_000;

impl Conversation {
    /// Records a compaction after which the model sees exactly `shown`.
    ///
    /// From the first compaction on that goes beyond what is followed ([`left_at`](Self::left_at)),
    /// none hides or puts in anything: what was said stays visible.
    pub(crate) fn replace(&mut self, made: &Made, shown: impl IntoIterator<Item = Shown>) {
        if !self.may_look() {
            return self.leave(made);
        }
        let positions = (0..).zip(&self.visible).map(|(position, &seen)| (seen, position)).collect();
        let mut front = Front { kept: Vec::new(), summary: None };
        let mut shown = shown.into_iter().peekable();
        while let Some(entry) = shown.next_if(|entry| self.goes_in_front(&front, &positions, entry)) {
            front.push(entry, &positions);
        }
        let behind = self.cut(&mut front, shown.peek().is_none());
        let (mut rest, mut copy_count) = (Vec::new(), 0);
        for entry in behind.into_iter().chain(shown) {
            copy_count += usize::from(matches!(entry, Shown::Kept(_)));
            if self.copy_count + copy_count > COPY_COUNT_MAX {
                return self.leave(made);
            }
            rest.push(entry);
        }
        self.copy_count += copy_count;
        self.commit_front(made, front, rest);
    }

    /// Counts what is looked at for a compaction, and says whether that is still within bounds.
    pub(crate) fn may_look(&mut self) -> bool {
        self.look_count = self.look_count.saturating_add(self.visible.len());
        self.left_at.is_none() && self.look_count <= LOOK_COUNT_MAX
    }

    /// Records a compaction that is not followed.
    pub(crate) fn leave(&mut self, made: &Made) {
        self.left_at.get_or_insert(made.place);
        let block = self.imported(made, Vec::new(), Vec::new());
        self.commit(made.place, made.tokens_before, self.in_force.len(), vec![block.into()]);
    }

    /// Whether an entry can stand in the view where it is shown without being recorded again.
    fn goes_in_front(&self, front: &Front, positions: &HashMap<Seen, usize>, entry: &Shown) -> bool {
        match entry {
            Shown::Kept(seen) => {
                let is_whole = match seen {
                    Seen::Item(_) => true,
                    Seen::Summary(number) => self.summaries[*number].is_alone,
                };
                let is_later = |position: &usize| front.kept.last().is_none_or(|last| last < position);
                is_whole && positions.get(seen).is_some_and(is_later)
            }
            // A second run of summaries would need a fold of its own.
            Shown::New(item) => {
                let goes_on = |summary: &FrontSummary| summary.kept_before == front.kept.len();
                is_summary(item) && front.summary.as_ref().is_none_or(goes_on)
            }
        }
    }

    /// Takes off the front what cannot stand there because of where its summary stands, to be recorded
    /// again. `is_all` says that nothing else is shown.
    fn cut(&self, front: &mut Front, is_all: bool) -> Vec<Shown> {
        let Some(summary) = &front.summary else { return Vec::new() };
        let anchor_at = |position: usize| self.anchor(self.visible[position]);
        let (before, after) = front.kept.split_at(summary.kept_before);
        let hides_nothing = front.kept.len() == self.visible.len();
        // What a summary stands behind, or the first hidden item, whose place it takes.
        let stands_at = match before.last() {
            Some(&last) => Some(anchor_at(last)),
            None => self.first_hidden(&front.kept),
        };
        let is_in_order = match (stands_at, after.first()) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(at), Some(&next)) => at < anchor_at(next),
        };
        if hides_nothing && after.is_empty() && is_all {
            // It stands for a past that the file does not have.
            return front.take_summary();
        }
        if is_in_order && !hides_nothing {
            return Vec::new();
        }
        let kept_before = summary.kept_before;
        let behind: Vec<Shown> =
            front.kept.drain(kept_before..).map(|position| Shown::Kept(self.visible[position])).collect();
        match front.kept.len() == self.visible.len() {
            true => front.take_summary().into_iter().chain(behind).collect(),
            false => behind,
        }
    }

    /// The first transcript index that is hidden where only these positions stay.
    fn first_hidden(&self, kept: &[usize]) -> Option<usize> {
        self.hidden(kept).first().map(|range| range.start)
    }

    /// The transcript indices of what is visible and not kept.
    fn hidden(&self, kept: &[usize]) -> Vec<Range<usize>> {
        let mut kept = kept.iter().peekable();
        let gone = (0..).zip(&self.visible).filter(|(position, _)| kept.next_if_eq(&position).is_none());
        united(gone.flat_map(|(_, &seen)| self.stands_for(seen)).collect())
    }

    /// The transcript indices that something visible stands for: of a summary, those that it hides.
    fn stands_for(&self, seen: Seen) -> Vec<Range<usize>> {
        match seen {
            Seen::Item(index) => std::iter::once(index..index + 1).collect(),
            Seen::Summary(number) => {
                let range = &self.summaries[number].range;
                let folds = self.in_force.iter().rev().flat_map(|block| block.folds());
                let fold = folds.map(|(fold, _)| fold).find(|fold| fold.range == *range);
                fold.map_or_else(|| vec![range.clone()], |fold| fold.folded().collect())
            }
        }
    }

    fn commit_front(&mut self, made: &Made, front: Front, rest: Vec<Shown>) {
        let reason = made.reason();
        let hidden = self.hidden(&front.kept);
        let mut summaries = Vec::new();
        let edits = match front.summary.filter(|_| !hidden.is_empty()) {
            None => hidden.into_iter().map(|range| drop_of(range, &reason)).collect(),
            Some(summary) => {
                let before = front.kept[..summary.kept_before].last();
                let anchor = before.map_or(hidden[0].start, |&last| self.anchor(self.visible[last]));
                let kept = front.kept.iter().flat_map(|&position| self.stands_for(self.visible[position]));
                let fold = self.fold(&hidden, &united(kept.collect()), anchor, &reason);
                let mut items = summary.items;
                name_after(&mut items, &fold);
                summaries.push(items);
                vec![Edit::Fold(fold)]
            }
        };
        let hides = !edits.is_empty();
        let keeps = self.in_force.len();
        let first_copy = self.recorded.len();
        let items: Vec<Arc<Item>> = rest.into_iter().filter_map(|entry| self.shown_item(entry)).collect();
        let is_said = !hides && items.iter().all(|item| item.summary.is_some());
        for item in items {
            self.turn = item.turn_id.clone().or_else(|| self.turn.take());
            self.record(item, made.place);
        }
        let mut block = self.imported(made, edits, summaries);
        if self.recorded.len() > first_copy && !is_said {
            block.copies = Some(first_copy..self.recorded.len());
        }
        self.commit(made.place, made.tokens_before, keeps, vec![block.into()]);
    }

    fn shown_item(&self, entry: Shown) -> Option<Arc<Item>> {
        match entry {
            Shown::Kept(seen) => self.item(seen).cloned(),
            Shown::New(item) => Some(Arc::new(item)),
        }
    }

    /// One fold of all that is hidden now. What was hidden before and lies between is part of it.
    fn fold(&self, hidden: &[Range<usize>], kept: &[Range<usize>], anchor: usize, reason: &Reason) -> Fold {
        let range = hidden[0].start..hidden[hidden.len() - 1].end;
        let holes = kept.iter().map(|kept| kept.start.max(range.start)..kept.end.min(range.end));
        let place = |index: usize| (index, &self.recorded[index].item.id);
        Fold {
            holes: holes.filter(|hole| !hole.is_empty()).collect(),
            anchor,
            spec: SummarySpec::new(Tokens::ZERO).with_placement(placement(&range, anchor)),
            handle: Handle::of_range(place(range.start), place(range.end - 1)),
            tokens_before: Tokens::ZERO,
            reason: reason.clone(),
            range,
        }
    }
}

/// Where an agent put its summary: in front of the tail, among what it kept, or behind all of it.
fn placement(range: &Range<usize>, anchor: usize) -> SummaryPlacement {
    match anchor {
        at if at >= range.end => SummaryPlacement::AfterTail,
        at if at > range.start => SummaryPlacement::AfterKept,
        _ => SummaryPlacement::BeforeKept,
    }
}

/// What a compaction leaves in its place, and the summary among it.
struct Front {
    /// Positions of what was visible, ascending.
    kept: Vec<usize>,
    summary: Option<FrontSummary>,
}

struct FrontSummary {
    /// How many of the kept ones stand before it.
    kept_before: usize,
    items: Vec<Item>,
}

impl Front {
    fn push(&mut self, entry: Shown, positions: &HashMap<Seen, usize>) {
        match entry {
            Shown::Kept(seen) => self.kept.extend(positions.get(&seen)),
            Shown::New(item) => {
                let kept_before = self.kept.len();
                let summary = self.summary.get_or_insert(FrontSummary { kept_before, items: Vec::new() });
                summary.items.push(item);
            }
        }
    }

    fn take_summary(&mut self) -> Vec<Shown> {
        self.summary
            .take()
            .map_or_else(Vec::new, |summary| summary.items)
            .into_iter()
            .map(Shown::New)
            .collect()
    }
}

/// A summary that an agent wrote does not say what it stands for; its fold does.
fn name_after(items: &mut [Item], fold: &Fold) {
    for item in items {
        if let Some(origin) = &mut item.summary
            && origin.handle == Handle::of_item(0, &item.id)
        {
            origin.handle = fold.handle.clone();
        }
    }
}
