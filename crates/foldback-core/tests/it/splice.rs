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
    let Some(splice) = Splice::of(view) else { return Ok(()) };
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
        let splice = Splice::of(&view).unwrap();
        (splice.tail_start, order(&splice.load(&transcript).unwrap()))
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
    let splice = Splice::of(&view).unwrap();
    assert_eq!(splice.tail_start, transcript.len(), "nothing but user messages is kept");
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
    let splice = Splice::of(&view).unwrap();
    assert_eq!(splice.tail_start, transcript.len(), "the tail starts after the summary");
    transcript.push(Item::assistant("a8", vec![Part::text("now this")]));
    assert_eq!(order(&splice.load(&transcript).unwrap()), "system u0 u1 u2 u3 u4 u5 u6 u7 u8 S a8");
}

#[test]
fn a_message_cut_in_its_middle_is_loaded_cut() {
    let transcript = conversation();
    let message = transcript.get(1).unwrap().tokens().total;
    let strategy = PreserveUserMessagesStrategy::new().tokens_max(Tokens(message.0 * 3 / 2));
    let view = compacted(&transcript, &strategy);
    let splice = Splice::of(&view).unwrap();
    assert_eq!(splice.rewritten.len(), 1, "{splice:?}");
    loads_the_view(&view).unwrap();
}

#[test]
fn items_shown_as_recorded_are_shared_not_copied() {
    let transcript = conversation();
    let splice = Splice::of(&compacted(&transcript, &SummarizeOlderStrategy::new(3))).unwrap();
    let loaded = splice.load(&transcript).unwrap();
    let recorded = loaded.iter().filter(|item| item.summary.is_none());
    for item in recorded {
        assert!(transcript.items().any(|original| Arc::ptr_eq(original, item)), "{} was copied", item.id);
    }
}

#[test]
fn without_a_summary_there_is_no_splice() {
    let transcript = conversation();
    assert_eq!(Splice::of(&View::of(&transcript)), None);
    assert_eq!(Splice::of(&compacted(&transcript, &KeepRecentStrategy::new(3))), None);
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
    assert_eq!(Splice::of(&view).unwrap().summaries.len(), 2);
    loads_the_view(&view).unwrap();
}

#[test]
fn a_splice_that_contradicts_itself_or_its_transcript_is_refused() {
    let transcript = conversation();
    let good = Splice::of(&compacted(&transcript, &SummarizeOlderStrategy::new(3))).unwrap();
    let refused = |change: &dyn Fn(&mut Splice)| {
        let mut splice = good.clone();
        change(&mut splice);
        splice.load(&transcript).unwrap_err()
    };
    let (tail_start, item_count) = (100, transcript.len());
    let beyond = refused(&|splice| splice.tail_start = tail_start);
    assert_eq!(beyond, SpliceError::TailBeyondTranscript { tail_start, item_count });
    let told = "the tail starts at item 100, but the transcript has 33; load the transcript that the splice was made for";
    assert_eq!(beyond.to_string(), told);
    for kept in [[3..5, 4..6], [5..6, 3..4], [3..4, 28..31], [3..3, 4..5]] {
        let error = refused(&|splice| splice.kept = kept.to_vec());
        assert!(matches!(error, SpliceError::KeptOutOfOrder { .. }), "{kept:?}: {error}");
    }
    let (summary_index, tail_start) = (good.tail_start, good.tail_start);
    let in_tail = refused(&|splice| drop(splice.summaries.insert(summary_index, Vec::new())));
    assert_eq!(in_tail, SpliceError::SummaryInTail { summary_index, tail_start });
    let stray = refused(&|splice| drop(splice.rewritten.insert(2, Item::user("u", "hi"))));
    assert_eq!(stray, SpliceError::RewrittenNotKept { item_index: 2 });
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
            prop_assert_eq!(Splice::of(&view).is_some(), has_summary);
            loads_the_view(&view)?;
            overlay = view.overlay().clone();
        }
    }
}
