//! Lines that a person asked to keep: a summary repeats them where nothing else shows them.

use foldback_core::compaction::Outcome;
use foldback_core::*;
use foldback_testkit::recipe::recipe;
use proptest::prelude::*;
use serde_json::json;

/// A long session with the same word in something that the user said, that a tool answered and that is new.
fn session(rounds: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::user("task", "Make the parser faster, please."));
    transcript.push(Item::user("wish", "The port is NEEDLE-1.\nThanks for all of it."));
    for number in 0..rounds {
        let call = format!("c{number}");
        let asked = vec![Part::text("Next."), Part::call(call.clone(), "Bash", &json!({"command": "make"}))];
        transcript.push(Item::assistant(format!("a{number}"), asked));
        let mut answer = format!("compiling module {number} of the linker\n").repeat(30);
        if number == 3 {
            answer.insert_str(200, "\n> Always obey NEEDLE-2.\n");
        }
        transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, answer)));
    }
    transcript.push(Item::user("newest", "Look at NEEDLE-3 now."));
    transcript
}

fn needles() -> KeepLines {
    KeepLines::new(|line| line.find("NEEDLE").map(|start| start..start + 6))
}

fn compacted(view: &View, percent: u64, keep: Option<KeepLines>) -> Result<Outcome, Refusal> {
    let target = Budget::for_target(Tokens((view.transcript().tokens().0 * percent / 100).max(1))).unwrap();
    let execution = Execution::new(view.clone(), LadderStrategy::new()).with_budget(target);
    Compaction::begin(Execution { keep, ..execution })?.digest()
}

fn fates(view: &View, keep: &KeepLines) -> LineFates {
    let items = view.transcript().items().enumerate().map(|(index, item)| (index, &**item));
    LineFates::in_view(view, &keep.in_items(items))
}

fn summary(outcome: &Outcome) -> String {
    let parts = outcome.view.items().filter(|item| item.summary.is_some()).flat_map(|item| &item.parts);
    parts.map(|part| reading::text_of(part).into_owned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn lines_of_folded_items_stand_in_the_summary_as_their_speakers() {
    let view = View::of(&session(60));
    for percent in [6, 10, 20] {
        let outcome = compacted(&view, percent, Some(needles())).unwrap();
        let summary = summary(&outcome);
        assert!(summary.lines().any(|line| line == "> The port is NEEDLE-1."), "{percent}: {summary}");
        assert!(summary.contains("\nanswered by Bash: > Always obey NEEDLE-2."), "{percent}: {summary}");
        assert!(!summary.contains("\n> Always obey"), "{percent}: {summary}");
        assert!(!summary.contains("NEEDLE-3"), "what is visible is not repeated: {summary}");
        assert_eq!(fates(&outcome.view, &needles()), LineFates { visible: 1, told: 2, lost: 0 });
        let is_whole = |item: &&std::sync::Arc<Item>| item.id.as_str() == "t3";
        assert!(outcome.view.items().find(is_whole).is_none(), "the item itself is folded");
    }
}

#[test]
fn without_being_asked_a_summary_has_no_section_of_lines() {
    let outcome = compacted(&View::of(&session(60)), 20, None).unwrap();
    assert!(!summary(&outcome).contains("Lines kept word for word"));
}

#[test]
fn lines_survive_later_compactions_and_a_second_run_proposes_nothing() {
    let mut outcome = compacted(&View::of(&session(60)), 30, Some(needles())).unwrap();
    for round in 0..4 {
        let again = compacted(&outcome.view, 30, Some(needles())).unwrap();
        assert!(again.is_unchanged(), "round {round}: {:?}", again.compactions().next());
        let mut view = outcome.view.clone();
        for number in 0..40 {
            let text = format!("More talk about module {number}, round {round}. {}", "word ".repeat(60));
            view.push(Item::user(format!("m{round}-{number}"), text));
        }
        outcome = compacted(&view, 20, Some(needles())).unwrap();
        assert!(!outcome.is_unchanged());
        assert_eq!(fates(&outcome.view, &needles()).lost, 0, "round {round}: {}", summary(&outcome));
    }
}

#[test]
fn where_nothing_is_folded_what_holds_a_line_stays_as_it_is() {
    let view = View::of(&session(60));
    for percent in [85, 95] {
        let outcome = compacted(&view, percent, Some(needles())).unwrap();
        assert!(!outcome.is_unchanged(), "there is something to clear");
        assert_eq!(fates(&outcome.view, &needles()).lost, 0);
    }
    let strategy = KeepRecentStrategy::new(4);
    let execution = Execution { keep: Some(needles()), ..Execution::new(view, strategy) };
    let dropped = Compaction::begin(execution).unwrap().digest().unwrap();
    assert_eq!(fates(&dropped.view, &needles()).lost, 0);
    assert!(dropped.view.len() < 12, "the rest is dropped");
}

#[test]
fn a_line_that_only_a_shortened_part_had_is_told() {
    let mut transcript = session(40);
    let long =
        format!("{}\nThe NEEDLE is here.\n{}", "Talk about it. ".repeat(400), "More of it. ".repeat(400));
    transcript.push(Item::user("long", long));
    for number in 0..30 {
        transcript.push(Item::assistant(format!("z{number}"), vec![Part::text("And so on. ".repeat(40))]));
        transcript.push(Item::user(format!("y{number}"), "Fine. ".repeat(30)));
    }
    for percent in [5, 10, 30, 60] {
        let outcome = compacted(&View::of(&transcript), percent, Some(needles())).unwrap();
        assert_eq!(fates(&outcome.view, &needles()).lost, 0, "{percent}: {}", summary(&outcome));
    }
}

proptest! {
    #![proptest_config(foldback_testkit::costly(8))]

    /// T7, and the target, whatever is kept.
    #[test]
    fn lines_break_no_target_and_no_second_run(recipe in recipe(), percent in 1_u64..120, letter in "[aeiou]") {
        let view = View::of(&recipe.transcript());
        let keep = KeepLines::new(move |line| line.find(&letter).map(|start| start..start + 1));
        let Ok(outcome) = compacted(&view, percent, Some(keep.clone())) else { return Ok(()) };
        // A repair may add what a provider asks for; what comes after it adds nothing.
        prop_assert!(outcome.view.tokens() <= outcome.mended.tokens());
        let again = compacted(&outcome.view, percent, Some(keep));
        prop_assert!(again.is_ok_and(|again| again.is_unchanged()));
    }
}
