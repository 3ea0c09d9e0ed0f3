//! Finding things: by handle, and by what they say.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use foldback_core::{Handle, Item, LoopId, SessionId};
use foldback_engine::StoreError;
use foldback_engine::store::{Layout, Place, SearchAnswer, SearchHit, SearchQuery};

use super::error::Fault;
use super::read::{BodyRow, layout, open, with_bodies};
use super::sessions::{all_blocks, find};
use super::{query, query_opt};
use crate::body;
use crate::find::{
    BATCH_ITEMS, EXAMINED_ITEMS_MAX, Search, VERIFIED_ITEMS_MAX, place_in, searchable, words_of,
};
use crate::rows::{SessionRow, as_row, chain, index as as_index, segments, version};

/// Bytes of an item's words that are indexed: the server refuses more than a megabyte of words with
/// their places.
const INDEXED_BYTES_MAX: usize = 256 * 1024;

pub(super) async fn locate(
    db: &Transaction<'_>,
    session: &SessionId,
    loop_id: &LoopId,
    handle: &Handle,
) -> Result<Place, Fault> {
    let opened = open(db, session, loop_id).await?;
    let own = chain(&all_blocks(db, &opened.session).await?.parents, opened.row.tip)?;
    let sql = "SELECT b.number, b.loop, b.data FROM handles h
        JOIN blocks b ON b.session = h.session AND b.number = h.block
        WHERE h.session = $1 AND h.handle = $2 ORDER BY b.number DESC";
    for row in query(db, sql, &[&opened.session.key, &handle.as_str()]).await? {
        let (number, holder): (i64, i64) = (row.get(0), row.get(1));
        let is_ours = holder == opened.row.key || own.contains(&number);
        if is_ours && let Some(place) = place_in(&body::decode_block(row.get(2))?.edits, handle) {
            return Ok(place);
        }
    }
    let sql = "SELECT position FROM items
        WHERE loop = $1 AND position >= $2 AND position < $3 AND handle = $4 LIMIT 1";
    for (holder, part) in segments(&opened.loops, &opened.row, &(0..usize::MAX))? {
        let row = query_opt(db, sql, &[&holder, &part.start, &part.end, &handle.as_str()]).await?;
        if let Some(row) = row {
            return Ok(Place::Unit { item_index: as_index(row.get(0)) });
        }
    }
    Err(StoreError::NotFound { what: "content behind handle", id: handle.to_string() }.into())
}

/// Whether there are bodies that the index does not have.
pub(super) async fn is_behind(db: &Transaction<'_>) -> Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM bodies WHERE kind = 0 AND NOT is_indexed)";
    Ok(query_opt(db, sql, &[]).await?.is_some_and(|row| row.get(0)))
}

/// Takes new bodies into the index, at most so many; answers how many are left.
pub(super) async fn index(db: &Transaction<'_>, items_max: usize) -> Result<usize, Fault> {
    let sql = "SELECT id, pack, start, length, hash FROM bodies
        WHERE kind = 0 AND NOT is_indexed ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";
    let rows = query(db, sql, &[&as_row(items_max)]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let bodies: Vec<BodyRow> = rows.iter().map(|row| BodyRow::of(row, 1)).collect();
    let mut texts = Vec::with_capacity(bodies.len());
    with_bodies(db, &bodies, |_, bytes, hash| {
        let mut words = words_of(&searchable(&body::decode_item(bytes, hash)?));
        if words.len() > INDEXED_BYTES_MAX {
            let end = (0..=INDEXED_BYTES_MAX).rev().find(|&end| words.is_char_boundary(end)).unwrap_or(0);
            words.truncate(end);
        }
        texts.push(words);
        Ok(())
    })
    .await?;
    let sql = "INSERT INTO search (body, words)
        SELECT u.body, to_tsvector('simple', u.text) FROM unnest($1::BIGINT[], $2::TEXT[]) u (body, text)
        ON CONFLICT (body) DO NOTHING";
    query(db, sql, &[&ids, &texts]).await?;
    query(db, "UPDATE bodies SET is_indexed = true WHERE id = ANY ($1)", &[&ids]).await?;
    let left = query_opt(db, "SELECT count(*) FROM bodies WHERE kind = 0 AND NOT is_indexed", &[]).await?;
    Ok(left.map_or(0, |row| as_index(row.get(0))))
}

pub(super) async fn search(db: &Transaction<'_>, asked: &SearchQuery) -> Result<SearchAnswer, Fault> {
    let search = Search::new(asked)?;
    let session = match &asked.session {
        Some(session) => Some(find(db, session).await?.key),
        None => None,
    };
    let mut places = Places { db, session, layouts: HashMap::new() };
    let mut hits = Vec::new();
    let (mut before, mut examined) = (i64::MAX, 0);
    let mut is_complete = false;
    // Which word follows which is seen in the items only: each is read and looked at.
    let examined_max = if search.phrases.is_empty() { EXAMINED_ITEMS_MAX } else { VERIFIED_ITEMS_MAX };
    while examined < examined_max && hits.len() < search.hits_max {
        let batch = candidates(db, &search, before, session).await?;
        examined += batch.len();
        is_complete = batch.len() < BATCH_ITEMS;
        let bodies: Vec<BodyRow> = batch.iter().map(|(_, body)| body.clone()).collect();
        let mut fitting = Vec::new();
        with_bodies(db, &bodies, |number, bytes, hash| {
            let item = body::decode_item(bytes, hash)?;
            let judged = search.judge(&item).filter(|_| search.holds_phrases(&item));
            fitting.extend(judged.map(|judged| (batch[number].0, item, judged)));
            Ok(())
        })
        .await?;
        for (id, item, (score, excerpt)) in fitting {
            hits.extend(places.hit(id, &item).await?.map(|hit| SearchHit { score, excerpt, ..hit }));
        }
        match batch.last() {
            Some((id, _)) if !is_complete => before = *id,
            Some(_) | None => break,
        }
    }
    hits.sort_by(|one, other| other.score.total_cmp(&one.score));
    is_complete &= hits.len() <= search.hits_max;
    hits.truncate(search.hits_max);
    Ok(SearchAnswer { hits, is_complete })
}

/// The newest bodies before one that have all the words.
async fn candidates(
    db: &Transaction<'_>,
    search: &Search,
    before: i64,
    session: Option<i64>,
) -> Result<Vec<(i64, BodyRow)>, Fault> {
    let words: String = search.phrases.iter().map(|phrase| words_of(phrase)).collect();
    let indexed = match words.is_empty() {
        true => "$4 = ''",
        false => {
            "EXISTS (SELECT 1 FROM search s WHERE s.body = b.id AND s.words @@ plainto_tsquery('simple', $4))"
        }
    };
    let sql = format!(
        "SELECT b.id, b.pack, b.start, b.length, b.hash FROM bodies b
         WHERE b.kind = 0 AND b.id < $1 AND {indexed}
           AND ($3::BIGINT IS NULL OR EXISTS (
             SELECT 1 FROM items i JOIN loops l ON l.id = i.loop WHERE i.body = b.id AND l.session = $3))
         ORDER BY b.id DESC LIMIT $2"
    );
    let rows = query(db, &sql, &[&before, &as_row(BATCH_ITEMS), &session, &words]).await?;
    Ok(rows.iter().map(|row| (row.get(0), BodyRow::of(row, 1))).collect())
}

/// Where bodies stand, and whether the model sees them there.
struct Places<'c> {
    db: &'c Transaction<'c>,
    session: Option<i64>,
    layouts: HashMap<i64, Layout>,
}

impl Places<'_> {
    /// The newest item with this body; nothing where it is garbage.
    async fn hit(&mut self, body: i64, item: &Item) -> Result<Option<SearchHit>, Fault> {
        let sql = "SELECT s.name, s.id, s.version, l.id, l.name, l.top, i.position FROM items i
            JOIN loops l ON l.id = i.loop JOIN sessions s ON s.id = l.session
            WHERE i.body = $1 AND ($2::BIGINT IS NULL OR s.id = $2)
            ORDER BY i.loop DESC, i.position DESC LIMIT 1";
        let Some(row) = query_opt(self.db, sql, &[&body, &self.session]).await? else { return Ok(None) };
        let session = SessionRow { key: row.get(1), version: version(row.get(2)) };
        let (loop_key, position): (i64, usize) = (row.get(3), as_index(row.get(6)));
        if !self.layouts.contains_key(&loop_key) {
            self.layouts.insert(loop_key, layout(self.db, &session, row.get(5)).await?);
        }
        let is_visible = self.layouts.get(&loop_key).is_none_or(|layout| layout.is_visible(position));
        Ok(Some(SearchHit {
            session: row.get::<_, String>(0).into(),
            loop_id: row.get::<_, String>(4).into(),
            item_index: position,
            item_id: item.id.clone(),
            kind: item.kind,
            created_at: item.created_at,
            handle: Handle::of_item(position, &item.id),
            is_visible,
            score: 0.0,
            excerpt: "".into(),
        }))
    }
}
