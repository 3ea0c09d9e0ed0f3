//! Blocks: all are kept, some are in force.

use std::collections::HashSet;
use std::sync::Arc;

use deadpool_postgres::Transaction;
use foldback_core::{CompactionBlock, Edit, LoopId, SessionId, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::{Revision, StackPoint, StoredBlock};

use super::error::Fault;
use super::read::{open, splice};
use super::sessions::all_blocks;
use super::{Parameters, query, tail};
use crate::body::{self, corrupt};
use crate::rows::{LoopRow, NO_BLOCK, SessionRow, as_row, chain, index, number, write_metadata};

pub(super) async fn commit(
    db: &Transaction<'_>,
    session: &SessionRow,
    target: &LoopRow,
    blocks: &[Arc<CompactionBlock>],
    now: Timestamp,
) -> Result<(), Fault> {
    let mut splice = splice(db, session, target.top).await?;
    let mut top = target.top;
    for (position, block) in blocks.iter().enumerate() {
        block.check(index(target.item_count)).map_err(StoreError::from)?;
        splice = splice.with(block);
        let sql = "UPDATE sessions SET block_count = block_count + 1 WHERE id = $1 RETURNING block_count";
        let rows = query(db, sql, &[&session.key]).await?;
        let number = rows.first().map(|row| row.get::<_, i64>(0));
        let number = number.ok_or_else(|| corrupt("no session".to_owned()))?;
        let (data, sealed) = (body::encode_block(block)?, body::encode_splice(&splice)?);
        let (reach, is_joined) = (as_row(block.reach()), position > 0);
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
    put(db, target, (top, top)).await
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

async fn put(
    db: &Transaction<'_>,
    target: &LoopRow,
    (top, tip): (Option<i64>, Option<i64>),
) -> Result<(), Fault> {
    query(db, "UPDATE loops SET top = $2, tip = $3 WHERE id = $1", &[&target.key, &top, &tip]).await?;
    Ok(())
}

pub(super) async fn undo(db: &Transaction<'_>, session: &SessionRow, target: &LoopRow) -> Result<(), Fault> {
    let top = target.top.ok_or(StoreError::NothingTo { action: "undo" })?;
    let below = all_blocks(db, session).await?.undone(top)?;
    put(db, target, (below, target.tip)).await
}

pub(super) async fn redo(db: &Transaction<'_>, session: &SessionRow, target: &LoopRow) -> Result<(), Fault> {
    let next = all_blocks(db, session).await?.redone(target.top, target.tip)?;
    let next = next.ok_or(StoreError::NothingTo { action: "redo" })?;
    put(db, target, (Some(next), target.tip)).await
}

pub(super) async fn set_stack(
    db: &Transaction<'_>,
    session: &SessionRow,
    target: &LoopRow,
    point: StackPoint,
) -> Result<(), Fault> {
    let (top, tip) = (point.top.map(|top| top.0 as i64), point.tip.map(|tip| tip.0 as i64));
    let blocks = all_blocks(db, session).await?;
    let missing = [top, tip].into_iter().flatten().find(|block| !blocks.parents.contains_key(block));
    if let Some(block) = missing {
        return Err(StoreError::NotFound { what: "block", id: block.to_string() }.into());
    }
    let way = chain(&blocks.parents, tip)?;
    if top.is_some_and(|top| !way.contains(&top)) {
        let why = "the newest block in force does not lie below the one redo leads to".to_owned();
        return Err(StoreError::InvalidBlock { why }.into());
    }
    let furthest = way.iter().filter_map(|block| blocks.reaches.get(block)).max().copied().unwrap_or(0);
    if furthest > target.item_count {
        let (index, count) = (index(furthest), index(target.item_count));
        return Err(StoreError::OutOfRange { what: "block with item", index, count }.into());
    }
    put(db, target, (top, tip)).await
}

pub(super) async fn list(
    db: &Transaction<'_>,
    session: &SessionId,
    loop_id: &LoopId,
) -> Result<Vec<StoredBlock>, Fault> {
    let opened = open(db, session, loop_id).await?;
    let parents = all_blocks(db, &opened.session).await?.parents;
    let in_force: HashSet<i64> = chain(&parents, opened.row.top)?.into_iter().collect();
    let inherited: HashSet<i64> = chain(&parents, opened.row.tip)?.into_iter().collect();
    let sql = "SELECT number, loop, parent, stored_at, data, is_joined FROM blocks WHERE session = $1 ORDER BY number";
    let mut blocks = Vec::new();
    for row in query(db, sql, &[&opened.session.key]).await? {
        let (block, holder): (i64, i64) = (row.get(0), row.get(1));
        if holder != opened.row.key && !in_force.contains(&block) && !inherited.contains(&block) {
            continue;
        }
        let holder = opened.loops.get(&holder);
        let holder = holder.ok_or_else(|| corrupt(format!("the loop of block {block} is missing")))?;
        blocks.push(StoredBlock {
            number: number(block),
            loop_id: holder.name.as_str().into(),
            parent: row.get::<_, Option<i64>>(2).map(number),
            is_joined: row.get(5),
            is_in_force: in_force.contains(&block),
            stored_at: Timestamp(row.get(3)),
            block: Arc::new(body::decode_block(row.get(4))?),
        });
    }
    Ok(blocks)
}
