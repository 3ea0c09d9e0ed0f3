//! foldback as the memory of [rig](rig_core)'s agents.
//!
//! [`FoldbackMemory`] is a [`ConversationMemory`](rig_core::memory::ConversationMemory) around another one. The
//! other one stores every message and loses none; a run loads the conversation as a foldback policy folds it:
//! calls and results stay together, the user's words stay, and a summary stands for what was folded.
//!
//! ```
//! use foldback::engine::StrategyCompactor;
//! use foldback::{Policy, Room, Tokens};
//! use foldback_rig::{FoldbackMemory, RecallTool};
//! use rig_agent::{Agent, AgentBuilder};
//! use rig_core::DynModel;
//! use rig_core::memory::InMemoryConversationMemory;
//! use rig_core::operation::Completion;
//!
//! fn assistant(model: DynModel<Completion>) -> Result<Agent, Box<dyn std::error::Error>> {
//!     let policy = Policy::named("ladder").expect("the default policy");
//!     let compactor = StrategyCompactor::builder().policy(&policy, Room::new(Tokens(200_000))).build()?;
//!     let memory = FoldbackMemory::new(InMemoryConversationMemory::new(), compactor);
//!     let recall = RecallTool::new(&memory, "thread-1");
//!     Ok(AgentBuilder::new(model).memory(memory).conversation("thread-1").tool(recall).build())
//! }
//! ```
//!
//! # What comes back
//!
//! Messages that a compaction keeps come back as the values that rig stored. Of a message that was shortened,
//! only the shortened pieces are new, without the provider's own form of them, which rig then builds again. A
//! summary is a user message.
//!
//! Compactions are kept in memory. In another process the conversation is folded anew from everything that the
//! store holds, which gives the same summaries where no model writes them.
//!
//! rig asks its memory before a run. Within one run the history grows by what the model and its tools say; a
//! room that leaves space for one run is the policy's to choose.
//!
//! `examples/rig_chat.rs` runs an agent through thirty questions in a small window.

mod memory;
mod messages;
mod recall;

pub use memory::FoldbackMemory;
pub use recall::RecallTool;
