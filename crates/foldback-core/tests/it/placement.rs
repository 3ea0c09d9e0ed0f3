//! Where the summary stands: before the tail, `[summary, …tail]`, or after it, `[…tail, summary]`.

use std::sync::Arc;

use foldback_core::strategy::TailClamp;
use foldback_core::{Strategy, *};
use foldback_testkit::recipe::recipe;
use foldback_testkit::strategies;
use proptest::prelude::*;
use serde_json::json;

const AFTER: SummaryPlacement = SummaryPlacement::AfterTail;

fn words(number: usize) -> String {
    format!("sentence {number} of something worth remembering; ").repeat(20)
}

fn call(number: usize) -> [Item; 2] {
    let part = Part::call(format!("c{number}"), "read", &json!({"n": number}));
    let result = ToolResult::text(format!("c{number}"), words(number));
    [Item::assistant(format!("a{number}"), vec![part]), Item::tool(format!("t{number}"), result)]
}

/// Turns of one tool round each, behind instructions.
fn conversation(turns: usize) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::text("system", ItemKind::System, "be careful"));
    for number in 0..turns {
        transcript.push(Item::user(format!("u{number}"), words(number)));
        transcript.extend(call(number));
        transcript.push(Item::assistant(format!("end{number}"), vec![Part::text("done")]));
    }
    transcript
}

fn order<'a>(items: impl IntoIterator<Item = &'a Arc<Item>>) -> String {
    let label = |item: &Arc<Item>| if item.summary.is_some() { "S".into() } else { item.id.to_string() };
    items.into_iter().map(label).collect::<Vec<_>>().join(" ")
}

fn compacted(view: &View, strategy: &dyn Strategy) -> View {
    plan(view, strategy, None).expect("it needs no budget").apply_floor().view
}

fn seen(transcript: &Transcript, strategy: &dyn Strategy) -> String {
    order(compacted(&View::of(transcript), strategy).items())
}

#[test]
fn every_strategy_that_folds_puts_its_summary_after_the_tail() {
    let transcript = conversation(6);
    let recent = "u5 a5 t5 end5 S";
    let summarize = SummarizeOlderStrategy::new(4).preserve_kind(ItemKind::System).summary_placement(AFTER);
    assert_eq!(seen(&transcript, &summarize), format!("system {recent}"));
    let turns = PreserveRecentTurnsStrategy::new(1).summary_placement(AFTER);
    assert_eq!(seen(&transcript, &turns), format!("system {recent}"));
    let fraction = PreserveRecentFractionStrategy::new(0.2).unwrap().summary_placement(AFTER);
    assert_eq!(seen(&transcript, &fraction), format!("system {recent}"));
    let both_ends = KeepFirstAndRecentTurnsStrategy::new(1, 1).summary_placement(AFTER);
    assert_eq!(seen(&transcript, &both_ends), format!("system u0 a0 t0 end0 {recent}"));
    let items = KeepFirstAndRecentItemsStrategy::new(1, 4).summary_placement(AFTER);
    assert_eq!(seen(&transcript, &items), format!("system {recent}"));
    let users = PreserveUserMessagesStrategy::new().summary_placement(AFTER);
    assert_eq!(seen(&transcript, &users), "system u0 u1 u2 u3 u4 u5 S");
    let users = PreserveUserMessagesStrategy::new().summary_placement(SummaryPlacement::BeforeKept);
    assert_eq!(seen(&transcript, &users), "system u0 S u1 u2 u3 u4 u5");
}

#[test]
fn the_ladder_and_the_three_levels_put_it_there_too() {
    let transcript = conversation(12);
    let budget = Budget::for_target(Tokens(transcript.tokens().0 / 3)).unwrap();
    let ladder: StrategyConfig = LadderStrategy::new().summary_placement(AFTER).into();
    let levels = DefaultCompaction::new().keep_first_turns(0).keep_recent_turns(2);
    let levels: StrategyConfig = levels.summary_placement(AFTER).into();
    for strategy in [ladder, levels] {
        let view = plan(&View::of(&transcript), &strategy, Some(&budget)).unwrap().apply_floor().view;
        assert!(view.tokens() <= budget.target(), "{strategy:?}");
        assert!(view.items().last().unwrap().summary.is_some(), "{}", order(view.items()));
    }
}

#[test]
fn a_policy_and_its_file_say_where_it_stands() {
    let written = json!({
        "name": "mine",
        "steps": [{"strategy": "summarize-older", "keep_last": 4, "summary_placement": "after_tail"}],
    });
    let read: Policy = serde_json::from_value(written).unwrap();
    let plain = json!({"name": "mine", "steps": [{"strategy": "summarize-older", "keep_last": 4}]});
    let set = serde_json::from_value::<Policy>(plain).unwrap().with_summary_placement(AFTER);
    assert_eq!(read, set);
    assert_eq!(seen(&conversation(6), &*set.strategy()), "u5 a5 t5 end5 S");
    for policy in Policy::all() {
        let asks = policy.clone().with_focus("one") != policy.clone().with_focus("another");
        let placed = policy.clone().with_summary_placement(AFTER);
        assert!(!asks || placed != policy, "{}", policy.name());
    }
}

#[test]
fn the_record_says_where_it_stands_and_reads_back() {
    let transcript = conversation(6);
    let strategy = SummarizeOlderStrategy::new(4).summary_placement(AFTER);
    let view = compacted(&View::of(&transcript), &strategy);
    let block = view.overlay().blocks().last().unwrap();
    let stored = serde_json::to_value(&**block).unwrap();
    assert_eq!(stored["edits"][0]["fold"]["spec"]["placement"], "after_tail");
    assert_eq!(stored["edits"][0]["fold"]["anchor"], transcript.len() - 1);
    let loaded: CompactionBlock = serde_json::from_value(stored).unwrap();
    let again = View::through(&transcript, &Overlay::default().with(loaded)).unwrap();
    assert!(again.items().eq(view.items()));
    let (undone, _) = view.undo().unwrap();
    assert!(undone.items().eq(transcript.items()));
    let handle = &view.items().last().unwrap().summary.as_ref().unwrap().handle;
    let Some(Recalled::Items(items)) = view.recall(handle) else { panic!("{handle} recalls items") };
    assert_eq!(items.len(), transcript.len() - 4);
}

#[test]
fn the_tail_start_is_the_same_wherever_the_summary_stands() {
    let transcript = conversation(6);
    let splice = |placement| {
        let strategy = PreserveRecentTurnsStrategy::new(1).summary_placement(placement);
        Splice::of(compacted(&View::of(&transcript), &strategy).overlay())
    };
    let (before, after) = (splice(SummaryPlacement::BeforeKept), splice(AFTER));
    assert_eq!((before.tail_start(), after.tail_start()), (21, 21));
    let system = 0..1;
    assert_eq!((before.kept(), after.kept()), (vec![system.clone()], vec![system]));
    assert_eq!(order(&before.load(&transcript).unwrap()), "system S u5 a5 t5 end5");
    assert_eq!(order(&after.load(&transcript).unwrap()), "system u5 a5 t5 end5 S");
}

#[test]
fn what_is_said_later_comes_after_it_and_the_next_compaction_takes_it_in() {
    let mut transcript = conversation(6);
    let strategy = SummarizeOlderStrategy::new(4).summary_placement(AFTER);
    let first = compacted(&View::of(&transcript), &strategy);
    assert!(plan(&first, &strategy, None).unwrap().is_empty(), "nothing was pushed (T7)");
    transcript.push(Item::user("u6", words(6)));
    transcript.extend(call(6));
    transcript.push(Item::assistant("end6", vec![Part::text("done")]));
    let grown = View::through(&transcript, first.overlay()).unwrap();
    assert_eq!(order(grown.items()), "u5 a5 t5 end5 S u6 a6 t6 end6");
    let second = compacted(&grown, &strategy);
    assert_eq!(order(second.items()), "u6 a6 t6 end6 S");
    assert_eq!(second.overlay().blocks().len(), 2);
    let (undone, _) = second.undo().unwrap();
    assert!(undone.items().eq(grown.items()));
    let elsewhere = compacted(&grown, &SummarizeOlderStrategy::new(4));
    assert_eq!(order(elsewhere.items()), "S u6 a6 t6 end6", "the next one may choose again");
}

#[test]
fn what_is_in_flight_stays_behind_it() {
    let strategy = SummarizeOlderStrategy::new(2).summary_placement(AFTER);
    let mut transcript = conversation(4);
    transcript.push(Item::user("u4", "and now?"));
    assert_eq!(seen(&transcript, &strategy), "u3 end3 u4 S");
    let [called, answered] = call(4);
    transcript.push(called);
    assert_eq!(seen(&transcript, &strategy), "u4 S a4", "its result is still to come");
    let open = compacted(&View::of(&transcript), &strategy);
    transcript.push(answered);
    assert_eq!(seen(&transcript, &strategy), "u4 S a4 t4", "the model is to answer this");
    let grown = View::through(&transcript, open.overlay()).unwrap();
    assert_eq!(order(grown.items()), "u4 S a4 t4");
    transcript.extend(call(5));
    let rounds = SummarizeOlderStrategy::new(4).summary_placement(AFTER);
    assert_eq!(seen(&transcript, &rounds), "u4 a4 t4 S a5 t5", "behind the last complete unit");
}

#[test]
fn thinking_is_not_parted_from_what_it_leads_to() {
    let mut transcript = conversation(4);
    transcript.push(Item::user("u4", "and now?"));
    transcript.push(Item::assistant("think", vec![Part::reasoning("let me see")]));
    let strategy = SummarizeOlderStrategy::new(2).summary_placement(AFTER);
    assert_eq!(seen(&transcript, &strategy), "u4 S think");
}

/// Providers want a conversation that a user opens, so a tail that begins in the middle of a turn
/// brings the message along that asked for it.
#[test]
fn a_tail_that_begins_inside_a_turn_keeps_the_message_before_it() {
    let transcript = conversation(6);
    let strategy = SummarizeOlderStrategy::new(5).summary_placement(AFTER);
    assert_eq!(seen(&transcript, &strategy), "u4 end4 u5 a5 t5 end5 S");
    let clamp = TailClamp::new(25, Tokens(600), Tokens(600)).unwrap();
    let tail = PreserveRecentTurnsStrategy::within_tail().clamp(clamp).summary_placement(AFTER);
    for strategy in [StrategyConfig::from(strategy), tail.into()] {
        let view = compacted(&View::of(&transcript), &strategy);
        assert!(plan(&view, &strategy, None).unwrap().is_empty(), "nothing was pushed (T7)");
        assert_eq!(check(view.items(), None), []);
    }
}

#[test]
fn a_hosts_own_tail_and_summary_are_read_back_as_a_fold() {
    let transcript = conversation(4);
    let view = View::of(&transcript);
    let summary = Arc::new(Item::text("mine", ItemKind::Context, "three files were read"));
    let tail = || view.items().skip(13).cloned();
    let given: Vec<Arc<Item>> = tail().chain([Arc::clone(&summary)]).collect();
    let diff = diff(&view, &given).unwrap();
    let block = &diff.compacted.block;
    let [Edit::Fold(fold)] = &block.edits[..] else { panic!("one fold: {:?}", block.edits) };
    assert_eq!((fold.range.clone(), fold.anchor, fold.spec.placement), (0..13, 16, AFTER));
    assert_eq!(order(diff.compacted.view.items()), "u3 a3 t3 end3 S");
    let (undone, _) = diff.compacted.view.undo().unwrap();
    assert!(undone.items().eq(view.items()));

    let inside: Vec<Arc<Item>> = tail().take(2).chain([summary]).chain(tail().skip(2)).collect();
    let refused = foldback_core::diff(&view, &inside).unwrap_err();
    assert!(matches!(refused, DiffError::SplitsUnit { .. }), "{refused}");
}

#[test]
fn a_host_folds_with_its_summary_all_that_it_left_out_before() {
    let transcript = conversation(5);
    let view = View::of(&transcript);
    let keeps = |id: &str| ["system", "u1", "u3", "u4", "end4"].contains(&id);
    let mut given: Vec<Arc<Item>> = view.items().filter(|item| keeps(item.id.as_str())).cloned().collect();
    given.push(Arc::new(Item::text("mine", ItemKind::Context, "what was done")));
    let first = diff(&view, &given).unwrap().compacted.view;
    assert_eq!(order(first.items()), "system u1 u3 u4 end4 S");
    let folds = first.overlay().blocks()[0].folds().count();
    assert_eq!(folds, 1);
    // The next one replaces the summary too.
    let mut given: Vec<Arc<Item>> = first.items().skip(3).take(2).cloned().collect();
    given.push(Arc::new(Item::text("mine-2", ItemKind::Context, "what was done")));
    let second = diff(&first, &given).unwrap().compacted.view;
    assert_eq!(order(second.items()), "u4 end4 S");
}

#[test]
fn a_host_may_not_put_its_summary_before_a_result_that_is_to_come() {
    let mut transcript = conversation(3);
    transcript.push(Item::user("u3", "and now?"));
    let [called, answered] = call(3);
    transcript.push(called);
    let summary = || Arc::new(Item::text("mine", ItemKind::Context, "what was done"));
    let given = |transcript: &Transcript| -> Vec<Arc<Item>> {
        transcript.items().skip(13).cloned().chain([summary()]).collect()
    };
    let refused = diff(&View::of(&transcript), &given(&transcript)).unwrap_err();
    assert!(matches!(refused, DiffError::SplitsUnit { .. }), "{refused}");
    transcript.push(answered);
    let answered = diff(&View::of(&transcript), &given(&transcript)).unwrap();
    assert_eq!(order(answered.compacted.view.items()), "u3 a3 t3 S");
}

#[test]
fn a_host_may_replace_the_item_before_a_summary_that_stays() {
    let transcript = conversation(4);
    let strategy = PreserveRecentTurnsStrategy::new(1).summary_placement(AFTER);
    let view = compacted(&View::of(&transcript), &strategy);
    assert_eq!(order(view.items()), "system u3 a3 t3 end3 S");
    let mut given: Vec<Arc<Item>> = view.items().cloned().collect();
    given[4] = Arc::new(Item::text("mine", ItemKind::Context, "ok"));
    let edited = diff(&view, &given).unwrap().compacted.view;
    let ids: Vec<&str> = edited.items().map(|item| item.id.as_str()).collect();
    assert_eq!(ids[4], "mine", "the older summary is still the last");
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    /// T2, T5, T7: behind everything but the unit in flight, valid wherever the view was, undone to what
    /// was there; unless it has to open the conversation.
    #[test]
    fn a_summary_after_the_tail_is_behind_all_but_the_unit_in_flight(
        recipe in recipe(), strategy in strategies::folding(), fits in any::<Option<prop::sample::Index>>(),
    ) {
        let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
        let dialect = fits.map(|index| *index.get(&Dialect::ALL));
        let transcript: Transcript = dialect::repair(&items, dialect).items.into_iter().collect();
        let before = View::of(&transcript);
        let strategy = strategy.with_summary_placement(AFTER);
        let view = compacted(&before, &strategy);
        for dialect in Dialect::ALL.into_iter().map(Some).chain([None]) {
            if check(before.items(), dialect).is_empty() {
                prop_assert_eq!(check(view.items(), dialect), [], "{}", view.shape());
            }
        }
        let fates = view.fates();
        let is_ours = |entry: &Entry| !fates[entry.span().start].is_visible();
        let Some(place) = view.iter().position(is_ours) else { return Ok(()) };
        let (undone, _) = view.undo().expect("something was folded");
        prop_assert!(undone.items().eq(before.items()));
        prop_assert!(plan(&view, &strategy, None).expect("no budget").is_empty(), "{}", view.shape());
        let fold = view.overlay().blocks()[0].folds().next().map(|(fold, _)| fold.spec.placement);
        if fold == Some(AFTER) {
            let behind = view.len() - place - 1;
            let in_flight = before.unit_in_flight().map_or(0, |unit| unit.len());
            let may_follow =
                |entry: &Entry| !matches!(entry.item().parts.last(), Some(Part::Reasoning(_)));
            let sent = view.range(place + 1..view.len() - in_flight.min(behind));
            let sent = sent.filter(|entry| entry.part_count() > 0 && may_follow(entry)).count();
            prop_assert!(behind >= in_flight && sent == 0, "{}", view.shape());
        } else {
            let mut recorded = view.iter().filter(|entry| !is_ours(entry)).map(Entry::item);
            let is_spoken = |item: &&Arc<Item>| !item.kind.is_instruction() && !item.parts.is_empty();
            prop_assert!(recorded.find(is_spoken).is_some_and(|item| !item.kind.has_user_authority()));
        }
    }
}
