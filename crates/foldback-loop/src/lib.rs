//! A small agent loop with seams for compaction.
//!
//! An [`Agent`] asks its [`Model`], runs the [`Tool`]s that it calls, and asks again until there is
//! an answer. Where the conversation may change, it lets its [`LoopMutator`]s change it, each in a
//! transaction that is checked before it counts. What the model is sent is the session's view and
//! nothing else. With a [`RecallTool`] it can ask for what was folded.
//!
//! The model is the host's own, or a `ModelClient` with the feature `http`, which is on by default.
//!
//! ```
//! # #[cfg(feature = "http")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use foldback_backends::{Endpoint, ModelClient, Protocol};
//! use foldback_core::KeepRecentStrategy;
//! use foldback_engine::StrategyCompactor;
//! use foldback_loop::{Agent, AgentBuilderCompactorExt};
//!
//! let endpoint = Endpoint::new("http://127.0.0.1:8080/v1")?;
//! let adapter = ModelClient::new(endpoint, Protocol::OpenAiChat, "qwen3-4b")?;
//! let strategy = KeepRecentStrategy::new(8);
//!
//! let compactor = StrategyCompactor::builder().item_count_trigger(12).strategy(strategy).build()?;
//! let agent = Agent::builder().model(adapter).compactor(compactor).build()?;
//!
//! let session = agent.session("my-session");
//! // let answer = session.send("What files are in src/?").await?;
//! # assert!(session.view().is_empty());
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "http"))]
//! # fn main() {}
//! ```

mod agent;
mod calls;
mod compaction;
mod error;
mod event;
mod model;
mod mutating;
mod mutator;
mod nested;
mod recall;
mod session;
mod state;
mod stopping;
mod stored;
mod telemetry;
mod timer;
mod tool;
mod turn;

pub use agent::{Agent, AgentBuilder, AgentLimits};
pub use compaction::{AgentBuilderCompactorExt, COMPACTOR_LABEL, CompactorMutator};
pub use error::{AgentBuildError, LoopError, MutationFault, Recovery};
pub use event::{AgentEvent, AgentObserver};
pub use foldback_core::MutationPoint;
pub use foldback_formats::answer::OnDelta;
pub use futures_util::Stream;
pub use model::{Delta, Model, ModelAnswer, ModelRequest, ToolSpec};
pub use mutating::MutationRound;
pub use mutator::{LoopMutator, Mutation, MutationContext, MutatorError, Staged};
pub use nested::{AgentCompactor, AgentCompactorBuildError, AgentCompactorBuilder};
pub use recall::{RECALL_BYTES_MAX, RECALL_TOOL_NAME, RecallTool};
pub use session::{AgentSession, TurnResult, TurnStream};
pub use tool::{FnTool, TOOL_NAME_BYTES_MAX, Tool, ToolContext, ToolError, ToolOutput};
