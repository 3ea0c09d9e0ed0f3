//! Finding things: by handle, and by what they say.

use std::collections::HashMap;

use foldback_core::{Handle, LoopId, SessionId, Splice};
use foldback_engine::StoreError;
use foldback_engine::store::{HandleTarget, SearchAnswer, SearchQuery};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::error::Fault;
use super::packs::{BodyReader, BodyRow};
use super::read::{open, splice};
use super::sessions::{all_blocks, find};
use super::tail;
use super::words::{Asked, indexed as indexed_text};
use crate::body::{self, BodyKind};
use crate::find::{BATCH_ITEMS, FoundAt, PACK_COST_BYTES, Search, answer, hit, place_in, searchable};
use crate::rows::{SessionRow, as_row, chain, index as as_index, segments, version};
use crate::walk::Stretch;

pub(super) fn locate(
    db: &mut Connection,
    session: &SessionId,
    loop_id: &LoopId,
    handle: &Handle,
) -> Result<HandleTarget, Fault> {
    let read = db.transaction()?;
    let opened = open(&read, session, loop_id)?;
    let own = chain(&all_blocks(&read, &opened.session)?.parents, opened.row.tip)?;
    let mut statement = read.prepare_cached(
        "SELECT b.number, b.loop, b.data FROM handles h
         JOIN blocks b ON b.session = h.session AND b.number = h.block
         WHERE h.session = ?1 AND h.handle = ?2 ORDER BY b.number DESC",
    )?;
    let mut rows = statement.query(params![opened.session.key, handle.as_str()])?;
    while let Some(row) = rows.next()? {
        let (number, holder): (i64, i64) = (row.get(0)?, row.get(1)?);
        if holder == opened.row.key || own.contains(&number) {
            let data: Vec<u8> = row.get(2)?;
            if let Some(place) = place_in(&body::decode_block(&data)?.edits, handle) {
                return Ok(place);
            }
        }
    }
    for (holder, part) in segments(&opened.loops, &opened.row, &(0..usize::MAX))? {
        let settled: Option<i64> = read
            .prepare_cached(
                // It would take all positions of a loop for a few.
                "SELECT position FROM items INDEXED BY items_by_handle
                 WHERE loop = ?1 AND position >= ?2 AND position < ?3 AND handle = ?4 LIMIT 1",
            )?
            .query_row(params![holder, part.start, part.end, handle.as_str()], |row| row.get(0))
            .optional()?;
        let position = match settled {
            Some(position) => Some(position),
            None => tail::locate(&read, holder, &part, handle)?,
        };
        if let Some(position) = position {
            return Ok(HandleTarget::Unit { item_index: as_index(position) });
        }
    }
    Err(StoreError::NotFound { what: "content behind handle", id: handle.to_string() }.into())
}

/// Whether there are items that the index does not have.
pub(super) fn is_behind(db: &Connection) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM tail) OR EXISTS (SELECT 1 FROM bodies
        WHERE id > (SELECT indexed FROM search_state) AND kind = ?1)";
    Ok(db.prepare_cached(sql)?.query_row([BodyKind::Item as i64], |row| row.get(0))?)
}

/// Takes new bodies into the index, at most so many; answers how many are left.
pub(super) fn index(db: &mut Connection, items_max: usize) -> Result<usize, Fault> {
    tail::settle(db, items_max)?;
    let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let indexed: i64 = change.query_row("SELECT indexed FROM search_state", [], |row| row.get(0))?;
    let mut reader = BodyReader::new(&change);
    let mut last = indexed;
    {
        let mut statement = change.prepare_cached(
            "SELECT id, pack, start, length, hash FROM bodies WHERE id > ?1 AND kind = ?2 ORDER BY id LIMIT ?3",
        )?;
        let mut insert = change.prepare_cached("INSERT INTO search (rowid, text) VALUES (?1, ?2)")?;
        let mut rows = statement.query(params![indexed, BodyKind::Item as i64, as_row(items_max)])?;
        while let Some(row) = rows.next()? {
            last = row.get(0)?;
            let body =
                BodyRow { pack: row.get(1)?, start: row.get(2)?, length: row.get(3)?, hash: row.get(4)? };
            let item = reader.with(&body, |bytes| body::decode_item(bytes, &body.hash))?;
            insert.execute(params![last, indexed_text(last, &searchable(&item))])?;
        }
    }
    change.execute("UPDATE search_state SET indexed = ?1", [last])?;
    let left: i64 = change.query_row(
        "SELECT count(*) FROM bodies WHERE id > ?1 AND kind = ?2",
        params![last, BodyKind::Item as i64],
        |row| row.get(0),
    )?;
    let unsettled = tail::item_count(&change)?;
    change.commit()?;
    Ok(as_index(left) + unsettled)
}

pub(super) fn search(db: &mut Connection, query: &SearchQuery) -> Result<SearchAnswer, Fault> {
    let search = Search::new(query)?;
    let read = db.transaction()?;
    let session = query.session.as_ref().map(|session| find(&read, session)).transpose()?;
    let mut places =
        Places { db: &read, session: session.as_ref().map(|row| row.key), splices: HashMap::new() };
    let mut reader = BodyReader::new(&read);
    let mut hits = Vec::new();
    let (asked, mut walk) = Asked::new(&read, &search, query, session.as_ref())?;
    while search.wants_more(hits.len())
        && let Some(stretch) = walk.next_stretch()
    {
        let batch = candidates(&read, &stretch, &asked.within(&stretch), session.as_ref())?;
        let mut reached = if batch.len() < BATCH_ITEMS { stretch.range.start } else { stretch.range.end };
        for (id, body) in &batch {
            let has_enough = search.hits_enough().is_some_and(|enough| hits.len() >= enough);
            if has_enough || !walk.may_look() {
                reached = id + 1;
                break;
            }
            let unpacked = if reader.is_open(body.pack) { 0 } else { PACK_COST_BYTES };
            walk.look(search.cost(as_index(body.length)) + unpacked);
            reached = reached.min(*id);
            // Checked only where it is given out: most are not.
            let item = reader.with(body, body::parse_item)?;
            let Some((score, excerpt)) = search.judge(&item) else { continue };
            if asked.fits(&read, &search, *id, &item)? {
                reader.with(body, |bytes| body::check(bytes, &body.hash))?;
                hits.extend(places.find(*id)?.map(|at| (*id, hit(at, &item, score, excerpt))));
            }
        }
        walk.advance(reached);
    }
    Ok(answer(hits, &search, &walk))
}

/// The newest bodies of a stretch that have all the words.
fn candidates(
    db: &Connection,
    stretch: &Stretch,
    words: &str,
    session: Option<&SessionRow>,
) -> Result<Vec<(i64, BodyRow)>, Fault> {
    let columns = "SELECT b.id, b.pack, b.start, b.length, b.hash";
    let in_session = match session {
        None => "",
        Some(_) => {
            "AND EXISTS (SELECT 1 FROM items i JOIN loops l ON l.id = i.loop
             WHERE i.body = b.id AND l.session = ?5)"
        }
    };
    let sql = if words.is_empty() {
        format!(
            "{columns} FROM bodies b WHERE ?1 = '' AND b.kind = 0 AND b.id < ?2 AND b.id >= ?3 {in_session} ORDER BY b.id DESC LIMIT ?4"
        )
    } else {
        // The cross join keeps the index first: it is what knows the words.
        format!(
            "{columns} FROM search CROSS JOIN bodies b ON b.id = search.rowid
             WHERE search MATCH ?1 AND search.rowid < ?2 AND search.rowid >= ?3 {in_session}
             ORDER BY search.rowid DESC LIMIT ?4"
        )
    };
    let mut statement = db.prepare_cached(&sql)?;
    let Stretch { range, buckets: _ } = stretch;
    let read = |row: &rusqlite::Row<'_>| {
        let body = BodyRow { pack: row.get(1)?, start: row.get(2)?, length: row.get(3)?, hash: row.get(4)? };
        Ok((row.get(0)?, body))
    };
    let limit = as_row(BATCH_ITEMS);
    let rows = match session {
        None => statement.query_map(params![words, range.end, range.start, limit], read)?,
        Some(session) => {
            statement.query_map(params![words, range.end, range.start, limit, session.key], read)?
        }
    };
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Where bodies stand, and whether the model sees them there.
struct Places<'c> {
    db: &'c Connection,
    session: Option<i64>,
    splices: HashMap<i64, Option<Splice>>,
}

impl Places<'_> {
    /// The newest item with this body; nothing where it is garbage.
    fn find(&mut self, body: i64) -> Result<Option<FoundAt>, Fault> {
        let found = self
            .db
            .prepare_cached(
                "SELECT s.name, s.id, s.version, l.id, l.name, l.top, i.position FROM items i
                 JOIN loops l ON l.id = i.loop JOIN sessions s ON s.id = l.session
                 WHERE i.body = ?1 AND (?2 IS NULL OR s.id = ?2)
                 ORDER BY i.loop DESC, i.position DESC LIMIT 1",
            )?
            .query_row(params![body, self.session], |row| {
                let session = SessionRow { key: row.get(1)?, version: version(row.get(2)?) };
                let names: (String, String) = (row.get(0)?, row.get(4)?);
                Ok((
                    names,
                    session,
                    row.get::<_, i64>(3)?,
                    row.get::<_, Option<i64>>(5)?,
                    row.get::<_, i64>(6)?,
                ))
            })
            .optional()?;
        let Some(((session_name, loop_name), session, loop_key, top, position)) = found else {
            return Ok(None);
        };
        let position = as_index(position);
        if !self.splices.contains_key(&loop_key) {
            let in_force = top.map(|_| splice(self.db, &session, top)).transpose()?;
            self.splices.insert(loop_key, in_force);
        }
        let is_visible = match self.splices.get(&loop_key) {
            Some(Some(splice)) => splice.is_visible(position),
            Some(None) | None => true,
        };
        Ok(Some((session_name, loop_name, position, is_visible)))
    }
}
