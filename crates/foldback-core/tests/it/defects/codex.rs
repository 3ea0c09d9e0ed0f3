//! Defects of Codex CLI, opencode and goose.

use foldback_testkit::recipe::recipe;
use foldback_testkit::strategies;
use proptest::prelude::{prop_assert, proptest};
use proptest::test_runner::TestCaseError;

use crate::defects::*;

/// A conversation that goes on for `round_count` rounds, compacted whenever it passes the target.
fn goes_on(round_count: usize, target: u64, mut each: impl FnMut(&View, &View)) {
    let mut transcript = session(1, 1);
    let mut overlay = Overlay::default();
    transcript.push(Item::user("newest", "now the rest of it"));
    for number in 0..round_count {
        push_round(&mut transcript, 100 + number);
        let before = View::through(&transcript, &overlay).expect("the transcript only grew");
        if before.tokens() > Tokens(target) {
            let after = compact(&before, &LadderStrategy::new(), &budget(target));
            each(&before, &after);
            overlay = after.overlay().clone();
        }
    }
}

/// Codex: the original task can fall outside the 20K.
#[test]
fn the_original_task_survives_every_compaction_of_the_ladder() {
    let task = session(1, 1).get(1).unwrap().item().parts[0].clone();
    let mut compaction_count = 0;
    goes_on(60, 4_000, |_, after| {
        assert!(after.items().any(|item| item.parts.contains(&task)), "{}", after.shape());
        compaction_count += 1;
    });
    assert!(compaction_count >= 5, "{compaction_count}");
}

/// Codex: no convergence guard (74 compactions in 5.9 h). A second run with nothing pushed proposes
/// nothing (T7), and a run that does something makes the view smaller.
#[test]
fn a_compaction_shrinks_the_view_and_a_second_one_has_nothing_to_do() {
    for transcript in [session(6, 3), session_in_flight(4, 3)] {
        let before = View::of(&transcript);
        let half = budget(before.tokens().0 / 2);
        for strategy in every_strategy() {
            let told = strategy.describe();
            let first = plan(&before, &strategy, Some(&half)).unwrap();
            let after = first.apply_floor().view;
            assert!(!first.is_empty() && after.tokens() < before.tokens(), "{told}");
            let second = plan(&after, &strategy, Some(&half)).unwrap();
            assert!(second.is_empty(), "{told}\n{}", second.shape());
        }
    }
    goes_on(60, 4_000, |before, after| {
        assert!(after.tokens() < before.tokens() && after.tokens() <= Tokens(4_000));
        let second = plan(after, &LadderStrategy::new(), Some(&budget(4_000))).unwrap();
        assert!(second.is_empty(), "{}", second.shape());
    });
}

/// A summary of about `percent` of what was asked for, as a model might write it.
fn written(request: &FoldRequest<'_>, percent: u64) -> Item {
    let word_count = (request.fold().spec.tokens_max.0 * percent / 100).saturating_sub(5).max(1);
    request.item("word ".repeat(word_count as usize).trim_end(), "model")
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    /// The same, however short or long the summaries turn out.
    #[test]
    fn a_second_run_has_nothing_to_do_whatever_a_model_wrote(
        recipe in recipe(),
        pipeline in strategies::pipeline(),
        target_percent in 1u64..120,
        summary_percent in 0u64..=100,
    ) {
        let transcript = recipe.transcript();
        let budget = budget((transcript.tokens().0 * target_percent / 100).max(1));
        let Ok(first) = plan(&View::of(&transcript), &pipeline, Some(&budget)) else { return Ok(()) };
        let summaries = first.requests().map(|request| vec![written(&request, summary_percent)]).collect();
        let Ok(compacted) = first.apply(summaries) else { return Ok(()) };
        let second = plan(&compacted.view, &pipeline, Some(&budget));
        let second = second.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(second.is_empty(), "{pipeline:?}\nfirst:\n{}second:\n{}", first.shape(), second.shape());
    }
}

/// Codex: nothing of the work itself survives, so files are read again.
#[test]
fn the_newest_work_survives_the_ladder() {
    goes_on(60, 4_000, |before, after| {
        let newest = before.get(before.len() - 1).unwrap().item();
        assert_eq!(after.items().next_back(), Some(newest));
        let rounds = after.items().filter(|item| item.calls().next().is_some()).count();
        assert!(rounds >= 2, "{}", after.shape());
    });
}

/// Codex: items recorded while the summary is written are overwritten.
#[test]
fn what_is_recorded_while_a_summary_is_written_stays() {
    let mut transcript = session_in_flight(3, 2);
    transcript.push(Item::assistant("asks", vec![Part::call("open", "read", &json!({}))]));
    for strategy in every_strategy() {
        let mut transcript = transcript.clone();
        let compacted = plan(&View::of(&transcript), &strategy, Some(&budget(3_000))).unwrap().apply_floor();
        transcript.push(Item::tool("answers", ToolResult::text("open", "the file")));
        transcript.push(Item::user("meanwhile", "wait, one more thing"));
        let view = View::through(&transcript, compacted.view.overlay()).unwrap();
        let shown = ids(&view);
        assert_eq!(shown[shown.len() - 3..], ["asks", "answers", "meanwhile"], "{}", strategy.describe());
        assert_stays_valid(&View::of(&transcript), &view, &strategy.describe());
    }
}

/// opencode: O(n²) split of the last turn. Here it is one walk; a turn of 3,000 units is split at
/// the one place where the newest units still fit.
#[test]
fn a_last_turn_of_thousands_of_units_is_split_where_it_stops_fitting() {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("old", words(10)));
    transcript.push(Item::user("prompt", words(1)));
    for number in 0..3_000 {
        let call = format!("c{number}");
        transcript
            .push(Item::assistant(format!("a{number}"), vec![Part::call(call.as_str(), "run", &json!({}))]));
        transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, "0123456789")));
    }
    transcript.push(Item::assistant("end", vec![Part::text("done")]));
    let view = compact(&View::of(&transcript), &PreserveRecentTurnsStrategy::within_tail(), &budget(40_000));
    let split = view.iter().find(|entry| entry.kind() == ItemKind::Tool).unwrap().anchor() - 1;
    let tail = transcript.tokens_of(1..2) + transcript.tokens_of(split..transcript.len());
    let clamp = Tokens(40_000 / 4);
    assert!(tail <= clamp, "{tail}");
    assert!(tail + transcript.tokens_of(split - 2..split) > clamp, "one more unit would have fit");
    let expected: Vec<usize> = [1].into_iter().chain(split..transcript.len()).collect();
    let shown: Vec<usize> =
        view.iter().filter(|entry| entry.item().summary.is_none()).map(Entry::anchor).collect();
    assert_eq!(shown, expected);
}

/// goose: with an odd number of tool responses the newest is never removed.
#[test]
fn every_result_can_be_cleared_be_their_number_odd_or_even() {
    for round_count in 1..=7 {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("u", "go"));
        for number in 0..round_count {
            let call = format!("c{number}");
            transcript.push(Item::assistant(
                format!("a{number}"),
                vec![Part::call(call.as_str(), "r", &json!({}))],
            ));
            transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, words(20))));
        }
        transcript.push(Item::assistant("end", vec![Part::text("done")]));
        for keep in 0..=round_count {
            let plan = plan(&View::of(&transcript), &ClearToolResultsStrategy::new(keep), None).unwrap();
            assert_eq!(plan.edits().len(), round_count - keep, "{round_count} results, {keep} kept");
        }
    }
}
