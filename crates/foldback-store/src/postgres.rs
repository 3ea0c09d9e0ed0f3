//! The store on a PostgreSQL server: the same tables, for several machines at once.
//!
//! Whoever changes a session holds its row until the change is committed, so writers of one session
//! come one after the other and those of different sessions do not meet. Bodies are shared by all:
//! any number of writers may add some, but never while gc looks for those that nothing refers to.

mod append;
mod blocks;
mod care;
mod change;
mod error;
mod find;
mod jobs;
mod read;
mod schema;
mod sessions;
mod tail;
#[cfg(test)]
mod tests;
mod tls;
mod verify;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Transaction};
use foldback_core::{CompactionBlock, Handle, Item, LoopId, Metadata, SessionId, Timestamp};
use foldback_engine::store::{
    At, GcReport, HandleTarget, Head, Job, JobOutcome, Lease, LoopInfo, NewLoop, NewSession, Page, QueuedJob,
    Repairs, Retention, Revision, SearchAnswer, SearchQuery, SessionInfo, SessionTimes, StackPoint,
    StoreSize, StoredBlock, VerifyReport, Version,
};
use foldback_engine::{Clock, Store, StoreError, SystemClock};
use futures_util::future::try_join;
use tokio_postgres::config::Host;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, IsolationLevel, Row};

use crate::find::CATCH_UP_ITEMS;
use crate::rows::{LoopRow, SessionRow, write_metadata};
use crate::tail::TAIL_BYTES_MAX;
use change::Bodies;
use error::Fault;
use tls::Security;

/// Names the lock that gc holds alone and writers of bodies hold together: "body".
const BODY_LOCK: i64 = 0x626f_6479;

/// How long a caller waits for a connection.
const CONNECTION_WAIT: Duration = Duration::from_secs(30);

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What each connection asks of the server. A statement takes a few milliseconds: starting helpers for it, or
/// compiling it, takes longer than it does.
const SETTINGS: &str = "-c synchronous_commit=on -c max_parallel_workers_per_gather=0 -c jit=off";

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Tells the time for records. Leases are by the server's clock.
    pub clock: Arc<dyn Clock>,
    /// The schema that the tables are in; it is made if it is not there.
    pub schema: String,
    /// Connections that are open at the same time.
    pub connections_max: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), schema: "foldback".to_owned(), connections_max: 8 }
    }
}

/// Sessions on a PostgreSQL server. Clones share their connections.
#[derive(Clone)]
pub struct PostgresStore {
    pool: Pool,
    options: PostgresOptions,
    location: String,
    tail: Arc<Tail>,
}

/// What this process knows of the tail.
#[derive(Debug, Default)]
struct Tail {
    /// Bytes that this process and those before it appended and nobody settled, at most.
    bytes: AtomicU64,
    is_settling: AtomicBool,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("location", &self.location).finish_non_exhaustive()
    }
}

type Parameters<'a> = [&'a (dyn ToSql + Sync)];

/// Runs a statement that is prepared once for each connection.
async fn query(db: &Transaction<'_>, sql: &str, parameters: &Parameters<'_>) -> Result<Vec<Row>, Fault> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query(&statement, parameters).await?)
}

async fn query_opt(
    db: &Transaction<'_>,
    sql: &str,
    parameters: &Parameters<'_>,
) -> Result<Option<Row>, Fault> {
    let statement = db.prepare_cached(sql).await?;
    Ok(db.query_opt(&statement, parameters).await?)
}

/// Runs two statements, the second directly behind the first: without waiting in between, and not
/// before it.
async fn query_both(
    db: &Transaction<'_>,
    first: (&str, &Parameters<'_>),
    second: (&str, &Parameters<'_>),
) -> Result<(Vec<Row>, Vec<Row>), Fault> {
    let statements = (db.prepare_cached(first.0).await?, db.prepare_cached(second.0).await?);
    let both = try_join(db.query(&statements.0, first.1), db.query(&statements.1, second.1));
    Ok(both.await?)
}

impl PostgresStore {
    /// Opens the store on this server, such as `postgres://user:password@host/database`, or makes
    /// one. One of another version is refused. Connections are encrypted as `sslmode` and `sslrootcert`
    /// in the address ask for it (`disable`, `prefer`, `require`, `verify-ca`, `verify-full`).
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, PostgresOptions::default()).await
    }

    /// Opens a store with these options.
    pub async fn open_with(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let unreadable = |why: String| StoreError::Unreachable { location: "the server".to_owned(), why };
        let (security, url) = Security::read(url);
        // The error names what is wrong with the address and never repeats it: it has a password.
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let why =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            unreadable(format!("its address cannot be read ({why}); write postgres://user@host/database"))
        })?;
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        if !is_name(&options.schema) {
            let why = format!("the schema {} has other characters than a-z, 0-9 and _", options.schema);
            return Err(unreadable(why));
        }
        let location = location(&config);
        let unencrypted = |why| StoreError::Unreachable { location: location.clone(), why };
        let connector = security.connector().map_err(unencrypted)?;
        config.options(format!("-c search_path={} {SETTINGS}", options.schema));
        config.application_name("foldback").connect_timeout(CONNECT_TIMEOUT);
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(config, connector, manager))
            .max_size(options.connections_max.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECTION_WAIT))
            .build()
            .map_err(|error| unreadable(error.to_string()))?;
        let store = Self { pool, options, location, tail: Arc::default() };
        let opened = async {
            let mut connection = store.pool.get().await?;
            schema::create(&mut connection, &store.options.schema).await?;
            store.tail.bytes.store(tail::bytes(&connection).await?, Ordering::Relaxed);
            Ok(())
        };
        opened.await.map_err(|fault: Fault| fault.at("opening", &store.location))?;
        Ok(store)
    }

    fn at(&self, operation: &'static str) -> impl Fn(Fault) -> StoreError + '_ {
        move |fault| fault.at(operation, &self.location)
    }

    async fn connection(&self) -> Result<Object, Fault> {
        Ok(self.pool.get().await?)
    }
}

/// The server and the database, without user and password.
fn location(config: &Config) -> String {
    let host = config.get_hosts().first().map_or_else(String::new, |host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let port = config.get_ports().first().map_or_else(String::new, |port| format!(":{port}"));
    format!("postgres://{host}{port}/{}", config.get_dbname().unwrap_or_default())
}

#[async_trait]
impl Store for PostgresStore {
    async fn create(&self, session: &NewSession) -> Result<Version, StoreError> {
        let now = self.options.clock.now();
        self.write("beginning a session", async |db| sessions::create(db, session, now).await).await
    }

    async fn session(&self, session: &SessionId) -> Result<SessionInfo, StoreError> {
        self.read("reading a session", async |db| sessions::info(db, session).await).await
    }

    async fn sessions(&self, page: &Page) -> Result<Vec<SessionInfo>, StoreError> {
        self.read("listing sessions", async |db| sessions::list(db, *page).await).await
    }

    async fn loops(&self, session: &SessionId) -> Result<Vec<LoopInfo>, StoreError> {
        self.read("listing loops", async |db| {
            let loops = sessions::all_loops(db, &sessions::find(db, session).await?).await?;
            let mut rows: Vec<&LoopRow> = loops.values().collect();
            rows.sort_by_key(|row| row.key);
            rows.into_iter().map(|row| Ok(row.info(&loops)?)).collect()
        })
        .await
    }

    async fn delete(&self, session: &SessionId) -> Result<(), StoreError> {
        self.write("deleting a session", async |db| {
            let row = sessions::lock(db, session).await?;
            sessions::remove(db, row.key).await
        })
        .await
    }

    async fn annotate(
        &self,
        session: &SessionId,
        version: Version,
        metadata: &Metadata,
    ) -> Result<Version, StoreError> {
        self.change("annotating", session, version, async |db, row| {
            let sql = "UPDATE sessions SET metadata = $2 WHERE id = $1";
            query(db, sql, &[&row.key, &write_metadata(metadata)]).await.map(|_| ())
        })
        .await
    }

    async fn annotate_loop(&self, at: &At<'_>, metadata: &Metadata) -> Result<Version, StoreError> {
        self.change_loop("annotating", at, async |db, _, target| {
            let sql = "UPDATE loops SET metadata = $2 WHERE id = $1";
            query(db, sql, &[&target.key, &write_metadata(metadata)]).await.map(|_| ())
        })
        .await
    }

    async fn date(
        &self,
        session: &SessionId,
        version: Version,
        times: &SessionTimes,
    ) -> Result<Version, StoreError> {
        let date = async |db: &Transaction<'_>, row: &SessionRow| sessions::date(db, row, times).await;
        // No time is later than one that is replaced.
        let at = (Bodies::Untouched, Timestamp(i64::MIN));
        self.change_at("dating a session", session, version, at, date).await
    }

    async fn begin_loop(
        &self,
        session: &SessionId,
        version: Version,
        begun: &NewLoop,
    ) -> Result<Version, StoreError> {
        let now = self.options.clock.now();
        self.change("beginning a loop", session, version, async |db, row| {
            sessions::begin_loop(db, row, begun, now).await
        })
        .await
    }

    async fn switch_loop(&self, at: &At<'_>) -> Result<Version, StoreError> {
        self.change_loop("switching loops", at, async |db, row, target| {
            let sql = "UPDATE sessions SET current_loop = $2 WHERE id = $1";
            query(db, sql, &[&row.key, &target.key]).await.map(|_| ())
        })
        .await
    }

    async fn append(&self, at: &At<'_>, items: &[Arc<Item>]) -> Result<Version, StoreError> {
        let now = self.options.clock.now();
        let appended = async {
            if self.tail.bytes.load(Ordering::Relaxed) >= TAIL_BYTES_MAX {
                self.settle_some().await?;
            }
            tail::append(&mut self.connection().await?, at, items, now).await
        };
        let bytes = appended.await.map_err(self.at("appending"))?;
        self.lengthen_tail(bytes);
        Ok(Version(at.version.0 + 1))
    }

    async fn commit(&self, at: &At<'_>, blocks: &[Arc<CompactionBlock>]) -> Result<Version, StoreError> {
        let now = self.options.clock.now();
        self.change_loop("storing a block", at, async |db, row, target| {
            blocks::commit(db, row, target, blocks, now).await
        })
        .await
    }

    async fn revise(&self, at: &At<'_>, revision: &Revision<'_>) -> Result<Version, StoreError> {
        let now = self.options.clock.now();
        let mut bytes = 0;
        let revise = async |db: &Transaction<'_>, row: &SessionRow, target: &LoopRow| {
            bytes = blocks::revise(db, row, target, revision, now).await?;
            Ok(())
        };
        let version = self.change_loop("storing a block", at, revise).await?;
        self.lengthen_tail(bytes);
        Ok(version)
    }

    async fn set_stack(&self, at: &At<'_>, point: StackPoint) -> Result<Version, StoreError> {
        self.change_loop("setting blocks in force", at, async |db, row, target| {
            blocks::set_stack(db, row, target, point).await
        })
        .await
    }

    async fn head(&self, session: &SessionId, loop_id: &LoopId) -> Result<Head, StoreError> {
        self.read("reading a view", async |db| read::head(db, session, loop_id).await).await
    }

    async fn items(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        range: Range<usize>,
    ) -> Result<Vec<Arc<Item>>, StoreError> {
        self.read("reading items", async |db| {
            let opened = read::open(db, session, loop_id).await?;
            read::load(db, &opened, std::slice::from_ref(&range)).await
        })
        .await
    }

    async fn blocks(&self, session: &SessionId, loop_id: &LoopId) -> Result<Vec<StoredBlock>, StoreError> {
        self.read("reading blocks", async |db| blocks::list(db, session, loop_id).await).await
    }

    async fn locate(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        handle: &Handle,
    ) -> Result<HandleTarget, StoreError> {
        self.read("looking up a handle", async |db| find::locate(db, session, loop_id, handle).await).await
    }

    async fn append_original(&self, at: &At<'_>, offset: u64, bytes: &[u8]) -> Result<Version, StoreError> {
        // The lock on bodies comes first, as in gc: so neither can wait for the other for ever.
        let stored = async |db: &Transaction<'_>, session: &SessionRow| {
            let target = sessions::find_loop(db, session, at.loop_id).await?;
            append::append_original(db, &target, offset, bytes).await
        };
        self.change_with("storing a file", at.session, at.version, Bodies::Stored, stored).await
    }

    async fn original(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
        offset: u64,
    ) -> Result<Vec<u8>, StoreError> {
        self.read("reading a file", async |db| read::original(db, session, loop_id, offset).await).await
    }

    async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer, StoreError> {
        let searched = self.read("searching", async |db| match find::is_behind(db).await? {
            true => Ok(None),
            false => find::search(db, query).await.map(Some),
        });
        if let Some(answer) = searched.await? {
            return Ok(answer);
        }
        let left = match self.index(CATCH_UP_ITEMS).await {
            // Whoever may only read finds what others indexed.
            Err(StoreError::ReadOnly { .. }) => 1,
            left => left?,
        };
        let answer = self.read("searching", async |db| find::search(db, query).await).await?;
        Ok(SearchAnswer { is_complete: answer.is_complete && left == 0, ..answer })
    }

    async fn index(&self, items_max: usize) -> Result<usize, StoreError> {
        self.settle(items_max).await.map_err(self.at("indexing"))?;
        self.write("indexing", async |db| find::index(db, items_max).await).await
    }

    async fn enqueue(&self, job: &Job) -> Result<(), StoreError> {
        self.write("asking for a compaction", async |db| jobs::enqueue(db, job).await).await
    }

    async fn claim(&self, worker: &str, lease: Duration) -> Result<Option<Lease>, StoreError> {
        self.write("taking a job", async |db| jobs::claim(db, worker, lease).await).await
    }

    async fn renew(&self, lease: &Lease, duration: Duration) -> Result<(), StoreError> {
        self.write("keeping a job", async |db| jobs::renew(db, lease, duration).await).await
    }

    async fn finish(&self, lease: &Lease, outcome: &JobOutcome) -> Result<(), StoreError> {
        self.write("ending a job", async |db| jobs::finish(db, lease, outcome).await).await
    }

    async fn jobs(&self) -> Result<Vec<QueuedJob>, StoreError> {
        self.read("listing jobs", async |db| jobs::list(db).await).await
    }

    async fn gc(&self, retention: &Retention) -> Result<GcReport, StoreError> {
        let operation = "collecting garbage";
        let packed_count = self.settle(usize::MAX).await.map_err(self.at(operation))?;
        let mut report = self.write(operation, async |db| care::sweep(db, retention).await).await?;
        report.packed_count += packed_count;
        let last = self.read(operation, async |db| care::last_pack(db).await).await?;
        let mut after = 0;
        while after < last {
            let (moved, reached) =
                self.write(operation, async |db| care::gather(db, after, last).await).await?;
            report.packed_count += moved;
            after = reached;
        }
        Ok(report)
    }

    async fn verify(&self, repairs: Repairs) -> Result<VerifyReport, StoreError> {
        let verified = async {
            let mut connection = self.connection().await?;
            // Of one moment: items are appended meanwhile.
            let change = connection
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .start()
                .await?;
            let report = verify::verify(&change, repairs).await?;
            match repairs {
                Repairs::None => change.rollback().await?,
                Repairs::Derived => change.commit().await?,
            }
            Ok(report)
        };
        verified.await.map_err(self.at("verifying"))
    }

    async fn size(&self) -> Result<StoreSize, StoreError> {
        self.read("measuring", async |db| care::size(db).await).await
    }
}
