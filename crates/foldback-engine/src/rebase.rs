//! A compaction takes time, and conversations go on: [`rebase`] puts what was recorded meanwhile
//! behind what the compaction led to.

use std::sync::Arc;

use foldback_core::{CompactionBlock, Edit, Overlay, View};

/// Why a compaction cannot be taken any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RebaseError {
    /// Another compaction came first. One that only shortened what was recorded meanwhile is none.
    #[error("another compaction was committed meanwhile; compact again")]
    Conflict,
    /// The conversation was rewound or belongs to somebody else.
    #[error("the recorded items are not those that the compaction began with; compact again")]
    AnotherTranscript,
    /// It recorded repaired items in the places that new ones have taken.
    #[error("items were recorded where the compaction put its repairs; compact again")]
    Repaired,
}

/// The view that `compacted` leads to, with everything that `current` recorded since `base`, in order.
/// Edits name places in the append-only record, so nothing has to be planned again. Costs what was
/// recorded since, and a comparison of what was there before.
pub fn rebase(base: &View, compacted: &View, current: &View) -> Result<View, RebaseError> {
    let meanwhile = blocks_since(base, current).ok_or(RebaseError::Conflict)?;
    let (recorded, now) = (base.transcript(), current.transcript());
    let is_longer = recorded.len() <= now.len()
        && recorded.items().zip(now.items()).all(|(then, now)| Arc::ptr_eq(then, now));
    if !is_longer {
        return Err(RebaseError::AnotherTranscript);
    }
    if compacted.transcript().len() > recorded.len() && now.len() > recorded.len() {
        return Err(RebaseError::Repaired);
    }
    let mut view = compacted.clone();
    now.range(recorded.len()..now.len()).for_each(|entry| view.push(Arc::clone(entry.item())));
    if meanwhile.is_empty() {
        return Ok(view);
    }
    // What was prepared is committed last, so that it is undone first.
    let prepared = compacted.overlay().blocks().iter().skip(base.overlay().blocks().len());
    let prepared = prepared
        .map(|block| Arc::new(CompactionBlock { item_count: now.len(), ..CompactionBlock::clone(block) }));
    let blocks = current.overlay().blocks().iter().cloned().chain(prepared);
    View::through(view.transcript(), &blocks.collect::<Overlay>()).map_err(|_| RebaseError::Conflict)
}

/// The blocks that `current` has beside those of `base`, which it grew from. None where they change what
/// `base` shows.
pub(crate) fn blocks_since<'v>(base: &View, current: &'v View) -> Option<&'v [Arc<CompactionBlock>]> {
    let (known, now) = (base.overlay().blocks(), current.overlay().blocks());
    let (kept, since) = now.split_at_checked(known.len())?;
    let is_same = kept.iter().zip(known).all(|(a, b)| Arc::ptr_eq(a, b) || a == b);
    let recorded_count = base.transcript().len();
    let is_later = |edit: &Edit| match edit {
        Edit::Rewrite(rewrite) => rewrite.item_index >= recorded_count,
        Edit::Drop(_) | Edit::Fold(_) => false,
    };
    (is_same && since.iter().all(|block| block.edits.iter().all(is_later))).then_some(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{
        Budget, FreshOnlyStrategy, Item, LadderStrategy, Part, Tokens, ToolResult, Transcript,
        TruncateToolOutputsStrategy, plan,
    };
    use foldback_testkit::recipe;
    use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

    proptest! {
        #![proptest_config(foldback_testkit::costly(10))]

        /// T1: what arrives during a compaction is there afterwards, in order, behind the compacted
        /// past.
        #[test]
        fn what_arrives_meanwhile_is_all_there_in_order(
            recipe in recipe::recipe(),
            cut in prop::num::usize::ANY,
            percent in 10u64..90,
        ) {
            let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
            let (past, arrived) = items.split_at(cut % (items.len() + 1));
            let base = View::of(&past.iter().cloned().collect::<Transcript>());
            let mut current = base.clone();
            arrived.iter().for_each(|item| current.push(Arc::clone(item)));
            let budget = Budget::for_target(Tokens((base.tokens().0 * percent / 100).max(1))).unwrap();
            let Ok(plan) = plan(&base, &LadderStrategy::new(), Some(&budget)) else { return Ok(()) };
            let compacted = plan.apply_digest().view;
            let rebased = rebase(&base, &compacted, &current).unwrap();
            prop_assert!(rebased.transcript().items().eq(current.transcript().items()));
            let tail: Vec<_> = rebased.items().skip(compacted.len()).collect();
            prop_assert_eq!(tail, arrived.iter().collect::<Vec<_>>());
            let made = View::through(current.transcript(), compacted.overlay()).unwrap();
            prop_assert!(rebased.items().eq(made.items()));
            if !plan.is_empty() {
                let conflict = rebase(&base, &compacted, &compacted).map(|view| view.len());
                prop_assert_eq!(conflict, Err(RebaseError::Conflict));
            }
        }
    }

    #[test]
    fn what_was_shortened_meanwhile_is_no_conflict_and_is_undone_last() {
        let round = |number: usize| {
            let call = Part::call(format!("c{number}"), "read", &serde_json::json!({}));
            let output = ToolResult::text(format!("c{number}"), "a line of what it says\n".repeat(200));
            [Item::assistant(format!("a{number}"), vec![call]), Item::tool(format!("t{number}"), output)]
        };
        let shorten = TruncateToolOutputsStrategy::by_lines(5).unwrap().shorten_fresh();
        let past: Transcript = (0..20).flat_map(round).collect();
        let base = View::of(&past);
        let budget = Budget::for_target(Tokens(base.tokens().0 / 4)).unwrap();
        let compacted = plan(&base, &LadderStrategy::new(), Some(&budget)).unwrap().apply_digest().view;
        let mut current = base.clone();
        round(20).into_iter().for_each(|item| current.push(item));
        let fresh = FreshOnlyStrategy::new(shorten.clone());
        let shortened = plan(&current, &fresh, None).unwrap().apply_digest().view;
        let rebased = rebase(&base, &compacted, &shortened).unwrap();
        let blocks = rebased.overlay().blocks();
        assert_eq!(blocks[0], shortened.overlay().blocks()[0]);
        assert_eq!(blocks.len(), 1 + compacted.overlay().blocks().len());
        assert_eq!(rebased.items().last(), shortened.items().last());
        assert!(rebased.items().take(compacted.len()).eq(compacted.items()));
        assert!(blocks.iter().all(|block| block.item_count == current.transcript().len()));
        let all = plan(&current, &shorten, None).unwrap().apply_digest().view;
        let conflict = rebase(&base, &compacted, &all).map(|view| view.len());
        assert_eq!(conflict, Err(RebaseError::Conflict), "what was read is another");
    }
}
