//! What a host makes of a view, read back as edits.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldback_core::*;
use foldback_testkit::fixture::transcript;
use foldback_testkit::recipe::{Recipe, recipe};
use foldback_testkit::strategies;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy as Generator;
use proptest::test_runner::TestCaseError;

/// Two turns with a tool round each, and a third that has been answered.
const CONVERSATION: &str = r#"
    system  be careful
    user    read the parser
    think   where is it
    call    c1 read {"path":"parser.rs"}
    ok      c1 fn parse() {}
    say     it is empty
    user    list the tests
    call    c2 list {"path":"tests"}
    call    c3 list {"path":"src"}
    ok      c2 none at all
    ok      c3 parser.rs
    say     there are none
    user    thank you
    say     you are welcome
"#;

fn view() -> View {
    View::of(&transcript(CONVERSATION))
}

fn items(view: &View) -> Vec<Arc<Item>> {
    view.items().cloned().collect()
}

fn context(id: &str) -> Arc<Item> {
    Arc::new(Item::text(id, ItemKind::Context, "what was said"))
}

fn refused(view: &View, items: &[Arc<Item>]) -> DiffError {
    diff(view, items).map(|diff| diff.compacted.view.shape()).expect_err("it is refused")
}

/// The same list, and nothing recorded was touched.
fn leads_to(before: &View, given: &[Arc<Item>]) -> Result<Diff, TestCaseError> {
    let diff = diff(before, given).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let after = &diff.compacted.view;
    prop_assert_eq!(after.len(), given.len());
    for (shown, given) in after.items().zip(given) {
        prop_assert_eq!((&shown.id, shown.kind, &shown.parts), (&given.id, given.kind, &given.parts));
    }
    prop_assert_eq!(after.tokens(), diff.compacted.block.tokens_after);
    prop_assert!(after.transcript().items().eq(before.transcript().items()), "T1");
    if !diff.plan.is_empty() {
        let (overlay, _) = after.overlay().undo().expect("a block was added");
        let undone = View::through(before.transcript(), &overlay).expect("it was in force before");
        prop_assert!(undone.items().eq(before.items()), "T5");
    }
    Ok(diff)
}

/// Random transcripts, some compacted before.
fn viewed() -> impl Generator<Value = View> {
    (recipe(), prop::option::of(strategies::pipeline())).prop_map(|(recipe, earlier): (Recipe, _)| {
        let view = View::of(&recipe.transcript());
        let Some(earlier) = earlier else { return view };
        let budget = Budget::for_target(Tokens((view.tokens().0 / 2).max(1))).expect("more than nothing");
        plan(&view, &earlier, Some(&budget)).map_or(view, |plan| plan.apply_floor().view)
    })
}

/// What may go: units that hold nothing protected.
fn free_units(view: &View) -> Vec<Vec<usize>> {
    let draft = Draft::new(view);
    let starts: BTreeSet<usize> = (0..view.len()).map(|position| view.unit_start(position)).collect();
    let units = starts.into_iter().map(|start| view.unit_members(start).collect::<Vec<_>>());
    units.filter(|unit| !unit.iter().any(|&position| draft.is_protected(position))).collect()
}

proptest! {
    #![proptest_config(foldback_testkit::costly(2))]

    #[test]
    fn removing_random_units_round_trips(view in viewed(), seed in any::<u64>()) {
        let units = free_units(&view);
        let picked = units.into_iter().enumerate().filter(|(number, _)| seed >> (number % 64) & 1 == 1);
        let removed: BTreeSet<usize> = picked.flat_map(|(_, unit)| unit).collect();
        let kept = view.items().enumerate().filter(|(position, _)| !removed.contains(position));
        let given: Vec<Arc<Item>> = kept.map(|(_, item)| Arc::clone(item)).collect();
        let diff = leads_to(&view, &given)?;
        prop_assert_eq!(diff.plan.is_empty(), removed.is_empty());
        prop_assert!(diff.compacted.view.tokens() <= view.tokens());
    }

    /// Whatever a built-in strategy makes of a view without folding is found again from the items
    /// alone.
    #[test]
    fn what_a_strategy_drops_and_rewrites_is_found_again(
        view in viewed(),
        pipeline in strategies::pipeline(),
    ) {
        let budget = Budget::for_target(Tokens((view.tokens().0 / 2).max(1))).unwrap();
        let Ok(plan) = plan(&view, &pipeline, Some(&budget)) else { return Ok(()) };
        if plan.folds().next().is_some() {
            return Ok(());
        }
        // A copy of every item, as a host would have it that knows nothing of sharing.
        let after = plan.apply_floor().view;
        let given: Vec<Arc<Item>> = after.items().map(|item| Arc::new(Item::clone(item))).collect();
        match diff(&view, &given) {
            Ok(found) => prop_assert_eq!(found.compacted.view.tokens(), after.tokens()),
            // Copies of items that repeat an id may be taken for each other.
            Err(error) => {
                let ids: BTreeSet<_> = view.items().map(|item| &item.id).collect();
                prop_assert!(ids.len() < view.len(), "{}\n{}{}", error, view.shape(), after.shape());
            }
        }
    }

    /// A new context item where a run of whole units was.
    #[test]
    fn a_run_of_units_replaced_by_a_new_item_is_a_fold(view in viewed(), at in any::<u16>(), len in 1usize..6) {
        let free: Vec<usize> = free_units(&view).concat();
        let cuts: Vec<usize> = [0].into_iter().chain(view.cuts()).chain([view.len()]).collect();
        let first = usize::from(at) % cuts.len();
        let (start, end) = (cuts[first], cuts[(first + len).min(cuts.len() - 1)]);
        if start >= end || !(start..end).all(|position| free.contains(&position)) {
            return Ok(());
        }
        let mut given = items(&view);
        given.splice(start..end, [context("new")]);
        let diff = leads_to(&view, &given)?;
        prop_assert_eq!(diff.plan.folds().count(), 1);
        let shown = diff.compacted.view.items().find(|item| item.id.as_str() == "new").unwrap();
        let origin = shown.summary.as_ref().expect("a summary says what it stands for");
        prop_assert!(diff.compacted.view.recall(&origin.handle).is_some());
    }
}

#[test]
fn a_part_that_changed_is_a_rewrite_that_recalls_the_recorded_part() {
    let view = view();
    let mut given = items(&view);
    let mut shortened = Item::clone(&given[3]);
    shortened.parts = vec![Part::ToolResult(ToolResult::text("c1", "…"))];
    given[3] = shortened.into();
    let mut thoughtless = Item::clone(&given[2]);
    thoughtless.parts.remove(0);
    given[2] = thoughtless.into();
    let diff = diff(&view, &given).unwrap();
    let edits: Vec<(usize, usize, bool)> = diff
        .plan
        .edits()
        .iter()
        .map(|edit| match edit {
            Edit::Rewrite(rewrite) => (rewrite.item_index, rewrite.part_index, rewrite.replacement.is_some()),
            Edit::Drop(_) | Edit::Fold(_) => panic!("{edit:?}"),
        })
        .collect();
    assert_eq!(edits, [(2, 0, false), (3, 0, true)]);
    let Edit::Rewrite(rewrite) = &diff.plan.edits()[1] else { panic!() };
    let recalled = diff.compacted.view.recall(&rewrite.handle);
    assert_eq!(recalled, Some(Recalled::Part(view.get(3).unwrap().item().parts[0].clone())));
}

#[test]
fn what_is_no_edit_is_refused_and_named() {
    let view = view();
    let id = |id: &str| ItemId::from(id);
    let with = |change: &dyn Fn(&mut Vec<Arc<Item>>)| {
        let mut given = items(&view);
        change(&mut given);
        refused(&view, &given)
    };
    let added = with(&|given| given.insert(2, context("new")));
    assert_eq!(added, DiffError::Added { id: id("new") });
    let moved = with(&|given| given.swap(1, 4));
    assert_eq!(moved, DiffError::Moved { id: id("i2"), behind: id("i4") });
    let repeated = with(&|given| given.insert(1, Arc::clone(&given[0])));
    assert_eq!(repeated, DiffError::Repeated { id: id("i0") });
    let half = with(&|given| drop(given.remove(3)));
    assert_eq!(half, DiffError::HalfPair { id: id("i2"), call_id: "c1".into() });
    let disguised = with(&|given| given[4] = Arc::new(Item::user("new", "do as I say")));
    assert!(matches!(disguised, DiffError::NotASummary { id, .. } if id.as_str() == "new"));
    let kind = with(&|given| given[4] = Arc::new(Item { kind: ItemKind::User, ..Item::clone(&given[4]) }));
    assert_eq!(kind, DiffError::Changed { id: id("i4"), field: "kind" });
    let grown = with(&|given| {
        let parts = vec![Part::text("it is"), Part::text("empty")];
        given[4] = Arc::new(Item { parts, ..Item::clone(&given[4]) });
    });
    assert_eq!(grown, DiffError::PartsAdded { id: id("i4"), count: 2, count_before: 1 });
}

#[test]
fn what_is_protected_can_be_neither_removed_nor_changed() {
    let pinned = View::of(&transcript("pin user never touch main\n say all right\n user go on\n say yes"));
    let why = |error: DiffError| match error {
        DiffError::Protected { id, what, why } => (id.to_string(), what, why),
        other => panic!("{other}"),
    };
    assert_eq!(why(refused(&pinned, &items(&pinned)[1..])), ("i0".into(), "removed", "it is pinned"));
    let mut changed = items(&pinned);
    let parts = vec![Part::text("touch main")];
    changed[0] = Arc::new(Item { parts, ..Item::clone(&changed[0]) });
    assert_eq!(why(refused(&pinned, &changed)), ("i0".into(), "rewritten", "it is pinned"));
    let mut without_user = items(&pinned);
    without_user.remove(2);
    let newest = why(refused(&pinned, &without_user));
    assert_eq!(newest, ("i2".into(), "removed", "it is the newest user item"));
    let text = "user go\n think hm\n call c1 read {}\n ok c1 much text";
    let in_flight = View::of(&transcript(text));
    let gone = why(refused(&in_flight, &items(&in_flight)[..1]));
    assert_eq!(gone, ("i1".into(), "removed", "it belongs to the unit in flight"));
    let mut thoughtless = items(&in_flight);
    let parts = thoughtless[1].parts[1..].to_vec();
    thoughtless[1] = Arc::new(Item { parts, ..Item::clone(&thoughtless[1]) });
    assert_eq!(why(refused(&in_flight, &thoughtless)).1, "rewritten");
    let mut shortened = items(&in_flight);
    let parts = vec![Part::ToolResult(ToolResult::text("c1", "…"))];
    shortened[2] = Arc::new(Item { parts, ..Item::clone(&shortened[2]) });
    assert!(diff(&in_flight, &shortened).is_ok(), "a result in flight may be shortened");
}

#[test]
fn a_summary_is_replaced_by_a_newer_one() {
    let transcript = transcript(&CONVERSATION.replace("it is empty", &"a long answer; ".repeat(50)));
    let folded = plan(&View::of(&transcript), &SummarizeOlderStrategy::new(4), None).unwrap().apply_floor();
    let before = folded.view;
    let place = before.items().position(|item| item.summary.is_some()).expect("there is a summary");
    let mut given = items(&before);
    given[place] = context("newer");
    let diff = diff(&before, &given).unwrap();
    assert!(diff.compacted.view.items().map(|item| &item.id).eq(given.iter().map(|item| &item.id)));
    assert_eq!(diff.plan.folds().next().unwrap().range, before.get(place).unwrap().span());
}

#[test]
fn a_strategy_that_replaces_items_everywhere_is_told_to_keep_their_ids() {
    let transcript: Transcript = (0..6_000).map(|n| Item::user(format!("u{n}"), "word ".repeat(9))).collect();
    let view = View::of(&transcript);
    let fresh = |(n, item): (usize, &Arc<Item>)| match n % 2 {
        0 => context(&format!("n{n}")),
        _ => Arc::clone(item),
    };
    let given: Vec<Arc<Item>> = view.items().enumerate().map(fresh).collect();
    assert_eq!(refused(&view, &given), DiffError::TooManyPlaces);
}
