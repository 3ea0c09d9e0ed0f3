//! Blocks: all are kept, some are in force.

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
use crate::body;
use crate::rows::{Listing, LoopRow, NO_BLOCK, SessionRow, as_row, index, write_metadata};
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

/// Adds blocks on top of those that a loop has in force.
fn add(
    change: &Transaction<'_>,
    session: &SessionRow,
    target: &LoopRow,
    blocks: &[Arc<CompactionBlock>],
    now: Timestamp,
) -> Result<(), Fault> {
    let mut splice = splice(change, session, target.top)?;
    let mut top = target.top;
    for block in blocks {
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
                block.is_joined,
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
    put(change, &LoopRow { top, tip: top, ..target.clone() })
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

fn put(change: &Transaction<'_>, target: &LoopRow) -> Result<(), Fault> {
    let sql = "UPDATE loops SET top = ?2, tip = ?3 WHERE id = ?1";
    change.execute(sql, params![target.key, target.top, target.tip])?;
    Ok(())
}

pub(super) fn set_stack(
    db: &mut Connection,
    at: &Spot,
    point: StackPoint,
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?.at(point);
        all_blocks(change, session)?.check_stack(&target)?;
        put(change, &target)
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
    let listing = Listing::of(&opened.loops, &opened.row, &all_blocks(&read, &opened.session)?)?;
    let mut statement = read.prepare_cached(
        "SELECT number, loop, parent, stored_at, data FROM blocks WHERE session = ?1 ORDER BY number",
    )?;
    let mut rows = statement.query([opened.session.key])?;
    let mut blocks = Vec::new();
    while let Some(row) = rows.next()? {
        if listing.has(row.get(0)?, row.get(1)?) {
            let columns = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            blocks.push(listing.stored(columns, &row.get::<_, Vec<u8>>(4)?)?);
        }
    }
    Ok(blocks)
}
