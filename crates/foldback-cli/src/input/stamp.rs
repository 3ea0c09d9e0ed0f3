//! What tells one state of a file from another.

use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use xxhash_rust::xxh3::xxh3_64;

/// The last bytes of a file, by which a state is known too: clocks of file systems are coarse.
const TAIL_BYTES: u64 = 4096;

/// A state of a file: it differs from every other state that its agent may have left it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) len: u64,
    modified: Option<SystemTime>,
    pub(crate) id: Option<FileId>,
    tail: u64,
}

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    /// None where the system does not tell.
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self { device: metadata.dev(), number: metadata.ino() })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_metadata: &Metadata) -> Option<Self> {
        None
    }
}

impl Stamp {
    /// The state of the file at a path; none where there is no file that can be read at any place.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        // Whoever opens a pipe waits.
        fs::metadata(path).ok().filter(Metadata::is_file)?;
        Self::of_file(&File::open(path).ok()?)
    }

    /// The state of an open file, which is then read from another place.
    pub(crate) fn of_file(mut file: &File) -> Option<Self> {
        let metadata = file.metadata().ok().filter(Metadata::is_file)?;
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(metadata.len().saturating_sub(TAIL_BYTES))).ok()?;
        file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
        Some(Self {
            len: metadata.len(),
            modified: metadata.modified().ok(),
            id: FileId::of(&metadata),
            tail: xxh3_64(&tail),
        })
    }

    /// A state between two others, of which `len` bytes were read while the file changed. No file is in it.
    pub(super) fn of_no_file(self, len: u64) -> Self {
        Self { len, modified: None, ..self }
    }

    /// Whether the path still leads to this file, in this state.
    pub(crate) fn is_still(&self, path: &Path) -> bool {
        Self::of(path).as_ref() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_told_from_one_of_the_same_length_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.jsonl");
        fs::write(&path, "one\n").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let stamp = Stamp::of(&path).unwrap();
        assert!(stamp.is_still(&path));
        fs::write(&path, "two\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        assert!(!stamp.is_still(&path));
    }

    #[test]
    #[cfg(unix)]
    fn a_file_that_took_the_place_of_another_is_not_that_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.jsonl");
        fs::write(&path, "one\n").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let stamp = Stamp::of(&path).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "one\n").unwrap();
        File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!stamp.is_still(&path));
    }
}
