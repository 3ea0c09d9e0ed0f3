//! What both databases share of searching: what is indexed of an item, what a query asks of it, how
//! well it fits.
//!
//! The databases find the items with the words, newest first; which of them fit best is decided
//! here, so that both rank alike and neither has to count how often a word occurs in everything.

use std::borrow::Cow;

use foldback_core::reading::text_of;
use foldback_core::{Edit, FactKind, Handle, Item, Ledger, Text, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::recall::{excerpt, first_place, relevance, words_in};
use foldback_engine::store::{HandleTarget, SearchAnswer, SearchHit, SearchQuery};
use regex::{Regex, RegexBuilder};

use crate::walk::Walk;

/// Bytes of an item that are indexed and searched.
pub(crate) const SEARCHED_BYTES_MAX: usize = 512 * 1024;

/// Items that are looked at, at a time.
pub(crate) const BATCH_ITEMS: usize = 200;

/// Items and bytes of them that are looked at for one query: what a regular expression or a filter leaves
/// out, and what an index found that lacks the order of the words. The answer says where to go on.
pub(crate) const EXAMINED_ITEMS_MAX: usize = 4_000;
pub(crate) const EXAMINED_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What unpacking counts for beside the bytes of an item, once for each pack: items with rare words lie in
/// a pack each.
pub(crate) const PACK_COST_BYTES: usize = 8 * 1024;

/// How many times more than reading an item finding its facts takes.
const FACTS_COST: usize = 6;

/// Items with the rare words of a query that are read, rather than left to the index to compare.
pub(crate) const RARE_ITEMS_MAX: usize = 500;

/// How many words an index passes over in the time in which it compares where words stand, in one body.
pub(crate) const PASSED_WORDS: i64 = 32;

/// Items of a session among which its first and its last are looked for.
pub(crate) const SESSION_ITEMS_MAX: usize = 20_000;

/// New items that a search takes into the index first; many more are for `index`, which nobody waits
/// for.
pub(crate) const CATCH_UP_ITEMS: usize = 1_000;

/// Hits that a query may ask for.
const HITS_MAX: usize = 1_000;

/// Bytes that a compiled regular expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Bytes of each text of a query.
const QUERY_BYTES_MAX: usize = 16 * 1024;

/// Words and phrases that are looked for at once.
const WORDS_MAX: usize = 64;

/// Where the edit with this handle has its content from.
pub(crate) fn place_in(edits: &[Edit], handle: &Handle) -> Option<HandleTarget> {
    edits.iter().rev().find_map(|edit| match edit {
        Edit::Fold(fold) if fold.handle == *handle => Some(HandleTarget::Ranges(fold.folded().collect())),
        Edit::Rewrite(rewrite) if rewrite.handle == *handle => {
            Some(HandleTarget::Part { item_index: rewrite.item_index, part_index: rewrite.part_index })
        }
        Edit::Fold(_) | Edit::Rewrite(_) | Edit::Drop(_) => None,
    })
}

/// Where an item was found: the names of the session and the loop, its place, whether the model sees it.
pub(crate) type FoundAt = (String, String, usize, bool);

/// An item in which it was found.
pub(crate) fn hit(
    (session, loop_id, position, is_visible): FoundAt,
    item: &Item,
    score: f64,
    excerpt: Text,
) -> SearchHit {
    SearchHit {
        session: session.into(),
        loop_id: loop_id.into(),
        item_index: position,
        item_id: item.id.clone(),
        kind: item.kind,
        created_at: item.created_at,
        handle: Handle::of_item(position, &item.id),
        is_visible,
        score,
        excerpt,
    }
}

/// What is searched of an item: what can be read of its parts.
pub(crate) fn searchable(item: &Item) -> String {
    let mut text = String::new();
    for part in &item.parts {
        let read = text_of(part);
        let room = SEARCHED_BYTES_MAX.saturating_sub(text.len());
        text.push_str(&read[..read.floor_char_boundary(room)]);
        text.push('\n');
    }
    text
}

/// A query, understood.
#[derive(Debug)]
pub(crate) struct Search {
    /// What the index is asked for; every one must occur.
    pub(crate) phrases: Vec<String>,
    hits_max: usize,
    /// The last body that was given, where others that were found are still to be given.
    given: Option<u64>,
    /// What must occur letter by letter: words without letters or digits, which no index knows.
    signs: Vec<String>,
    regex: Option<Regex>,
    fact_kind: Option<FactKind>,
    file: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Search {
    /// Understands a query.
    pub(crate) fn new(query: &SearchQuery) -> Result<Self, StoreError> {
        let unreadable = |why: String| StoreError::Query { why };
        let texts = [("text", &query.text), ("regex", &query.regex), ("file", &query.file)];
        for (name, length) in texts.map(|(name, text)| (name, text.as_ref().map_or(0, String::len))) {
            if length > QUERY_BYTES_MAX {
                return Err(unreadable(format!(
                    "its {name} has {length} bytes, at most {QUERY_BYTES_MAX} are looked for"
                )));
            }
        }
        let regex = query.regex.as_deref().map(|pattern| {
            let compiled = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
            compiled.map_err(|error| unreadable(error.to_string()))
        });
        let words = query.text.as_deref().map(words_in).unwrap_or_default();
        if words.len() > WORDS_MAX {
            let count = words.len();
            return Err(unreadable(format!(
                "it has {count} words, at most {WORDS_MAX} are looked for; put what stands together in quotes"
            )));
        }
        let (mut phrases, signs): (Vec<String>, Vec<String>) =
            words.into_iter().partition(|word| is_word(word));
        phrases.extend(query.file.iter().filter(|file| is_word(file)).cloned());
        let search = Self {
            phrases,
            hits_max: query.limit.min(HITS_MAX),
            given: query.before.and_then(|before| before.left).map(|left| left.given),
            signs,
            regex: regex.transpose()?,
            fact_kind: query.fact_kind,
            file: query.file.clone(),
            since: query.since,
            until: query.until,
        };
        let asks_nothing = search.phrases.is_empty()
            && search.signs.is_empty()
            && search.regex.is_none()
            && search.fact_kind.is_none()
            && search.file.is_none()
            && (search.since, search.until) == (None, None);
        if asks_nothing {
            return Err(unreadable(
                "it asks for nothing; give words, a regular expression or a filter".to_owned(),
            ));
        }
        Ok(search)
    }

    /// Whether every phrase stands in an item word for word: for indices that do not know which word
    /// follows which.
    pub(crate) fn holds_phrases(&self, item: &Item) -> bool {
        let words = words_of(&searchable(item));
        let stands = |phrase: &String| {
            let phrase = words_of(phrase);
            words.starts_with(&phrase) || words.contains(&format!(" {phrase}"))
        };
        self.phrases.iter().all(stands)
    }

    /// Whether the index may know words of an item that [`Self::holds_phrases`] does not: it leaves
    /// accents out.
    pub(crate) fn may_be_spelled_otherwise(item: &Item) -> bool {
        let is_accented = |c: char| !c.is_ascii() && c.is_alphabetic() && !is_written_without_spaces(c);
        searchable(item).contains(is_accented)
    }

    /// How many hits end the search at once: where no item fits better than another, the newest come first,
    /// and what comes behind them is looked at by the next.
    pub(crate) fn hits_enough(&self) -> Option<usize> {
        (self.phrases.is_empty() && self.given.is_none()).then_some(self.hits_max)
    }

    /// Whether to look at more where so many hits were found. What is left of an earlier search is ranked as
    /// it was, which takes all of it.
    pub(crate) fn wants_more(&self, hits: usize) -> bool {
        self.hits_max > 0 && (self.given.is_some() || hits < self.hits_max)
    }

    /// What looking at an item of so many bytes counts for.
    pub(crate) fn cost(&self, bytes: usize) -> usize {
        if self.fact_kind.is_some() { bytes.saturating_mul(FACTS_COST) } else { bytes }
    }

    /// How well an item fits, and the text around the first place; nothing where it does not.
    pub(crate) fn judge(&self, item: &Item) -> Option<(f64, Text)> {
        let is_recorded_in_time =
            self.since.is_none_or(|since| item.created_at.is_some_and(|at| at >= since))
                && self.until.is_none_or(|until| item.created_at.is_some_and(|at| at < until));
        if !is_recorded_in_time {
            return None;
        }
        let text = searchable(item);
        let found = self.regex.as_ref().map(|regex| regex.find(&text).map(|found| found.range()));
        if matches!(found, Some(None)) || self.signs.iter().any(|sign| !text.contains(sign.as_str())) {
            return None;
        }
        if self.file.as_ref().is_some_and(|file| !text.contains(file.as_str())) || !self.holds_fact(item) {
            return None;
        }
        let lower = text.to_lowercase();
        // From zero up: the sum of nothing is below it, and prints so.
        let score =
            self.phrases.iter().fold(0.0, |score, phrase| score + relevance(&lower, &phrase.to_lowercase()));
        let sought = self.phrases.iter().chain(&self.signs).map(String::as_str);
        let place = found.flatten().or_else(|| first_place(&text, &lower, sought)).unwrap_or(0..0);
        Some((score, excerpt(&text, &place)))
    }

    fn holds_fact(&self, item: &Item) -> bool {
        let Some(kind) = self.fact_kind else { return true };
        let mut ledger = Ledger::new();
        ledger.push(0, item);
        let holds = |fact: &foldback_core::Fact| {
            let fact = fact.text.to_lowercase();
            self.phrases.iter().all(|phrase| fact.contains(&phrase.to_lowercase()))
        };
        ledger.of_kind(kind).any(holds)
    }
}

/// The best of what was found, with the bodies it was found in and not given before, and where to go on.
pub(crate) fn answer(mut hits: Vec<(i64, SearchHit)>, search: &Search, walk: &Walk) -> SearchAnswer {
    hits.sort_by(|(body, one), (other_body, other)| {
        other.score.total_cmp(&one.score).then(other_body.cmp(body))
    });
    if let Some(given) = search.given {
        // Where the last one is gone, they are given again: twice is better than never.
        let given = hits.iter().position(|(body, _)| body.unsigned_abs() == given);
        hits.drain(..given.map_or(0, |given| given + 1));
    }
    let is_left = hits.len() > search.hits_max;
    hits.truncate(search.hits_max);
    let next = match hits.last() {
        Some((body, _)) if is_left => Some(walk.again(*body)),
        Some(_) | None => walk.next(),
    };
    let hits: Vec<SearchHit> = hits.into_iter().map(|(_, hit)| hit).collect();
    SearchAnswer { hits, is_complete: next.is_none(), next }
}

/// Text as an index of whole words sees it: letters and digits in lower case, single spaces between.
pub(crate) fn words_of(text: &str) -> String {
    let text = separated(text);
    let mut words = String::with_capacity(text.len() + 1);
    let pieces = text.split(|character: char| !character.is_alphanumeric());
    for word in pieces.filter(|word| !word.is_empty()) {
        let start = words.len();
        match word.is_ascii() {
            true => {
                words.push_str(word);
                words[start..].make_ascii_lowercase();
            }
            false => words.push_str(&word.to_lowercase()),
        }
        words.push(' ');
    }
    words
}

/// Text in which each sign of a writing without spaces stands alone, so that an index of words knows
/// it; a word of several signs is then a phrase.
pub(crate) fn separated(text: &str) -> Cow<'_, str> {
    if !text.contains(is_written_without_spaces) {
        return Cow::Borrowed(text);
    }
    let mut apart = String::with_capacity(text.len() + text.len() / 3);
    for character in text.chars() {
        match is_written_without_spaces(character) {
            true => apart.extend([' ', character, ' ']),
            false => apart.push(character),
        }
    }
    Cow::Owned(apart)
}

/// Chinese characters, and the syllables of Japanese.
fn is_written_without_spaces(character: char) -> bool {
    matches!(character,
        '\u{3005}'..='\u{3007}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{323af}')
}

fn is_word(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_without_words_is_a_typed_error() {
        assert!(Search::new(&SearchQuery::text("  \"\" ")).is_err());
    }

    #[test]
    fn a_regular_expression_that_cannot_be_read_is_a_typed_error() {
        for pattern in ["(", "(a{1000}){1000}"] {
            let query = SearchQuery { regex: Some(pattern.to_owned()), ..SearchQuery::default() };
            assert!(matches!(Search::new(&query), Err(StoreError::Query { .. })), "{pattern}");
        }
    }

    #[test]
    fn every_filter_must_hold() {
        let mut item = Item::user("u", "Never touch src/lexer.rs -> ask first");
        item.created_at = Some(Timestamp(50));
        let asks = |query: SearchQuery| Search::new(&query).unwrap().judge(&item).is_some();
        let words = || SearchQuery::text("touch ->");
        assert!(asks(words()));
        assert!(!asks(SearchQuery::text("touch =>")));
        assert!(asks(SearchQuery { regex: Some("l.xer".to_owned()), ..words() }));
        assert!(!asks(SearchQuery { regex: Some("^l.xer".to_owned()), ..words() }));
        assert!(asks(SearchQuery { fact_kind: Some(FactKind::Constraint), ..words() }));
        assert!(!asks(SearchQuery { fact_kind: Some(FactKind::Error), ..words() }));
        assert!(!asks(SearchQuery { file: Some("parser.rs".to_owned()), ..words() }));
        assert!(asks(SearchQuery { since: Some(Timestamp(50)), until: Some(Timestamp(51)), ..words() }));
        assert!(!asks(SearchQuery { until: Some(Timestamp(50)), ..words() }));
    }

    #[test]
    fn chinese_and_japanese_are_indexed_sign_by_sign() {
        assert_eq!(words_of("a压缩b, カナ ok"), "a 压 缩 b カ ナ ok ");
        assert_eq!(separated("no signs"), Cow::Borrowed("no signs"));
        let item = Item::user("u", "会话压缩之后仍然有效");
        let holds = |text: &str| Search::new(&SearchQuery::text(text)).unwrap().holds_phrases(&item);
        assert!(holds("压缩") && holds("有效 会话"));
        assert!(!holds("缩压"), "in this order");
    }
}
