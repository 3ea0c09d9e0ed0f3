//! Remembers what content costs, so that it is counted once.
//!
//! An agent's history is asked for again at every step, and the same file is read into it many
//! times over. A hash of the text is remembered instead of the text, so the memory in use depends
//! on how many texts there were and not on their length.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldback_core::Tokens;
use foldback_core::tokens::{Precision, TokenCounter};
use xxhash_rust::xxh3::xxh3_128;

/// How many texts a [`CachingCounter`] remembers unless told otherwise: a few megabytes, and more
/// parts than the longest recorded sessions have.
pub const CACHE_ENTRIES_MAX: usize = 64 * 1024;

/// Texts shorter than this are counted every time: that takes about a microsecond, and they would
/// push out longer ones.
pub const CACHED_BYTES_MIN: usize = 64;

/// Wraps a counter so that content it has seen before is not counted again.
///
/// Texts are told apart by a 128-bit xxh3 of their bytes: two texts that happen to share one are
/// not to be expected in the lifetime of a program. The oldest half of what is remembered is
/// forgotten at once when there is no more room, except what was asked for since; with one thread,
/// equal calls therefore always hit and miss alike.
pub struct CachingCounter<C> {
    counter: C,
    memory: Mutex<Memory>,
}

/// What a [`CachingCounter`] did so far. Texts too short to be remembered are in none of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Texts whose count was known, or being asked for by the same call.
    pub hits: u64,
    /// Texts that had to be counted.
    pub misses: u64,
    /// Texts whose count is known now.
    pub entries: usize,
}

impl<C: TokenCounter> CachingCounter<C> {
    /// Remembers up to [`CACHE_ENTRIES_MAX`] counts of `counter`.
    pub fn new(counter: C) -> Self {
        Self::with_entries_max(counter, CACHE_ENTRIES_MAX)
    }

    /// Remembers up to `entries_max` counts of `counter`, and at least two.
    pub fn with_entries_max(counter: C, entries_max: usize) -> Self {
        Self { counter, memory: Mutex::new(Memory::new(entries_max)) }
    }

    /// The counter that counts what is not remembered.
    pub fn counter(&self) -> &C {
        &self.counter
    }

    /// What it did so far.
    pub fn stats(&self) -> CacheStats {
        let memory = self.memory();
        CacheStats {
            hits: memory.hits,
            misses: memory.misses,
            entries: memory.young.len() + memory.old.len(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Nothing that can panic runs under the lock halfway through a change.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: TokenCounter> TokenCounter for CachingCounter<C> {
    fn name(&self) -> &str {
        self.counter.name()
    }

    fn count(&self, text: &str) -> Tokens {
        let Some(key) = Key::of(text) else {
            return self.counter.count(text);
        };
        // The lock is not held while counting: another thread may count the same text meanwhile,
        // and will come to the same answer.
        if let Some(tokens) = self.memory().recall(key) {
            return tokens;
        }
        let tokens = self.counter.count(text);
        let mut memory = self.memory();
        memory.misses += 1;
        memory.remember(key, tokens);
        tokens
    }

    fn precision(&self) -> Precision {
        self.counter.precision()
    }

    fn count_all(&self, texts: &[&str]) -> Vec<Tokens> {
        let keys: Vec<Option<Key>> = texts.iter().map(|text| Key::of(text)).collect();
        let mut unknown = Unknown::default();
        let answers: Vec<Answer> = {
            let mut memory = self.memory();
            let answer = |(text, key)| unknown.answer(&mut memory, text, key);
            texts.iter().copied().zip(keys).map(answer).collect()
        };
        let counted = self.counter.count_all(&unknown.texts);
        let mut memory = self.memory();
        for (&tokens, key) in counted.iter().zip(unknown.keys) {
            if let Some(key) = key {
                memory.remember(key, tokens);
            }
        }
        answers.into_iter().map(|answer| answer.tokens(&counted)).collect()
    }
}

impl<C: fmt::Debug> fmt::Debug for CachingCounter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachingCounter").field(&self.counter).finish()
    }
}

/// Stands for the content of a text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key(u128);

impl Key {
    /// None for a text that is too short to be worth remembering.
    fn of(text: &str) -> Option<Self> {
        (text.len() >= CACHED_BYTES_MIN).then(|| Self(xxh3_128(text.as_bytes())))
    }
}

/// What one call of `count_all` still has to count, each content once.
#[derive(Default)]
struct Unknown<'a> {
    texts: Vec<&'a str>,
    keys: Vec<Option<Key>>,
    index_of: HashMap<Key, usize>,
}

/// The count of one text of a call.
enum Answer {
    Known(Tokens),
    /// Will be what the unknown text of this index counts.
    Unknown(usize),
}

impl Answer {
    fn tokens(self, counted: &[Tokens]) -> Tokens {
        match self {
            Self::Known(tokens) => tokens,
            Self::Unknown(index) => counted[index],
        }
    }
}

impl<'a> Unknown<'a> {
    fn answer(&mut self, memory: &mut Memory, text: &'a str, key: Option<Key>) -> Answer {
        let Some(key) = key else {
            return self.add(text, None);
        };
        if let Some(tokens) = memory.recall(key) {
            return Answer::Known(tokens);
        }
        if let Some(&index) = self.index_of.get(&key) {
            memory.hits += 1;
            return Answer::Unknown(index);
        }
        memory.misses += 1;
        self.index_of.insert(key, self.texts.len());
        self.add(text, Some(key))
    }

    fn add(&mut self, text: &'a str, key: Option<Key>) -> Answer {
        self.texts.push(text);
        self.keys.push(key);
        Answer::Unknown(self.texts.len() - 1)
    }
}

/// Two generations of counts: what was used since the last change of generation, and what was
/// used in the one before it.
struct Memory {
    young: HashMap<Key, Tokens>,
    old: HashMap<Key, Tokens>,
    generation_entries_max: usize,
    hits: u64,
    misses: u64,
}

impl Memory {
    fn new(entries_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            generation_entries_max: (entries_max / 2).max(1),
            hits: 0,
            misses: 0,
        }
    }

    fn recall(&mut self, key: Key) -> Option<Tokens> {
        let tokens = match self.young.get(&key) {
            Some(&tokens) => tokens,
            None => {
                let tokens = self.old.remove(&key)?;
                self.remember(key, tokens);
                tokens
            }
        };
        self.hits += 1;
        Some(tokens)
    }

    fn remember(&mut self, key: Key, tokens: Tokens) {
        if self.young.len() >= self.generation_entries_max {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, tokens);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;
    use crate::bpe::BpeCounter;
    use crate::corpus::Corpus;

    /// Counts bytes, and how often it was asked.
    #[derive(Debug, Default)]
    struct AskedCounter {
        asked: AtomicU64,
    }

    impl TokenCounter for AskedCounter {
        fn name(&self) -> &str {
            "asked"
        }

        fn count(&self, text: &str) -> Tokens {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Tokens(text.len() as u64)
        }

        fn precision(&self) -> Precision {
            Precision::Estimate { upper_factor: 2.0 }
        }
    }

    fn asked(counter: &CachingCounter<AskedCounter>) -> u64 {
        counter.counter().asked.load(Ordering::Relaxed)
    }

    fn text(number: usize) -> String {
        format!("{number:0width$}", width = CACHED_BYTES_MIN + number % 7)
    }

    #[test]
    fn content_seen_before_is_not_counted_again() {
        let counter = CachingCounter::new(AskedCounter::default());
        let copy = text(1);
        assert_eq!(counter.count(&text(1)), Tokens(copy.len() as u64));
        assert_eq!(counter.count(&copy), Tokens(copy.len() as u64));
        assert_eq!(counter.count_all(&[&copy, &text(2), &copy]).len(), 3);
        assert_eq!(asked(&counter), 2);
        assert_eq!(counter.stats(), CacheStats { hits: 3, misses: 2, entries: 2 });
    }

    #[test]
    fn content_repeated_within_one_call_is_counted_once() {
        let counter = CachingCounter::new(AskedCounter::default());
        let (one, two) = (text(1), text(2));
        let counts = counter.count_all(&[&one, &two, &one, &one]);
        let expected = [&one, &two, &one, &one].map(|text| Tokens(text.len() as u64));
        assert_eq!(counts, expected);
        assert_eq!(asked(&counter), 2);
        assert_eq!(counter.stats(), CacheStats { hits: 2, misses: 2, entries: 2 });
    }

    #[test]
    fn short_texts_are_counted_every_time_and_never_remembered() {
        let counter = CachingCounter::new(AskedCounter::default());
        let (short, long) = ("x".repeat(CACHED_BYTES_MIN - 1), text(1));
        counter.count(&short);
        let counts = counter.count_all(&[&short, &long, ""]);
        assert_eq!(counts, [Tokens(short.len() as u64), Tokens(long.len() as u64), Tokens::ZERO]);
        assert_eq!(asked(&counter), 4);
        assert_eq!(counter.stats(), CacheStats { hits: 0, misses: 1, entries: 1 });
    }

    #[test]
    fn it_never_remembers_more_than_it_may() {
        for entries_max in [2, 3, 10] {
            let counter = CachingCounter::with_entries_max(AskedCounter::default(), entries_max);
            for number in 0..100 {
                counter.count(&text(number));
                counter.count(&text(number / 2));
                assert!(counter.stats().entries <= entries_max);
            }
            let all: Vec<String> = (0..100).map(text).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            counter.count_all(&all);
            assert!(counter.stats().entries <= entries_max);
        }
    }

    #[test]
    fn what_is_asked_for_again_outlives_what_is_not() {
        let counter = CachingCounter::with_entries_max(AskedCounter::default(), 20);
        for number in 1..1000 {
            counter.count(&text(0));
            counter.count(&text(number));
        }
        assert_eq!(asked(&counter), 1000);
        counter.count(&text(1));
        assert_eq!(asked(&counter), 1001, "the oldest text was still remembered");
    }

    #[test]
    fn it_answers_what_the_counter_it_wraps_would() {
        let plain = BpeCounter::o200k();
        let counter = CachingCounter::with_entries_max(plain, 100);
        assert_eq!((counter.name(), counter.precision()), (plain.name(), plain.precision()));
        let owned: Vec<String> = Corpus::new(31).chunks(400).collect();
        let texts: Vec<&str> = owned.iter().chain(&owned[100..300]).map(String::as_str).collect();
        let expected = plain.count_all(&texts);
        assert_eq!(counter.count_all(&texts), expected);
        assert_eq!(counter.count_all(&texts), expected);
        assert_eq!(texts.iter().map(|text| counter.count(text)).collect::<Vec<_>>(), expected);
        assert!(counter.stats().hits > 0);
    }

    #[test]
    fn threads_may_share_it() {
        let counter = CachingCounter::with_entries_max(AskedCounter::default(), 50);
        thread::scope(|scope| {
            for start in 0..4 {
                let counter = &counter;
                scope.spawn(move || {
                    for number in 0..2_000 {
                        let text = text((start * 13 + number * 7) % 120);
                        assert_eq!(counter.count(&text), Tokens(text.len() as u64));
                    }
                });
            }
        });
        let stats = counter.stats();
        assert_eq!(stats.hits + stats.misses, 8_000);
        assert_eq!(stats.misses, asked(&counter));
    }
}
