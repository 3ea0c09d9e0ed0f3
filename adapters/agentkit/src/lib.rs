//! foldback as the compactor of [agentkit](agentkit_loop)'s agent loop.
//!
//! [`FoldbackMutator`] is a [`LoopMutator`](agentkit_loop::LoopMutator). At each of agentkit's mutation points
//! it asks a foldback compactor whether to compact, and puts the compacted transcript in place of the one
//! there was: after a tool result, after a turn, and when the provider rejected a request for its length.
//!
//! ```
//! use std::time::Duration;
//!
//! use agentkit_loop::{Agent, AgentBuilder, ContextRecoveryPolicy, ModelAdapter};
//! use agentkit_tools_core::ToolRegistry;
//! use foldback::engine::StrategyCompactor;
//! use foldback::{Policy, Room, Tokens};
//! use foldback_agentkit::{FoldbackMutator, RecallTool};
//!
//! fn with_compaction<M: ModelAdapter>(model: M) -> Result<AgentBuilder<M>, Box<dyn std::error::Error>> {
//!     let policy = Policy::named("ladder").expect("the default policy");
//!     let compactor = StrategyCompactor::builder().policy(&policy, Room::new(Tokens(200_000))).build()?;
//!     let mutator = FoldbackMutator::new(compactor);
//!     Ok(Agent::builder()
//!         .model(model)
//!         .add_tool_source(ToolRegistry::new().with(RecallTool::new(&mutator)))
//!         // A request that is too long is compacted and sent again, up to two times.
//!         .context_recovery(ContextRecoveryPolicy { max_attempts: 2, budget: Duration::from_secs(60) })
//!         .mutator(mutator))
//! }
//! ```
//!
//! # What comes back
//!
//! Items that a compaction keeps come back as the values that agentkit had, with metadata, usage and ids. Of
//! an item that was shortened, only the shortened parts are new. A summary is an item of kind `Context`, as
//! agentkit's own compactors write it; its metadata holds [`SUMMARY_METADATA_KEY`], by which foldback knows
//! the summary again when the transcript is loaded in another process.
//!
//! What was folded stays in the mutator's record of the session while the process runs: a host reads it with
//! [`FoldbackMutator::recall`], the agent with [`RecallTool`]. A host that wants to have it later keeps what
//! agentkit's `TranscriptObserver` tells.
//!
//! `examples/agentkit_rounds.rs` runs an agent through forty tool rounds in a small window.

mod items;
mod mutator;
mod recall;

pub use items::SUMMARY_METADATA_KEY;
pub use mutator::{FoldbackMutator, MUTATOR_LABEL};
pub use recall::RecallTool;
