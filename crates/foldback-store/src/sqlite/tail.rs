//! The tail: items as they were appended, one row for each append, until they are settled.
//!
//! An append is waited for, so it writes as little as can be: the items, once. Settling gives them
//! their names, compresses them and lists them one by one; whoever needs that (the index, gc) does it
//! first, and a long tail is settled in the background.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use foldback_core::{Handle, Item, ItemId};
use foldback_engine::StoreError;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use serde::Deserialize;

use super::error::Fault;
use super::packs::BodyWriter;
use crate::body::{self, BODY_BYTES_MAX, BodyKind, PACK_BYTES, corrupt};
use crate::rows::index;

/// Bytes at which a tail is settled in the background.
pub(super) const TAIL_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes at which an append settles some of it first: what is appended faster than it is settled must
/// not grow for ever.
pub(super) const TAIL_BYTES_MAX: u64 = 4 * TAIL_BYTES;

/// How long the background leaves the file to others between two changes.
pub(super) const SETTLING_PAUSE: Duration = Duration::from_millis(2);

/// Items and bytes that are settled in one change, so that nobody waits long for it.
const SETTLED_ITEMS: usize = 200;
const SETTLED_BYTES: usize = 256 * 1024;

/// Bits of a row's number that are the position; the others are the loop.
const POSITION_BITS: u32 = 36;

/// Bytes of the length that precedes each item.
const LENGTH_BYTES: usize = 4;

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

/// Writes items behind those that a loop has. Answers how many bytes that takes.
pub(super) fn append(
    change: &Transaction<'_>,
    holder: i64,
    position: i64,
    items: &[Arc<Item>],
) -> Result<usize, Fault> {
    let mut insert =
        change.prepare_cached("INSERT INTO tail (id, count, hash, data) VALUES (?1, ?2, ?3, ?4)")?;
    let (mut start, mut count, mut written) = (position, 0, 0);
    let mut data = Vec::new();
    for (number, item) in items.iter().enumerate() {
        push(&mut data, item)?;
        count += 1;
        if data.len() >= PACK_BYTES || number + 1 == items.len() {
            insert.execute(params![row_of(holder, start)?, count, body::hash(&data), data])?;
            written += data.len();
            start += count;
            count = 0;
            data.clear();
        }
    }
    Ok(written)
}

/// Adds the length of an item and what is stored of it.
fn push(data: &mut Vec<u8>, item: &Item) -> Result<(), StoreError> {
    let before = data.len();
    data.extend_from_slice(&[0; LENGTH_BYTES]);
    body::write_item(data, item)?;
    let length = data.len() - before - LENGTH_BYTES;
    let length = u32::try_from(length).map_err(|error| body::failed("storing", &error))?;
    data[before..before + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// What is stored of each item of a row.
fn bodies(data: &[u8], count: i64) -> Result<Vec<&[u8]>, StoreError> {
    let cut_off = || corrupt("items that were appended are cut off".to_owned());
    let mut bodies = Vec::new();
    let mut rest = data;
    while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (body, behind) = behind.split_at_checked(length.min(BODY_BYTES_MAX)).ok_or_else(cut_off)?;
        bodies.push(body);
        rest = behind;
    }
    if rest.is_empty() && bodies.len() == index(count) { Ok(bodies) } else { Err(cut_off()) }
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

/// The id of an item, without the rest of it.
fn id_in(body: &[u8]) -> Result<ItemId, StoreError> {
    #[derive(Deserialize)]
    struct Named {
        id: ItemId,
    }
    let named: Named =
        serde_json::from_slice(body).map_err(|error| corrupt(format!("an item cannot be read ({error})")))?;
    Ok(named.id)
}

/// Takes the tails of a session's loops away.
pub(super) fn remove(change: &Transaction<'_>, session: i64) -> Result<(), Fault> {
    let mut loops = change.prepare_cached("SELECT id FROM loops WHERE session = ?1")?;
    let mut delete = change.prepare_cached("DELETE FROM tail WHERE id >= ?1 AND id < ?2")?;
    let mut rows = loops.query([session])?;
    while let Some(row) = rows.next()? {
        let holder: i64 = row.get(0)?;
        delete.execute([row_of(holder, 0)?, row_of(holder + 1, 0)?])?;
    }
    Ok(())
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
            0 => break,
            count => settled += count,
        }
    }
    Ok(settled)
}

/// Settles the first rows. Answers how many items were in them.
pub(super) fn settle_some(db: &mut Connection) -> Result<usize, Fault> {
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let rows = first_rows(&change)?;
    let mut settled = 0;
    {
        let mut writer = BodyWriter::new(&change, BodyKind::Item)?;
        let mut insert = change
            .prepare_cached("INSERT INTO items (loop, position, body, handle) VALUES (?1, ?2, ?3, ?4)")?;
        let mut delete = change.prepare_cached("DELETE FROM tail WHERE id = ?1")?;
        for Row { id, count, hash, data } in &rows {
            body::check(data, hash)?;
            for (position, body) in (position_of(*id)..).zip(bodies(data, *count)?) {
                let handle = Handle::of_item(index(position), &id_in(body)?);
                let number = writer.store(body)?;
                insert.execute(params![*id >> POSITION_BITS, position, number, handle.as_str()])?;
                settled += 1;
            }
            delete.execute([id])?;
        }
        writer.close()?;
    }
    change.commit()?;
    Ok(settled)
}

struct Row {
    id: i64,
    count: i64,
    hash: Vec<u8>,
    data: Vec<u8>,
}

fn first_rows(db: &Connection) -> Result<Vec<Row>, Fault> {
    let mut statement = db.prepare_cached("SELECT id, count, hash, data FROM tail ORDER BY id")?;
    let mut rows = statement.query([])?;
    let (mut first, mut items, mut bytes) = (Vec::new(), 0, 0);
    while let Some(row) = rows.next()? {
        let row = Row { id: row.get(0)?, count: row.get(1)?, hash: row.get(2)?, data: row.get(3)? };
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

    #[test]
    fn damaged_rows_are_an_error_and_never_a_panic() {
        let mut data = Vec::new();
        push(&mut data, &Item::user("u", "hello")).unwrap();
        assert_eq!(bodies(&data, 1).unwrap().len(), 1);
        assert!(bodies(&data, 2).is_err());
        for end in 1..data.len() {
            assert!(bodies(&data[..end], 1).is_err(), "{end}");
        }
    }
}
