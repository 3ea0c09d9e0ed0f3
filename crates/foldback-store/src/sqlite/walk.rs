//! The way of a search through the index, from the newest bodies to the oldest.
//!
//! Comparing where words stand is what costs: the index does it in every body that has all the words of
//! a phrase, until one fits. So how often the words occur is estimated first, from a few samples. Where
//! some are rare, the index is asked for those only, and the few bodies that have them are read. Where
//! all are common, the newest bodies are searched bucket by bucket, and what that costs is counted. A
//! bucket is a word of its own that all its bodies have: the index gives up where the bucket ends, which
//! it would not do for a bound on numbers.

use std::ops::Range;

use foldback_core::Item;
use rusqlite::{Connection, params};

use super::error::Fault;
use crate::find::{COMPARED_ITEMS_MAX, EXAMINED_ITEMS_MAX, Search, separated, words_of};
use crate::rows::{SessionRow, as_row};

/// Places at which is counted how many bodies have a word, and bodies that are counted at each.
const SAMPLES: i64 = 8;
const SAMPLE_BODIES: i64 = 32;

/// Words that are counted; the rarest of these decides.
const WORDS_MAX: usize = 12;

/// The sizes of buckets: small ones for words that nearly every body has, large ones for the others.
const BUCKETS: [Bucket; 2] = [Bucket { bits: 12, sign: '\u{e000}' }, Bucket { bits: 16, sign: '\u{e001}' }];

/// Of a thousand bodies, so many have a word for which small buckets are used.
const COMMON_PER_MILLE: i64 = 250;

/// Bodies that are next to each other, and what begins the word that they share: a sign that no text
/// has.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    bits: u32,
    sign: char,
}

impl Bucket {
    fn word(self, body: i64) -> String {
        format!("{}{}", self.sign, body >> self.bits)
    }

    /// The bodies of the bucket that this one is in.
    fn around(self, body: i64) -> Range<i64> {
        let first = body >> self.bits << self.bits;
        first..first + (1 << self.bits)
    }
}

/// What is indexed of a text: its words, and the buckets that its body is in.
pub(super) fn indexed(body: i64, text: &str) -> String {
    let buckets = BUCKETS.map(|bucket| bucket.word(body)).join(" ");
    format!("{} {buckets}", separated(text))
}

/// Where a search looks next: the bodies, and what the index is asked for.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) range: Range<i64>,
    pub(super) words: String,
}

/// Where a search has come to.
pub(super) struct Walk {
    /// What the index is asked for.
    words: String,
    /// Everything that must occur, where the index is asked for less.
    phrases: Option<String>,
    /// What was not looked at yet.
    rest: Range<i64>,
    /// How many of a thousand bodies have the rarest word, where that is too many to compare them all.
    density: Option<i64>,
    left: i64,
}

impl Walk {
    pub(super) fn new(db: &Connection, search: &Search, session: Option<&SessionRow>) -> Result<Self, Fault> {
        let rest = bounds(db, session)?;
        let all = joined(search.phrases.iter().map(|phrase| separated(phrase)));
        let compared = compared_words(search, session);
        let counted = densities(db, &compared, &rest)?;
        let rare: Vec<&str> =
            counted.iter().filter(|word| word.per_mille < COMMON_PER_MILLE).map(|word| word.word).collect();
        let (words, phrases) = match rare.is_empty() {
            true => (all, None),
            false => (joined(rare.into_iter()), Some(all)),
        };
        let left = as_row(COMPARED_ITEMS_MAX);
        let is_costly = |density: &i64| density.saturating_mul(rest.end - rest.start) / 1_000 > left;
        let density = counted.iter().map(|word| word.per_mille).min().filter(is_costly);
        let phrases = phrases.filter(|phrases| *phrases != words);
        Ok(Self { words, phrases, rest, density, left })
    }

    /// Whether what it leads to may lack some of the words.
    pub(super) fn is_partial(&self) -> bool {
        self.phrases.is_some()
    }

    /// Whether a body that the walk led to has everything that is looked for.
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

    /// Where to look next; nothing at the end, or where enough was compared.
    pub(super) fn next_stretch(&self) -> Option<Stretch> {
        if self.rest.is_empty() || self.left <= 0 {
            return None;
        }
        let Some(density) = self.density else {
            return Some(Stretch { range: self.rest.clone(), words: self.words.clone() });
        };
        let bucket = BUCKETS[usize::from(density < COMMON_PER_MILLE)];
        let newest = self.rest.end - 1;
        let start = bucket.around(newest).start.max(self.rest.start);
        let words = format!("{} {}", quoted(&bucket.word(newest)), self.words);
        Some(Stretch { range: start..self.rest.end, words })
    }

    /// Everything from `reached` on has been looked at.
    pub(super) fn advance(&mut self, reached: i64) {
        let walked = self.rest.end - reached;
        // One at least, so that it ends.
        self.left -= self.density.map_or(0, |density| (walked * density / 1_000).max(1));
        self.rest.end = reached.max(self.rest.start);
    }

    /// Whether everything has been looked at.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }
}

/// The words whose places would be compared. Every body with a single word is a find: nothing is
/// compared then, unless only some of them are in the session.
fn compared_words(search: &Search, session: Option<&SessionRow>) -> Vec<String> {
    let mut words: Vec<String> = search
        .phrases
        .iter()
        .flat_map(|phrase| words_of(phrase).split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    // Long ones are rare more often: the sooner a rare word is found, the fewer are counted.
    words.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    words.dedup();
    words.truncate(WORDS_MAX);
    if words.len() == 1 && session.is_none() {
        words.clear();
    }
    words
}

/// A word, and how many of a thousand bodies have it.
struct Counted<'w> {
    word: &'w str,
    per_mille: i64,
}

/// How often words occur, by a few samples. Where one is not in any of them, the others need not be
/// counted: they are not needed to find it.
fn densities<'w>(
    db: &Connection,
    words: &'w [String],
    range: &Range<i64>,
) -> Result<Vec<Counted<'w>>, Fault> {
    let sql = "SELECT count(*) FROM search WHERE search MATCH ?1 AND rowid >= ?2 AND rowid < ?3";
    let mut count = db.prepare_cached(sql)?;
    let step = ((range.end - range.start) / SAMPLES).max(SAMPLE_BODIES);
    let mut counted = Vec::new();
    for word in words {
        let (mut found, mut sampled) = (0, 0);
        let mut end = range.end;
        while end > range.start {
            let start = range.start.max(end - SAMPLE_BODIES);
            let here: i64 = count.query_row(params![quoted(word), start, end], |row| row.get(0))?;
            (found, sampled, end) = (found + here, sampled + end - start, end - step);
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
    let sql = "SELECT coalesce(sum(item_count - shared), 0) FROM loops WHERE session = ?1";
    let count: i64 = db.prepare_cached(sql)?.query_row([session.key], |row| row.get(0))?;
    if count > as_row(EXAMINED_ITEMS_MAX) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_and_its_neighbours_share_a_bucket() {
        for bucket in BUCKETS {
            for body in [1, 4_095, 4_096, 70_000, 1_000_000] {
                let around = bucket.around(body);
                assert!(around.contains(&body));
                assert_eq!(bucket.word(around.start), bucket.word(around.end - 1));
                assert_ne!(bucket.word(body), bucket.word(around.end));
            }
        }
    }
}
