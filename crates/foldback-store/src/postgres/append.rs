//! Storing bodies, and the bytes of the file that items were read from.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use foldback_engine::StoreError;

use super::error::Fault;
use super::{query, query_both};
use crate::body::{self, BodyHash, BodyKind, ClosedPack, ORIGINAL_BYTES, OpenPack, corrupt};
use crate::rows::{LoopRow, as_row};

/// Shared: any number of writers, but never while gc looks for what nothing refers to.
pub(super) const SHARE_BODIES: &str = "SELECT pg_advisory_xact_lock_shared($1)";

/// The numbers of the bodies with these bytes, stored where they are not yet.
pub(super) async fn store(
    db: &Transaction<'_>,
    kind: BodyKind,
    bytes: &[Vec<u8>],
) -> Result<Vec<i64>, Fault> {
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
