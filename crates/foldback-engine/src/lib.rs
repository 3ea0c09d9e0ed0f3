//! The executor: the one road from a view to a compacted view.
//!
//! [`compact`] makes the view valid, plans, fills the summaries that the plan asks for, checks the
//! result against the dialect and the budget, and commits it to an overlay in memory. Every program
//! that compacts takes this road; what differs is where the view comes from and who stores the
//! block.

mod ask;
mod backend;
mod clock;
mod compaction;
mod compactor;
mod event;
mod executor;
mod mend;
pub mod replay;

pub use ask::{BackendGuard, DigestBackend, GuardLimits, Spend, SummaryLimits};
pub use backend::{BackendError, CompactionBackend, SummaryRequest, SummaryResult, SummaryStage};
pub use clock::{Clock, SystemClock};
pub use compaction::{
    CompactionContext, CompactionError, CompactionRequest, CompactionResult, CompactionStrategy,
};
pub use compactor::{CompactionTrigger, Compactor, TriggerFn};
pub use event::{CompactionEvent, CompactionEventKind, CompactionObserver, CompactionReport, SummaryFault};
pub use executor::{Execution, Outcome, compact, dry_run};
pub use mend::{Mended, mend};
