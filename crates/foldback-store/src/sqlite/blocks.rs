//! Blocks: all are kept, some are in force.

use std::collections::HashSet;
use std::sync::Arc;

use foldback_core::{CompactionBlock, Edit, Item, LoopId, SessionId, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::{Revision, StackPoint, StoredBlock, Version};
use rusqlite::{Connection, Transaction, params};

use super::error::Fault;
use super::read::{open, splice};
use super::sessions::{all_blocks, change, find_loop};
use super::tail::Stamp;
use super::{Spot, tail};
use crate::body::{self, corrupt};
use crate::rows::{LoopRow, NO_BLOCK, SessionRow, as_row, chain, index, number, write_metadata};
use crate::tail::pieces;

pub(super) fn commit(
    db: &mut Connection,
    at: &Spot,
    blocks: &[Arc<CompactionBlock>],
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?;
        add(change, session, &target, blocks, now)
    })?;
    Ok(version)
}

/// What a loop is to be, on its way to another thread.
#[derive(Clone, Debug)]
pub(super) struct Revised {
    items: Vec<Arc<Item>>,
    base: Option<i64>,
    blocks: Vec<Arc<CompactionBlock>>,
    metadata: Option<String>,
}

impl Revised {
    pub(super) fn of(revision: &Revision<'_>) -> Self {
        let Revision { items, base, blocks, metadata } = *revision;
        let (items, blocks) = (items.to_vec(), blocks.to_vec());
        Self { items, base: base.map(|base| base.0 as i64), blocks, metadata: metadata.map(write_metadata) }
    }
}

/// Answers how many bytes the items take in the tail.
pub(super) fn revise(
    db: &mut Connection,
    at: &Spot,
    revised: &Revised,
    now: Timestamp,
) -> Result<(Version, usize), Fault> {
    let pieces = pieces(&revised.items)?;
    change(db, &at.session, at.version, now, |change, session| {
        let before = find_loop(change, session, &at.loop_id)?;
        all_blocks(change, session)?.check_base(before.top, revised.base)?;
        let stamp = Stamp { version: Version(session.version.0 + 1), at: now };
        let bytes = match pieces.is_empty() {
            true => 0,
            false => tail::append(change, (before.key, before.item_count), &pieces, &stamp)?,
        };
        let item_count = before.item_count + as_row(revised.items.len());
        let target = LoopRow { item_count, top: revised.base, ..before };
        add(change, session, &target, &revised.blocks, now)?;
        if let Some(metadata) = &revised.metadata {
            let sql = "UPDATE loops SET metadata = ?2 WHERE id = ?1";
            change.execute(sql, params![target.key, metadata])?;
        }
        Ok(bytes)
    })
}

/// Adds the blocks of one compaction on top of those that a loop has in force.
fn add(
    change: &Transaction<'_>,
    session: &SessionRow,
    target: &LoopRow,
    blocks: &[Arc<CompactionBlock>],
    now: Timestamp,
) -> Result<(), Fault> {
    let mut splice = splice(change, session, target.top)?;
    let mut top = target.top;
    for (position, block) in blocks.iter().enumerate() {
        block.check(index(target.item_count)).map_err(StoreError::from)?;
        splice = splice.with(block);
        let number = next_number(change, session)?;
        change
            .prepare_cached(
                "INSERT INTO blocks (session, number, loop, parent, is_joined, reach, stored_at, data, splice)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                session.key,
                number,
                target.key,
                top,
                position > 0,
                as_row(block.reach()),
                now.0,
                body::encode_block(block)?,
                body::encode_splice(&splice)?
            ])?;
        list_handles(change, session, number, block)?;
        top = Some(number);
    }
    if blocks.is_empty() {
        return Err(StoreError::InvalidBlock { why: NO_BLOCK.to_owned() }.into());
    }
    put(change, target, (top, top))
}

fn next_number(change: &Transaction<'_>, session: &SessionRow) -> Result<i64, Fault> {
    let sql = "UPDATE sessions SET block_count = block_count + 1 WHERE id = ?1 RETURNING block_count";
    Ok(change.prepare_cached(sql)?.query_row([session.key], |row| row.get(0))?)
}

/// Makes the handles of a block known.
pub(super) fn list_handles(
    change: &Transaction<'_>,
    session: &SessionRow,
    number: i64,
    block: &CompactionBlock,
) -> Result<(), Fault> {
    let mut insert = change
        .prepare_cached("INSERT OR IGNORE INTO handles (session, handle, block) VALUES (?1, ?2, ?3)")?;
    for edit in &block.edits {
        match edit {
            Edit::Fold(fold) => insert.execute(params![session.key, fold.handle.as_str(), number])?,
            Edit::Rewrite(rewrite) => {
                insert.execute(params![session.key, rewrite.handle.as_str(), number])?
            }
            Edit::Drop(_) => 0,
        };
    }
    Ok(())
}

fn put(
    change: &Transaction<'_>,
    target: &LoopRow,
    (top, tip): (Option<i64>, Option<i64>),
) -> Result<(), Fault> {
    change.execute("UPDATE loops SET top = ?2, tip = ?3 WHERE id = ?1", params![target.key, top, tip])?;
    Ok(())
}

pub(super) fn undo(db: &mut Connection, at: &Spot, now: Timestamp) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?;
        let top = target.top.ok_or(StoreError::NothingTo { action: "undo" })?;
        let below = all_blocks(change, session)?.undone(top)?;
        put(change, &target, (below, target.tip))
    })?;
    Ok(version)
}

pub(super) fn redo(db: &mut Connection, at: &Spot, now: Timestamp) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?;
        let next = all_blocks(change, session)?.redone(target.top, target.tip)?;
        let next = next.ok_or(StoreError::NothingTo { action: "redo" })?;
        put(change, &target, (Some(next), target.tip))
    })?;
    Ok(version)
}

pub(super) fn set_stack(
    db: &mut Connection,
    at: &Spot,
    point: StackPoint,
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?;
        let (top, tip) = (point.top.map(|top| top.0 as i64), point.tip.map(|tip| tip.0 as i64));
        let blocks = all_blocks(change, session)?;
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
        put(change, &target, (top, tip))
    })?;
    Ok(version)
}

pub(super) fn list(
    db: &mut Connection,
    session: &SessionId,
    loop_id: &LoopId,
) -> Result<Vec<StoredBlock>, Fault> {
    let read = db.transaction()?;
    let opened = open(&read, session, loop_id)?;
    let parents = all_blocks(&read, &opened.session)?.parents;
    let in_force: HashSet<i64> = chain(&parents, opened.row.top)?.into_iter().collect();
    let inherited: HashSet<i64> = chain(&parents, opened.row.tip)?.into_iter().collect();
    let mut statement = read.prepare_cached(
        "SELECT number, loop, parent, stored_at, data, is_joined FROM blocks WHERE session = ?1 ORDER BY number",
    )?;
    let mut rows = statement.query([opened.session.key])?;
    let mut blocks = Vec::new();
    while let Some(row) = rows.next()? {
        let (block, holder): (i64, i64) = (row.get(0)?, row.get(1)?);
        if holder != opened.row.key && !in_force.contains(&block) && !inherited.contains(&block) {
            continue;
        }
        let holder = opened.loops.get(&holder);
        let holder = holder.ok_or_else(|| corrupt(format!("the loop of block {block} is missing")))?;
        let data: Vec<u8> = row.get(4)?;
        blocks.push(StoredBlock {
            number: number(block),
            loop_id: holder.name.as_str().into(),
            parent: row.get::<_, Option<i64>>(2)?.map(number),
            is_joined: row.get(5)?,
            is_in_force: in_force.contains(&block),
            stored_at: Timestamp(row.get(3)?),
            block: Arc::new(body::decode_block(&data)?),
        });
    }
    Ok(blocks)
}
