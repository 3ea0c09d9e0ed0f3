//! Defects that other systems have when they plan a compaction; each name says what holds here.
//!
//! What concerns one strategy or one trigger alone is tested at the bottom of its file: cached
//! tokens, tool loops and rejected requests in `trigger/budget.rs`; 81K aiming for 96K in
//! `budget.rs`; five rounds in `strategy/summarize_older.rs`; keeping nothing in
//! `strategy/keep_recent.rs`; the newest failure and parallel siblings in
//! `strategy/drop_failed_tool_results.rs`; a 400 KB line in `strategy/truncate_tool_outputs.rs`; no
//! first turn in `strategy/keep_first_and_recent_turns.rs`; 300 tool rounds in
//! `strategy/preserve_recent_fraction.rs`; handles in `strategy/clear_tool_results.rs`.

mod agentkit;
mod codex;
mod field;
mod phi;

use std::collections::BTreeSet;

use foldback_core::{Strategy, *};
use serde_json::json;

/// Every built-in strategy, set to hide as much as it can.
fn every_strategy() -> [StrategyConfig; StrategyConfig::COUNT] {
    let every: [StrategyConfig; StrategyConfig::COUNT] = [
        DropReasoningStrategy::new().into(),
        DropFailedToolResultsStrategy::new().into(),
        SupersedeStrategy::new().into(),
        KeepRecentStrategy::new(0).into(),
        SummarizeOlderStrategy::new(0).into(),
        PreserveUserMessagesStrategy::new().tokens_max(Tokens(0)).into(),
        PreserveRecentFractionStrategy::new(0.0).expect("a fraction").into(),
        PreserveRecentTurnsStrategy::new(0).into(),
        KeepFirstAndRecentTurnsStrategy::new(0, 0).into(),
        KeepFirstAndRecentItemsStrategy::new(0, 0).into(),
        KeepNewestThatFitStrategy::new().into(),
        CapToolOutputsStrategy::new(Tokens(0), 400).expect("enough characters").into(),
        TruncateToolOutputsStrategy::by_lines(1).expect("a line").shorten_fresh().into(),
        ClearToolResultsStrategy::new(0).clear_inputs().into(),
        TruncateToolInputsStrategy::new(Tokens(0)).into(),
        ReplaceMediaStrategy::new(0).into(),
        DropMiddleStrategy::new(0, 0).into(),
        DefaultCompaction::new().keep_first_turns(0).keep_recent_turns(0).into(),
        LadderStrategy::new().into(),
    ];
    let ids: BTreeSet<&str> = every.iter().map(|strategy| strategy.id()).collect();
    assert_eq!(ids.len(), StrategyConfig::COUNT, "each stands here once");
    every
}

fn budget(target: u64) -> Budget {
    Budget::for_target(Tokens(target)).expect("a target of at least one token")
}

/// Plans, applies with floor summaries, and returns what the model sees then.
fn compact(view: &View, strategy: &dyn Strategy, budget: &Budget) -> View {
    plan(view, strategy, Some(budget)).expect("the kernel fits").apply_floor().view
}

fn words(count: usize) -> String {
    "something was read and something was understood; ".repeat(count)
}

/// A round: signed thinking, two parallel calls, two results, the second a failure now and then.
fn push_round(transcript: &mut Transcript, number: usize) {
    let thinking = Reasoning {
        text: format!("thought {number}").into(),
        signature: Some(format!("signature-{number}").into()),
        ..Reasoning::default()
    };
    let calls = ["a", "b"].map(|side| format!("c{number}{side}"));
    let mut parts = vec![Part::Reasoning(thinking), Part::text(words(2))];
    parts.extend(calls.iter().map(|call| Part::call(call.as_str(), "read", &json!({"text": words(4)}))));
    transcript.push(Item::assistant(format!("round{number}"), parts));
    let mut failing = ToolResult::text(calls[1].as_str(), format!("line\n{}", words(20)));
    failing.is_error = number.is_multiple_of(3);
    transcript.push(Item::tool(format!("first{number}"), ToolResult::text(calls[0].as_str(), words(40))));
    transcript.push(Item::tool(format!("second{number}"), failing));
}

fn image() -> Media {
    let data = Blob::Base64("iVBORw0KGgo=".into());
    Media { media_type: "image/png".into(), data, pixels: Some((400, 300)) }
}

/// Instructions, then turns of a prompt with an image, some rounds and an answer.
fn session(turn_count: usize, round_count: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::text("system", ItemKind::System, "You are careful."));
    for turn in 0..turn_count {
        let text = Part::text(format!("request {turn}: {}", words(3)));
        transcript.push(Item::new(format!("prompt{turn}"), ItemKind::User, vec![text, Part::Media(image())]));
        (0..round_count).for_each(|round| push_round(&mut transcript, turn * round_count + round));
        transcript.push(Item::assistant(format!("answer{turn}"), vec![Part::text(words(5))]));
    }
    transcript
}

/// The same with a last turn that is still waiting for the model.
fn session_in_flight(turn_count: usize, round_count: usize) -> Transcript {
    let mut transcript = session(turn_count, round_count);
    transcript.push(Item::user("newest", "and now the last one"));
    (900..900 + round_count).for_each(|number| push_round(&mut transcript, number));
    transcript
}

fn prefix(transcript: &Transcript, item_count: usize) -> Transcript {
    transcript.items().take(item_count).cloned().collect()
}

fn ids(view: &View) -> Vec<&str> {
    view.items().map(|item| item.id.as_str()).collect()
}

/// Asserts that what was valid in a dialect still is.
fn assert_stays_valid(before: &View, after: &View, told: &str) {
    for dialect in Dialect::ALL.map(Some).into_iter().chain([None]) {
        if dialect::check(before.items(), dialect).is_empty() {
            assert_eq!(dialect::check(after.items(), dialect), [], "{told}, {dialect:?}\n{}", after.shape());
        }
    }
}
