//! Adding items, and the bytes of the file they were read from.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use deadpool_postgres::Transaction;
use foldback_core::{Handle, Item, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::At;

use super::error::Fault;
use super::{BODY_LOCK, Parameters, query, query_both};
use crate::body::{self, BodyHash, BodyKind, ClosedPack, ORIGINAL_BYTES, OpenPack, corrupt};
use crate::rows::{LoopRow, as_row, index, version};

/// Items that go to the server in one message.
const BATCH_ITEMS: usize = 1_000;

/// Adds items at the version that the writer has seen, in as few exchanges as can be: with a server,
/// they are most of what an append takes.
pub(super) async fn append(
    db: &Transaction<'_>,
    at: &At<'_>,
    items: &[Arc<Item>],
    now: Timestamp,
) -> Result<(), Fault> {
    let (session, holder, item_count) = lock(db, at).await?;
    let mut position = index(item_count);
    let end = as_row(position + items.len());
    if items.is_empty() {
        query(db, GROW, &[&holder, &end, &session, &now.0]).await?;
    }
    let mut batches = items.chunks(BATCH_ITEMS).peekable();
    while let Some(batch) = batches.next() {
        let encoded = batch.iter().map(|item| body::encode_item(item)).collect::<Result<Vec<_>, _>>()?;
        let bodies = store(db, BodyKind::Item, &encoded).await?;
        let places = position..position + batch.len();
        let handles: Vec<String> = batch
            .iter()
            .zip(places.clone())
            .map(|(item, position)| Handle::of_item(position, &item.id).to_string())
            .collect();
        let positions: Vec<i64> = places.map(as_row).collect();
        position += batch.len();
        let sql = "INSERT INTO items (loop, position, body, handle)
            SELECT $1::BIGINT, u.* FROM unnest($2::BIGINT[], $3::BIGINT[], $4::TEXT[]) u";
        let listed: &Parameters<'_> = &[&holder, &positions, &bodies, &handles];
        match batches.peek() {
            Some(_) => drop(query(db, sql, listed).await?),
            None => drop(query_both(db, (sql, listed), (GROW, &[&holder, &end, &session, &now.0])).await?),
        }
    }
    Ok(())
}

/// Says how many items a loop has, and that its session was changed.
const GROW: &str = "WITH grown AS (UPDATE loops SET item_count = $2 WHERE id = $1)
    UPDATE sessions SET version = version + 1, updated_at = greatest(updated_at, $4) WHERE id = $3";

/// The session, the loop and how many items it has, held until the change is committed.
async fn lock(db: &Transaction<'_>, at: &At<'_>) -> Result<(i64, i64, i64), Fault> {
    // The lock on bodies comes first, as in gc: so neither can wait for the other for ever.
    let sql = "SELECT s.id, s.version, l.id, l.item_count FROM sessions s
        LEFT JOIN loops l ON l.session = s.id AND l.name = $2 WHERE s.name = $1 FOR UPDATE OF s";
    let found: &Parameters<'_> = &[&at.session.as_str(), &at.loop_id.as_str()];
    let (_, rows) = query_both(db, (SHARE_BODIES, &[&BODY_LOCK]), (sql, found)).await?;
    let missing = |what: &'static str, id: String| StoreError::NotFound { what, id };
    let row = rows.first().ok_or_else(|| missing("session", at.session.to_string()))?;
    let actual = version(row.get(1));
    if actual != at.version {
        let (session, expected) = (at.session.clone(), at.version);
        return Err(StoreError::Conflict { session, expected, actual }.into());
    }
    let holder: Option<i64> = row.get(2);
    let holder = holder.ok_or_else(|| missing("loop", at.loop_id.to_string()))?;
    Ok((row.get(0), holder, row.get(3)))
}

/// Shared: any number of writers, but never while gc looks for what nothing refers to.
const SHARE_BODIES: &str = "SELECT pg_advisory_xact_lock_shared($1)";

/// The numbers of the bodies with these bytes, stored where they are not yet.
async fn store(db: &Transaction<'_>, kind: BodyKind, bytes: &[Vec<u8>]) -> Result<Vec<i64>, Fault> {
    let hashes: Vec<BodyHash> = bytes.iter().map(|bytes| body::hash(bytes)).collect();
    let names: Vec<&[u8]> = hashes.iter().map(BodyHash::as_slice).collect();
    // Numbers are given in the order of the items: the highest is the newest.
    let numbers = "SELECT nextval(pg_get_serial_sequence('bodies', 'id')) FROM generate_series(1, $1::INT)";
    let count = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    let (rows, numbers) = query_both(db, (STORED, &[&(kind as i64), &names]), (numbers, &[&count])).await?;
    let mut known: HashMap<Vec<u8>, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut missing: BTreeMap<&BodyHash, (i64, &Vec<u8>)> = BTreeMap::new();
    for ((hash, bytes), number) in hashes.iter().zip(bytes).zip(&numbers) {
        if !known.contains_key(hash.as_slice()) {
            missing.insert(hash, (number.get(0), bytes));
        }
    }
    let missing_count = missing.len();
    let mut added = 0;
    let mut open = OpenPack::default();
    // By name, so that two writers with the same bodies wait for each other in the same order.
    for (hash, (number, bytes)) in missing {
        open.push(number, *hash, bytes);
        if open.is_full() {
            added += close(db, kind, &mut open, &mut known).await?;
        }
    }
    added += close(db, kind, &mut open, &mut known).await?;
    if added < missing_count {
        // Another writer stored some of them meanwhile.
        let rows = query(db, STORED, &[&(kind as i64), &names]).await?;
        known = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    }
    let number = |hash: &BodyHash| {
        let number = known.get(hash.as_slice()).copied();
        number.ok_or_else(|| Fault::from(corrupt("a body was not stored".to_owned())))
    };
    hashes.iter().map(number).collect()
}

const STORED: &str = "SELECT hash, id FROM bodies WHERE kind = $1 AND hash = ANY ($2)";

/// Writes a pack and its bodies. A body that another writer stored meanwhile stays where that put it.
/// Answers how many were added, and makes them known.
async fn close(
    db: &Transaction<'_>,
    kind: BodyKind,
    open: &mut OpenPack,
    known: &mut HashMap<Vec<u8>, i64>,
) -> Result<usize, Fault> {
    let Some(ClosedPack { data, bodies }) = open.close()? else { return Ok(0) };
    let ids: Vec<i64> = bodies.iter().map(|body| body.id).collect();
    let hashes: Vec<&[u8]> = bodies.iter().map(|body| body.hash.as_slice()).collect();
    let starts: Vec<i64> = bodies.iter().map(|body| body.start).collect();
    let lengths: Vec<i64> = bodies.iter().map(|body| body.length).collect();
    let sql = "WITH pack AS (INSERT INTO packs (data) VALUES ($2) RETURNING id)
        INSERT INTO bodies (kind, pack, id, hash, start, length)
        SELECT $1::BIGINT, pack.id, u.*
        FROM pack, unnest($3::BIGINT[], $4::BYTEA[], $5::BIGINT[], $6::BIGINT[]) u
        ON CONFLICT (hash, kind) DO NOTHING RETURNING hash, id";
    let rows = query(db, sql, &[&(kind as i64), &data, &ids, &hashes, &starts, &lengths]).await?;
    known.extend(rows.iter().map(|row| (row.get::<_, Vec<u8>>(0), row.get::<_, i64>(1))));
    Ok(rows.len())
}

pub(super) async fn append_original(
    db: &Transaction<'_>,
    target: &LoopRow,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Fault> {
    let there = target.original_bytes.unsigned_abs();
    if there != offset {
        let (index, count) = (offset as usize, there as usize);
        return Err(StoreError::OutOfRange { what: "byte", index, count }.into());
    }
    query(db, SHARE_BODIES, &[&BODY_LOCK]).await?;
    let mut start = target.original_bytes;
    for piece in bytes.chunks(ORIGINAL_BYTES) {
        let body = store(db, BodyKind::Original, &[piece.to_vec()]).await?[0];
        let sql = "INSERT INTO originals (loop, start, length, body) VALUES ($1, $2, $3, $4)";
        query(db, sql, &[&target.key, &start, &as_row(piece.len()), &body]).await?;
        start += as_row(piece.len());
    }
    query(db, "UPDATE loops SET original_bytes = $2 WHERE id = $1", &[&target.key, &start]).await?;
    Ok(())
}
