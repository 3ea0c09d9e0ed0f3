//! The span of a compaction, under which everything that happens in it is traced.
//!
//! The span is named [`COMPACTION`] and has the fields below. It says how much and who, never what:
//! no text of items, prompts or answers, and no keys. With the feature `otel` it also has the
//! attributes of OpenTelemetry's conventions for generative AI, for whatever exporter the host has.

use foldback_core::Usage;
use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::compaction::{CompactionError, CompactionRequest};
use crate::event::CompactionReport;

/// The name of the span.
pub const COMPACTION: &str = "compaction";

/// OpenTelemetry's names for what a generative model was asked for.
#[cfg(feature = "otel")]
pub mod gen_ai {
    /// What was done: `chat`.
    pub const OPERATION_NAME: &str = "gen_ai.operation.name";
    /// Which model was asked.
    pub const REQUEST_MODEL: &str = "gen_ai.request.model";
    /// What it read, cached tokens included.
    pub const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    /// What it wrote.
    pub const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    /// Whose conversation it is.
    pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";

    pub(super) const CHAT: &str = "chat";
}

/// The span of one compaction.
pub(crate) fn span(request: &CompactionRequest, strategy: &str, backend: Option<&str>) -> Span {
    let span = new_span(request, strategy, backend);
    if let Some(turn_id) = &request.turn_id {
        span.record("turn_id", turn_id.as_str());
    }
    if let Some(backend) = backend {
        span.record("backend", backend);
    }
    span
}

#[cfg(not(feature = "otel"))]
fn new_span(request: &CompactionRequest, strategy: &str, _backend: Option<&str>) -> Span {
    info_span!(
        COMPACTION,
        session_id = request.session_id.as_str(),
        turn_id = Empty,
        reason = kind_of(&request.reason),
        strategy,
        backend = Empty,
        tokens_before = request.transcript.tokens().0,
        tokens_after = Empty,
        replaced_items = Empty,
        first_changed = Empty,
        prefix_tokens_kept = Empty,
        duration_ms = Empty,
        cost_dollars = Empty,
        error = Empty,
    )
}

#[cfg(feature = "otel")]
fn new_span(request: &CompactionRequest, strategy: &str, backend: Option<&str>) -> Span {
    info_span!(
        COMPACTION,
        session_id = request.session_id.as_str(),
        turn_id = Empty,
        reason = kind_of(&request.reason),
        strategy,
        backend = Empty,
        tokens_before = request.transcript.tokens().0,
        tokens_after = Empty,
        replaced_items = Empty,
        first_changed = Empty,
        prefix_tokens_kept = Empty,
        duration_ms = Empty,
        cost_dollars = Empty,
        error = Empty,
        { gen_ai::OPERATION_NAME } = gen_ai::CHAT,
        { gen_ai::REQUEST_MODEL } = backend,
        { gen_ai::USAGE_INPUT_TOKENS } = Empty,
        { gen_ai::USAGE_OUTPUT_TOKENS } = Empty,
        { gen_ai::CONVERSATION_ID } = request.session_id.as_str(),
    )
}

/// Records what a compaction did.
pub(crate) fn record_report(span: &Span, report: &CompactionReport, usage: &Usage) {
    span.record("tokens_after", report.tokens_after.0);
    span.record("replaced_items", report.replaced_items);
    span.record("prefix_tokens_kept", report.prefix_tokens_kept.0);
    span.record("duration_ms", u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX));
    if let Some(first_changed) = report.first_changed {
        span.record("first_changed", first_changed);
    }
    if let Some(cost) = report.cost {
        span.record("cost_dollars", cost);
    }
    record_usage(span, usage);
}

#[cfg(not(feature = "otel"))]
fn record_usage(_span: &Span, _usage: &Usage) {}

#[cfg(feature = "otel")]
fn record_usage(span: &Span, usage: &Usage) {
    span.record(gen_ai::USAGE_INPUT_TOKENS, usage.prompt_tokens().0);
    span.record(gen_ai::USAGE_OUTPUT_TOKENS, usage.output_tokens.0);
}

/// Records why there is none.
pub(crate) fn record_error(span: &Span, error: &CompactionError) {
    let kind = match error {
        CompactionError::Cancelled => "cancelled",
        CompactionError::MissingBackend { .. } => "missing backend",
        CompactionError::Vetoed { .. } => "vetoed",
        CompactionError::Failed { .. } => "failed",
        CompactionError::BudgetInfeasible(_) => "budget infeasible",
        CompactionError::BudgetRequired { .. } => "budget required",
        CompactionError::Invalid { .. } => "invalid",
        CompactionError::OverTarget { .. } => "over target",
    };
    span.record("error", kind);
}

/// The reason without the host's own words.
fn kind_of(reason: &foldback_core::CompactionReason) -> &'static str {
    use foldback_core::CompactionReason as Reason;
    match reason {
        Reason::TranscriptTooLong => "transcript too long",
        Reason::Manual => "manual",
        Reason::Custom(_) => "custom",
        Reason::BudgetReached { .. } => "budget reached",
        Reason::OverflowRejected => "overflow rejected",
        Reason::ModelSwitched => "model switched",
        Reason::Idle => "idle",
        Reason::Interval => "interval",
        Reason::ToolOutput => "tool output",
        Reason::NewItem => "new item",
        Reason::CompactionCompleted => "compaction completed",
    }
}
