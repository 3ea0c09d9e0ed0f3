//! Every way in which a backend is no help, and what comes of it.

use super::*;

fn server(status: u16) -> Reply {
    Reply::Fail(BackendError::Server { status, retry_after: None })
}

/// The digest, as the plan itself would write it.
fn is_digest(run: &Run, plan: &Plan) -> bool {
    run.written_by() == "digest" && *run.summary() == plan.requests().next().unwrap().digest()
}

#[tokio::test(start_paused = true)]
async fn answers_that_cannot_be_taken_end_in_the_digest_and_in_the_events() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let thought = Item::new("s", ItemKind::Context, vec![Part::reasoning("hm")]);
    let called = Item::new("s", ItemKind::Context, vec![Part::call("c", "read", &serde_json::json!({}))]);
    type IsExpected = fn(&SummaryFault) -> bool;
    let cases: Vec<(Reply, IsExpected, usize)> = vec![
        (Reply::Say(" \n"), |fault| *fault == SummaryFault::Empty, 2),
        (Reply::Finish(GOOD, FinishReason::Length), |fault| *fault == SummaryFault::Truncated, 2),
        (Reply::Finish("", FinishReason::ContentFilter), |fault| *fault == SummaryFault::Refused, 1),
        (Reply::Say("I'm sorry, but I can't help with that."), |fault| *fault == SummaryFault::Refused, 1),
        (Reply::Long(2_000), |fault| matches!(fault, SummaryFault::Inflated { .. }), 2),
        (
            Reply::Say("They talked about software for a while."),
            |fault| matches!(fault, SummaryFault::Incomplete { .. }),
            2,
        ),
        (Reply::Give(SummaryResult::new(vec![thought])), |fault| *fault == SummaryFault::Empty, 2),
        (
            Reply::Give(SummaryResult::new(vec![called])),
            |fault| matches!(fault, SummaryFault::NotText { .. }),
            1,
        ),
        (
            Reply::Fail(BackendError::Unauthorized { status: 401 }),
            |fault| matches!(fault, SummaryFault::Backend(BackendError::Unauthorized { .. })),
            1,
        ),
    ];
    for (reply, is_expected, call_count) in cases {
        let backend = Scripted::new([reply.clone()]);
        let run = run(&plan, &backend).await;
        assert!(is_digest(&run, &plan), "{reply:?} gave {}", run.text());
        assert_eq!(backend.requests().len(), call_count, "{reply:?}");
        let faults = run.faults();
        assert!(
            faults.len() == call_count && faults.iter().all(|(fault, _)| is_expected(fault)),
            "{faults:?}"
        );
        assert_eq!(faults.last().unwrap().1, None, "nothing follows the last one");
        plan.apply(run.filled.unwrap().summaries).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_another_language_is_taken_if_it_has_what_must_stand_in_it() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let run = run(
        &plan,
        &Scripted::new([Reply::Say(
            "Разбор ускорен в src/parser.rs. Never touch src/lexer.rs. Use tabs, not spaces.",
        )]),
    )
    .await;
    assert_eq!(run.written_by(), "scripted");
    assert!(run.text().contains("Разбор ускорен"));
}

#[tokio::test(start_paused = true)]
async fn a_failing_server_is_asked_again_after_growing_waits_and_then_left_alone() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let backend = Scripted::new([server(500)]);
    let run = run(&plan, &backend).await;
    assert!(is_digest(&run, &plan));
    let waits: Vec<Option<u128>> =
        run.faults().into_iter().map(|(_, wait)| wait.map(|wait| wait.as_millis())).collect();
    assert_eq!((waits.len(), waits[3]), (4, None), "three retries");
    for (number, wait) in waits[..3].iter().flatten().enumerate() {
        let all = 500 << number;
        assert!((all / 2..=all).contains(wait), "{waits:?}");
    }
    // Timers go by whole milliseconds.
    let waited: u128 = waits.iter().flatten().sum();
    assert!((waited..waited + 10).contains(&run.took.as_millis()), "{waits:?} took {:?}", run.took);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_is_taken_at_its_word() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let wait = Duration::from_secs(33);
    let limited = BackendError::RateLimited { retry_after: Some(wait) };
    let backend = Scripted::new([Reply::Fail(limited), Reply::Say(GOOD)]);
    let run = run(&plan, &backend).await;
    assert_eq!((run.written_by(), run.took), ("scripted", wait), "waited as long as it asked to");
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_deadline_is_not_begun() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let retry_after = Some(Duration::from_secs(3_600));
    let backend = Scripted::new([Reply::Fail(BackendError::RateLimited { retry_after })]);
    let run = run(&plan, &backend).await;
    assert!(is_digest(&run, &plan));
    assert_eq!((run.took, backend.requests().len()), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_hangs_is_waited_for_until_the_deadline_at_most() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let backend = Scripted::new([Reply::Hang]);
    let run = run(&plan, &backend).await;
    assert!(is_digest(&run, &plan));
    assert!(run.took <= SummaryLimits::default().deadline, "{:?}", run.took);
    assert!(backend.requests().len() >= 2, "it was tried again");
    assert_eq!(backend.running.load(Ordering::SeqCst), 0, "nothing is left running");
}

#[tokio::test(start_paused = true)]
async fn the_breaker_spares_a_dead_backend_and_lets_one_call_try_again() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let limits = SummaryLimits { retries_max: 0, ..SummaryLimits::default() };
    let cool_down = Duration::from_secs(60);
    let guard = BackendGuard::new(GuardLimits { failures_max: 2, cool_down, ..GuardLimits::default() });
    let backend = Scripted::new([server(500), server(529), Reply::Say(GOOD)]);
    for _ in 0..4 {
        let run = run_with(&plan, &backend, &limits, &guard).await;
        assert!(is_digest(&run, &plan));
    }
    assert_eq!(backend.requests().len(), 2, "two of four were let through");
    tokio::time::advance(cool_down).await;
    assert_eq!(run_with(&plan, &backend, &limits, &guard).await.written_by(), "scripted");
    assert_eq!(run_with(&plan, &backend, &limits, &guard).await.written_by(), "scripted");
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_has_cost_enough_is_not_asked_any_more() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let guard = BackendGuard::new(GuardLimits { dollars_max: Some(0.08), ..GuardLimits::default() });
    let usage = Usage { input_tokens: Tokens(10_000), output_tokens: Tokens(800), ..Usage::default() };
    let mut backend = Scripted::new([Reply::Give(SummaryResult { usage: Some(usage), ..said(GOOD) })]);
    backend.prices = Prices::named("claude-sonnet-4.5");
    let first = run_with(&plan, &backend, &SummaryLimits::default(), &guard).await;
    // 10,000 × 3.75 + 800 × 15 for a million tokens
    let cost = first.filled.as_ref().unwrap().cost.unwrap();
    assert!((cost - 0.0495).abs() < 1e-9, "{cost}");
    assert_eq!(first.filled.as_ref().unwrap().usage, usage);
    let second = run_with(&plan, &backend, &SummaryLimits::default(), &guard).await;
    assert!(is_digest(&second, &plan));
    let (fault, _) = &second.faults()[0];
    assert!(fault.to_string().contains("it has cost $0.0495 of $0.0800"), "{fault}");
    assert_eq!(backend.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_too_long_is_made_smaller_until_it_fits_or_enough_was_tried() {
    let transcript = session(200);
    let plan = fold(&transcript, 900);
    for limit in [Some(Tokens(8_000)), None] {
        let overflow = Reply::Fail(BackendError::Overflow { limit });
        let backend = Scripted::new([overflow.clone(), Reply::Say(GOOD)]);
        let run = run(&plan, &backend).await;
        assert_eq!(run.written_by(), "scripted", "{:?}", run.faults());
        let meter = transcript.meter();
        let sent: Vec<u64> = backend
            .requests()
            .iter()
            .map(|request| request.items.iter().map(|item| meter.item(item).total.0).sum())
            .collect();
        assert!(sent[1..].iter().all(|&tokens| tokens <= sent[0] / 2), "{sent:?}");
        assert!(limit.is_none() || sent[1..].iter().all(|&tokens| tokens < 8_000), "{sent:?}");
    }
    let backend = Scripted::new([Reply::Fail(BackendError::Overflow { limit: None })]);
    let run = run(&plan, &backend).await;
    assert!(is_digest(&run, &plan));
    assert!(backend.requests().len() < 100, "it gave up");
}

#[tokio::test(start_paused = true)]
async fn what_was_too_long_is_asked_again_without_the_oldest_as_often_as_the_host_says() {
    let transcript = session(200);
    let plan = fold(&transcript, 900);
    let overflow = Reply::Fail(BackendError::Overflow { limit: None });
    let limits = |moves: Vec<PreTrimMove>| SummaryLimits {
        chunks_max: 1,
        pre_trim: PreTrim::new(moves),
        ..SummaryLimits::default()
    };
    let backend = Scripted::new([overflow.clone(), overflow.clone(), Reply::Say(GOOD)]);
    let retrying = limits(vec![PreTrimMove::DropOldestAndRetry { retries_max: 2 }]);
    let run = run_with(&plan, &backend, &retrying, &BackendGuard::default()).await;
    assert_eq!(run.written_by(), "scripted", "{:?}", run.faults());
    let requests = backend.requests();
    assert_eq!(requests.len(), 3);
    let has = |request: &SummaryRequest, id: &str| request.items.iter().any(|item| item.id.as_str() == id);
    for (request, oldest_kept) in requests.iter().zip([0, 100, 150]) {
        assert!(has(request, "task") && has(request, "later"), "what the user said stays");
        let kept: Vec<usize> =
            request.items.iter().filter_map(|item| item.id.strip_prefix('a')?.parse().ok()).collect();
        assert_eq!(kept, (kept[0]..200).collect::<Vec<_>>());
        assert!(kept[0].abs_diff(oldest_kept) < 10, "{}", kept[0]);
    }
    let backend = Scripted::new([overflow.clone()]);
    let run = run_with(&plan, &backend, &retrying, &BackendGuard::default()).await;
    assert!(is_digest(&run, &plan) && backend.requests().len() == 3, "two retries and no more");
    let backend = Scripted::new([overflow]);
    let never = limits(vec![PreTrimMove::DropAgentNewestFirst]);
    let run = run_with(&plan, &backend, &never, &BackendGuard::default()).await;
    assert!(is_digest(&run, &plan) && backend.requests().len() == 1, "nobody wanted it tried again");
}
