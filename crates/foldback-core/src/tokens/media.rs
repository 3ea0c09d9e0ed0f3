//! What media and files cost, by dialect.

use super::TokenCounter;
use crate::dialect::Dialect;
use crate::ids::Tokens;
use crate::part::{File, Media};

/// What an image, sound or video costs.
pub fn media_tokens(_dialect: Option<Dialect>, _media: &Media) -> Tokens {
    Tokens(1_600)
}

/// What a document costs.
pub fn file_tokens(_counter: &dyn TokenCounter, _dialect: Option<Dialect>, file: &File) -> Tokens {
    Tokens(file.data.len() as u64 / 4)
}
