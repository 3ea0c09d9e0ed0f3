//! foldback keeps long-running agents inside their context window.
//! When a conversation outgrows it, a strategy plans which tool outputs to clear, which items to
//! shorten and which range to fold into a summary, so that the next request fits its budget and is
//! one that the provider accepts.
//! Nothing is deleted: what the model sees is a [`View`] of an append-only [`Transcript`], every
//! compaction can be undone, and whatever it hid is recalled by the handle printed in its place.
//!
//! # From a transcript to a view that fits
//!
//! ```
//! use foldback::{
//!     Budget, Dialect, Item, ItemKind, LadderStrategy, Part, ToolResult, Tokens, Transcript, View,
//!     check_request, plan,
//! };
//! use serde_json::json;
//!
//! // Record everything; each item is counted once, when it is pushed.
//! let mut transcript = Transcript::default();
//! transcript.push(Item::text("system", ItemKind::System, "You are a coding agent."));
//! transcript.push(Item::user("task", "Find the flaky test. Never edit generated files."));
//! for round in 0..40 {
//!     let call_id = format!("call-{round}");
//!     let input = json!({ "command": format!("cargo test --seed {round}") });
//!     transcript.push(Item::assistant(format!("a{round}"), vec![Part::call(&*call_id, "shell", &input)]));
//!     let output = "test session::tests::window_edges ... ok\n".repeat(60);
//!     transcript.push(Item::tool(format!("t{round}"), ToolResult::text(&*call_id, output)));
//! }
//!
//! // Plan: pure, nothing changes yet.
//! let view = View::of(&transcript);
//! let budget = Budget::builder(Tokens(16_000)).output_reserve(Tokens(2_000)).build()?;
//! assert!(view.tokens() > budget.trigger());
//! let plan = plan(&view, &LadderStrategy::new(), Some(&budget))?;
//!
//! // Apply, with summaries that need no model, and check before sending.
//! let compacted = plan.apply_digest();
//! assert!(compacted.view.tokens() <= budget.target());
//! for dialect in Dialect::ALL {
//!     assert_eq!(check_request(compacted.view.items(), Some(dialect)), []);
//! }
//! // The transcript is what it was.
//! assert_eq!(compacted.view.transcript().len(), transcript.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Pipelines, pins, undo and recall
//!
//! A [`StrategyPipeline`] runs strategies in order, each on what the one before left, and is a
//! strategy itself. A trigger says when.
//!
//! ```
//! use foldback::{
//!     StrategyPipeline, CompactionReason, DropFailedToolResultsStrategy, DropReasoningStrategy, Item,
//!     ItemKind, MutationPoint, Part, Recalled, SummarizeOlderStrategy, Transcript, Trigger,
//!     TriggerContext, View, item_count_trigger, plan,
//! };
//!
//! let mut transcript = Transcript::default();
//! transcript.push(Item::user("rules", "Rule: never edit generated files.").pinned());
//! for turn in 0..10 {
//!     let question = format!("What does module {turn} do? {}", "Be thorough. ".repeat(20));
//!     let answer = format!("Module {turn} parses. {}", "It reads, it checks, it returns. ".repeat(20));
//!     transcript.push(Item::user(format!("q{turn}"), question));
//!     let parts = vec![Part::reasoning("Let me think about modules."), Part::text(answer)];
//!     transcript.push(Item::assistant(format!("a{turn}"), parts));
//! }
//!
//! let trigger = item_count_trigger(12);
//! let context = TriggerContext::new(&transcript, MutationPoint::AfterTurnEnded);
//! assert_eq!(trigger(&context, context.point), Some(CompactionReason::TranscriptTooLong));
//!
//! let pipeline = StrategyPipeline::new()
//!     .with_strategy(DropReasoningStrategy::new())
//!     .with_strategy(DropFailedToolResultsStrategy::new())
//!     .with_strategy(SummarizeOlderStrategy::new(8).preserve_kind(ItemKind::System));
//! assert_eq!(
//!     format!("{pipeline:?}"),
//!     "drop-reasoning → drop-failed-tool-results → summarize-older(8)"
//! );
//! let compacted = plan(&View::of(&transcript), &pipeline, None)?.apply_digest();
//!
//! // The summary stands where the first folded item stood, and the pin where it always did.
//! let ids: Vec<&str> = compacted.view.items().map(|item| item.id.as_str()).collect();
//! assert_eq!(ids[0], "rules");
//! assert!(ids[1].starts_with("summary-"));
//! assert_eq!(ids[2..], ["q6", "a6", "q7", "a7", "q8", "a8", "q9", "a9"]);
//!
//! // A handle gives back what was folded, byte for byte as it was recorded.
//! let origin = compacted.view.items().find_map(|item| item.summary.as_ref()).expect("there is a fold");
//! let Some(Recalled::Items(folded)) = compacted.view.recall(&origin.handle) else { panic!() };
//! assert_eq!(folded.len(), 12);
//! assert!(folded.iter().zip(transcript.items().skip(1)).all(|(recalled, recorded)| recalled == recorded));
//!
//! // Undo: what was seen before the newest compaction.
//! let (restored, taken_off) = compacted.view.undo().expect("there is a compaction");
//! assert!(taken_off.iter().all(|block| block.tokens_after < block.tokens_before));
//! assert!(restored.items().eq(transcript.items()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `agent` | no | the module `agent`: a small agent loop with compaction in it |
//! | `backends` | no | the module `backends`: summaries from models over HTTP |
//! | `engine` | yes | the module `engine`: the executor that mends, plans, fills, checks and commits |
//! | `formats` | yes | the module `formats`: requests of providers and session files of agents |
//! | `tokens` | yes | the module `counters`: exact counts for OpenAI's encodings, counting in parallel |
//!
//! Without `tokens`, counts are estimates ([`EstimatingCounter`]); without any, nothing but the domain is
//! compiled.

// Everything by concern; what is not used by most programs stays in its module.
pub use foldback_core::{
    account, budget, cost, dialect, draft, edit, handle, ids, item, kernel, ledger, models, part,
    placeholder, plan, policy, reading, secrets, sequence, splice, strategy, summary, tokens, tools,
    transcript, trigger, turns, view,
};

// The conversation.
pub use foldback_core::{
    Blob, CallId, File, FinishReason, Item, ItemId, ItemKind, Json, Media, Metadata, Opaque, Part, Pin,
    Reasoning, ResultPart, SessionId, SummaryOrigin, Text, Timestamp, ToolCall, ToolInput, ToolResult,
    Transcript, TurnId, TurnMap, TurnRange, TurnRangeError, TurnRanges, Usage,
};

// What the model sees, and what becomes of it.
pub use foldback_core::{
    Anomaly, BlockError, BlockKind, BudgetInfeasible, Compacted, CompactionBlock, Draft, Edit, EmptyItems,
    Entry, Fate, Fold, FoldRequest, Handle, Holds, KernelItem, Overlay, OverlayError, Plan, PlanError,
    Reason, Recalled, Rewrite, Sequence, Splice, SpliceError, StandingSummary, SummaryError,
    SummaryPlacement, SummarySpec, View,
};

// What to compact.
pub use foldback_core::strategy::{NewestFailure, TailClamp};
pub use foldback_core::{
    CapToolOutputsStrategy, ClearToolResultsStrategy, DefaultCompaction, DropFailedToolResultsStrategy,
    DropMiddleStrategy, DropReasoningStrategy, FreshOnlyStrategy, KeepFirstAndRecentItemsStrategy,
    KeepFirstAndRecentTurnsStrategy, KeepNewestThatFitStrategy, KeepRecentStrategy, LadderStrategy,
    PreserveRecentFractionStrategy, PreserveRecentTurnsStrategy, PreserveUserMessagesStrategy,
    ReplaceMediaStrategy, Strategy, StrategyConfig, StrategyPipeline, SummarizeOlderStrategy,
    SupersedeStrategy, TruncateToolInputsStrategy, TruncateToolOutputsStrategy, compact_messages,
};

// Named configurations.
pub use foldback_core::{Checked, Policy, PolicyError, PolicyTrigger, Room};

// When.
pub use foldback_core::trigger::{
    EventKind, Growth, NeedsFollowUpTrigger, PendingInputTrigger, ToolOutputTrigger,
};
pub use foldback_core::{
    AllTrigger, AnyTrigger, BudgetTrigger, CompactionReason, ContextWindowTrigger, EveryTrigger, FnTrigger,
    HysteresisTrigger, IdleTrigger, ItemCountTrigger, LastCompaction, MutationPoint, NotTrigger,
    StructuralEvent, StructuralTrigger, Trigger, TriggerContext, TriggerError, TriggerExt,
    context_window_trigger, item_count_trigger,
};

// How much.
pub use foldback_core::{
    Budget, BudgetBuilder, BudgetError, Calibration, ContextTracker, EstimatingCounter, ItemTokens, Level,
    Meter, Precision, TokenBounds, TokenCounter, Tokens,
};

// What it costs, what it is about, and what must not be told.
pub use foldback_core::{Cost, FactKind, Prices, Secret, SecretKind, redact};

// What a provider accepts.
pub use foldback_core::{
    Dialect, Model, Repair, RepairAction, Repaired, Rule, Violation, check, check_request, repair,
};

/// A small agent loop: sessions, tools, interrupts, and compaction where the conversation may change.
#[cfg(feature = "agent")]
pub mod agent {
    pub use foldback_loop::*;
}

/// Models over HTTP, and summaries from them.
#[cfg(feature = "backends")]
pub mod backends {
    pub use foldback_backends::*;
}

/// The executor: mends a view, plans, fills the summaries, checks, commits.
#[cfg(feature = "engine")]
pub mod engine {
    pub use foldback_engine::*;
}

/// Requests of providers and session files of agents, to and from transcripts.
#[cfg(feature = "formats")]
pub mod formats {
    pub use foldback_formats::*;
}

/// Counters beside the estimating one: exact, on several threads.
///
/// ```
/// use std::sync::Arc;
/// use foldback::counters::{BpeCounter, Encoding};
/// use foldback::{Item, Tokens, Transcript};
///
/// let encoding = Encoding::for_model("gpt-4o").expect("a model whose encoding is known");
/// let mut transcript = Transcript::new(Arc::new(BpeCounter::new(encoding)));
/// transcript.push(Item::user("u1", "hello world"));
/// // Two tokens, and four for the message around them.
/// assert_eq!(transcript.tokens(), Tokens(6));
/// ```
#[cfg(feature = "tokens")]
pub mod counters {
    pub use foldback_tokens::*;
}

/// The README's code, compiled and run with the other tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
