//! Restoring: all sessions of an archive, or none.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use blake3::Hasher;
use foldback_core::{CompactionBlock, Item, LoopId, Metadata, SessionId, Timestamp};
use foldback_engine::store::{
    At, BlockNumber, LoopInfo, NewLoop, NewSession, SessionTimes, StackPoint, Version,
};
use foldback_engine::{Store, StoreError};

use super::limits::Bounds;
use super::record::{Reader, Record, Times};
use super::{ArchiveError, ArchivePlace, BATCH_ITEMS, Contents, check, shared_count};
use crate::body::{BodyHash, hash};

/// The note on a session that is being restored. It goes when all of them are there, so a session that has
/// it is what a restore left behind that was killed.
pub(super) const RESTORING_NOTE: &str = "foldback.restoring";

/// Adds the sessions of an archive, which begins where `source` stands, to a store: all of them, or none.
/// What an earlier restore left behind that was killed is replaced.
///
/// An archive that unpacks to more than a gigabyte and more than a hundred times its size is refused.
pub async fn restore(
    store: &dyn Store,
    mut source: impl Read + Seek + Send,
) -> Result<Contents, ArchiveError> {
    let start = source.stream_position().map_err(ArchiveError::Read)?;
    let end = source.seek(SeekFrom::End(0)).map_err(ArchiveError::Read)?;
    source.seek(SeekFrom::Start(start)).map_err(ArchiveError::Read)?;
    restore_within(store, source, Bounds::of_size(end.saturating_sub(start))).await
}

/// The same for an archive that may unpack to so many bytes, however small it is.
pub async fn restore_up_to(
    store: &dyn Store,
    source: impl Read + Seek + Send,
    bytes_max: u64,
) -> Result<Contents, ArchiveError> {
    restore_within(store, source, Bounds::given(bytes_max)).await
}

async fn restore_within(
    store: &dyn Store,
    mut source: impl Read + Seek + Send,
    bounds: Bounds,
) -> Result<Contents, ArchiveError> {
    let start = source.stream_position().map_err(ArchiveError::Read)?;
    let (_, sessions) = check(&mut source, bounds)?;
    for session in &sessions {
        make_room(store, session).await?;
    }
    source.seek(SeekFrom::Start(start)).map_err(ArchiveError::Read)?;
    let mut created = Vec::new();
    match write(store, Reader::new(source, bounds)?, &mut created).await {
        Ok(contents) => Ok(contents),
        Err(cause) => Err(take_away(store, created, cause).await),
    }
}

async fn make_room(store: &dyn Store, session: &SessionId) -> Result<(), ArchiveError> {
    match store.session(session).await {
        Ok(info) if info.metadata.contains_key(RESTORING_NOTE) => Ok(store.delete(session).await?),
        Ok(_) => Err(ArchiveError::Exists { session: session.clone() }),
        Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes away what a restore wrote that failed. Answers why it did.
async fn take_away(store: &dyn Store, created: Vec<SessionId>, cause: ArchiveError) -> ArchiveError {
    let mut left = Vec::new();
    let mut why = None;
    for session in created {
        match store.delete(&session).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => {
                left.push(session);
                why = Some(error);
            }
        }
    }
    match why {
        Some(why) => ArchiveError::LeftBehind { sessions: left, why, cause: Box::new(cause) },
        None => cause,
    }
}

async fn write(
    store: &dyn Store,
    mut reader: Reader<impl Read + Send>,
    created: &mut Vec<SessionId>,
) -> Result<Contents, ArchiveError> {
    let mut restoring: Option<Restoring> = None;
    let mut restored = Vec::new();
    while let Some(record) = reader.next()? {
        let place = reader.place();
        if let Record::Session { id, current_loop, metadata, times } = record {
            if let Some(done) = restoring.take() {
                restored.push(done.finish(store).await?);
            }
            let notes = Notes { metadata, times };
            restoring = Some(Restoring::new(place, id, current_loop, notes));
        } else {
            let begins = || reader.damaged("the backup begins inside of a session".to_owned());
            let session = restoring.as_mut().ok_or_else(begins)?;
            session.take(store, place, record, created).await?;
        }
    }
    if let Some(done) = restoring {
        restored.push(done.finish(store).await?);
    }
    for Restored { id, version, notes: Notes { metadata, times }, loops } in restored {
        let version = store.annotate(&id, version, &metadata).await?;
        if let Some(Times { created_at, updated_at }) = times {
            store.date(&id, version, &SessionTimes { created_at, updated_at, loops }).await?;
        }
    }
    Ok(reader.contents())
}

/// What a session gets when all of it is there.
struct Notes {
    metadata: Metadata,
    times: Option<Times>,
}

/// A session on its way into a store.
struct Restoring {
    place: ArchivePlace,
    id: SessionId,
    current_loop: LoopId,
    notes: Notes,
    /// None before the first loop.
    version: Option<Version>,
    loops: HashMap<LoopId, Held>,
    loop_times: Vec<(LoopId, Timestamp)>,
    blocks: BTreeMap<BlockNumber, BodyHash>,
}

/// What the archive holds of a loop.
#[derive(Debug, Default)]
struct Held {
    /// Items that it has from the loop it branched off.
    shared_count: usize,
    item_count: usize,
    items: Hasher,
    original_bytes: u64,
    original: Hasher,
    stack: StackPoint,
    has_blocks: bool,
}

/// A session that is there but for its notes.
struct Restored {
    id: SessionId,
    version: Version,
    notes: Notes,
    loops: Vec<(LoopId, Timestamp)>,
}

impl Restoring {
    fn new(place: ArchivePlace, id: SessionId, current_loop: LoopId, notes: Notes) -> Self {
        Self {
            place,
            id,
            current_loop,
            notes,
            version: None,
            loops: HashMap::new(),
            loop_times: Vec::new(),
            blocks: BTreeMap::new(),
        }
    }

    async fn take(
        &mut self,
        store: &dyn Store,
        place: ArchivePlace,
        record: Record,
        created: &mut Vec<SessionId>,
    ) -> Result<(), ArchiveError> {
        if let Record::Loop { id, created_at: Some(created_at), .. } = &record {
            self.loop_times.push((id.clone(), *created_at));
        }
        let version = match self.version {
            Some(version) => self.add(store, version, record).await,
            None => match record {
                Record::Loop { id, metadata, .. } => self.begin(store, id, &metadata, created).await,
                _ => {
                    let what = format!("session {} begins without a loop", self.id);
                    return Err(ArchiveError::Damaged { place, what });
                }
            },
        };
        self.version = Some(version.map_err(|error| ArchiveError::refused(place, error))?);
        Ok(())
    }

    async fn begin(
        &mut self,
        store: &dyn Store,
        first_loop: LoopId,
        metadata: &Metadata,
        created: &mut Vec<SessionId>,
    ) -> Result<Version, StoreError> {
        let note = Metadata::from_iter([(RESTORING_NOTE.to_owned(), true.into())]);
        let session = NewSession { id: self.id.clone(), first_loop, metadata: note };
        let version = store.create(&session).await?;
        created.push(self.id.clone());
        self.loops.insert(session.first_loop.clone(), Held::default());
        let at = At { session: &self.id, loop_id: &session.first_loop, version };
        store.annotate_loop(&at, metadata).await
    }

    async fn add(
        &mut self,
        store: &dyn Store,
        version: Version,
        record: Record,
    ) -> Result<Version, StoreError> {
        let id = self.id.clone();
        let at = |loop_id| At { session: &id, loop_id, version };
        match record {
            Record::Loop { id: loop_id, origin, metadata, .. } => {
                let held = self.held(&loop_id);
                held.shared_count = shared_count(&origin);
                held.item_count = held.shared_count;
                store.begin_loop(&id, version, &NewLoop { id: loop_id, origin, metadata }).await
            }
            Record::Items { loop_id, items } => {
                let held = self.held(&loop_id);
                held.item_count += items.len();
                items.iter().for_each(|item| add_item(&mut held.items, item));
                let items: Vec<Arc<Item>> = items.into_iter().map(Arc::new).collect();
                store.append(&at(&loop_id), &items).await
            }
            Record::Original { loop_id, bytes } => {
                let held = self.held(&loop_id);
                let offset = held.original_bytes;
                held.original_bytes += bytes.0.len() as u64;
                held.original.update(&bytes.0);
                store.append_original(&at(&loop_id), offset, &bytes.0).await
            }
            Record::Block { loop_id, number, parent, block } => {
                self.held(&loop_id).has_blocks = true;
                self.blocks.insert(number, hash_of(&loop_id, parent, &block));
                let below = StackPoint { top: parent, tip: parent };
                let version = store.set_stack(&at(&loop_id), below).await?;
                store.commit(&At { version, ..at(&loop_id) }, &[Arc::from(block)]).await
            }
            Record::Stack { loop_id, point } => {
                self.held(&loop_id).stack = point;
                store.set_stack(&at(&loop_id), point).await
            }
            Record::Archive { .. } | Record::Session { .. } | Record::End { .. } | Record::Total(_) => {
                Ok(version)
            }
        }
    }

    fn held(&mut self, loop_id: &LoopId) -> &mut Held {
        self.loops.entry(loop_id.clone()).or_default()
    }

    /// Makes sure that the store holds what the archive does.
    async fn finish(self, store: &dyn Store) -> Result<Restored, ArchiveError> {
        let Some(version) = self.version else {
            let what = format!("session {} has no loop", self.id);
            return Err(ArchiveError::Damaged { place: self.place, what });
        };
        let at = At { session: &self.id, loop_id: &self.current_loop, version };
        let switched = store.switch_loop(&at).await;
        let version = switched.map_err(|error| ArchiveError::refused(self.place, error))?;
        match self.lacking(store).await? {
            Some(what) => Err(ArchiveError::Incomplete { session: self.id, what }),
            None => Ok(Restored { id: self.id, version, notes: self.notes, loops: self.loop_times }),
        }
    }

    /// What the store does not hold as the archive does. Everything is read back.
    async fn lacking(&self, store: &dyn Store) -> Result<Option<String>, StoreError> {
        let loops = store.loops(&self.id).await?;
        let block_count = store.session(&self.id).await?.block_count;
        if (loops.len(), block_count) != (self.loops.len(), self.blocks.len() as u64) {
            return Ok(Some(format!(
                "it has {} loops of {} and {block_count} blocks of {}",
                loops.len(),
                self.loops.len(),
                self.blocks.len()
            )));
        }
        let mut blocks = BTreeMap::new();
        for info in &loops {
            let held = self.loops.get(&info.id);
            let what = match held {
                Some(held) if held.is_counted_in(info) => held.changed_in(store, &self.id, &info.id).await?,
                _ => Some("other lengths than the backup"),
            };
            if let Some(what) = what {
                return Ok(Some(format!("loop {} has {what}", info.id)));
            }
            if held.is_some_and(|held| held.has_blocks) {
                let stored = store.blocks(&self.id, &info.id).await?;
                let own = stored.into_iter().filter(|block| block.loop_id == info.id);
                blocks.extend(own.map(|own| (own.number, hash_of(&own.loop_id, own.parent, &own.block))));
            }
        }
        Ok((blocks != self.blocks).then(|| "it has other blocks than the backup".to_owned()))
    }
}

impl Held {
    fn is_counted_in(&self, info: &LoopInfo) -> bool {
        (self.item_count, self.original_bytes, self.stack)
            == (info.item_count, info.original_bytes, info.stack)
    }

    /// What was written of a loop and is read back as something else.
    async fn changed_in(
        &self,
        store: &dyn Store,
        session: &SessionId,
        loop_id: &LoopId,
    ) -> Result<Option<&'static str>, StoreError> {
        let mut items = Hasher::new();
        for start in (self.shared_count..self.item_count).step_by(BATCH_ITEMS) {
            let end = self.item_count.min(start + BATCH_ITEMS);
            let batch = store.items(session, loop_id, start..end).await?;
            batch.iter().for_each(|item| add_item(&mut items, item));
        }
        let (mut original, mut offset) = (Hasher::new(), 0);
        while offset < self.original_bytes {
            let bytes = store.original(session, loop_id, offset).await?;
            if bytes.is_empty() {
                break;
            }
            original.update(&bytes);
            offset += bytes.len() as u64;
        }
        Ok(if items.finalize() != self.items.finalize() {
            Some("other items than the backup")
        } else if original.finalize() != self.original.finalize() {
            Some("another original file than the backup")
        } else {
            None
        })
    }
}

fn add_item(hasher: &mut Hasher, item: &Item) {
    let json = serde_json::to_vec(item).expect("an item has only string keys and finite numbers");
    hasher.update(&(json.len() as u64).to_le_bytes());
    hasher.update(&json);
}

fn hash_of(loop_id: &LoopId, parent: Option<BlockNumber>, block: &CompactionBlock) -> BodyHash {
    let json = serde_json::to_vec(&(loop_id, parent, block));
    hash(&json.expect("a block has only string keys and finite numbers"))
}
