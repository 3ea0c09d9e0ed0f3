//! A session that is changed in its own place, while its agent may be writing to it.
//!
//! Where a format grows at its end, what is new goes behind the records that are there, in the same file:
//! whoever has it open goes on writing to it, so that nothing can be lost, and every name, owner and
//! permission stays. First room is made at the end, a blank line. Only if that line stands directly behind
//! what was read are the records written into it. So the records never stand behind something that they
//! take no account of, and where the program is killed meanwhile, what others append begins on a line of
//! its own.
//!
//! Other formats are one document. The new file and the old one change places, and change back where
//! somebody wrote to the old one meanwhile.
//!
//! A session that a program has open for writing is left alone: its agent would go on from what it knows,
//! in the middle of what it does.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::begun::Begun;
use super::holders::holder_of;
use super::target::{Readers, beside, dangling, is_link, keep_owner_and_mode, refused, unlinked};
use crate::failure::Failure;
use crate::input::{FileId, Opened, Stamp};

/// Backups of one file that are kept apart by a number.
const BACKUPS_MAX: usize = 1_000;

/// How often is looked whether a program has let go of a file that changed places under it.
const LOOKS_MAX: usize = 100;

const LATER: &str = "run it again when the agent has stopped, or write a copy with -o FILE";
const NAME_IT: &str = "name the file itself, or write a copy with -o FILE";

/// A session file that is as it was read, and that nobody else is seen to write to.
#[derive(Debug)]
pub(super) struct Held<'a> {
    opened: &'a Opened,
    stamp: Stamp,
    /// Where it is, without links.
    path: PathBuf,
    folder: PathBuf,
    /// Reads at any place, adds at the end. Locked, for other runs of this program and for whoever else
    /// asks.
    file: File,
}

/// A blank line at the end of a file, directly behind what was read.
#[derive(Debug)]
struct Room<'h> {
    held: &'h Held<'h>,
    /// Writes at any place.
    writer: File,
}

impl<'a> Held<'a> {
    pub(super) fn new(opened: &'a Opened) -> Result<Self, Failure> {
        let Some(stamp) = opened.stamp else {
            return Err(Failure::usage(
                "--in-place replaces a file, and the session came from stdin",
                "name the file, or give -o FILE",
            ));
        };
        let failed = |error| Failure::Write { path: opened.path.clone(), error, hint: None };
        let path = opened.path.canonicalize().map_err(failed)?;
        if let Some(folder) = &opened.found_in
            && !path.starts_with(folder.canonicalize().map_err(failed)?)
        {
            let why =
                format!("this link leads out of {}, to {}; left alone", folder.display(), path.display());
            return Err(refused(&opened.path, why, NAME_IT));
        }
        let file = unlinked(File::options().read(true).append(true)).open(&path).map_err(failed)?;
        // Elsewhere a lock would keep the agent from writing.
        #[cfg(unix)]
        if let Err(fs::TryLockError::WouldBlock) = file.try_lock() {
            return Err(refused(&opened.path, "another program has locked it; nothing was changed", LATER));
        }
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        let held = Self { opened, stamp, path, folder, file };
        held.check()?;
        match holder_of(&held.file) {
            Some(holder) => {
                let why = format!("{} has it open for writing; nothing was changed", holder.named());
                Err(refused(&opened.path, why, LATER))
            }
            None => Ok(held),
        }
    }

    /// Which file it is, where the system tells.
    pub(super) fn id(&self) -> Option<FileId> {
        self.stamp.id
    }

    fn failed(&self, error: io::Error) -> Failure {
        Failure::Write { path: self.opened.path.clone(), error, hint: None }
    }

    fn written_meanwhile(&self) -> Failure {
        let why = "another program wrote to it since it was read; nothing was changed";
        refused(&self.opened.path, why, LATER)
    }

    fn is_as_it_was(&self) -> bool {
        Stamp::of_file(&self.file) == Some(self.stamp) && self.stamp.is_still(&self.path)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.is_as_it_was() { Ok(()) } else { Err(self.written_meanwhile()) }
    }

    /// Adds `added` behind what was read. The backup's path: a copy of what was read, of which `begun` is
    /// the beginning.
    pub(super) fn append(&self, added: &[u8], begun: Option<Begun<'_>>) -> Result<PathBuf, Failure> {
        let backup = self.back_up(begun)?;
        let appended = self.make_room(added).and_then(|room| room.fill(added));
        if appended.is_err() {
            // There is nothing to go back from.
            let _left_behind = fs::remove_file(&backup);
        }
        appended.map(|()| backup)
    }

    /// A copy of what was read, on the disk and under a name of its own.
    fn back_up(&self, begun: Option<Begun<'_>>) -> Result<PathBuf, Failure> {
        let copied = || -> io::Result<NamedTempFile> {
            let mut file = beside(Readers::Owner).tempfile_in(&self.folder)?;
            self.opened.write_to(file.as_file_mut(), || true)?;
            Ok(file)
        };
        let begun = begun.and_then(|begun| begun.end(&self.folder, &[]));
        let file = begun.map_or_else(copied, Ok).map_err(|error| self.failed(error))?;
        self.become_backup(file)
    }

    /// Gives a file the owner and mode of this one, and the name of a backup, once it is on the disk.
    fn become_backup(&self, file: NamedTempFile) -> Result<PathBuf, Failure> {
        let metadata = self.file.metadata().map_err(|error| self.failed(error))?;
        keep_owner_and_mode(file.as_file(), &metadata, Readers::Anybody, &self.opened.path)?;
        file.as_file().sync_all().map_err(|error| self.failed(error))?;
        let mut file = Some(file);
        self.under_free_name(|name| {
            let Some(unnamed) = file.take() else { return Ok(()) };
            unnamed.persist_noclobber(name).map(|_| ()).map_err(|error| {
                file = Some(error.file);
                error.error
            })
        })
    }

    /// Does `put` with the first name of a backup that is free.
    fn under_free_name(&self, mut put: impl FnMut(&Path) -> io::Result<()>) -> Result<PathBuf, Failure> {
        for number in 0..BACKUPS_MAX {
            let mut name = self.path.file_name().map_or_else(OsString::new, ToOwned::to_owned);
            name.push(if number == 0 { ".bak".to_owned() } else { format!(".bak{number}") });
            let backup = self.path.with_file_name(name);
            match put(&backup) {
                Ok(()) => return Ok(backup),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(self.failed(error)),
                Err(_) if is_link(&backup) && !backup.exists() => return Err(dangling(&backup)),
                Err(_) => {}
            }
        }
        let why = format!("{BACKUPS_MAX} backups of it are there already");
        Err(refused(&self.opened.path, why, "remove some of them"))
    }

    /// Adds a blank line that is as long as `added`, in one write. It stays where another program wrote
    /// meanwhile: the line means nothing, and shortening a file could take away what came behind it.
    fn make_room(&self, added: &[u8]) -> Result<Room<'_>, Failure> {
        let writer = unlinked(File::options().write(true)).open(&self.path);
        let writer = writer.map_err(|error| self.failed(error))?;
        let blank = blank(added);
        self.check()?;
        self.reserve(blank.len()).map_err(|error| self.failed(error))?;
        (&self.file).write_all(&blank).map_err(|error| self.failed(error))?;
        let end = self.stamp.len + added.len() as u64;
        let is_behind_what_was_read = [&self.file, &writer].into_iter().all(|file| {
            let metadata = file.metadata();
            metadata.is_ok_and(|metadata| metadata.len() == end && FileId::of(&metadata) == self.stamp.id)
        });
        if is_behind_what_was_read { Ok(Room { held: self, writer }) } else { Err(self.written_meanwhile()) }
    }

    /// Takes the place on the disk, so that a full one is noticed while nothing has changed.
    #[cfg(target_os = "linux")]
    fn reserve(&self, byte_count: usize) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        let reserved =
            fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.stamp.len, byte_count.max(1) as u64);
        match reserved {
            Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => Ok(reserved?),
            // Not every file system can.
            _ => Ok(()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&self, _byte_count: usize) -> io::Result<()> {
        Ok(())
    }

    /// Puts a new document in the place of the file, which becomes the backup. The document gets the name
    /// of the backup first: then both names change their files in one step.
    pub(super) fn replace(&self, document: &[u8]) -> Result<PathBuf, Failure> {
        self.refuse_other_names()?;
        let mut file =
            beside(Readers::Owner).tempfile_in(&self.folder).map_err(|error| self.failed(error))?;
        file.write_all(document).map_err(|error| self.failed(error))?;
        let fresh = file.reopen().map_err(|error| self.failed(error))?;
        let backup = self.become_backup(file)?;
        self.change_places(&backup, &fresh, document.len() as u64)?;
        Ok(backup)
    }

    /// A file of several names would become two: each with another content.
    #[cfg(unix)]
    fn refuse_other_names(&self) -> Result<(), Failure> {
        use std::os::unix::fs::MetadataExt;
        let names = self.file.metadata().map_err(|error| self.failed(error))?.nlink();
        match names {
            0 | 1 => Ok(()),
            _ => {
                let why =
                    format!("the file has {names} names (hard links), and only this one would be changed");
                Err(refused(&self.opened.path, why, "write a copy with -o FILE"))
            }
        }
    }

    #[cfg(not(unix))]
    fn refuse_other_names(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Exchanges the file and the fresh one, which has the backup's name. Where the old one was written to
    /// until then, or may still be, they change back, and the fresh one is removed.
    fn change_places(&self, backup: &Path, fresh: &File, fresh_len: u64) -> Result<(), Failure> {
        let given_up = |failure| {
            let _left_behind = fs::remove_file(backup);
            failure
        };
        self.check().map_err(given_up)?;
        exchange(&self.path, backup).map_err(|error| given_up(self.failed(error)))?;
        // Nobody opens the old one any more who means the session. So whoever has it open now is the last,
        // and whoever had it open before has written by now.
        let is_held = holder_of(&self.file).is_some();
        if !is_held && Stamp::of_file(&self.file) == Some(self.stamp) && self.stamp.is_still(backup) {
            return Ok(());
        }
        let both_stay = |error: io::Error| {
            let why = format!("another program wrote to it meanwhile, see {}: {error}", backup.display());
            refused(&self.opened.path, why, "put both together by hand")
        };
        exchange(&self.path, backup).map_err(both_stay)?;
        self.bring_back(fresh, fresh_len).map_err(both_stay)?;
        Err(given_up(self.written_meanwhile()))
    }

    /// Appends to the session what was appended to the fresh file while that had its name.
    fn bring_back(&self, mut fresh: &File, fresh_len: u64) -> io::Result<()> {
        if (0..LOOKS_MAX).all(|_| holder_of(fresh).is_some()) {
            return Err(io::Error::other("it still writes there"));
        }
        fresh.seek(SeekFrom::Start(fresh_len))?;
        let mut session = unlinked(File::options().append(true)).open(&self.path)?;
        io::copy(&mut fresh, &mut session).map(|_| ())
    }
}

impl Room<'_> {
    /// Writes the records. Where that fails, the line is blank again.
    fn fill(mut self, added: &[u8]) -> Result<(), Failure> {
        let filled = self.write(added).and_then(|()| self.writer.sync_data());
        if let Err(error) = filled {
            let _still_there = self.write(&blank(added));
            return Err(self.held.failed(error));
        }
        let is_still_the_session =
            fs::metadata(&self.held.path).is_ok_and(|metadata| FileId::of(&metadata) == self.held.stamp.id);
        if is_still_the_session { Ok(()) } else { Err(self.held.written_meanwhile()) }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.seek(SeekFrom::Start(self.held.stamp.len))?;
        self.writer.write_all(bytes)
    }
}

/// A blank line in the place of records. It ends where they do, so that a line behind it begins anew.
fn blank(added: &[u8]) -> Vec<u8> {
    let mut blank = vec![b' '; added.len()];
    if let (Some(last), true) = (blank.last_mut(), added.ends_with(b"\n")) {
        *last = b'\n';
    }
    blank
}

/// Gives two files each other's names, in one step where the system can do that.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => exchange_in_steps(one, other),
        exchanged => Ok(exchanged?),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    exchange_in_steps(one, other)
}

/// The same where it takes several steps. There is a session at `one` all the time.
fn exchange_in_steps(one: &Path, other: &Path) -> io::Result<()> {
    let mut aside = other.as_os_str().to_owned();
    aside.push(".aside");
    fs::hard_link(one, &aside)?;
    if let Err(error) = fs::rename(other, one) {
        fs::remove_file(&aside)?;
        return Err(error);
    }
    fs::rename(&aside, other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Shared;
    use crate::input;

    const SESSION: &str = "{\"id\":\"u\",\"kind\":\"user\",\"parts\":[{\"text\":\"hi\"}]}\n";
    const RECORD: &str = "{\"id\":\"a\",\"kind\":\"assistant\",\"parts\":[{\"text\":\"ho\"}]}\n";
    const LATE: &str = "{\"id\":\"b\",\"kind\":\"user\",\"parts\":[{\"text\":\"late\"}]}\n";

    /// A session in a folder of its own.
    fn session(content: &str) -> (tempfile::TempDir, Opened) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.jsonl");
        fs::write(&path, content).unwrap();
        let opened = input::one(&Shared::default(), &path).unwrap();
        (folder, opened)
    }

    fn append(path: &Path, text: &str) {
        File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn texts(opened: &Opened) -> Vec<String> {
        let conversation = &opened.session.conversations()[0];
        let text = |item: &foldback_core::Item| match &item.parts[..] {
            [foldback_core::Part::Text(text)] => text.to_string(),
            parts => format!("{parts:?}"),
        };
        conversation.recorded().iter().map(|recorded| text(&recorded.item)).collect()
    }

    #[test]
    fn records_are_added_to_the_same_file_and_each_backup_is_what_was_read() {
        let (folder, opened) = session(SESSION);
        let writer = File::options().append(true).open(&opened.path).unwrap();
        let backup = Held::new(&opened).unwrap().append(RECORD.as_bytes(), None).unwrap();
        assert_eq!(fs::read_to_string(&backup).unwrap(), SESSION);
        (&writer).write_all(LATE.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&opened.path).unwrap(), [SESSION, RECORD, LATE].concat());
        let opened = input::one(&Shared::default(), &opened.path).unwrap();
        Held::new(&opened).unwrap().append(RECORD.as_bytes(), None).unwrap();
        assert_eq!(names(&folder), ["session.jsonl", "session.jsonl.bak", "session.jsonl.bak1"]);
        let second = fs::read_to_string(folder.path().join("session.jsonl.bak1")).unwrap();
        assert_eq!(second, [SESSION, RECORD, LATE].concat());
    }

    #[test]
    fn a_document_takes_the_place_of_the_old_one_which_becomes_the_backup() {
        let (folder, opened) = session(SESSION);
        let backup = Held::new(&opened).unwrap().replace(RECORD.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(backup).unwrap(), SESSION);
        assert_eq!(fs::read_to_string(&opened.path).unwrap(), RECORD);
        assert_eq!(names(&folder), ["session.jsonl", "session.jsonl.bak"]);
    }

    #[test]
    fn a_session_that_grew_since_it_was_read_is_left_alone() {
        let (folder, opened) = session(SESSION);
        let held = Held::new(&opened).unwrap();
        append(&opened.path, LATE);
        for changed in [held.append(RECORD.as_bytes(), None), held.replace(RECORD.as_bytes())] {
            assert!(matches!(changed, Err(Failure::Write { .. })));
        }
        drop(held);
        assert!(Held::new(&opened).is_err());
        assert_eq!(fs::read_to_string(&opened.path).unwrap(), [SESSION, LATE].concat());
        assert_eq!(names(&folder), ["session.jsonl"]);
    }

    #[test]
    fn a_session_that_another_file_took_the_place_of_is_left_alone() {
        let (folder, opened) = session(SESSION);
        let held = Held::new(&opened).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, LATE).unwrap();
        fs::rename(&other, &opened.path).unwrap();
        for changed in [held.append(RECORD.as_bytes(), None), held.replace(RECORD.as_bytes())] {
            assert!(changed.is_err());
        }
        assert_eq!(fs::read_to_string(&opened.path).unwrap(), LATE);
        assert_eq!(names(&folder), ["session.jsonl"]);
    }

    #[test]
    fn what_is_appended_behind_the_room_for_records_stands_behind_the_records() {
        let (_folder, opened) = session(SESSION);
        let held = Held::new(&opened).unwrap();
        let room = held.make_room(RECORD.as_bytes()).unwrap();
        append(&opened.path, LATE);
        room.fill(RECORD.as_bytes()).unwrap();
        assert_eq!(fs::read_to_string(&opened.path).unwrap(), [SESSION, RECORD, LATE].concat());
    }

    #[test]
    fn a_program_that_is_killed_while_it_adds_records_damages_no_line_of_another() {
        let session_without_end = SESSION.trim_end();
        let two = [RECORD, &RECORD.replace("ho", "so")].concat();
        for content in [SESSION, session_without_end] {
            let added = if content.ends_with('\n') { two.clone() } else { format!("\n{two}") };
            for written in 0..=added.len() {
                let (_folder, opened) = session(content);
                let held = Held::new(&opened).unwrap();
                let mut room = held.make_room(added.as_bytes()).unwrap();
                room.write(&added.as_bytes()[..written]).unwrap();
                append(&opened.path, LATE);
                let quiet = Shared { quiet: true, ..Shared::default() };
                let now = texts(&input::one(&quiet, &opened.path).unwrap());
                assert_eq!((now[0].as_str(), now[now.len() - 1].as_str()), ("hi", "late"), "{written}");
            }
        }
    }

    #[test]
    fn a_link_to_nothing_in_the_place_of_a_backup_is_not_written_through() {
        #[cfg(unix)]
        {
            let (folder, opened) = session(SESSION);
            let outside = folder.path().join("outside");
            std::os::unix::fs::symlink(&outside, folder.path().join("session.jsonl.bak")).unwrap();
            let held = Held::new(&opened).unwrap();
            for changed in [held.append(RECORD.as_bytes(), None), held.replace(RECORD.as_bytes())] {
                assert!(matches!(changed, Err(Failure::Write { .. })));
            }
            assert_eq!(fs::read_to_string(&opened.path).unwrap(), SESSION);
            assert_eq!(names(&folder), ["session.jsonl", "session.jsonl.bak"]);
        }
    }

    #[test]
    fn files_change_places_also_where_that_takes_several_steps() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, "1").unwrap();
        fs::write(&other, "2").unwrap();
        exchange_in_steps(&one, &other).unwrap();
        assert_eq!((fs::read(&one).unwrap(), fs::read(&other).unwrap()), (b"2".to_vec(), b"1".to_vec()));
        exchange(&one, &other).unwrap();
        assert_eq!((fs::read(&one).unwrap(), fs::read(&other).unwrap()), (b"1".to_vec(), b"2".to_vec()));
        assert_eq!(names(&folder), ["one", "other"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_that_opened_the_old_document_before_it_was_replaced_writes_to_the_session() {
        use std::process::{Command, Stdio};
        let (folder, opened) = session(SESSION);
        let held = Held::new(&opened).unwrap();
        let file = File::options().append(true).open(&opened.path).unwrap();
        let mut agent = Command::new("cat").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
        assert!(held.replace(RECORD.as_bytes()).is_err());
        agent.stdin.take().unwrap().write_all(LATE.as_bytes()).unwrap();
        agent.wait().unwrap();
        assert_eq!(fs::read_to_string(&opened.path).unwrap(), [SESSION, LATE].concat());
        assert_eq!(names(&folder), ["session.jsonl"]);
    }
}
