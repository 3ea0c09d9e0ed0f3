//! One road: every driver of a compaction comes to the same items, and reports what it committed.

use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{
    Budget, Change, CompactionReason, Dialect, Item, ItemKind, Part, Policy, Strategy, Tokens, ToolResult,
    Transcript, View, check,
};
use foldback_engine::{
    Asked, BackendError, CompactionBackend, CompactionContext, CompactionError, CompactionRequest, Compactor,
    Execution, Outcome, Refusal, StrategyCompactor, SummaryLimits, SummaryRequest, SummaryResult, compact,
    compact_asking,
};
use foldback_testkit::recipe;
use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A server that is down.
#[derive(Debug)]
struct Failing;

#[async_trait]
impl CompactionBackend for Failing {
    async fn summarize(
        &self,
        _request: SummaryRequest,
        _cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError> {
        Err(BackendError::Unauthorized { status: 401 })
    }

    fn name(&self) -> &str {
        "failing"
    }
}

fn asked(
    view: &View,
    strategy: &Arc<dyn Strategy>,
    budget: Budget,
    dialect: Option<Dialect>,
) -> Result<Asked, CompactionError> {
    let mut request = CompactionRequest::new("s", view.clone(), CompactionReason::Manual).with_budget(budget);
    request.dialect = dialect;
    let context = CompactionContext::default().with_backend(Failing);
    let context = CompactionContext { limits: SummaryLimits { retries_max: 0, ..context.limits }, ..context };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(compact_asking(Arc::clone(strategy), &request, &context, None))
}

fn digested(
    view: &View,
    strategy: &Arc<dyn Strategy>,
    budget: Budget,
    dialect: Option<Dialect>,
) -> Result<Outcome, CompactionError> {
    let execution = Execution::new(view.clone(), Arc::clone(strategy)).with_budget(budget);
    compact(execution.with_dialect(dialect).caused_by(CompactionReason::Manual))
}

/// Rounds of reading and writing, with two rules and some thinking.
fn session(rounds: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Make the parser faster. Never touch src/lexer.rs."));
    for number in 0..rounds {
        let (call, path) = (format!("c{number}"), format!("src/rule_{number}.rs"));
        let parts = vec![
            Part::reasoning("what next? "),
            Part::call(call.clone(), "Read", &json!({"file_path": path})),
        ];
        transcript.push(Item::assistant(format!("a{number}"), parts));
        let body = format!("fn parse_rule_{number}(input: &str) -> Result<Rule, ParseError>\n").repeat(12);
        transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, body)));
        if number % 7 == 3 {
            transcript.push(Item::assistant(format!("s{number}"), vec![Part::text("That was it.")]));
            transcript.push(Item::user(format!("u{number}"), "Go on, please. Use tabs, not spaces."));
        }
    }
    transcript.push(Item::user("last", "And now?"));
    transcript
}

fn policies() -> Vec<Policy> {
    Policy::all().collect()
}

fn ids(view: &View) -> Vec<&Arc<Item>> {
    view.items().collect()
}

#[test]
fn a_backend_that_always_fails_gives_the_items_that_no_backend_gives() {
    let view = View::of(&session(60));
    for policy in policies() {
        let strategy = policy.strategy();
        for percent in [3, 8, 15, 40, 80] {
            let budget = Budget::for_target(Tokens(view.tokens().0 * percent / 100)).unwrap();
            let told = format!("{} at {percent}%", policy.name());
            let alone = digested(&view, &strategy, budget, None);
            match (alone, asked(&view, &strategy, budget, None)) {
                (Ok(alone), Ok(asked)) => {
                    assert!(alone.view.tokens() <= budget.target(), "{told}: {}", alone.view.tokens());
                    assert_eq!(ids(&alone.view), ids(&asked.outcome.view), "{told}");
                    assert_eq!(alone.blocks, asked.outcome.blocks, "{told}");
                }
                (Err(alone), Err(asked)) => assert_eq!(alone.to_string(), asked.to_string(), "{told}"),
                (alone, asked) => panic!("{told}: {alone:?} and {asked:?}"),
            }
        }
    }
}

/// A summary that was asked for may be larger than what it replaces, but not where that is what does not fit.
#[test]
fn what_cannot_shrink_is_the_same_whoever_writes_the_summary() {
    let items = [
        Item::assistant("a", vec![Part::call("c", "run", &json!({}))]).pinned(),
        Item::text("n", ItemKind::Notification, "a job has finished"),
        Item::tool("t", ToolResult::text("c", "done")),
        Item::user("u", "and now? ".repeat(300)),
    ];
    let view = View::of(&items.into_iter().collect());
    let strategy = Policy::named("codex").unwrap().strategy();
    let budget = Budget::for_target(Tokens(22)).unwrap();
    let chat = Some(Dialect::OpenaiChat);
    let alone = digested(&view, &strategy, budget, chat).unwrap_err();
    assert_eq!(format!("{alone:?}"), format!("{:?}", asked(&view, &strategy, budget, chat).unwrap_err()));
}

proptest! {
    #![proptest_config(foldback_testkit::costly(5))]

    /// T2, T7, T8: for any session, policy, provider and target there is one result. It fits, or the
    /// error names what cannot shrink; a second run changes nothing.
    #[test]
    fn every_policy_comes_to_one_result_that_fits(
        recipe in recipe::recipe(),
        policy in prop::sample::select(policies()),
        dialect in prop::sample::select(Dialect::ALL.to_vec()),
        percent in 2u64..100,
    ) {
        let view = View::of(&recipe.transcript());
        let strategy = policy.strategy();
        let budget = Budget::for_target(Tokens((view.tokens().0 * percent / 100).max(1))).unwrap();
        let alone = digested(&view, &strategy, budget, Some(dialect));
        let asked = asked(&view, &strategy, budget, Some(dialect));
        match (alone, asked) {
            (Ok(alone), Ok(asked)) => {
                prop_assert_eq!(&alone.blocks, &asked.outcome.blocks);
                prop_assert_eq!(ids(&alone.view), ids(&asked.outcome.view));
                prop_assert!(alone.view.tokens() <= budget.target());
                prop_assert_eq!(check(alone.view.items(), Some(dialect)), []);
                reports_what_it_committed(&alone);
                let again = digested(&alone.view, &strategy, budget, Some(dialect)).unwrap();
                prop_assert!(again.is_unchanged(), "{}", again.strategy);
            }
            (
                Err(CompactionError::Refused(Refusal::BudgetInfeasible(one))),
                Err(CompactionError::Refused(Refusal::BudgetInfeasible(other))),
            ) => {
                prop_assert_eq!(&one, &other);
                prop_assert!(one.kernel_tokens > budget.target());
            }
            (alone, asked) => prop_assert!(false, "{alone:?} and {asked:?}"),
        }
    }
}

/// The blocks, put in force one after the other, are the way from the view before to the view after.
fn reports_what_it_committed(outcome: &Outcome) {
    let known = outcome.before.overlay().blocks().len();
    assert_eq!(outcome.view.overlay().blocks()[known..], outcome.blocks[..]);
    let mut tokens = outcome.before.tokens();
    for (number, block) in outcome.blocks.iter().enumerate() {
        assert_eq!(block.tokens_before, tokens, "block {number}");
        assert_eq!(block.is_joined, number > 0, "block {number}");
        tokens = block.tokens_after;
    }
    assert_eq!(tokens, outcome.view.tokens());
    assert_eq!(outcome.change(), Change::between(&outcome.before, &outcome.view));
}

#[test]
fn a_strategy_and_the_ladder_that_goes_on_are_one_block() {
    let view = View::of(&session(60));
    let budget = Budget::for_target(Tokens(500)).unwrap();
    let policy = Policy::named("agentkit").unwrap();
    let outcome = digested(&view, &policy.strategy(), budget, None).unwrap();
    assert!(outcome.view.tokens() <= Tokens(500));
    assert_eq!(outcome.blocks.len(), 1);
    assert!(outcome.blocks[0].strategy.ends_with(" → ladder"), "{}", outcome.blocks[0].strategy);
    reports_what_it_committed(&outcome);
}

#[tokio::test]
async fn a_compactor_commits_what_the_digest_driver_commits() {
    let view = View::of(&session(60));
    let budget = Budget::for_target(Tokens(900)).unwrap();
    for policy in policies() {
        let room = foldback_core::Room::new(Tokens(900));
        let builder = StrategyCompactor::builder().policy(&policy, room).budget(budget);
        let compactor = builder.build().unwrap();
        let request = CompactionRequest::new("s", view.clone(), CompactionReason::Manual);
        let result = compactor.compact(request, &CompactionContext::default()).await.unwrap();
        let alone = digested(&view, &policy.strategy(), budget, None).unwrap();
        assert_eq!(ids(&result.transcript), ids(&alone.view), "{}", policy.name());
    }
}
