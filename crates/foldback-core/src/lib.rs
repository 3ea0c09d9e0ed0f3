//! The domain of foldback: pure, synchronous, deterministic (A1).

pub mod budget;
mod chunked;
pub mod dialect;
pub mod draft;
pub mod edit;
pub mod handle;
pub mod ids;
pub mod item;
pub mod kernel;
pub mod native;
pub mod part;
pub mod placeholder;
pub mod plan;
pub mod sequence;
mod shape;
pub mod strategy;
pub mod summary;
pub mod tokens;
pub mod transcript;

pub use dialect::{Dialect, Repair, RepairAction, Repaired, Rule, Violation, check, check_request, repair};
pub use draft::{Draft, EmptyItems};
pub use edit::{Edit, Fold, Reason, Rewrite, SummaryPlacement, SummarySpec};
pub mod trigger;
pub mod turns;
pub mod view;

pub use budget::{Budget, BudgetBuilder, BudgetError, Level};
pub use handle::Handle;
pub use ids::{CallId, ItemId, Text, Timestamp, Tokens, TurnId};
pub use item::{FinishReason, Item, ItemKind, Metadata, Pin, SummaryOrigin, Usage};
pub use native::{NativeDocument, NativeError, NativeFault};
pub use part::{
    Blob, File, Json, Media, Opaque, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult,
};
pub use plan::{BudgetInfeasible, Compacted, KernelItem, Plan, PlanError, plan};
pub use sequence::{Anomaly, Entry, Holds, Sequence};
pub use strategy::{
    ClearToolResultsStrategy, CompactionPipeline, DefaultCompaction, DropFailedToolResultsStrategy,
    DropMiddleStrategy, DropReasoningStrategy, KeepFirstAndRecentTurnsStrategy, KeepRecentStrategy,
    LadderStrategy, PreserveRecentFractionStrategy, PreserveRecentTurnsStrategy,
    PreserveUserMessagesStrategy, ReplaceMediaStrategy, Strategy, StrategyConfig, SummarizeOlderStrategy,
    TruncateToolInputsStrategy, TruncateToolOutputsStrategy, compact_messages,
};
pub use summary::{FoldRequest, SummaryError};
pub use tokens::{
    Calibration, ContextTracker, EstimatingCounter, ItemTokens, Precision, TokenBounds, TokenCounter,
};
pub use transcript::{Meter, Transcript};
pub use trigger::{
    AllTrigger, AnyTrigger, BudgetTrigger, CompactionReason, ContextWindowTrigger, EveryTrigger, FnTrigger,
    HysteresisTrigger, IdleTrigger, ItemCountTrigger, LastCompaction, MutationPoint, NotTrigger,
    StructuralEvent, StructuralTrigger, Trigger, TriggerContext, TriggerError, TriggerExt,
    context_window_trigger, item_count_trigger,
};
pub use turns::{TurnMap, TurnRange, TurnRangeError, TurnRanges};
pub use view::{CompactionBlock, Fate, Overlay, OverlayError, Recalled, View};
