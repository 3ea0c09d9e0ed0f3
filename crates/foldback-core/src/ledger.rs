//! The ledger: facts found without a model.
//!
//! A [`Ledger`] is filled item by item, at a cost in proportion to the item. For two views of one
//! transcript, or for a plan, `account` then answers which facts are still told, which stand behind a
//! handle, and which are neither ([`Ledger::account`]).

mod book;
mod calls;
mod constraint;
mod fact;
mod jobs;
mod names;
mod own;
mod said;
mod scan;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use book::FactIndex;
pub use book::Ledger;
pub(crate) use constraint::is_constraint;
pub use constraint::sentences;
pub(crate) use fact::test_clause;
pub use fact::{
    CommandHistory, CommandRun, Detail, ErrorState, Fact, Mention, Operation, PathHistory, TestHistory,
};
pub(crate) use names::names;
pub(crate) use own::{RULES_BYTES_MAX, SENTENCE_BYTES_MAX, outside_code, own_words};
pub(crate) use said::is_decision;
pub use scan::{Found, scan};

/// What a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FactKind {
    /// A file or folder.
    Path,
    /// A command that was run.
    Command,
    /// How a test run ended.
    TestResult,
    /// Something that went wrong.
    Error,
    /// A name that a program knows.
    Identifier,
    /// A number that says something.
    Number,
    /// An address.
    Url,
    /// A commit or another hash.
    Hash,
    /// A rule that the user gave.
    Constraint,
    /// What was decided, and why.
    Decision,
    /// Something to do.
    Todo,
    /// A question nobody has answered yet.
    Question,
    /// Something that is still running.
    Job,
}

impl FactKind {
    /// Every kind, in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::Path,
        Self::Command,
        Self::TestResult,
        Self::Error,
        Self::Identifier,
        Self::Number,
        Self::Url,
        Self::Hash,
        Self::Constraint,
        Self::Decision,
        Self::Todo,
        Self::Question,
        Self::Job,
    ];

    /// Its name in reports and configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Command => "command",
            Self::TestResult => "test-result",
            Self::Error => "error",
            Self::Identifier => "identifier",
            Self::Number => "number",
            Self::Url => "url",
            Self::Hash => "hash",
            Self::Constraint => "constraint",
            Self::Decision => "decision",
            Self::Todo => "todo",
            Self::Question => "question",
            Self::Job => "job",
        }
    }
}

impl fmt::Display for FactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
