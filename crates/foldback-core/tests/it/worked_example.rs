//! The worked example of the specification, item by item: 20 items, a trigger at 12, and the
//! pipeline drop reasoning, drop failed tool results, keep recent 8 preserving System and Context.

use std::sync::Arc;

use foldback_core::*;
use foldback_testkit::fixture::{WORKED_EXAMPLE, transcript};

fn pipeline() -> StrategyPipeline {
    let keep_recent =
        KeepRecentStrategy::new(8).preserve_kind(ItemKind::System).preserve_kind(ItemKind::Context);
    StrategyPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(keep_recent)
}

fn planned(transcript: &Transcript) -> Plan {
    plan(&View::of(transcript), &pipeline(), None).expect("no step needs a budget")
}

#[test]
fn more_than_twelve_items_fire_the_trigger() {
    let transcript = transcript(WORKED_EXAMPLE);
    assert_eq!(transcript.len(), 20);
    let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded);
    assert_eq!(ItemCountTrigger::new(12).fires(&context), Some(CompactionReason::TranscriptTooLong));
    assert_eq!(ItemCountTrigger::new(12).fires(&context), Some(CompactionReason::TranscriptTooLong));
    assert_eq!(ItemCountTrigger::new(20).fires(&context), None);
    let compacted = planned(&transcript).apply_floor().view;
    let context = TriggerContext::new(&compacted, MutationPoint::AfterTurnEnded);
    assert_eq!(ItemCountTrigger::new(12).fires(&context), None, "what is left does not fire again");
}

#[test]
fn exactly_these_ten_items_remain() {
    let transcript = transcript(WORKED_EXAMPLE);
    let view = planned(&transcript).apply_floor().view;
    let indices: Vec<usize> = view.iter().map(Entry::anchor).collect();
    assert_eq!(indices, [0, 1, 10, 13, 14, 15, 16, 17, 18, 19]);
    for entry in view.iter().take(9) {
        let recorded = transcript.get(entry.anchor()).unwrap().item();
        assert!(Arc::ptr_eq(entry.item(), recorded), "{} is as it was recorded", recorded.id);
    }
    let (last, recorded) = (view.get(9).unwrap().item(), transcript.get(19).unwrap().item());
    assert!(matches!(recorded.parts.as_slice(), [Part::Reasoning(_), Part::Text(_)]));
    assert_eq!(last.parts, recorded.parts[1..], "19 without its reasoning");
}

#[test]
fn what_remains_is_valid_in_every_dialect_and_settled() {
    let transcript = transcript(WORKED_EXAMPLE);
    let view = planned(&transcript).apply_floor().view;
    for dialect in Dialect::ALL.map(Some).into_iter().chain([None]) {
        assert_eq!(dialect::check(view.items(), dialect), [], "{dialect:?}");
    }
    assert!(plan(&view, &pipeline(), None).unwrap().is_empty());
}

#[test]
fn the_plan_says_what_it_costs_the_prompt_cache() {
    let transcript = transcript(WORKED_EXAMPLE);
    let plan = planned(&transcript);
    let compacted = plan.apply_floor();
    assert_eq!(plan.first_changed(), Some(2), "the system and the context item are the anchor");
    assert_eq!(plan.prefix_tokens_kept(), transcript.tokens_of(0..2));
    assert_eq!((plan.tokens_before(), plan.tokens_after()), (Tokens(368), Tokens(166)));
    assert_eq!(plan.tokens_before(), transcript.tokens());
    assert_eq!(compacted.view.tokens(), plan.tokens_after());
    assert_eq!(compacted.block.tokens_before, plan.tokens_before());
    assert_eq!(compacted.block.tokens_after, plan.tokens_after());
}

#[test]
fn the_pipeline_prints_as_its_steps() {
    let told = "drop-reasoning → drop-failed-tool-results → keep-recent(8)";
    assert_eq!(format!("{:?}", pipeline()), told);
    assert_eq!(planned(&transcript(WORKED_EXAMPLE)).strategy(), told);
}

#[test]
fn the_plan_has_this_shape() {
    assert_eq!(planned(&transcript(WORKED_EXAMPLE)).shape(), SHAPE.trim_start_matches('\n'));
}

const SHAPE: &str = r#"
    0 system            11t "You are a careful Rust engineer."
    1 context           15t "The workspace has one crate with src/par…"
-   2 user              10t "What files are in src/?"
-   3 assistant         32t reasoning "Let me look." call:fs_list_directory(c3)
-   4 tool              16t result(c3) "lib.rs parser.rs"
-   5 assistant         14t "There are two files: lib.rs and parser.r…"
-   6 user               7t "Read parser.rs"
-   7 assistant         22t call:fs_read_file(c7)
-   8 tool              25t result(c7) "pub fn parse(text: &str) -> Ast { Ast {}…"
-   9 assistant         16t "It has one function, parse, which does n…"
   10 user               8t "Add error handling"
-  11 assistant         35t call:fs_replace_in_file(c11)
-  12 tool              18t result!(c11) "the text to replace occurs twice"
   13 assistant         42t "I will name the whole line." call:fs_replace_in_file(c13)
   14 tool              19t result(c13) "replaced 1 occurrence"
   15 assistant         21t call:shell_exec(c15)
   16 tool              22t result(c15) "Finished dev profile in 0.8s"
   17 assistant         10t "parse now returns a Result."
   18 user               7t "Now add tests"
~  19 assistant         18t reasoning "I will write one test per error."
- 2..10 keep-recent: older than the newest 8 items
- 11..13 drop-failed-tool-results: the call failed
~ 19.0 now 0t, @23fx6n7jb3 drop-reasoning: reasoning outside the loop in flight
"#;
