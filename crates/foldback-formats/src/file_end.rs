//! The end of a file: all that it takes to add something behind it.

use std::io;
use std::ops::Range;

use crate::pieces::Source;

/// What is looked at of a long file at least.
const BYTES_MIN: usize = 1024 * 1024;

/// The last bytes of a file, or all of them.
#[derive(Clone, Debug)]
pub(crate) struct FileEnd<B> {
    /// Where they begin in the file.
    at: usize,
    bytes: B,
}

impl FileEnd<Vec<u8>> {
    /// What stands at `from` and behind it, and at least the last megabyte.
    pub(crate) fn read(source: &dyn Source, from: usize) -> io::Result<Self> {
        let at = from.min(source.byte_count().saturating_sub(BYTES_MIN));
        let mut bytes = vec![0; source.byte_count() - at];
        source.read_at(&mut bytes, at)?;
        Ok(Self { at, bytes })
    }

    pub(crate) fn as_ref(&self) -> FileEnd<&[u8]> {
        FileEnd { at: self.at, bytes: &self.bytes }
    }
}

impl<'a> FileEnd<&'a [u8]> {
    /// A file that is in memory.
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { at: 0, bytes }
    }

    /// The bytes that are there.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// All bytes of the file, where they are there.
    pub(crate) fn all(&self) -> Option<&'a [u8]> {
        (self.at == 0).then_some(self.bytes)
    }

    /// The bytes at a range of the file.
    pub(crate) fn get(&self, range: Range<usize>) -> Option<&'a [u8]> {
        self.bytes.get(range.start.checked_sub(self.at)?..range.end.checked_sub(self.at)?)
    }

    /// How many bytes the file has.
    pub(crate) fn byte_count(&self) -> usize {
        self.at + self.bytes.len()
    }

    /// The last bytes by which a long file is known; all of a short one.
    pub(crate) fn last(&self) -> &'a [u8] {
        &self.bytes[self.bytes.len().saturating_sub(BYTES_MIN)..]
    }
}
