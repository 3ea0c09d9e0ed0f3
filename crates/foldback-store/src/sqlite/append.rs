//! Adding items, and the bytes of the file they were read from.

use std::sync::Arc;

use foldback_core::{Handle, Item, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::Version;
use rusqlite::{Connection, params};

use super::Spot;
use super::error::Fault;
use super::packs::BodyWriter;
use super::sessions::{change, find_loop};
use crate::body::{self, BodyKind, ORIGINAL_BYTES};
use crate::rows::{as_row, index};

pub(super) fn append(
    db: &mut Connection,
    at: &Spot,
    items: &[Arc<Item>],
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?;
        let mut bodies = BodyWriter::new(change, BodyKind::Item)?;
        let mut insert = change
            .prepare_cached("INSERT INTO items (loop, position, body, handle) VALUES (?1, ?2, ?3, ?4)")?;
        for (item, position) in items.iter().zip(index(target.item_count)..) {
            let body = bodies.store(&body::encode_item(item)?)?;
            let handle = Handle::of_item(position, &item.id);
            insert.execute(params![target.key, as_row(position), body, handle.as_str()])?;
        }
        bodies.close()?;
        change
            .prepare_cached("UPDATE loops SET item_count = item_count + ?2 WHERE id = ?1")?
            .execute([target.key, as_row(items.len())])?;
        Ok(())
    })?;
    Ok(version)
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
