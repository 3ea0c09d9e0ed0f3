//! Adding items, and the bytes of the file they were read from.

use std::sync::Arc;

use foldback_core::{Item, LoopId, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::Version;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::Fault;
use super::packs::BodyWriter;
use super::sessions::{change, find, find_loop};
use super::tail::Stamp;
use super::{Spot, tail};
use crate::body::{BodyKind, ORIGINAL_BYTES};
use crate::rows::{SessionRow, as_row};
use crate::tail::pieces;

/// Adds items to the tail and says where it ends now: what follows from it for the session and the loop is
/// read from there until it is settled. Answers how many bytes that takes.
pub(super) fn append(
    db: &mut Connection,
    at: &Spot,
    items: &[Arc<Item>],
    now: Timestamp,
) -> Result<(Version, usize), Fault> {
    if items.is_empty() {
        let find = |change: &Transaction<'_>, session: &SessionRow| find_loop(change, session, &at.loop_id);
        return Ok((self::change(db, &at.session, at.version, now, find)?.0, 0));
    }
    let pieces = pieces(items)?;
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let session = find(&change, &at.session)?;
    let actual = session.version;
    if actual != at.version {
        let (session, expected) = (at.session.clone(), at.version);
        return Err(StoreError::Conflict { session, expected, actual }.into());
    }
    let place = place(&change, &session, &at.loop_id)?;
    let next = Version(actual.0 + 1);
    let bytes = tail::append(&change, place, &pieces, &Stamp { version: next, at: now })?;
    change.commit()?;
    Ok((next, bytes))
}

/// A loop, and how many items it has.
fn place(db: &Connection, session: &SessionRow, loop_id: &LoopId) -> Result<(i64, i64), Fault> {
    let sql = "SELECT id, item_count FROM live_loops WHERE session = ?1 AND name = ?2";
    let place = db
        .prepare_cached(sql)?
        .query_row(params![session.key, loop_id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    place.ok_or_else(|| StoreError::NotFound { what: "loop", id: loop_id.to_string() }.into())
}

pub(super) fn append_original(
    db: &mut Connection,
    at: &Spot,
    offset: u64,
    bytes: &[u8],
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?;
        let there = target.original_bytes.unsigned_abs();
        if there != offset {
            let (index, count) = (offset as usize, there as usize);
            return Err(StoreError::OutOfRange { what: "byte", index, count }.into());
        }
        let mut bodies = BodyWriter::new(change, BodyKind::Original)?;
        let mut insert = change
            .prepare_cached("INSERT INTO originals (loop, start, length, body) VALUES (?1, ?2, ?3, ?4)")?;
        let mut start = target.original_bytes;
        for piece in bytes.chunks(ORIGINAL_BYTES) {
            let body = bodies.store(piece)?;
            insert.execute(params![target.key, start, as_row(piece.len()), body])?;
            start += as_row(piece.len());
        }
        bodies.close()?;
        change.execute("UPDATE loops SET original_bytes = ?2 WHERE id = ?1", [target.key, start])?;
        Ok(())
    })?;
    Ok(version)
}
