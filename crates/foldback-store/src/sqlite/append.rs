//! Adding items, and the bytes of the file they were read from.

use std::sync::Arc;

use foldback_core::{Item, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::Version;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::Fault;
use super::packs::BodyWriter;
use super::sessions::{change, find_loop};
use super::{Spot, tail};
use crate::body::{BodyKind, ORIGINAL_BYTES};
use crate::rows::as_row;

/// Adds items to the tail. Answers how many bytes that takes.
pub(super) fn append(
    db: &mut Connection,
    at: &Spot,
    items: &[Arc<Item>],
    now: Timestamp,
) -> Result<(Version, usize), Fault> {
    change(db, &at.session, at.version, now, |change, session| {
        let sql = "UPDATE loops SET item_count = item_count + ?3 WHERE session = ?1 AND name = ?2
            RETURNING id, item_count";
        let (holder, item_count): (i64, i64) = change
            .prepare_cached(sql)?
            .query_row(params![session.key, at.loop_id.as_str(), as_row(items.len())], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?
            .ok_or_else(|| StoreError::NotFound { what: "loop", id: at.loop_id.to_string() })?;
        tail::append(change, holder, item_count - as_row(items.len()), items)
    })
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
