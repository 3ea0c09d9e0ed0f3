//! What can be wrong with a file: [`FormatError`] where nothing can be read, [`Problem`] where the
//! rest can.

use std::fmt;

use crate::format::Format;

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// No format fits.
    #[error("not a session or request that foldback knows{}", Seen(.seen))]
    Unknown {
        /// What is wrong with its beginning, where that is clear.
        seen: Option<Problem>,
    },
    /// Several formats fit equally well.
    #[error("the content fits {}", Names(.fits))]
    Ambiguous {
        /// All of them.
        fits: Vec<Format>,
    },
    /// It is of this format, but something in it is not.
    #[error("{problem}")]
    Broken {
        /// The format.
        format: Format,
        /// What and where.
        problem: Problem,
    },
    /// The format is read only, or not for this content.
    #[error("{format} cannot be written: {reason}")]
    NotWritable {
        /// The format.
        format: Format,
        /// Why not.
        reason: &'static str,
    },
}

impl FormatError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Empty => "give a file with at least one message".to_owned(),
            Self::Unknown { .. } => {
                let names: Vec<&str> = Format::ALL.iter().map(|format| format.as_str()).collect();
                format!("say what it is with --format: {}", names.join(", "))
            }
            Self::Ambiguous { fits } => {
                let names: Vec<String> = fits.iter().map(|format| format!("--format {format}")).collect();
                format!("say which it is: {}", names.join(" or "))
            }
            Self::Broken { problem, .. } => problem.fault.hint().to_owned(),
            Self::NotWritable { .. } => "choose another format; native holds everything".to_owned(),
        }
    }

    /// Where it is, where that is known.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Unknown { seen } => seen.as_ref(),
            Self::Broken { problem, .. } => Some(problem),
            Self::Empty | Self::Ambiguous { .. } | Self::NotWritable { .. } => None,
        }
    }
}

struct Seen<'a>(&'a Option<Problem>);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |problem| write!(f, ": {problem}"))
    }
}

struct Names<'a>(&'a [Format]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, format) in self.0.iter().enumerate() {
            let separator = match index {
                0 => "",
                _ if index + 1 == self.0.len() => " and ",
                _ => ", ",
            };
            write!(f, "{separator}{format}")?;
        }
        Ok(())
    }
}

/// Something in a file that could not be read. Its bytes are kept like all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in bytes, counted from 1, where known.
    pub column: Option<usize>,
    /// What is wrong there.
    pub fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

/// What can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A line that begins with `//`.
    #[error("a comment line")]
    Comment,
    /// The bytes are not text.
    #[error("not UTF-8")]
    NotUtf8,
    /// The beginning of JSON.
    #[error("the text ends in the middle of a JSON value")]
    CutOff,
    /// Not JSON.
    #[error("not JSON: {reason}")]
    NotJson {
        /// What the JSON reader says.
        reason: String,
    },
    /// JSON, but not what stands there in this format.
    #[error("not understood: {reason}")]
    NotUnderstood {
        /// What is missing, unknown or of the wrong type.
        reason: String,
    },
}

impl Fault {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Comment => "nothing: it is kept and not read",
            Self::NotUtf8 => "save the file as UTF-8",
            Self::CutOff => "complete it, or remove it if a write was interrupted there",
            Self::NotJson { .. } => "correct the JSON, or remove the line if it is no record",
            Self::NotUnderstood { .. } => "check the field named, or name the format with --format",
        }
    }

    /// Whether something that may be content was passed over.
    pub(crate) fn loses_content(&self) -> bool {
        !matches!(self, Self::Comment)
    }
}

impl Problem {
    /// What `serde_json` found in text whose first byte stands at `line` and byte `offset` of it.
    pub(crate) fn of_json(error: &serde_json::Error, line: usize, offset: usize) -> Self {
        use serde_json::error::Category;
        let message = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let reason = message.strip_suffix(&place).unwrap_or(&message).to_owned();
        let fault = match error.classify() {
            Category::Eof => Fault::CutOff,
            Category::Data => Fault::NotUnderstood { reason },
            Category::Syntax | Category::Io => Fault::NotJson { reason },
        };
        let in_first_line = error.line() <= 1;
        let column = (error.column() > 0).then(|| error.column() + if in_first_line { offset } else { 0 });
        Self { line: line + error.line().saturating_sub(1), column, fault }
    }
}
