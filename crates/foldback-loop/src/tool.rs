//! What an agent can do: the [`Tool`] port.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use foldback_core::{CallId, ResultPart, SessionId, Text, TurnId, View};
use foldback_engine::session::StoredSession;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The longest name that all providers take.
pub const TOOL_NAME_BYTES_MAX: usize = 64;

/// Something the model may call.
///
/// Implementors guarantee: the name, the description and the schema do not change while the agent
/// lives (they are part of the prompt's cached prefix); a call never blocks the thread; work that
/// outlives the future ends soon after `context.cancellation` is cancelled. Calls of one answer run
/// at the same time. A failure is an answer: the model reads it. A panic is one too.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model calls it: letters, digits, `_` and `-`.
    fn name(&self) -> &str;

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// The JSON schema of its input, an object.
    fn input_schema(&self) -> Value;

    /// Does it.
    async fn call(&self, input: Value, context: ToolContext) -> Result<ToolOutput, ToolError>;

    /// How long a call may take; the agent's limit where it says nothing.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

impl fmt::Debug for dyn Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tool that is a function.
///
/// ```
/// use foldback_loop::{FnTool, ToolError};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"words": {"type": "string"}}});
/// let count = FnTool::new("count", "Counts words.", schema, async |input, _| {
///     let words = input["words"].as_str().ok_or_else(|| ToolError::new("give `words`, a string"))?;
///     Ok(words.split_whitespace().count().to_string().into())
/// });
/// # let _ = count;
/// ```
pub struct FnTool<F> {
    name: String,
    description: String,
    input_schema: Value,
    call: F,
}

impl<F> FnTool<F> {
    /// A tool of this name, told to the model in these words, with a JSON schema of its input.
    pub fn new<Answer>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        call: F,
    ) -> Self
    where
        F: Fn(Value, ToolContext) -> Answer + Send + Sync,
        Answer: Future<Output = Result<ToolOutput, ToolError>> + Send,
    {
        Self { name: name.into(), description: description.into(), input_schema, call }
    }
}

impl<F> fmt::Debug for FnTool<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[async_trait]
impl<F, Answer> Tool for FnTool<F>
where
    F: Fn(Value, ToolContext) -> Answer + Send + Sync,
    Answer: Future<Output = Result<ToolOutput, ToolError>> + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn input_schema(&self) -> Value {
        self.input_schema.clone()
    }

    async fn call(&self, input: Value, context: ToolContext) -> Result<ToolOutput, ToolError> {
        (self.call)(input, context).await
    }
}

/// What a call knows beside its input.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolContext {
    /// Whose conversation it is.
    pub session_id: SessionId,
    /// The turn it happens in.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: CallId,
    /// The conversation as it was when the model called.
    pub view: View,
    /// Where the conversation is kept, if it is.
    pub stored: Option<StoredSession>,
    /// Cancelled when the turn is interrupted: the tool may then still say how far it came, if it is
    /// quick.
    pub cancellation: CancellationToken,
}

/// What a tool answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// The pieces of the answer.
    pub content: Vec<ResultPart>,
}

impl ToolOutput {
    /// An answer in text.
    pub fn text(text: impl Into<Text>) -> Self {
        Self { content: vec![ResultPart::Text(text.into())] }
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Why a tool did not do it. The model reads this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct ToolError {
    /// What went wrong, and what to do about it.
    pub why: String,
}

impl ToolError {
    /// A failure in words.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into() }
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= TOOL_NAME_BYTES_MAX && name.bytes().all(is_allowed)
}
