//! Blocks: all are kept, some are in force.

use std::collections::HashSet;
use std::sync::Arc;

use foldback_core::{CompactionBlock, Edit, LoopId, SessionId, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::{Layout, StackPoint, StoredBlock, Version};
use rusqlite::{Connection, Transaction, params};

use super::Spot;
use super::error::Fault;
use super::read::{layout, open};
use super::sessions::{block_parents, change, find_loop};
use crate::body::{self, corrupt};
use crate::rows::{LoopRow, SessionRow, as_row, chain, index, number, redone};

pub(super) fn commit(
    db: &mut Connection,
    at: &Spot,
    block: &CompactionBlock,
    now: Timestamp,
) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?;
        Layout::check(block, index(target.item_count))?;
        let layout = layout(change, session, target.top)?.with(block);
        change.execute("UPDATE sessions SET block_count = block_count + 1 WHERE id = ?1", [session.key])?;
        let number: i64 =
            change.query_row("SELECT block_count FROM sessions WHERE id = ?1", [session.key], |row| {
                row.get(0)
            })?;
        change
            .prepare_cached(
                "INSERT INTO blocks (session, number, loop, parent, reach, stored_at, data, layout)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                session.key,
                number,
                target.key,
                target.top,
                as_row(Layout::reach(block)),
                now.0,
                body::encode_block(block)?,
                body::encode_layout(&layout)?
            ])?;
        list_handles(change, session, number, block)?;
        put(change, &target, (Some(number), Some(number)))
    })?;
    Ok(version)
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
        let parent = block_parents(change, session)?.get(&top).copied();
        let parent = parent.ok_or_else(|| corrupt(format!("block {top} is missing")))?;
        put(change, &target, (parent, target.tip))
    })?;
    Ok(version)
}

pub(super) fn redo(db: &mut Connection, at: &Spot, now: Timestamp) -> Result<Version, Fault> {
    let (version, ()) = change(db, &at.session, at.version, now, |change, session| {
        let target = find_loop(change, session, &at.loop_id)?;
        let next = redone(&block_parents(change, session)?, (target.top, target.tip))?;
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
        let parents = block_parents(change, session)?;
        let missing = [top, tip].into_iter().flatten().find(|block| !parents.contains_key(block));
        if let Some(block) = missing {
            return Err(StoreError::NotFound { what: "block", id: block.to_string() }.into());
        }
        let way = chain(&parents, tip)?;
        if top.is_some_and(|top| !way.contains(&top)) {
            let why = "the newest block in force does not lie below the one redo leads to".to_owned();
            return Err(StoreError::InvalidBlock { why }.into());
        }
        let mut reach =
            change.prepare_cached("SELECT reach FROM blocks WHERE session = ?1 AND number = ?2")?;
        for block in way {
            let reach: i64 = reach.query_row([session.key, block], |row| row.get(0))?;
            if reach > target.item_count {
                let (index, count) = (index(reach), index(target.item_count));
                return Err(StoreError::OutOfRange { what: "block with item", index, count }.into());
            }
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
    let parents = block_parents(&read, &opened.session)?;
    let in_force: HashSet<i64> = chain(&parents, opened.row.top)?.into_iter().collect();
    let inherited: HashSet<i64> = chain(&parents, opened.row.tip)?.into_iter().collect();
    let mut statement = read.prepare_cached(
        "SELECT number, loop, parent, stored_at, data FROM blocks WHERE session = ?1 ORDER BY number",
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
            is_in_force: in_force.contains(&block),
            stored_at: Timestamp(row.get(3)?),
            block: Arc::new(body::decode_block(&data)?),
        });
    }
    Ok(blocks)
}
