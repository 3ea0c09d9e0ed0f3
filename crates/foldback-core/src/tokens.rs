//! Counting tokens: the [`TokenCounter`] port and what an item costs.
//!
//! Exact counters live in `foldback-tokens`; the estimating one is here because every program
//! needs one that loads nothing.

mod calibration;
mod chars;
mod estimate;
mod media;
mod meter;
mod scale;

use std::fmt::Debug;
use std::sync::Arc;

use smallvec::SmallVec;

pub use calibration::{Calibration, TokenBounds};
pub use chars::CharsOver4Counter;
pub use estimate::EstimatingCounter;
pub(crate) use media::file_tokens;
pub use media::media_tokens;
pub use meter::Meter;
pub use scale::{Reported, TokenScale};

use crate::dialect::Dialect;
use crate::ids::Tokens;
use crate::item::Item;
use crate::part::{Part, Reasoning, ResultPart, ToolCall, ToolResult};

/// Role, separators and bookkeeping that every provider adds to a message.
pub const ITEM_OVERHEAD_TOKENS: u64 = 4;

/// Names, ids and JSON punctuation around a tool call or a result.
pub const CALL_OVERHEAD_TOKENS: u64 = 8;

/// How far a count can be from what the provider will bill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precision {
    /// The tokenizer's own answer.
    Exact,
    /// An estimate; the real count is almost never above `upper_factor` times it.
    Estimate {
        /// At least 1.
        upper_factor: f64,
    },
}

/// Counts the tokens of text.
///
/// Implementors guarantee: the same text always counts the same (T6); counting never panics, for
/// any text of any length; and cost is near linear in the length of the text.
pub trait TokenCounter: Debug + Send + Sync {
    /// The name shown in reports, such as `o200k_base`.
    fn name(&self) -> &str;

    /// How many tokens `text` is.
    fn count(&self, text: &str) -> Tokens;

    /// How far a count can be off.
    fn precision(&self) -> Precision;

    /// Counts many texts, in order. Implementors may use several threads.
    fn count_all(&self, texts: &[&str]) -> Vec<Tokens> {
        texts.iter().map(|text| self.count(text)).collect()
    }
}

impl<C: TokenCounter + ?Sized> TokenCounter for Arc<C> {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn count(&self, text: &str) -> Tokens {
        (**self).count(text)
    }
    fn precision(&self) -> Precision {
        (**self).precision()
    }
    fn count_all(&self, texts: &[&str]) -> Vec<Tokens> {
        (**self).count_all(texts)
    }
}

/// What one item costs, as a whole and by part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemTokens {
    /// The whole item, overhead included.
    pub total: Tokens,
    /// Each part, in order; inline for most items, because planning reads them by the thousand.
    pub(crate) parts: SmallVec<[u32; 4]>,
}

impl ItemTokens {
    /// Each part, in order.
    pub fn parts(&self) -> &[u32] {
        &self.parts
    }

    /// Adds up parts and the item's own overhead. An item without parts is not sent and costs
    /// nothing.
    pub fn of_parts(parts: impl IntoIterator<Item = u32>) -> Self {
        let parts: SmallVec<[u32; 4]> = parts.into_iter().collect();
        Self { total: total(parts.iter().copied()), parts }
    }
}

/// What an item of such parts costs.
fn total(parts: impl IntoIterator<Item = u32>) -> Tokens {
    let mut parts = parts.into_iter().map(|tokens| Tokens(u64::from(tokens))).peekable();
    match parts.peek() {
        Some(_) => parts.sum::<Tokens>() + Tokens(ITEM_OVERHEAD_TOKENS),
        None => Tokens::ZERO,
    }
}

/// Counts an item: every part once, plus overhead. Media and files follow `dialect`'s rules, or
/// the dearest of all dialects where none is given.
pub fn count_item(counter: &dyn TokenCounter, dialect: Option<Dialect>, item: &Item) -> ItemTokens {
    ItemTokens::of_parts(item.parts.iter().map(|part| count_part(counter, dialect, part)))
}

/// Counts one part, as [`count_item`] does.
pub(crate) fn count_part(counter: &dyn TokenCounter, dialect: Option<Dialect>, part: &Part) -> u32 {
    let tokens = match part {
        Part::Text(text) => counter.count(text),
        Part::Reasoning(reasoning) => count_reasoning(counter, reasoning),
        Part::ToolCall(call) => count_call(counter, call),
        Part::ToolResult(result) => count_result(counter, dialect, result),
        Part::Media(media) => media_tokens(dialect, media),
        Part::File(file) => file_tokens(counter, dialect, file),
        Part::Structured(json) => counter.count(json.as_str()),
        Part::Opaque(opaque) => counter.count(opaque.json.as_str()),
    };
    saturate(tokens)
}

fn count_reasoning(counter: &dyn TokenCounter, reasoning: &Reasoning) -> Tokens {
    // Providers bill the hidden form by the thinking behind it, not by its characters; where
    // nothing is readable, its length is the only clue there is.
    match &reasoning.encrypted {
        Some(encrypted) if reasoning.text.is_empty() => {
            Tokens(encrypted.len() as u64 / ENCRYPTED_CHARACTERS_PER_TOKEN)
        }
        _ => counter.count(&reasoning.text),
    }
}

/// Base64 of encrypted thinking runs at about this many characters for each token of thinking.
const ENCRYPTED_CHARACTERS_PER_TOKEN: u64 = 6;

fn count_call(counter: &dyn TokenCounter, call: &ToolCall) -> Tokens {
    counter.count(&call.name) + counter.count(call.input.as_str()) + Tokens(CALL_OVERHEAD_TOKENS)
}

fn count_result(counter: &dyn TokenCounter, dialect: Option<Dialect>, result: &ToolResult) -> Tokens {
    let content = result.content.iter().map(|part| match part {
        ResultPart::Text(text) => counter.count(text),
        ResultPart::Media(media) => media_tokens(dialect, media),
        ResultPart::File(file) => file_tokens(counter, dialect, file),
        ResultPart::Structured(json) => counter.count(json.as_str()),
        ResultPart::Opaque(opaque) => counter.count(opaque.json.as_str()),
    });
    content.sum::<Tokens>() + Tokens(CALL_OVERHEAD_TOKENS)
}

fn saturate(tokens: Tokens) -> u32 {
    u32::try_from(tokens.0).unwrap_or(u32::MAX)
}
