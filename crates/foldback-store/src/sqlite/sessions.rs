//! Sessions and their loops.

use std::collections::HashMap;

use foldback_core::{LoopId, Metadata, SessionId, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::{
    LoopInfo, NewLoop, NewSession, Origin, Page, SessionInfo, SessionTimes, Version,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::error::Fault;
use super::{Spot, tail};
use crate::rows::{
    Blocks, Lineage, LoopRow, Loops, SessionRow, as_row, read_metadata, version, write_metadata,
};

const LOOP_COLUMNS: &str =
    "id, name, origin, parent, shared, item_count, top, tip, original_bytes, created_at, metadata";

/// One change of a session: at the version that the writer has seen, all of it or nothing.
pub(super) fn change<T>(
    db: &mut Connection,
    session: &SessionId,
    seen: Version,
    now: Timestamp,
    work: impl FnOnce(&Transaction<'_>, &SessionRow) -> Result<T, Fault>,
) -> Result<(Version, T), Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let row = find(&change, session)?;
    if row.version != seen {
        let actual = row.version;
        return Err(StoreError::Conflict { session: session.clone(), expected: seen, actual }.into());
    }
    let answer = work(&change, &row)?;
    let next = Version(row.version.0 + 1);
    change
        .prepare_cached("UPDATE sessions SET version = ?3, updated_at = max(updated_at, ?2) WHERE id = ?1")?
        .execute(params![row.key, now.0, as_row(next.0 as usize)])?;
    change.commit()?;
    Ok((next, answer))
}

/// A session by its name.
pub(super) fn find(db: &Connection, session: &SessionId) -> Result<SessionRow, Fault> {
    let row = db
        .prepare_cached("SELECT id, version FROM live_sessions WHERE name = ?1")?
        .query_row([session.as_str()], |row| {
            Ok(SessionRow { key: row.get(0)?, version: version(row.get(1)?) })
        })
        .optional()?;
    row.ok_or_else(|| StoreError::NotFound { what: "session", id: session.to_string() }.into())
}

/// A loop by its name.
pub(super) fn find_loop(db: &Connection, session: &SessionRow, loop_id: &LoopId) -> Result<LoopRow, Fault> {
    let row = db
        .prepare_cached(&format!("SELECT {LOOP_COLUMNS} FROM live_loops WHERE session = ?1 AND name = ?2"))?
        .query_row(params![session.key, loop_id.as_str()], loop_row)
        .optional()?;
    row.ok_or_else(|| StoreError::NotFound { what: "loop", id: loop_id.to_string() }.into())
}

/// All loops of a session.
pub(super) fn all_loops(db: &Connection, session: &SessionRow) -> Result<Loops, Fault> {
    let mut statement =
        db.prepare_cached(&format!("SELECT {LOOP_COLUMNS} FROM live_loops WHERE session = ?1"))?;
    let rows = statement.query_map([session.key], loop_row)?;
    let rows = rows.map(|row| row.map(|row| (row.key, row)));
    Ok(rows.collect::<Result<HashMap<_, _>, _>>()?)
}

fn loop_row(row: &Row<'_>) -> rusqlite::Result<LoopRow> {
    Ok(LoopRow {
        key: row.get(0)?,
        name: row.get(1)?,
        origin: row.get(2)?,
        parent: row.get(3)?,
        shared: row.get(4)?,
        item_count: row.get(5)?,
        top: row.get(6)?,
        tip: row.get(7)?,
        original_bytes: row.get(8)?,
        created_at: row.get(9)?,
        metadata: row.get(10)?,
    })
}

/// How the blocks of a session stand on each other.
pub(super) fn all_blocks(db: &Connection, session: &SessionRow) -> Result<Blocks, Fault> {
    let sql = "SELECT number, parent, is_joined, reach FROM blocks WHERE session = ?1";
    let mut statement = db.prepare_cached(sql)?;
    let rows =
        statement.query_map([session.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    Ok(Blocks::of(rows.collect::<Result<Vec<_>, _>>()?))
}

pub(super) fn create(db: &mut Connection, session: &NewSession, now: Timestamp) -> Result<Version, Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let inserted = change.execute(
        "INSERT INTO sessions (name, version, block_count, created_at, updated_at, metadata)
         VALUES (?1, 1, 0, ?2, ?2, ?3) ON CONFLICT (name) DO NOTHING",
        params![session.id.as_str(), now.0, write_metadata(&session.metadata)],
    )?;
    if inserted == 0 {
        return Err(StoreError::Exists { what: "session", id: session.id.to_string() }.into());
    }
    let key = change.last_insert_rowid();
    let loop_key = insert_loop(&change, key, &session.first_loop, &Lineage::root(), &Metadata::new(), now)?;
    change.execute("UPDATE sessions SET current_loop = ?2 WHERE id = ?1", [key, loop_key])?;
    change.commit()?;
    Ok(Version(1))
}

fn insert_loop(
    change: &Transaction<'_>,
    session: i64,
    id: &LoopId,
    lineage: &Lineage,
    metadata: &Metadata,
    now: Timestamp,
) -> Result<i64, Fault> {
    let inserted = change.execute(
        "INSERT INTO loops (session, name, origin, parent, shared, item_count, top, tip, original_bytes,
         created_at, metadata) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?6, 0, ?7, ?8)
         ON CONFLICT (session, name) DO NOTHING",
        params![
            session,
            id.as_str(),
            lineage.origin,
            lineage.parent,
            lineage.shared,
            lineage.top,
            now.0,
            write_metadata(metadata)
        ],
    )?;
    if inserted == 0 {
        return Err(StoreError::Exists { what: "loop", id: id.to_string() }.into());
    }
    Ok(change.last_insert_rowid())
}

pub(super) fn begin_loop(
    db: &mut Connection,
    session: &SessionId,
    version: Version,
    begun: &NewLoop,
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, session, version, now, |change, row| {
        let lineage = match &begun.origin {
            Origin::Root => Lineage::root(),
            Origin::After(parent) => Lineage::after(&find_loop(change, row, parent)?),
            Origin::Branch { parent, item_count } => {
                let parent = find_loop(change, row, parent)?;
                Lineage::branch(&parent, *item_count, &all_blocks(change, row)?)?
            }
        };
        let key = insert_loop(change, row.key, &begun.id, &lineage, &begun.metadata, now)?;
        change.execute("UPDATE sessions SET current_loop = ?2 WHERE id = ?1", [row.key, key])?;
        Ok(())
    })?;
    Ok(version)
}

pub(super) fn switch_loop(db: &mut Connection, at: &Spot, now: Timestamp) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, row| {
        let target = find_loop(change, row, &at.loop_id)?;
        change.execute("UPDATE sessions SET current_loop = ?2 WHERE id = ?1", [row.key, target.key])?;
        Ok(())
    })?;
    Ok(version)
}

pub(super) fn annotate(
    db: &mut Connection,
    session: &SessionId,
    version: Version,
    metadata: &Metadata,
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, session, version, now, |change, row| {
        let text = write_metadata(metadata);
        change.execute("UPDATE sessions SET metadata = ?2 WHERE id = ?1", params![row.key, text])?;
        Ok(())
    })?;
    Ok(version)
}

pub(super) fn annotate_loop(
    db: &mut Connection,
    at: &Spot,
    metadata: &Metadata,
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, row| {
        let target = find_loop(change, row, &at.loop_id)?;
        let text = write_metadata(metadata);
        change.execute("UPDATE loops SET metadata = ?2 WHERE id = ?1", params![target.key, text])?;
        Ok(())
    })?;
    Ok(version)
}

/// Replaces the times of a session, also those that its tail would bring to it.
pub(super) fn date(
    db: &mut Connection,
    session: &SessionId,
    version: Version,
    times: &SessionTimes,
) -> Result<Version, Fault> {
    let SessionTimes { created_at, updated_at, loops } = times;
    // No time is later than one that is replaced below.
    let (version, ()) = change(db, session, version, Timestamp(i64::MIN), |change, row| {
        let sql = "UPDATE sessions SET created_at = ?2, updated_at = ?3 WHERE id = ?1";
        change.execute(sql, [row.key, created_at.0, updated_at.0])?;
        let sql = "UPDATE loops SET created_at = ?3 WHERE session = ?1 AND name = ?2";
        let mut date_loop = change.prepare_cached(sql)?;
        for (loop_id, created_at) in loops {
            if date_loop.execute(params![row.key, loop_id.as_str(), created_at.0])? == 0 {
                return Err(StoreError::NotFound { what: "loop", id: loop_id.to_string() }.into());
            }
        }
        tail::date(change, row.key, *updated_at)
    })?;
    Ok(version)
}

const INFO: &str = "SELECT s.name, s.version, l.name, s.created_at, s.updated_at, s.metadata, s.block_count
    FROM live_sessions s JOIN loops l ON l.id = s.current_loop";

type InfoRow = (String, i64, String, i64, i64, String, i64);

fn info_row(row: &Row<'_>) -> rusqlite::Result<InfoRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
}

fn as_info(
    (id, changes, current_loop, created_at, updated_at, metadata, block_count): InfoRow,
) -> Result<SessionInfo, Fault> {
    Ok(SessionInfo {
        id: id.into(),
        version: version(changes),
        block_count: block_count.unsigned_abs(),
        current_loop: current_loop.into(),
        created_at: Timestamp(created_at),
        updated_at: Timestamp(updated_at),
        metadata: read_metadata(&metadata)?,
    })
}

pub(super) fn info(db: &Connection, session: &SessionId) -> Result<SessionInfo, Fault> {
    let row = db
        .prepare_cached(&format!("{INFO} WHERE s.name = ?1"))?
        .query_row([session.as_str()], info_row)
        .optional()?;
    let missing = || StoreError::NotFound { what: "session", id: session.to_string() };
    as_info(row.ok_or_else(missing)?)
}

pub(super) fn list(db: &Connection, page: Page) -> Result<Vec<SessionInfo>, Fault> {
    let mut statement =
        db.prepare_cached(&format!("{INFO} ORDER BY s.updated_at DESC, s.id DESC LIMIT ?1 OFFSET ?2"))?;
    let rows = statement.query_map([as_row(page.limit), as_row(page.skip)], info_row)?;
    rows.map(|row| as_info(row?)).collect()
}

pub(super) fn loops(db: &mut Connection, session: &SessionId) -> Result<Vec<LoopInfo>, Fault> {
    let read = db.transaction()?;
    let loops = all_loops(&read, &find(&read, session)?)?;
    let mut rows: Vec<&LoopRow> = loops.values().collect();
    rows.sort_by_key(|row| row.key);
    rows.into_iter().map(|row| Ok(row.info(&loops)?)).collect()
}

pub(super) fn delete(db: &mut Connection, session: &SessionId) -> Result<(), Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let row = find(&change, session)?;
    remove(&change, row.key)?;
    change.commit()?;
    Ok(())
}

/// Takes a session's rows away; bodies that nothing refers to any more go with the next gc.
pub(super) fn remove(change: &Transaction<'_>, session: i64) -> Result<(), Fault> {
    for table in ["items", "originals"] {
        let sql = format!("DELETE FROM {table} WHERE loop IN (SELECT id FROM loops WHERE session = ?1)");
        change.execute(&sql, [session])?;
    }
    tail::remove(change, session)?;
    change.execute("DELETE FROM sessions WHERE id = ?1", [session])?;
    Ok(())
}
