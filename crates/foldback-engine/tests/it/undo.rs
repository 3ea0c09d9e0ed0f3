//! A compaction that had to repair the view first, undone.

use std::sync::Arc;

use foldback_core::{
    Budget, CompactionReason, Dialect, Item, LadderStrategy, Part, Tokens, ToolResult, Transcript, View,
};
use foldback_engine::{
    CompactionContext, CompactionRequest, Compactor, Execution, StrategyCompactor, compact,
};
use foldback_testkit::recipe;
use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

/// A question whose call was never answered, and long answers before and after it.
fn interrupted() -> View {
    let said = |n: usize| Item::user(format!("u{n}"), format!("question {n}: {}", "why so? ".repeat(60)));
    let call = Item::assistant("a", vec![Part::call("c", "run", &serde_json::json!({}))]);
    let stray = Item::tool("t", ToolResult::text("nobody", "out of nowhere"));
    let items = (0..20).map(said).chain([call, stray]).chain((20..40).map(said));
    View::of(&items.collect::<Transcript>())
}

fn ids(view: &View) -> Vec<&str> {
    view.items().map(|item| item.id.as_str()).collect()
}

#[tokio::test]
async fn undo_gives_back_what_was_seen_before_the_repair_and_what_was_said_since() {
    let before = interrupted();
    let compactor = StrategyCompactor::builder()
        .item_count_trigger(1)
        .strategy(LadderStrategy::new())
        .budget(Budget::for_target(Tokens(2_000)).unwrap())
        .dialect(Dialect::Anthropic)
        .build()
        .unwrap();
    let request = CompactionRequest::new("s", before.clone(), CompactionReason::Manual);
    let mut view = compactor.compact(request, &CompactionContext::default()).await.unwrap().transcript;
    assert!(view.transcript().len() > before.transcript().len(), "repaired items were recorded");
    let later = Arc::new(Item::user("later", "and now?"));
    view.push(Arc::clone(&later));
    let (undone, taken_off) = view.undo().unwrap();
    let expected: Vec<&Arc<Item>> = before.items().chain([&later]).collect();
    assert_eq!(undone.items().collect::<Vec<_>>(), expected);
    assert_eq!(taken_off.len(), 2, "the compaction, and its repair");
    assert!(undone.undo().is_none(), "what hides the repaired items is no compaction: {:?}", ids(&undone));
}

proptest! {
    #![proptest_config(foldback_testkit::costly(10))]

    /// T5: compactions on compactions, each with its repairs, undone one by one.
    #[test]
    fn every_undo_gives_back_exactly_what_was_seen(
        recipes in prop::collection::vec(recipe::recipe(), 1..4),
        dialect in prop::sample::select(Dialect::ALL.to_vec()),
        percent in 10u64..80,
    ) {
        let mut view = View::of(&Transcript::default());
        let mut seen: Vec<Vec<Arc<Item>>> = Vec::new();
        for recipe in &recipes {
            recipe.items().into_iter().for_each(|item| view.push(item));
            let budget = Budget::for_target(Tokens((view.tokens().0 * percent / 100).max(1))).unwrap();
            let ladder = LadderStrategy::new();
            let execution = Execution::new(view.clone(), ladder).with_budget(budget).with_dialect(dialect);
            let Ok(outcome) = compact(execution) else { continue };
            if outcome.blocks.is_empty() {
                continue;
            }
            seen.push(view.items().cloned().collect());
            view = outcome.view;
        }
        while let Some((undone, taken_off)) = view.undo() {
            let expected = seen.pop();
            prop_assert!(expected.is_some(), "more was undone than done: {taken_off:?}");
            let expected = expected.unwrap();
            // What came after the compaction stands behind what was seen before it.
            let items: Vec<Arc<Item>> = undone.items().take(expected.len()).cloned().collect();
            prop_assert_eq!(items, expected);
            view = undone;
        }
        prop_assert!(seen.is_empty(), "{} compactions were not undone", seen.len());
    }
}
