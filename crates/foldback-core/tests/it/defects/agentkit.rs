//! Defects of agentkit-compaction.

use std::sync::Arc;

use crate::defects::*;

fn folding_plan() -> Plan {
    plan(&View::of(&session(4, 2)), &SummarizeOlderStrategy::new(4), None).expect("it needs no budget")
}

/// agentkit: an empty summary is accepted and replaces history. Gemini: a failed snapshot returns
/// the old state as success and deletes the nodes.
#[test]
fn an_empty_summary_is_refused_and_nothing_changes() {
    let plan = folding_plan();
    let request = plan.requests().next().unwrap();
    let empty = [
        Vec::new(),
        vec![request.item("", "model")],
        vec![request.item(" \n\t", "model"), request.item("", "model")],
        vec![Item::new("s", ItemKind::Context, Vec::new())],
    ];
    for items in empty {
        let refused = plan.apply(vec![items]).map(|compacted| compacted.view.shape());
        assert_eq!(refused, Err(SummaryError::Empty { handle: request.fold().handle.clone() }));
    }
    assert!(plan.view().items().eq(plan.view().transcript().items()));
    assert!(plan.view().overlay().blocks().is_empty());
}

/// agentkit: what a backend answers is never measured. Gemini rejects a summary larger than what it
/// replaces; here it may not even be larger than what was asked for.
#[test]
fn a_summary_larger_than_what_was_asked_for_is_refused() {
    let plan = folding_plan();
    let request = plan.requests().next().unwrap();
    let tokens_max = request.fold().spec.tokens_max;
    let large = request.item(words(2_000), "model");
    let refused = plan.apply(vec![vec![large]]).map(|compacted| compacted.view.shape());
    assert!(
        matches!(refused, Err(SummaryError::Inflated { tokens_max: max, .. }) if max == tokens_max),
        "{refused:?}"
    );
    let written = plan.apply(vec![vec![request.item("what matters", "model")]]).unwrap();
    assert!(written.view.tokens() <= plan.tokens_after());
}

/// agentkit: an invalid transcript stays installed after validation fails. Here none is produced,
/// wherever the conversation stands when it is compacted.
#[test]
fn an_invalid_transcript_is_never_produced() {
    let transcript = session_in_flight(3, 2);
    for item_count in 1..=transcript.len() {
        let before = View::of(&prefix(&transcript, item_count));
        let half = budget((before.tokens().0 / 2).max(1));
        for strategy in every_strategy() {
            let Ok(plan) = plan(&before, &strategy, Some(&half)) else { continue };
            let told = format!("{} after {item_count} items", strategy.describe());
            assert_stays_valid(&before, &plan.apply_floor().view, &told);
        }
    }
}

/// agentkit: one 2 MB result survives "keep 8 items".
#[test]
fn one_result_of_two_megabytes_among_the_newest_eight_still_fits() {
    let result = "0123456789abcdef ".repeat(2 * 1024 * 1024 / 17);
    let pipeline = StrategyPipeline::new()
        .with_strategy(KeepRecentStrategy::new(8))
        .with_strategy(LadderStrategy::new());
    let mut transcript = session(3, 2);
    transcript.push(Item::user("newest", "read the log"));
    transcript.push(Item::assistant("huge", vec![Part::call("h", "read", &json!({"path": "log"}))]));
    transcript.push(Item::tool("log", ToolResult::text("h", result)));
    for last in [None, Some(Item::assistant("end", vec![Part::text("a long log")]))] {
        transcript.extend(last);
        let view = compact(&View::of(&transcript), &pipeline, &budget(4_000));
        assert!(view.tokens() <= Tokens(4_000), "{}", view.shape());
        assert!(ids(&view).contains(&"newest") && ids(&view).contains(&"log"), "{}", view.shape());
    }
}

/// agentkit: the nested summariser is sent only text, never tool calls or results.
#[test]
fn whoever_writes_a_summary_is_given_calls_and_results() {
    let plan = folding_plan();
    let request = plan.requests().next().unwrap();
    let folded: Vec<&Arc<Item>> = request.entries().map(Entry::item).collect();
    let calls: usize = folded.iter().map(|item| item.calls().count()).sum();
    let results: usize = folded.iter().map(|item| item.results().count()).sum();
    assert!(calls > 0 && calls == results, "{calls} calls, {results} results");
    assert!(request.recorded().eq(folded), "nothing was folded before, so both are the same");
}

/// agentkit: the reasoning of the tool round in flight is dropped too, which providers reject. The
/// field: "thinking blocks cannot be modified" 400.
#[test]
fn thinking_in_flight_comes_back_byte_for_byte_whatever_the_strategy() {
    let thinking = |item: &Item| -> Vec<Part> {
        item.parts.iter().filter(|part| matches!(part, Part::Reasoning(_))).cloned().collect()
    };
    let before = View::of(&session_in_flight(3, 3));
    let in_flight = before.unit_in_flight().unwrap();
    for strategy in every_strategy() {
        let after = compact(&before, &strategy, &budget(3_000));
        for entry in before.range(before.loop_in_flight().unwrap()) {
            let kept = after.iter().find(|kept| kept.item().id == entry.item().id);
            let Some(kept) = kept else {
                assert!(!in_flight.contains(&entry.anchor()), "{} folds in flight", strategy.describe());
                continue;
            };
            let told = strategy.describe();
            assert_eq!(thinking(kept.item()), thinking(entry.item()), "{told}: {}", entry.item().id);
        }
    }
}
