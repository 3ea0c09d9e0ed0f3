//! Handles: the short, stable names of folded content.
//!
//! A handle is derived from the ids of what it names, so it is the same in every process, needs
//! no table to make, and costs nothing proportional to the content.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::ids::{ItemId, Text};

/// Crockford's base 32: no letter that is easily taken for a digit.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Characters after the `@`: 50 bits, one clash expected among about 30 million handles.
const HANDLE_CHARACTERS: usize = 10;

/// The short stable name of folded content, printed in its placeholder and accepted by recall.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(Text);

impl Handle {
    /// Names one part of one item.
    pub fn of_part(item: &ItemId, part_index: usize) -> Self {
        let mut hash = Xxh3::new();
        hash.update(b"part\0");
        hash.update(item.as_bytes());
        hash.update(&(part_index as u64).to_le_bytes());
        Self::from_hash(hash.digest())
    }

    /// Names one item, and with it the unit that it begins.
    pub fn of_item(item: &ItemId) -> Self {
        let mut hash = Xxh3::new();
        hash.update(b"item\0");
        hash.update(item.as_bytes());
        Self::from_hash(hash.digest())
    }

    /// Names the items from `first` to `last`, both included.
    pub fn of_range(first: &ItemId, last: &ItemId) -> Self {
        let mut hash = Xxh3::new();
        hash.update(b"range\0");
        hash.update(&(first.len() as u64).to_le_bytes());
        hash.update(first.as_bytes());
        hash.update(last.as_bytes());
        Self::from_hash(hash.digest())
    }

    /// Reads a handle as printed, with or without its `@`.
    pub fn parse(text: &str) -> Option<Self> {
        let characters = text.strip_prefix('@').unwrap_or(text);
        let is_handle =
            characters.len() == HANDLE_CHARACTERS && characters.bytes().all(|byte| ALPHABET.contains(&byte));
        is_handle.then(|| Self(format!("@{characters}").into()))
    }

    /// The handle as printed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_hash(hash: u64) -> Self {
        let mut characters = [b'@'; HANDLE_CHARACTERS + 1];
        for (index, slot) in characters[1..].iter_mut().enumerate() {
            *slot = ALPHABET[(hash >> (5 * index)) as usize & 31];
        }
        let text = std::str::from_utf8(&characters).expect("the alphabet is ASCII");
        Self(text.into())
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_handle_is_read_back() {
        let handle = Handle::of_part(&"i1".into(), 0);
        assert_eq!(Handle::parse(handle.as_str()), Some(handle.clone()));
        assert_eq!(Handle::parse(&handle.as_str()[1..]), Some(handle));
        assert_eq!(Handle::parse("@short"), None);
        assert_eq!(Handle::parse("@iiiiiiiiii"), None);
    }

    #[test]
    fn handles_are_the_same_in_every_release() {
        assert_eq!(Handle::of_part(&"i1".into(), 0).as_str(), "@93jkewdmct");
    }

    #[test]
    fn neighbouring_ranges_have_different_handles() {
        let ranges = [("a", "bc"), ("ab", "c"), ("a", "b")];
        let handles: std::collections::BTreeSet<_> =
            ranges.iter().map(|(first, last)| Handle::of_range(&(*first).into(), &(*last).into())).collect();
        assert_eq!(handles.len(), ranges.len());
    }
}
