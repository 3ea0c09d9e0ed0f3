use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::compaction::{Compaction, Execution};
use crate::draft::{SummarySize, SummaryWriter};
use crate::edit::Edit;
use crate::item::Item;
use crate::keep::KeptLines;
use crate::part::{Blob, Media, ResultPart, ToolResult};
use crate::plan::Plan;
use crate::strategy::{Fitting, PlanError, plan};
use crate::tokens::{EstimatingCounter, Precision, TokenCounter};
use crate::transcript::Transcript;
use crate::view::View;
use serde_json::json;

fn session(rounds: usize, lines: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::text("s", ItemKind::System, "You are careful."));
    transcript.push(Item::user("task", "Make the parser faster. Never touch the lexer."));
    for number in 0..rounds {
        let call = format!("c{number}");
        let parts = vec![
            Part::reasoning("thinking about it ".repeat(20)),
            Part::call(call.clone(), "read", &json!({"n": number})),
        ];
        transcript.push(Item::assistant(format!("a{number}"), parts));
        transcript.push(Item::tool(
            format!("t{number}"),
            ToolResult::text(call, "a line of output\n".repeat(lines)),
        ));
    }
    transcript.push(Item::assistant("end", vec![Part::text("Done.")]));
    transcript.push(Item::user("next", "And now the tests"));
    transcript
}

fn climb(transcript: &Transcript, target: u64) -> Result<Plan, PlanError> {
    let budget = Budget::for_target(Tokens(target)).unwrap();
    plan(&View::of(transcript), &LadderStrategy::new(), Some(&budget))
}

#[test]
fn gentle_rungs_suffice_where_outputs_are_most_of_it() {
    let transcript = session(40, 100);
    let plan = climb(&transcript, transcript.tokens().0 / 2).unwrap();
    assert!(plan.edits().iter().all(|edit| matches!(edit, Edit::Rewrite(_))), "{}", plan.shape());
    let first = plan.edits()[0].first_index();
    assert_eq!(first, 3, "the oldest result goes first");
}

#[test]
fn the_task_and_the_newest_prompt_survive_a_deep_fold() {
    let transcript = session(200, 50);
    let compacted = climb(&transcript, 1_500).unwrap().apply_digest();
    let ids: Vec<&str> = compacted.view.items().map(|item| item.id.as_str()).collect();
    assert_eq!(ids[..2], ["s", "task"]);
    assert_eq!(ids.last(), Some(&"next"));
    assert_eq!(compacted.view.items().filter(|item| item.summary.is_some()).count(), 1);
    assert!(compacted.view.tokens() <= Tokens(1_500));
}

#[test]
fn a_fresh_result_is_shortened_only_when_nothing_else_helps() {
    let mut transcript = session(5, 20);
    transcript.push(Item::assistant("a", vec![Part::call("fresh", "read", &json!({}))]));
    transcript.push(Item::tool("t", ToolResult::text("fresh", "fresh output\n".repeat(2_000))));
    let fresh = transcript.get(transcript.len() - 1).unwrap().tokens().total;
    let roomy = climb(&transcript, fresh.0 + 400).unwrap().apply_floor();
    assert_eq!(roomy.view.items().last(), transcript.items().last());
    let tight = climb(&transcript, 900).unwrap().apply_floor();
    assert_ne!(tight.view.items().last(), transcript.items().last());
    assert!(tight.view.tokens() <= Tokens(900));
}

#[test]
fn a_task_that_nobody_followed_up_is_shortened_once_work_on_it_began() {
    let task = || Item::user("task", "a wall of text ".repeat(2_000));
    let mut transcript = Transcript::default();
    transcript.push(task());
    assert!(climb(&transcript, 1_000).is_err(), "nobody has answered it yet");
    transcript.push(Item::assistant("a", vec![Part::call("c", "read", &json!({}))]));
    transcript.push(Item::tool("t", ToolResult::text("c", "a line of output\n".repeat(500))));
    let compacted = climb(&transcript, 1_000).unwrap().apply_digest();
    assert!(compacted.view.tokens() <= Tokens(1_000));
    let first = compacted.view.items().next().unwrap();
    assert_eq!((first.id.as_str(), first.kind), ("task", ItemKind::User));
    assert_ne!(first.parts, task().parts);
}

#[test]
fn a_long_report_that_just_came_in_is_shortened_like_a_result() {
    let mut transcript = session(40, 50);
    transcript.push(Item::assistant("a", vec![Part::call("c", "Task", &json!({}))]));
    transcript.push(Item::tool("t", ToolResult::text("c", "started")));
    transcript.push(Item::text("n", ItemKind::Notification, "a line of the report\n".repeat(800)));
    let compacted = climb(&transcript, 1_200).unwrap().apply_digest();
    assert!(compacted.view.tokens() <= Tokens(1_200));
    assert_eq!(compacted.view.items().last().unwrap().kind, ItemKind::Notification);
}

#[test]
fn a_long_task_stays_whole_where_a_summary_could_not_use_its_room() {
    let mut transcript = Transcript::default();
    let task = Item::user("task", "Make each of the parsers faster. ".repeat(40));
    transcript.push(task.clone());
    transcript.push(Item::assistant("a", vec![Part::text("I begin.")]));
    transcript.push(Item::assistant("b", vec![Part::call("c", "read", &json!({}))]));
    transcript.push(Item::tool("t", ToolResult::text("c", "a line of output\n".repeat(3_000))));
    let compacted = climb(&transcript, 1_000).unwrap().apply_digest();
    assert_eq!(compacted.view.items().next().unwrap().parts, task.parts);
    assert!(compacted.view.tokens() <= Tokens(1_000));
}

#[test]
fn a_summary_whose_items_are_not_recorded_keeps_the_room_there_is() {
    let compacted = climb(&session(300, 50), 3_000).unwrap().apply_digest();
    let mut transcript = Transcript::default();
    for item in compacted.view.items() {
        let mut item = Item::clone(item);
        // As a reader finds it that has nothing but the text.
        if let Some(origin) = &mut item.summary {
            origin.tokens_before = Tokens::ZERO;
        }
        transcript.push(item);
    }
    let summary = |items: &[Tokens]| items.iter().copied().max().unwrap_or_default();
    let tokens = |view: &View| -> Vec<Tokens> {
        let summaries = view.iter().filter(|entry| entry.holds().contains(Holds::SUMMARY));
        summaries.map(|entry| entry.tokens().total).collect()
    };
    let before = summary(&tokens(&View::of(&transcript)));
    let again = climb(&transcript, transcript.tokens().0 * 9 / 10).unwrap().apply_digest();
    let after = summary(&tokens(&again.view));
    assert!(after.0 * 2 > before.0, "{before} before, {after} after");
}

/// Knows how much it was given to count.
#[derive(Debug, Default)]
struct Watched(AtomicUsize);

impl TokenCounter for Watched {
    fn name(&self) -> &str {
        "watched"
    }

    fn count(&self, text: &str) -> Tokens {
        self.0.fetch_add(text.len(), Ordering::Relaxed);
        EstimatingCounter.count(text)
    }

    fn precision(&self) -> Precision {
        EstimatingCounter.precision()
    }
}

#[test]
fn a_long_result_is_not_counted_again_to_be_shortened() {
    const LONG_BYTES: usize = 200_000;
    let counter = Arc::new(Watched::default());
    let mut transcript = Transcript::new(counter.clone());
    transcript.push(Item::user("task", "Look at every page."));
    for number in 0..20 {
        let call = format!("c{number}");
        let asked = vec![Part::call(call.clone(), "read", &json!({"n": number}))];
        transcript.push(Item::assistant(format!("a{number}"), asked));
        let mut page = ToolResult::text(call, "a line of output\n".repeat(LONG_BYTES / 17));
        page.content.push(ResultPart::Media(Media {
            media_type: "image/png".into(),
            data: Blob::Base64("iVBORw0KGgo=".into()),
            pixels: Some((1_024, 768)),
        }));
        transcript.push(Item::tool(format!("t{number}"), page));
    }
    let before = counter.0.load(Ordering::Relaxed);
    assert!(before >= 20 * LONG_BYTES / 17 * 17, "everything is counted once");
    let plan = climb(&transcript, transcript.tokens().0 / 2).unwrap();
    assert!(!plan.is_empty());
    let counted = counter.0.load(Ordering::Relaxed) - before;
    assert!(counted < 4 * LONG_BYTES, "{counted} bytes were counted");
}

#[test]
fn what_a_summary_does_not_need_is_the_tails() {
    let transcript = session(300, 5);
    let view = View::of(&transcript);
    let budget = Budget::for_target(Tokens(transcript.tokens().0 / 4)).unwrap();
    let first = plan(&view, &LadderStrategy::new(), Some(&budget)).unwrap();
    let written = Tokens(first.summaries_max().0 / 4);
    let (strategy, room) = (&LadderStrategy::new(), Some(budget.target()));
    let summary_size = Some(SummarySize::AtMost(written));
    let again = Fitting {
        strategy,
        budget: Some(&budget),
        room,
        summary_size,
        writer: SummaryWriter::Model,
        lines: &KeptLines::default(),
    };
    let (again, _) = again.plan(&view).unwrap();
    assert!(again.summaries_max() <= written && again.tokens_after() <= budget.target());
    let kept = |plan: &Plan| plan.apply_floor().view.len();
    assert!(kept(&again) > kept(&first) + 20, "{} and {}", kept(&again), kept(&first));
}

/// A round that reads so many lines.
fn round(transcript: &mut Transcript, number: usize, lines: usize) {
    let call = format!("c{number}");
    let parts = vec![Part::call(call.clone(), "read", &json!({"path": format!("src/{number}.rs")}))];
    transcript.push(Item::assistant(format!("a{number}"), parts));
    let line = |line: usize| format!("line {line} of file {number}\n");
    let output: String = (0..lines).map(line).collect();
    transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, output)));
}

/// Fifteen small outputs, then a large one, then what was done with them.
fn small_ones_before_a_large_one() -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Look at every file, then mend the parser."));
    (0..15).for_each(|number| round(&mut transcript, number, 40));
    round(&mut transcript, 15, 8_000);
    (16..60).for_each(|number| round(&mut transcript, number, 120));
    transcript.push(Item::assistant("end", vec![Part::text("Done.")]));
    transcript.push(Item::user("next", "And now the tests"));
    transcript
}

#[test]
fn one_large_output_is_cut_to_what_fits_and_small_ones_before_it_stay() {
    let transcript = small_ones_before_a_large_one();
    let target = transcript.tokens().0 * 3 / 4;
    let plan = climb(&transcript, target).unwrap();
    let after = plan.apply_digest().view.tokens().0;
    assert!(after <= target && after * 100 >= target * 97, "{after} of {target}");
    let [Edit::Rewrite(rewrite)] = plan.edits() else { panic!("{} edits", plan.edits().len()) };
    assert_eq!(transcript.get(rewrite.item_index).unwrap().item().id.as_str(), "t15");
    let Some(Part::ToolResult(result)) = &rewrite.replacement else { panic!("{rewrite:?}") };
    let text = result.content[0].as_text().unwrap();
    assert!(text.starts_with("line 0 of file 15\n") && text.ends_with("line 7999 of file 15\n"));
    assert_eq!(plan.first_changed(), Some(32), "the prefix before it stays in the provider's cache");
}

#[test]
fn what_another_strategy_cut_is_not_given_back() {
    use crate::strategy::{StrategyPipeline, TruncateToolOutputsStrategy};
    let transcript = small_ones_before_a_large_one();
    let pipeline = StrategyPipeline::new()
        .with_strategy(TruncateToolOutputsStrategy::by_tokens(Tokens(500)).unwrap())
        .with_strategy(LadderStrategy::new());
    let view = View::of(&transcript);
    let cut = plan(&view, &TruncateToolOutputsStrategy::by_tokens(Tokens(500)).unwrap(), None).unwrap();
    let budget = Budget::for_target(Tokens(cut.tokens_after().0 * 9 / 10)).unwrap();
    let compacted = plan(&view, &pipeline, Some(&budget)).unwrap().apply_digest().view;
    let large = compacted.iter().find(|entry| entry.item().id.as_str() == "t15").unwrap();
    assert!(large.tokens().total <= Tokens(520), "{}", large.tokens().total);
}

#[test]
fn reasoning_goes_only_as_far_as_needed() {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Think about it."));
    for number in 0..40 {
        let parts = vec![Part::reasoning("thinking about it ".repeat(60)), Part::text("So.")];
        transcript.push(Item::assistant(format!("a{number}"), parts));
        transcript.push(Item::user(format!("u{number}"), "Go on."));
    }
    let target = transcript.tokens().0 * 3 / 4;
    let plan = climb(&transcript, target).unwrap();
    let removed = plan.edits().iter().map(Edit::first_index).collect::<Vec<_>>();
    assert_eq!(removed, (0..removed.len()).map(|n| 1 + 2 * n).collect::<Vec<_>>(), "the oldest go");
    assert!(plan.tokens_after().0 * 100 >= target * 97, "{} of {target}", plan.tokens_after());
}

#[test]
fn a_result_in_flight_keeps_what_there_is_room_for() {
    let mut transcript = session(5, 20);
    transcript.push(Item::assistant("a", vec![Part::call("fresh", "read", &json!({}))]));
    transcript.push(Item::tool("t", ToolResult::text("fresh", "fresh output\n".repeat(20_000))));
    let budget = Budget::for_target(Tokens(transcript.tokens().0 / 2)).unwrap();
    let execution = Execution::new(View::of(&transcript), LadderStrategy::new()).with_budget(budget);
    let after = Compaction::begin(execution).unwrap().digest().unwrap().view.tokens().0;
    let target = budget.target().0;
    assert!(after <= target && after * 100 >= target * 95, "{after} of {target}");
}

#[test]
fn under_target_is_left_alone() {
    let transcript = session(5, 20);
    assert!(climb(&transcript, transcript.tokens().0).unwrap().is_empty());
}

#[test]
fn without_a_budget_there_is_no_plan() {
    let transcript = session(5, 20);
    let planned = plan(&View::of(&transcript), &LadderStrategy::new(), None);
    assert!(matches!(planned, Err(PlanError::BudgetRequired { .. })));
}
