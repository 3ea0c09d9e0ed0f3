//! The ladder keeps its promise with exact counts too. They are harder than estimates: a text cut
//! in its middle may cost more than the sum of its ends, and a prefix more than the whole.

use std::sync::Arc;

use foldback_core::{Budget, Dialect, LadderStrategy, PlanError, Tokens, Transcript, View, dialect, plan};
use foldback_testkit::kernel::kernel_tokens;
use foldback_testkit::recipe::{Recipe, recipe};
use foldback_tokens::BpeCounter;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

fn stays_valid(before: &View, after: &View) -> Result<(), TestCaseError> {
    for dialect in Dialect::ALL.into_iter().map(Some).chain([None]) {
        if dialect::check(before.items(), dialect).is_empty() {
            let violations = dialect::check(after.items(), dialect);
            prop_assert!(violations.is_empty(), "{dialect:?}: {violations:?}\n{}", after.shape());
        }
    }
    Ok(())
}

fn fits_or_is_infeasible(recipe: &Recipe, counter: BpeCounter, percent: u64) -> Result<(), TestCaseError> {
    let mut transcript = Transcript::new(Arc::new(counter));
    transcript.extend(recipe.items());
    let before = View::of(&transcript);
    let target = Tokens((before.tokens().0 * percent / 100).max(1));
    let budget = Budget::for_target(target).expect("a target of at least one token");
    let kernel = kernel_tokens(&transcript, budget.target());
    match plan(&before, &LadderStrategy::new(), Some(&budget)) {
        Ok(plan) => {
            let compacted = plan.apply_floor();
            let after = &compacted.view;
            prop_assert!(after.tokens() <= target, "{} of {target}\n{}", after.tokens(), after.shape());
            prop_assert_eq!(after.tokens(), compacted.block.tokens_after);
            prop_assert!(plan.is_empty() || kernel <= target, "the kernel of {} fits {}", kernel, target);
            stays_valid(&before, after)
        }
        Err(PlanError::BudgetInfeasible(infeasible)) => {
            prop_assert_eq!(infeasible.kernel_tokens, kernel);
            prop_assert!(kernel > target, "{} fits {}", kernel, target);
            Ok(())
        }
        Err(error) => Err(TestCaseError::fail(error.to_string())),
    }
}

proptest! {
    #![proptest_config(foldback_testkit::costly(25))]

    #[test]
    fn the_ladder_fits_an_exact_budget_unless_the_kernel_does_not(
        recipe in recipe(), percent in 0u64..110,
    ) {
        fits_or_is_infeasible(&recipe, BpeCounter::o200k(), percent)?;
        fits_or_is_infeasible(&recipe, BpeCounter::cl100k(), percent)?;
    }
}
