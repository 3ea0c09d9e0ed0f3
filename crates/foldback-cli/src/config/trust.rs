//! Which projects' configuration files the person allowed to say where conversations go. A file is known by
//! its path and its content: whoever changes it asks again.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::file::Settings;
use crate::failure::Failure;
use crate::store::data_folder;

/// In the user's data folder. The names of the files are in it, and it may be written by its owner alone.
const FILE_NAME: &str = "trusted.json";

/// A configuration file of a project, with what was in it when it was looked at.
#[derive(Debug)]
pub(crate) struct ProjectFile {
    path: PathBuf,
    text: String,
    needing_trust: Vec<(&'static str, String)>,
}

impl ProjectFile {
    /// The file that is named, or the one that is found from here.
    pub(crate) fn read(named: Option<&Path>) -> Result<Self, Failure> {
        let path = path_of(named)?;
        let failed = |error| Failure::Read { path: path.clone(), error, hint: None };
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        let needing_trust = Settings::parse(&text, &path)?.needing_trust();
        Ok(Self { path, text, needing_trust })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it may decide once it is trusted, by name and value.
    pub(crate) fn needing_trust(&self) -> &[(&'static str, String)] {
        &self.needing_trust
    }
}

/// The file that is named, which may be gone, or the one that is found from here.
pub(crate) fn path_of(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = named.map(Path::to_owned).or_else(super::project_file).ok_or_else(|| {
        let what = "there is no foldback.toml in this folder or above it";
        Failure::usage(what, "name the file: `foldback trust FILE`")
    })?;
    let absolute = path.canonicalize().or_else(|_| std::path::absolute(&path));
    Ok(absolute.unwrap_or(path))
}

/// A file that was allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) path: String,
    hash: String,
}

/// What has become of a file that was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Trusted,
    Changed,
    Gone,
}

impl Entry {
    fn of(path: &Path, text: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(path.as_os_str().as_encoded_bytes()).update(&[0]).update(text.as_bytes());
        let hash = hasher.finalize().to_hex().to_string();
        Self { path: path.display().to_string(), hash }
    }

    pub(crate) fn state(&self) -> State {
        match std::fs::read_to_string(&self.path) {
            Err(_) => State::Gone,
            Ok(text) if Self::of(Path::new(&self.path), &text) == *self => State::Trusted,
            Ok(_) => State::Changed,
        }
    }
}

/// All files that were allowed.
#[derive(Debug)]
pub(crate) struct Trusted {
    at: PathBuf,
    pub(crate) entries: Vec<Entry>,
}

impl Trusted {
    pub(crate) fn load() -> Result<Self, Failure> {
        let at = data_folder("set HOME or XDG_DATA_HOME")?.join(FILE_NAME);
        let failed = |error| {
            let hint = Some("remove it, and allow the files again".to_owned());
            Failure::Read { path: at.clone(), error, hint }
        };
        let entries = match std::fs::read(&at) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        Ok(Self { at, entries })
    }

    /// Whether this content was allowed at this path.
    pub(crate) fn holds(&self, path: &Path, text: &str) -> bool {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.entries.contains(&Entry::of(&path, text))
    }

    /// Allows a file as it was read, and no other content of it.
    pub(crate) fn allow(mut self, file: &ProjectFile) -> Result<(), Failure> {
        let entry = Entry::of(&file.path, &file.text);
        self.entries.retain(|other| other.path != entry.path);
        self.entries.push(entry);
        self.save()
    }

    /// Takes a file off the list; whether it was on it.
    pub(crate) fn revoke(mut self, path: &Path) -> Result<bool, Failure> {
        let (path, before) = (path.display().to_string(), self.entries.len());
        self.entries.retain(|entry| entry.path != path);
        match self.entries.len() == before {
            true => Ok(false),
            false => self.save().map(|()| true),
        }
    }

    /// In one step; a temporary file can be read by its owner alone, and so can what it becomes.
    fn save(&self) -> Result<(), Failure> {
        let folder = self.at.parent().unwrap_or(Path::new("."));
        let written = || -> std::io::Result<()> {
            std::fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, &self.entries)?;
            file.flush()?;
            file.as_file().sync_all()?;
            file.persist(&self.at)?;
            Ok(())
        };
        written().map_err(|error| Failure::Write { path: self.at.clone(), error, hint: None })
    }
}
