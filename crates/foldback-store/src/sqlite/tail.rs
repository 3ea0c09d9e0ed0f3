//! The tail in the file: one row for each piece of an append.

use std::ops::Range;
use std::time::Duration;

use foldback_core::{Handle, Item, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::Version;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::Fault;
use super::packs::BodyWriter;
use crate::body::{self, BodyKind, corrupt};
use crate::rows::{as_row, index};
use crate::tail::{Piece, SETTLED_BYTES, SETTLED_ITEMS, bodies, id_in};

/// How long the background leaves the file to others between two changes.
pub(super) const SETTLING_PAUSE: Duration = Duration::from_millis(2);

/// Bits of a row's number that are the position; the others are the loop.
const POSITION_BITS: u32 = 36;

/// The number of the row that begins with this item.
fn row_of(holder: i64, position: i64) -> Result<i64, StoreError> {
    let is_possible = (0..1 << (i64::BITS - 1 - POSITION_BITS)).contains(&holder)
        && (0..=1 << POSITION_BITS).contains(&position);
    match is_possible {
        true => Ok((holder << POSITION_BITS) + position),
        false => {
            let why = format!("item {position} of loop {holder} is beyond what a store can number");
            Err(StoreError::Failed { operation: "appending", why })
        }
    }
}

fn position_of(row: i64) -> i64 {
    row & ((1 << POSITION_BITS) - 1)
}

/// What an append makes of its session.
#[derive(Debug)]
pub(super) struct Stamp {
    pub(super) version: Version,
    pub(super) at: Timestamp,
}

/// Writes items behind those that a loop has. Answers how many bytes that takes.
pub(super) fn append(
    change: &Transaction<'_>,
    (holder, position): (i64, i64),
    pieces: &[Piece],
    stamp: &Stamp,
) -> Result<usize, Fault> {
    let mut insert = change.prepare_cached(
        "INSERT INTO tail (id, count, hash, data, version, appended_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let (version, at) = (as_row(stamp.version.0 as usize), stamp.at.0);
    let mut written = 0;
    for Piece { start, count, hash, data } in pieces {
        insert.execute(params![row_of(holder, position + start)?, count, hash, data, version, at])?;
        written += data.len();
    }
    let count: i64 = pieces.iter().map(|piece| piece.count).sum();
    change
        .prepare_cached(
            "INSERT INTO tail_ends (loop, item_count, version, appended_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (loop) DO UPDATE SET item_count = excluded.item_count, version = excluded.version,
               appended_at = max(appended_at, excluded.appended_at)",
        )?
        .execute(params![holder, position + count, version, at])?;
    Ok(written)
}

/// Gives what is stored of the items in a range to `take`, in order and checked, up to the first that is
/// not there. Answers where that is.
pub(super) fn each(
    db: &Connection,
    holder: i64,
    range: Range<i64>,
    mut take: impl FnMut(i64, &[u8]) -> Result<(), Fault>,
) -> Result<i64, Fault> {
    let mut statement = db.prepare_cached(
        "SELECT id, count, hash, data FROM tail WHERE id < ?2 AND id >=
           coalesce((SELECT max(id) FROM tail WHERE id BETWEEN ?3 AND ?1), ?1) ORDER BY id",
    )?;
    let bounds = [row_of(holder, range.start)?, row_of(holder, range.end)?, row_of(holder, 0)?];
    let mut rows = statement.query(bounds)?;
    let mut expected = range.start;
    while let Some(row) = rows.next()? {
        let (start, count) = (position_of(row.get(0)?), row.get::<_, i64>(1)?);
        if start > expected {
            break;
        }
        let data = row.get_ref(3)?.as_blob().map_err(|_| corrupt("the tail holds no bytes".to_owned()))?;
        body::check(data, &row.get::<_, Vec<u8>>(2)?)?;
        for (position, body) in (start..).zip(bodies(data, count)?) {
            if (expected..range.end).contains(&position) {
                take(position, body)?;
            }
        }
        expected = expected.max((start + count).min(range.end));
    }
    Ok(expected)
}

/// The item in a body of the tail.
pub(super) fn decode(body: &[u8]) -> Result<Item, StoreError> {
    body::parse_item(body)
}

/// The position of the item with this handle.
pub(super) fn locate(
    db: &Connection,
    holder: i64,
    range: &Range<i64>,
    handle: &Handle,
) -> Result<Option<i64>, Fault> {
    let sql = "SELECT min(id) FROM tail WHERE id >= ?1 AND id < ?2";
    let bounds = [row_of(holder, 0)?, row_of(holder, range.end)?];
    let first: Option<i64> = db.prepare_cached(sql)?.query_row(bounds, |row| row.get(0))?;
    let Some(first) = first else { return Ok(None) };
    let mut found = None;
    each(db, holder, position_of(first).max(range.start)..range.end, |position, body| {
        if found.is_none() && Handle::of_item(index(position), &id_in(body)?) == *handle {
            found = Some(position);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Says that all in the tails of a session's loops was appended at this time.
pub(super) fn date(change: &Transaction<'_>, session: i64, at: Timestamp) -> Result<(), Fault> {
    let mut loops = change.prepare_cached("SELECT id FROM loops WHERE session = ?1")?;
    let mut rows = change.prepare_cached("UPDATE tail SET appended_at = ?3 WHERE id >= ?1 AND id < ?2")?;
    let mut end = change.prepare_cached("UPDATE tail_ends SET appended_at = ?2 WHERE loop = ?1")?;
    let mut found = loops.query([session])?;
    while let Some(row) = found.next()? {
        let holder: i64 = row.get(0)?;
        rows.execute([row_of(holder, 0)?, row_of(holder + 1, 0)?, at.0])?;
        end.execute([holder, at.0])?;
    }
    Ok(())
}

/// Takes the tails of a session's loops away.
pub(super) fn remove(change: &Transaction<'_>, session: i64) -> Result<(), Fault> {
    let mut loops = change.prepare_cached("SELECT id FROM loops WHERE session = ?1")?;
    let mut delete = change.prepare_cached("DELETE FROM tail WHERE id >= ?1 AND id < ?2")?;
    // The number of a loop may be given to another: nothing of this one may be left.
    let mut delete_end = change.prepare_cached("DELETE FROM tail_ends WHERE loop = ?1")?;
    let mut rows = loops.query([session])?;
    while let Some(row) = rows.next()? {
        let holder: i64 = row.get(0)?;
        delete.execute([row_of(holder, 0)?, row_of(holder + 1, 0)?])?;
        delete_end.execute([holder])?;
    }
    Ok(())
}

/// Whether a loop has a row behind this item.
pub(super) fn goes_on(db: &Connection, holder: i64, position: i64) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM tail WHERE id >= ?1 AND id < ?2)";
    let bounds = [row_of(holder, position)?, row_of(holder + 1, 0)?];
    Ok(db.query_row(sql, bounds, |row| row.get(0))?)
}

/// How many items are not settled.
pub(super) fn item_count(db: &Connection) -> Result<usize, Fault> {
    let sql = "SELECT coalesce(sum(count), 0) FROM tail";
    Ok(index(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?))
}

/// How many bytes are not settled.
pub(super) fn bytes(db: &Connection) -> Result<u64, Fault> {
    let sql = "SELECT coalesce(sum(length(data)), 0) FROM tail";
    Ok(db.query_row(sql, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

/// Settles at least so many items, as far as there are any, in several changes. Answers how many.
pub(super) fn settle(db: &mut Connection, items_min: usize) -> Result<usize, Fault> {
    let mut settled = 0;
    while settled < items_min {
        match settle_some(db)? {
            (0, _) => break,
            (count, _) => settled += count,
        }
    }
    Ok(settled)
}

/// Settles the first rows. Answers how many items were in them, and how many bytes the rows had.
pub(super) fn settle_some(db: &mut Connection) -> Result<(usize, u64), Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows = first_rows(&change)?;
    let mut settled = 0;
    {
        let mut writer = BodyWriter::new(&change, BodyKind::Item)?;
        let mut insert = change
            .prepare_cached("INSERT INTO items (loop, position, body, handle) VALUES (?1, ?2, ?3, ?4)")?;
        let mut delete = change.prepare_cached("DELETE FROM tail WHERE id = ?1")?;
        // What follows from them for the loop and the session; the last one of each loop knows.
        let mut lengthen = change.prepare_cached(
            "UPDATE loops SET item_count = max(item_count, ?2) WHERE id = ?1 RETURNING session",
        )?;
        let mut change_session = change.prepare_cached(
            "UPDATE sessions SET version = max(version, ?2), updated_at = max(updated_at, ?3) WHERE id = ?1",
        )?;
        for (number, Row { id, count, hash, data, version, appended_at }) in rows.iter().enumerate() {
            body::check(data, hash)?;
            let holder = *id >> POSITION_BITS;
            let is_last = rows.get(number + 1).is_none_or(|next| next.id >> POSITION_BITS != holder);
            if is_last {
                let end = position_of(*id) + count;
                let session: Option<i64> = lengthen.query_row([holder, end], |row| row.get(0)).optional()?;
                if let Some(session) = session {
                    change_session.execute([session, *version, *appended_at])?;
                }
            }
            for (position, body) in (position_of(*id)..).zip(bodies(data, *count)?) {
                let handle = Handle::of_item(index(position), &id_in(body)?);
                let number = writer.store(body)?;
                insert.execute(params![holder, position, number, handle.as_str()])?;
                settled += 1;
            }
            delete.execute([id])?;
        }
        writer.close()?;
    }
    change.commit()?;
    Ok((settled, rows.iter().map(|row| row.data.len() as u64).sum()))
}

struct Row {
    id: i64,
    count: i64,
    hash: Vec<u8>,
    data: Vec<u8>,
    version: i64,
    appended_at: i64,
}

fn first_rows(db: &Connection) -> Result<Vec<Row>, Fault> {
    let mut statement =
        db.prepare_cached("SELECT id, count, hash, data, version, appended_at FROM tail ORDER BY id")?;
    let mut rows = statement.query([])?;
    let (mut first, mut items, mut bytes) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next()? {
        let row = Row {
            id: row.get(0)?,
            count: row.get(1)?,
            hash: row.get(2)?,
            data: row.get(3)?,
            version: row.get(4)?,
            appended_at: row.get(5)?,
        };
        items += index(row.count);
        bytes += row.data.len();
        first.push(row);
        if items >= SETTLED_ITEMS || bytes >= SETTLED_BYTES {
            break;
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_loops_and_positions() {
        let last = (1 << POSITION_BITS) - 1;
        assert!(row_of(1, last).unwrap() < row_of(2, 0).unwrap());
        assert_eq!(position_of(row_of(7, 123).unwrap()), 123);
        assert!(row_of(1 << 27, 0).is_err() && row_of(1, -1).is_err());
    }
}
