//! What a store keeps of blocks shows what the blocks show.

use std::sync::Arc;

use foldback_core::{CompactionBlock, Edit, Item, Overlay, Reason, Transcript, View, plan};
use foldback_engine::store::{Layout, StoreError};
use foldback_testkit::{recipe, strategies};
use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

/// What a store would load for this layout.
fn load(transcript: &Transcript, layout: &Layout) -> Vec<(usize, Arc<Item>)> {
    let items: Vec<Arc<Item>> = transcript.items().cloned().collect();
    layout
        .visible(items.len())
        .into_iter()
        .flatten()
        .map(|index| (index, Arc::clone(&items[index])))
        .collect()
}

proptest! {
    #![proptest_config(foldback_testkit::costly(10))]

    /// T5: however many compactions lie on top of each other, the layout shows what the view shows,
    /// now, after it was stored, and after more was said.
    #[test]
    fn a_layout_shows_what_the_view_of_its_blocks_shows(
        recipe in recipe::recipe(),
        stacked in prop::collection::vec(strategies::strategy(), 1..4),
    ) {
        let mut transcript = recipe.transcript();
        let mut overlay = Overlay::default();
        let mut layout = Layout::default();
        for (number, strategy) in stacked.iter().enumerate() {
            let view = View::through(&transcript, &overlay).expect("the blocks were made for it");
            let Ok(planned) = plan(&view, strategy, None) else { continue };
            let block = planned.apply_floor().block;
            prop_assert_eq!(Layout::check(&block, transcript.len()), Ok(()));
            prop_assert!(Layout::reach(&block) <= transcript.len());
            layout = layout.with(&block);
            overlay = overlay.with(block);
            transcript.push(Item::user(format!("later-{number}"), "and now this"));
            let view = View::through(&transcript, &overlay).expect("the transcript only grew");
            let stored = serde_json::to_vec(&layout).expect("a layout is JSON");
            layout = serde_json::from_slice(&stored).expect("what was stored loads");
            let visible = load(&transcript, &layout);
            prop_assert!(layout.context(&visible).iter().eq(view.items()), "{}", view.shape());
            let fates = view.fates();
            for (index, fate) in fates.iter().enumerate() {
                prop_assert_eq!(layout.is_visible(index), fate.is_visible());
            }
        }
    }
}

#[test]
fn a_block_for_more_items_than_there_are_is_refused() {
    let drop = foldback_core::edit::Drop { range: 1..3, reason: Reason::new("test", "because") };
    let block = CompactionBlock {
        edits: vec![Edit::Drop(drop)],
        strategy: "test".into(),
        tokens_before: foldback_core::Tokens(9),
        tokens_after: foldback_core::Tokens(1),
        ..CompactionBlock::default()
    };
    assert_eq!(Layout::check(&block, 3), Ok(()));
    assert!(matches!(Layout::check(&block, 2), Err(StoreError::InvalidBlock { .. })));
}
