//! A file whose beginning is known before its end: the beginning is written while the rest is still
//! being worked out. A backup is all beginning.
//!
//! Until it is complete the file has no name (`O_TMPFILE`), so that whatever ends the program leaves
//! nothing behind. Elsewhere than on Linux, and on file systems that cannot name such a file later,
//! everything is written at the end instead.

use std::fs::File;
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use tempfile::NamedTempFile;

use super::Readers;
use crate::input::Opened;

/// When the beginning must be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Push {
    /// With the rest, or later.
    Later,
    /// As soon as it is written: the rest is short, and then waits for nothing else.
    AtOnce,
}

/// The beginning of a file on its way to the disk. Dropped, it is given up.
#[derive(Debug)]
pub(crate) struct Begun<'scope> {
    writing: Option<ScopedJoinHandle<'scope, io::Result<File>>>,
    is_given_up: Arc<AtomicBool>,
}

impl<'scope> Begun<'scope> {
    /// Begins a file in `folder` with the bytes of a session, on a thread of its own. `None` where that
    /// cannot be.
    pub(super) fn new<'env>(
        scope: &'scope Scope<'scope, 'env>,
        folder: &Path,
        opened: &'env Opened,
        push: Push,
    ) -> Option<Self> {
        let file = if cfg!(target_os = "linux") { tempfile::tempfile_in(folder).ok()? } else { return None };
        make_private(&file).ok()?;
        let is_given_up = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_given_up);
        let writing = scope.spawn(move || write(file, opened, push, &is_over));
        Some(Self { writing: Some(writing), is_given_up })
    }

    /// The file with `rest` behind its beginning, under a name in `folder` that it loses again unless
    /// it is kept. `None` where it cannot be had this way.
    pub(super) fn end(mut self, folder: &Path, rest: &[u8]) -> Option<NamedTempFile> {
        let written = self.writing.take()?.join().unwrap_or_else(|panic| resume_unwind(panic));
        let mut file = written.ok()?;
        file.write_all(rest).ok()?;
        let named = super::beside(Readers::Owner).make_in(folder, |path| name(&file, path)).ok()?;
        Some(NamedTempFile::from_parts(file, named.into_temp_path()))
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

fn write(mut file: File, opened: &Opened, push: Push, is_given_up: &AtomicBool) -> io::Result<File> {
    opened.write_to(&mut file, || !is_given_up.load(Ordering::Relaxed))?;
    if push == Push::AtOnce {
        file.sync_data()?;
    }
    Ok(file)
}

/// A file without a name has the mode of any new file.
#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Gives a name to a file that has none.
#[cfg(target_os = "linux")]
fn name(file: &File, path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, linkat};
    let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, nameless, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn name(_file: &File, _path: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::thread;

    use super::*;
    use crate::args::Shared;
    use crate::input;

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).expect("the folder is there").count()
    }

    /// A session in a folder of its own.
    fn session() -> (tempfile::TempDir, Opened) {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let path = folder.path().join("session.json");
        std::fs::write(&path, r#"[{"role":"system","content":"s"},{"role":"user","content":"hi"}]"#)
            .expect("there is room for a file");
        let opened = input::one(&Shared::default(), &path).expect("it is a session");
        (folder, opened)
    }

    #[test]
    fn a_file_has_no_name_until_its_end_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let (_elsewhere, opened) = session();
        thread::scope(|scope| {
            let begun = Begun::new(scope, folder.path(), &opened, Push::AtOnce).unwrap();
            assert_eq!(names(folder.path()), 0);
            let ended = begun.end(folder.path(), b"end").unwrap();
            let expected = [&opened.bytes().unwrap()[..], b"end"].concat();
            assert_eq!(std::fs::read(ended.path()).unwrap(), expected);
            drop(ended);
        });
        assert_eq!(names(folder.path()), 0, "what is not kept is gone");
    }

    #[test]
    fn a_file_that_is_given_up_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (_elsewhere, opened) = session();
        thread::scope(|scope| drop(Begun::new(scope, folder.path(), &opened, Push::Later).unwrap()));
        assert_eq!(names(folder.path()), 0);
        let wanted_no_more = AtomicBool::new(true);
        let file = tempfile::tempfile_in(folder.path()).unwrap();
        assert!(write(file, &opened, Push::Later, &wanted_no_more).is_err());
    }
}
