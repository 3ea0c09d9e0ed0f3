//! What a compaction did to the names that the view told before it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldback_core::ledger::scan;
use foldback_core::reading::text_of;
use foldback_core::view::Fate;
use foldback_core::{FactKind, Item, View};

/// Names that one view is searched for at most.
const NAMES_MAX: usize = 200_000;

/// How many of the names that a view told are still told, can be recalled, or are neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Still told.
    pub kept: usize,
    /// No longer told; they stand behind a handle.
    pub recoverable: usize,
    /// No longer told, and no handle leads to them.
    pub lost: usize,
}

/// What became of the names in `before` now that `after` is what the model sees, by kind. Both are
/// views of one transcript, of which `after` may have recorded more.
pub fn losses(before: &View, after: &View) -> BTreeMap<FactKind, Losses> {
    let told = names(before.items());
    let still = names(after.items());
    let fates = after.fates();
    let has_handle =
        |index: usize| matches!(fates.get(index), Some(Fate::Folded(_) | Fate::Rewritten | Fate::Visible));
    let reachable = before.iter().filter(|entry| has_handle(entry.anchor())).map(|entry| entry.item());
    let reachable = names(reachable);
    let mut by_kind: BTreeMap<FactKind, Losses> = BTreeMap::new();
    for name in &told {
        let losses = by_kind.entry(name.0).or_default();
        match (still.contains(name), reachable.contains(name)) {
            (true, _) => losses.kept += 1,
            (false, true) => losses.recoverable += 1,
            (false, false) => losses.lost += 1,
        }
    }
    by_kind
}

fn names<'i>(items: impl Iterator<Item = &'i Arc<Item>>) -> BTreeSet<(FactKind, Box<str>)> {
    let mut names = BTreeSet::new();
    for part in items.flat_map(|item| &item.parts) {
        let text = text_of(part);
        scan(&text, |found| {
            if names.len() < NAMES_MAX {
                names.insert((found.kind, text[found.span].into()));
            }
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{KeepRecentStrategy, SummarizeOlderStrategy, Transcript, plan};

    #[test]
    fn what_is_folded_can_be_recalled_and_what_is_dropped_is_lost() {
        let words = "nothing to name here, only words; ".repeat(20);
        let items = ["src/old.rs", "src/new.rs"].map(|path| Item::user(path, format!("{path} {words}")));
        let transcript: Transcript = items.into_iter().collect();
        let view = View::of(&transcript);
        let of = |strategy: &dyn foldback_core::Strategy| {
            let after = plan(&view, strategy, None).expect("no budget is needed").apply_digest().view;
            losses(&view, &after)[&FactKind::Path]
        };
        let dropped = of(&KeepRecentStrategy::new(1));
        assert_eq!(dropped, Losses { kept: 1, recoverable: 0, lost: 1 });
        let folded = of(&SummarizeOlderStrategy::new(1).summary_tokens_max(foldback_core::Tokens(40)));
        assert_eq!((folded.lost, folded.kept + folded.recoverable), (0, 2));
    }
}
