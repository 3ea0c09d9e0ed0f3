//! Plan, fill, check, commit: [`compact`].

mod run;

use foldback_core::{
    Budget, Compacted, CompactionReason, Dialect, Plan, Repair, Strategy, Timestamp, Tokens, View, check,
    plan,
};

use crate::compaction::CompactionError;
use crate::mend::mend;
pub(crate) use run::{Ran, run};

/// What to compact, how, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    /// What the model sees now.
    pub view: &'a View,
    /// What to do about it.
    pub strategy: &'a dyn Strategy,
    /// How much room there is; structural strategies need none.
    pub budget: Option<&'a Budget>,
    /// Whose rules the result must keep; without one, those that all share.
    pub dialect: Option<Dialect>,
    /// Why it is done (T9).
    pub cause: Option<&'a CompactionReason>,
    /// When it is done.
    pub now: Option<Timestamp>,
}

/// A compaction that was carried out, in memory.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was planned, on the view after repairs.
    pub plan: Plan,
    /// The view it led to, and the block to store.
    pub compacted: Compacted,
    /// What had to be repaired first.
    pub repairs: Vec<Repair>,
}

impl Outcome {
    /// Whether anything changed.
    pub fn is_unchanged(&self) -> bool {
        self.plan.is_empty() && self.repairs.is_empty()
    }
}

/// Plans, and stops there.
pub fn dry_run(request: &Execution<'_>) -> Result<(Plan, Vec<Repair>), CompactionError> {
    let mended = mend(request.view, request.dialect);
    Ok((planned(request, &mended.view)?, mended.repairs))
}

/// Plans, fills, checks, commits. For callers that cannot wait: the digest writes the summaries.
pub fn compact(request: &Execution<'_>) -> Result<Outcome, CompactionError> {
    let (plan, repairs) = dry_run(request)?;
    let compacted = plan.apply_digest();
    let target = request.budget.filter(|_| request.strategy.needs_budget()).map(Budget::target);
    judge(plan.strategy(), plan.view(), &compacted.view, target, request.dialect)?;
    Ok(Outcome { plan, compacted, repairs })
}

/// The plan for a view that has been mended.
fn planned(request: &Execution<'_>, view: &View) -> Result<Plan, CompactionError> {
    let mut plan = plan(view, request.strategy, request.budget)?;
    if let Some(cause) = request.cause {
        plan = plan.caused_by(cause.clone());
    }
    if let Some(now) = request.now {
        plan = plan.made_at(now);
    }
    Ok(plan)
}

/// The last look before a commit: valid for the dialect, no larger than before (T7), and within the
/// target where the strategy works towards one.
fn judge(
    strategy: &str,
    before: &View,
    after: &View,
    target: Option<Tokens>,
    dialect: Option<Dialect>,
) -> Result<(), CompactionError> {
    let strategy = || strategy.to_owned();
    let violations = check(after.items(), dialect);
    if !violations.is_empty() {
        return Err(CompactionError::Invalid { strategy: strategy(), violations });
    }
    let tokens = after.tokens();
    if tokens > before.tokens() {
        let why = format!("the view would grow from {} to {tokens} tokens", before.tokens());
        return Err(CompactionError::Failed { strategy: strategy(), why });
    }
    match target {
        Some(target) if tokens > target => {
            Err(CompactionError::OverTarget { strategy: strategy(), tokens, target })
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;
    use foldback_core::{DropReasoningStrategy, LadderStrategy, Overlay, StrategyPipeline};
    use foldback_testkit::{config, recipe};

    /// Planning itself has its own properties; here it is the road around it.
    const CASES: u32 = 2_000;

    fn request<'a>(view: &'a View, strategy: &'a dyn Strategy) -> Execution<'a> {
        Execution { view, strategy, budget: None, dialect: None, cause: None, now: None }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: CASES, ..config() })]

        /// T1, T2: whatever was recorded, what comes out is valid, and the record is untouched.
        #[test]
        fn every_outcome_is_valid_and_leaves_the_record_alone(
            recipe in recipe::recipe(),
            dialect in prop::sample::select(Dialect::ALL.to_vec()),
            percent in 5u64..100,
        ) {
            let transcript = recipe.transcript();
            let view = View::of(&transcript);
            let budget = Budget::for_target(Tokens((view.tokens().0 * percent / 100).max(1))).unwrap();
            let ladder = LadderStrategy::new();
            let request = Execution {
                budget: Some(&budget),
                dialect: Some(dialect),
                ..request(&view, &ladder)
            };
            match compact(&request) {
                Ok(outcome) => {
                    prop_assert_eq!(check(outcome.compacted.view.items(), Some(dialect)), []);
                    prop_assert!(outcome.compacted.view.tokens() <= budget.target());
                    let recorded = outcome.compacted.view.transcript();
                    prop_assert!(recorded.items().zip(transcript.items()).all(|(now, then)| now == then));
                    prop_assert!(recorded.len() >= transcript.len());
                }
                Err(CompactionError::BudgetInfeasible(error)) => {
                    prop_assert!(error.kernel_tokens > budget.target());
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    #[test]
    fn a_ladder_without_a_budget_is_refused() {
        let view = View::of(&foldback_core::Transcript::default());
        let ladder = LadderStrategy::new();
        assert!(matches!(compact(&request(&view, &ladder)), Err(CompactionError::BudgetRequired { .. })));
        let structural = StrategyPipeline::new().with_strategy(DropReasoningStrategy::new());
        let outcome = compact(&request(&view, &structural)).unwrap();
        assert!(outcome.is_unchanged());
        assert_eq!(outcome.compacted.view.overlay(), &Overlay::default());
    }
}
