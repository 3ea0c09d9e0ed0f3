//! Exact token counts for OpenAI's encodings, behind core's [`TokenCounter`] port.
//!
//! A crate of its own because core may have neither threads nor megabytes of vocabulary:
//!
//! - [`BpeCounter`] counts what the tokenizer itself would answer, on several threads where many
//!   texts are asked for at once, from vocabularies that are part of the program;
//! - [`CachingCounter`] wraps any counter and remembers content it has counted before;
//! - [`Encoding::for_model`] says which vocabulary a model reads, where that is known.
//!
//! ```
//! use foldback_core::tokens::TokenCounter;
//! use foldback_tokens::{BpeCounter, CachingCounter, Encoding};
//!
//! let encoding = Encoding::for_model("gpt-5-mini").unwrap_or(Encoding::O200k);
//! let counter = CachingCounter::new(BpeCounter::new(encoding));
//! counter.counter().warm();
//!
//! let history = ["fn main() {}".repeat(100), "どうもありがとう".repeat(50)];
//! let texts: Vec<&str> = history.iter().map(String::as_str).collect();
//! let first = counter.count_all(&texts);
//! assert_eq!(counter.count_all(&texts), first);
//! assert_eq!(counter.stats().hits, 2);
//! ```
//!
//! [`TokenCounter`]: foldback_core::tokens::TokenCounter

mod bpe;
mod caching;
mod encoding;
mod items;
mod parallel;
mod segment;

#[cfg(test)]
mod corpus;

pub use bpe::BpeCounter;
pub use caching::{CACHE_ENTRIES_MAX, CACHED_BYTES_MIN, CacheStats, CachingCounter};
pub use encoding::Encoding;
pub use items::count_items;
pub use parallel::{PARALLEL_BYTES_MIN, THREADS_MAX};
pub use segment::SEGMENT_BYTES_MAX;
