//! Whatever was recorded and whatever a backend does.

use foldback_testkit::recipe;
use proptest::prelude::{
    Just, Strategy as Generator, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};

use super::*;

/// Windows from which on a backend is asked whatever the fold.
const WINDOW_MIN: u64 = 4_000;

/// Folds with this much room are a backend's, smaller ones may be the digest's.
const TOKENS_MAX_MIN: u64 = 120;

fn reply() -> impl Generator<Value = Reply> {
    let failure = prop_oneof![
        Just(BackendError::Server { status: 529, retry_after: None }),
        Just(BackendError::RateLimited { retry_after: Some(Duration::from_secs(2)) }),
        Just(BackendError::Overflow { limit: None }),
        Just(BackendError::Overflow { limit: Some(Tokens(3_000)) }),
        Just(BackendError::Connection { why: "refused".to_owned() }),
        Just(BackendError::Malformed { why: "no JSON".to_owned() }),
        Just(BackendError::Timeout { after: Duration::from_secs(9) }),
        Just(BackendError::Unauthorized { status: 401 }),
        Just(BackendError::Rejected { status: 422, message: "no".to_owned() }),
        Just(BackendError::Unavailable { why: "too much was spent".to_owned() }),
    ];
    prop_oneof![
        4 => Just(Reply::Say(GOOD)),
        1 => Just(Reply::Say("")),
        1 => Just(Reply::Say("I cannot help with that.")),
        1 => (1usize..200).prop_map(Reply::Long),
        1 => Just(Reply::Finish(GOOD, FinishReason::Length)),
        1 => Just(Reply::Finish(GOOD, FinishReason::ContentFilter)),
        1 => Just(Reply::Hang),
        1 => (1u64..100).prop_map(|secs| Reply::After(Duration::from_secs(secs), Box::new(Reply::Say(GOOD)))),
        2 => failure.prop_map(Reply::Fail),
    ]
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime of one thread starts").block_on(future)
}

proptest! {
    #![proptest_config(foldback_testkit::costly(16))]

    /// No request is larger than a window that is known, every fold gets a summary that is taken,
    /// before the deadline, and the same script gives the same summary (T6).
    #[test]
    fn every_fold_is_filled_in_time_and_no_request_is_larger_than_the_window(
        recipe in recipe::recipe(),
        replies in prop::collection::vec(reply(), 1..6),
        window in WINDOW_MIN..30_000,
        tokens_max in 40u64..1_200,
        candidates in 1usize..4,
        chunks_max in 1usize..17,
    ) {
        let transcript = recipe.transcript();
        let plan = fold(&transcript, tokens_max);
        let limits = SummaryLimits { candidates, chunks_max, ..SummaryLimits::default() };
        let backend = Scripted::new(replies.clone()).window(window);
        let run = block_on(run_with(&plan, &backend, &limits, &BackendGuard::default()));
        prop_assert!(run.took <= limits.deadline, "{:?}", run.took);
        let is_asked = plan.folds().any(|fold| fold.spec.tokens_max.0 >= TOKENS_MAX_MIN);
        prop_assert!(!is_asked || !backend.requests().is_empty());
        let meter = transcript.meter();
        for request in backend.requests() {
            let beside = request.previous.iter().chain(&request.staying);
            let items = request.items.iter().chain(beside).chain(&request.digest);
            let items: Tokens = items.map(|item| meter.item(item).total).sum();
            let demands: u64 = request.demands.iter().map(|demand| meter.text(demand)).sum();
            let all = items + Tokens(demands) + request.tokens_max.unwrap() + backend.prompt_tokens();
            prop_assert!(all.0 <= window, "{all} in a window of {window}");
            let prefix = request.prefix.iter().flatten().map(|item| meter.item(item).total);
            let prefix = prefix.chain(request.staying.iter().map(|item| meter.item(item).total));
            let prefixed = prefix.sum::<Tokens>() + request.tokens_max.unwrap() + backend.prompt_tokens();
            prop_assert!(prefixed.0 <= window, "{prefixed} in a window of {window}");
        }
        let again = Scripted::new(replies).window(window);
        let again = block_on(run_with(&plan, &again, &limits, &BackendGuard::default()));
        let summaries = run.filled.expect("only cancellation is an error").summaries;
        prop_assert_eq!(&summaries, &again.filled.expect("as above").summaries);
        prop_assert_eq!(run.took, again.took);
        prop_assert!(plan.apply(summaries).is_ok());
    }
}
