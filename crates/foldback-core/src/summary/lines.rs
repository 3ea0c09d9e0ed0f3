//! Lines that a person asked to keep: which of them a summary has to repeat.

use std::collections::{HashMap, HashSet};

use super::FoldRequest;
use crate::edit::{Edit, Fold};
use crate::holds::Holds;
use crate::keep::{ChosenLines, KeptLine, KeptLines};
use crate::part::Part;
use crate::reading::text_of;
use crate::sequence::Entry;
use crate::view::View;

impl<'p> FoldRequest<'p> {
    /// The lines that nothing shows unless this summary repeats them, in order: of what it folds, and in the
    /// newest summary of a plan of what is hidden in other ways.
    pub fn kept_lines(&self) -> Vec<&'p KeptLine> {
        if self.lines.is_empty() {
            return Vec::new();
        }
        let mut folds = self.edits.iter().filter_map(|edit| match edit {
            Edit::Fold(fold) => Some(fold),
            Edit::Drop(_) | Edit::Rewrite(_) => None,
        });
        let is_last = folds.next_back().is_none_or(|last| std::ptr::eq(last, self.fold));
        let others: Vec<&Fold> = folds.filter(|fold| !std::ptr::eq(*fold, self.fold)).collect();
        let shown = self.shown();
        let is_wanted = |line: &&KeptLine| {
            let index = line.item_index;
            self.fold.hides(index)
                || (is_last
                    && !others.iter().any(|fold| fold.hides(index))
                    && !shown.has_item(line)
                    && !shown.has_told(line))
        };
        self.lines.lines().iter().filter(is_wanted).collect()
    }

    /// Those of the lines that have room in this summary.
    pub fn chosen_lines(&self) -> ChosenLines {
        let meter = self.view.transcript().meter();
        ChosenLines::of(&self.kept_lines(), self.fold.spec.tokens_max.0, meter)
    }

    /// What the whole plan leaves visible.
    fn shown(&self) -> Shown<'p> {
        Shown::new(self.left_visible(), self.replaced())
    }
}

/// What became of the lines that a person asked to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineFates {
    /// Lines that are still seen in their items.
    pub visible: usize,
    /// Lines that a summary repeats.
    pub told: usize,
    /// Lines that had room nowhere.
    pub lost: usize,
}

impl LineFates {
    /// The fates of these lines of the record behind a view; what one speaker said twice counts once.
    pub fn in_view(view: &View, lines: &KeptLines) -> Self {
        let shown = Shown::new(view.iter(), HashMap::new());
        let (mut fates, mut seen) = (Self::default(), HashSet::new());
        for line in lines.lines().iter().rev().filter(|line| seen.insert((&line.by, &line.text))) {
            let fate = match (shown.has_item(line), shown.has_told(line)) {
                (true, _) => &mut fates.visible,
                (false, true) => &mut fates.told,
                (false, false) => &mut fates.lost,
            };
            *fate += 1;
        }
        fates
    }
}

/// What stays visible, and what stands in the place of its parts.
struct Shown<'p> {
    /// By their transcript indices.
    items: HashMap<usize, &'p Entry>,
    summaries: Vec<&'p Entry>,
    replaced: HashMap<(usize, usize), Option<&'p Part>>,
}

impl<'p> Shown<'p> {
    fn new(
        entries: impl Iterator<Item = &'p Entry>,
        replaced: HashMap<(usize, usize), Option<&'p Part>>,
    ) -> Self {
        let is_summary = |entry: &&Entry| entry.holds().contains(Holds::SUMMARY);
        let (summaries, items): (Vec<_>, Vec<_>) = entries.partition(is_summary);
        let items = items.into_iter().map(|entry| (entry.anchor(), entry)).collect();
        Self { items, summaries, replaced }
    }

    /// Whether the reader sees a line where it was recorded.
    fn has_item(&self, line: &KeptLine) -> bool {
        let Some(entry) = self.items.get(&line.item_index) else { return false };
        entry.item().parts.iter().enumerate().any(|(part_index, part)| {
            let place = (entry.anchor(), entry.recorded_part(part_index));
            let part = self.replaced.get(&place).copied().unwrap_or(Some(part));
            part.is_some_and(|part| line.is_in(part))
        })
    }

    /// Whether a summary tells it.
    fn has_told(&self, line: &KeptLine) -> bool {
        let parts = self.summaries.iter().flat_map(|entry| &entry.item().parts);
        parts.into_iter().any(|part| line.is_told_in(&text_of(part)))
    }
}
