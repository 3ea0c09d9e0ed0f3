//! Backup and restore, of any store into any store.
//!
//! An archive begins with a line that names its form; then come records. A record is the length of some
//! JSON, the JSON, and a hash of the archive up to there: wherever a byte is changed, missing or too many,
//! the first record that it touches is known. The last record says how much the archive holds. All of it
//! is compressed.
//!
//! A backup is read back before it counts as one. A restore reads the whole archive before it writes, then
//! reads back what it wrote, and takes it away where it fails.

mod error;
mod limits;
mod lines;
mod record;
mod restore;

use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use foldback_core::{CompactionBlock, Item, LoopId, SessionId};
use foldback_engine::store::{LoopInfo, Origin, Page, SessionInfo, StoredBlock};
use foldback_engine::{Store, StoreError};
use serde::{Deserialize, Serialize};

pub use self::error::{ArchiveError, ArchivePlace};
use self::limits::Bounds;
use self::record::{Reader, Record, Times, Writer};
use self::restore::RESTORING_NOTE;
pub use self::restore::{restore, restore_up_to};
use crate::body::corrupt;

/// Items that are read or written at a time.
const BATCH_ITEMS: usize = 500;

/// Sessions that are listed at a time.
const BATCH_SESSIONS: usize = 100;

/// How often a session that changes while it is read is read again.
const SNAPSHOT_TRIES_MAX: usize = 100;

/// How much an archive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Contents {
    /// Sessions.
    pub session_count: usize,
    /// Loops of all sessions.
    pub loop_count: usize,
    /// Items of all loops; those that a branch shares with its parent count once.
    pub item_count: usize,
    /// Blocks of all loops.
    pub block_count: usize,
    /// Bytes of the files that loops were read from.
    pub original_bytes: u64,
}

impl Contents {
    /// Takes a record into the count.
    fn add(&mut self, record: &Record) {
        match record {
            Record::Session { .. } => self.session_count += 1,
            Record::Loop { .. } => self.loop_count += 1,
            Record::Items { items, .. } => self.item_count += items.len(),
            Record::Original { bytes, .. } => self.original_bytes += bytes.0.len() as u64,
            Record::Block { .. } => self.block_count += 1,
            Record::Archive { .. } | Record::Stack { .. } | Record::End { .. } | Record::Total(_) => {}
        }
    }
}

/// Writes everything that is in a store, each session as it is at one moment, and reads it back. The
/// archive begins where `target` stands. Where this fails, what was written is no backup.
pub async fn backup(
    store: &dyn Store,
    mut target: impl Read + Write + Seek + Send,
) -> Result<Contents, ArchiveError> {
    let start = target.stream_position().map_err(ArchiveError::Write)?;
    let written = write(store, &mut target).await?;
    target.seek(SeekFrom::Start(start)).map_err(ArchiveError::Write)?;
    let (found, _) = check(&mut target, Bounds::NONE).map_err(ArchiveError::not_read_back)?;
    if found == written { Ok(written) } else { Err(ArchiveError::Miscounted { written, found }) }
}

/// Reads a whole archive: how much it holds, and the sessions in it.
fn check(source: impl Read, bounds: Bounds) -> Result<(Contents, Vec<SessionId>), ArchiveError> {
    let mut reader = Reader::new(source, bounds)?;
    let mut sessions = Vec::new();
    let mut seen = HashSet::new();
    while let Some(record) = reader.next()? {
        if let Record::Session { id, .. } = record {
            if !seen.insert(id.clone()) {
                return Err(reader.damaged(format!("session {id} stands in it twice")));
            }
            sessions.push(id);
        }
    }
    Ok((reader.contents(), sessions))
}

async fn write(store: &dyn Store, target: impl Write + Send) -> Result<Contents, ArchiveError> {
    let mut writer = Writer::new(target)?;
    for session in sessions(store).await? {
        match Snapshot::of(store, &session).await {
            // What a killed restore left behind is no session yet.
            Ok(snapshot) if snapshot.info.metadata.contains_key(RESTORING_NOTE) => {}
            Ok(snapshot) => snapshot.write(store, &mut writer).await?,
            // Deleted since it was listed.
            Err(StoreError::NotFound { what: "session", .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    writer.finish()
}

async fn sessions(store: &dyn Store) -> Result<Vec<SessionId>, StoreError> {
    let mut sessions: Vec<SessionId> = Vec::new();
    loop {
        let page = Page { skip: sessions.len(), limit: BATCH_SESSIONS };
        let batch = store.sessions(&page).await?;
        let is_last = batch.len() < BATCH_SESSIONS;
        sessions.extend(batch.into_iter().map(|session| session.id));
        if is_last {
            break;
        }
    }
    sessions.sort();
    sessions.dedup();
    Ok(sessions)
}

/// What is known about a session at one version. Its items and originals only grow, so that they can be
/// read afterwards, up to the counts that stand here.
struct Snapshot {
    info: SessionInfo,
    loops: Vec<LoopInfo>,
    blocks: Vec<StoredBlock>,
}

impl Snapshot {
    async fn of(store: &dyn Store, session: &SessionId) -> Result<Self, StoreError> {
        let mut info = store.session(session).await?;
        for _ in 0..SNAPSHOT_TRIES_MAX {
            let loops = store.loops(session).await?;
            let mut blocks = Vec::new();
            // Most sessions have none, and each loop lists those of its ancestors.
            for info in loops.iter().filter(|_| info.block_count > 0) {
                let all = store.blocks(session, &info.id).await?;
                blocks.extend(all.into_iter().filter(|block| block.loop_id == info.id));
            }
            blocks.sort_by_key(|block| block.number);
            let now = store.session(session).await?;
            if now.version == info.version {
                return Ok(Self { info, loops, blocks });
            }
            info = now;
        }
        Err(StoreError::Busy { location: format!("session {session}") })
    }

    async fn write<W: Write>(self, store: &dyn Store, writer: &mut Writer<W>) -> Result<(), ArchiveError> {
        let Self { info, loops, blocks } = self;
        let session = info.id.clone();
        writer.write(&Record::Session {
            id: info.id,
            current_loop: info.current_loop,
            metadata: info.metadata,
            times: Some(Times { created_at: info.created_at, updated_at: info.updated_at }),
        })?;
        for info in &loops {
            let (id, origin, metadata) = (info.id.clone(), info.origin.clone(), info.metadata.clone());
            let created_at = Some(info.created_at);
            writer.write(&Record::Loop { id, origin, metadata, created_at })?;
            write_items(store, &session, info, writer).await?;
            write_original(store, &session, info, writer).await?;
        }
        for StoredBlock { number, parent, loop_id, block, .. } in blocks {
            let block = Box::new(CompactionBlock::clone(&block));
            writer.write(&Record::Block { loop_id, number, parent, block })?;
        }
        for info in loops {
            writer.write(&Record::Stack { loop_id: info.id, point: info.stack })?;
        }
        Ok(())
    }
}

async fn write_items<W: Write>(
    store: &dyn Store,
    session: &SessionId,
    info: &LoopInfo,
    writer: &mut Writer<W>,
) -> Result<(), ArchiveError> {
    let mut start = shared_count(&info.origin);
    while start < info.item_count {
        let end = info.item_count.min(start + BATCH_ITEMS);
        let items = store.items(session, &info.id, start..end).await?;
        if items.len() != end - start {
            return Err(lacks(session, &info.id, "items").into());
        }
        write_batch(writer, &info.id, &items)?;
        start = end;
    }
    Ok(())
}

/// Writes items in one record, or in several where they are too large for one.
fn write_batch<W: Write>(
    writer: &mut Writer<W>,
    loop_id: &LoopId,
    items: &[Arc<Item>],
) -> Result<(), ArchiveError> {
    let all = items.iter().map(|item| Item::clone(item)).collect();
    let record = Record::Items { loop_id: loop_id.clone(), items: all };
    match writer.write(&record) {
        Err(ArchiveError::TooLong { .. }) if items.len() > 1 => {
            let (first, second) = items.split_at(items.len() / 2);
            write_batch(writer, loop_id, first)?;
            write_batch(writer, loop_id, second)
        }
        written => written,
    }
}

async fn write_original<W: Write>(
    store: &dyn Store,
    session: &SessionId,
    info: &LoopInfo,
    writer: &mut Writer<W>,
) -> Result<(), ArchiveError> {
    let mut offset = 0;
    while offset < info.original_bytes {
        let mut bytes = store.original(session, &info.id, offset).await?;
        if bytes.is_empty() {
            return Err(lacks(session, &info.id, "bytes of its original file").into());
        }
        let left = usize::try_from(info.original_bytes - offset).unwrap_or(usize::MAX);
        bytes.truncate(left);
        offset += bytes.len() as u64;
        writer.write(&Record::Original { loop_id: info.id.clone(), bytes: record::Bytes(bytes) })?;
    }
    Ok(())
}

/// How many items a loop has from the one that it branched off.
fn shared_count(origin: &Origin) -> usize {
    match origin {
        Origin::Root | Origin::After(_) => 0,
        Origin::Branch { item_count, .. } => *item_count,
    }
}

fn lacks(session: &SessionId, loop_id: &LoopId, what: &str) -> StoreError {
    corrupt(format!("loop {loop_id} of session {session} lacks {what}"))
}
