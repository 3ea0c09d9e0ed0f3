//! What a digest is made of: the folded items, and what is hidden of the items beside them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::FoldRequest;
use crate::digest::{Hidden, Material, Told};
use crate::edit::Edit;
use crate::ids::Text;
use crate::part::Part;
use crate::reading::text_of;
use crate::sequence::Entry;
use crate::view::covers;

impl<'p> FoldRequest<'p> {
    pub(super) fn material(&self, covered: &[Range<usize>]) -> Material<'p> {
        let transcript = self.view.transcript();
        let told =
            self.previous().filter(|entry| !self.is_regenerated(entry) && !self.is_recorded_summary(entry));
        let previous = told.map(|entry| &**entry.item()).collect();
        let folded = covered.iter().cloned().flatten();
        let mut items: Vec<Told<'p>> = Vec::with_capacity(covered.iter().map(ExactSizeIterator::len).sum());
        items.extend(folded.filter_map(|index| transcript.told(index, Hidden::Whole)));
        let beside = self.hidden_beside().into_iter();
        items.extend(beside.filter_map(|(index, parts)| transcript.told(index, Hidden::Parts(parts))));
        items.sort_by_key(|told| told.index);
        let focus = self.fold.spec.focus.as_deref();
        Material { items, previous, kept: self.kept_texts(), focus, lines: self.kept_lines() }
    }

    /// What stays visible beside the summary, as far as it can be read.
    pub fn kept_texts(&self) -> Vec<Text> {
        let replaced = self.replaced();
        let mut texts = Vec::new();
        for entry in self.visible() {
            for (part_index, part) in entry.item().parts.iter().enumerate() {
                let place = (entry.anchor(), entry.recorded_part(part_index));
                let part = replaced.get(&place).copied().unwrap_or(Some(part));
                texts.extend(part.map(|part| Text::from(&*text_of(part))));
            }
        }
        texts
    }

    /// The visible items by their transcript index, each with its parts that are shown shortened or not
    /// at all.
    fn hidden_beside(&self) -> BTreeMap<usize, Vec<usize>> {
        let transcript = self.view.transcript();
        let replaced = self.replaced();
        let mut hidden: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for entry in self.visible() {
            let Some(recorded) = transcript.get(entry.anchor()).map(Entry::item) else { continue };
            let is_as_recorded = Arc::ptr_eq(recorded, entry.item());
            let shown: BTreeSet<usize> = (entry.item().parts.iter().enumerate())
                .map(|(part_index, part)| (entry.recorded_part(part_index), part))
                .filter(|&(index, part)| is_as_recorded || recorded.parts.get(index) == Some(part))
                .map(|(index, _)| index)
                .filter(|&index| !replaced.contains_key(&(entry.anchor(), index)))
                .collect();
            let parts: Vec<usize> =
                (0..recorded.parts.len()).filter(|index| !shown.contains(index)).collect();
            if entry.item().summary.is_none() {
                hidden.insert(entry.anchor(), parts);
            }
        }
        hidden.retain(|&index, _| !self.fold.hides(index));
        hidden
    }

    /// The entries of the view that the fold and its neighbours leave visible.
    fn visible(&self) -> impl Iterator<Item = &'p Entry> {
        let dropped = self.edits.iter().filter_map(|edit| match edit {
            Edit::Drop(drop) => Some(drop.range.clone()),
            Edit::Rewrite(_) | Edit::Fold(_) => None,
        });
        let (fold, mut dropped): (_, Vec<Range<usize>>) = (self.fold, dropped.collect());
        dropped.sort_by_key(|range| range.start);
        let is_hidden = move |index: usize| fold.hides(index) || covers(&dropped, index);
        self.view.iter().filter(move |entry| !is_hidden(entry.span().start))
    }

    /// What stands in the place of parts, by the item and the part as they were recorded.
    pub(super) fn replaced(&self) -> HashMap<(usize, usize), Option<&'p Part>> {
        let rewrite = |edit: &'p Edit| match edit {
            Edit::Rewrite(rewrite) => {
                Some(((rewrite.item_index, rewrite.part_index), rewrite.replacement.as_ref()))
            }
            Edit::Drop(_) | Edit::Fold(_) => None,
        };
        self.edits.iter().filter_map(rewrite).collect()
    }
}
