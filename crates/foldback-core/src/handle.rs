//! Handles: the short, stable names of folded content.
//!
//! A handle is derived from the place and the ids of what it names, so it is the same in every
//! process, needs no table to make, and costs nothing proportional to the content. Places never
//! change, because transcripts are append-only.

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
    /// Names one part of the item at `index`.
    pub fn of_part(index: usize, item: &ItemId, part_index: usize) -> Self {
        Self::of(b"part", &[(index, item), (part_index, item)])
    }

    /// Names the item at `index`, and with it the unit that it begins.
    pub fn of_item(index: usize, item: &ItemId) -> Self {
        Self::of(b"item", &[(index, item)])
    }

    /// Names the items from `first` to `last`, both included.
    pub fn of_range(first: (usize, &ItemId), last: (usize, &ItemId)) -> Self {
        Self::of(b"range", &[first, last])
    }

    /// Ids alone are not enough: recorded sessions repeat them.
    fn of(what: &[u8], places: &[(usize, &ItemId)]) -> Self {
        let mut hash = Xxh3::new();
        hash.update(what);
        for (index, item) in places {
            hash.update(&(*index as u64).to_le_bytes());
            hash.update(&(item.len() as u64).to_le_bytes());
            hash.update(item.as_bytes());
        }
        Self::from_hash(hash.digest())
    }

    /// Reads a handle as printed, with or without its `@`, which is a wide one where a summary quotes others.
    pub fn parse(text: &str) -> Option<Self> {
        let characters = text.strip_prefix(['@', '＠']).unwrap_or(text);
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
        let handle = Handle::of_part(1, &"i1".into(), 0);
        assert_eq!(Handle::parse(handle.as_str()), Some(handle.clone()));
        assert_eq!(Handle::parse(&handle.as_str()[1..]), Some(handle.clone()));
        assert_eq!(Handle::parse(&handle.as_str().replace('@', "＠")), Some(handle));
        assert_eq!(Handle::parse("@short"), None);
        assert_eq!(Handle::parse("@iiiiiiiiii"), None);
    }

    #[test]
    fn handles_are_the_same_in_every_release() {
        assert_eq!(Handle::of_part(1, &"i1".into(), 0).as_str(), "@6hjhb91nxq");
    }

    #[test]
    fn different_things_have_different_handles() {
        let (a, b, ab): (ItemId, ItemId, ItemId) = ("a".into(), "b".into(), "ab".into());
        let handles = [
            Handle::of_range((0, &a), (1, &b)),
            Handle::of_range((0, &ab), (1, &a)),
            Handle::of_range((0, &a), (2, &b)),
            Handle::of_item(0, &a),
            Handle::of_item(1, &a),
            Handle::of_part(0, &a, 0),
            Handle::of_part(0, &a, 1),
        ];
        let distinct: std::collections::BTreeSet<_> = handles.iter().collect();
        assert_eq!(distinct.len(), handles.len());
    }
}
