//! What a backend is asked, what is made of its answer, and how it is ended.

use foldback_core::Overlay;

use super::*;
use crate::backend::SummaryStage;

#[tokio::test(start_paused = true)]
async fn a_summary_names_its_handle_and_has_every_demand_and_no_secret() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let backend = Scripted::new([Reply::Say(
        "The parser is faster: parse_rule_1() is done, the token is ghp_0123456789abcdefghijklmnopqrstuvwxyzAB.\n\
         - Use tabs, not spaces.\nsrc/parser.rs was written.",
    )]);
    let run = run(&plan, &backend).await;
    let text = run.text().to_owned();
    let handle = &plan.folds().next().unwrap().handle;
    assert!(text.starts_with(&plan.requests().next().unwrap().header()), "{text}");
    assert!(text.lines().next().is_some_and(|header| header.contains(handle.as_str())), "{text}");
    assert!(
        text.contains("\n# The user said\n> Never touch src/lexer.rs.\n> Use tabs, not spaces.\n"),
        "{text}"
    );
    assert_eq!(text.matches("Use tabs").count(), 1, "a rule is not told twice: {text}");
    assert!(!text.contains("ghp_"), "{text}");
    assert!(!text.contains("# Files changed"), "the answer names it: {text}");
    let compacted = plan.apply(run.filled.unwrap().summaries).unwrap();
    assert!(compacted.view.recall(handle).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_a_little_too_long_is_cut_at_a_line_and_keeps_the_demands() {
    let transcript = session(30);
    let plan = fold(&transcript, 400);
    let prose = "a sentence about the parser and parse_rule_1() in it\n".repeat(27);
    let backend = Scripted::new([Reply::Give(said(format!("{prose}{GOOD}")))]);
    let run = run(&plan, &backend).await;
    assert_eq!(run.written_by(), "scripted", "{:?}", run.faults());
    for demand in ["> Never touch src/lexer.rs.", "> Use tabs, not spaces.", "- src/parser.rs"] {
        assert!(run.text().contains(demand), "{}", run.text());
    }
    assert!(run.text().ends_with("in it"), "{}", run.text());
    plan.apply(run.filled.unwrap().summaries).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fold_with_hardly_any_room_is_the_digests() {
    let transcript = session(30);
    let plan = fold(&transcript, 60);
    let backend = Scripted::new([Reply::Say(GOOD)]);
    let run = run(&plan, &backend).await;
    assert_eq!(
        (backend.requests().len(), run.faults().len()),
        (0, 1),
        "nothing is asked, and it is said why"
    );
    plan.apply(run.filled.unwrap().summaries).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_no_demand_fits_beside_is_asked_for_again_shorter() {
    let transcript = session(30);
    let plan = fold(&transcript, 400);
    // One line: there is nowhere to cut it.
    let line = "a sentence about the parser, parse_rule_1() and src/parser.rs; ".repeat(24);
    let backend = Scripted::new([Reply::Give(said(line)), Reply::Say(GOOD)]);
    let run = run(&plan, &backend).await;
    assert_eq!(run.written_by(), "scripted");
    assert!(matches!(run.faults()[..], [(SummaryFault::Inflated { .. }, Some(Duration::ZERO))]));
    let asked: Vec<Option<Tokens>> = backend.requests().iter().map(|request| request.tokens_max).collect();
    assert!(asked[1] < asked[0], "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_summary_is_brought_up_to_date_and_never_stacked() {
    let mut transcript = session(30);
    let first = fold(&transcript, 900);
    let answer = run(&first, &Scripted::new([Reply::Say(GOOD)])).await;
    let compacted = first.apply(answer.filled.unwrap().summaries).unwrap();
    for number in 0..20 {
        transcript
            .push(Item::user(format!("n{number}"), format!("Now write docs/page_{number}.md, please.")));
    }
    let overlay: Overlay = compacted.view.overlay().clone();
    let view = View::through(&transcript, &overlay).unwrap();
    let strategy = SummarizeOlderStrategy::new(1).summary_tokens_max(Tokens(900));
    let second = plan(&view, &strategy, None).unwrap();
    let backend = Scripted::new([Reply::Say(GOOD)]);
    let run = run(&second, &backend).await;
    let request = &backend.requests()[0];
    assert_eq!(request.previous.len(), 1);
    assert!(request.items.iter().all(|item| item.summary.is_none()));
    assert_eq!(request.items.len(), 20, "the last item of before and all but one of the new");
    assert!(request.demands.iter().any(|demand| demand.as_str() == "Never touch src/lexer.rs."));
    let view = second.apply(run.filled.unwrap().summaries).unwrap().view;
    assert_eq!(view.items().filter(|item| item.summary.is_some()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_one_call_cannot_hold_is_summarised_in_chunks_and_merged() {
    let transcript = session(200);
    let plan = fold(&transcript, 900);
    let backend = Scripted::new([Reply::Say(GOOD)]).window(9_000);
    let run = run(&plan, &backend).await;
    assert_eq!(run.written_by(), "scripted", "{:?}", run.faults());
    let requests = backend.requests();
    let (merge, chunks) = requests.split_last().unwrap();
    assert!(chunks.len() > 1);
    for (position, request) in chunks.iter().enumerate() {
        assert_eq!(request.stage, SummaryStage::Chunk { index: position, count: chunks.len() });
    }
    assert_eq!((merge.stage, merge.items.len()), (SummaryStage::Merge, chunks.len()));
    assert!(merge.items.iter().all(|item| format!("{:?}", item.parts).contains("faster in src/parser.rs")));
    assert_eq!(run.filled.unwrap().metadata["summaries"][0]["chunks"], chunks.len());
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_fails_is_digested_and_the_others_still_count() {
    let transcript = session(200);
    let plan = fold(&transcript, 900);
    let rejected = BackendError::Rejected { status: 400, message: "no".to_owned() };
    let backend = Scripted::new([Reply::Fail(rejected), Reply::Say(GOOD)]).window(9_000);
    let run = run(&plan, &backend).await;
    assert_eq!(run.written_by(), "scripted", "{:?}", run.faults());
    let requests = backend.requests();
    let merge = requests.last().unwrap();
    assert_eq!(merge.items.len(), requests.len() - 1);
    assert!(
        format!("{:?}", merge.items[0].parts).contains("# "),
        "a digest has sections: {:?}",
        merge.items[0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_chunks_answer_that_has_no_room_is_refused_in_the_events_and_the_chunk_is_digested() {
    let transcript = session(200);
    let plan = fold(&transcript, 900);
    // One line: there is nowhere to cut it.
    let line = "a sentence about the parser and parse_rule_1() that goes on; ".repeat(400);
    let backend = Scripted::new([Reply::Give(said(line)), Reply::Say(GOOD)]).window(9_000);
    let run = run(&plan, &backend).await;
    assert_eq!(run.written_by(), "scripted", "{:?}", run.faults());
    let asked = backend.requests()[0].tokens_max.unwrap();
    match &run.faults()[..] {
        [(SummaryFault::Inflated { tokens, tokens_max }, None)] => {
            assert!(*tokens_max == asked && tokens > tokens_max, "{tokens} of {tokens_max}, asked: {asked}");
        }
        faults => panic!("{faults:?}"),
    }
    let requests = backend.requests();
    let merge = requests.last().unwrap();
    assert_eq!((merge.stage, merge.items.len()), (SummaryStage::Merge, requests.len() - 1));
    let told = format!("{:?}", merge.items[0].parts);
    assert!(told.contains("# ") && !told.contains("that goes on"), "a digest has sections: {told}");
}

#[tokio::test(start_paused = true)]
async fn of_three_candidates_the_one_that_tells_most_is_taken_and_the_cost_of_all_is_reported() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let usage = Usage { input_tokens: Tokens(1_000), output_tokens: Tokens(100), ..Usage::default() };
    let give = |text: &str| Reply::Give(SummaryResult { usage: Some(usage), ..said(text) });
    let best = format!("{GOOD}\nparse_rule_2(), parse_rule_3() and src/rule_7.rs were read.");
    let mut backend =
        Scripted::new([give("Work on src/parser.rs: Never touch src/lexer.rs."), give(&best), give(GOOD)]);
    backend.prices = Prices::named("gpt-5");
    let limits = SummaryLimits { candidates: 3, ..SummaryLimits::default() };
    let run = run_with(&plan, &backend, &limits, &BackendGuard::default()).await;
    assert!(run.text().contains("src/rule_7.rs were read"), "{}", run.text());
    let filled = run.filled.unwrap();
    let report = &filled.metadata["summaries"][0];
    assert_eq!((report["taken"].as_u64(), report["candidates"].as_array().map(Vec::len)), (Some(1), Some(3)));
    let scores: Vec<f64> = (0..3).map(|one| report["candidates"][one]["score"].as_f64().unwrap()).collect();
    assert!(scores[0] < scores[2] && scores[2] < scores[1], "{scores:?}");
    // Three times 1,000 × 1.25 + 100 × 10 for a million tokens.
    assert!((filled.cost.unwrap() - 0.00675).abs() < 1e-9, "{:?}", filled.cost);
    assert_eq!(filled.usage.output_tokens, Tokens(300));
}

#[tokio::test(start_paused = true)]
async fn one_good_candidate_is_enough_and_no_more_are_asked_for() {
    let transcript = session(30);
    let plan = fold(&transcript, 900);
    let failed = Reply::Fail(BackendError::Unauthorized { status: 403 });
    let backend = Scripted::new([failed, Reply::Say(""), Reply::Say(GOOD)]);
    let limits = SummaryLimits { candidates: 3, ..SummaryLimits::default() };
    let run = run_with(&plan, &backend, &limits, &BackendGuard::default()).await;
    assert_eq!((run.written_by(), backend.requests().len()), ("scripted", 3));
    assert_eq!(run.faults().len(), 2, "what failed is in the events all the same");
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_are_allowed() {
    let transcript = session(400);
    let plan = fold(&transcript, 900);
    for parallel_max in [1, 3] {
        let slow = Reply::After(Duration::from_secs(1), Box::new(Reply::Say(GOOD)));
        let backend = Scripted::new([slow]).window(9_000);
        let limits = SummaryLimits { parallel_max, candidates: 5, ..SummaryLimits::default() };
        let run = run_with(&plan, &backend, &limits, &BackendGuard::default()).await;
        assert_eq!(run.written_by(), "scripted");
        assert_eq!(backend.running_most.load(Ordering::SeqCst), parallel_max);
    }
}

/// T8, wherever it happens: on every event, and at every half second in between.
#[tokio::test(start_paused = true)]
async fn cancelling_at_any_point_ends_the_asking_at_once() {
    let transcript = session(200);
    let plan = fold(&transcript, 900);
    let script = || {
        let failure = Reply::Fail(BackendError::Server { status: 500, retry_after: None });
        let slow = |reply| Reply::After(Duration::from_secs(1), Box::new(reply));
        let mut replies = vec![failure, slow(Reply::Say("")), Reply::Hang, slow(Reply::Say(GOOD))];
        replies.extend([Reply::Say(GOOD), Reply::Say(GOOD), slow(Reply::Say(" ")), slow(Reply::Say(GOOD))]);
        Scripted::new(replies).window(9_000)
    };
    let limits =
        SummaryLimits { timeout: Duration::from_secs(5), parallel_max: 2, ..SummaryLimits::default() };
    let whole = run_with(&plan, &script(), &limits, &BackendGuard::default()).await;
    assert!(whole.filled.is_ok() && whole.took > Duration::from_secs(2), "{:?}", whole.took);
    for step in 0..whole.took.as_millis() / 500 {
        let after = Duration::from_millis(250 + 500 * step as u64);
        let cancellation = CancellationToken::new();
        let backend = script();
        let cancel = async {
            tokio::time::sleep(after).await;
            cancellation.cancel();
        };
        let guard = BackendGuard::default();
        let (run, ()) = tokio::join!(run_until(&plan, &backend, &limits, &guard, &cancellation), cancel);
        assert!(matches!(run.filled, Err(CompactionError::Cancelled)), "after {after:?}");
        assert_eq!(run.took, after);
        assert_eq!(backend.running.load(Ordering::SeqCst), 0, "nothing is left running");
    }
    for number in 0..whole.events.len() {
        let cancellation = CancellationToken::new();
        let seen = AtomicUsize::new(0);
        let asking = Asking {
            backend: &script(),
            limits: &limits,
            guard: &BackendGuard::default(),
            cancellation: &cancellation,
            session_id: &"session".into(),
            turn_id: None,
            reason: &CompactionReason::Manual,
            metadata: &Metadata::new(),
            emit: &|_| {
                if seen.fetch_add(1, Ordering::SeqCst) == number {
                    cancellation.cancel();
                }
            },
            seed: 7,
            now: Timestamp(0),
        };
        let filled = fill(&Arc::new(plan.clone()), &asking).await;
        assert!(matches!(filled, Err(CompactionError::Cancelled)), "on event {number}");
    }
}
