//! The process that is ended: it changes a session at random and says what it was told is stored.

use std::io::Write;
use std::sync::Arc;

use foldback_core::{
    CompactionBlock, Item, LoopId, Metadata, Overlay, Part, SessionId, SummarizeOlderStrategy, Transcript,
    View, plan,
};
use foldback_engine::store::{At, NewLoop, NewSession, Origin, Retention, Version};
use foldback_engine::{Store, StoreError};

use crate::Failure;
use crate::target::Target;

/// Changes that one writer makes at most; it is ended long before.
const CHANGES_MAX: u32 = 100_000;

/// Items that are added at a time, at most.
const ITEMS_MAX: usize = 20;

pub(crate) fn session() -> SessionId {
    "session".into()
}

/// What stands at a place of a loop: anybody can say, so nobody has to remember.
pub(crate) fn item(loop_id: &LoopId, index: usize) -> Arc<Item> {
    let id = format!("{loop_id}-{index}");
    // Every few items the same words again, as when a file is read twice.
    let words = format!("what was said about {} ", index % 7).repeat(1 + index % 40);
    let text = if index % 5 == 4 { words } else { format!("{words}{id}") };
    Arc::new(match index % 2 {
        0 => Item::user(id, text),
        _ => Item::assistant(id, vec![Part::text(text)]),
    })
}

/// Opens the store and changes it until it is ended.
pub(crate) async fn run(target: &Target, seed: u64) -> Result<(), Failure> {
    let store = target.open().await?;
    say("open");
    let mut random = fastrand::Rng::with_seed(seed);
    match store.create(&NewSession::new(session(), "main")).await {
        Ok(_) | Err(StoreError::Exists { .. }) => {}
        Err(error) => return Err(error.to_string()),
    }
    for _ in 0..CHANGES_MAX {
        change(&*store, &mut random).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn change(store: &dyn Store, random: &mut fastrand::Rng) -> Result<(), StoreError> {
    let session = session();
    let info = store.session(&session).await?;
    let loop_id = info.current_loop.clone();
    let at = At { session: &session, loop_id: &loop_id, version: info.version };
    match random.u32(0..20) {
        0..10 => append(store, &at, random.usize(1..=ITEMS_MAX)).await,
        10..13 => compact(store, &at, random.usize(2..30)).await,
        13 => unless_nothing(store.undo(&at).await),
        14 => unless_nothing(store.redo(&at).await),
        15 => branch(store, &at, random).await,
        16 | 17 => {
            store.gc(&Retention::default()).await?;
            say("gc");
            Ok(())
        }
        _ => store.index(50).await.map(|_| ()),
    }
}

fn unless_nothing(changed: Result<Version, StoreError>) -> Result<(), StoreError> {
    match changed {
        Ok(_) | Err(StoreError::NothingTo { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn append(store: &dyn Store, at: &At<'_>, count: usize) -> Result<(), StoreError> {
    let start = store.head(at.session, at.loop_id).await?.item_count;
    let items: Vec<Arc<Item>> = (start..start + count).map(|index| item(at.loop_id, index)).collect();
    store.append(at, &items).await?;
    say(&format!("items {} {}", at.loop_id, start + count));
    Ok(())
}

async fn compact(store: &dyn Store, at: &At<'_>, recent: usize) -> Result<(), StoreError> {
    let items = store.items(at.session, at.loop_id, 0..usize::MAX).await?;
    let blocks = store.blocks(at.session, at.loop_id).await?;
    let in_force = blocks.iter().filter(|block| block.is_in_force);
    let overlay: Overlay = in_force.map(|block| CompactionBlock::clone(&block.block)).collect();
    let transcript: Transcript = items.into_iter().collect();
    let view = View::through(&transcript, &overlay).expect("the blocks were made for these items");
    let Ok(planned) = plan(&view, &SummarizeOlderStrategy::new(recent), None) else { return Ok(()) };
    store.commit(at, &planned.apply_floor().block).await?;
    let own = blocks.iter().filter(|block| block.loop_id == *at.loop_id).count();
    say(&format!("blocks {} {}", at.loop_id, own + 1));
    Ok(())
}

async fn branch(store: &dyn Store, at: &At<'_>, random: &mut fastrand::Rng) -> Result<(), StoreError> {
    let loops = store.loops(at.session).await?;
    let parent = loops.iter().find(|info| info.id == *at.loop_id).map_or(0, |info| info.item_count);
    let id = LoopId::from(format!("branch{}", loops.len()));
    let origin = Origin::Branch { parent: at.loop_id.clone(), item_count: random.usize(0..=parent) };
    let begun = NewLoop { id: id.clone(), origin, metadata: Metadata::new() };
    store.begin_loop(at.session, at.version, &begun).await?;
    say(&format!("loop {id} 0"));
    Ok(())
}

/// One line at a time, at once: what is in a buffer when the process ends was never said.
pub(crate) fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("whoever started this process reads what it says");
}
