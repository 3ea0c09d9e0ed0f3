//! The way of a search from the newest bodies to the oldest, and where it ends for now.
//!
//! How often words occur is estimated first, from a few samples. Where one is rare, an index leads to the
//! few bodies that have it, wherever they are. Where all are common, it would lead to very many, so the
//! newest bodies are searched bucket by bucket, and what that costs is counted. A bucket is a word of its
//! own that all its bodies have: an index gives up where the bucket ends, which it would not do for a bound
//! on numbers.

use std::ops::Range;

use foldback_engine::store::{SearchCursor, SearchLeft};

use crate::find::{EXAMINED_BYTES_MAX, EXAMINED_ITEMS_MAX, PASSED_WORDS, Search, words_of};
use crate::rows::as_row;

/// Words that are counted; the rarest of these decides.
const WORDS_MAX: usize = 12;

/// Places at which is counted how many bodies have a word, and bodies that are counted at each.
const SAMPLES: i64 = 8;
const SAMPLE_BODIES: i64 = 32;

/// Buckets that are asked for at once.
const BUCKETS_MAX: i64 = 64;

/// Of a thousand bodies, so many have a word that is common.
pub(crate) const COMMON_PER_MILLE: i64 = 250;

/// Bodies that are next to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// How many there are: two to the power of this.
    pub(crate) bits: u32,
    /// What begins the word that they share.
    pub(crate) sign: &'static str,
    /// It is for words that at least so many of a thousand bodies have.
    pub(crate) per_mille_min: i64,
}

impl Bucket {
    pub(crate) fn word(self, body: i64) -> String {
        format!("{}{}", self.sign, body >> self.bits)
    }

    /// The bodies of the bucket that this one is in.
    fn around(self, body: i64) -> Range<i64> {
        let first = body >> self.bits << self.bits;
        first..first + (1 << self.bits)
    }
}

/// How a store leads to bodies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terrain {
    /// From those for the most common words to those for the rarest.
    pub(crate) buckets: &'static [Bucket],
    /// Bodies that are passed for one query, by estimate: in each is compared where words stand, or whether
    /// it is in the session. A phrase of words that are in every item is looked for in the newest so many.
    /// What has a rare word is found wherever it is, and costs none of them.
    pub(crate) passed_max: i64,
    /// How many times more buckets are asked for at once than the time before: where asking takes as long as
    /// looking, one by one is slow, and all at once is too much where the newest is enough.
    pub(crate) growth: i64,
}

/// The words of the buckets that a body is in.
pub(crate) fn bucket_words(buckets: &[Bucket], body: i64) -> String {
    buckets.iter().map(|bucket| bucket.word(body)).collect::<Vec<_>>().join(" ")
}

/// A word, and how many of a thousand bodies have it.
#[derive(Clone, Debug)]
pub(crate) struct Counted<'w> {
    pub(crate) word: &'w str,
    pub(crate) per_mille: i64,
}

/// Where a search looks next: the bodies, and the words of their buckets where the index is to be asked for
/// one of these too.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) range: Range<i64>,
    pub(crate) buckets: Vec<String>,
}

/// What bodies are led to by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Led {
    /// An index of words.
    Words,
    /// Their numbers alone.
    Numbers,
    /// Their numbers, and what is not in the session is passed over.
    NumbersInSession,
}

/// How often the words of a query occur.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Density {
    /// How many of a thousand bodies have the rarest word.
    pub(crate) per_mille: i64,
    /// How many words the index passes over to find those bodies.
    pub(crate) passed_words: i64,
}

impl Density {
    /// What it costs to pass so many bodies; one at least, so that every walk ends.
    fn cost(self, bodies: i64) -> i64 {
        let compared = bodies.saturating_mul(self.per_mille) / 1_000;
        let passed = bodies.saturating_mul(self.passed_words) / PASSED_WORDS;
        (compared + passed).max(1)
    }
}

/// Where a search has come to, and what it may still look at.
#[derive(Debug)]
pub(crate) struct Walk {
    buckets: &'static [Bucket],
    led: Led,
    /// The first body that can be found.
    first: i64,
    /// Where it began.
    end: i64,
    /// What was not looked at yet, of what is to be looked at.
    rest: Range<i64>,
    /// What passing a thousand bodies costs, where that is too much for all at once.
    density: Option<Density>,
    /// What may still be spent on passing bodies.
    left: i64,
    /// How many buckets come next.
    stride: i64,
    growth: i64,
    items_left: usize,
    bytes_left: usize,
}

impl Walk {
    /// Begins at the newest body of a range, or where an earlier search stopped: where that found more than it
    /// gave, it looks at the same bodies again. `density` is how often words occur, where that matters.
    pub(crate) fn new(
        terrain: Terrain,
        led: Led,
        bodies: Range<i64>,
        before: Option<SearchCursor>,
        density: Option<Density>,
    ) -> Self {
        let first = bodies.start;
        let clamped = |number: u64| as_row(usize::try_from(number).unwrap_or(usize::MAX)).max(first);
        let (start, end) = match before {
            None => (first, bodies.end),
            Some(SearchCursor { reached, left: None }) => (first, clamped(reached)),
            Some(SearchCursor { reached, left: Some(left) }) => (clamped(reached), clamped(left.end)),
        };
        let end = end.min(bodies.end).max(first);
        // By the whole way, so that the same bodies are led to in the same way again: an index that is not
        // asked for buckets looks for words far behind the last of them.
        let rest = first..end;
        let Terrain { buckets, passed_max: left, growth } = terrain;
        let is_costly = |density: &Density| density.cost(rest.end - rest.start) > left;
        let density = match led {
            Led::Words => density.filter(is_costly),
            Led::Numbers => None,
            // Each is passed, in the session or not.
            Led::NumbersInSession => Some(Density { per_mille: 1_000, passed_words: 0 }),
        };
        let rest = start.min(end)..end;
        let (items_left, bytes_left) = (EXAMINED_ITEMS_MAX, EXAMINED_BYTES_MAX);
        Self { buckets, led, first, end, rest, density, left, stride: 1, growth, items_left, bytes_left }
    }

    /// Where to look next; nothing at the end, or where enough was looked at.
    pub(crate) fn next_stretch(&self) -> Option<Stretch> {
        if self.rest.is_empty() || self.left <= 0 || !self.may_look() {
            return None;
        }
        let Some(density) = self.density else {
            return Some(Stretch { range: self.rest.clone(), buckets: Vec::new() });
        };
        let fits = |bucket: &&Bucket| density.per_mille >= bucket.per_mille_min;
        let bucket = self.buckets.iter().find(fits).or(self.buckets.last());
        let bucket = bucket.expect("every store has buckets");
        let around = bucket.around(self.rest.end - 1);
        let size = around.end - around.start;
        // One of which a part can still be paid for is walked whole.
        let count = self.stride.min(1 + (self.left - 1) / density.cost(size)).min(BUCKETS_MAX);
        let start = (around.end - count * size).max(self.rest.start);
        let range = start..self.rest.end;
        let firsts = (bucket.around(start).start..range.end).step_by(size as usize);
        let buckets = match self.led {
            Led::Words => firsts.map(|first| bucket.word(first)).collect(),
            Led::Numbers | Led::NumbersInSession => Vec::new(),
        };
        Some(Stretch { range, buckets })
    }

    /// Whether another item may be looked at.
    pub(crate) fn may_look(&self) -> bool {
        self.items_left > 0 && self.bytes_left > 0
    }

    /// An item that counts for so many bytes is looked at.
    pub(crate) fn look(&mut self, bytes: usize) {
        self.items_left = self.items_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
    }

    /// Everything from `reached` on has been looked at.
    pub(crate) fn advance(&mut self, reached: i64) {
        let walked = self.rest.end - reached;
        self.left -= self.density.map_or(0, |density| density.cost(walked));
        self.stride = (self.stride * self.growth).min(BUCKETS_MAX);
        self.rest.end = reached.max(self.rest.start);
    }

    /// Where older bodies are that were not looked at.
    pub(crate) fn next(&self) -> Option<SearchCursor> {
        (self.rest.end > self.first).then(|| SearchCursor::at(self.rest.end.unsigned_abs()))
    }

    /// Where what was found is found again, behind this body.
    pub(crate) fn again(&self, given: i64) -> SearchCursor {
        let left = SearchLeft { end: self.end.unsigned_abs(), given: given.unsigned_abs() };
        SearchCursor { reached: self.rest.end.unsigned_abs(), left: Some(left) }
    }
}

/// The words of a query whose number matters, the longest first: long ones are rare more often.
pub(crate) fn counted_words(search: &Search) -> Vec<String> {
    let mut words: Vec<String> = search
        .phrases
        .iter()
        .flat_map(|phrase| words_of(phrase).split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    words.sort_by(|one, other| other.chars().count().cmp(&one.chars().count()).then(one.cmp(other)));
    words.dedup();
    words.truncate(WORDS_MAX);
    words
}

/// Where words are counted: a few bodies at a few places, the newest first.
pub(crate) fn samples(range: &Range<i64>) -> Vec<Range<i64>> {
    let step = ((range.end - range.start) / SAMPLES).max(SAMPLE_BODIES);
    let mut samples = Vec::new();
    let mut end = range.end;
    while end > range.start {
        samples.push(range.start.max(end - SAMPLE_BODIES)..end);
        end -= step;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKETS: [Bucket; 2] = [
        Bucket { bits: 4, sign: "few", per_mille_min: COMMON_PER_MILLE },
        Bucket { bits: 9, sign: "many", per_mille_min: 0 },
    ];

    const TERRAIN: Terrain = Terrain { buckets: &BUCKETS, passed_max: 10_000, growth: 3 };

    fn density(per_mille: i64, passed_words: i64) -> Option<Density> {
        Some(Density { per_mille, passed_words })
    }

    fn walk(led: Led, count: i64, density: Option<Density>) -> Walk {
        Walk::new(TERRAIN, led, 1..count + 1, None, density)
    }

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

    #[test]
    fn a_rare_word_is_looked_for_everywhere_at_once_and_a_common_one_bucket_by_bucket() {
        let count = 10 * TERRAIN.passed_max;
        let rare = walk(Led::Words, count, density(1, 0)).next_stretch().unwrap();
        assert_eq!((rare.range, rare.buckets), (1..count + 1, Vec::new()));
        let common = walk(Led::Words, count, density(900, 0)).next_stretch().unwrap();
        assert_eq!(common.buckets, [BUCKETS[0].word(count)]);
        assert_eq!(common.range, BUCKETS[0].around(count).start..count + 1);
        let passing = walk(Led::Words, count, density(1, 5)).next_stretch().unwrap();
        assert_eq!(passing.buckets, [BUCKETS[1].word(count)], "common words beside a rare one");
        let between = walk(Led::Words, count, density(200, 0)).next_stretch().unwrap();
        assert_eq!(between.buckets, [BUCKETS[1].word(count)]);
    }

    #[test]
    fn each_stretch_has_more_buckets_than_the_one_before_until_the_rest_cannot_be_paid_for() {
        // Up to the end of a bucket.
        let mut walk = walk(Led::Words, (200 << BUCKETS[1].bits) - 1, density(200, 0));
        let mut counts = Vec::new();
        while let Some(stretch) = walk.next_stretch() {
            let of =
                |body: i64| stretch.buckets.iter().filter(|word| **word == BUCKETS[1].word(body)).count();
            assert!(stretch.range.clone().step_by(100).all(|body| of(body) == 1), "{stretch:?}");
            assert_eq!((of(stretch.range.start - 1), of(stretch.range.end)), (0, 0));
            counts.push(stretch.buckets.len());
            walk.advance(stretch.range.start);
        }
        let bodies: usize = counts.iter().map(|count| count * (1 << BUCKETS[1].bits)).sum();
        assert_eq!(counts[..4], [1, 3, 9, 27]);
        assert!((50_000..51_000).contains(&bodies), "a fifth of them is compared: {bodies}");
    }

    #[test]
    fn every_walk_ends_and_the_next_one_goes_on_where_it_did() {
        for led in [Led::Words, Led::Numbers, Led::NumbersInSession] {
            let bodies = 1..40_000_i64;
            let (mut before, mut seen, mut walks) = (None, 0, 0);
            loop {
                let mut walk = Walk::new(TERRAIN, led, bodies.clone(), before, density(1_000, 2));
                while let Some(stretch) = walk.next_stretch() {
                    let mut reached = stretch.range.end;
                    while reached > stretch.range.start && walk.may_look() {
                        walk.look(1_000);
                        (reached, seen) = (reached - 1, seen + 1);
                    }
                    walk.advance(reached);
                }
                walks += 1;
                before = walk.next();
                if before.is_none() {
                    break;
                }
            }
            assert_eq!((seen, walks > 5), (39_999, true), "{led:?}");
        }
    }

    #[test]
    fn bodies_that_are_looked_at_again_are_led_to_as_before() {
        for density in [density(1, 0), density(200, 0), density(1_000, 2)] {
            let bodies = 1..10 * TERRAIN.passed_max;
            let stretches = |walk: &mut Walk| {
                let mut stretches = Vec::new();
                while let Some(stretch) = walk.next_stretch().filter(|_| stretches.len() < 3) {
                    walk.advance(stretch.range.start);
                    stretches.push((stretch.range, stretch.buckets));
                }
                stretches
            };
            let mut walk = Walk::new(TERRAIN, Led::Words, bodies.clone(), None, density);
            let expected = stretches(&mut walk);
            // Others were added since.
            let (cursor, bodies) = (walk.again(5), bodies.start..bodies.end + 50);
            let mut again = Walk::new(TERRAIN, Led::Words, bodies, Some(cursor), density);
            assert_eq!(stretches(&mut again), expected);
            assert!(again.next_stretch().is_none(), "no more than before");
            assert_eq!(again.next(), walk.next());
        }
    }

    #[test]
    fn a_place_to_go_on_at_that_no_search_named_ends_at_once() {
        for (reached, end) in [(9, 3), (u64::MAX, u64::MAX), (0, 0), (u64::MAX, 0)] {
            let cursor = SearchCursor { reached, left: Some(SearchLeft { end, given: 7 }) };
            let walk = Walk::new(TERRAIN, Led::Numbers, 5..100, Some(cursor), None);
            assert!(walk.next_stretch().is_none(), "{cursor:?}");
        }
    }

    #[test]
    fn large_items_use_up_what_may_be_looked_at() {
        let mut walk = walk(Led::Numbers, 100, None);
        assert!(walk.may_look());
        walk.look(EXAMINED_BYTES_MAX);
        assert!(!walk.may_look() && walk.next_stretch().is_none());
        walk.advance(90);
        assert_eq!(walk.next(), Some(SearchCursor::at(90)));
    }

    #[test]
    fn samples_lie_in_the_range_and_a_small_one_is_counted_whole() {
        assert_eq!(samples(&(1..11)), vec![Range { start: 1, end: 11 }]);
        let all = samples(&(1..1_000_001));
        assert_eq!(all.len(), SAMPLES as usize);
        assert!(all.iter().all(|sample| sample.start >= 1 && sample.end - sample.start == SAMPLE_BODIES));
    }
}
