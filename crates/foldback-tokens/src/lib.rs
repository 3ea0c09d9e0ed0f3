//! Exact token counts for OpenAI's encodings, behind core's [`TokenCounter`] port.
//!
//! A crate of its own because core may have neither threads nor megabytes of vocabulary:
//!
//! - [`BpeCounter`] counts what the tokenizer itself would answer, on several threads where many
//!   texts are asked for at once, from vocabularies that are part of the program;
//! - [`Encoding::for_model`] says which vocabulary a model reads, where that is known.
//!
//! ```
//! use foldback_core::tokens::TokenCounter;
//! use foldback_tokens::{BpeCounter, Encoding};
//!
//! let encoding = Encoding::for_model("gpt-5-mini").unwrap_or(Encoding::O200k);
//! let counter = BpeCounter::new(encoding);
//! counter.warm();
//!
//! let history = ["fn main() {}".repeat(100), "どうもありがとう".repeat(50)];
//! let together = counter.count_all(&[&history[0], &history[1]]);
//! assert_eq!(together, history.map(|text| counter.count(&text)));
//! ```
//!
//! [`TokenCounter`]: foldback_core::tokens::TokenCounter

mod bpe;
mod items;
mod parallel;
mod segment;

#[cfg(test)]
mod corpus;

pub use bpe::BpeCounter;
pub use foldback_core::Encoding;
pub use items::count_items;
pub use parallel::{PARALLEL_BYTES_MIN, THREADS_MAX};
pub use segment::SEGMENT_BYTES_MAX;
