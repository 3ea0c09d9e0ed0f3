//! The port to whoever writes summaries: a model over HTTP, a nested agent, or the digest.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use foldback_core::{
    CompactionReason, FinishReason, Item, Metadata, Prices, SessionId, Text, Tokens, TurnId, Usage,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::ask::BackendGuard;

/// What an instruction to summarise costs, where a backend does not say.
const PROMPT_TOKENS: u64 = 1_000;

/// Writes summaries.
///
/// Implementors guarantee: one call asks the model at most once (the executor retries, so that all
/// retries are counted in one place); nothing of the answer is made up where the model gave none;
/// the work ends soon after `cancellation` is cancelled; keys are never part of an error or a log.
#[async_trait]
pub trait CompactionBackend: Send + Sync {
    /// Summarises the items of the request. The token is always there: one that nobody cancels costs nothing.
    /// The error says of what kind it is, because retries and the guard go by it; a service of the host's
    /// own that says no answers [`BackendError::Failed`].
    async fn summarize(
        &self,
        request: SummaryRequest,
        cancellation: CancellationToken,
    ) -> Result<SummaryResult, BackendError>;

    /// The name in events and in `written_by`, such as `openai:gpt-5-mini`.
    fn name(&self) -> &str {
        "host"
    }

    /// What its model reads and writes at most together, where known. The executor fits what it
    /// sends to it, and never learns it from rejected requests.
    fn window(&self) -> Option<Tokens> {
        None
    }

    /// What it sends around the items at most: its instruction, and the marks between them.
    fn prompt_tokens(&self) -> Tokens {
        Tokens(PROMPT_TOKENS)
    }

    /// Whether it reads the items at all. One that does not is not asked by the executor: the digest
    /// is what it would answer with.
    fn reads_items(&self) -> bool {
        true
    }

    /// What its tokens cost, where known.
    fn prices(&self) -> Option<&'static Prices> {
        None
    }
}

impl fmt::Debug for dyn CompactionBackend + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A backend that was chosen while the program runs.
macro_rules! forwarded {
    ($($pointer:ty),*) => {
        $(#[async_trait]
        impl<B: CompactionBackend + ?Sized> CompactionBackend for $pointer {
            async fn summarize(
                &self,
                request: SummaryRequest,
                cancellation: CancellationToken,
            ) -> Result<SummaryResult, BackendError> {
                (**self).summarize(request, cancellation).await
            }

            fn name(&self) -> &str {
                (**self).name()
            }

            fn window(&self) -> Option<Tokens> {
                (**self).window()
            }

            fn prompt_tokens(&self) -> Tokens {
                (**self).prompt_tokens()
            }

            fn reads_items(&self) -> bool {
                (**self).reads_items()
            }

            fn prices(&self) -> Option<&'static Prices> {
                (**self).prices()
            }
        })*
    };
}

forwarded!(Arc<B>, Box<B>);

/// A backend with the guard before it. Clones share both: whoever compacts with the same backend goes
/// by what all of them know of it, so that a server that does not answer one conversation is not asked
/// for the next, and one limit to what is spent holds for all.
///
/// ```
/// use std::sync::Arc;
/// use foldback_core::LadderStrategy;
/// use foldback_engine::{BackendGuard, DigestBackend, GuardLimits, GuardedBackend, StrategyCompactor};
///
/// let limits = GuardLimits { dollars_max: Some(2.0), ..GuardLimits::default() };
/// let backend = GuardedBackend::new(Arc::new(DigestBackend)).guarded_by(BackendGuard::new(limits));
/// let (mine, yours) = (backend.clone(), backend);
/// let one = StrategyCompactor::builder().backend(mine);
/// let other = StrategyCompactor::builder().backend(yours);
/// # let _ = (one, other);
/// ```
#[derive(Clone, Debug)]
pub struct GuardedBackend {
    backend: Arc<dyn CompactionBackend>,
    guard: BackendGuard,
}

impl GuardedBackend {
    /// The backend, with a guard that has seen nothing yet. Make one for each backend, and clone it.
    pub fn new(backend: Arc<dyn CompactionBackend>) -> Self {
        Self { backend, guard: BackendGuard::default() }
    }

    /// The same behind another guard: one with limits, or one that several models of a server share.
    #[must_use]
    pub fn guarded_by(mut self, guard: BackendGuard) -> Self {
        self.guard = guard;
        self
    }

    /// Decides whether it is asked, and knows what its calls took.
    pub fn guard(&self) -> &BackendGuard {
        &self.guard
    }
}

impl Deref for GuardedBackend {
    type Target = dyn CompactionBackend;

    fn deref(&self) -> &Self::Target {
        &*self.backend
    }
}

/// A backend of which there is no other handle.
impl<B: CompactionBackend + 'static> From<B> for GuardedBackend {
    fn from(backend: B) -> Self {
        Self::new(Arc::new(backend))
    }
}

/// Which part of a summary is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SummaryStage {
    /// All of it.
    #[default]
    Whole,
    /// One of several chunks of a range that is too long for one call.
    Chunk {
        /// Which, from zero.
        index: usize,
        /// Of how many.
        count: usize,
    },
    /// One summary of the summaries of all chunks, which are the items.
    Merge,
}

/// What to summarise. It is not serialised as a whole, because its items are shared with the view; a
/// backend in another process is sent `items`, each of which is.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRequest {
    /// Whose conversation it is.
    pub session_id: SessionId,
    /// The turn it happens in.
    pub turn_id: Option<TurnId>,
    /// What is to be summarised, in order, tool calls and results included.
    pub items: Vec<Arc<Item>>,
    /// Why the conversation is compacted.
    pub reason: CompactionReason,
    /// What the host wants to pass along.
    pub metadata: Metadata,
    /// What the summary may cost, overhead included.
    pub tokens_max: Option<Tokens>,
    /// What the person asked the summary to attend to.
    pub focus: Option<Text>,
    /// Earlier summaries, which this one brings up to date and replaces.
    pub previous: Vec<Arc<Item>>,
    /// What stays visible beside the summary: the first task and the newest items, long ones shortened. It
    /// says what is wanted now and what is unfinished, and is not to be summarised.
    pub staying: Vec<Arc<Item>>,
    /// What must stand in the summary word for word: the user's rules and the files that were changed. Found
    /// without a model. The newest failure that is open is added where the answer does not tell it.
    pub demands: Vec<Text>,
    /// What the digest says of the same items within the same size. A backend may use it or not; the
    /// executor falls back to it.
    pub digest: Option<Arc<Item>>,
    /// The conversation up to and including the items, as the provider has it in its cache: a backend
    /// for the same model may send it unchanged with its instruction behind it, and pay for little
    /// more than the instruction.
    pub prefix: Option<Vec<Arc<Item>>>,
    /// Which part of the summary is asked for.
    pub stage: SummaryStage,
}

impl SummaryRequest {
    /// A request outside any turn, for items that are shared or owned.
    pub fn new<I: Into<Arc<Item>>>(
        session_id: impl Into<SessionId>,
        items: impl IntoIterator<Item = I>,
        reason: CompactionReason,
    ) -> Self {
        Self {
            session_id: session_id.into(),
            turn_id: None,
            items: items.into_iter().map(Into::into).collect(),
            reason,
            metadata: Metadata::new(),
            tokens_max: None,
            focus: None,
            previous: Vec::new(),
            staying: Vec::new(),
            demands: Vec::new(),
            digest: None,
            prefix: None,
            stage: SummaryStage::Whole,
        }
    }

    /// A request inside a turn.
    pub fn for_turn<I: Into<Arc<Item>>>(
        session_id: impl Into<SessionId>,
        turn_id: impl Into<TurnId>,
        items: impl IntoIterator<Item = I>,
        reason: CompactionReason,
    ) -> Self {
        Self::new(session_id, items, reason).with_turn_id(turn_id)
    }

    /// The same, inside this turn.
    #[must_use]
    pub fn with_turn_id(mut self, turn_id: impl Into<TurnId>) -> Self {
        self.turn_id = Some(turn_id.into());
        self
    }

    /// The same, with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// A summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SummaryResult {
    /// The summary, of as many items as the backend likes. Their text becomes context, whatever kind they
    /// have; what is neither text nor thought is refused. The first stands behind a line that says how many
    /// items it is for and names the handle that recalls them, unless those are fewer tokens than the line.
    pub items: Vec<Item>,
    /// What the backend has to say about it. The result of a compaction, which may ask for several summaries,
    /// has it under `summaries`, in order, each under `backend`.
    pub metadata: Metadata,
    /// What was reported for the call.
    pub usage: Option<Usage>,
    /// Why the model stopped, where it said: an answer that was cut off is not taken.
    pub finish: Option<FinishReason>,
}

impl SummaryResult {
    /// A summary of these items, about which there is no more to say.
    pub fn new(items: Vec<Item>) -> Self {
        Self { items, ..Self::default() }
    }

    /// The same, with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }
}

/// Why there is no summary. The digest answers instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The compaction was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The request is longer than the model's window.
    #[error("the request is too long for the model{}", in_tokens(.limit))]
    Overflow {
        /// The window, where the answer named it.
        limit: Option<Tokens>,
    },
    /// Too many requests, or too many tokens.
    #[error("rate limited{}", after(.retry_after))]
    RateLimited {
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The server is overloaded or failed.
    #[error("the server failed with status {status}{}", after(.retry_after))]
    Server {
        /// What it answered with.
        status: u16,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// No connection, or one that broke.
    #[error("the connection failed: {why}")]
    Connection {
        /// What happened, without addresses that carry credentials.
        why: String,
    },
    /// No answer in time.
    #[error("no answer within {} ms", .after.as_millis())]
    Timeout {
        /// How long it was waited for.
        after: Duration,
    },
    /// The key is missing, wrong, or may not do this.
    #[error("the server refused the key with status {status}; check it")]
    Unauthorized {
        /// What it answered with.
        status: u16,
    },
    /// The server refused the request for another reason.
    #[error("the server refused the request with status {status}: {message}")]
    Rejected {
        /// What it answered with.
        status: u16,
        /// What it said, shortened.
        message: String,
    },
    /// The answer is not what the protocol says.
    #[error("the answer could not be read: {why}")]
    Malformed {
        /// What is wrong with it.
        why: String,
    },
    /// The host's own service said no, in these words. It is not asked again for this summary.
    #[error("the backend failed: {0}")]
    Failed(String),
    /// The backend is not asked for now: it failed too often or has cost enough.
    #[error("the backend is not asked: {why}")]
    Unavailable {
        /// Why not.
        why: String,
    },
}

impl BackendError {
    /// Whether asking again may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Server { .. }
            | Self::Connection { .. }
            | Self::Timeout { .. }
            | Self::Malformed { .. } => true,
            Self::Cancelled
            | Self::Overflow { .. }
            | Self::Unauthorized { .. }
            | Self::Rejected { .. }
            | Self::Failed(_)
            | Self::Unavailable { .. } => false,
        }
    }

    /// How long the server asks to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::Server { retry_after, .. } => *retry_after,
            Self::Cancelled
            | Self::Overflow { .. }
            | Self::Connection { .. }
            | Self::Timeout { .. }
            | Self::Unauthorized { .. }
            | Self::Rejected { .. }
            | Self::Malformed { .. }
            | Self::Failed(_)
            | Self::Unavailable { .. } => None,
        }
    }
}

fn in_tokens(limit: &Option<Tokens>) -> String {
    limit.map_or_else(String::new, |limit| format!(", which holds {limit} tokens"))
}

fn after(retry_after: &Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!("; asks to wait {} ms", wait.as_millis()))
}
