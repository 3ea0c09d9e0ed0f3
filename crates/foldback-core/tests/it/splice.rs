//! The shared shape: whatever folded, one loader shows what the view shows.

use std::sync::Arc;

use foldback_core::{Strategy, *};
use foldback_testkit::recipe::recipe;
use foldback_testkit::strategies;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Eight turns of one tool round each, instructions before them and a pin among them.
fn conversation() -> Transcript {
    let mut transcript = Transcript::default();
    transcript.push(Item::text("system", ItemKind::System, "be careful"));
    for number in 0..8 {
        let words = format!("sentence {number} of something worth remembering; ").repeat(20);
        let prompt = Item::user(format!("u{number}"), words.clone());
        transcript.push(if number == 2 { prompt.pinned() } else { prompt });
        let call = Part::call(format!("c{number}"), "read", &serde_json::json!({"n": number}));
        transcript.push(Item::assistant(format!("a{number}"), vec![call]));
        transcript.push(Item::tool(format!("t{number}"), ToolResult::text(format!("c{number}"), words)));
        transcript.push(Item::assistant(format!("end{number}"), vec![Part::text("done")]));
    }
    transcript
}

fn compacted(transcript: &Transcript, strategy: &dyn Strategy) -> View {
    plan(&View::of(transcript), strategy, None).expect("it needs no budget").apply_floor().view
}

/// One letter of each item's id, the summary as `S`: enough to see an order.
fn order(items: &[Arc<Item>]) -> String {
    let label = |item: &Arc<Item>| if item.summary.is_some() { "S".into() } else { item.id.to_string() };
    items.iter().map(label).collect::<Vec<_>>().join(" ")
}

/// Loads what the view shows, from what was stored, now and after more was said.
fn loads_the_view(view: &View) -> Result<(), TestCaseError> {
    let splice = Splice::of(view.overlay());
    let stored = serde_json::to_string(&splice).expect("a splice is JSON");
    let splice_again: Splice = serde_json::from_str(&stored).expect("what was stored loads");
    prop_assert_eq!(&splice_again, &splice);
    let mut transcript = view.transcript().clone();
    let loaded = splice.load(&transcript).expect("it was made for this transcript");
    prop_assert!(loaded.iter().eq(view.items()), "{:?}\n{}", splice, view.shape());
    transcript.push(Item::assistant("later-1", vec![Part::text("one moment")]));
    transcript.push(Item::user("later-2", "thank you"));
    let grown = View::through(&transcript, view.overlay()).expect("the transcript only grew");
    let loaded = splice_again.load(&transcript).expect("the transcript only grew");
    prop_assert!(loaded.iter().eq(grown.items()), "after more was said");
    Ok(())
}

#[test]
fn every_folding_strategy_is_a_summary_and_a_tail_start() {
    let transcript = conversation();
    let shown = |strategy: &dyn Strategy| {
        let view = compacted(&transcript, strategy);
        loads_the_view(&view).unwrap();
        let splice = Splice::of(view.overlay());
        (splice.tail_start(), order(&splice.load(&transcript).unwrap()))
    };
    let summarize = SummarizeOlderStrategy::new(3).preserve_kind(ItemKind::System);
    assert_eq!(shown(&summarize), (29, "system S u2 u7 a7 t7 end7".into()));
    let fraction = PreserveRecentFractionStrategy::new(0.3).unwrap();
    assert_eq!(shown(&fraction).1, "system S u2 u6 a6 t6 end6 u7 a7 t7 end7");
    let recent = PreserveRecentTurnsStrategy::new(1);
    assert_eq!(shown(&recent), (29, "system S u2 u7 a7 t7 end7".into()));
    let both_ends = KeepFirstAndRecentTurnsStrategy::new(1, 1);
    assert_eq!(shown(&both_ends), (29, "system u0 a0 t0 end0 S u2 u7 a7 t7 end7".into()));
}

#[test]
fn the_same_loader_puts_the_summary_after_what_the_user_said() {
    let mut transcript = conversation();
    let view = compacted(&transcript, &PreserveUserMessagesStrategy::new());
    loads_the_view(&view).unwrap();
    let splice = Splice::of(view.overlay());
    assert_eq!(splice.tail_start(), transcript.len(), "nothing but user messages is kept");
    transcript.push(Item::user("new", "go on"));
    let expected = "system u0 u1 u2 u3 u4 u5 u6 u7 S new";
    assert_eq!(order(&splice.load(&transcript).unwrap()), expected);
}

#[test]
fn a_summary_that_follows_the_newest_prompt_is_loaded_there() {
    let mut transcript = conversation();
    transcript.push(Item::user("u8", "and now?"));
    let view = compacted(&transcript, &PreserveUserMessagesStrategy::new());
    loads_the_view(&view).unwrap();
    let splice = Splice::of(view.overlay());
    assert_eq!(splice.tail_start(), transcript.len() - 1, "the newest prompt is the tail");
    transcript.push(Item::assistant("a8", vec![Part::text("now this")]));
    assert_eq!(order(&splice.load(&transcript).unwrap()), "system u0 u1 u2 u3 u4 u5 u6 u7 u8 S a8");
}

#[test]
fn a_message_cut_in_its_middle_is_loaded_cut() {
    let transcript = conversation();
    let message = transcript.get(1).unwrap().tokens().total;
    let strategy = PreserveUserMessagesStrategy::new().tokens_max(Tokens(message.0 * 3 / 2));
    let view = compacted(&transcript, &strategy);
    let splice = Splice::of(view.overlay());
    assert_eq!(splice.rewrites().len(), 1, "{splice:?}");
    loads_the_view(&view).unwrap();
}

#[test]
fn items_shown_as_recorded_are_shared_not_copied() {
    let transcript = conversation();
    let splice = Splice::of(compacted(&transcript, &SummarizeOlderStrategy::new(3)).overlay());
    let loaded = splice.load(&transcript).unwrap();
    let recorded = loaded.iter().filter(|item| item.summary.is_none());
    for item in recorded {
        assert!(transcript.items().any(|original| Arc::ptr_eq(original, item)), "{} was copied", item.id);
    }
}

#[test]
fn without_a_summary_the_same_loader_shows_what_is_left() {
    let transcript = conversation();
    assert_eq!(Splice::of(&Overlay::default()), Splice::default());
    assert_eq!(Splice::default().tail_start(), 0);
    let view = compacted(&transcript, &KeepRecentStrategy::new(3));
    let splice = Splice::of(view.overlay());
    assert!(splice.summaries().is_empty() && splice.tail_start() > 0, "{splice:?}");
    loads_the_view(&view).unwrap();
}

#[test]
fn what_is_kept_lies_before_the_tail() {
    let transcript = conversation();
    let splice = Splice::of(compacted(&transcript, &PreserveRecentTurnsStrategy::new(1)).overlay());
    assert_eq!((splice.kept(), splice.tail_start()), (vec![0..1, 9..10], 29));
}

#[test]
fn two_summaries_stand_each_in_its_own_place() {
    let transcript = conversation();
    let first = compacted(&transcript, &KeepFirstAndRecentTurnsStrategy::new(1, 4));
    let block = first.overlay().blocks().last().unwrap();
    let other = CompactionBlock {
        edits: block
            .edits
            .iter()
            .map(|edit| match edit {
                Edit::Fold(fold) => {
                    Edit::Fold(Fold { range: 29..33, holes: Vec::new(), anchor: 29, ..fold.clone() })
                }
                Edit::Drop(_) | Edit::Rewrite(_) => edit.clone(),
            })
            .collect(),
        ..CompactionBlock::clone(block)
    };
    let view = View::through(&transcript, &first.overlay().with(other)).unwrap();
    assert_eq!(view.items().filter(|item| item.summary.is_some()).count(), 2);
    assert_eq!(Splice::of(view.overlay()).summaries().len(), 2);
    loads_the_view(&view).unwrap();
}

#[test]
fn a_splice_that_contradicts_itself_or_its_transcript_is_refused() {
    let transcript = conversation();
    let splice = Splice::of(compacted(&transcript, &SummarizeOlderStrategy::new(3)).overlay());
    let (tail_start, item_count) = (splice.tail_start(), 1);
    let beyond = splice.load(&transcript.items().take(1).cloned().collect()).unwrap_err();
    assert_eq!(beyond, SpliceError::TailBeyondTranscript { tail_start, item_count });
    let told = "the tail starts at item 29, but the transcript has 1; load the transcript that the splice was made for";
    assert_eq!(beyond.to_string(), told);
    let behind = SummarizeOlderStrategy::new(3).summary_placement(SummaryPlacement::AfterTail);
    let splice = Splice::of(compacted(&transcript, &behind).overlay());
    let (anchor, item_count) = (transcript.len() - 1, transcript.len() - 1);
    let beyond = splice.load(&transcript.items().take(item_count).cloned().collect()).unwrap_err();
    assert_eq!(beyond, SpliceError::SummaryBeyondTranscript { anchor, item_count });
    for hidden in [[3..5, 4..6], [5..6, 3..4], [3..3, 4..5]] {
        let stored = serde_json::json!({ "hidden": hidden, "summaries": [] });
        let splice: Splice = serde_json::from_value(stored).unwrap();
        let error = splice.load(&transcript).unwrap_err();
        assert!(matches!(error, SpliceError::OutOfOrder { .. }), "{hidden:?}: {error}");
    }
}

#[test]
fn a_block_for_more_items_than_there_are_is_refused() {
    let drop = edit::Drop { range: 1..3, reason: Reason::new("test", "because") };
    let block = CompactionBlock { edits: vec![Edit::Drop(drop)], ..CompactionBlock::default() };
    assert_eq!((block.check(3), block.reach()), (Ok(()), 3));
    assert_eq!(block.check(2), Err(BlockError::OutOfRange { range: 1..3, item_count: 2 }));
}

proptest! {
    #![proptest_config(foldback_testkit::config())]

    #[test]
    fn one_loader_shows_what_any_folding_strategy_left(
        recipe in recipe(), strategies in prop::collection::vec(strategies::folding(), 1..4),
    ) {
        let items: Vec<Arc<Item>> = recipe.items().into_iter().map(Arc::new).collect();
        let share = items.len().div_ceil(strategies.len()).max(1);
        let mut transcript = Transcript::default();
        let mut overlay = Overlay::default();
        for (strategy, items) in strategies.iter().zip(items.chunks(share)) {
            transcript.extend(items.iter().cloned());
            let before = View::through(&transcript, &overlay).expect("the transcript only grew");
            let view = plan(&before, strategy, None).expect("no budget is needed").apply_floor().view;
            let has_summary = view.fates().iter().any(|fate| matches!(fate, Fate::Folded(_)));
            prop_assert_eq!(!Splice::of(view.overlay()).summaries().is_empty(), has_summary);
            loads_the_view(&view)?;
            overlay = view.overlay().clone();
        }
    }

    /// T5: however many compactions lie on top of each other, what is kept block by block shows what the
    /// view shows, now, after it was stored, and after more was said.
    #[test]
    fn a_splice_grows_block_by_block_to_what_all_blocks_come_to(
        recipe in recipe(), stacked in prop::collection::vec(strategies::strategy(), 1..4),
    ) {
        let mut transcript = recipe.transcript();
        let mut overlay = Overlay::default();
        let mut splice = Splice::default();
        for (number, strategy) in stacked.iter().enumerate() {
            let view = View::through(&transcript, &overlay).expect("the blocks were made for it");
            let Ok(planned) = plan(&view, strategy, None) else { continue };
            let block = planned.apply_floor().block;
            prop_assert_eq!(block.check(transcript.len()), Ok(()));
            prop_assert!(block.reach() <= transcript.len());
            splice = splice.with(&block);
            overlay = overlay.with(block);
            prop_assert_eq!(&splice, &Splice::of(&overlay));
            transcript.push(Item::user(format!("later-{number}"), "and now this"));
            let view = View::through(&transcript, &overlay).expect("the transcript only grew");
            loads_the_view(&view)?;
            for (index, fate) in view.fates().iter().enumerate() {
                prop_assert_eq!(splice.is_visible(index), fate.is_visible());
            }
        }
    }
}
