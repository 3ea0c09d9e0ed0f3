//! The end of a file: nearly all that it takes to add something behind it.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use crate::pieces::Source;

/// What is looked at of a long file at least.
const BYTES_MIN: usize = 1024 * 1024;

/// The last bytes of a file, or all of them.
#[derive(Debug)]
pub(crate) struct FileEnd<'a> {
    /// Where they begin in the file.
    at: usize,
    bytes: Cow<'a, [u8]>,
    /// Where those before them are.
    source: Option<&'a dyn Source>,
}

impl<'a> FileEnd<'a> {
    /// A file that is in memory.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { at: 0, bytes: Cow::Borrowed(bytes), source: None }
    }

    /// What stands at `from` and behind it, and at least the last megabyte.
    pub(crate) fn read(source: &'a dyn Source, from: usize) -> io::Result<Self> {
        let at = from.min(source.byte_count().saturating_sub(BYTES_MIN));
        let mut bytes = vec![0; source.byte_count() - at];
        source.read_at(&mut bytes, at)?;
        Ok(Self { at, bytes: Cow::Owned(bytes), source: Some(source) })
    }

    /// The bytes that are there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes at a range of the file, where they are there.
    pub(crate) fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.bytes.get(range.start.checked_sub(self.at)?..range.end.checked_sub(self.at)?)
    }

    /// The bytes at a range of the file, wherever they are; none where they cannot be read.
    pub(crate) fn fetch(&self, range: Range<usize>) -> Option<Cow<'_, [u8]>> {
        if let Some(bytes) = self.get(range.clone()) {
            return Some(Cow::Borrowed(bytes));
        }
        let mut bytes = vec![0; range.len()];
        self.source?.read_at(&mut bytes, range.start).ok()?;
        Some(Cow::Owned(bytes))
    }

    /// How many bytes the file has.
    pub(crate) fn byte_count(&self) -> usize {
        self.at + self.bytes.len()
    }

    /// The last bytes by which a long file is known; all of a short one.
    pub(crate) fn last(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(BYTES_MIN)..]
    }
}
