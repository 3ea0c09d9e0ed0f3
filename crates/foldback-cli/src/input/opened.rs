//! A session that was opened: what it says, and its bytes, which of a long file are read when somebody
//! asks for them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use foldback_formats::{Contents, SessionFile, Source};

use super::{Stamp, pieces};
use crate::failure::Failure;

/// What is written between two looks at whether it is still wanted.
const PIECE_BYTES: usize = 4 * 1024 * 1024;

/// A session and where it came from.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The file, or `stdin`.
    pub(crate) path: PathBuf,
    /// What it is called below an output folder.
    pub(crate) name: PathBuf,
    /// The folder that was named, where it was found there.
    pub(crate) found_in: Option<PathBuf>,
    /// What the file was when it was read.
    pub(crate) stamp: Option<Stamp>,
    /// What it says.
    pub(crate) session: Arc<Contents>,
    pub(super) original: Original,
    /// Sessions of sub-agents that stand beside the file.
    pub(crate) sub_agents: Vec<PathBuf>,
}

/// The bytes of a session.
#[derive(Debug)]
pub(super) struct Original {
    /// Those of a long file once somebody asked; none where it was no longer the file that was read.
    bytes: OnceLock<Option<Arc<Vec<u8>>>>,
    /// Where they are until then.
    file: Option<pieces::File>,
}

impl Original {
    /// Bytes that were read before they were understood.
    pub(super) fn held(bytes: Arc<Vec<u8>>) -> Self {
        Self { bytes: OnceLock::from(Some(bytes)), file: None }
    }

    /// Bytes that stay where they are until somebody asks.
    pub(super) fn in_file(file: pieces::File) -> Self {
        Self { bytes: OnceLock::new(), file: Some(file) }
    }
}

impl Opened {
    /// How many bytes it was read from.
    pub(crate) fn byte_count(&self) -> usize {
        let in_file = self.original.file.as_ref().map(Source::byte_count);
        let held = || self.original.bytes.get().and_then(Option::as_ref).map(|bytes| bytes.len());
        in_file.or_else(held).unwrap_or(0)
    }

    /// Exactly the bytes it was read from. Whoever asks for them gets all or nothing: a file that has
    /// changed since is read anew, see [`for_each`](super::for_each).
    pub(crate) fn bytes(&self) -> Result<&Arc<Vec<u8>>, Failure> {
        let read = || {
            let bytes = self.original.file.as_ref()?.read().ok()?;
            self.stamp.is_some_and(|stamp| stamp.is_still(&self.path)).then(|| Arc::new(bytes))
        };
        let bytes = self.original.bytes.get_or_init(read).as_ref();
        bytes.ok_or_else(|| Failure::Changed { path: self.path.clone() })
    }

    /// Where its bytes are, as long as nobody asked for them.
    pub(crate) fn file(&self) -> Option<&pieces::File> {
        self.original.file.as_ref().filter(|_| self.original.bytes.get().is_none())
    }

    /// Writes the bytes it was read from, a piece at a time, as long as they are wanted;
    /// [`check_unchanged`](Self::check_unchanged) says afterwards whether it was these.
    pub(crate) fn write_to(&self, to: &mut impl Write, is_wanted: impl Fn() -> bool) -> io::Result<()> {
        if let Some(file) = self.file() {
            return file.copy_to(to, PIECE_BYTES, is_wanted);
        }
        let held = self.original.bytes.get().and_then(Option::as_ref).ok_or(io::ErrorKind::NotFound)?;
        for piece in held.chunks(PIECE_BYTES) {
            to.write_all(piece)?;
            if !is_wanted() {
                return Err(given_up());
            }
        }
        Ok(())
    }

    /// Fails where its bytes were left in a file, which may have been copied since, and it is no longer
    /// the file that was read.
    pub(crate) fn check_unchanged(&self) -> Result<(), Failure> {
        let is_as_it_was = || self.stamp.is_some_and(|stamp| stamp.is_still(&self.path));
        match &self.original.file {
            Some(_) if !is_as_it_was() => Err(Failure::Changed { path: self.path.clone() }),
            _ => Ok(()),
        }
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Result<SessionFile, Failure> {
        Ok(SessionFile::of(Arc::clone(&self.session), Arc::clone(self.bytes()?)))
    }
}

/// What is said to a writer whose file nobody wants any more.
pub(super) fn given_up() -> io::Error {
    io::Error::other("nobody wants the file any more")
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::*;
    use crate::args::{Inputs, Shared};
    use crate::failure::Exit;
    use crate::input::{for_each, one};
    use crate::output::Destination;

    const RECORD_BYTES: usize = 10_000;

    fn record(number: usize) -> String {
        let parent = number.checked_sub(1).map_or("null".to_owned(), |before| format!("\"u{before}\""));
        let text = "word ".repeat(RECORD_BYTES / 5);
        format!(
            r#"{{"parentUuid":{parent},"sessionId":"s","type":"user","uuid":"u{number}","message":{{"role":"user","content":"{text}"}}}}"#
        ) + "\n"
    }

    #[test]
    fn a_long_file_that_grows_before_its_bytes_are_asked_for_is_read_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.jsonl");
        let record_count = 1_000;
        fs::write(&path, (0..record_count).map(record).collect::<String>()).unwrap();
        let mut seen = Vec::new();
        let exit = for_each(&Shared::default(), &Inputs { paths: vec![path.clone()] }, |opened| {
            if seen.is_empty() {
                assert!(opened.original.file.is_some(), "a long file is not held");
                let mut file = OpenOptions::new().append(true).open(&path).unwrap();
                file.write_all(record(record_count).as_bytes()).unwrap();
            }
            seen.push(opened.session.conversations()[0].len());
            let whole = opened.whole()?;
            assert_eq!(whole.bytes(), fs::read(&path).unwrap());
            Ok(Exit::Success)
        });
        assert_eq!(exit.unwrap(), Exit::Success);
        assert_eq!(seen, [record_count, record_count + 1]);
    }

    #[test]
    fn a_long_file_that_grows_before_it_is_written_leaves_nothing_and_is_read_once_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.jsonl");
        let record_count = 1_000;
        fs::write(&path, (0..record_count).map(record).collect::<String>()).unwrap();
        let output = folder.path().join("copy.jsonl");
        let destination = Destination::File(output.clone());
        let mut looks = 0;
        let exit = for_each(&Shared::default(), &Inputs { paths: vec![path.clone()] }, |opened| {
            looks += 1;
            std::thread::scope(|scope| {
                let begun = destination.begin(scope, opened);
                if looks == 1 {
                    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
                    file.write_all(record(record_count).as_bytes()).unwrap();
                }
                let written = destination.write(opened, None, begun);
                assert_eq!(written.is_err(), looks == 1);
                assert_eq!(output.exists(), looks == 2, "nothing is left of what was not read");
                written.map(|_| Exit::Success)
            })
        });
        assert_eq!(exit.unwrap(), Exit::Success);
        assert_eq!(looks, 2);
        assert_eq!(fs::read(&output).unwrap(), fs::read(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_bytes_of_a_long_file_are_those_it_was_read_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.jsonl");
        fs::write(&path, (0..900).map(record).collect::<String>()).unwrap();
        let held = one(&Shared::default(), &path).unwrap();
        for_each(&Shared::default(), &Inputs { paths: vec![path] }, |opened| {
            assert_eq!(opened.byte_count(), held.byte_count());
            assert_eq!(opened.bytes()?, held.bytes()?);
            let items = |opened: &Opened| opened.session.conversations()[0].recorded().to_vec();
            assert!(items(opened).iter().zip(items(&held)).all(|(one, other)| one.item == other.item));
            Ok(Exit::Success)
        })
        .unwrap();
    }
}
