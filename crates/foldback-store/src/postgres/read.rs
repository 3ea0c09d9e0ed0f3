//! Reading items: what a view needs, a range, the original file.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use deadpool_postgres::Transaction;
use foldback_core::{Item, LoopId, SessionId, Splice};
use foldback_engine::StoreError;
use foldback_engine::store::Head;
use tokio_postgres::Row;

use super::error::Fault;
use super::sessions::{all_loops, find};
use super::{query, query_opt, tail};
use crate::body::{self, corrupt};
use crate::rows::{Opened, SessionRow, index, segments};

/// Packs that come from the server in one message.
const BATCH_PACKS: usize = 32;

pub(super) async fn open(
    db: &Transaction<'_>,
    session: &SessionId,
    loop_id: &LoopId,
) -> Result<Opened, Fault> {
    let session = find(db, session).await?;
    let loops = all_loops(db, &session).await?;
    Ok(Opened::of(session, loops, loop_id)?)
}

pub(super) async fn head(db: &Transaction<'_>, session: &SessionId, loop_id: &LoopId) -> Result<Head, Fault> {
    let opened = open(db, session, loop_id).await?;
    let splice = splice(db, &opened.session, opened.row.top).await?;
    let item_count = index(opened.row.item_count);
    let ranges = splice.visible(item_count);
    let visible = load(db, &opened, &ranges).await?;
    Ok(Head { version: opened.session.version, item_count, stack: opened.row.stack(), splice, visible })
}

/// What the blocks up to `top` come to.
pub(super) async fn splice(
    db: &Transaction<'_>,
    session: &SessionRow,
    top: Option<i64>,
) -> Result<Splice, Fault> {
    let Some(top) = top else { return Ok(Splice::default()) };
    let sql = "SELECT splice FROM blocks WHERE session = $1 AND number = $2";
    let row = query_opt(db, sql, &[&session.key, &top]).await?;
    let row = row.ok_or_else(|| corrupt(format!("block {top} is missing")))?;
    Ok(body::decode_splice(row.get(0))?)
}

/// Where a body lies.
#[derive(Clone, Debug)]
pub(super) struct BodyRow {
    pub(super) pack: i64,
    pub(super) start: i64,
    pub(super) length: i64,
    pub(super) hash: Vec<u8>,
}

impl BodyRow {
    /// From the columns pack, start, length and hash, the first of them at `column`.
    pub(super) fn of(row: &Row, column: usize) -> Self {
        Self {
            pack: row.get(column),
            start: row.get(column + 1),
            length: row.get(column + 2),
            hash: row.get(column + 3),
        }
    }
}

/// The recorded items of ranges, as far as there are any.
pub(super) async fn load(
    db: &Transaction<'_>,
    opened: &Opened,
    ranges: &[Range<usize>],
) -> Result<Vec<Arc<Item>>, Fault> {
    let mut items = Vec::new();
    let sql = "SELECT i.position, b.pack, b.start, b.length, b.hash
        FROM items i LEFT JOIN bodies b ON b.id = i.body
        WHERE i.loop = $1 AND i.position >= $2 AND i.position < $3 ORDER BY i.position";
    // Bodies of neighbouring ranges lie in the same packs: they are read together, as far as they go.
    let mut bodies = Vec::new();
    for range in ranges {
        for (holder, part) in segments(&opened.loops, &opened.row, range)? {
            let rows = query(db, sql, &[&holder, &part.start, &part.end]).await?;
            let settled = rows.iter().zip(part.clone()).take_while(|(row, at)| row.get::<_, i64>(0) == *at);
            let mut expected = part.start;
            for (row, _) in settled {
                if row.get::<_, Option<i64>>(1).is_none() {
                    return Err(corrupt(format!("the body of item {expected} is missing")).into());
                }
                bodies.push(BodyRow::of(row, 1));
                expected += 1;
            }
            if expected < part.end {
                read_into(&mut items, db, &std::mem::take(&mut bodies)).await?;
                expected = tail::each(db, holder, expected..part.end, |_, body| {
                    items.push(Arc::new(body::parse_item(body)?));
                    Ok(())
                })
                .await?;
            }
            if expected != part.end {
                let what = format!("item {expected} of loop {} is missing", opened.row.name);
                return Err(corrupt(what).into());
            }
        }
    }
    read_into(&mut items, db, &bodies).await?;
    Ok(items)
}

async fn read_into(
    items: &mut Vec<Arc<Item>>,
    db: &Transaction<'_>,
    bodies: &[BodyRow],
) -> Result<(), Fault> {
    with_bodies(db, bodies, |_, bytes, hash| {
        items.push(Arc::new(body::decode_item(bytes, hash)?));
        Ok(())
    })
    .await
}

/// Gives the bytes of bodies to `use_bytes`, in order, with their number in the list.
pub(super) async fn with_bodies(
    db: &Transaction<'_>,
    bodies: &[BodyRow],
    mut use_bytes: impl FnMut(usize, &[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<(), Fault> {
    let mut done = 0;
    while done < bodies.len() {
        let mut packs = BTreeSet::new();
        let fits = |body: &&BodyRow| {
            packs.insert(body.pack);
            packs.len() <= BATCH_PACKS
        };
        let batch = bodies[done..].iter().take_while(fits).count();
        let ids: Vec<i64> = packs.into_iter().collect();
        let rows = query(db, "SELECT id, data FROM packs WHERE id = ANY ($1)", &[&ids]).await?;
        let mut open: HashMap<i64, Vec<u8>> = HashMap::new();
        for row in rows {
            open.insert(row.get(0), body::unseal(row.get(1))?);
        }
        for (number, body) in bodies[done..done + batch].iter().enumerate() {
            let pack =
                open.get(&body.pack).ok_or_else(|| corrupt(format!("pack {} is missing", body.pack)))?;
            use_bytes(done + number, body::slice(pack, body.start, body.length)?, &body.hash)?;
        }
        done += batch;
    }
    Ok(())
}

pub(super) async fn original(
    db: &Transaction<'_>,
    session: &SessionId,
    loop_id: &LoopId,
    offset: u64,
) -> Result<Vec<u8>, Fault> {
    let opened = open(db, session, loop_id).await?;
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    if offset >= opened.row.original_bytes {
        return Ok(Vec::new());
    }
    let sql = "SELECT o.start, b.pack, b.start, b.length, b.hash
        FROM originals o JOIN bodies b ON b.id = o.body
        WHERE o.loop = $1 AND o.start <= $2 ORDER BY o.start DESC LIMIT 1";
    let missing = || corrupt(format!("byte {offset} of the file of loop {loop_id} is missing"));
    let row = query_opt(db, sql, &[&opened.row.key, &offset]).await?.ok_or_else(missing)?;
    let start: i64 = row.get(0);
    let mut piece = Vec::new();
    with_bodies(db, &[BodyRow::of(&row, 1)], |_, bytes, hash| {
        body::check(bytes, hash)?;
        piece.extend_from_slice(bytes.get(index(offset - start)..).ok_or_else(missing)?);
        Ok(())
    })
    .await?;
    if piece.is_empty() { Err(missing().into()) } else { Ok(piece) }
}
