//! The conversation that a request is about: a session file, or messages within the request.

use std::path::{Path, PathBuf};

use foldback_core::Dialect;
use foldback_formats::{Contents, Conversation, Format, SessionFile};
use serde_json::value::RawValue;

use crate::args::Shared;
use crate::failure::Failure;
use crate::input;

/// What messages are called in errors.
const MESSAGES: &str = "messages";

/// A conversation that was read, and where it came from.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) path: PathBuf,
    pub(super) session: SessionFile,
}

impl Read {
    /// The conversation that the agent is having: the first of the file.
    pub(super) fn conversation(&self) -> Result<&Conversation, Failure> {
        let none = || Failure::NoSessions { path: self.path.clone() };
        self.session.own_conversations().first().ok_or_else(none)
    }

    pub(super) fn dialect(&self) -> Option<Dialect> {
        self.session.dialect()
    }

    pub(super) fn contents(&self) -> &Contents {
        &self.session
    }
}

/// Reads what a request names.
pub(super) fn contents(
    shared: &Shared,
    session: Option<&Path>,
    messages: Option<&RawValue>,
    format: Option<Format>,
) -> Result<Read, Failure> {
    match (session, messages) {
        (Some(path), _) => {
            let shared = Shared { format: format.or(shared.format), ..shared.clone() };
            let opened = input::one(&shared, path)?;
            Ok(Read { path: path.to_owned(), session: opened.whole()? })
        }
        (None, Some(messages)) => {
            let bytes = messages.get().as_bytes().to_vec();
            let read = match format {
                Some(format) => SessionFile::read_as(format, bytes),
                None => SessionFile::read(bytes),
            };
            let path = Path::new(MESSAGES).to_owned();
            match read {
                Ok(session) => Ok(Read { path, session }),
                Err(error) => Err(Failure::Format { path, error }),
            }
        }
        (None, None) => Err(Failure::usage(
            "the request names no conversation",
            "give `session`, the path of a session file, or `messages`",
        )),
    }
}
