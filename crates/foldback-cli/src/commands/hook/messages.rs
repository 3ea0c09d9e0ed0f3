//! The conversation that a request is about: a session file, or messages within the request.

use std::path::{Path, PathBuf};

use foldback_core::Dialect;
use foldback_formats::{Contents, Conversation, SessionFile};

use super::request::Which;
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
    /// The conversation at the record that was named.
    at: Option<Conversation>,
}

impl Read {
    fn new(path: PathBuf, session: SessionFile, leaf: Option<&str>) -> Result<Self, Failure> {
        let at = leaf.and_then(|leaf| session.conversation_at(leaf));
        if let (Some(leaf), None) = (leaf, &at) {
            let what = format!("{} has no record {leaf}", path.display());
            return Err(Failure::usage(what, "let `leaf` be the record that the conversation ends with"));
        }
        Ok(Self { path, session, at })
    }

    /// The conversation that the agent is having: the one at the record that was named, or the first of the file.
    pub(super) fn conversation(&self) -> Result<&Conversation, Failure> {
        if let Some(at) = &self.at {
            return Ok(at);
        }
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
pub(super) fn contents(shared: &Shared, which: Which<'_>) -> Result<Read, Failure> {
    match (which.session, which.messages) {
        (Some(path), _) => {
            let shared = Shared { format: which.format.or(shared.format), ..shared.clone() };
            let opened = input::one(&shared, path)?;
            Read::new(path.to_owned(), opened.whole()?, which.leaf)
        }
        (None, Some(messages)) => {
            let bytes = match serde_json::from_str::<String>(messages.get()) {
                Ok(lines) => lines.into_bytes(),
                Err(_) => messages.get().as_bytes().to_vec(),
            };
            let read = match which.format {
                Some(format) => SessionFile::read_as(format, bytes),
                None => SessionFile::read(bytes),
            };
            let path = Path::new(MESSAGES).to_owned();
            match read {
                Ok(session) => Read::new(path, session, which.leaf),
                Err(error) => Err(Failure::Format { path, error }),
            }
        }
        (None, None) => Err(Failure::usage(
            "the request names no conversation",
            "give `session`, the path of a session file, or `messages`",
        )),
    }
}
