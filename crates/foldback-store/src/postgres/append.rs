//! Adding items, and the bytes of the file they were read from.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use deadpool_postgres::Transaction;
use foldback_core::{Handle, Item};
use foldback_engine::StoreError;

use super::error::Fault;
use super::{BODY_LOCK, query};
use crate::body::{self, BodyHash, BodyKind, ORIGINAL_BYTES, OpenPack, corrupt};
use crate::rows::{LoopRow, as_row, index};

/// Items that go to the server in one message.
const BATCH_ITEMS: usize = 1_000;

pub(super) async fn append(db: &Transaction<'_>, target: &LoopRow, items: &[Arc<Item>]) -> Result<(), Fault> {
    let mut position = index(target.item_count);
    for batch in items.chunks(BATCH_ITEMS) {
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
        query(db, sql, &[&target.key, &positions, &bodies, &handles]).await?;
    }
    let sql = "UPDATE loops SET item_count = $2 WHERE id = $1";
    query(db, sql, &[&target.key, &as_row(position)]).await?;
    Ok(())
}

/// The numbers of the bodies with these bytes, stored where they are not yet.
async fn store(db: &Transaction<'_>, kind: BodyKind, bytes: &[Vec<u8>]) -> Result<Vec<i64>, Fault> {
    // Shared: any number of writers, but never while gc looks for what nothing refers to.
    query(db, "SELECT pg_advisory_xact_lock_shared($1)", &[&BODY_LOCK]).await?;
    let hashes: Vec<BodyHash> = bytes.iter().map(|bytes| body::hash(bytes)).collect();
    let mut known = stored(db, kind, &hashes).await?;
    // By name, so that two writers with the same bodies wait for each other in the same order.
    let missing: BTreeMap<&BodyHash, &Vec<u8>> =
        hashes.iter().zip(bytes).filter(|(hash, _)| !known.contains_key(hash.as_slice())).collect();
    if !missing.is_empty() {
        let mut open = OpenPack::default();
        for (hash, bytes) in missing {
            open.push(0, *hash, bytes);
            if open.is_full() {
                close(db, kind, &mut open).await?;
            }
        }
        close(db, kind, &mut open).await?;
        known = stored(db, kind, &hashes).await?;
    }
    let number = |hash: &BodyHash| {
        let number = known.get(hash.as_slice()).copied();
        number.ok_or_else(|| Fault::from(corrupt("a body was not stored".to_owned())))
    };
    hashes.iter().map(number).collect()
}

async fn stored(
    db: &Transaction<'_>,
    kind: BodyKind,
    hashes: &[BodyHash],
) -> Result<HashMap<Vec<u8>, i64>, Fault> {
    let hashes: Vec<&[u8]> = hashes.iter().map(BodyHash::as_slice).collect();
    let sql = "SELECT hash, id FROM bodies WHERE kind = $1 AND hash = ANY ($2)";
    let rows = query(db, sql, &[&(kind as i64), &hashes]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Writes a pack and its bodies. A body that another writer stored meanwhile stays where that put it.
async fn close(db: &Transaction<'_>, kind: BodyKind, open: &mut OpenPack) -> Result<(), Fault> {
    let Some((data, bodies)) = open.close()? else { return Ok(()) };
    let rows = query(db, "INSERT INTO packs (data) VALUES ($1) RETURNING id", &[&data]).await?;
    let pack: i64 = rows.first().map(|row| row.get(0)).ok_or_else(|| corrupt("no pack".to_owned()))?;
    let hashes: Vec<&[u8]> = bodies.iter().map(|body| body.hash.as_slice()).collect();
    let starts: Vec<i64> = bodies.iter().map(|body| body.start).collect();
    let lengths: Vec<i64> = bodies.iter().map(|body| body.length).collect();
    let sql = "INSERT INTO bodies (kind, pack, hash, start, length)
        SELECT $1::BIGINT, $2::BIGINT, u.* FROM unnest($3::BYTEA[], $4::BIGINT[], $5::BIGINT[]) u
        ON CONFLICT (hash, kind) DO NOTHING";
    query(db, sql, &[&(kind as i64), &pack, &hashes, &starts, &lengths]).await?;
    Ok(())
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
