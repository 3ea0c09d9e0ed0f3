//! What every store promises of changes that are several in one step.

use std::sync::Arc;

use foldback_core::{CompactionBlock, Item, Metadata, Overlay, Transcript, View};
use foldback_engine::store::{At, BlockNumber, Repairs, Revision, StackPoint, Version, redo};
use foldback_engine::{Store, StoreError};

use crate::conformance::HandClock;
use crate::conformance::cases::{begun, fold, main_loop, rounds, session};

/// Hides the last items of a loop that has so many.
fn hiding(item_count: usize, last: usize) -> Arc<CompactionBlock> {
    let items = (0..item_count).map(|number| Arc::new(Item::user(format!("i{number}"), "words")));
    let transcript: Transcript = items.collect();
    let view = View::through(&transcript, &Overlay::default()).unwrap();
    let hidden = item_count - last..item_count;
    let view = view.hiding(std::slice::from_ref(&hidden)).unwrap();
    Arc::clone(view.overlay().blocks().last().unwrap())
}

/// Everything that a revision changes.
async fn state(store: &dyn Store) -> (Version, u64, usize, StackPoint, Metadata, Vec<Arc<Item>>) {
    let (session, head) = (session(), store.head(&session(), &main_loop()).await.unwrap());
    let info = store.session(&session).await.unwrap();
    let loops = store.loops(&session).await.unwrap();
    assert_eq!((info.version, loops[0].item_count), (head.version, head.item_count));
    let (metadata, context) = (loops[0].metadata.clone(), head.context());
    (info.version, info.block_count, head.item_count, head.stack, metadata, context)
}

pub(crate) async fn a_revision_is_made_whole_or_not_at_all(store: &dyn Store, _: &HandClock) {
    let version = begun(store, &rounds(6)).await;
    let (version, _) = fold(store, version, 16).await;
    let base = Some(BlockNumber(1));
    let first = state(store).await.5;
    let (version, _) = fold(store, version, 8).await;
    let (session, loop_id) = (session(), main_loop());
    let at = At { session: &session, loop_id: &loop_id, version };
    let items: Vec<Arc<Item>> = rounds(8).split_off(24);
    let metadata: Metadata = [("note".to_owned(), serde_json::json!("kept"))].into_iter().collect();
    let blocks = [hiding(32, 8)];
    let whole = Revision { items: &items, base, blocks: &blocks, metadata: Some(&metadata) };

    let before = state(store).await;
    let far = [hiding(33, 1)];
    let refused = [
        Revision { base: Some(BlockNumber(9)), ..whole },
        Revision { blocks: &[], ..whole },
        Revision { blocks: &far, ..whole },
    ];
    for revision in refused {
        let answer = store.revise(&at, &revision).await;
        assert!(matches!(answer, Err(StoreError::InvalidBlock { .. })), "{answer:?}");
        assert_eq!(state(store).await, before);
    }
    let stale = At { version: Version(version.0 - 1), ..at };
    let answer = store.revise(&stale, &whole).await;
    assert!(matches!(answer, Err(StoreError::Conflict { .. })), "{answer:?}");
    assert_eq!(state(store).await, before);

    let version = store.revise(&at, &whole).await.unwrap();
    let top = Some(BlockNumber(3));
    let expected = (version, 3, 32, StackPoint { top, tip: top }, metadata.clone(), first);
    assert_eq!(state(store).await, expected, "the second fold and the new items are not seen");
    assert_eq!(store.items(&session, &loop_id, 24..99).await.unwrap(), items);
    let at = At { version, ..at };
    assert_eq!(redo(store, &at).await, Err(StoreError::NothingTo { action: "redo" }));
    let gone = Revision { base: Some(BlockNumber(2)), items: &[], ..whole };
    let answer = store.revise(&at, &gone).await;
    assert!(matches!(answer, Err(StoreError::InvalidBlock { .. })), "no longer in force: {answer:?}");

    let back = StackPoint { top: Some(BlockNumber(2)), tip: Some(BlockNumber(2)) };
    let version = store.set_stack(&at, back).await.unwrap();
    let context: Vec<Arc<Item>> = before.5.iter().chain(&items).cloned().collect();
    assert_eq!(state(store).await, (version, 3, 32, back, metadata.clone(), context));
    let revision = Revision { items: &[], base: None, blocks: &blocks, metadata: None };
    store.revise(&At { version, ..at }, &revision).await.unwrap();
    let (_, block_count, item_count, _, kept, context) = state(store).await;
    assert_eq!((block_count, item_count, kept), (4, 32, metadata));
    assert_eq!(context, rounds(6), "nothing stands below it");
    assert!(store.verify(Repairs::None).await.unwrap().is_clean());
}
