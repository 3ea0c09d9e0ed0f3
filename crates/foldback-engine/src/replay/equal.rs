//! Brings any decision to a given size, so that policies can be compared at equal tokens.

use std::sync::Arc;

use foldback_core::kernel::Floors;
use foldback_core::summary::SUMMARY_TOKENS_MIN;
use foldback_core::{Budget, Draft, ItemKind, Part, Reason, Strategy, Tokens};

const ID: &str = "equal-tokens";

/// Another strategy's decision, made at its own budget and then brought to the target: its summary
/// gets what the part that it keeps leaves, and where that part alone is larger, its oldest is cut.
#[derive(Clone, Debug)]
pub struct EqualTokensStrategy {
    decision: Arc<dyn Strategy>,
    own: Budget,
}

impl EqualTokensStrategy {
    /// `decision` as it is made at its `own` budget.
    pub fn new(decision: Arc<dyn Strategy>, own: Budget) -> Self {
        Self { decision, own }
    }
}

impl Strategy for EqualTokensStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn needs_budget(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("{ID}({})", self.decision.describe())
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        let Some(target) = budget.map(Budget::target) else { return };
        self.decision.plan(draft, Some(&self.own));
        let kept = |draft: &Draft<'_>| draft.tokens().saturating_sub(draft.summary_tokens());
        let least = match draft.summary_tokens() {
            Tokens::ZERO => Tokens::ZERO,
            _ => Tokens(SUMMARY_TOKENS_MIN),
        };
        let room = target.saturating_sub(least);
        if kept(draft) > room {
            cut_oldest(draft, room, kept);
        }
        if kept(draft) > room {
            shorten_in_flight(draft, &Floors::for_target(target), room, kept);
        }
        if kept(draft) > room {
            let reason = Reason::new(ID, "no room for a summary beside what must stay");
            draft.drop_summaries(reason);
        }
        draft.size_summaries(target.saturating_sub(kept(draft)));
    }
}

/// Drops the oldest of what is kept, a unit at a time, instructions excepted.
fn cut_oldest(draft: &mut Draft<'_>, room: Tokens, kept: impl Fn(&Draft<'_>) -> Tokens) {
    let keep = |_: usize, kind: ItemKind| kind.is_instruction();
    let excess = kept(draft).saturating_sub(room);
    let mut passed = Tokens::ZERO;
    for position in draft.hideable(0..draft.len(), keep) {
        passed += draft.tokens_at(position);
        if passed < excess {
            continue;
        }
        // Where a unit reaches further, it goes with its last item.
        let reason = Reason::new(ID, "the oldest of what is kept, for which there is no room");
        draft.drop_units(0..position + 1, keep, reason);
        if kept(draft) <= room {
            return;
        }
    }
}

/// The last step where the newest round alone is too large.
fn shorten_in_flight(
    draft: &mut Draft<'_>,
    floors: &Floors,
    room: Tokens,
    kept: impl Fn(&Draft<'_>) -> Tokens,
) {
    for position in draft.unit_in_flight() {
        let parts: Vec<(usize, Part)> =
            draft.parts(position).map(|(index, part)| (index, part.clone())).collect();
        let Some(kind) = draft.item(position).map(|item| item.kind) else { continue };
        for (part_index, part) in parts {
            if kept(draft) <= room {
                return;
            }
            let handle = draft.part_handle(position, part_index);
            if let Some(floor) = floors.in_flight(kind, &part, &handle, draft.meter()) {
                let reason = Reason::new(ID, "in flight, and there is no room for all of it");
                draft.shorten_in_flight(position, part_index, floor, reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, prop_assert, proptest};

    use super::*;
    use crate::compaction::CompactionError;
    use crate::executor::compact;
    use foldback_core::{
        Dialect, Execution, Item, PreserveUserMessagesStrategy, Refusal, SummarizeOlderStrategy, Tokens,
        Transcript, View, plan,
    };
    use foldback_testkit::recipe;

    proptest! {
        #![proptest_config(foldback_testkit::costly(10))]

        /// T2: cutting at any place splits no pair; where the size cannot be reached, it is said.
        #[test]
        fn a_decision_brought_to_any_size_stays_valid(
            recipe in recipe::recipe(),
            dialect in prop::sample::select(Dialect::ALL.to_vec()),
            percent in 1u64..100,
            kept in 0usize..12,
        ) {
            let view = View::of(&recipe.transcript());
            let target = Tokens((view.tokens().0 * percent / 100).max(1));
            let budget = Budget::for_target(target).expect("above zero");
            let own = Budget::for_target(Tokens(100_000)).expect("above zero");
            let strategy = EqualTokensStrategy::new(Arc::new(SummarizeOlderStrategy::new(kept)), own);
            let execution = Execution::new(view, strategy).with_budget(budget).with_dialect(dialect);
            match compact(execution) {
                Ok(outcome) => prop_assert!(outcome.view.tokens() <= target),
                Err(CompactionError::Refused(Refusal::BudgetInfeasible(_))) => {}
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    fn talk(count: usize) -> Transcript {
        let words = "a sentence that says something; ".repeat(20);
        let talk = (0..count).flat_map(|number| {
            [
                Item::user(format!("u{number}"), words.clone()),
                Item::assistant(format!("a{number}"), vec![Part::text(words.clone())]),
            ]
        });
        talk.collect()
    }

    fn at(strategy: impl Strategy + 'static, target: u64) -> (Tokens, Vec<Tokens>, Vec<String>) {
        let own = Budget::for_target(Tokens(100_000)).expect("above zero");
        let budget = Budget::for_target(Tokens(target)).expect("above zero");
        let equal = EqualTokensStrategy::new(Arc::new(strategy), own);
        let view = View::of(&talk(40));
        let plan = plan(&view, &equal, Some(&budget)).expect("it fits");
        let sizes = plan.folds().map(|fold| fold.spec.tokens_max).collect();
        let compacted = plan.apply_digest();
        let ids = compacted.view.items().filter(|item| item.summary.is_none());
        (plan.tokens_after(), sizes, ids.map(|item| item.id.to_string()).collect())
    }

    #[test]
    fn a_summary_gets_what_the_kept_part_leaves() {
        let (tokens, sizes, ids) = at(SummarizeOlderStrategy::new(4), 3_000);
        assert_eq!(tokens, Tokens(3_000));
        assert_eq!(ids, ["u38", "a38", "u39", "a39"]);
        assert!(sizes[0] > Tokens(1_000), "{sizes:?}");
    }

    #[test]
    fn where_the_kept_part_is_larger_its_oldest_is_cut() {
        let (tokens, sizes, ids) = at(PreserveUserMessagesStrategy::new(), 1_000);
        assert!(tokens <= Tokens(1_000));
        assert_eq!(sizes.len(), 1);
        assert_eq!(ids.last().map(String::as_str), Some("u39"));
        assert!(ids.len() < 40 && !ids.contains(&"u0".to_owned()), "{ids:?}");
    }
}
