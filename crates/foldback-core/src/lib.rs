//! The domain of foldback: pure, synchronous, deterministic (A1).
//!
//! A [`Transcript`] is what was said, a [`View`] what the model sees of it. A [`Strategy`] edits a
//! [`Draft`] of a view into a [`Plan`], which is applied, inspected or thrown away:
//!
//! ```
//! use foldback_core::{Budget, Item, LadderStrategy, Tokens, Transcript, View, plan};
//!
//! let transcript: Transcript = (0..200).map(|n| Item::user(format!("u{n}"), "word ".repeat(50))).collect();
//! let budget = Budget::for_target(Tokens(2_000))?;
//! let plan = plan(&View::of(&transcript), &LadderStrategy::new(), Some(&budget))?;
//! let compacted = plan.apply_digest();
//! assert!(compacted.view.tokens() <= budget.target());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to look: [`strategy`] for what can be done, [`trigger`] for when, [`dialect`] for what
//! providers accept, [`tokens`] for counting, [`draft`] for the rules that hold whatever a strategy
//! asks for.

pub mod account;
mod block;
pub mod budget;
mod change;
mod chunked;
pub mod compaction;
pub mod cost;
pub mod dialect;
pub mod diff;
mod digest;
pub mod draft;
pub mod edit;
pub mod handle;
mod holds;
pub mod ids;
pub mod item;
mod keep;
pub mod kernel;
pub mod ledger;
mod mend;
pub mod models;
pub mod part;
pub mod placeholder;
pub mod plan;
pub mod policy;
pub mod reading;
pub mod secrets;
pub mod sequence;
mod shape;
pub mod splice;
pub mod strategy;
pub mod summary;
pub mod tokens;
pub mod tools;
mod tracker;
pub mod transcript;
pub mod trigger;
pub mod turns;
mod undo;
pub mod view;
mod written;

pub use account::{Account, FactFate};
pub use block::{BlockError, BlockKind, CompactionBlock, Overlay};
pub use budget::{Budget, BudgetBuilder, BudgetError, Level};
pub use change::Change;
pub use compaction::{Compaction, Execution, Refusal};
pub use cost::{Cost, Prices};
pub use dialect::{Dialect, Repair, RepairAction, Repaired, Rule, Violation, check, check_request, repair};
pub use diff::{Diff, DiffError, diff};
pub use digest::digest_of;
pub use draft::{Draft, EmptyItems};
pub use edit::{Edit, Fold, Reason, Rewrite, SummaryPlacement, SummarySpec};
pub use handle::Handle;
pub use holds::Holds;
pub use ids::{CallId, ItemId, LoopId, SessionId, Text, Timestamp, Tokens, TurnId};
pub use item::{FinishReason, Inserted, Item, ItemKind, Metadata, Pin, SummaryOrigin, Usage};
pub use keep::{ChosenLines, KEPT_LINE_CHARS_MAX, KEPT_LINES_MAX, KeepLines, KeptLine, KeptLines, Speaker};
pub use ledger::{Fact, FactKind, Ledger};
pub use mend::{Mended, mend};
pub use models::{Certainty, Encoding, Model};
pub use part::{
    Blob, File, Json, Media, Opaque, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult,
};
pub use plan::{BudgetInfeasible, Compacted, KernelItem, Plan};
pub use policy::{Checked, Economy, Policy, PolicyError, PolicyTrigger, Room};
pub use secrets::{Secret, SecretKind, redact, redact_item, redact_part};
pub use sequence::{Anomaly, Entry, Sequence};
/// Inputs of tools and metadata are values of this crate.
pub use serde_json;
pub use splice::{Splice, SpliceError, StandingSummary};
pub use strategy::{
    CapToolOutputsStrategy, ClearToolResultsStrategy, DefaultCompaction, DropFailedToolResultsStrategy,
    DropMiddleStrategy, DropReasoningStrategy, FreshOnlyStrategy, KeepFirstAndRecentItemsStrategy,
    KeepFirstAndRecentTurnsStrategy, KeepNewestThatFitStrategy, KeepRecentStrategy, LadderStrategy,
    PlanError, PreserveRecentFractionStrategy, PreserveRecentTurnsStrategy, PreserveUserMessagesStrategy,
    ReplaceMediaStrategy, Strategy, StrategyConfig, StrategyPipeline, SummarizeOlderStrategy,
    SummaryAndTailStrategy, SupersedeStrategy, TruncateToolInputsStrategy, TruncateToolOutputsStrategy,
    compact_messages, plan,
};
pub use summary::{FoldRequest, LineFates, SummaryError};
pub use tokens::{
    Calibration, CharsOver4Counter, EstimatingCounter, ItemTokens, Meter, Precision, Reported, TokenBounds,
    TokenCounter, TokenScale,
};
pub use tools::{Action, Outcome, TestRun, TodoEntry, TodoState};
pub use tracker::ContextTracker;
pub use transcript::Transcript;
pub use trigger::{
    AllTrigger, AnyTrigger, BudgetTrigger, CompactionReason, ContextWindowTrigger, EveryTrigger, FnTrigger,
    HysteresisTrigger, IdleTrigger, ItemCountTrigger, LastCompaction, MutationPoint, NotTrigger,
    StructuralEvent, StructuralTrigger, Trigger, TriggerContext, TriggerError, TriggerExt, TriggerFn,
    context_window_trigger, item_count_trigger,
};
pub use turns::{TurnMap, TurnRange, TurnRangeError, TurnRanges};
pub use view::{Fate, OverlayError, Recalled, View};
pub use written::with_standing;
