//! Reading items: what a view needs, a range, the original file.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{Item, LoopId, SessionId, Splice};
use foldback_engine::store::Head;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::Fault;
use super::packs::{BodyReader, BodyRow};
use super::sessions::{all_loops, find};
use super::tail;
use crate::body::{self, corrupt};
use crate::rows::{Opened, SessionRow, index, segments};

pub(super) fn open(db: &Connection, session: &SessionId, loop_id: &LoopId) -> Result<Opened, Fault> {
    let session = find(db, session)?;
    let loops = all_loops(db, &session)?;
    Ok(Opened::of(session, loops, loop_id)?)
}

pub(super) fn head(db: &mut Connection, session: &SessionId, loop_id: &LoopId) -> Result<Head, Fault> {
    let read = db.transaction()?;
    let opened = open(&read, session, loop_id)?;
    let splice = splice(&read, &opened.session, opened.row.top)?;
    let item_count = index(opened.row.item_count);
    let mut bodies = BodyReader::new(&read);
    let mut visible = Vec::new();
    for range in splice.visible(item_count) {
        visible.extend(load(&read, &opened, &range, &mut bodies)?);
    }
    Ok(Head { version: opened.session.version, item_count, stack: opened.row.stack(), splice, visible })
}

/// What the blocks up to `top` come to.
pub(super) fn splice(db: &Connection, session: &SessionRow, top: Option<i64>) -> Result<Splice, Fault> {
    let Some(top) = top else { return Ok(Splice::default()) };
    let data: Option<Vec<u8>> = db
        .prepare_cached("SELECT splice FROM blocks WHERE session = ?1 AND number = ?2")?
        .query_row([session.key, top], |row| row.get(0))
        .optional()?;
    let data = data.ok_or_else(|| corrupt(format!("block {top} is missing")))?;
    Ok(body::decode_splice(&data)?)
}

pub(super) fn items(
    db: &mut Connection,
    session: &SessionId,
    loop_id: &LoopId,
    range: &Range<usize>,
) -> Result<Vec<Arc<Item>>, Fault> {
    let read = db.transaction()?;
    let opened = open(&read, session, loop_id)?;
    load(&read, &opened, range, &mut BodyReader::new(&read))
}

/// The recorded items of a range, as far as there are any.
pub(super) fn load(
    db: &Connection,
    opened: &Opened,
    range: &Range<usize>,
    bodies: &mut BodyReader<'_>,
) -> Result<Vec<Arc<Item>>, Fault> {
    let mut items = Vec::new();
    for (holder, part) in segments(&opened.loops, &opened.row, range)? {
        let mut statement = db.prepare_cached(
            "SELECT i.position, b.pack, b.start, b.length, b.hash
             FROM items i LEFT JOIN bodies b ON b.id = i.body
             WHERE i.loop = ?1 AND i.position >= ?2 AND i.position < ?3 ORDER BY i.position",
        )?;
        let mut rows = statement.query([holder, part.start, part.end])?;
        let mut expected = part.start;
        while let Some(row) = rows.next()? {
            let position: i64 = row.get(0)?;
            if position != expected {
                break;
            }
            let missing = || corrupt(format!("the body of item {position} is missing"));
            let pack: Option<i64> = row.get(1)?;
            let body = BodyRow {
                pack: pack.ok_or_else(missing)?,
                start: row.get(2)?,
                length: row.get(3)?,
                hash: row.get(4)?,
            };
            let item = bodies.with(&body, |bytes| body::decode_item(bytes, &body.hash))?;
            items.push(Arc::new(item));
            expected += 1;
        }
        drop(rows);
        let expected = tail::each(db, holder, expected..part.end, |_, body| {
            items.push(Arc::new(tail::decode(body)?));
            Ok(())
        })?;
        if expected != part.end {
            return Err(corrupt(format!("item {expected} of loop {} is missing", opened.row.name)).into());
        }
    }
    Ok(items)
}

pub(super) fn original(
    db: &mut Connection,
    session: &SessionId,
    loop_id: &LoopId,
    offset: u64,
) -> Result<Vec<u8>, Fault> {
    let read = db.transaction()?;
    let opened = open(&read, session, loop_id)?;
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    if offset >= opened.row.original_bytes {
        return Ok(Vec::new());
    }
    let found = read
        .prepare_cached(
            "SELECT o.start, b.pack, b.start, b.length, b.hash
             FROM originals o JOIN bodies b ON b.id = o.body
             WHERE o.loop = ?1 AND o.start <= ?2 ORDER BY o.start DESC LIMIT 1",
        )?
        .query_row(params![opened.row.key, offset], |row| {
            let body =
                BodyRow { pack: row.get(1)?, start: row.get(2)?, length: row.get(3)?, hash: row.get(4)? };
            Ok((row.get::<_, i64>(0)?, body))
        })
        .optional()?;
    let missing = || corrupt(format!("byte {offset} of the file of loop {loop_id} is missing"));
    let (start, body) = found.ok_or_else(missing)?;
    let piece = BodyReader::new(&read).with(&body, |bytes| {
        body::check(bytes, &body.hash)?;
        bytes.get(index(offset - start)..).map(<[u8]>::to_vec).ok_or_else(missing)
    })?;
    if piece.is_empty() { Err(missing().into()) } else { Ok(piece) }
}
