//! Long files that are not held in memory: read at any place, from several threads.

use std::fs;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use foldback_formats::Source;

#[cfg(unix)]
use super::FileId;
use super::Stamp;
use super::opened::given_up;

/// Shorter files are held: there is nothing to gain.
#[cfg(unix)]
const BYTES_MIN: u64 = 8 * 1024 * 1024;

/// A file that stays open.
#[derive(Debug)]
#[cfg_attr(not(unix), allow(dead_code, reason = "there is none elsewhere"))]
pub(crate) struct File {
    file: fs::File,
    byte_count: usize,
}

impl File {
    /// None where it is short, or nothing that can be read at any place.
    #[cfg(unix)]
    pub(super) fn open(path: &Path, stamp: &Stamp) -> Option<Self> {
        if stamp.len < BYTES_MIN {
            return None;
        }
        let file = fs::File::open(path).ok()?;
        FileId::of(&file.metadata().ok()?).filter(|id| Some(*id) == stamp.id)?;
        Some(Self { file, byte_count: usize::try_from(stamp.len).ok()? })
    }

    /// Copies all of it, `piece_bytes` at a time, as long as it is wanted: without a way through the
    /// memory of this program, where the system can do that.
    pub(super) fn copy_to(
        &self,
        to: &mut impl Write,
        piece_bytes: usize,
        is_wanted: impl Fn() -> bool,
    ) -> io::Result<()> {
        let mut file = &self.file;
        file.rewind()?;
        let mut left = self.byte_count as u64;
        while left > 0 {
            let copied = io::copy(&mut file.take(left.min(piece_bytes as u64)), to)?;
            if copied == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if !is_wanted() {
                return Err(given_up());
            }
            left -= copied;
        }
        Ok(())
    }

    /// All of it.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.byte_count];
        self.read_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Elsewhere there is no way to read at a place that several threads can go.
    #[cfg(not(unix))]
    pub(super) fn open(_path: &Path, _stamp: &Stamp) -> Option<Self> {
        None
    }
}

impl Source for File {
    fn byte_count(&self) -> usize {
        self.byte_count
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], at: usize) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(buffer, at as u64)
    }

    #[cfg(not(unix))]
    fn read_at(&self, _buffer: &mut [u8], _at: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
