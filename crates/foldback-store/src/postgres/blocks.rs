//! Blocks: all are kept, some are in force.

use std::sync::Arc;

use deadpool_postgres::Transaction;
use foldback_core::{CompactionBlock, Edit, LoopId, SessionId, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::{Revision, StackPoint, StoredBlock};
use tokio_postgres::Row;

use super::error::Fault;
use super::read::{open, splice};
use super::sessions::all_blocks;
use super::{Parameters, query, tail};
use crate::body::{self, corrupt};
use crate::rows::{Listing, LoopRow, NO_BLOCK, SessionRow, as_row, index, write_metadata};

pub(super) async fn commit(
    db: &Transaction<'_>,
    session: &SessionRow,
    target: &LoopRow,
    blocks: &[Arc<CompactionBlock>],
    now: Timestamp,
) -> Result<(), Fault> {
    let mut splice = splice(db, session, target.top).await?;
    let mut top = target.top;
    for block in blocks {
        block.check(index(target.item_count)).map_err(StoreError::from)?;
        splice = splice.with(block);
        let sql = "UPDATE sessions SET block_count = block_count + 1 WHERE id = $1 RETURNING block_count";
        let rows = query(db, sql, &[&session.key]).await?;
        let number = rows.first().map(|row| row.get::<_, i64>(0));
        let number = number.ok_or_else(|| corrupt("no session".to_owned()))?;
        let (data, sealed) = (body::encode_block(block)?, body::encode_splice(&splice)?);
        let (reach, is_joined) = (as_row(block.reach()), block.is_joined);
        let sql =
            "INSERT INTO blocks (session, number, loop, parent, is_joined, reach, stored_at, data, splice)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let parameters: &Parameters<'_> =
            &[&session.key, &number, &target.key, &top, &is_joined, &reach, &now.0, &data, &sealed];
        query(db, sql, parameters).await?;
        list_handles(db, session, number, block).await?;
        top = Some(number);
    }
    if blocks.is_empty() {
        return Err(StoreError::InvalidBlock { why: NO_BLOCK.to_owned() }.into());
    }
    put(db, &LoopRow { top, tip: top, ..target.clone() }).await
}

/// Answers how many bytes the items take in the tail.
pub(super) async fn revise(
    db: &Transaction<'_>,
    session: &SessionRow,
    target: &LoopRow,
    revision: &Revision<'_>,
    now: Timestamp,
) -> Result<u64, Fault> {
    let Revision { items, base, blocks, metadata } = *revision;
    let base = base.map(|base| base.0 as i64);
    all_blocks(db, session).await?.check_base(target.top, base)?;
    let bytes = tail::add(db, target, items).await?;
    let item_count = target.item_count + as_row(items.len());
    commit(db, session, &LoopRow { item_count, top: base, ..target.clone() }, blocks, now).await?;
    if let Some(metadata) = metadata {
        let sql = "UPDATE loops SET metadata = $2 WHERE id = $1";
        query(db, sql, &[&target.key, &write_metadata(metadata)]).await?;
    }
    Ok(bytes)
}

/// Makes the handles of a block known. Answers how many were not.
pub(super) async fn list_handles(
    db: &Transaction<'_>,
    session: &SessionRow,
    number: i64,
    block: &CompactionBlock,
) -> Result<usize, Fault> {
    let handle = |edit: &Edit| match edit {
        Edit::Fold(fold) => Some(fold.handle.to_string()),
        Edit::Rewrite(rewrite) => Some(rewrite.handle.to_string()),
        Edit::Drop(_) => None,
    };
    let handles: Vec<String> = block.edits.iter().filter_map(handle).collect();
    let sql = "INSERT INTO handles (session, block, handle)
        SELECT $1::BIGINT, $2::BIGINT, u FROM unnest($3::TEXT[]) u ON CONFLICT DO NOTHING RETURNING block";
    Ok(query(db, sql, &[&session.key, &number, &handles]).await?.len())
}

async fn put(db: &Transaction<'_>, target: &LoopRow) -> Result<(), Fault> {
    let sql = "UPDATE loops SET top = $2, tip = $3 WHERE id = $1";
    query(db, sql, &[&target.key, &target.top, &target.tip]).await?;
    Ok(())
}

pub(super) async fn set_stack(
    db: &Transaction<'_>,
    session: &SessionRow,
    target: &LoopRow,
    point: StackPoint,
) -> Result<(), Fault> {
    let target = target.clone().at(point);
    all_blocks(db, session).await?.check_stack(&target)?;
    put(db, &target).await
}

pub(super) async fn list(
    db: &Transaction<'_>,
    session: &SessionId,
    loop_id: &LoopId,
) -> Result<Vec<StoredBlock>, Fault> {
    let opened = open(db, session, loop_id).await?;
    let listing = Listing::of(&opened.loops, &opened.row, &all_blocks(db, &opened.session).await?)?;
    let sql = "SELECT number, loop, parent, stored_at, data FROM blocks WHERE session = $1 ORDER BY number";
    let rows = query(db, sql, &[&opened.session.key]).await?;
    let listed = rows.iter().filter(|row| listing.has(row.get(0), row.get(1)));
    let stored = |row: &Row| listing.stored((row.get(0), row.get(1), row.get(2), row.get(3)), row.get(4));
    Ok(listed.map(stored).collect::<Result<_, _>>()?)
}
