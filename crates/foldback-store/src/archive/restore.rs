//! Restoring: all sessions of an archive, or none.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use foldback_core::{Item, LoopId, Metadata, SessionId};
use foldback_engine::store::{At, LoopInfo, NewLoop, NewSession, StackPoint, Version};
use foldback_engine::{Store, StoreError};

use super::record::{Reader, Record};
use super::{ArchiveError, ArchivePlace, Contents, check, shared_count};

/// The note on a session that is being restored. It goes when all of them are there, so a session that has
/// it is what a restore left behind that was killed.
pub(super) const RESTORING_NOTE: &str = "foldback.restoring";

/// Adds the sessions of an archive, which begins where `source` stands, to a store: all of them, or none.
/// What an earlier restore left behind that was killed is replaced.
pub async fn restore(
    store: &dyn Store,
    mut source: impl Read + Seek + Send,
) -> Result<Contents, ArchiveError> {
    let start = source.stream_position().map_err(ArchiveError::Read)?;
    let (_, sessions) = check(&mut source)?;
    for session in &sessions {
        make_room(store, session).await?;
    }
    source.seek(SeekFrom::Start(start)).map_err(ArchiveError::Read)?;
    let mut created = Vec::new();
    match write(store, source, &mut created).await {
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
    source: impl Read + Send,
    created: &mut Vec<SessionId>,
) -> Result<Contents, ArchiveError> {
    let mut reader = Reader::new(source)?;
    let mut restoring: Option<Restoring> = None;
    let mut restored = Vec::new();
    while let Some(record) = reader.next()? {
        let place = reader.place();
        if let Record::Session { id, current_loop, metadata } = record {
            if let Some(done) = restoring.take() {
                restored.push(done.finish(store).await?);
            }
            restoring = Some(Restoring::new(place, id, current_loop, metadata));
        } else {
            let begins = || reader.damaged("the backup begins inside of a session".to_owned());
            let session = restoring.as_mut().ok_or_else(begins)?;
            session.take(store, place, record, created).await?;
        }
    }
    if let Some(done) = restoring {
        restored.push(done.finish(store).await?);
    }
    for Restored { id, version, metadata } in restored {
        store.annotate(&id, version, &metadata).await?;
    }
    Ok(reader.contents())
}

/// A session on its way into a store.
struct Restoring {
    place: ArchivePlace,
    id: SessionId,
    current_loop: LoopId,
    metadata: Metadata,
    /// None before the first loop.
    version: Option<Version>,
    loops: HashMap<LoopId, Held>,
    block_count: u64,
}

/// What the archive holds of a loop.
#[derive(Debug, Default, PartialEq, Eq)]
struct Held {
    item_count: usize,
    original_bytes: u64,
    stack: StackPoint,
}

/// A session that is there but for its notes.
struct Restored {
    id: SessionId,
    version: Version,
    metadata: Metadata,
}

impl Restoring {
    fn new(place: ArchivePlace, id: SessionId, current_loop: LoopId, metadata: Metadata) -> Self {
        let loops = HashMap::new();
        Self { place, id, current_loop, metadata, version: None, loops, block_count: 0 }
    }

    async fn take(
        &mut self,
        store: &dyn Store,
        place: ArchivePlace,
        record: Record,
        created: &mut Vec<SessionId>,
    ) -> Result<(), ArchiveError> {
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
            Record::Loop { id: loop_id, origin, metadata } => {
                self.held(&loop_id).item_count = shared_count(&origin);
                store.begin_loop(&id, version, &NewLoop { id: loop_id, origin, metadata }).await
            }
            Record::Items { loop_id, items } => {
                self.held(&loop_id).item_count += items.len();
                let items: Vec<Arc<Item>> = items.into_iter().map(Arc::new).collect();
                store.append(&at(&loop_id), &items).await
            }
            Record::Original { loop_id, bytes } => {
                let held = self.held(&loop_id);
                let offset = held.original_bytes;
                held.original_bytes += bytes.0.len() as u64;
                store.append_original(&at(&loop_id), offset, &bytes.0).await
            }
            Record::Block { loop_id, parent, block, .. } => {
                self.block_count += 1;
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
            None => Ok(Restored { id: self.id, version, metadata: self.metadata }),
        }
    }

    /// What the store does not hold as the archive does.
    async fn lacking(&self, store: &dyn Store) -> Result<Option<String>, StoreError> {
        let loops = store.loops(&self.id).await?;
        let block_count = store.session(&self.id).await?.block_count;
        if (loops.len(), block_count) != (self.loops.len(), self.block_count) {
            return Ok(Some(format!(
                "it has {} loops of {} and {block_count} blocks of {}",
                loops.len(),
                self.loops.len(),
                self.block_count
            )));
        }
        let found = loops.into_iter().map(|LoopInfo { id, item_count, original_bytes, stack, .. }| {
            let found = Held { item_count, original_bytes, stack };
            (self.loops.get(&id) != Some(&found))
                .then(|| format!("loop {id} has {found:?}, the backup {:?}", self.loops.get(&id)))
        });
        Ok(found.flatten().next())
    }
}
