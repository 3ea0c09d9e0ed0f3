//! Finding things: by handle, and by what they say.

use std::collections::HashMap;
use std::ops::Range;

use deadpool_postgres::Transaction;
use foldback_core::{Handle, Item, LoopId, SessionId, Splice, Text};
use foldback_engine::StoreError;
use foldback_engine::store::{HandleTarget, SearchAnswer, SearchHit, SearchQuery};
use tokio_postgres::Row;

use super::error::Fault;
use super::read::{BodyRow, open, splice, with_bodies};
use super::sessions::{all_blocks, find};
use super::{Parameters, query, query_opt, tail};
use crate::body;
use crate::find::{
    BATCH_ITEMS, EXAMINED_ITEMS_MAX, FoundAt, PACK_COST_BYTES, SESSION_ITEMS_MAX, Search, answer, hit,
    place_in, searchable, words_of,
};
use crate::rows::{SessionRow, as_row, chain, index as as_index, segments, version};
use crate::walk::{
    Bucket, COMMON_PER_MILLE, Density, Led, Stretch, Terrain, Walk, bucket_words, counted_words, samples,
};

/// The sizes of buckets: the more bodies have a word, the smaller. The server reads all of a bucket that
/// have the words before it orders them. A text may have such a word too: the bounds on numbers hold beside
/// it.
const BUCKETS: [Bucket; 2] = [
    Bucket { bits: 10, sign: "foldbackten", per_mille_min: COMMON_PER_MILLE },
    Bucket { bits: 13, sign: "foldbackthirteen", per_mille_min: 0 },
];

const TERRAIN: Terrain = Terrain { buckets: &BUCKETS, passed_max: 5_000, growth: 4 };

/// Of a thousand bodies, so many have a word that is nearly everywhere. The index is not asked for it beside
/// rarer ones: it would read all that it knows of the word, to leave hardly a body out.
const EVERYWHERE_PER_MILLE: i64 = 800;

/// Bodies with the rarest of some words among which the server finds those with all of them at once.
const LED_BODIES_MAX: i64 = 32_768;

/// How many places the server keeps of one word, and up to which place.
const PLACES_MAX: usize = 255;
const PLACE_MAX: usize = 16_000;

/// How much more is asked for with each batch.
const BATCH_GROWTH: usize = 4;

/// Bytes of an item's words that are indexed: the server refuses more than a megabyte of words with
/// their places.
const INDEXED_BYTES_MAX: usize = 256 * 1024;

pub(super) async fn locate(
    db: &Transaction<'_>,
    session: &SessionId,
    loop_id: &LoopId,
    handle: &Handle,
) -> Result<HandleTarget, Fault> {
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
    // The server is told which index to go by: it takes all positions of a loop for a few.
    let sql = "WITH named AS MATERIALIZED (SELECT loop, position FROM items WHERE handle = $4)
        SELECT position FROM named WHERE loop = $1 AND position >= $2 AND position < $3 LIMIT 1";
    for (holder, part) in segments(&opened.loops, &opened.row, &(0..usize::MAX))? {
        let row = query_opt(db, sql, &[&holder, &part.start, &part.end, &handle.as_str()]).await?;
        let position = match row {
            Some(row) => Some(row.get(0)),
            None => tail::locate(db, holder, &part, handle).await?,
        };
        if let Some(position) = position {
            return Ok(HandleTarget::Unit { item_index: as_index(position) });
        }
    }
    Err(StoreError::NotFound { what: "content behind handle", id: handle.to_string() }.into())
}

/// Whether there are bodies that the index does not have.
pub(super) async fn is_behind(db: &Transaction<'_>) -> Result<bool, Fault> {
    // In order, because then the server reads the index of those that wait, which is short.
    let sql = "(SELECT 0::BIGINT FROM tail LIMIT 1) UNION ALL
        (SELECT id FROM bodies WHERE kind = 0 AND NOT is_indexed ORDER BY id LIMIT 1)";
    Ok(!query(db, sql, &[]).await?.is_empty())
}

/// Takes new bodies into the index, at most so many; answers how many are left.
pub(super) async fn index(db: &Transaction<'_>, items_max: usize) -> Result<usize, Fault> {
    let sql = "SELECT id, pack, start, length, hash FROM bodies
        WHERE kind = 0 AND NOT is_indexed ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";
    let rows = query(db, sql, &[&as_row(items_max)]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let bodies: Vec<BodyRow> = rows.iter().map(|row| BodyRow::of(row, 1)).collect();
    let (mut texts, mut exact) = (Vec::with_capacity(bodies.len()), Vec::with_capacity(bodies.len()));
    with_bodies(db, &bodies, |_, bytes, hash| {
        let mut words = words_of(&searchable(&body::decode_item(bytes, hash)?));
        if words.len() > INDEXED_BYTES_MAX {
            let end = (0..=INDEXED_BYTES_MAX).rev().find(|&end| words.is_char_boundary(end)).unwrap_or(0);
            words.truncate(end);
        }
        exact.push(are_places_known(&words));
        words.push(' ');
        words.push_str(&bucket_words(&BUCKETS, ids[texts.len()]));
        texts.push(words);
        Ok(())
    })
    .await?;
    let sql = "INSERT INTO search (body, words, is_exact)
        SELECT u.body, to_tsvector('simple', u.text), u.is_exact
        FROM unnest($1::BIGINT[], $2::TEXT[], $3::BOOLEAN[]) u (body, text, is_exact)
        ON CONFLICT (body) DO NOTHING";
    query(db, sql, &[&ids, &texts, &exact]).await?;
    query(db, "UPDATE bodies SET is_indexed = true WHERE id = ANY ($1)", &[&ids]).await?;
    let left = query_opt(db, "SELECT count(*) FROM bodies WHERE kind = 0 AND NOT is_indexed", &[]).await?;
    Ok(left.map_or(0, |row| as_index(row.get(0))) + tail::item_count(db).await?)
}

/// Whether the server keeps every place of every word of a text.
fn are_places_known(words: &str) -> bool {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let are_few = words.split(' ').all(|word| {
        let count = counts.entry(word).or_default();
        *count += 1;
        *count <= PLACES_MAX
    });
    are_few && words.split(' ').count() <= PLACE_MAX
}

pub(super) async fn search(db: &Transaction<'_>, asked: &SearchQuery) -> Result<SearchAnswer, Fault> {
    let search = Search::new(asked)?;
    let session = match &asked.session {
        Some(session) => Some(find(db, session).await?.key),
        None => None,
    };
    let (sought, mut walk) = begin(db, &search, asked, session).await?;
    let mut places = Places { db, session, splices: HashMap::new() };
    let mut hits: Vec<(i64, SearchHit)> = Vec::new();
    let (mut limit, mut read_max) = (BATCH_ITEMS, BATCH_ITEMS);
    while search.wants_more(hits.len())
        && let Some(stretch) = walk.next_stretch()
    {
        let batch = candidates(db, &stretch, &sought, session, limit).await?;
        let mut rest = batch.as_slice();
        while !rest.is_empty() && walk.may_look() && search.wants_more(hits.len()) {
            let (mut count, mut pack) = (0, None);
            while count < rest.len().min(read_max) && walk.may_look() {
                let BodyRow { length, pack: own, .. } = rest[count].1;
                let unpacked = if pack == Some(own) { 0 } else { PACK_COST_BYTES };
                walk.look(search.cost(as_index(length)) + unpacked);
                (count, pack) = (count + 1, Some(own));
            }
            let (looked_at, left) = rest.split_at(count);
            hits.extend(places.hits(fitting(db, &search, looked_at).await?).await?);
            rest = left;
            read_max = (read_max * BATCH_GROWTH).min(EXAMINED_ITEMS_MAX);
        }
        let enough = search.hits_enough().filter(|enough| hits.len() >= *enough);
        hits.truncate(enough.unwrap_or(hits.len()));
        let last_given = enough.and(hits.last());
        walk.advance(match (last_given, rest.first(), batch.last()) {
            (Some((id, _)), ..) => *id,
            (None, Some((id, _)), _) => id + 1,
            (None, None, Some((id, _))) if batch.len() == limit => *id,
            (None, None, _) => stretch.range.start,
        });
        // The index finds all of a stretch again for each batch.
        limit = (limit * BATCH_GROWTH).min(EXAMINED_ITEMS_MAX);
    }
    Ok(answer(hits, &search, &walk))
}

/// What the server is asked for.
struct Sought {
    /// What must stand together.
    phrases: Vec<String>,
    /// All the words.
    words: String,
    /// Those that lead to the bodies.
    leading: String,
}

/// Decides which way to go.
async fn begin(
    db: &Transaction<'_>,
    search: &Search,
    asked: &SearchQuery,
    session: Option<i64>,
) -> Result<(Sought, Walk), Fault> {
    let bodies = bounds(db, session).await?;
    let phrases: Vec<String> = search.phrases.iter().map(|phrase| words_of(phrase)).collect();
    let words = phrases.concat();
    let counted = counted_words(search);
    let led = match (counted.is_empty(), session) {
        (false, _) => Led::Words,
        (true, None) => Led::Numbers,
        (true, Some(_)) => Led::NumbersInSession,
    };
    let (density, leading) = density(db, &counted, &words, &bodies).await?;
    let walk = Walk::new(TERRAIN, led, bodies, asked.before, density);
    Ok((Sought { phrases, words, leading }, walk))
}

/// How often words occur, by a few samples; nothing where the server can find all bodies that have them at
/// once. And the words that lead to them: those that are not everywhere, if there are any.
async fn density(
    db: &Transaction<'_>,
    counted: &[String],
    words: &str,
    bodies: &Range<i64>,
) -> Result<(Option<Density>, String), Fault> {
    if counted.is_empty() {
        return Ok((None, words.to_owned()));
    }
    let sampled: Vec<i64> = samples(bodies).into_iter().flatten().collect();
    let sql = "WITH sampled AS MATERIALIZED (SELECT words FROM search WHERE body = ANY ($2))
        SELECT ARRAY (
            SELECT (SELECT count(*) FROM sampled WHERE sampled.words @@ plainto_tsquery('simple', u.word))
            FROM unnest($1::TEXT[]) WITH ORDINALITY u (word, place) ORDER BY u.place),
          (SELECT count(*) FROM sampled WHERE sampled.words @@ plainto_tsquery('simple', $3))";
    let row = query_opt(db, sql, &[&counted, &sampled, &words]).await?;
    let (found, all): (Vec<i64>, i64) = row.map_or((Vec::new(), 0), |row| (row.get(0), row.get(1)));
    let per_mille = |found: i64| found * 1_000 / as_row(sampled.len()).max(1);
    let estimate = |found: i64| per_mille(found).saturating_mul(bodies.end - bodies.start) / 1_000;
    let everywhere: Vec<&str> = counted
        .iter()
        .zip(&found)
        .filter(|(_, found)| per_mille(**found) >= EVERYWHERE_PER_MILLE)
        .map(|(word, _)| word.as_str())
        .collect();
    let mut leading: Vec<&str> = words.split_whitespace().filter(|word| !everywhere.contains(word)).collect();
    if leading.is_empty() {
        leading = words.split_whitespace().collect();
    }
    let rarest = found.into_iter().min().unwrap_or(0);
    let is_costly = estimate(rarest) > LED_BODIES_MAX || estimate(all) > TERRAIN.passed_max;
    let density = Density { per_mille: per_mille(rarest), passed_words: as_row(leading.len()) };
    Ok((is_costly.then_some(density), leading.join(" ")))
}

/// The bodies that can be found: all, or those between the first and the last of a session. A session
/// with very many items is most of the store, and looking for its first would take longer than it saves.
async fn bounds(db: &Transaction<'_>, session: Option<i64>) -> Result<Range<i64>, Fault> {
    let range = |row: Option<Row>| row.map_or(1..1, |row| row.get(0)..row.get(1));
    if let Some(session) = session {
        let sql = "SELECT coalesce(sum(item_count - shared), 0)::BIGINT FROM loops WHERE session = $1";
        let count: i64 = query_opt(db, sql, &[&session]).await?.map_or(0, |row| row.get(0));
        if count <= as_row(SESSION_ITEMS_MAX) {
            let sql = "SELECT coalesce(min(i.body), 1), coalesce(max(i.body), 0) + 1 FROM items i
                WHERE i.loop = ANY (ARRAY (SELECT id FROM loops WHERE session = $1))";
            return Ok(range(query_opt(db, sql, &[&session]).await?));
        }
    }
    let sql = "SELECT 1::BIGINT, coalesce(max(id), 0) + 1 FROM bodies";
    Ok(range(query_opt(db, sql, &[]).await?))
}

/// The newest bodies of a stretch that have all the words. How they are found is not left to the server,
/// which does not know how common words are: by the index of words, or by number.
async fn candidates(
    db: &Transaction<'_>,
    stretch: &Stretch,
    sought: &Sought,
    session: Option<i64>,
    limit: usize,
) -> Result<Vec<(i64, BodyRow)>, Fault> {
    let Stretch { range, buckets } = stretch;
    let Sought { phrases, words, leading } = sought;
    let in_session = "($4::BIGINT IS NULL OR (SELECT true FROM items i JOIN loops l ON l.id = i.loop
        WHERE i.body = f.body AND l.session = $4 LIMIT 1))";
    let leads = match buckets.is_empty() {
        true => "plainto_tsquery('simple', $5)",
        false => "(plainto_tsquery('simple', $5) && to_tsquery('simple', $8))",
    };
    let found = match words.is_empty() {
        true => {
            "SELECT id AS body FROM bodies WHERE $5::TEXT = $7::TEXT AND kind = 0 AND id >= $1 AND id < $2 ORDER BY id DESC"
                .to_owned()
        }
        false => format!(
            "SELECT body FROM search WHERE words @@ {leads}
               AND ($5::TEXT = $7::TEXT OR words @@ plainto_tsquery('simple', $7))
               AND (NOT is_exact OR coalesce(words @@ (SELECT phrases FROM asked), true))"
        ),
    };
    let form = if words.is_empty() { "NOT MATERIALIZED" } else { "MATERIALIZED" };
    let sql = format!(
        "SELECT b.id, b.pack, b.start, b.length, b.hash FROM bodies b WHERE b.id = ANY (ARRAY (
           WITH asked AS MATERIALIZED (
             SELECT string_agg('(' || phraseto_tsquery('simple', p)::TEXT || ')', ' & ')::TSQUERY AS phrases
             FROM unnest($6::TEXT[]) p WHERE numnode(phraseto_tsquery('simple', p)) > 1),
           f AS {form} ({found})
           SELECT f.body FROM f WHERE f.body >= $1 AND f.body < $2 AND {in_session} AND $8::TEXT IS NOT NULL
           ORDER BY f.body DESC LIMIT $3))
         ORDER BY b.id DESC"
    );
    let (limit, buckets) = (as_row(limit), buckets.join(" | "));
    let parameters: &Parameters<'_> =
        &[&range.start, &range.end, &limit, &session, leading, phrases, words, &buckets];
    let rows = query(db, &sql, parameters).await?;
    Ok(rows.iter().map(|row| (row.get(0), BodyRow::of(row, 1))).collect())
}

/// An item that fits: its body, how well, and the text around the first place.
type Fitting = (i64, Item, f64, Text);

/// Those of some bodies that have everything that is looked for. Which word follows which is seen in the
/// items only: each is read.
async fn fitting(
    db: &Transaction<'_>,
    search: &Search,
    batch: &[(i64, BodyRow)],
) -> Result<Vec<Fitting>, Fault> {
    let bodies: Vec<BodyRow> = batch.iter().map(|(_, body)| body.clone()).collect();
    let mut fitting = Vec::new();
    with_bodies(db, &bodies, |number, bytes, hash| {
        // Checked only where it is given out: most are not.
        let item = body::parse_item(bytes)?;
        if search.holds_phrases(&item)
            && let Some((score, excerpt)) = search.judge(&item)
        {
            body::check(bytes, hash)?;
            fitting.push((batch[number].0, item, score, excerpt));
        }
        Ok(())
    })
    .await?;
    Ok(fitting)
}

/// Where bodies stand, and whether the model sees them there.
struct Places<'c> {
    db: &'c Transaction<'c>,
    session: Option<i64>,
    splices: HashMap<i64, Splice>,
}

impl Places<'_> {
    /// The newest item with each body; nothing where it is garbage.
    async fn hits(&mut self, found: Vec<Fitting>) -> Result<Vec<(i64, SearchHit)>, Fault> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "SELECT DISTINCT ON (i.body)
              i.body, s.name, s.id, s.version, l.id, l.name, l.top, i.position FROM items i
            JOIN loops l ON l.id = i.loop JOIN sessions s ON s.id = l.session
            WHERE i.body = ANY ($1) AND ($2::BIGINT IS NULL OR s.id = $2)
            ORDER BY i.body, i.loop DESC, i.position DESC";
        let bodies: Vec<i64> = found.iter().map(|(body, ..)| *body).collect();
        let rows = query(self.db, sql, &[&bodies, &self.session]).await?;
        let rows: HashMap<i64, Row> = rows.into_iter().map(|row| (row.get(0), row)).collect();
        let mut hits = Vec::new();
        for (body, item, score, excerpt) in found {
            let Some(row) = rows.get(&body) else { continue };
            hits.push((body, hit(self.find(row).await?, &item, score, excerpt)));
        }
        Ok(hits)
    }

    async fn find(&mut self, row: &Row) -> Result<FoundAt, Fault> {
        let session = SessionRow { key: row.get(2), version: version(row.get(3)) };
        let (loop_key, position): (i64, usize) = (row.get(4), as_index(row.get(7)));
        if !self.splices.contains_key(&loop_key) {
            self.splices.insert(loop_key, splice(self.db, &session, row.get(6)).await?);
        }
        let is_visible = self.splices.get(&loop_key).is_none_or(|splice| splice.is_visible(position));
        Ok((row.get(1), row.get(5), position, is_visible))
    }
}
