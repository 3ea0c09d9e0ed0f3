//! What a module asks: the requests of the contract.

use std::path::{Path, PathBuf};

use foldback_core::{CompactionReason, Tokens};
use foldback_formats::Format;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::values;

/// A conversation to compact.
#[derive(Debug, Deserialize)]
pub(super) struct CompactRequest {
    /// The agent's session file, which holds all that was said.
    pub(super) session: Option<PathBuf>,
    /// The conversation itself, where there is no such file: a list of messages or a whole request body.
    pub(super) messages: Option<Box<RawValue>>,
    /// The form of either, where its content leaves that open.
    #[serde(default, deserialize_with = "format")]
    pub(super) format: Option<Format>,
    /// The record that the conversation stands at, in a file that is a tree. Without it, the last.
    pub(super) leaf: Option<String>,
    /// What the host can do with the answer.
    #[serde(default)]
    pub(super) takes: Takes,
    #[serde(default)]
    pub(super) reason: WhyNow,
    /// What the person wants the summary to attend to.
    pub(super) instructions: Option<String>,
    /// The model that the conversation is for.
    pub(super) model: Option<String>,
    /// How many tokens that model reads and writes in one request.
    pub(super) window: Option<u64>,
    /// What the newest request cost by the provider's own count, cached tokens included.
    pub(super) used: Option<u64>,
    /// Where foldback's record of the compaction goes, for an agent that has no place for `details`.
    pub(super) record: Option<RecordAt>,
    /// How many tokens the compacted conversation may have.
    pub(super) target: Option<u64>,
}

/// What a host can put in the place of its conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Takes {
    /// A summary, and its own records behind it, from one of them on.
    #[default]
    Tail,
    /// A summary of everything: the host itself goes on behind it.
    Summary,
    /// Any list of messages.
    Messages,
}

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RecordAt {
    /// Behind what the session file holds now, as a line that the agent passes over.
    Session,
}

/// Why a conversation is compacted now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhyNow {
    /// It has become long.
    #[default]
    Auto,
    /// A person asked for it.
    Manual,
    /// The provider rejected a request for its length.
    Overflow,
}

impl WhyNow {
    pub(super) fn cause(self) -> CompactionReason {
        match self {
            Self::Auto => CompactionReason::TranscriptTooLong,
            Self::Manual => CompactionReason::Manual,
            Self::Overflow => CompactionReason::OverflowRejected,
        }
    }
}

/// Which conversation a request is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Which<'a> {
    pub(super) session: Option<&'a Path>,
    pub(super) messages: Option<&'a RawValue>,
    pub(super) format: Option<Format>,
    pub(super) leaf: Option<&'a str>,
}

impl CompactRequest {
    pub(super) fn which(&self) -> Which<'_> {
        let (session, messages) = (self.session.as_deref(), self.messages.as_deref());
        Which { session, messages, format: self.format, leaf: self.leaf.as_deref() }
    }

    pub(super) fn window(&self) -> Option<Tokens> {
        self.window.filter(|&window| window > 0).map(Tokens)
    }

    pub(super) fn used(&self) -> Option<Tokens> {
        self.used.filter(|&used| used > 0).map(Tokens)
    }
}

/// Something folded to be looked at again.
#[derive(Debug, Deserialize)]
pub(super) struct RecallRequest {
    pub(super) session: Option<PathBuf>,
    pub(super) messages: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "format")]
    pub(super) format: Option<Format>,
    pub(super) leaf: Option<String>,
    /// The name of what was folded, as summaries and placeholders print it.
    pub(super) handle: Option<String>,
    /// What is looked for, in words.
    pub(super) query: Option<String>,
    /// Where to go on in a long answer, in bytes.
    #[serde(default)]
    pub(super) offset: usize,
}

impl RecallRequest {
    pub(super) fn which(&self) -> Which<'_> {
        let (session, messages) = (self.session.as_deref(), self.messages.as_deref());
        Which { session, messages, format: self.format, leaf: self.leaf.as_deref() }
    }
}

/// A tool's output that has just arrived.
#[derive(Debug, Deserialize)]
pub(super) struct ShortenRequest {
    /// The name of the tool.
    #[serde(default)]
    pub(super) tool: String,
    /// What it was asked to do.
    #[serde(default)]
    pub(super) input: serde_json::Value,
    pub(super) output: String,
}

fn format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Format>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    name.map(|name| values::format_named(&name).map_err(serde::de::Error::custom)).transpose()
}
