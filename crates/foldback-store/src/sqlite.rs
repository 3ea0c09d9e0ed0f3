//! The store in one SQLite file.
//!
//! One connection writes, a few read; both work on threads of their own, because SQLite blocks. The
//! file is in WAL mode: readers see the last commit and wait for nobody, and a commit is on disk
//! before it is acknowledged.

mod append;
mod blocks;
mod care;
mod connect;
mod error;
mod find;
mod jobs;
mod packs;
mod read;
mod schema;
mod sessions;
mod tail;
#[cfg(test)]
mod tests;
mod verify;
mod words;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use async_trait::async_trait;
use foldback_core::{CompactionBlock, Handle, Item, LoopId, Metadata, SessionId, Timestamp};
use foldback_engine::store::{
    At, GcReport, HandleTarget, Head, Job, JobOutcome, Lease, LoopInfo, NewLoop, NewSession, Page, QueuedJob,
    Repairs, Retention, Revision, SearchAnswer, SearchQuery, SessionInfo, SessionTimes, StackPoint,
    StoreSize, StoredBlock, VerifyReport, Version,
};
use foldback_engine::{Clock, Store, StoreError, SystemClock};
use rusqlite::Connection;
use tokio::runtime::{Handle as Runtime, RuntimeFlavor};
use tokio::sync::Semaphore;

use crate::find::CATCH_UP_ITEMS;
use crate::tail::{TAIL_BYTES, TAIL_BYTES_MAX};
use blocks::Revised;
use connect::{connect, reading_connection, without_waiting};
use error::Fault;

/// Connections that read at the same time.
const READERS_MAX: usize = 4;

/// What may be done with a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Read and write; the file is made if it is not there.
    #[default]
    Write,
    /// Only read.
    Read,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// Tells the time for records and leases.
    pub clock: Arc<dyn Clock>,
    /// What may be done with it.
    pub access: Access,
    /// Bytes that the file may grow to; none where only the disk is the limit.
    pub bytes_max: Option<u64>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), access: Access::Write, bytes_max: None }
    }
}

/// Sessions in one SQLite file. Clones share the file.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    options: SqliteOptions,
    /// Closed before the writer: only that can leave the file without one beside it.
    readers: Mutex<Vec<Connection>>,
    writer: Mutex<Connection>,
    reading: Semaphore,
    /// Bytes that this process and those before it appended and nobody settled, at most.
    tail_bytes: AtomicU64,
    is_settling: AtomicBool,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store in this file, or makes one. One of another version is refused.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteOptions::default()).await
    }

    /// Opens a store with these options.
    pub async fn open_with(path: impl Into<PathBuf>, options: SqliteOptions) -> Result<Self, StoreError> {
        let path = path.into();
        let open = move || {
            let location = path.display().to_string();
            let at = |fault: Fault| fault.at("opening", &location);
            let writer = connect(&path, &options).map_err(at)?;
            let tail_bytes = tail::bytes(&writer).map_err(at)?;
            Ok(Self {
                shared: Arc::new(Shared {
                    path,
                    options,
                    writer: Mutex::new(writer),
                    readers: Mutex::new(Vec::new()),
                    reading: Semaphore::new(READERS_MAX),
                    tail_bytes: AtomicU64::new(tail_bytes),
                    is_settling: AtomicBool::new(false),
                }),
            })
        };
        blocking("opening", open).await
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    async fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Connection, Timestamp) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        blocking(operation, move || {
            let mut writer = shared.writer();
            let now = shared.options.clock.now();
            work(&mut writer, now).map_err(|fault| fault.at(operation, &shared.location()))
        })
        .await
    }

    /// Appends on this thread, where the runtime can do without it and nobody else is writing: going to
    /// another thread and back takes longer than the append itself, unless the disk is slow. Nothing where
    /// that is not so, and nothing was done then.
    fn append_here(&self, at: &Spot, items: &[Arc<Item>]) -> Option<Result<(Version, usize), StoreError>> {
        if Runtime::current().runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        let shared = &self.shared;
        let append = || {
            let mut writer = match shared.writer.try_lock() {
                Ok(writer) => writer,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            let now = shared.options.clock.now();
            let appended = without_waiting(&mut writer, |writer| append::append(writer, at, items, now));
            let appended = appended.map_err(|fault| fault.at("appending", &shared.location()));
            // Another process is writing.
            (!matches!(appended, Err(StoreError::Busy { .. }))).then_some(appended)
        };
        tokio::task::block_in_place(append)
    }

    async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        let _turn = self.shared.reading.acquire().await.expect("the semaphore is never closed");
        blocking(operation, move || {
            let idle = shared.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let at = |fault: Fault| fault.at(operation, &shared.location());
            let mut reader = match idle {
                Some(reader) => reader,
                None => reading_connection(&shared.path).map_err(at)?,
            };
            let answer = work(&mut reader).map_err(at);
            shared.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
            answer
        })
        .await
    }
}

impl Shared {
    /// Settles a tail that has become long, in the background and a little at a time.
    fn lengthen_tail(self: &Arc<Self>, bytes: u64) {
        let length = self.tail_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if length < TAIL_BYTES || self.is_settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            loop {
                let settled = shared.settle_some(&mut shared.writer());
                match settled {
                    Ok(0) => break,
                    Ok(_) => std::thread::sleep(tail::SETTLING_PAUSE),
                    Err(fault) => {
                        // It stays where it is, and is read from there.
                        let error = fault.at("settling", &shared.location());
                        tracing::warn!(%error, "items that were appended could not be compressed");
                        break;
                    }
                }
            }
            shared.is_settling.store(false, Ordering::Release);
        });
    }

    /// Settles the first rows of the tail. Answers how many items were in them.
    fn settle_some(&self, db: &mut Connection) -> Result<usize, Fault> {
        let (settled, freed) = tail::settle_some(db)?;
        // Nothing left: whatever else was counted, somebody else settled.
        let left = |length: u64| Some(if settled == 0 { 0 } else { length.saturating_sub(freed) });
        let _counted = self.tail_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        Ok(settled)
    }

    fn writer(&self) -> MutexGuard<'_, Connection> {
        // A panic in an earlier change rolled that change back; the connection is sound.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }
}

async fn blocking<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(StoreError::Failed { operation, why: error.to_string() }))
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, session: &NewSession) -> Result<Version, StoreError> {
        let session = session.clone();
        self.write("beginning a session", move |db, now| sessions::create(db, &session, now)).await
    }

    async fn session(&self, session: &SessionId) -> Result<SessionInfo, StoreError> {
        let session = session.clone();
        self.read("reading a session", move |db| sessions::info(db, &session)).await
    }

    async fn sessions(&self, page: &Page) -> Result<Vec<SessionInfo>, StoreError> {
        let page = *page;
        self.read("listing sessions", move |db| sessions::list(db, page)).await
    }

    async fn loops(&self, session: &SessionId) -> Result<Vec<LoopInfo>, StoreError> {
        let session = session.clone();
        self.read("listing loops", move |db| sessions::loops(db, &session)).await
    }

    async fn delete(&self, session: &SessionId) -> Result<(), StoreError> {
        let session = session.clone();
        self.write("deleting a session", move |db, _| sessions::delete(db, &session)).await
    }

    async fn annotate(
        &self,
        session: &SessionId,
        version: Version,
        metadata: &Metadata,
    ) -> Result<Version, StoreError> {
        let (session, metadata) = (session.clone(), metadata.clone());
        self.write("annotating", move |db, now| sessions::annotate(db, &session, version, &metadata, now))
            .await
    }

    async fn annotate_loop(&self, at: &At<'_>, metadata: &Metadata) -> Result<Version, StoreError> {
        let (at, metadata) = (Spot::of(at), metadata.clone());
        self.write("annotating", move |db, now| sessions::annotate_loop(db, &at, &metadata, now)).await
    }

    async fn date(
        &self,
        session: &SessionId,
        version: Version,
        times: &SessionTimes,
    ) -> Result<Version, StoreError> {
        let (session, times) = (session.clone(), times.clone());
        self.write("dating a session", move |db, _| sessions::date(db, &session, version, &times)).await
    }

    async fn begin_loop(
        &self,
        session: &SessionId,
        version: Version,
        begun: &NewLoop,
    ) -> Result<Version, StoreError> {
        let (session, begun) = (session.clone(), begun.clone());
        self.write("beginning a loop", move |db, now| {
            sessions::begin_loop(db, &session, version, &begun, now)
        })
        .await
    }

    async fn switch_loop(&self, at: &At<'_>) -> Result<Version, StoreError> {
        let at = Spot::of(at);
        self.write("switching loops", move |db, now| sessions::switch_loop(db, &at, now)).await
    }

    async fn append(&self, at: &At<'_>, items: &[Arc<Item>]) -> Result<Version, StoreError> {
        let at = Spot::of(at);
        let is_full = self.shared.tail_bytes.load(Ordering::Relaxed) >= TAIL_BYTES_MAX;
        let here = if is_full { None } else { self.append_here(&at, items) };
        let (version, bytes) = match here {
            Some(appended) => appended?,
            None => {
                let (items, shared) = (items.to_vec(), Arc::clone(&self.shared));
                let append = move |db: &mut Connection, now| {
                    if is_full {
                        shared.settle_some(db)?;
                    }
                    append::append(db, &at, &items, now)
                };
                self.write("appending", append).await?
            }
        };
        self.shared.lengthen_tail(bytes as u64);
        Ok(version)
    }

    async fn commit(&self, at: &At<'_>, blocks: &[Arc<CompactionBlock>]) -> Result<Version, StoreError> {
        let (at, blocks) = (Spot::of(at), blocks.to_vec());
        self.write("storing a block", move |db, now| blocks::commit(db, &at, &blocks, now)).await
    }

    async fn revise(&self, at: &At<'_>, revision: &Revision<'_>) -> Result<Version, StoreError> {
        let (at, revised) = (Spot::of(at), Revised::of(revision));
        let revise = move |db: &mut Connection, now| blocks::revise(db, &at, &revised, now);
        let (version, bytes) = self.write("storing a block", revise).await?;
        self.shared.lengthen_tail(bytes as u64);
        Ok(version)
    }

    async fn set_stack(&self, at: &At<'_>, point: StackPoint) -> Result<Version, StoreError> {
        let at = Spot::of(at);
        self.write("setting blocks in force", move |db, now| blocks::set_stack(db, &at, point, now)).await
    }

    async fn head(&self, session: &SessionId, loop_id: &LoopId) -> Result<Head, StoreError> {
        let (session, loop_id) = (session.clone(), loop_id.clone());
        self.read("reading a view", move |db| read::head(db, &session, &loop_id)).await
    }

    async fn items(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        range: Range<usize>,
    ) -> Result<Vec<Arc<Item>>, StoreError> {
        let (session, loop_id) = (session.clone(), loop_id.clone());
        self.read("reading items", move |db| read::items(db, &session, &loop_id, &range)).await
    }

    async fn blocks(&self, session: &SessionId, loop_id: &LoopId) -> Result<Vec<StoredBlock>, StoreError> {
        let (session, loop_id) = (session.clone(), loop_id.clone());
        self.read("reading blocks", move |db| blocks::list(db, &session, &loop_id)).await
    }

    async fn locate(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        handle: &Handle,
    ) -> Result<HandleTarget, StoreError> {
        let (session, loop_id, handle) = (session.clone(), loop_id.clone(), handle.clone());
        self.read("looking up a handle", move |db| find::locate(db, &session, &loop_id, &handle)).await
    }

    async fn append_original(&self, at: &At<'_>, offset: u64, bytes: &[u8]) -> Result<Version, StoreError> {
        let (at, bytes) = (Spot::of(at), bytes.to_vec());
        self.write("storing a file", move |db, now| append::append_original(db, &at, offset, &bytes, now))
            .await
    }

    async fn original(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        offset: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let (session, loop_id) = (session.clone(), loop_id.clone());
        self.read("reading a file", move |db| read::original(db, &session, &loop_id, offset)).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer, StoreError> {
        let is_behind = self.read("searching", |db| find::is_behind(db)).await?;
        let left = match self.shared.options.access {
            Access::Write if is_behind => self.index(CATCH_UP_ITEMS).await?,
            Access::Write => 0,
            Access::Read => usize::from(is_behind),
        };
        let query = query.clone();
        let answer = self.read("searching", move |db| find::search(db, &query)).await?;
        Ok(SearchAnswer { is_complete: answer.is_complete && left == 0, ..answer })
    }

    async fn index(&self, items_max: usize) -> Result<usize, StoreError> {
        self.write("indexing", move |db, _| find::index(db, items_max)).await
    }

    async fn enqueue(&self, job: &Job) -> Result<(), StoreError> {
        let job = job.clone();
        self.write("asking for a compaction", move |db, now| jobs::enqueue(db, &job, now)).await
    }

    async fn claim(&self, worker: &str, lease: Duration) -> Result<Option<Lease>, StoreError> {
        let worker = worker.to_owned();
        self.write("taking a job", move |db, now| jobs::claim(db, &worker, lease, now)).await
    }

    async fn renew(&self, lease: &Lease, duration: Duration) -> Result<(), StoreError> {
        let lease = lease.clone();
        self.write("keeping a job", move |db, now| jobs::renew(db, &lease, duration, now)).await
    }

    async fn finish(&self, lease: &Lease, outcome: &JobOutcome) -> Result<(), StoreError> {
        let (lease, outcome) = (lease.clone(), outcome.clone());
        self.write("ending a job", move |db, now| jobs::finish(db, &lease, &outcome, now)).await
    }

    async fn jobs(&self) -> Result<Vec<QueuedJob>, StoreError> {
        self.read("listing jobs", |db| jobs::list(db)).await
    }

    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError> {
        let retention = retention.clone();
        self.write("collecting garbage", move |db, now| care::gc(db, &retention, now)).await
    }

    async fn verify(&self, repairs: Repairs) -> Result<VerifyReport, StoreError> {
        self.write("verifying", move |db, _| verify::verify(db, repairs)).await
    }

    async fn size(&self) -> Result<StoreSize, StoreError> {
        self.read("measuring", |db| care::size(db)).await
    }
}

/// Where a change goes, on its way to another thread.
#[derive(Clone, Debug)]
struct Spot {
    session: SessionId,
    loop_id: LoopId,
    version: Version,
}

impl Spot {
    fn of(at: &At<'_>) -> Self {
        Self { session: at.session.clone(), loop_id: at.loop_id.clone(), version: at.version }
    }
}
