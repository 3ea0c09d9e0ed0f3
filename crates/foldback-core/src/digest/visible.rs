//! What a digest shows while it is being chosen, and whether a name stands in it already.

use std::ops::Range;

use memchr::memmem;

/// A digest longer than this is not searched for each name: some are then listed that stand in it.
const SEARCHED_BYTES_MAX: usize = 64 << 10;

/// Whether no letter, digit or underscore adjoins another at the ends of a span.
fn is_apart(text: &[u8], span: Range<usize>) -> bool {
    let is_name = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let before = span.start.checked_sub(1).and_then(|index| text.get(index));
    let goes_on_before = is_name(before) && is_name(text.get(span.start));
    let goes_on_behind = is_name(text.get(span.end - 1)) && is_name(text.get(span.end));
    !goes_on_before && !goes_on_behind
}

/// What the digest shows so far.
pub(super) struct Visible {
    text: String,
    grams: Grams,
}

impl Visible {
    pub(super) fn of(text: &str) -> Self {
        let grams = Grams::of(if text.len() <= SEARCHED_BYTES_MAX { text } else { "" });
        Self { text: text.to_owned(), grams }
    }

    pub(super) fn add(&mut self, text: &str) {
        if self.is_searched() {
            self.grams.add(text);
            self.text.push_str(text);
            self.text.push('\n');
        }
    }

    fn is_searched(&self) -> bool {
        self.text.len() <= SEARCHED_BYTES_MAX
    }

    pub(super) fn holds(&self, text: &str) -> bool {
        self.is_searched()
            && self.grams.may_hold(text)
            && memmem::find_iter(self.text.as_bytes(), text.as_bytes())
                .any(|start| is_apart(self.text.as_bytes(), start..start + text.len()))
    }
}

/// Which sequences of two, three and four bytes a text has, as far as a hash tells them apart: most
/// names that do not stand in it are known by that, without a search.
struct Grams(Vec<u64>);

/// Bits of the table: a few for each byte of what is searched.
const GRAM_BITS: u32 = 21;

/// The longest of the sequences. A name is looked up by those, or whole if it is shorter.
const GRAM_BYTES: usize = 4;

impl Grams {
    fn of(text: &str) -> Self {
        let mut grams = Self(vec![0; 1 << (GRAM_BITS - u64::BITS.ilog2())]);
        grams.add(text);
        grams
    }

    fn places(text: &str, size: usize) -> impl Iterator<Item = (usize, u64)> {
        text.as_bytes().windows(size).map(move |bytes| {
            let gram = bytes.iter().fold(size as u32, |gram, &byte| gram << 8 | u32::from(byte));
            let place = gram.wrapping_mul(0x9e37_79b1) >> (u32::BITS - GRAM_BITS);
            ((place / u64::BITS) as usize, 1 << (place % u64::BITS))
        })
    }

    /// Adds a text that stands alone: no name goes on behind it.
    fn add(&mut self, text: &str) {
        for size in 2..=GRAM_BYTES {
            Self::places(text, size).for_each(|(word, bit)| self.0[word] |= bit);
        }
    }

    /// Whether a text may stand in what was added.
    fn may_hold(&self, text: &str) -> bool {
        let size = text.len().min(GRAM_BYTES);
        size < 2 || Self::places(text, size).all(|(word, bit)| self.0[word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_text_may_be_held_by_its_grams() {
        let text = "src/parser.rs: fn parse_rule(input: &str) größer";
        let mut grams = Grams::of(text);
        for start in (0..text.len()).filter(|&start| text.is_char_boundary(start)) {
            assert!(grams.may_hold(&text[start..]));
        }
        for other in ["scan_token", "404", "zz"] {
            assert!(!grams.may_hold(other), "{other}");
        }
        grams.add("scan_token");
        assert!(grams.may_hold("scan_token"));
    }
}
