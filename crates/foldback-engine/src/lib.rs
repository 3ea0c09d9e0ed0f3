//! The one road from a view to a compacted view, and the seams beside it.
//!
//! Core's `Compaction` makes the view valid, plans, asks for summaries, checks the result against the
//! dialect and the budget, and commits it to an overlay in memory. Every program that compacts drives it;
//! what differs is where the view comes from, who writes the summaries and who stores the blocks.
//! [`compact`] is the driver without a model, [`compact_asking`] the one with a backend. A
//! [`StrategyCompactor`] decides when, and may ask a [`CompactionBackend`]:
//!
//! ```
//! use foldback_core::{DropReasoningStrategy, KeepRecentStrategy};
//! use foldback_engine::{CompactionPipeline, StrategyCompactor};
//!
//! let strategy = CompactionPipeline::new()
//!     .with_strategy(DropReasoningStrategy::new())
//!     .with_strategy(KeepRecentStrategy::new(8));
//! let compactor = StrategyCompactor::builder().item_count_trigger(12).strategy(strategy).build()?;
//! # let _ = compactor;
//! # Ok::<(), foldback_engine::StrategyCompactorBuildError>(())
//! ```

mod ask;
mod backend;
mod backoff;
pub mod chosen;
mod clock;
mod compaction;
mod compactor;
mod event;
mod executor;
mod hooks;
pub mod messages;
mod naming;
mod off_task;
mod pipeline;
mod rebase;
pub mod recall;
pub mod replay;
pub mod session;
pub mod store;
mod telemetry;

pub use ask::{
    Admission, BackendGuard, DigestBackend, GuardLimits, PreTrim, PreTrimMove, Spend, Spill, SpillSink,
    SpilledOutput, SummaryLimits,
};
pub use backend::{
    BackendError, CompactionBackend, GuardedBackend, SummaryRequest, SummaryResult, SummaryStage,
};
pub use backoff::Backoff;
pub use chosen::{IntoStrategy, IntoTrigger};
pub use clock::{Clock, SystemClock, TokioClock};
pub use compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
pub use compactor::{
    CompactionTrigger, Compactor, StrategyCompactor, StrategyCompactorBuildError, StrategyCompactorBuilder,
};
pub use event::{CompactionEvent, CompactionEventKind, CompactionObserver, CompactionReport, SummaryFault};
pub use executor::{Asked, compact, compact_asking};
// What implementors of the ports need beside them.
pub use async_trait::async_trait;
pub use foldback_core::compaction::{Execution, Outcome, Refusal};
pub use foldback_core::{Mended, mend};
pub use hooks::{CompactionHook, CompactionHooks};
pub use pipeline::CompactionPipeline;
pub use rebase::{RebaseError, rebase};
pub use store::{Store, StoreError};
pub use tokio_util::sync::CancellationToken;
