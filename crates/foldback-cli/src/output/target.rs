//! The place of a file that is written: what stands there now, whose it is, and who may read it.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::failure::Failure;

/// Who may read a file that is written. A file that is new is its owner's alone, unless nothing in it comes
/// from a session. One that is there keeps its owner, its group and what its mode allows, as far as what is
/// written into it may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Nothing of a session is in it.
    Anybody,
    /// It tells what was said.
    Owner,
    /// It is made from one session file, whose mode this is.
    OfSession(u32),
}

#[cfg(unix)]
impl Readers {
    /// Permissions of the owner, which nobody takes from a file that is there.
    const OWNERS: u32 = 0o700;

    fn mode_max(self) -> u32 {
        match self {
            Self::Anybody => 0o777,
            Self::Owner => Self::OWNERS,
            Self::OfSession(mode) => mode & 0o777 | Self::OWNERS,
        }
    }
}

/// What is written when a path is.
#[derive(Debug)]
pub(super) enum Target {
    /// A device or a pipe is written to; there is nothing to replace.
    Device(PathBuf),
    File {
        /// Without links.
        path: PathBuf,
        folder: PathBuf,
        /// What is there now.
        existing: Option<Metadata>,
    },
}

impl Target {
    /// What is behind a link is written, and the link stays. A link that leads to nothing is nobody's file.
    pub(super) fn of(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::Write { path: path.to_owned(), error, hint: None };
        let existing = fs::metadata(path);
        let real = match &existing {
            Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
                return Ok(Self::Device(path.to_owned()));
            }
            Ok(_) => path.canonicalize().map_err(failed)?,
            Err(_) if is_link(path) => return Err(dangling(path)),
            Err(_) => path.to_owned(),
        };
        let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        if !folder.is_dir() {
            let error =
                io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", folder.display()));
            let hint = Some("make the folder first".to_owned());
            return Err(Failure::Write { path: real, error, hint });
        }
        Ok(Self::File { path: real, folder, existing: existing.ok() })
    }
}

pub(super) fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// A link may have been put there so that something is written where it leads.
pub(super) fn dangling(path: &Path) -> Failure {
    refused(path, "this is a link that leads to nothing; nothing was written", "remove the link")
}

/// What is not written although it could be.
pub(super) fn refused(path: &Path, why: impl Into<String>, hint: &str) -> Failure {
    let error = io::Error::other(why.into());
    Failure::Write { path: path.to_owned(), error, hint: Some(hint.to_owned()) }
}

/// The path of a name below a folder, with every folder that leads there. Links that lead out of the
/// folder are not followed.
pub(super) fn made_below(folder: &Path, name: &Path) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error| Failure::Write { path: path.to_owned(), error, hint: None };
    let left = |path: &Path| {
        let why = format!("this leads out of {}; nothing was written", folder.display());
        refused(path, why, "remove the link, or name another folder")
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let root = folder.canonicalize().map_err(|error| failed(folder, error))?;
    let is_inside = |path: &Path| path.canonicalize().is_ok_and(|real| real.starts_with(&root));
    let mut path = folder.to_owned();
    let mut components = name.components().peekable();
    while let Some(component) = components.next() {
        path.push(component);
        if !matches!(component, Component::Normal(_)) {
            return Err(left(&path));
        }
        if components.peek().is_some() {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(&path, error));
                }
                _ if is_inside(&path) => {}
                _ => return Err(left(&path)),
            }
        }
    }
    match is_link(&path) && path.exists() && !is_inside(&path) {
        true => Err(left(&path)),
        false => Ok(path),
    }
}

/// Opens a file, but not what a link at its path leads to.
#[cfg(unix)]
pub(crate) fn unlinked(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
}

#[cfg(not(unix))]
pub(crate) fn unlinked(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options
}

/// The mode of the file at a path, as far as it says who may read it.
#[cfg(unix)]
pub(super) fn readers_of(path: &Path) -> Readers {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).map(|metadata| metadata.permissions().mode());
    mode.map_or(Readers::Owner, Readers::OfSession)
}

#[cfg(not(unix))]
pub(super) fn readers_of(_path: &Path) -> Readers {
    Readers::Owner
}

/// Files that are not yet in their place: nobody else reads them, or everybody who reads new files.
pub(super) fn beside(readers: Readers) -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".foldback-");
    #[cfg(unix)]
    if readers == Readers::Anybody {
        use std::os::unix::fs::PermissionsExt;
        names.permissions(fs::Permissions::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = readers;
    names
}

/// Gives a file the owner, the group and the permissions of the one at `path`, whose place it takes. Where
/// that is not allowed it fails: others could read or write it then, or its owner no longer.
#[cfg(unix)]
pub(super) fn keep_owner_and_mode(
    file: &File,
    of: &Metadata,
    readers: Readers,
    path: &Path,
) -> Result<(), Failure> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let failed = |error| Failure::Write { path: path.to_owned(), error, hint: None };
    let own = file.metadata().map_err(failed)?;
    let (owner, group) = (of.uid(), of.gid());
    if (own.uid(), own.gid()) != (owner, group) {
        fchown(file, Some(owner), Some(group)).map_err(|error| {
            let why = format!("its owner {owner} and group {group} cannot be kept: {error}");
            refused(path, why, "run this as its owner, or write to another file with -o FILE")
        })?;
    }
    let kept = fs::Permissions::from_mode(of.mode() & readers.mode_max());
    file.set_permissions(kept).map_err(failed)
}

#[cfg(not(unix))]
pub(super) fn keep_owner_and_mode(
    file: &File,
    of: &Metadata,
    _readers: Readers,
    path: &Path,
) -> Result<(), Failure> {
    let failed = |error| Failure::Write { path: path.to_owned(), error, hint: None };
    file.set_permissions(of.permissions()).map_err(failed)
}
