//! What makes delimiters ours: nothing that is quoted has it.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seals that are tried before one is taken that occurs in a text, and is taken out there.
const ATTEMPTS_MAX: u64 = 64;

/// What headings have of the tag: little, because there are many of them.
const MARK_CHARACTERS: usize = 4;

/// What stands for a seal in what is quoted.
const TAKEN_OUT: &str = "…";

/// What the delimiters of a quotation end in. It derives from what is quoted, so that whoever writes
/// into a conversation cannot know it, and the same request gives the same bytes (T6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seal {
    /// The end of the names of blocks.
    pub(super) tag: String,
    /// The end of headings.
    pub(super) heading_end: String,
}

impl Seal {
    /// One that occurs in none of these texts, if there is any.
    pub(super) fn of(texts: &[String]) -> Self {
        let mut hash = 0;
        for text in texts {
            hash = xxh3_64_with_seed(text.as_bytes(), hash);
        }
        let seal =
            |attempt: u64| Self::tagged(format!("{:016x}", xxh3_64_with_seed(&attempt.to_le_bytes(), hash)));
        let is_free = |seal: &Self| texts.iter().all(|text| !seal.is_in(text));
        (0..ATTEMPTS_MAX).map(seal).find(is_free).unwrap_or_else(|| seal(ATTEMPTS_MAX))
    }

    pub(super) fn tagged(tag: String) -> Self {
        let heading_end = format!(" {}]", tag.get(..MARK_CHARACTERS).unwrap_or(&tag));
        Self { tag, heading_end }
    }

    fn is_in(&self, text: &str) -> bool {
        !self.tag.is_empty() && (text.contains(&self.tag) || text.contains(&self.heading_end))
    }

    /// The text without the seal.
    pub(super) fn kept_out_of<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.is_in(text) {
            true => Cow::Owned(text.replace(&self.tag, TAKEN_OUT).replace(&self.heading_end, TAKEN_OUT)),
            false => Cow::Borrowed(text),
        }
    }
}
