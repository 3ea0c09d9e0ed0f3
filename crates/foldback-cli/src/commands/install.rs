//! `foldback install` and `uninstall`: a module of foldback's in an agent, and out of it again.
//!
//! Only files that are not there yet are made, or that foldback made and nobody has changed since. What was
//! made is written down, so that `uninstall` takes away just that.

mod agent;
mod doctor;
mod record;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::agent::{Agent, ModuleFile, Scope};
use self::record::{Installed, Put, Record, State};
use crate::args::Shared;
use crate::args::install::Install;
use crate::failure::{Exit, Failure};
use crate::output::{self, Readers};
use crate::terminal::{self, STRONG, counted, harmless, say, styled};

pub(crate) use doctor::run as doctor;

/// What was done, for scripts.
#[derive(Serialize)]
struct Report<'a> {
    agent: &'a str,
    scope: Scope,
    written: Vec<&'a Path>,
    removed: Vec<&'a Path>,
    /// Files that were changed by somebody else, and left.
    left: Vec<&'a Path>,
    dry_run: bool,
}

impl<'a> Report<'a> {
    fn new(agent: &'a Agent, scope: Scope, arguments: &Install) -> Self {
        let (written, removed, left) = (Vec::new(), Vec::new(), Vec::new());
        Self { agent: agent.id, scope, written, removed, left, dry_run: arguments.dry_run }
    }
}

fn scope(arguments: &Install) -> Scope {
    if arguments.project { Scope::Project } else { Scope::User }
}

pub(crate) fn install(shared: &Shared, arguments: &Install) -> Result<Exit, Failure> {
    let (agent, scope) = (Agent::named(arguments.agent), scope(arguments));
    let folder = agent.folder(scope)?;
    let files = agent.module(&folder, &this_program()?);
    let mut record = Record::load()?;
    let earlier = record.find(agent.id, &folder).cloned();
    let new = files_to_write(&files, earlier.as_ref())?;
    let mut report = Report::new(agent, scope, arguments);
    if !new.is_empty() {
        let shown: Vec<&Path> = new.iter().map(|file| file.path.as_path()).collect();
        let what =
            format!("foldback puts its module for {} into {}", agent.label, counted(new.len(), "file"));
        if !go_on(shared, arguments, &what, &shown)? {
            report.written = if arguments.dry_run { shown } else { Vec::new() };
            return told(
                shared,
                &report,
                if arguments.dry_run { "nothing was written: --dry-run" } else { "nothing was written" },
            );
        }
        let mut folders = earlier.map(|earlier| earlier.folders).unwrap_or_default();
        folders.extend(missing_folders(&shown));
        let put = files.iter().map(Put::of).collect();
        // Written down first: what is half done can be taken out as well.
        record.put(Installed {
            agent: agent.id.to_owned(),
            scope,
            folder: folder.clone(),
            files: put,
            folders,
        })?;
        for file in &new {
            make_folder(file.path.parent().unwrap_or(&folder))?;
            output::to_file(&file.path, file.text.as_bytes(), Readers::Anybody)?;
        }
        report.written = shown;
    }
    let already = if report.written.is_empty() { " already" } else { "" };
    let mut text = format!("foldback is{already} installed in {}; `foldback doctor` checks it", agent.label);
    if scope == Scope::Project {
        text.push_str(&format!("\n{}", agent.project_note));
    }
    told(shared, &report, &text)
}

pub(crate) fn uninstall(shared: &Shared, arguments: &Install) -> Result<Exit, Failure> {
    let (agent, scope) = (Agent::named(arguments.agent), scope(arguments));
    let folder = agent.folder(scope)?;
    let mut record = Record::load()?;
    let mut report = Report::new(agent, scope, arguments);
    let Some(installed) = record.find(agent.id, &folder).cloned() else {
        let text = format!("foldback did not put anything into {}", harmless(&folder.display().to_string()));
        return told(shared, &report, &text).map(|_| Exit::Negative);
    };
    let mut going = Vec::new();
    for file in &installed.files {
        match file.state()? {
            State::AsWritten => going.push(file.path.as_path()),
            State::Changed => report.left.push(&file.path),
            State::Gone => {}
        }
    }
    let what = format!("foldback takes {} out of {}", counted(going.len(), "file"), agent.label);
    if !going.is_empty() && !go_on(shared, arguments, &what, &going)? {
        return told(shared, &report, "nothing was removed");
    }
    for path in &going {
        fs::remove_file(path).map_err(|error| Failure::Write {
            path: path.to_path_buf(),
            error,
            hint: None,
        })?;
    }
    remove_empty(&installed.folders);
    for path in &report.left {
        let path = path.display();
        terminal::warning(&format!("{path}: was changed after it was installed, and is left as it is"));
    }
    record.take(agent.id, &folder)?;
    report.removed = going;
    let text = match report.left.is_empty() {
        true => format!("foldback is not in {} any more", agent.label),
        false => format!("{} still loads the files that were changed", agent.label),
    };
    told(shared, &report, &text)
}

/// The files that are not there as they should be. Fails where a file is somebody else's.
fn files_to_write<'f>(
    files: &'f [ModuleFile],
    earlier: Option<&Installed>,
) -> Result<Vec<&'f ModuleFile>, Failure> {
    let mut new = Vec::new();
    for file in files {
        let put = Put::of(file);
        match put.state()? {
            State::AsWritten => continue,
            State::Gone => {}
            State::Changed => {
                let known =
                    earlier.and_then(|earlier| earlier.files.iter().find(|known| known.path == file.path));
                let is_ours =
                    known.map_or(Ok(false), |known| known.state().map(|state| state == State::AsWritten))?;
                if !is_ours {
                    let error =
                        io::Error::other("there is a file that foldback did not write; nothing was written");
                    let hint = Some("move it away, and install again".to_owned());
                    return Err(Failure::Write { path: file.path.clone(), error, hint });
                }
            }
        }
        new.push(file);
    }
    Ok(new)
}

/// Shows what will happen and asks, unless there is nobody to ask or no need to.
fn go_on(shared: &Shared, arguments: &Install, what: &str, paths: &[&Path]) -> Result<bool, Failure> {
    if !shared.quiet && !shared.json {
        say(&format!("{}:", styled(STRONG, what)));
        paths.iter().for_each(|path| say(&format!("  {}", path.display())));
    }
    match (arguments.dry_run, arguments.yes) {
        (true, _) => Ok(false),
        (false, true) => Ok(true),
        (false, false) => terminal::agree(what, "look at it with --dry-run, and then say --yes"),
    }
}

fn told(shared: &Shared, report: &Report<'_>, text: &str) -> Result<Exit, Failure> {
    match shared.json {
        true => output::print_json(report)?,
        false => output::print(&format!("{text}\n"))?,
    }
    Ok(Exit::Success)
}

/// Where this program is, for a module that has to find it.
fn this_program() -> Result<PathBuf, Failure> {
    let failed = |error| Failure::Read { path: "foldback".into(), error, hint: None };
    std::env::current_exe().map_err(failed)
}

/// The folders that the files need and that are not there, the outermost first.
fn missing_folders(files: &[&Path]) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = files
        .iter()
        .flat_map(|file| file.ancestors().skip(1).take_while(|folder| !folder.exists()))
        .map(Path::to_owned)
        .collect();
    missing.sort();
    missing.dedup();
    missing
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::Write { path: folder.to_owned(), error, hint: None })
}

/// Removes folders that foldback made and that hold nothing else, the innermost first.
fn remove_empty(folders: &[PathBuf]) {
    let mut folders: Vec<&PathBuf> = folders.iter().collect();
    folders.sort();
    for folder in folders.into_iter().rev() {
        // A folder that is not empty stays.
        let _is_gone = fs::remove_dir(folder).is_ok();
    }
}
