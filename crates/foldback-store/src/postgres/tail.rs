//! The tail on the server: appended with one statement, settled by one writer at a time.
//!
//! Whoever settles holds the lock on bodies together with other writers, then that on the tail alone. So
//! the items of a loop are settled in order, and what is not settled is always its end.

use std::ops::Range;
use std::sync::Arc;

use deadpool_postgres::{Object, Transaction};
use foldback_core::{Handle, Item, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::At;

use super::append::{SHARE_BODIES, store};
use super::error::Fault;
use super::{BODY_LOCK, Parameters, query, query_opt};
use crate::body::{self, BodyKind};
use crate::rows::{LoopRow, as_row, index, version};
use crate::tail::{Piece, SETTLED_BYTES, SETTLED_ITEMS, bodies, id_in, pieces};

/// Names the lock that whoever settles holds alone: "tail".
const TAIL_LOCK: i64 = 0x7461_696c;

/// Bytes that go to the server in one message, unless a single row has more.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Rows that come from the server in one message, to be read and to be settled.
const BATCH_ROWS: i64 = 64;
const SETTLED_ROWS: i64 = 16;

/// Changes the session at the version that the writer has seen, lengthens the loop and adds the rows: all
/// of it or nothing, in one exchange.
const APPEND: &str = "WITH changed AS (
      UPDATE sessions SET version = version + 1, updated_at = greatest(updated_at, $4)
      WHERE name = $1 AND version = $3
        AND EXISTS (SELECT 1 FROM loops WHERE loops.session = sessions.id AND loops.name = $2)
      RETURNING id),
    grown AS (
      UPDATE loops SET item_count = item_count + $5 FROM changed
      WHERE loops.session = changed.id AND loops.name = $2
      RETURNING loops.id, loops.item_count - $5 AS position),
    added AS (
      INSERT INTO tail (loop, position, count, hash, data)
      SELECT grown.id, grown.position + u.start, u.count, u.hash, u.data
      FROM grown, unnest($6::BIGINT[], $7::BIGINT[], $8::BYTEA[], $9::BYTEA[]) u (start, count, hash, data))
    SELECT id, position FROM grown";

/// Adds the rows of a long append that the first statement had no room for.
const APPEND_MORE: &str = "INSERT INTO tail (loop, position, count, hash, data)
    SELECT $1::BIGINT, $2::BIGINT + u.start, u.count, u.hash, u.data
    FROM unnest($3::BIGINT[], $4::BIGINT[], $5::BYTEA[], $6::BYTEA[]) u (start, count, hash, data)";

/// The columns of some rows.
#[derive(Default)]
struct Columns {
    starts: Vec<i64>,
    counts: Vec<i64>,
    hashes: Vec<Vec<u8>>,
    data: Vec<Vec<u8>>,
}

/// Rows on their way to the server, in messages that it takes; the first may be empty. Answers how many
/// bytes they have.
fn messages(items: &[Arc<Item>]) -> Result<(Vec<Columns>, u64), StoreError> {
    let mut messages = vec![Columns::default()];
    let (mut bytes, mut total) = (0, 0);
    for Piece { start, count, hash, data } in pieces(items)? {
        let data = body::seal(&data)?;
        total += data.len() as u64;
        if bytes > 0 && bytes + data.len() > MESSAGE_BYTES_MAX {
            messages.push(Columns::default());
            bytes = 0;
        }
        bytes += data.len();
        let columns = messages.last_mut().expect("there is a first one");
        columns.starts.push(start);
        columns.counts.push(count);
        columns.hashes.push(hash.to_vec());
        columns.data.push(data);
    }
    Ok((messages, total))
}

/// Adds items at the version that the writer has seen. Answers how many bytes that takes.
pub(super) async fn append(
    connection: &mut Object,
    at: &At<'_>,
    items: &[Arc<Item>],
    now: Timestamp,
) -> Result<u64, Fault> {
    let (messages, bytes) = messages(items)?;
    let (first, more) = messages.split_first().expect("there is a first one");
    let (count, seen) = (as_row(items.len()), as_row(at.version.0 as usize));
    let Columns { starts, counts, hashes, data } = first;
    let (session, loop_id) = (at.session.as_str(), at.loop_id.as_str());
    let parameters: &Parameters<'_> =
        &[&session, &loop_id, &seen, &now.0, &count, starts, counts, hashes, data];
    let is_appended = if more.is_empty() {
        let statement = connection.prepare_cached(APPEND).await?;
        connection.query_opt(&statement, parameters).await?.is_some()
    } else {
        let change = connection.transaction().await?;
        let grown = query_opt(&change, APPEND, parameters).await?;
        if let Some(row) = &grown {
            let (holder, position): (i64, i64) = (row.get(0), row.get(1));
            for Columns { starts, counts, hashes, data } in more {
                query(&change, APPEND_MORE, &[&holder, &position, starts, counts, hashes, data]).await?;
            }
        }
        change.commit().await?;
        grown.is_some()
    };
    if is_appended { Ok(bytes) } else { Err(refused(connection, at).await) }
}

/// Adds items to a loop in a change of its session. Answers how many bytes that takes.
pub(super) async fn add(db: &Transaction<'_>, target: &LoopRow, items: &[Arc<Item>]) -> Result<u64, Fault> {
    if items.is_empty() {
        return Ok(0);
    }
    let (messages, bytes) = messages(items)?;
    let sql = "UPDATE loops SET item_count = item_count + $2 WHERE id = $1";
    query(db, sql, &[&target.key, &as_row(items.len())]).await?;
    for Columns { starts, counts, hashes, data } in &messages {
        let parameters: &Parameters<'_> = &[&target.key, &target.item_count, starts, counts, hashes, data];
        query(db, APPEND_MORE, parameters).await?;
    }
    Ok(bytes)
}

/// Why an append changed nothing.
async fn refused(connection: &Object, at: &At<'_>) -> Fault {
    let sql = "SELECT s.version, l.id FROM sessions s
        LEFT JOIN loops l ON l.session = s.id AND l.name = $2 WHERE s.name = $1";
    let row = match connection.query_opt(sql, &[&at.session.as_str(), &at.loop_id.as_str()]).await {
        Ok(row) => row,
        Err(error) => return error.into(),
    };
    let missing = |what: &'static str, id: String| StoreError::NotFound { what, id };
    let Some(row) = row else { return missing("session", at.session.to_string()).into() };
    let (session, expected, actual) = (at.session.clone(), at.version, version(row.get(0)));
    let is_there = row.get::<_, Option<i64>>(1).is_some();
    match is_there || actual != expected {
        true => StoreError::Conflict { session, expected, actual }.into(),
        false => missing("loop", at.loop_id.to_string()).into(),
    }
}

/// Gives what is stored of the items in a range to `take`, in order and checked, up to the first that is
/// not there. Answers where that is.
pub(super) async fn each(
    db: &Transaction<'_>,
    holder: i64,
    range: Range<i64>,
    mut take: impl FnMut(i64, &[u8]) -> Result<(), Fault>,
) -> Result<i64, Fault> {
    let sql = "SELECT position, count, hash, data FROM tail WHERE loop = $1 AND position < $3 AND position >=
          coalesce((SELECT max(position) FROM tail WHERE loop = $1 AND position <= $2), $2)
        ORDER BY position LIMIT $4";
    let mut expected = range.start;
    while expected < range.end {
        let rows = query(db, sql, &[&holder, &expected, &range.end, &BATCH_ROWS]).await?;
        let before = expected;
        for row in &rows {
            let (start, count): (i64, i64) = (row.get(0), row.get(1));
            if start > expected {
                return Ok(expected);
            }
            let data = unsealed(row.get(3), row.get(2))?;
            for (position, body) in (start..).zip(bodies(&data, count)?) {
                if (expected..range.end).contains(&position) {
                    take(position, body)?;
                }
            }
            expected = expected.max((start + count).min(range.end));
        }
        if expected == before {
            break;
        }
    }
    Ok(expected)
}

/// The items of a row, which are what its hash says.
fn unsealed(data: &[u8], hash: &[u8]) -> Result<Vec<u8>, StoreError> {
    let data = body::unseal(data)?;
    body::check(&data, hash)?;
    Ok(data)
}

/// The position of the item with this handle.
pub(super) async fn locate(
    db: &Transaction<'_>,
    holder: i64,
    range: &Range<i64>,
    handle: &Handle,
) -> Result<Option<i64>, Fault> {
    let sql = "SELECT min(position) FROM tail WHERE loop = $1";
    let row = query_opt(db, sql, &[&holder]).await?;
    let Some(first) = row.and_then(|row| row.get::<_, Option<i64>>(0)) else { return Ok(None) };
    let mut found = None;
    each(db, holder, first.max(range.start)..range.end, |position, body| {
        if found.is_none() && Handle::of_item(index(position), &id_in(body)?) == *handle {
            found = Some(position);
        }
        Ok(())
    })
    .await?;
    Ok(found)
}

/// How many items are not settled.
pub(super) async fn item_count(db: &Transaction<'_>) -> Result<usize, Fault> {
    let row = query_opt(db, "SELECT coalesce(sum(count), 0)::BIGINT FROM tail", &[]).await?;
    Ok(row.map_or(0, |row| index(row.get(0))))
}

/// How many bytes are not settled.
pub(super) async fn bytes(connection: &Object) -> Result<u64, Fault> {
    let sql = "SELECT coalesce(sum(octet_length(data)), 0)::BIGINT FROM tail";
    Ok(connection.query_one(sql, &[]).await?.get::<_, i64>(0).unsigned_abs())
}

/// Settles the first rows. Answers how many items were in them, and how many bytes the rows had.
pub(super) async fn settle_some(db: &Transaction<'_>) -> Result<(usize, u64), Fault> {
    query(db, SHARE_BODIES, &[&BODY_LOCK]).await?;
    query(db, "SELECT pg_advisory_xact_lock($1)", &[&TAIL_LOCK]).await?;
    // FOR UPDATE: rows of a session that is being deleted are not there any more.
    let sql = "SELECT loop, position, count, hash, data FROM tail WHERE (loop, position) > ($1, $2)
        ORDER BY loop, position LIMIT $3 FOR UPDATE";
    let (mut holders, mut positions, mut handles) = (Vec::new(), Vec::new(), Vec::new());
    let mut encoded: Vec<Vec<u8>> = Vec::new();
    let mut settled: (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut bytes, mut freed) = (0, 0);
    while encoded.len() < SETTLED_ITEMS && bytes < SETTLED_BYTES {
        let last = settled.0.last().zip(settled.1.last()).unwrap_or((&-1, &-1));
        let rows = query(db, sql, &[last.0, last.1, &SETTLED_ROWS]).await?;
        for row in &rows {
            let (holder, start): (i64, i64) = (row.get(0), row.get(1));
            let data = unsealed(row.get(4), row.get(3))?;
            bytes += data.len();
            freed += row.get::<_, &[u8]>(4).len() as u64;
            for (position, body) in (start..).zip(bodies(&data, row.get(2))?) {
                holders.push(holder);
                positions.push(position);
                handles.push(Handle::of_item(index(position), &id_in(body)?).to_string());
                encoded.push(body.to_vec());
            }
            settled.0.push(holder);
            settled.1.push(start);
        }
        if (rows.len() as i64) < SETTLED_ROWS {
            break;
        }
    }
    if settled.0.is_empty() {
        return Ok((0, 0));
    }
    let numbers = store(db, BodyKind::Item, &encoded).await?;
    let sql = "INSERT INTO items (loop, position, body, handle)
        SELECT * FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[], $4::TEXT[])";
    query(db, sql, &[&holders, &positions, &numbers, &handles]).await?;
    let sql = "DELETE FROM tail t USING unnest($1::BIGINT[], $2::BIGINT[]) u (loop, position)
        WHERE t.loop = u.loop AND t.position = u.position";
    query(db, sql, &[&settled.0, &settled.1]).await?;
    Ok((encoded.len(), freed))
}
