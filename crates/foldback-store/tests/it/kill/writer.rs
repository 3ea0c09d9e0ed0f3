//! The process that is ended: it changes a session at random and says what it was told is stored.

use std::io::Write;
use std::sync::Arc;

use foldback_core::{
    CompactionBlock, Item, LoopId, Metadata, Overlay, Part, SessionId, SummarizeOlderStrategy, Timestamp,
    Transcript, View, plan,
};
use foldback_engine::store::{At, NewLoop, NewSession, Origin, Retention, Revision, Version, redo, undo};
use foldback_engine::{Store, StoreError};

use super::Failure;
use super::target::Target;

/// Changes that one writer makes at most; it is ended long before.
const CHANGES_MAX: u32 = 100_000;

/// Items that are added at a time, at most.
const ITEMS_MAX: usize = 20;

/// Where a loop's notes say how many items it had after its last revision.
pub(crate) const REVISED_NOTE: &str = "revised";

/// Who makes the block of a revision.
pub(crate) const REVISION: &str = "revision";

/// Items of a session that is retired.
const ITEMS_RETIRED: usize = 25;

/// What a writer can be ended in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    Append,
    Compaction,
    Revision,
    Gc,
    Undo,
    Redo,
    Branch,
    Retire,
    Index,
}

impl Operation {
    pub(crate) const ALL: [Self; 9] = [
        Self::Append,
        Self::Compaction,
        Self::Revision,
        Self::Gc,
        Self::Undo,
        Self::Redo,
        Self::Branch,
        Self::Retire,
        Self::Index,
    ];
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Append => "append",
            Self::Compaction => "compaction",
            Self::Revision => "revision",
            Self::Gc => "gc",
            Self::Undo => "undo",
            Self::Redo => "redo",
            Self::Branch => "branch",
            Self::Retire => "retire",
            Self::Index => "index",
        })
    }
}

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
    let mut random = fastrand::Rng::with_seed(seed);
    match store.create(&NewSession::new(session(), "main")).await {
        Ok(_) | Err(StoreError::Exists { .. }) => {}
        Err(error) => return Err(error.to_string()),
    }
    for number in 0..CHANGES_MAX {
        let changed = change(&*store, &mut random, &format!("retired-{seed}-{number}")).await;
        changed.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn change(store: &dyn Store, random: &mut fastrand::Rng, retired: &str) -> Result<(), StoreError> {
    let session = session();
    let info = store.session(&session).await?;
    let loop_id = info.current_loop.clone();
    let at = At { session: &session, loop_id: &loop_id, version: info.version };
    match random.u32(0..22) {
        0..8 => append(store, &at, random.usize(1..=ITEMS_MAX)).await?,
        8..12 => compact(store, &at, random.usize(2..30)).await?,
        12 => unless_nothing(Operation::Undo, undo(store, &at, &Transcript::default())).await?,
        13 => unless_nothing(Operation::Redo, redo(store, &at)).await?,
        14 => branch(store, &at, random).await?,
        15 => retire(store, retired).await?,
        16..19 => collect(store).await?,
        19..21 => revise(store, &at, random.usize(1..=ITEMS_MAX)).await?,
        _ => {
            say(&format!("begin {}", Operation::Index));
            store.index(50).await?;
        }
    }
    say("end");
    Ok(())
}

/// Begins a session that the next gc takes away.
async fn retire(store: &dyn Store, name: &str) -> Result<(), StoreError> {
    let (session, loop_id): (SessionId, LoopId) = (name.into(), name.into());
    say(&format!("begin {}", Operation::Retire));
    let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await?;
    store.append(&At { session: &session, loop_id: &loop_id, version }, &retired_items(&loop_id)).await?;
    say(&format!("retired {name}"));
    Ok(())
}

/// What is in a session that was retired.
pub(crate) fn retired_items(loop_id: &LoopId) -> Vec<Arc<Item>> {
    (0..ITEMS_RETIRED).map(|index| item(loop_id, index)).collect()
}

/// Takes every session away but the one that is written to.
async fn collect(store: &dyn Store) -> Result<(), StoreError> {
    say(&format!("begin {}", Operation::Gc));
    let everything = Retention { changed_before: Some(Timestamp(i64::MAX)), keep: vec![session()] };
    for gone in store.gc(&everything).await?.sessions {
        say(&format!("gone {gone}"));
    }
    Ok(())
}

async fn unless_nothing(
    operation: Operation,
    change: impl Future<Output = Result<Version, StoreError>>,
) -> Result<(), StoreError> {
    say(&format!("begin {operation}"));
    match change.await {
        Ok(_) | Err(StoreError::NothingTo { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn append(store: &dyn Store, at: &At<'_>, count: usize) -> Result<(), StoreError> {
    let start = store.head(at.session, at.loop_id).await?.item_count;
    let items: Vec<Arc<Item>> = (start..start + count).map(|index| item(at.loop_id, index)).collect();
    say(&format!("begin {}", Operation::Append));
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
    say(&format!("begin {}", Operation::Compaction));
    store.commit(at, &[planned.apply_floor().block]).await?;
    let own = blocks.iter().filter(|block| block.loop_id == *at.loop_id).count();
    say(&format!("blocks {} {}", at.loop_id, own + 1));
    Ok(())
}

/// Adds items, hides them in place of the newest compaction, and notes how many items there are by then.
async fn revise(store: &dyn Store, at: &At<'_>, count: usize) -> Result<(), StoreError> {
    let start = store.head(at.session, at.loop_id).await?.item_count;
    let items: Vec<Arc<Item>> = (start..start + count).map(|index| item(at.loop_id, index)).collect();
    let blocks = store.blocks(at.session, at.loop_id).await?;
    let newest = blocks.iter().rev().find(|block| block.is_in_force);
    let transcript: Transcript = store
        .items(at.session, at.loop_id, 0..start)
        .await?
        .into_iter()
        .chain(items.iter().cloned())
        .collect();
    let view = View::through(&transcript, &Overlay::default()).expect("no block is refused");
    let hidden = view.hiding(std::slice::from_ref(&(start..start + count))).expect("they are there");
    // Undoing makes blocks that hide items, too.
    let block = hidden.overlay().blocks().last().expect("what hides them is a block");
    let block = CompactionBlock { strategy: REVISION.into(), ..CompactionBlock::clone(block) };
    let metadata: Metadata = [(REVISED_NOTE.to_owned(), (start + count).into())].into_iter().collect();
    let revision = Revision {
        items: &items,
        base: newest.and_then(|newest| newest.parent),
        blocks: &[block.into()],
        metadata: Some(&metadata),
    };
    say(&format!("begin {}", Operation::Revision));
    store.revise(at, &revision).await?;
    say(&format!("items {} {}", at.loop_id, start + count));
    Ok(())
}

async fn branch(store: &dyn Store, at: &At<'_>, random: &mut fastrand::Rng) -> Result<(), StoreError> {
    let loops = store.loops(at.session).await?;
    let parent = loops.iter().find(|info| info.id == *at.loop_id).map_or(0, |info| info.item_count);
    let id = LoopId::from(format!("branch{}", loops.len()));
    let origin = Origin::Branch { parent: at.loop_id.clone(), item_count: random.usize(0..=parent) };
    let begun = NewLoop { id: id.clone(), origin, metadata: Metadata::new() };
    say(&format!("begin {}", Operation::Branch));
    store.begin_loop(at.session, at.version, &begun).await?;
    say(&format!("loop {id} 0"));
    Ok(())
}

/// Says a line to the test that started this process: not by a macro, whose printing the harness keeps.
pub(crate) fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("the test reads what this process says");
}
