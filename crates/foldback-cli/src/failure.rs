//! What can go wrong, how it is told, and the exit codes.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use foldback_core::Tokens;
use foldback_engine::{CompactionError, Refusal, StoreError};
use foldback_formats::{FormatError, Problem};
use foldback_store::archive::ArchiveError;

use crate::terminal::{self, number};

/// How the program ends. Documented in the help and the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All done.
    Success = 0,
    /// Done, and the answer is no: not valid, not the same, not found, less than was demanded.
    Negative = 1,
    /// The command line or the configuration makes no sense.
    Usage = 2,
    /// Something could not be read.
    Unreadable = 3,
    /// What must stay is larger than the target.
    Infeasible = 4,
    /// Something could not be written.
    Unwritable = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody reads stdout any more.
    BrokenPipe,
    /// The command line or the configuration makes no sense.
    Usage { what: String, hint: Option<String> },
    /// A file could not be opened or read.
    Read { path: PathBuf, error: io::Error, hint: Option<String> },
    /// A long file is no longer what was read of it.
    Changed { path: PathBuf },
    /// A file was read and is no session.
    Format { path: PathBuf, error: FormatError },
    /// There is nothing to work on.
    NoSessions { path: PathBuf },
    /// A compaction is impossible; the items that make it so, with their places.
    Compaction { path: PathBuf, error: Box<CompactionError>, items: Vec<String> },
    /// What is sent beside the conversation is as large as the target.
    OverheadAboveTarget { target: Tokens, overhead: Tokens },
    /// The store did not do what was asked.
    Store { error: Box<StoreError> },
    /// A backup was not made, or not restored.
    Archive { path: PathBuf, error: Box<ArchiveError> },
    /// A file could not be written.
    Write { path: PathBuf, error: io::Error, hint: Option<String> },
}

impl Failure {
    /// A mistake on the command line.
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: Some(hint.into()) }
    }

    /// What went wrong with a backup in a file, or with the store beside it.
    pub(crate) fn archive(path: &Path, error: ArchiveError) -> Self {
        match error {
            ArchiveError::Store(error) => error.into(),
            error => Self::Archive { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// A failure to write to stdout.
    pub(crate) fn stdout(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::Write { path: "stdout".into(), error, hint: None },
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::BrokenPipe => Exit::Success,
            Self::Usage { .. } | Self::Format { error: FormatError::NotWritable { .. }, .. } => Exit::Usage,
            Self::Read { .. } | Self::Changed { .. } | Self::Format { .. } | Self::NoSessions { .. } => {
                Exit::Unreadable
            }
            Self::Compaction { error, .. } => match **error {
                CompactionError::Refused(Refusal::BudgetInfeasible(_)) => Exit::Infeasible,
                CompactionError::Refused(Refusal::BudgetRequired { .. })
                | CompactionError::MissingBackend(_) => Exit::Usage,
                _ => Exit::Unwritable,
            },
            Self::OverheadAboveTarget { .. } => Exit::Infeasible,
            Self::Store { error } => match **error {
                StoreError::NothingTo { .. }
                | StoreError::OutOfRange { .. }
                | StoreError::Query { .. }
                | StoreError::Exists { .. } => Exit::Usage,
                StoreError::NotFound { .. }
                | StoreError::Corrupt { .. }
                | StoreError::OtherVersion { .. }
                | StoreError::NotAStore { .. }
                | StoreError::Unreachable { .. } => Exit::Unreadable,
                _ => Exit::Unwritable,
            },
            Self::Archive { error, .. } => match **error {
                ArchiveError::Exists { .. } => Exit::Usage,
                ArchiveError::NotAnArchive { .. }
                | ArchiveError::OtherForm { .. }
                | ArchiveError::Damaged { .. }
                | ArchiveError::Incomplete { .. }
                | ArchiveError::Read(_) => Exit::Unreadable,
                _ => Exit::Unwritable,
            },
            Self::Write { .. } => Exit::Unwritable,
        }
    }

    /// What is wrong and where.
    pub(crate) fn what(&self) -> String {
        match self {
            Self::BrokenPipe => "nobody reads".to_owned(),
            Self::Usage { what, .. } => what.clone(),
            Self::Read { path, error, .. } | Self::Write { path, error, .. } => {
                format!("{}: {error}", path.display())
            }
            Self::Changed { path } => format!("{}: the file has changed since it was read", path.display()),
            Self::Format { path, error } => in_file(path, error),
            Self::Store { error } => error.to_string(),
            Self::Archive { path, error } => format!("{}: {error}", path.display()),
            Self::NoSessions { path } => format!("{}: no session in this folder", path.display()),
            Self::OverheadAboveTarget { target, overhead } => format!(
                "the system prompt and the tools take {} tokens by the provider's count, the target is {}",
                number(overhead.0),
                number(target.0)
            ),
            Self::Compaction { path, error, .. } => match &**error {
                CompactionError::Refused(Refusal::BudgetInfeasible(infeasible)) => format!(
                    "{}: the items that cannot shrink cost {} tokens, the target is {}",
                    path.display(),
                    number(infeasible.kernel_tokens.0),
                    number(infeasible.target.0)
                ),
                error => format!("{}: {error}", path.display()),
            },
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            // What is said of a store and of a backup ends with what to do.
            Self::BrokenPipe | Self::Store { .. } | Self::Archive { .. } => None,
            Self::Usage { hint, .. } | Self::Read { hint, .. } | Self::Write { hint, .. } => hint.clone(),
            Self::Changed { .. } => Some("run it again when the agent has stopped writing".to_owned()),
            Self::Format { error, .. } => Some(error.hint()),
            Self::NoSessions { .. } => Some("name a session file, or a folder of them".to_owned()),
            Self::OverheadAboveTarget { .. } => Some(
                "raise the target, give a share of what can be compacted (\"40% of session\"), or leave the \
                 provider's count aside: --uncalibrated"
                    .to_owned(),
            ),
            Self::Compaction { error, .. } => match **error {
                CompactionError::Refused(Refusal::BudgetInfeasible(_)) => {
                    Some("raise the target, pin less, or shorten the newest message".to_owned())
                }
                _ => None,
            },
        }
    }

    /// Says what is wrong, where, and what to do.
    pub(crate) fn report(&self) {
        if let Self::BrokenPipe = self {
            return;
        }
        terminal::error(&self.what());
        if let Self::Compaction { items, .. } = self {
            items.iter().for_each(|item| terminal::say(&format!("  {item}")));
        }
        if let Some(hint) = self.hint() {
            terminal::hint(&hint);
        }
    }
}

/// `file:line:column: what`, where the error has a place.
fn in_file(path: &Path, error: &FormatError) -> String {
    match error {
        FormatError::Broken { problem, .. } => at(path, problem),
        _ => format!("{}: {error}", path.display()),
    }
}

/// `file:line:column: what`.
pub(crate) fn at(path: &Path, problem: &Problem) -> String {
    let column = problem.column.map_or_else(String::new, |column| format!(":{column}"));
    format!("{}:{}{column}: {}", path.display(), problem.line, problem.fault)
}
