//! Defects of phi-core; each name says what holds here.

use std::collections::BTreeSet;

use foldback_core::{CompactionReason, Fate, check};
use foldback_engine::session::{LoopPlace, LoopTurns};

use crate::session::*;

/// phi-core: under 12 turns, messages are loaded twice (10 become 14).
#[test]
fn nothing_is_loaded_twice_however_few_turns_there_are() {
    for turns in 0..=16 {
        let (mut session, current) = session(turns, 5);
        let before = context(&session, &current);
        compact(&mut session, &current);
        let after = context(&session, &current);
        let distinct: BTreeSet<&str> = ids(&after).into_iter().collect();
        assert_eq!(distinct.len(), after.items.len(), "{turns} turns");
        if turns <= 12 {
            assert_eq!(ids(&after), ids(&before), "{turns} turns are all kept");
        }
    }
}

/// phi-core: a loop compacted while current vanishes when it becomes an older one.
#[test]
fn a_loop_compacted_while_current_is_still_told_of_when_it_is_an_older_one() {
    let (mut session, first) = session(40, 20);
    compact(&mut session, &first);
    assert!(session.record(&first).unwrap().older_block().is_none());
    let second = session.begin_loop();
    push_turn(&mut session, 100, 5);

    let unchanged = context(&session, &second);
    assert!(ids(&unchanged).contains(&"u39"), "until the next compaction it is seen as it was");

    let done = compact(&mut session, &second);
    let older = done.loops.iter().find(|done| done.loop_id == first).unwrap();
    assert_eq!(older.place, LoopPlace::Older);
    let record = session.record(&first).unwrap();
    let block = record.compaction_block(LoopPlace::Older).unwrap().unwrap();
    let summarised = block.keep_compacted.unwrap();
    assert_eq!((block.keep_first, block.keep_recent), (None, None));
    assert_eq!((summarised.range.start_turn(), summarised.range.end_turn()), (0, 39));

    let after = context(&session, &second);
    let summary = after.items.iter().find(|item| item.summary.is_some()).unwrap();
    assert_eq!(summary.summary.as_ref().unwrap().item_count, 160, "every item but the instructions");
    assert_eq!(after.items.iter().filter(|item| item.summary.is_some()).count(), 1);
    assert!(ids(&after).contains(&"u100") && ids(&after).contains(&"system"));

    let resumed = context(&session, &first);
    assert!(ids(&resumed).contains(&"u39"), "a loop that is resumed is seen as it was left");
}

/// phi-core: summarising by message index leaves orphan tool results.
#[test]
fn no_result_is_left_without_its_call_wherever_the_sections_end() {
    for recent in 0..6 {
        for turns in [3, 7, 20] {
            let (mut session, current) = session(turns, 30);
            let config = CompactionConfig {
                keep_first_turns: recent % 3,
                keep_recent_turns: recent,
                ..CompactionConfig::default()
            };
            compact_for(&mut session, &current, &config, WINDOW).unwrap();
            let context = context(&session, &current);
            assert_eq!(check(&context.items, None), []);
            assert!(context.repairs.is_empty());
        }
    }
}

/// phi-core: one oversized newest message drops everything else.
#[test]
fn an_oversized_newest_message_is_named_and_the_session_stays_what_it_was() {
    let (mut session, current) = session(5, 10);
    session.push(Item::user("huge", "x1 ".repeat(100_000))).unwrap();
    let before = context(&session, &current);
    let refused = compact_for(&mut session, &current, &CompactionConfig::default(), WINDOW);
    let Err(infeasible!(infeasible)) = refused else { panic!("{refused:?}") };
    assert_eq!(infeasible.kernel[0].id.as_str(), "huge");
    assert_eq!(ids(&context(&session, &current)), ids(&before));
    assert!(!session.undo(), "there is nothing to undo");

    let roomy = Tokens(before.tokens.0 + 2_000);
    compact_for(&mut session, &current, &CompactionConfig::default(), roomy).unwrap();
    let after = context(&session, &current);
    assert!(ids(&after).contains(&"huge") && ids(&after).contains(&"e4"), "{:?}", ids(&after));
}

/// phi-core: a single 400 KB line drops everything else.
#[test]
fn a_single_enormous_line_is_cut_and_nothing_else_goes() {
    let (mut session, current) = session(4, 5);
    let call = Part::call("big", "read", &json!({}));
    session.push(Item::user("ask", "read it")).unwrap();
    session.push(Item::assistant("call", vec![call])).unwrap();
    session.push(Item::tool("line", ToolResult::text("big", "x".repeat(400_000)))).unwrap();
    session.push(Item::assistant("end", vec![Part::text("that was long")])).unwrap();
    let before = context(&session, &current);
    compact(&mut session, &current);
    let after = context(&session, &current);
    assert_eq!(ids(&after), ids(&before));
    assert!(after.tokens < Tokens(5_000), "{}", after.tokens);
}

/// phi-core: triggers at 81K, aims for 96K, so it runs every turn and changes nothing.
#[test]
fn a_compaction_that_is_due_makes_room_for_many_turns() {
    let (mut session, current) = session(0, 0);
    let config = CompactionConfig::default();
    let (mut compactions, mut last) = (0, None);
    for turn in 0..300 {
        push_turn(&mut session, turn, 30);
        let tokens = context(&session, &current).tokens;
        let Some(reason) = config.should_compact(tokens, WINDOW).unwrap() else { continue };
        let done = compact(&mut session, &current);
        assert_eq!(done.reason, reason);
        assert!(matches!(reason, CompactionReason::BudgetReached { .. }));
        assert!(done.tokens_after <= config.budget(WINDOW).unwrap().target(), "{}", done.tokens_after);
        assert!(last.is_none_or(|last| turn - last > 5), "turn {turn} follows {last:?}");
        let again = compact(&mut session, &current);
        assert!(again.loops.is_empty(), "a second run changes nothing");
        (compactions, last) = (compactions + 1, Some(turn));
    }
    assert!((3..30).contains(&compactions), "{compactions}");
}

/// phi-core: the stored record is overwritten by its compacted form.
#[test]
fn the_record_is_never_overwritten() {
    let (mut session, current) = session(40, 60);
    let recorded: Vec<Arc<Item>> = session.record(&current).unwrap().transcript().items().cloned().collect();
    compact(&mut session, &current);
    let next = session.begin_loop();
    push_turn(&mut session, 100, 5);
    compact(&mut session, &next);
    let record = session.record(&current).unwrap();
    assert!(record.transcript().items().zip(&recorded).all(|(now, then)| Arc::ptr_eq(now, then)));
    assert_eq!(record.transcript().len(), recorded.len());
    assert!(record.blocks().len() >= 2, "both blocks stay");
}

/// phi-core: `keep_first_turns = 0` still keeps a turn.
#[test]
fn keeping_no_first_turn_keeps_none() {
    let (mut session, current) = session(30, 20);
    let config = CompactionConfig { keep_first_turns: 0, ..CompactionConfig::default() };
    compact_for(&mut session, &current, &config, WINDOW).unwrap();
    let record = session.record(&current).unwrap();
    let view = record.view(LoopPlace::MostRecent).unwrap();
    assert!(matches!(view.fates()[1], Fate::Folded(_)), "the first prompt is folded");
    let block = record.compaction_block(LoopPlace::MostRecent).unwrap().unwrap();
    assert_eq!(block.keep_first, None);
    assert_eq!(block.keep_compacted.as_ref().unwrap().range.start_turn(), 0);
    let turns = record.turns();
    let loaded = block.load(LoopTurns { transcript: record.transcript(), turns: &turns });
    assert!(loaded.iter().eq(view.items()));
}

/// phi-core: summaries look like user messages.
#[test]
fn a_summary_is_context_and_never_speaks_as_the_user() {
    let (mut session, current) = session(40, 20);
    compact(&mut session, &current);
    let after = context(&session, &current);
    let summary = after.items.iter().find(|item| item.summary.is_some()).unwrap();
    assert_eq!(summary.kind, ItemKind::Context);
    let users = after.items.iter().filter(|item| item.kind == ItemKind::User);
    assert!(users.into_iter().all(|item| item.id.starts_with('u')));
}

/// The original's summary leaves out what does not fit: this one stands for all turns.
#[test]
fn a_summary_covers_all_turns_within_its_budget() {
    let (mut session, current) = session(120, 40);
    let config = CompactionConfig { max_summary_tokens: Tokens(400), ..CompactionConfig::default() };
    compact_for(&mut session, &current, &config, Tokens(60_000)).unwrap();
    let record = session.record(&current).unwrap();
    let block = record.compaction_block(LoopPlace::MostRecent).unwrap().unwrap();
    let section = block.keep_compacted.unwrap();
    assert_eq!((section.range.start_turn(), section.range.end_turn()), (2, 109));
    let summary = section.messages.iter().find(|item| item.summary.is_some()).unwrap();
    assert_eq!(summary.summary.as_ref().unwrap().item_count, 108 * 4);
    assert!(record.transcript().meter().item(summary).total <= Tokens(400));
    let text = format!("{:?}", summary.parts);
    assert!(text.contains("begins “request 2:") && text.contains("> request 109:"), "{text}");
}
