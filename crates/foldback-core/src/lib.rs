//! The domain of foldback: pure, synchronous, deterministic (A1).

mod chunked;
pub mod dialect;
pub mod handle;
pub mod ids;
pub mod item;
pub mod part;
pub mod sequence;
pub mod tokens;
pub mod transcript;

pub use dialect::{Dialect, Repair, RepairAction, Repaired, Rule, Violation, check, check_request, repair};
pub use handle::Handle;
pub use ids::{CallId, ItemId, Text, Timestamp, Tokens, TurnId};
pub use item::{FinishReason, Item, ItemKind, Metadata, Pin, SummaryOrigin, Usage};
pub use part::{
    Blob, File, Json, Media, Opaque, Part, Reasoning, ResultPart, ToolCall, ToolInput, ToolResult,
};
pub use sequence::{Anomaly, Entry, Holds, Sequence};
pub use tokens::{EstimatingCounter, ItemTokens, Precision, TokenCounter};
pub use transcript::{Meter, Transcript};
