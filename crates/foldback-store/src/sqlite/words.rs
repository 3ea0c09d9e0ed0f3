//! What the index of words knows of bodies, and what it is asked for.
//!
//! Comparing where words stand is what costs: the index does it in every body that has all the words of
//! a phrase, until one fits, and it passes over all the places of common words on the way. So where only a
//! few bodies have the rare words, it is asked for those only, and the bodies that have them are read.

use std::ops::Range;

use foldback_core::Item;
use foldback_engine::store::SearchQuery;
use rusqlite::{Connection, params};

use super::error::Fault;
use crate::find::{RARE_ITEMS_MAX, SESSION_ITEMS_MAX, Search, separated};
use crate::rows::{SessionRow, as_row};
use crate::walk::{
    Bucket, COMMON_PER_MILLE, Counted, Density, Led, Stretch, Terrain, Walk, bucket_words, counted_words,
    samples,
};

/// The sizes of buckets: small ones for words that nearly every body has, large ones for the others. Their
/// words begin with signs that no text has.
const BUCKETS: [Bucket; 2] = [
    Bucket { bits: 12, sign: "\u{e000}", per_mille_min: COMMON_PER_MILLE },
    Bucket { bits: 16, sign: "\u{e001}", per_mille_min: 0 },
];

const TERRAIN: Terrain = Terrain { buckets: &BUCKETS, passed_max: 16_384, growth: 1 };

/// What is indexed of a text: its words, and the buckets that its body is in.
pub(super) fn indexed(body: i64, text: &str) -> String {
    format!("{} {}", separated(text), bucket_words(&BUCKETS, body))
}

/// What the index is asked for.
#[derive(Debug)]
pub(super) struct Asked {
    words: String,
    /// Everything that must occur, where the index is asked for less.
    phrases: Option<String>,
}

impl Asked {
    /// Decides what to ask for, and which way to go.
    pub(super) fn new(
        db: &Connection,
        search: &Search,
        query: &SearchQuery,
        session: Option<&SessionRow>,
    ) -> Result<(Self, Walk), Fault> {
        let bodies = bounds(db, session)?;
        let mut words = counted_words(search);
        // Every body with a single word is a find: nothing is compared, unless only some are in the session.
        if words.len() == 1 && session.is_none() {
            words.clear();
        }
        let counted = densities(db, &words, &bodies)?;
        let rare: Vec<&str> =
            counted.iter().filter(|word| word.per_mille < COMMON_PER_MILLE).map(|word| word.word).collect();
        let all = joined(search.phrases.iter().map(|phrase| separated(phrase)));
        let rare = joined(rare.into_iter());
        let is_rare = !rare.is_empty() && rare != all && are_few(db, &rare)?;
        let per_mille = counted.iter().map(|word| word.per_mille).min();
        let density = match per_mille.filter(|_| !is_rare) {
            Some(per_mille) => {
                // Those that are not in a sample were not counted, and the rarest one leads.
                let passed_words = as_row(counted_words(search).len().saturating_sub(1));
                Some(Density { per_mille, passed_words })
            }
            None => None,
        };
        let (words, phrases) = if is_rare { (rare, Some(all)) } else { (all, None) };
        let led = match (words.is_empty(), session) {
            (false, _) => Led::Words,
            (true, None) => Led::Numbers,
            (true, Some(_)) => Led::NumbersInSession,
        };
        Ok((Self { words, phrases }, Walk::new(TERRAIN, led, bodies, query.before, density)))
    }

    /// What leads to the bodies of a stretch; empty where only their numbers do.
    pub(super) fn within(&self, stretch: &Stretch) -> String {
        match stretch.buckets.is_empty() {
            false => {
                let buckets: Vec<String> = stretch.buckets.iter().map(|bucket| quoted(bucket)).collect();
                format!("({}) AND {}", buckets.join(" OR "), self.words)
            }
            true => self.words.clone(),
        }
    }

    /// Whether a body that the index led to has everything that is looked for.
    pub(super) fn fits(
        &self,
        db: &Connection,
        search: &Search,
        body: i64,
        item: &Item,
    ) -> Result<bool, Fault> {
        let Some(phrases) = &self.phrases else { return Ok(true) };
        if search.holds_phrases(item) {
            return Ok(true);
        }
        if !Search::may_be_spelled_otherwise(item) {
            return Ok(false);
        }
        let sql = "SELECT EXISTS (SELECT 1 FROM search WHERE search MATCH ?1 AND rowid = ?2)";
        Ok(db.prepare_cached(sql)?.query_row(params![phrases, body], |row| row.get(0))?)
    }
}

/// Whether so few bodies have some words that each can be read.
fn are_few(db: &Connection, words: &str) -> Result<bool, Fault> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM search WHERE search MATCH ?1 LIMIT ?2)";
    let limit = as_row(RARE_ITEMS_MAX) + 1;
    let count: i64 = db.prepare_cached(sql)?.query_row(params![words, limit], |row| row.get(0))?;
    Ok(count < limit)
}

/// How often words occur, by a few samples. Where one is not in any of them, the others need not be
/// counted: they are not needed to find it.
fn densities<'w>(
    db: &Connection,
    words: &'w [String],
    bodies: &Range<i64>,
) -> Result<Vec<Counted<'w>>, Fault> {
    let sql = "SELECT count(*) FROM search WHERE search MATCH ?1 AND rowid >= ?2 AND rowid < ?3";
    let mut count = db.prepare_cached(sql)?;
    let samples = samples(bodies);
    let sampled: i64 = samples.iter().map(|sample| sample.end - sample.start).sum();
    let mut counted = Vec::new();
    for word in words {
        let mut found = 0;
        for sample in &samples {
            let here: i64 =
                count.query_row(params![quoted(word), sample.start, sample.end], |row| row.get(0))?;
            found += here;
        }
        let word = Counted { word, per_mille: found * 1_000 / sampled.max(1) };
        if found == 0 {
            return Ok(vec![word]);
        }
        counted.push(word);
    }
    Ok(counted)
}

/// The bodies that can be found: all, or those between the first and the last of a session. A session
/// with very many items is most of the store, and looking for its first would take longer than it saves.
fn bounds(db: &Connection, session: Option<&SessionRow>) -> Result<Range<i64>, Fault> {
    let all = || db.query_row("SELECT coalesce(max(id), 0) + 1 FROM bodies", [], |row| row.get(0));
    let Some(session) = session else { return Ok(1..all()?) };
    let sql = "SELECT coalesce(sum(item_count - shared), 0) FROM live_loops WHERE session = ?1";
    let count: i64 = db.prepare_cached(sql)?.query_row([session.key], |row| row.get(0))?;
    if count > as_row(SESSION_ITEMS_MAX) {
        return Ok(1..all()?);
    }
    let sql = "SELECT coalesce(min(i.body), 1), coalesce(max(i.body), 0) + 1
        FROM loops l CROSS JOIN items i ON i.loop = l.id WHERE l.session = ?1";
    Ok(db.prepare_cached(sql)?.query_row([session.key], |row| Ok(row.get(0)?..row.get(1)?))?)
}

/// Phrases that all must occur, as the index wants to be asked for them.
fn joined(phrases: impl Iterator<Item = impl AsRef<str>>) -> String {
    phrases.map(|phrase| quoted(phrase.as_ref())).collect::<Vec<_>>().join(" ")
}

/// A phrase, as the index wants to be asked for it.
fn quoted(phrase: &str) -> String {
    format!("\"{}\"", phrase.replace('"', "\"\""))
}
