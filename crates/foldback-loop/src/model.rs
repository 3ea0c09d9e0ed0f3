//! Who answers: the [`Model`] port.

use std::fmt;

use async_trait::async_trait;
#[cfg(feature = "http")]
use foldback_backends::ModelClient;
use foldback_core::Dialect;
use foldback_engine::BackendError;
use foldback_formats::answer::OnDelta;
use tokio_util::sync::CancellationToken;

pub use foldback_backends::{Delta, ModelAnswer, ModelRequest, ToolSpec};

/// Answers a conversation. What is known about models by name is `foldback_core::Model`.
///
/// Implementors guarantee: what is sent is the items and tools of the request and nothing else of
/// the conversation; a request that is too long is [`BackendError::Overflow`]; the work ends soon
/// after `cancellation` is cancelled; the answer is one assistant item.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks once, and says what arrives as it arrives.
    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        on_delta: &mut OnDelta<'_>,
        cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError>;

    /// The name in events and records.
    fn name(&self) -> &str;

    /// Whose rules a request must keep; without one, those that all providers share.
    fn dialect(&self) -> Option<Dialect> {
        None
    }
}

impl fmt::Debug for dyn Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(feature = "http")]
#[async_trait]
impl Model for ModelClient {
    async fn ask(
        &self,
        request: &ModelRequest<'_>,
        on_delta: &mut OnDelta<'_>,
        cancellation: &CancellationToken,
    ) -> Result<ModelAnswer, BackendError> {
        Self::ask(self, request, on_delta, cancellation).await
    }

    fn name(&self) -> &str {
        Self::name(self)
    }

    fn dialect(&self) -> Option<Dialect> {
        Some(self.protocol().dialect())
    }
}
