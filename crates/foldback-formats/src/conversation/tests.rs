use foldback_core::EstimatingCounter;

use super::replace::COPY_COUNT_MAX;
use super::*;
use crate::lowering::found_summary;

fn said(item_count: usize) -> Conversation {
    let mut conversation = Conversation::new();
    for number in 0..item_count {
        conversation.push(Item::user(format!("m{number}"), "word"), FilePlace::line(number + 1));
    }
    conversation
}

fn summary(id: &str) -> Item {
    found_summary(Item::text(id, ItemKind::Context, "so far"), "test", 9, Tokens(90))
}

fn kept(index: usize) -> Shown {
    Shown::Kept(Seen::Item(index))
}

fn made(line: usize) -> Made {
    Made::by("test", FilePlace::line(line))
}

fn names(view: &View) -> Vec<&str> {
    view.items().map(|item| item.id.as_str()).collect()
}

fn counted(conversation: &Conversation) -> Transcript {
    conversation.transcript(Arc::new(EstimatingCounter), None)
}

/// The view, after checking it against what the reader was told to show.
fn view(conversation: &Conversation) -> View {
    let view = conversation.view_of(&counted(conversation));
    let seen = conversation.visible().iter().filter_map(|&seen| conversation.item(seen));
    assert!(seen.map(|item| &item.id).eq(view.items().map(|item| &item.id)));
    view
}

#[test]
fn a_summary_becomes_a_fold_of_what_it_hides() {
    let mut conversation = said(5);
    conversation.replace(&made(6), [kept(0), Shown::New(summary("s")), kept(3), kept(4)]);
    let seen = view(&conversation);
    assert_eq!(names(&seen), ["m0", "s", "m3", "m4"]);
    let block = &seen.overlay().blocks()[0];
    let (fold, _) = block.folds().next().expect("a fold");
    assert_eq!((fold.range.clone(), block.kind), (1..3, BlockKind::Imported));
    let handle = &seen.items().find_map(|item| item.summary.as_ref()).unwrap().handle;
    let Some(foldback_core::Recalled::Items(items)) = seen.recall(handle) else { panic!("recalled") };
    assert_eq!(items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["m1", "m2"]);
    assert_eq!(block.tokens_after, seen.tokens());
    assert_eq!(names(&seen.undo().unwrap().0), ["m0", "m1", "m2", "m3", "m4"]);
}

#[test]
fn a_later_summary_takes_in_an_earlier_one() {
    let mut conversation = said(4);
    conversation.replace(&made(5), [Shown::New(summary("s1")), kept(2), kept(3)]);
    conversation.push(Item::user("m4", "word"), FilePlace::line(6));
    conversation.replace(&made(7), [Shown::New(summary("s2")), kept(4)]);
    let seen = view(&conversation);
    assert_eq!(names(&seen), ["s2", "m4"]);
    let (before, _) = seen.undo().unwrap();
    assert_eq!(names(&before), ["s1", "m2", "m3", "m4"]);
    assert_eq!(names(&before.undo().unwrap().0), ["m0", "m1", "m2", "m3", "m4"]);
    assert_eq!(conversation.history().count(), 5);
}

#[test]
fn a_summary_may_stand_behind_what_stays_and_among_earlier_ones() {
    let mut conversation = said(6);
    conversation.replace(&made(7), [kept(1), kept(3), Shown::New(summary("s1"))]);
    assert_eq!(names(&view(&conversation)), ["m1", "m3", "s1"]);
    let s1 = conversation.visible()[2];
    conversation.push(Item::user("m6", "word"), FilePlace::line(8));
    conversation.replace(&made(9), [kept(1), Shown::Kept(s1), Shown::New(summary("s2")), kept(6)]);
    assert_eq!(names(&view(&conversation)), ["m1", "s1", "s2", "m6"]);
}

#[test]
fn the_block_says_where_the_agent_put_its_summary() {
    use foldback_core::SummaryPlacement::{AfterKept, AfterTail, BeforeKept};
    let new = || Shown::New(summary("s"));
    let shown = [
        (vec![kept(0), new(), kept(3), kept(4)], BeforeKept),
        (vec![kept(1), kept(3), new()], AfterKept),
        (vec![kept(3), kept(4), new()], AfterTail),
    ];
    for (shown, expected) in shown {
        let mut conversation = said(5);
        conversation.replace(&made(6), shown);
        let seen = view(&conversation);
        let (fold, _) = seen.overlay().blocks()[0].folds().next().expect("a fold");
        assert_eq!(fold.spec.placement, expected, "{:?}", names(&seen));
    }
}

#[test]
fn items_in_another_form_are_recorded_for_the_compaction_only() {
    let mut conversation = said(3);
    let shown = [kept(0), Shown::New(Item::user("m1", "in short")), kept(2), Shown::New(summary("s"))];
    conversation.replace(&made(4), shown);
    let seen = view(&conversation);
    assert_eq!(names(&seen), ["m0", "m1", "m2", "s"]);
    assert_eq!(conversation.history().count(), 3);
    assert_eq!(names(&conversation.history_of(&counted(&conversation))), ["m0", "m1", "m2"]);
    let (before, _) = seen.undo().unwrap();
    assert_eq!(names(&before), ["m0", "m1", "m2"]);
}

#[test]
fn a_summary_of_what_the_file_does_not_have_is_part_of_the_history() {
    let mut conversation = Conversation::new();
    conversation.replace(&made(1), [Shown::New(summary("s"))]);
    conversation.push(Item::user("u", "go on"), FilePlace::line(2));
    assert_eq!(names(&conversation.history_of(&counted(&conversation))), ["s", "u"]);
    let mut copied = said(2);
    copied.replace(&made(3), [Shown::New(summary("s")), kept(0), kept(1)]);
    assert_eq!(names(&view(&copied)), ["s", "m0", "m1"]);
    assert_eq!(names(&copied.history_of(&counted(&copied))), ["m0", "m1"], "copies are not there twice");
}

#[test]
fn what_was_undone_can_be_redone_until_something_else_is_compacted() {
    let mut conversation = said(3);
    conversation.replace(&made(4), [Shown::New(summary("s")), kept(2)]);
    let in_force = conversation.in_force.clone();
    conversation.commit(FilePlace::line(5), None, 0, Vec::new());
    assert_eq!(names(&view(&conversation)), ["m0", "m1", "m2"]);
    assert_eq!(conversation.redo().unwrap().blocks(), in_force);
    conversation.commit(FilePlace::line(6), None, 0, in_force);
    assert_eq!(names(&view(&conversation)), ["s", "m2"]);
    let actions: Vec<StepAction> = conversation.steps().iter().map(|step| step.action).collect();
    assert_eq!(actions, [StepAction::Compact, StepAction::Undo, StepAction::Redo]);
    assert!(conversation.redo().is_none());
}

#[test]
fn compactions_that_ask_for_too_many_copies_are_not_followed() {
    let mut conversation = said(5_000);
    for number in 0..5_000 {
        let changed = Item::user(format!("c{number}"), "so far");
        let shown = std::iter::once(Shown::New(changed)).chain((0..5_000).map(kept));
        conversation.replace(&made(7), shown);
    }
    assert_eq!(conversation.left_at(), Some(FilePlace::line(7)));
    assert!(conversation.len() <= 5_000 + COPY_COUNT_MAX + COPY_COUNT_MAX / 5_000);
    assert_eq!(conversation.history().count(), 5_000);
    assert_eq!(view(&conversation).len(), 5_001, "what was visible then still is");
}

#[test]
fn one_compaction_that_shows_everything_many_times_is_not_followed() {
    let mut conversation = said(10_000);
    conversation.replace(&made(7), (0..10_000).flat_map(|_| (0..10_000).map(kept)));
    assert_eq!((conversation.len(), view(&conversation).len()), (10_000, 10_000));
}

/// Counts how often it is asked.
#[derive(Debug, Default)]
struct Asked(std::sync::atomic::AtomicUsize);

impl TokenCounter for Asked {
    fn name(&self) -> &str {
        "asked"
    }

    fn count(&self, text: &str) -> Tokens {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        EstimatingCounter.count(text)
    }

    fn precision(&self) -> foldback_core::tokens::Precision {
        EstimatingCounter.precision()
    }
}

/// A session that was compacted so often, each time all but the newest item; every fourth compaction, and
/// the one before it, were undone.
fn often_compacted(count: usize) -> Conversation {
    let mut conversation = said(2);
    for number in 0..count {
        let newest = conversation.push(Item::user(format!("n{number}"), "word"), FilePlace::line(number));
        conversation.replace(&made(number), [Shown::New(summary(&format!("s{number}"))), kept(newest)]);
        if number % 4 == 3 {
            for keeps in [1, 2].map(|taken_off| conversation.block_count() - taken_off) {
                conversation.commit(FilePlace::line(number), None, keeps, Vec::new());
            }
        }
    }
    conversation
}

#[test]
fn what_steps_did_is_what_a_look_at_each_of_them_says() {
    let conversation = often_compacted(40);
    view(&conversation);
    let transcript = counted(&conversation);
    let hidden = |step_count: usize, item_count: usize| {
        let view = conversation.view_after(step_count, &transcript);
        view.fates().iter().take(item_count).filter(|fate| !fate.is_visible()).count()
    };
    let metered: Vec<MeteredStep> = conversation.metered_steps(&transcript).collect();
    assert_eq!(metered.len(), conversation.steps().len());
    for (index, (step, metered)) in conversation.steps().iter().zip(metered).enumerate() {
        let blocks = conversation.blocks_after(index + 1, &transcript).split_off(step.keeps);
        assert_eq!(metered.blocks, blocks, "step {index}");
        let count = step.item_count_before();
        let newly_hidden = hidden(index + 1, count).saturating_sub(hidden(index, count));
        assert_eq!(metered.hidden_count, newly_hidden, "step {index}");
    }
}

#[test]
fn a_session_that_was_compacted_ten_times_as_often_takes_ten_times_as_long() {
    let asked_for = |count: usize| {
        let mut conversation = said(2);
        for number in 0..count {
            let newest = conversation.push(Item::user(format!("n{number}"), "word"), FilePlace::line(number));
            conversation.replace(&made(number), [Shown::New(summary(&format!("s{number}"))), kept(newest)]);
        }
        let counter = Arc::new(Asked::default());
        let transcript = conversation.transcript(counter.clone(), None);
        assert_eq!(conversation.metered_steps(&transcript).count(), count);
        counter.0.load(std::sync::atomic::Ordering::Relaxed)
    };
    let (few, many) = (asked_for(200), asked_for(2_000));
    assert!(many <= few * 11, "{few} texts are counted for 200 compactions, {many} for 2,000");
}

#[test]
fn what_undos_leave_visible_is_kept_once() {
    let mut conversation = said(2);
    let count = 500;
    for number in 0..count {
        let newest = conversation.push(Item::user(format!("n{number}"), "word"), FilePlace::line(number));
        conversation.replace(&made(number), [Shown::New(summary(&format!("s{number}"))), kept(newest)]);
    }
    let in_force = conversation.in_force.clone();
    for keeps in (0..count).rev() {
        conversation.commit(FilePlace::line(count), None, keeps, Vec::new());
    }
    assert_eq!(view(&conversation).len(), conversation.len());
    for block in in_force {
        conversation.commit(FilePlace::line(count), None, conversation.block_count(), vec![block]);
    }
    assert_eq!(view(&conversation).len(), 2);
    assert!(conversation.summaries.len() <= 3 * count, "{}", conversation.summaries.len());
}
