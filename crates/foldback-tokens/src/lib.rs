//! foldback-tokens
