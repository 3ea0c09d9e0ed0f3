//! What foldback put where: the record by which `uninstall` takes out just that.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::agent::{ModuleFile, Scope};
use crate::failure::Failure;
use crate::store::data_folder;

/// In the user's data folder.
const FILE_NAME: &str = "installed.json";

/// One module in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Installed {
    pub(super) agent: String,
    pub(super) scope: Scope,
    /// The agent's folder.
    pub(super) folder: PathBuf,
    pub(super) files: Vec<Put>,
    /// Folders that were not there before, the outermost first.
    pub(super) folders: Vec<PathBuf>,
}

/// A file that was written, with a hash of what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Put {
    pub(super) path: PathBuf,
    hash: String,
}

/// What has become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    AsWritten,
    Changed,
    Gone,
}

impl Put {
    pub(super) fn of(file: &ModuleFile) -> Self {
        Self { path: file.path.clone(), hash: hash(file.text.as_bytes()) }
    }

    pub(super) fn state(&self) -> Result<State, Failure> {
        match fs::read(&self.path) {
            Ok(bytes) if hash(&bytes) == self.hash => Ok(State::AsWritten),
            Ok(_) => Ok(State::Changed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(State::Gone),
            Err(error) => Err(Failure::Read { path: self.path.clone(), error, hint: None }),
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// All modules that were put into agents.
#[derive(Debug)]
pub(super) struct Record {
    at: PathBuf,
    modules: Vec<Installed>,
}

impl Record {
    pub(super) fn load() -> Result<Self, Failure> {
        let at = data_folder("set HOME or XDG_DATA_HOME")?.join(FILE_NAME);
        let hint =
            || Some("remove it, and the modules by hand: `foldback install` shows where they are".to_owned());
        let failed = |error| Failure::Read { path: at.clone(), error, hint: hint() };
        let modules = match fs::read(&at) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| failed(error.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        Ok(Self { at, modules })
    }

    pub(super) fn find(&self, agent: &str, folder: &Path) -> Option<&Installed> {
        self.modules.iter().find(|module| module.agent == agent && module.folder == folder)
    }

    /// Takes note of a module in the place of an earlier one.
    pub(super) fn put(&mut self, module: Installed) -> Result<(), Failure> {
        self.forget(&module.agent, &module.folder);
        self.modules.push(module);
        self.save()
    }

    pub(super) fn take(&mut self, agent: &str, folder: &Path) -> Result<(), Failure> {
        self.forget(agent, folder);
        self.save()
    }

    fn forget(&mut self, agent: &str, folder: &Path) {
        self.modules.retain(|module| module.agent != agent || module.folder != folder);
    }

    /// In one step. A record of nothing is no file.
    fn save(&self) -> Result<(), Failure> {
        let folder = self.at.parent().unwrap_or(Path::new("."));
        let written = || -> io::Result<()> {
            if self.modules.is_empty() {
                return match fs::remove_file(&self.at) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                };
            }
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, &self.modules)?;
            file.flush()?;
            file.as_file().sync_all()?;
            file.persist(&self.at)?;
            Ok(())
        };
        written().map_err(|error| Failure::Write { path: self.at.clone(), error, hint: None })
    }
}
