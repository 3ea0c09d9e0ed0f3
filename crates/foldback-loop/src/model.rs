//! Who answers: the [`Model`] port.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{Dialect, FinishReason, Item, Text, Tokens, Usage};
use foldback_engine::BackendError;
use tokio_util::sync::CancellationToken;

/// Answers a conversation.
///
/// Implementors guarantee: what is sent is the items and tools of the request and nothing else of
/// the conversation; a request that is too long is [`BackendError::Overflow`]; the work ends soon
/// after `cancellation` is cancelled; the answer is one assistant item.
#[async_trait]
pub trait Model: fmt::Debug + Send + Sync {
    /// Asks once, and says what arrives as it arrives.
    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta<'_>) + Send),
        cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError>;

    /// The name in events and records.
    fn name(&self) -> &str;

    /// Whose rules a request must keep; without one, those that all providers share.
    fn dialect(&self) -> Option<Dialect> {
        None
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct ModelRequest<'a> {
    /// The conversation, as the model is to see it.
    pub items: &'a [Arc<Item>],
    /// What it may call.
    pub tools: &'a [ToolSpec],
    /// The longest answer.
    pub tokens_max: Option<Tokens>,
}

/// A tool as the model is told about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: Text,
    /// What it does.
    pub description: Text,
    /// The JSON schema of its input.
    pub input_schema: serde_json::Value,
}

/// A piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta<'a> {
    /// Text.
    Text(&'a str),
    /// Thinking.
    Reasoning(&'a str),
    /// A call begins.
    Call {
        /// The tool.
        name: &'a str,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// What was said, thought and called.
    pub item: Item,
    /// What the provider reported.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub finish: Option<FinishReason>,
}
