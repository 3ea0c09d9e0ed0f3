//! Sessions that agents recorded on this machine: the newest of the folder that one works in, and those that
//! an id names.
//!
//! The only place that knows where agents keep their sessions, and how they are resumed.

mod beginning;
mod keeping;
mod resume;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use foldback_formats::Format;

use crate::args::{Command, Shared};
use crate::failure::Failure;
use crate::terminal::{self, counted};
use beginning::Beginning;
use keeping::Keeping;
pub(crate) use resume::{resume_command, shell_word};

/// Sessions that are named where an id fits several.
const NAMED_MAX: usize = 5;

/// Shorter ids name too many sessions, and files that were meant.
const ID_CHARACTERS_MIN: usize = 4;

/// Characters of a title or a prompt.
const TITLE_CHARACTERS_MAX: usize = 60;

/// An agent that keeps sessions in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    ClaudeCode,
    Codex,
    GeminiCli,
    Pi,
    CopilotCli,
}

impl Agent {
    /// Its name for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::Pi => "pi",
            Self::CopilotCli => "Copilot CLI",
        }
    }

    /// The agent that writes a format.
    fn of(format: Format) -> Option<Self> {
        match format {
            Format::ClaudeCode => Some(Self::ClaudeCode),
            Format::Codex => Some(Self::Codex),
            Format::GeminiCli => Some(Self::GeminiCli),
            Format::Pi => Some(Self::Pi),
            Format::CopilotCli => Some(Self::CopilotCli),
            _ => None,
        }
    }
}

/// A session that an agent recorded.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) agent: Agent,
    pub(crate) path: PathBuf,
    /// What the agent calls it.
    pub(crate) id: String,
    /// Its title or, where it has none, what was asked first.
    pub(crate) title: Option<String>,
    pub(crate) changed_at: SystemTime,
}

impl Found {
    /// `Claude Code session 4af32048, "Fix the parser", 3 minutes ago`.
    pub(crate) fn told(&self) -> String {
        let title = self.title.as_ref().map_or_else(String::new, |title| format!(" \"{title}\","));
        format!("{} session {},{title} {}", self.agent.name(), self.short_id(), ago(self.changed_at))
    }

    /// The beginning of the id, which tells it from most others.
    pub(crate) fn short_id(&self) -> &str {
        self.id.get(..8).filter(|_| self.id.len() > 20).unwrap_or(&self.id)
    }
}

/// How long ago something was, in words.
pub(crate) fn ago(time: SystemTime) -> String {
    let seconds = SystemTime::now().duration_since(time).unwrap_or(Duration::ZERO).as_secs();
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", counted(usize::try_from(count).unwrap_or(usize::MAX), unit))
}

/// The sessions of the folder that one works in, the newest first. Each file is looked at when its turn
/// comes: there may be thousands.
pub(crate) fn of_this_folder() -> impl Iterator<Item = Found> {
    let folders = keeping::working_folders();
    let mut files = Keeping::here().files(&folders);
    // Names break ties, so that the order is the same each time.
    files.sort_by(|one, other| other.changed_at.cmp(&one.changed_at).then(one.path.cmp(&other.path)));
    files.into_iter().filter_map(move |file| found(&file, Some(&folders)))
}

fn found(file: &keeping::File, folders: Option<&[PathBuf]>) -> Option<Found> {
    let beginning = Beginning::read(file.agent, &file.path)?;
    let is_here = |folder: &Path| folders.is_none_or(|folders| folders.iter().any(|here| here == folder));
    if !file.is_of_folder && !beginning.folder.as_deref().is_some_and(is_here) {
        return None;
    }
    // Two folders can have one name where an agent keeps the sessions of each.
    let is_of_other = |folder: &Path| !is_here(folder) && file.is_kept_for(folder);
    if file.is_of_folder && beginning.folder.as_deref().is_some_and(is_of_other) {
        return None;
    }
    Some(Found {
        agent: file.agent,
        path: file.path.clone(),
        id: beginning.id.or_else(|| file.id())?,
        title: beginning.title,
        changed_at: file.changed_at,
    })
}

/// Puts the sessions in place that a command means without naming a file: the newest of this folder where
/// it names none, and those whose ids it names.
pub(crate) fn fill(shared: &Shared, command: &mut Command) -> Result<(), Failure> {
    let Some(named) = command.sessions() else { return Ok(()) };
    for path in named.paths.iter_mut() {
        if let Some(found) = by_id(path)? {
            tell(shared, &found);
            *path = found.path;
        }
    }
    if !named.paths.is_empty() || !named.without.is_newest() {
        return Ok(());
    }
    let newest = of_this_folder().next().ok_or_else(none_here)?;
    tell(shared, &newest);
    named.paths.push(newest.path);
    if let Command::Undo(undo) | Command::Redo(undo) = command {
        undo.in_place = undo.output.is_none();
    }
    Ok(())
}

fn tell(shared: &Shared, found: &Found) {
    if !shared.quiet {
        terminal::say(&found.told());
    }
}

/// What there is to say where nobody recorded anything for a folder.
pub(crate) fn none_here() -> Failure {
    Failure::usage(
        "no session is named, and no agent has recorded one for this folder",
        "name a session file, a folder, or - for stdin",
    )
}

/// The session that an id names, where no file has that name. Those of this folder come first.
fn by_id(path: &Path) -> Result<Option<Found>, Failure> {
    let Some(id) = path.to_str().filter(|id| is_id(id) && !path.exists()) else { return Ok(None) };
    let fits = |found: &Found| found.id.starts_with(id);
    let mut fitting: Vec<Found> = of_this_folder().filter(fits).collect();
    if fitting.is_empty() {
        let files = Keeping::here().all_files();
        let mentions = files.iter().filter(|file| file.path.to_string_lossy().contains(id));
        fitting = mentions.filter_map(|file| found(file, None)).filter(fits).collect();
    }
    let exact = fitting.iter().position(|found| found.id == id);
    if let Some(exact) = exact.or((fitting.len() == 1).then_some(0)) {
        return Ok(Some(fitting.swap_remove(exact)));
    }
    if fitting.is_empty() {
        return Ok(None);
    }
    let named: Vec<String> =
        fitting.iter().take(NAMED_MAX).map(|found| format!("{} ({})", found.id, found.told())).collect();
    let what = format!("{id} fits {}: {}", counted(fitting.len(), "session"), named.join("; "));
    Err(Failure::usage(what, "give more of the id"))
}

fn is_id(text: &str) -> bool {
    text.len() >= ID_CHARACTERS_MIN
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// The sessions that a command names, to be filled in.
pub(crate) struct Named<'a> {
    pub(crate) paths: &'a mut Vec<PathBuf>,
    /// What is meant where none is named.
    pub(crate) without: Without,
}

/// What a command without a session means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// Stdin where that is a pipe or a file, else the newest session of the folder.
    StdinOrNewest,
    /// The newest session of the folder, whatever stdin is.
    Newest,
    /// What the command makes of it.
    Nothing,
}

impl Without {
    fn is_newest(self) -> bool {
        match self {
            Self::StdinOrNewest => !keeping::stdin_has_data(),
            Self::Newest => true,
            Self::Nothing => false,
        }
    }
}
