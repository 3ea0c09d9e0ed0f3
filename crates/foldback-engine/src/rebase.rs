//! A compaction takes time, and conversations go on: [`rebase`] puts what was recorded meanwhile
//! behind what the compaction led to.

use std::sync::Arc;

use foldback_core::{Overlay, View};

/// Why a compaction cannot be taken any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RebaseError {
    /// Another compaction came first.
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
    if !is_same_overlay(base.overlay(), current.overlay()) {
        return Err(RebaseError::Conflict);
    }
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
    Ok(view)
}

/// Whether the same blocks are in force.
pub(crate) fn is_same_overlay(first: &Overlay, second: &Overlay) -> bool {
    let (first, second) = (first.blocks(), second.blocks());
    first.len() == second.len() && first.iter().zip(second).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{Budget, Item, LadderStrategy, Tokens, Transcript, plan};
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
}
