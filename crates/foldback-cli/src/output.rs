//! Where results go: stdout, a new file, or the place of an old one.

mod begun;

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::Scope;

use foldback_formats::Written;
use tempfile::NamedTempFile;

use crate::args::Shared;
use crate::failure::Failure;
use crate::input::{Opened, Stamp};
use crate::terminal;
pub(crate) use begun::Begun;
use begun::Push;

/// Shorter sessions are written in no time, when all of them is known.
const BEGIN_BYTES_MIN: usize = 8 * 1024 * 1024;

/// Backups of one file that are kept apart by a number.
const BACKUPS_MAX: usize = 1_000;

/// Where a session goes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// It is only looked at.
    Nowhere,
    Stdout,
    /// Stdout, but a person sits there: a session is nothing to print.
    Terminal,
    File(PathBuf),
    /// A file of the same name there, in the same folders below it; what was written so far is not
    /// written over.
    Folder(PathBuf, RefCell<HashSet<PathBuf>>),
    InPlace,
}

/// Where a session went.
#[derive(Debug)]
pub(crate) struct OutputPlace {
    pub(crate) path: PathBuf,
    pub(crate) backup: Option<PathBuf>,
}

impl Destination {
    /// What the command line asks for.
    pub(crate) fn of(
        shared: &Shared,
        output: Option<&Path>,
        in_place: bool,
        is_single: bool,
    ) -> Result<Self, Failure> {
        let somewhere = "give -o PATH, or --in-place where the command has it";
        match output {
            _ if in_place => Ok(Self::InPlace),
            Some(path) if path.as_os_str() == "-" && is_single && !shared.json => Ok(Self::Stdout),
            // Several sessions go to a folder, which may be new.
            Some(path) if path.is_dir() || (!is_single && !path.exists()) => {
                Ok(Self::Folder(path.to_owned(), RefCell::default()))
            }
            Some(path) if is_single => Ok(Self::File(path.to_owned())),
            Some(path) => {
                let what = format!("{} is no folder, and there may be several sessions", path.display());
                Err(Failure::usage(what, "give the name of a folder"))
            }
            None if shared.json => {
                Err(Failure::usage("--json takes stdout, so the session needs another place", somewhere))
            }
            None if !is_single => Err(Failure::usage("several sessions cannot go to stdout", somewhere)),
            None if terminal::stdout_is_terminal() => Ok(Self::Terminal),
            None => Ok(Self::Stdout),
        }
    }

    /// Begins to write a long session to which something will be added at its end, while that is still
    /// being worked out. What cannot be done or is wrong here shows when it is written.
    pub(crate) fn begin<'scope, 'env>(
        &self,
        scope: &'scope Scope<'scope, 'env>,
        opened: &'env Opened,
    ) -> Option<Begun<'scope>> {
        if opened.byte_count() < BEGIN_BYTES_MIN || !opened.session.format().grows_at_its_end() {
            return None;
        }
        let (path, push) = match self {
            Self::Nowhere | Self::Stdout | Self::Terminal => return None,
            Self::File(file) => (file.clone(), Push::Later),
            Self::Folder(folder, _) => (made_below(folder, &opened.name).ok()?, Push::Later),
            Self::InPlace => (opened.path.clone(), Push::AtOnce),
        };
        match Target::of(&path).ok()? {
            Target::Device(_) => None,
            Target::File { folder, .. } => Begun::new(scope, &folder, opened, push),
        }
    }

    /// Writes a session: `changed`, or the bytes it was read from. `begun` is what was begun of it.
    pub(crate) fn write(
        &self,
        opened: &Opened,
        changed: Option<&Written<'_>>,
        begun: Option<Begun<'_>>,
    ) -> Result<Option<OutputPlace>, Failure> {
        let content = match changed {
            None => Content { session: Some(opened), added: &[] },
            Some(written) => {
                let session = written.begins_with_session().then_some(opened);
                Content { session, added: written.added() }
            }
        };
        let begun = begun.filter(|_| content.session.is_some());
        let path = match self {
            Self::Nowhere => return Ok(None),
            Self::Terminal => {
                terminal::hint("a session is not printed on a terminal: give -o FILE");
                return Ok(None);
            }
            Self::Stdout => {
                // Nothing is printed of a file that turns out to have changed.
                content.hold()?;
                let mut stdout = terminal::data();
                content.write_to(&mut stdout).and_then(|()| stdout.flush()).map_err(Failure::stdout)?;
                PathBuf::from("stdout")
            }
            Self::File(file) => {
                refuse_input(opened, file)?;
                replace(file, &content, begun, Durable::Eventually)?;
                file.clone()
            }
            Self::Folder(folder, written) => {
                let file = made_below(folder, &opened.name)?;
                refuse_input(opened, &file)?;
                if !written.borrow_mut().insert(file.clone()) {
                    let error = io::Error::other("another session of this name was just written here");
                    let hint = Some("give each folder of sessions an output folder of its own".to_owned());
                    return Err(Failure::Write { path: file, error, hint });
                }
                replace(&file, &content, begun, Durable::Eventually)?;
                file
            }
            Self::InPlace => {
                let path = opened.path.clone();
                let backup = match (changed, &opened.stamp) {
                    (_, None) => {
                        return Err(Failure::usage(
                            "--in-place replaces a file, and the session came from stdin",
                            "name the file, or give -o FILE",
                        ));
                    }
                    (None, Some(_)) => None,
                    (Some(_), Some(stamp)) => Some(in_place(&path, stamp, &content, begun)?),
                };
                return Ok(Some(OutputPlace { path, backup }));
            }
        };
        Ok(Some(OutputPlace { path, backup: None }))
    }
}

/// The path of a name below a folder, with every folder that leads there.
fn made_below(folder: &Path, name: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join(name);
    let parent = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(|error| Failure::Write {
        path: parent.to_owned(),
        error,
        hint: None,
    })?;
    Ok(path)
}

/// A session is not replaced by accident: that is what `--in-place` is for, with its backup.
fn refuse_input(opened: &Opened, file: &Path) -> Result<(), Failure> {
    let is_same = match (opened.path.canonicalize(), file.canonicalize()) {
        (Ok(input), Ok(output)) => input == output,
        _ => false,
    };
    match is_same {
        true => Err(Failure::usage(
            format!("{} is the session itself", file.display()),
            "use --in-place, which keeps a backup, or another name",
        )),
        false => Ok(()),
    }
}

/// Writes data to stdout.
pub(crate) fn to_stdout(pieces: &[&[u8]]) -> Result<(), Failure> {
    let mut stdout = terminal::data();
    let written = pieces.iter().try_for_each(|piece| stdout.write_all(piece));
    written.and_then(|()| stdout.flush()).map_err(Failure::stdout)
}

/// Prints a document for people to stdout, in colour on a terminal.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    terminal::show(text).map_err(Failure::stdout)
}

/// Prints a value as JSON on one line.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value).expect("reports have string keys and finite numbers");
    // JSON that is passed on as it was recorded may be laid out on lines; within strings there are none.
    let mut json = json.replace(['\n', '\r'], " ");
    json.push('\n');
    to_stdout(&[json.as_bytes()])
}

/// When a written file must be on the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// Before it takes the place of another: a session must survive a power cut.
    BeforeReplacing,
    /// When the system gets to it: what it was made from is still there.
    Eventually,
}

/// Writes a file completely, or leaves what was there.
pub(crate) fn to_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    replace(path, &Content { session: None, added: bytes }, None, Durable::Eventually)
}

/// What a file will hold.
struct Content<'a> {
    /// All that this session was read from, first.
    session: Option<&'a Opened>,
    added: &'a [u8],
}

impl Content<'_> {
    fn write_to(&self, to: &mut impl Write) -> io::Result<()> {
        if let Some(session) = self.session {
            session.write_to(to, || true)?;
        }
        to.write_all(self.added)
    }

    /// Makes sure that all of it is there, unchanged, before anything is written.
    fn hold(&self) -> Result<(), Failure> {
        self.session.map_or(Ok(()), |session| session.bytes().map(|_| ()))
    }

    /// Fails where what was written is not what was read.
    fn check(&self) -> Result<(), Failure> {
        self.session.map_or(Ok(()), Opened::check_unchanged)
    }
}

/// What is written when a path is.
enum Target {
    /// A device or a pipe is written to; there is nothing to replace.
    Device(PathBuf),
    File {
        path: PathBuf,
        folder: PathBuf,
    },
}

impl Target {
    fn of(path: &Path) -> Result<Self, Failure> {
        // What is behind a link is written, and the link stays.
        let real = path.canonicalize().or_else(|_| std::fs::read_link(path));
        let path = real.unwrap_or_else(|_| path.to_owned());
        if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Ok(Self::Device(path));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        if !folder.is_dir() {
            let error =
                io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", folder.display()));
            let hint = Some("make the folder first".to_owned());
            return Err(Failure::Write { path, error, hint });
        }
        Ok(Self::File { path, folder })
    }
}

/// Files that are not yet in their place.
fn beside() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".foldback-");
    names
}

/// Writes `content`, of which the session is on its way already where there is a `begun`.
fn replace(
    path: &Path,
    content: &Content<'_>,
    begun: Option<Begun<'_>>,
    durable: Durable,
) -> Result<(), Failure> {
    let failed = |error| Failure::Write { path: path.to_owned(), error, hint: None };
    let (path, folder) = match Target::of(path)? {
        Target::Device(path) => {
            content.hold()?;
            let mut device = File::options().write(true).open(path).map_err(failed)?;
            return content.write_to(&mut device).and_then(|()| device.flush()).map_err(failed);
        }
        Target::File { path, folder } => (path, folder),
    };
    let written = || -> io::Result<NamedTempFile> {
        let mut file = beside().tempfile_in(&folder)?;
        content.write_to(file.as_file_mut())?;
        Ok(file)
    };
    let ended = begun.and_then(|begun| begun.end(&folder, content.added));
    let file = ended.map_or_else(written, Ok).map_err(failed)?;
    content.check()?;
    if durable == Durable::BeforeReplacing {
        file.as_file().sync_all().map_err(failed)?;
    }
    let permissions = match std::fs::metadata(&path) {
        Ok(metadata) => Some(metadata.permissions()),
        Err(_) => new_file_permissions(&folder),
    };
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions).map_err(failed)?;
    }
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// A temporary file is private; the result should be what any new file here would be.
fn new_file_permissions(folder: &Path) -> Option<std::fs::Permissions> {
    let probe = folder.join(format!(".foldback-probe-{}", std::process::id()));
    let metadata = File::create_new(&probe).and_then(|file| file.metadata());
    let _left_behind = std::fs::remove_file(&probe);
    metadata.ok().map(|metadata| metadata.permissions())
}

/// Replaces a file in one step and keeps the old one beside it; the backup's path.
fn in_place(
    path: &Path,
    read: &Stamp,
    content: &Content<'_>,
    begun: Option<Begun<'_>>,
) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::Write { path: path.to_owned(), error, hint: None };
    if !read.is_still(path) {
        return Err(Failure::Write {
            path: path.to_owned(),
            error: io::Error::other("the file has changed since it was read; nothing was replaced"),
            hint: Some("run it again when the agent has stopped writing".to_owned()),
        });
    }
    let real = path.canonicalize().map_err(failed)?;
    let path = real.as_path();
    let backup = free_backup(path).map_err(failed)?;
    // What is replaced is not changed: a second name keeps it, where the file system has those.
    if std::fs::hard_link(path, &backup).is_err() {
        std::fs::copy(path, &backup).map_err(failed)?;
        File::open(&backup).and_then(|file| file.sync_all()).map_err(failed)?;
    }
    let replaced = replace(path, content, begun, Durable::BeforeReplacing);
    if replaced.is_err() {
        // The file is still in its own place.
        let _left_behind = std::fs::remove_file(&backup);
    }
    replaced.map(|()| backup)
}

fn free_backup(path: &Path) -> io::Result<PathBuf> {
    let numbered = |number: usize| {
        let mut name = path.file_name().map_or_else(OsString::new, ToOwned::to_owned);
        name.push(if number == 0 { ".bak".to_owned() } else { format!(".bak{number}") });
        path.with_file_name(name)
    };
    let free = (0..BACKUPS_MAX).map(numbered).find(|backup| !backup.exists());
    free.ok_or_else(|| io::Error::other(format!("{BACKUPS_MAX} backups are there already; remove some")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_has_a_backup_and_no_leftovers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.jsonl");
        std::fs::write(&path, "old").unwrap();
        for expected in ["session.jsonl.bak", "session.jsonl.bak1"] {
            let content = Content { session: None, added: b"new" };
            let backup = in_place(&path, &Stamp::of(&path), &content, None).unwrap();
            assert_eq!(backup.file_name().unwrap(), expected);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(folder.path().join("session.jsonl.bak")).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_file_that_changed_since_it_was_read_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session.jsonl");
        std::fs::write(&path, "old").unwrap();
        let stamp = Stamp::of(&path);
        std::fs::write(&path, "old and more").unwrap();
        let content = Content { session: None, added: b"new" };
        assert!(matches!(in_place(&path, &stamp, &content, None), Err(Failure::Write { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old and more");
    }
}
