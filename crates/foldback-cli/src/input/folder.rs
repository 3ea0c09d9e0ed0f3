//! The files of a folder that may be sessions.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders below each other that are looked into.
const DEPTH_MAX: usize = 16;

/// Files that are considered in one folder.
const FILES_MAX: usize = 100_000;

/// Files that may be sessions: what they are shows when they are read. A link to a file that is found
/// under its own name is not found once more.
pub(super) fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut links) = (Vec::new(), Vec::new());
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or("");
            let may_be_session = ["jsonl", "json", "traj"].contains(&extension);
            if kind.is_dir() && depth < DEPTH_MAX {
                folders.push((path, depth + 1));
            } else if kind.is_file() && may_be_session {
                files.push(path);
            } else if kind.is_symlink() && may_be_session && path.is_file() {
                links.push(path);
            }
            if files.len() + links.len() > FILES_MAX {
                return Err(io::Error::other(format!("more than {FILES_MAX} files; name a smaller folder")));
            }
        }
    }
    if !links.is_empty() {
        let named: HashSet<PathBuf> = files.iter().filter_map(|file| file.canonicalize().ok()).collect();
        let leads_elsewhere = |link: &PathBuf| link.canonicalize().is_ok_and(|real| !named.contains(&real));
        files.extend(links.into_iter().filter(leads_elsewhere));
    }
    files.sort();
    Ok(files)
}
