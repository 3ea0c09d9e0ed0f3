use foldback_core::cost::Rates;
use foldback_core::{
    Budget, BudgetTrigger, FnTrigger, Item, LadderStrategy, Part, Strategy, SummarizeOlderStrategy,
    ToolResult, Trigger,
};
use serde_json::json;

use super::*;
use crate::replay::Sizing;

/// A dollar for a token, a dime where it is cached, ten for one that is written.
const PRICES: Prices = Prices {
    name: "plain",
    provider: "test",
    rates: Rates { input: 1e6, cached: 1e5, written: 1e6, output: 1e7 },
    long: None,
    lifetime_millis: 1_000,
    cached_tokens_min: Tokens(1),
    dated: "2026-11",
    source: "made/up",
};

fn session(rounds: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("u", "Make src/parser.rs faster"));
    for round in 0..rounds {
        let id = format!("c{round}");
        let mut call =
            Item::assistant(id.clone(), vec![Part::call(id.clone(), "read", &json!({"n": round}))]);
        call.created_at = Some(Timestamp(round as i64 * 1_000));
        transcript.push(call);
        let result = ToolResult::text(id.clone(), "a line of output\n".repeat(30));
        transcript.push(Item::tool(format!("t{round}"), result));
    }
    transcript.push(Item::assistant("end", vec![Part::text("src/parser.rs is faster now")]));
    transcript
}

fn policy(
    trigger: impl Trigger + 'static,
    strategy: impl Strategy + 'static,
    budget: Budget,
    writer: Writer,
) -> ReplayPolicy {
    ReplayPolicy {
        name: "test".to_owned(),
        trigger: Arc::new(trigger),
        recording: None,
        strategy: Arc::new(strategy),
        budget,
        sizing: Sizing::Target,
        writer,
    }
}

fn never() -> ReplayPolicy {
    let budget = Budget::for_target(Tokens(500)).expect("above zero");
    policy(FnTrigger::new("never", |_| None), LadderStrategy::new(), budget, Writer::Digest)
}

fn run(history: &Transcript, policy: &ReplayPolicy) -> Run {
    let reading = History::of(history.items());
    let session =
        Replay { history, reading: &reading, dialect: None, prices: &PRICES, horizon: 120, constraints: &[] };
    replay(&session, policy)
}

#[test]
fn without_a_compaction_every_call_reads_the_one_before_from_the_cache() {
    let history = session(3);
    let run = run(&history, &never());
    let prompts: Vec<Tokens> = [1, 3, 5, 7].map(|end| history.tokens_of(0..end)).to_vec();
    let read: Vec<Tokens> = run.calls.iter().map(|record| record.call.prompt()).collect();
    assert_eq!(read, prompts);
    let cached: Vec<Tokens> = run.calls.iter().map(|record| record.call.cached).collect();
    assert_eq!(cached, [Tokens::ZERO, prompts[0], prompts[1], prompts[2]]);
    assert_eq!(run.peak, prompts[3]);
    let tokens = |indices: &[usize]| -> f64 {
        indices.iter().map(|&index| history.tokens_of(index..index + 1).0 as f64).sum()
    };
    let fresh = prompts[3].0 as f64;
    let cached = prompts[..3].iter().map(|tokens| tokens.0 as f64).sum::<f64>();
    let expected = fresh + cached * 0.1 + tokens(&[1, 3, 5, 7]) * 10.0;
    assert!((run.total_cost() - expected).abs() < 1e-6, "{} {expected}", run.total_cost());
    assert_eq!(run.overflow_count, prompts.iter().filter(|tokens| tokens.0 > 500).count());
    assert_eq!(run.retention(), None);
}

#[test]
fn a_cache_that_went_cold_is_paid_for_again() {
    let mut history = session(1);
    let mut late = Item::assistant("late", vec![Part::text("again")]);
    late.created_at = Some(Timestamp(1_001));
    history.push(Item::user("u2", "And?"));
    history.push(late);
    let run = run(&history, &never());
    // The last call but one has no time: it is taken to follow at once.
    let cached: Vec<bool> = run.calls.iter().map(|record| record.call.cached > Tokens::ZERO).collect();
    assert_eq!(cached, [false, true, false]);
}

#[test]
fn a_compaction_leaves_its_unchanged_beginning_in_the_cache() {
    let history = session(40);
    let budget = Budget::builder(Tokens(3_000)).build().expect("the levels are in order");
    let run =
        run(&history, &policy(BudgetTrigger::new(&budget), LadderStrategy::new(), budget, Writer::Digest));
    assert!(run.compactions.len() > 1, "{}", run.compactions.len());
    assert_eq!((run.overflow_count, run.failure_count), (0, 0));
    assert!(run.peak <= budget.usable());
    for made in &run.compactions {
        assert!(made.tokens_before >= budget.trigger() && made.tokens_after <= budget.target());
        let after = run.calls[made.call_index].call;
        assert_eq!(after.prompt(), made.tokens_after);
        let is_warm = made.call_index < 40;
        assert!(!is_warm || after.cached == made.prefix_kept, "{after:?} {made:?}");
        assert!(made.first_changed.is_some());
        assert_eq!(made.summary_cost, Cost::default());
    }
    assert_eq!(run.compactions[0].retention.total().needed, 1, "the path is used in the end");
}

#[test]
fn results_that_are_shortened_when_recorded_are_read_short_and_stay_in_the_cache() {
    let history = session(3);
    let shorten = foldback_core::TruncateToolOutputsStrategy::by_tokens(Tokens(60)).expect("enough");
    let recording = ReplayPolicy { recording: Some(Arc::new(shorten.shorten_fresh())), ..never() };
    let (whole, short) = (run(&history, &never()), run(&history, &recording));
    assert!(short.peak < whole.peak, "{} {}", short.peak, whole.peak);
    assert!(short.compactions.is_empty());
    for calls in short.calls.windows(2) {
        assert_eq!(calls[1].call.cached, calls[0].call.prompt(), "no call had read what was shortened");
    }
}

#[test]
fn a_summary_that_a_model_writes_costs_a_call() {
    let history = session(20);
    let budget = Budget::for_target(Tokens(100_000)).expect("above zero");
    let with = |writer| {
        let trigger = foldback_core::ItemCountTrigger::new(12);
        run(&history, &policy(trigger, SummarizeOlderStrategy::new(4), budget, writer))
    };
    let (digest, model) = (with(Writer::Digest), with(Writer::Model));
    assert_eq!(digest.summary_cost, Cost::default());
    assert!(model.summary_cost.output > 0.0 && model.total_cost() > digest.total_cost());
    assert_eq!(model.cost, digest.cost);
}

#[test]
fn sessions_with_nothing_in_them_run_to_their_end() {
    let image = Part::Media(foldback_core::Media {
        media_type: "image/png".into(),
        data: foldback_core::part::Blob::Url("https://example.org/a.png".into()),
        pixels: None,
    });
    let sessions = [
        Transcript::default(),
        [Item::user("u", "你好，请修复解析器")].into_iter().collect(),
        [Item::assistant("a", vec![Part::text("привет")])].into_iter().collect(),
        [Item::new("i", ItemKind::User, vec![image.clone()]), Item::assistant("j", vec![image])]
            .into_iter()
            .collect(),
    ];
    for history in sessions {
        let budget = Budget::for_target(Tokens(1)).expect("above zero");
        let tight = policy(BudgetTrigger::new(&budget), LadderStrategy::new(), budget, Writer::Digest);
        let run = run(&history, &tight);
        assert!(run.total_cost().is_finite());
        assert_eq!(run.retention(), None);
    }
}
