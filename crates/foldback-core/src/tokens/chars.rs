//! Characters divided by four: the counter that hosts compare with.

use super::{Precision, TokenCounter};
use crate::ids::Tokens;

/// Characters for each token.
const CHARACTERS_PER_TOKEN: u64 = 4;

/// Text in which every character is a token is four times what is counted.
const UPPER_FACTOR: f64 = 4.0;

/// Counts one token for every four characters, rounded up. For hosts whose own numbers are made this way;
/// [`EstimatingCounter`](super::EstimatingCounter) is nearer to what providers bill.
///
/// ```
/// use std::sync::Arc;
/// use foldback_core::{CharsOver4Counter, Item, TokenCounter, Tokens, Transcript};
///
/// assert_eq!(CharsOver4Counter.count("twelve chars"), Tokens(3));
/// let mut transcript = Transcript::new(Arc::new(CharsOver4Counter));
/// transcript.push(Item::user("u", "twelve chars"));
/// // Three tokens, and four for the message around them.
/// assert_eq!(transcript.tokens(), Tokens(7));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CharsOver4Counter;

impl TokenCounter for CharsOver4Counter {
    fn name(&self) -> &str {
        "chars/4"
    }

    fn count(&self, text: &str) -> Tokens {
        Tokens((text.chars().count() as u64).div_ceil(CHARACTERS_PER_TOKEN))
    }

    fn precision(&self) -> Precision {
        Precision::Estimate { upper_factor: UPPER_FACTOR }
    }
}
