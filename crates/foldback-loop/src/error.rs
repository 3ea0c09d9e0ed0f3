//! Why an agent cannot be built, and why a turn did not end with an answer.

use std::borrow::Cow;
use std::fmt;

use foldback_core::{MutationPoint, Tokens, Violation};
use foldback_engine::session::StoredSessionError;
use foldback_engine::{BackendError, StrategyCompactorBuildError};

/// Why there is no agent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentBuildError {
    /// Nobody would answer.
    #[error("the agent has no model; give it one with `.model(..)`")]
    NoModel,
    /// A name that providers reject.
    #[error(
        "{name:?} is no name for a tool; use 1 to {} letters, digits, '_' and '-'",
        crate::tool::TOOL_NAME_BYTES_MAX
    )]
    ToolName {
        /// The name.
        name: String,
    },
    /// The model could not say which one it means.
    #[error("two tools are called {name:?}; rename one")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// Providers take JSON schemas of objects only.
    #[error("the input schema of {name:?} is not a JSON object; begin with {{\"type\": \"object\"}}")]
    ToolSchema {
        /// The tool.
        name: String,
    },
    /// Events could not say which one they are about.
    #[error("two mutators are labelled {label:?}; label one of them differently")]
    DuplicateMutator {
        /// The label.
        label: String,
    },
    /// The configuration of compactions and the window do not go together.
    #[error("the agent cannot compact: {0}")]
    Compaction(#[from] StrategyCompactorBuildError),
    /// A limit of nothing.
    #[error("{limit} is 0; give at least 1")]
    LimitZero {
        /// Which.
        limit: &'static str,
    },
}

/// Why a turn did not end with an answer. The transcript is valid whichever it is: every recorded
/// call has its result, and the next turn goes on from there.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// A mutation was refused, or its mutator failed. The transcript is the one from before it.
    #[error("the mutation by {mutator} was refused: {why}")]
    Mutator {
        /// The mutator's label.
        mutator: String,
        /// Where the loop was.
        point: MutationPoint,
        /// What was wrong.
        why: MutationFault,
    },
    /// The model did not answer.
    #[error("the model did not answer")]
    Model(#[source] BackendError),
    /// The provider kept rejecting the request for its length.
    #[error("the request is too long for the model{}; tried: {}", in_tokens(.limit), list(.tried))]
    ContextOverflow {
        /// The window, where the provider named it.
        limit: Option<Tokens>,
        /// What was done about it, in order.
        tried: Vec<Recovery>,
    },
    /// The next request is one that the provider would reject.
    #[error("the next request would be rejected: {}", first(.violations))]
    InvalidRequest {
        /// Everything that is wrong with it.
        violations: Vec<Violation>,
    },
    /// The person stopped the turn.
    #[error("the turn was interrupted")]
    Interrupted,
    /// The host cancelled everything.
    #[error("the turn was cancelled")]
    Cancelled,
    /// The model went on calling tools.
    #[error(
        "the model called tools in {rounds_max} rounds without an answer; raise the limit or go on with another turn"
    )]
    RoundLimit {
        /// The limit.
        rounds_max: usize,
    },
    /// What was said could not be stored, or what was stored could not be read. The conversation in memory goes
    /// on; what is missing in the store is stored with the next turn.
    #[error("the session could not be stored")]
    Session(#[from] StoredSessionError),
    /// Too much was said while the agent worked.
    #[error("{items_max} items wait to be delivered; wait for the turn to go on")]
    QueueFull {
        /// The limit.
        items_max: usize,
    },
}

impl LoopError {
    /// The kind of error in a word of few, as OpenTelemetry's `error.type` wants it: that of the model's
    /// failure, `context_overflow`, or `mutator`, `invalid_request`, `interrupted`, `cancelled`,
    /// `round_limit`, `session`, `queue_full`.
    pub fn error_type(&self) -> Cow<'static, str> {
        match self {
            Self::Model(error) => error.error_type(),
            Self::ContextOverflow { limit, .. } => BackendError::Overflow { limit: *limit }.error_type(),
            Self::Mutator { .. } => "mutator".into(),
            Self::InvalidRequest { .. } => "invalid_request".into(),
            Self::Interrupted => "interrupted".into(),
            Self::Cancelled => "cancelled".into(),
            Self::RoundLimit { .. } => "round_limit".into(),
            Self::Session(_) => "session".into(),
            Self::QueueFull { .. } => "queue_full".into(),
        }
    }
}

/// What was wrong with a mutation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MutationFault {
    /// What it led to would be rejected.
    #[error("it leads to a request that would be rejected: {}", first(.violations))]
    Invalid {
        /// Everything that is wrong with it.
        violations: Vec<Violation>,
    },
    /// The record is append-only (T1).
    #[error("it changes recorded items; hide or fold them instead")]
    RecordChanged,
    /// The mutator said so.
    #[error("{why}")]
    Failed {
        /// What it said.
        why: String,
    },
    /// The mutator panicked.
    #[error("it panicked")]
    Panicked,
}

/// One attempt to make a rejected request fit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// What the view cost before, as counted here.
    pub tokens_before: Tokens,
    /// What it cost after.
    pub tokens_after: Tokens,
    /// The mutators that changed something.
    pub mutators: Vec<String>,
    /// What those that failed said.
    pub failures: Vec<String>,
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mutators.is_empty() {
            true => write!(f, "no mutator changed anything at {} tokens", self.tokens_before)?,
            false => {
                let names = self.mutators.join(", ");
                write!(f, "{names} from {} to {} tokens", self.tokens_before, self.tokens_after)?;
            }
        }
        self.failures.iter().try_for_each(|failure| write!(f, " ({failure})"))
    }
}

fn first(violations: &[Violation]) -> String {
    violations.first().map_or_else(String::new, ToString::to_string)
}

fn list(tried: &[Recovery]) -> String {
    match tried.is_empty() {
        true => "nothing".to_owned(),
        false => tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

fn in_tokens(limit: &Option<Tokens>) -> String {
    limit.map_or_else(String::new, |limit| format!(", which holds {limit} tokens"))
}
