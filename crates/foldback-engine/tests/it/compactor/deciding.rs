//! When a compactor compacts, and when it does not any more.

use crate::compactor::*;

fn ladder(budget: Budget) -> StrategyCompactorBuilder {
    StrategyCompactor::builder()
        .compaction_trigger(BudgetTrigger::new(&budget))
        .strategy(LadderStrategy::new())
        .budget(budget)
}

#[test]
fn what_cannot_work_is_not_built() {
    let built = |builder: StrategyCompactorBuilder| builder.build().map(|_| ()).unwrap_err();
    let new = StrategyCompactor::builder;
    let structural = || new().strategy(KeepRecentStrategy::new(8));
    assert_eq!(built(structural()), StrategyCompactorBuildError::MissingTrigger);
    assert_eq!(built(new().item_count_trigger(8)), StrategyCompactorBuildError::MissingStrategy);
    let no_budget = built(new().item_count_trigger(8).strategy(LadderStrategy::new()));
    assert!(matches!(no_budget, StrategyCompactorBuildError::MissingBudget { .. }));
    let percent = built(structural().context_window_trigger(Tokens(1_000), 101.0));
    assert!(matches!(percent, StrategyCompactorBuildError::Trigger(_)));
    let soft = |soft| built(ladder(budget_at(&session(4), 50)).background(soft));
    assert!(matches!(
        soft(Level::PercentOfUsable(85.0)),
        StrategyCompactorBuildError::SoftLevelTooHigh { .. }
    ));
    assert!(matches!(soft(Level::PercentOfUsable(101.0)), StrategyCompactorBuildError::Budget(_)));
    let ahead = structural().item_count_trigger(8).background(Level::PercentOfUsable(60.0));
    assert_eq!(built(ahead), StrategyCompactorBuildError::BackgroundWithoutBudget);
}

#[tokio::test]
async fn a_hook_may_veto_and_another_sees_what_was_made() {
    let view = session(6);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder::default();
    let build = |veto: bool| {
        let seen = Arc::clone(&seen);
        StrategyCompactor::builder()
            .item_count_trigger(4)
            .strategy(KeepRecentStrategy::new(4))
            .observer(recorder.clone())
            .before_compaction_start(move |_| if veto { Err("not now".into()) } else { Ok(()) })
            .after_compaction_end(move |_, result| seen.lock().unwrap().push(result.replaced_items))
            .build()
            .unwrap()
    };
    let vetoed = build(true).compact(request(&view), &CompactionContext::default()).await;
    assert!(matches!(vetoed, Err(CompactionError::Vetoed { why }) if why == "not now"));
    assert_eq!(recorder.names().last(), Some(&"failed"));
    assert!(seen.lock().unwrap().is_empty());
    let made = compact(&build(false), &view).await;
    assert_eq!(*seen.lock().unwrap(), [made.replaced_items]);
}

#[tokio::test]
async fn each_rejected_request_aims_lower_until_it_gives_up() {
    let mut view = session(20);
    let budget = budget_at(&view, 40);
    let compactor = ladder(budget).build().unwrap();
    assert_eq!(asks(&compactor, &view, MutationPoint::AfterToolResult), None, "it is believed to fit");
    let mut sizes = vec![view.tokens()];
    while asks(&compactor, &view, MutationPoint::AfterRequestRejected).is_some() {
        let rejected = CompactionRequest::new(SESSION, view.clone(), CompactionReason::OverflowRejected);
        view = compactor.compact(rejected, &CompactionContext::default()).await.unwrap().transcript;
        sizes.push(view.tokens());
        assert!(sizes.len() < 20, "attempts are capped");
    }
    assert!(sizes.len() > 2, "{sizes:?}");
    assert!(sizes.windows(2).all(|pair| pair[1] < pair[0]), "{sizes:?}");
}

#[tokio::test]
async fn a_limit_that_the_provider_names_is_what_the_next_view_stays_below() {
    let view = session(20);
    let budget = budget_at(&view, 40);
    let limit = budget.output_reserve() + budget.overhead() + Tokens(view.tokens().0 / 4);
    let rejected = || CompactionRequest::new(SESSION, view.clone(), CompactionReason::OverflowRejected);
    let context = CompactionContext::default();
    let blind = ladder(budget).build().unwrap().compact(rejected(), &context).await.unwrap();
    let told = ladder(budget)
        .build()
        .unwrap()
        .compact(CompactionRequest { limit: Some(limit), ..rejected() }, &context)
        .await
        .unwrap();
    let room = Tokens(view.tokens().0 / 4);
    assert!(blind.transcript.tokens() > room, "{} of {room}", blind.transcript.tokens());
    assert!(told.transcript.tokens() < room, "{} of {room}", told.transcript.tokens());
}

#[tokio::test]
async fn a_compaction_in_vain_is_not_tried_again_before_the_view_has_grown() {
    let mut view = session(6);
    // It fires, and leaves everything.
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(4)
        .strategy(KeepRecentStrategy::new(1_000))
        .build()
        .unwrap();
    let point = MutationPoint::AfterToolResult;
    assert!(asks(&compactor, &view, point).is_some());
    compact(&compactor, &view).await;
    assert_eq!(asks(&compactor, &view, point), None);
    for number in 0..view.len() {
        view.push(Item::user(format!("more{number}"), "go on"));
    }
    assert!(asks(&compactor, &view, point).is_some(), "it has grown");
}

#[tokio::test]
async fn a_view_too_large_for_the_next_model_is_compacted_when_the_model_is_switched() {
    let view = session(20);
    let compactor = ladder(budget_at(&view, 40)).build().unwrap();
    let point = MutationPoint::AfterTurnEnded;
    assert_eq!(asks(&compactor, &view, point), None);
    compactor.model_switched(&SESSION.into(), budget_at(&view, 100));
    assert_eq!(asks(&compactor, &view, point), Some(CompactionReason::ModelSwitched));
    let switched = CompactionRequest::new(SESSION, view.clone(), CompactionReason::ModelSwitched);
    let result = compactor.compact(switched, &CompactionContext::default()).await.unwrap();
    assert!(result.transcript.tokens() <= budget_at(&view, 100).target());
    assert_eq!(asks(&compactor, &result.transcript, point), None);
    let mut grown = result.transcript;
    for number in 0..view.len() {
        grown.push(Item::user(format!("more{number}"), "go on with the next of them, and the one after it"));
    }
    while grown.tokens() < view.tokens() {
        grown.push(Item::user(format!("more{}", grown.len()), "go on"));
    }
    let again = asks(&compactor, &grown, point);
    assert!(
        matches!(again, Some(CompactionReason::BudgetReached { .. })),
        "it was switched long ago: {again:?}"
    );
}

#[tokio::test]
async fn after_a_switch_to_a_larger_window_the_level_of_the_smaller_one_is_asked_no_more() {
    let view = session(20);
    let small = budget_at(&view, 100);
    let room = Room::new(small.window());
    let structural = || StrategyCompactor::builder().strategy(KeepRecentStrategy::new(8));
    let patient = BudgetTrigger::new(&small).with_hysteresis(trigger::Growth::DEFAULT).unwrap();
    let builders = [
        ladder(small),
        ladder(small).compaction_trigger(patient),
        StrategyCompactor::builder().policy(&Policy::default(), room),
        structural().context_window_trigger(small.window(), 90.0),
    ];
    for builder in builders {
        let compactor = builder.build().unwrap();
        let fires = || {
            let usage = Usage { input_tokens: view.tokens(), ..Usage::default() };
            let context = TriggerContext::of_view(&view, MutationPoint::AfterTurnEnded).with_reported(usage);
            compactor.should_compact(&SESSION.into(), None, &context).is_some()
        };
        assert!(fires(), "{compactor:?}");
        compactor.model_switched(&SESSION.into(), budget_at(&view, 40));
        assert!(!fires(), "{compactor:?}");
        compactor.model_switched(&SESSION.into(), budget_at(&view, 95));
        assert!(fires(), "{compactor:?}");
    }
}

#[tokio::test]
async fn after_a_switch_the_new_room_holds_whatever_the_host_set_up_before() {
    let view = session(20);
    let before = budget_at(&view, 40);
    let compactor = ladder(before).build().unwrap();
    let switched = budget_at(&view, 100);
    compactor.model_switched(&SESSION.into(), switched);
    let mut request = CompactionRequest::new(SESSION, view.clone(), CompactionReason::ModelSwitched);
    request.budget = Some(before);
    let result = compactor.compact(request, &CompactionContext::default()).await.unwrap();
    assert!(result.transcript.tokens() <= switched.target(), "{}", result.transcript.tokens());
    assert!(before.target() > switched.target());
}

#[tokio::test]
async fn a_focus_reaches_whoever_writes_the_summary() {
    let backend = Arc::new(Scripted::new(Reply::Say(SUMMARY)));
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(1_000)
        .strategy(SummarizeOlderStrategy::new(4))
        .backend(guarded(&backend))
        .build()
        .unwrap();
    let manual = CompactionRequest::new(SESSION, session(20), CompactionReason::Manual);
    let result = compactor.compact(manual.with_focus("the parser"), &CompactionContext::default()).await;
    assert_eq!(result.unwrap().written_by, ["scripted"]);
    let requests = backend.requests.lock().unwrap();
    assert_eq!(requests[0].focus.as_deref(), Some("the parser"));
    assert_eq!(requests[0].reason, CompactionReason::Manual);
}

#[test]
fn a_trigger_may_ask_the_compactor_what_it_remembers() {
    let compactor: Arc<std::sync::OnceLock<StrategyCompactor>> = Arc::default();
    let asked = Arc::clone(&compactor);
    let trigger = move |_: &TriggerContext<'_>, _| {
        let remembered = asked.get()?.last_compaction(&SESSION.into());
        remembered.is_none().then_some(CompactionReason::Manual)
    };
    let built = StrategyCompactor::builder().trigger(Box::new(trigger)).strategy(KeepRecentStrategy::new(1));
    compactor.set(built.build().unwrap()).unwrap();
    let reason = asks(compactor.get().unwrap(), &session(1), MutationPoint::AfterToolResult);
    assert_eq!(reason, Some(CompactionReason::Manual));
}
