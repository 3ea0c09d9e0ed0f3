//! The domain of foldback: pure, synchronous, deterministic (A1).

pub mod budget;
mod chunked;
pub mod dialect;
pub mod handle;
pub mod ids;
pub mod item;
pub mod part;
pub mod sequence;
pub mod tokens;
pub mod transcript;
pub mod trigger;

pub use budget::{Budget, BudgetBuilder, BudgetError, Level};
pub use dialect::Dialect;
pub use handle::Handle;
pub use ids::{CallId, ItemId, Text, Timestamp, Tokens, TurnId};
pub use item::{FinishReason, Item, ItemKind, Metadata, Pin, SummaryOrigin, Usage};
pub use part::{
    Blob, File, Json, Media, Opaque, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult,
};
pub use sequence::{Anomaly, Entry, Holds, Sequence};
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
