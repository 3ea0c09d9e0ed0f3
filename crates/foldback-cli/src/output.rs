//! Where results go: stdout, a new file, or the place of an old one.

mod begun;
mod holders;
mod in_place;
mod target;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::Scope;

use foldback_formats::Written;
use tempfile::NamedTempFile;

use crate::args::Shared;
use crate::failure::Failure;
use crate::input::{FileId, Opened};
use crate::terminal;
pub(crate) use begun::Begun;
use begun::Push;
use in_place::Held;
pub(crate) use target::{Readers, unlinked};
use target::{Target, beside, keep_owner_and_mode, made_below, readers_of, refused};

/// Shorter sessions are written in no time, when all of them is known.
const BEGIN_BYTES_MIN: usize = 8 * 1024 * 1024;

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
    /// The file that it was read from. What was written so far is not written once more under another of
    /// its names.
    InPlace(RefCell<HashSet<FileId>>),
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
            _ if in_place => Ok(Self::InPlace(RefCell::default())),
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

    /// Begins to write a long session to which something will be added at its end, or the backup of it,
    /// while that is still being worked out. What cannot be done or is wrong here shows when it is written.
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
            Self::InPlace(_) => (opened.path.clone(), Push::AtOnce),
        };
        match Target::of(&path).ok()? {
            Target::Device(_) => None,
            Target::File { folder, .. } => Begun::new(scope, &folder, opened, push),
        }
    }

    /// Refuses what [`write`](Self::write) would refuse before it writes, for a run that only looks.
    pub(crate) fn look(&self, opened: &Opened) -> Result<(), Failure> {
        match self {
            Self::Nowhere | Self::Stdout | Self::Terminal => Ok(()),
            Self::File(file) => refuse_input(opened, file),
            Self::Folder(folder, _) => refuse_input(opened, &folder.join(&opened.name)),
            Self::InPlace(_) => Held::new(opened).map(|_| ()),
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
        let readers = || opened.stamp.map_or(Readers::Owner, |_| readers_of(&opened.path));
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
                replace(file, &content, begun, readers())?;
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
                replace(&file, &content, begun, readers())?;
                file
            }
            Self::InPlace(done) => {
                let backup = match changed {
                    None if opened.stamp.is_some() => None,
                    _ => Some(in_place(opened, &content, begun, done)?),
                };
                return Ok(Some(OutputPlace { path: opened.path.clone(), backup }));
            }
        };
        Ok(Some(OutputPlace { path, backup: None }))
    }
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

/// Writes a file completely, or leaves what was there.
pub(crate) fn to_file(path: &Path, bytes: &[u8], readers: Readers) -> Result<(), Failure> {
    replace(path, &Content { session: None, added: bytes }, None, readers)
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

/// Writes `content`, of which the session is on its way already where there is a `begun`. What it was made
/// from is still there: the system may take its time to bring it to the disk.
fn replace(
    path: &Path,
    content: &Content<'_>,
    begun: Option<Begun<'_>>,
    readers: Readers,
) -> Result<(), Failure> {
    let failed = |error| Failure::Write { path: path.to_owned(), error, hint: None };
    let (path, folder, existing) = match Target::of(path)? {
        Target::Device(path) => {
            content.hold()?;
            let mut device = File::options().write(true).open(path).map_err(failed)?;
            return content.write_to(&mut device).and_then(|()| device.flush()).map_err(failed);
        }
        Target::File { path, folder, existing } => (path, folder, existing),
    };
    let written = || -> io::Result<NamedTempFile> {
        let mut file = beside(readers).tempfile_in(&folder)?;
        content.write_to(file.as_file_mut())?;
        Ok(file)
    };
    let ended = begun.and_then(|begun| begun.end(&folder, content.added));
    let file = ended.map_or_else(written, Ok).map_err(failed)?;
    content.check()?;
    if let Some(existing) = existing {
        keep_owner_and_mode(file.as_file(), &existing, readers, &path)?;
    }
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Changes a session where it is; the path of its backup.
fn in_place(
    opened: &Opened,
    content: &Content<'_>,
    begun: Option<Begun<'_>>,
    done: &RefCell<HashSet<FileId>>,
) -> Result<PathBuf, Failure> {
    let held = Held::new(opened)?;
    if held.id().is_some_and(|id| !done.borrow_mut().insert(id)) {
        let why = "this is another name of a session that was just written; left alone";
        return Err(refused(&opened.path, why, "name only one of them"));
    }
    match content.session {
        Some(_) => held.append(content.added, begun),
        None => held.replace(content.added),
    }
}
