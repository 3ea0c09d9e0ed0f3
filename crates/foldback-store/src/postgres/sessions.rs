//! Sessions and their loops.

use deadpool_postgres::Transaction;
use foldback_core::{LoopId, Metadata, SessionId, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::{NewLoop, NewSession, Origin, Page, SessionInfo, SessionTimes, Version};
use tokio_postgres::Row;

use super::error::Fault;
use super::{query, query_opt};
use crate::rows::{
    Blocks, Lineage, LoopRow, Loops, SessionRow, as_row, read_metadata, version, write_metadata,
};

const LOOP_COLUMNS: &str =
    "id, name, origin, parent, shared, item_count, top, tip, original_bytes, created_at, metadata";

/// A session by its name.
pub(super) async fn find(db: &Transaction<'_>, session: &SessionId) -> Result<SessionRow, Fault> {
    found(
        query_opt(db, "SELECT id, version FROM sessions WHERE name = $1", &[&session.as_str()]).await?,
        session,
    )
}

/// A session by its name, which nobody else may change until this transaction ends.
pub(super) async fn lock(db: &Transaction<'_>, session: &SessionId) -> Result<SessionRow, Fault> {
    let sql = "SELECT id, version FROM sessions WHERE name = $1 FOR UPDATE";
    found(query_opt(db, sql, &[&session.as_str()]).await?, session)
}

fn found(row: Option<Row>, session: &SessionId) -> Result<SessionRow, Fault> {
    let missing = || StoreError::NotFound { what: "session", id: session.to_string() };
    let row = row.ok_or_else(missing)?;
    Ok(SessionRow { key: row.get(0), version: version(row.get(1)) })
}

/// A loop by its name.
pub(super) async fn find_loop(
    db: &Transaction<'_>,
    session: &SessionRow,
    loop_id: &LoopId,
) -> Result<LoopRow, Fault> {
    let sql = format!("SELECT {LOOP_COLUMNS} FROM loops WHERE session = $1 AND name = $2");
    let row = query_opt(db, &sql, &[&session.key, &loop_id.as_str()]).await?;
    let missing = || StoreError::NotFound { what: "loop", id: loop_id.to_string() };
    Ok(loop_row(&row.ok_or_else(missing)?))
}

/// All loops of a session.
pub(super) async fn all_loops(db: &Transaction<'_>, session: &SessionRow) -> Result<Loops, Fault> {
    let sql = format!("SELECT {LOOP_COLUMNS} FROM loops WHERE session = $1");
    let rows = query(db, &sql, &[&session.key]).await?;
    Ok(rows.iter().map(loop_row).map(|row| (row.key, row)).collect())
}

fn loop_row(row: &Row) -> LoopRow {
    LoopRow {
        key: row.get(0),
        name: row.get(1),
        origin: row.get(2),
        parent: row.get(3),
        shared: row.get(4),
        item_count: row.get(5),
        top: row.get(6),
        tip: row.get(7),
        original_bytes: row.get(8),
        created_at: row.get(9),
        metadata: row.get(10),
    }
}

/// How the blocks of a session stand on each other.
pub(super) async fn all_blocks(db: &Transaction<'_>, session: &SessionRow) -> Result<Blocks, Fault> {
    let sql = "SELECT number, parent, is_joined, reach FROM blocks WHERE session = $1";
    let rows = query(db, sql, &[&session.key]).await?;
    Ok(Blocks::of(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))))
}

pub(super) async fn create(
    db: &Transaction<'_>,
    session: &NewSession,
    now: Timestamp,
) -> Result<Version, Fault> {
    let sql = "INSERT INTO sessions (name, version, block_count, created_at, updated_at, metadata)
        VALUES ($1, 1, 0, $2, $2, $3) ON CONFLICT (name) DO NOTHING RETURNING id";
    let metadata = write_metadata(&session.metadata);
    let row = query_opt(db, sql, &[&session.id.as_str(), &now.0, &metadata]).await?;
    let exists = || StoreError::Exists { what: "session", id: session.id.to_string() };
    let key: i64 = row.ok_or_else(exists)?.get(0);
    insert_loop(db, key, &session.first_loop, &Lineage::root(), &Metadata::new(), now).await?;
    Ok(Version(1))
}

/// Adds a loop and makes it the current one.
async fn insert_loop(
    db: &Transaction<'_>,
    session: i64,
    id: &LoopId,
    lineage: &Lineage,
    metadata: &Metadata,
    now: Timestamp,
) -> Result<(), Fault> {
    let sql =
        "INSERT INTO loops (session, name, origin, parent, shared, item_count, top, tip, original_bytes,
        created_at, metadata) VALUES ($1, $2, $3, $4, $5, $5, $6, $6, 0, $7, $8)
        ON CONFLICT (session, name) DO NOTHING RETURNING id";
    let Lineage { origin, parent, shared, top } = lineage;
    let metadata = write_metadata(metadata);
    let row =
        query_opt(db, sql, &[&session, &id.as_str(), origin, parent, shared, top, &now.0, &metadata]).await?;
    let exists = || StoreError::Exists { what: "loop", id: id.to_string() };
    let key: i64 = row.ok_or_else(exists)?.get(0);
    query(db, "UPDATE sessions SET current_loop = $2 WHERE id = $1", &[&session, &key]).await?;
    Ok(())
}

pub(super) async fn begin_loop(
    db: &Transaction<'_>,
    session: &SessionRow,
    begun: &NewLoop,
    now: Timestamp,
) -> Result<(), Fault> {
    let lineage = match &begun.origin {
        Origin::Root => Lineage::root(),
        Origin::After(parent) => Lineage::after(&find_loop(db, session, parent).await?),
        Origin::Branch { parent, item_count } => {
            let parent = find_loop(db, session, parent).await?;
            Lineage::branch(&parent, *item_count, &all_blocks(db, session).await?)?
        }
    };
    insert_loop(db, session.key, &begun.id, &lineage, &begun.metadata, now).await
}

/// Replaces the times of a session.
pub(super) async fn date(
    db: &Transaction<'_>,
    session: &SessionRow,
    times: &SessionTimes,
) -> Result<(), Fault> {
    let SessionTimes { created_at, updated_at, loops } = times;
    let sql = "UPDATE sessions SET created_at = $2, updated_at = $3 WHERE id = $1";
    query(db, sql, &[&session.key, &created_at.0, &updated_at.0]).await?;
    let sql = "UPDATE loops SET created_at = $3 WHERE session = $1 AND name = $2 RETURNING id";
    for (loop_id, created_at) in loops {
        let missing = || StoreError::NotFound { what: "loop", id: loop_id.to_string() };
        let dated = query_opt(db, sql, &[&session.key, &loop_id.as_str(), &created_at.0]).await?;
        dated.ok_or_else(missing)?;
    }
    Ok(())
}

const INFO: &str = "SELECT s.name, s.version, l.name, s.created_at, s.updated_at, s.metadata, s.block_count
    FROM sessions s JOIN loops l ON l.id = s.current_loop";

fn info_of(row: &Row) -> Result<SessionInfo, Fault> {
    Ok(SessionInfo {
        id: row.get::<_, String>(0).into(),
        version: version(row.get(1)),
        block_count: row.get::<_, i64>(6).unsigned_abs(),
        current_loop: row.get::<_, String>(2).into(),
        created_at: Timestamp(row.get(3)),
        updated_at: Timestamp(row.get(4)),
        metadata: read_metadata(row.get(5))?,
    })
}

pub(super) async fn info(db: &Transaction<'_>, session: &SessionId) -> Result<SessionInfo, Fault> {
    let row = query_opt(db, &format!("{INFO} WHERE s.name = $1"), &[&session.as_str()]).await?;
    let missing = || StoreError::NotFound { what: "session", id: session.to_string() };
    info_of(&row.ok_or_else(missing)?)
}

pub(super) async fn list(db: &Transaction<'_>, page: Page) -> Result<Vec<SessionInfo>, Fault> {
    let sql = format!("{INFO} ORDER BY s.updated_at DESC, s.id DESC LIMIT $1 OFFSET $2");
    let rows = query(db, &sql, &[&as_row(page.limit), &as_row(page.skip)]).await?;
    rows.iter().map(info_of).collect()
}

/// Takes a session's rows away; bodies that nothing refers to any more go with the next gc.
pub(super) async fn remove(db: &Transaction<'_>, session: i64) -> Result<(), Fault> {
    // The tail first: whoever settles it right now is waited for, and what it made is seen afterwards.
    for table in ["tail", "items", "originals"] {
        let sql = format!("DELETE FROM {table} WHERE loop IN (SELECT id FROM loops WHERE session = $1)");
        query(db, &sql, &[&session]).await?;
    }
    query(db, "DELETE FROM sessions WHERE id = $1", &[&session]).await?;
    Ok(())
}
