#![cfg_attr(docsrs, feature(doc_cfg))]
//! foldback keeps long-running agents inside their context window.
//! When a conversation outgrows it, a strategy plans which tool outputs to clear, which items to
//! shorten and which range to fold into a summary, so that the next request fits its budget and is
//! one that the provider accepts.
//! Nothing is deleted: what the model sees is a [`View`] of an append-only [`Transcript`], every
//! compaction can be undone, and whatever it hid is recalled by the handle printed in its place.
//!
//! # For whom
//!
//! **You have a loop of your own.** Keep a [`Transcript`] and the blocks in force, and compact when a trigger
//! fires: that is the example below. With the feature `engine`, [`engine::StrategyCompactor`] does it with a
//! model that may fail, hooks and events:
//!
//! ```
//! # #[cfg(feature = "engine")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use foldback::engine::{CompactionContext, CompactionRequest, Compactor, StrategyCompactor};
//! use foldback::{CompactionReason, Item, Policy, Room, Tokens, Transcript, View};
//!
//! let policy = Policy::named("ladder").ok_or("no such policy")?;
//! let compactor = StrategyCompactor::builder().policy(&policy, Room::new(Tokens(16_000))).build()?;
//!
//! let recorded: Transcript = (0..400).map(|n| Item::user(format!("u{n}"), "Go on. ".repeat(20))).collect();
//! let request = CompactionRequest::new("session-1", View::of(&recorded), CompactionReason::Manual);
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let compacted = compactor.compact(request, &CompactionContext::default()).await?;
//! assert!(compacted.transcript.tokens() < recorded.tokens());
//! # Ok::<(), foldback::engine::CompactionError>(())
//! # })?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "engine"))]
//! # fn main() {}
//! ```
//!
//! **You want a loop.** With the features `agent` and `store`, this is an agent with a model of its own, two
//! tools, a session that survives a restart, a policy, and recall of what was folded
//! (`cargo run -p foldback --all-features --example agent`):
//!
#![cfg_attr(all(feature = "agent", feature = "store"), doc = "```")]
#![cfg_attr(not(all(feature = "agent", feature = "store")), doc = "```ignore")]
#![doc = include_str!("../examples/agent.rs")]
//! ```
//!
//! **You have session files of agents.** With the feature `formats` they are read, compacted and written in
//! the form of the agent, which resumes them:
//!
//! ```
//! # #[cfg(feature = "formats")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use foldback::formats::SessionFile;
//! use foldback::{Budget, EstimatingCounter, LadderStrategy, Tokens, plan};
//!
//! # let bytes = include_bytes!("../examples/session.jsonl").to_vec();
//! // let bytes = std::fs::read(path)?;
//! let session = SessionFile::read(bytes)?;
//! let conversation = session.conversations().first().ok_or("there is no conversation in it")?;
//! let transcript = conversation.transcript(Arc::new(EstimatingCounter), session.dialect());
//! let seen = conversation.view_of(&transcript);
//!
//! let budget = Budget::for_target(Tokens(4_000))?;
//! let compacted = plan(&seen, &LadderStrategy::new(), Some(&budget))?.apply_digest().view;
//! let blocks_before = seen.overlay().blocks().len();
//! let written = session.compacted(&session.committed(conversation, &compacted, blocks_before));
//! assert!(written.begins_with_session(), "nothing that was in the file is changed");
//! # let bytes = written.to_bytes();
//! # let again = SessionFile::read(bytes)?;
//! # let conversation = again.conversations().first().ok_or("it cannot be read")?;
//! # let transcript = conversation.transcript(Arc::new(EstimatingCounter), again.dialect());
//! # assert_eq!(conversation.view_of(&transcript).tokens(), compacted.tokens());
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "formats"))]
//! # fn main() {}
//! ```
//!
//! **You run a service.** With the feature `store`, sessions are kept in SQLite or PostgreSQL, appended to and
//! compacted by any number of processes:
//!
//! ```
//! # #[cfg(feature = "store")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use foldback::engine::session::{CompactionConfig, StoredSession};
//! use foldback::store::SqliteStore;
//! use foldback::{Item, Tokens};
//!
//! # let folder = tempfile::tempdir()?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let store = Arc::new(SqliteStore::open(folder.path().join("sessions.db")).await?);
//! let mut session = StoredSession::open_or_create(store, "customer-17").await?;
//! for turn in 0..400 {
//!     session.append(&[Arc::new(Item::user(format!("u{turn}"), "Please go on. ".repeat(20)))]).await?;
//! }
//! let (config, window) = (CompactionConfig::default(), Tokens(16_000));
//! let done = session.compact(&config, window).await?;
//! assert!(done.tokens_after < done.tokens_before);
//! // What to send with the next request, and back again.
//! assert_eq!(session.context(&config, window).await?.tokens, done.tokens_after);
//! session.undo().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })
//! # }
//! # #[cfg(not(feature = "store"))]
//! # fn main() {}
//! ```
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
//! | `agent` | no | the module [`agent`]: a small agent loop with compaction in it; no HTTP client |
//! | `backends` | no | the module [`backends`]: summaries from models over HTTP |
//! | `engine` | yes | the module [`engine`]: compactors, pipelines, sessions; ports to backends and stores |
//! | `formats` | yes | the module [`formats`]: requests of providers and session files of agents |
//! | `store` | no | the module [`store`]: sessions in SQLite or PostgreSQL |
//! | `tokens` | yes | the module [`counters`]: exact counts for OpenAI's encodings, counting in parallel |
//!
//! Without `tokens`, counts are estimates ([`EstimatingCounter`]); without any, nothing but the domain is
//! compiled.

// Everything by concern; what is not used by most programs stays in its module.
pub use foldback_core::{
    account, budget, compaction, cost, dialect, diff, draft, edit, handle, ids, item, kernel, ledger, models,
    part, placeholder, plan, policy, reading, secrets, sequence, serde_json, splice, strategy, summary,
    tokens, tools, transcript, trigger, turns, view,
};

// The conversation.
pub use foldback_core::{
    Blob, CallId, File, FinishReason, Inserted, Item, ItemId, ItemKind, Json, LoopId, Media, Metadata,
    Opaque, Part, Pin, Reasoning, ResultPart, SessionId, SummaryOrigin, Text, Timestamp, ToolCall, ToolInput,
    ToolResult, Transcript, TurnId, TurnMap, TurnRange, TurnRangeError, TurnRanges, Usage,
};

// What the model sees, and what becomes of it.
pub use foldback_core::{
    Anomaly, BlockError, BlockKind, BudgetInfeasible, Change, ChosenLines, Compacted, CompactionBlock,
    DiffError, Draft, Edit, EmptyItems, Entry, Fate, Fold, FoldRequest, Handle, Holds, KeepLines, KeptLine,
    KeptLines, KernelItem, LineFates, Overlay, OverlayError, Plan, PlanError, Reason, Recalled, Rewrite,
    Sequence, Speaker, Splice, SpliceError, StandingSummary, SummaryError, SummaryPlacement, SummarySpec,
    View,
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
    StructuralEvent, StructuralTrigger, Trigger, TriggerContext, TriggerError, TriggerExt, TriggerFn,
    context_window_trigger, item_count_trigger,
};

// How much.
pub use foldback_core::{
    Budget, BudgetBuilder, BudgetError, Calibration, CharsOver4Counter, ContextTracker, EstimatingCounter,
    ItemTokens, Level, Meter, Precision, Reported, TokenBounds, TokenCounter, TokenScale, Tokens,
};

// What it costs, what it is about, and what must not be told.
pub use foldback_core::{Cost, FactKind, Prices, Secret, SecretKind, redact, redact_item, redact_part};

// What a provider accepts.
pub use foldback_core::{
    Dialect, Model, Repair, RepairAction, Repaired, Rule, Violation, check, check_request, repair,
};

/// A small agent loop: sessions, tools, interrupts, and compaction where the conversation may change.
#[cfg(feature = "agent")]
pub mod agent {
    pub use foldback_loop::{
        Agent, AgentBuildError, AgentBuilder, AgentBuilderCompactorExt, AgentCompactor,
        AgentCompactorBuildError, AgentCompactorBuilder, AgentEvent, AgentLimits, AgentObserver,
        AgentSession, COMPACTOR_LABEL, CompactorMutator, Delta, FnTool, LoopError, LoopMutator, Model,
        ModelAnswer, ModelRequest, Mutation, MutationContext, MutationFault, MutationPoint, MutationRound,
        MutatorError, OnDelta, RECALL_BYTES_MAX, RECALL_TOOL_NAME, RecallTool, Recovery, Staged, Stream,
        TOOL_NAME_BYTES_MAX, Tool, ToolContext, ToolError, ToolOutput, ToolSpec, TurnResult, TurnStream,
    };
}

/// Models over HTTP, and summaries from them.
#[cfg(feature = "backends")]
pub mod backends {
    pub use foldback_backends::{
        Caching, Delta, Endpoint, EndpointError, Key, ModelAnswer, ModelBackend, ModelClient, ModelRequest,
        Protocol, Quoted, Sealed, ToolSpec, answer_text, sealed, summary_prompt, summary_prompt_tokens,
    };
}

/// The executor: mends a view, plans, fills the summaries, checks, commits. Compactors, sessions, stores.
#[cfg(feature = "engine")]
pub mod engine {
    pub use foldback_engine::{
        Admission, Asked, BackendError, BackendGuard, Backoff, CancellationToken, Clock, CompactionBackend,
        CompactionContext, CompactionError, CompactionEvent, CompactionEventKind, CompactionHook,
        CompactionHooks, CompactionObserver, CompactionPipeline, CompactionReport, CompactionRequest,
        CompactionResult, CompactionStrategy, CompactionTrigger, Compactor, DigestBackend, Execution,
        GuardLimits, GuardedBackend, IntoStrategy, IntoTrigger, Mended, Outcome, PreTrim, PreTrimMove,
        RebaseError, Refusal, Spend, Spill, SpillSink, SpilledOutput, Store, StoreError, StrategyCompactor,
        StrategyCompactorBuildError, StrategyCompactorBuilder, SummaryFault, SummaryLimits, SummaryRequest,
        SummaryResult, SummaryStage, SystemClock, TokioClock, async_trait, chosen, compact, compact_asking,
        mend, messages, rebase, recall, replay, session, store,
    };
}

/// Requests of providers and session files of agents, to and from transcripts.
#[cfg(feature = "formats")]
pub mod formats {
    pub use foldback_formats::{
        Committed, Contents, Conversation, Fault, FilePlace, Format, FormatError, Loss, Problem, Recorded,
        Sent, SessionFile, Source, Step, StepAction, SubAgentOf, Written, WrittenAs, answer, detect,
        native_file, write,
    };
}

/// Sessions in a store: in one SQLite file, or on a PostgreSQL server.
#[cfg(feature = "store")]
pub mod store {
    pub use foldback_store::{Access, PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, archive};
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
    pub use foldback_tokens::{
        BpeCounter, Encoding, PARALLEL_BYTES_MIN, SEGMENT_BYTES_MAX, THREADS_MAX, count_items,
    };
}

/// The README's code, compiled and run with the other tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The code of the pages for those who come from another system.
#[cfg(all(doctest, feature = "agent"))]
#[doc = include_str!("../../../docs/coming-from-agentkit.md")]
pub struct ComingFromAgentkit;

/// The code of the pages for those who come from another system.
#[cfg(all(doctest, feature = "agent"))]
#[doc = include_str!("../../../docs/coming-from-phi.md")]
pub struct ComingFromPhi;
