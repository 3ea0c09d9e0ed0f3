//! Summaries that somebody wrote: what they leave of the target is the tail's, and they say what they
//! stand for.

use std::sync::Arc;

use foldback_core::compaction::{MODEL_SUMMARY_TOKENS, Outcome};
use foldback_core::summary::ModelSummary;
use foldback_core::*;
use foldback_testkit::recipe::recipe;
use proptest::prelude::*;
use serde_json::json;

/// An agent at work: a task, rounds with outputs, a second wish on the way, and a failure at the end.
fn session(rounds: usize) -> Transcript {
    session_with(rounds, rounds / 2)
}

fn session_with(rounds: usize, wish_at: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Make the parser faster. Never touch src/lexer.rs."));
    for number in 0..rounds {
        if number == wish_at {
            transcript.push(Item::user("wish", "And now the linker, please."));
        }
        let call = format!("c{number}");
        let asked = vec![Part::text("Next."), Part::call(call.clone(), "Bash", &json!({"command": "make"}))];
        transcript.push(Item::assistant(format!("a{number}"), asked));
        let lines = if number % 9 == 8 { 400 } else { 30 };
        let answer = format!("compiling module {number} of the linker\n").repeat(lines);
        transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, answer)));
    }
    transcript
}

fn begun(view: &View, percent: u64) -> Result<Compaction<LadderStrategy>, Refusal> {
    begun_to(view, Tokens((view.tokens().0 * percent / 100).max(1)))
}

fn begun_to(view: &View, target: Tokens) -> Result<Compaction<LadderStrategy>, Refusal> {
    let budget = Budget::for_target(target).unwrap();
    let mut execution = Execution::new(view.clone(), LadderStrategy::new()).with_budget(budget);
    execution.summaries_max = Some(MODEL_SUMMARY_TOKENS);
    Compaction::begin(execution)
}

/// A summary of about this share of what was asked for, and never more.
fn written(request: &FoldRequest<'_>, percent: u64) -> Vec<Item> {
    let meter = request.view().transcript().meter();
    let item = |lines: usize| {
        let answer = "What matters of it is told in this line.\n".repeat(lines);
        let mut text =
            ModelSummary { answer: answer.trim_end(), ..ModelSummary::default() }.text(&request.header());
        if let Some(closing) = request.closing() {
            text = format!("{text}\n{closing}");
        }
        request.item(text, "model")
    };
    let room = Tokens(request.fold().spec.tokens_max.0 * percent / 100);
    let lines = (0..400).rev().find(|&lines| meter.item(&item(lines)).total <= room).unwrap_or(0);
    vec![item(lines)]
}

fn answered(compaction: &Compaction<LadderStrategy>, percent: u64) -> Outcome {
    let answers = compaction.asks().map(|request| Some(written(&request, percent))).collect();
    compaction.clone().answer(answers).unwrap()
}

/// The recorded items that can be seen.
fn seen(view: &View) -> Vec<usize> {
    view.iter().filter(|entry| entry.item().summary.is_none()).map(Entry::anchor).collect()
}

fn summary(outcome: &Outcome) -> &Item {
    outcome.summaries().next().expect("there is a summary")
}

fn text(item: &Item) -> &str {
    match &item.parts[..] {
        [Part::Text(text)] => text,
        parts => panic!("{parts:?}"),
    }
}

#[test]
fn what_a_model_leaves_of_the_target_stays_as_it_was() {
    let view = View::of(&session(200));
    for percent in [4, 10, 25, 60] {
        let compaction = begun(&view, percent).unwrap();
        let target = Tokens(view.tokens().0 * percent / 100);
        let (short, long) = (answered(&compaction, 25), answered(&compaction, 100));
        let (short_seen, long_seen) = (seen(&short.view), seen(&long.view));
        let after = short.view.tokens();
        assert!(after <= target && after.0 * 10 >= target.0 * 8, "{percent}%: {after} of {target}");
        let planned = seen(&compaction.plan().apply_floor().view);
        assert!(planned.iter().all(|index| short_seen.contains(index)), "{percent}%");
        assert!(percent > 4 || short_seen.len() > long_seen.len(), "{percent}%: {}", short_seen.len());
        assert_eq!(
            short.view.undo().unwrap().0.items().collect::<Vec<_>>(),
            view.items().collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_model_is_asked_for_no_more_than_its_summary_and_a_digest_has_all_the_room() {
    let view = View::of(&session(400));
    let compaction = begun(&view, 30).unwrap();
    assert!(compaction.plan().summaries_max() <= MODEL_SUMMARY_TOKENS);
    let budget = Budget::for_target(Tokens(view.tokens().0 * 30 / 100)).unwrap();
    let alone = Compaction::begin(Execution::new(view, LadderStrategy::new()).with_budget(budget)).unwrap();
    let (failed, alone) = (compaction.answer(vec![None]).unwrap(), alone.digest().unwrap());
    assert_eq!(failed.blocks, alone.blocks, "where a model fails, nobody can tell that it was asked");
}

#[test]
fn a_summary_says_what_it_stands_for_after_the_tail_has_grown() {
    let view = View::of(&session(200));
    let compaction = begun(&view, 10).unwrap();
    let asked = compaction.asks().next().unwrap().fold().clone();
    let outcome = answered(&compaction, 25);
    let block = outcome.compactions().next().unwrap();
    let fold = block.edits.iter().find_map(|edit| match edit {
        Edit::Fold(fold) => Some(fold),
        Edit::Drop(_) | Edit::Rewrite(_) => None,
    });
    let (fold, item) = (fold.unwrap(), summary(&outcome));
    assert!(fold.item_count() < asked.item_count() && fold.handle != asked.handle);
    let header = format!("[Summary of {} folded items, {}. ", fold.item_count(), fold.handle);
    assert!(text(item).starts_with(&header), "{}", text(item));
    assert_eq!(item.summary.as_ref().map(|origin| &origin.handle), Some(&fold.handle));
    assert!(item.id.ends_with(fold.handle.as_str().trim_start_matches('@')), "{}", item.id);
    let recalled = outcome.view.recall(&fold.handle);
    assert!(matches!(recalled, Some(Recalled::Items(items)) if items.len() == fold.item_count()));
}

#[test]
fn a_message_that_is_older_than_the_summary_before_it_is_said_to_be() {
    let view = View::of(&session(200));
    let compaction = begun(&view, 10).unwrap();
    let outcome = answered(&compaction, 25);
    let told = text(summary(&outcome));
    let kept = seen(&outcome.view);
    let wish = view.items().position(|item| item.id.as_str() == "wish").unwrap();
    let later = (wish + 1..view.len()).filter(|index| !kept.contains(index)).count();
    let expected = format!(
        "\n[The user's message “And now the linker, please.” behind this summary is not new: \
         the last {later} items that it tells of came after it.]"
    );
    assert!(told.ends_with(&expected), "{told}");
    // With a tail that reaches back to the message there is nothing to be said.
    let outcome = answered(&begun(&View::of(&session_with(200, 196)), 10).unwrap(), 25);
    assert!(!text(summary(&outcome)).contains("is not new"), "{}", outcome.view.shape());
}

#[test]
fn what_stays_is_told_as_it_will_be_seen() {
    let view = View::of(&session(200));
    let compaction = begun(&view, 10).unwrap();
    let staying = compaction.asks().next().unwrap().staying();
    let after = compaction.plan().apply_floor().view;
    let visible: Vec<&Arc<Item>> = after.items().filter(|item| item.summary.is_none()).collect();
    assert_eq!(staying.iter().collect::<Vec<_>>(), visible);
    assert!(staying.len() > 4 && staying[0].id.as_str() == "task");
}

proptest! {
    #![proptest_config(foldback_testkit::costly(8))]

    /// T2, T5, T7: whatever is answered, no larger than asked, the outcome fits and is valid, a short answer
    /// hides nothing that a long one leaves visible, and undo gives back what was seen.
    #[test]
    fn a_short_answer_leaves_more_of_the_tail_and_every_outcome_fits(
        recipe in recipe(),
        target_percent in 2u64..90,
        answer_percent in 0u64..101,
    ) {
        let view = View::of(&recipe.transcript());
        let target = Tokens((view.tokens().0 * target_percent / 100).max(1));
        let Ok(compaction) = begun(&view, target_percent) else { return Ok(()) };
        let first = compaction.plan().apply_floor().view;
        let outcome = answered(&compaction, answer_percent);
        prop_assert!(outcome.view.tokens() <= target);
        let seen = seen(&outcome.view);
        prop_assert!(self::seen(&first).iter().all(|index| seen.contains(index)));
        if dialect::check(view.items(), None).is_empty() {
            prop_assert_eq!(dialect::check(outcome.view.items(), None), []);
        }
        if let Some((undone, _)) = outcome.view.undo() {
            prop_assert_eq!(undone.items().collect::<Vec<_>>(), view.items().collect::<Vec<_>>());
        }
        prop_assert!(begun_to(&outcome.view, target).unwrap().plan().is_empty());
        let again = answered(&compaction, answer_percent);
        prop_assert_eq!(again.blocks, outcome.blocks);
    }
}
