//! Backends that several compactors share.

use crate::compactor::*;

#[tokio::test]
async fn a_backend_that_failed_in_one_conversation_is_not_asked_in_the_next() {
    let dead = Arc::new(Scripted::new(Reply::Fail(BackendError::Unauthorized { status: 401 })));
    let backend = guarded(&dead);
    let failures_max = GuardLimits::default().failures_max as usize;
    for conversation in 0..2 * failures_max {
        let compactor = StrategyCompactor::builder()
            .item_count_trigger(4)
            .strategy(SummarizeOlderStrategy::new(4))
            .backend(backend.clone())
            .build()
            .unwrap();
        assert_eq!(compact(&compactor, &session(9)).await.written_by, ["digest"]);
        let asked_count = dead.requests.lock().unwrap().len();
        assert_eq!(asked_count, (conversation + 1).min(failures_max));
    }
}

#[tokio::test]
async fn a_backend_given_with_the_request_has_a_guard_of_its_own() {
    let limits = GuardLimits { failures_max: 1, ..GuardLimits::default() };
    let dead = Scripted::new(Reply::Fail(BackendError::Unauthorized { status: 401 }));
    let dead = GuardedBackend::from(dead).guarded_by(BackendGuard::new(limits));
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(dead)
        .build()
        .unwrap();
    let view = session(9);
    assert_eq!(compact(&compactor, &view).await.written_by, ["digest"]);
    let other = CompactionContext::default().with_backend(Scripted::new(Reply::Say(SUMMARY)));
    let result = compactor.compact(request(&view), &other).await.unwrap();
    assert_eq!(result.written_by, ["scripted"], "it has not failed");
}
