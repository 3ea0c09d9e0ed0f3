//! Spans and events for `tracing`: sizes, names and times, never contents, never keys.
//!
//! The crates of backends and of the agent loop make the spans of requests, turns and tools.

use std::borrow::Cow;

use foldback_core::{CallId, Usage};
use tracing::Span;
use tracing::field::Empty;

use crate::backend::BackendError;
use crate::compaction::CompactionRequest;
use crate::event::CompactionReport;

/// The span of one compaction.
pub(crate) fn span(request: &CompactionRequest, strategy: &str) -> Span {
    tracing::info_span!(
        "foldback.compaction",
        session_id = %request.session_id,
        turn_id = request.turn_id.as_deref(),
        reason = %request.reason,
        strategy,
        tokens_before = request.transcript.tokens().0,
        tokens_after = Empty,
        replaced_items = Empty,
        first_changed = Empty,
        prefix_tokens_kept = Empty,
        cost = Empty,
    )
}

/// Records what the compaction of a span did.
pub(crate) fn ended(span: &Span, report: &CompactionReport) {
    span.record("tokens_after", report.tokens_after.0);
    span.record("replaced_items", report.replaced_items);
    if let Some(first_changed) = report.first_changed {
        span.record("first_changed", first_changed);
    }
    span.record("prefix_tokens_kept", report.prefix_tokens_kept.0);
    if let Some(cost) = report.cost {
        span.record("cost", cost);
    }
    tracing::info!(duration_ms = millis(report.duration), "compacted");
}

/// Records that there is no compacted view.
pub(crate) fn failed(why: &str) {
    tracing::warn!(why, "the compaction failed, the view is what it was");
}

/// Records that the original of a shortened output is in no file.
pub(crate) fn not_spilled(call_id: &CallId, error: &std::io::Error) {
    tracing::warn!(%call_id, %error, "an output was not spilled, its handle recalls it");
}

/// The span of one call to a backend. Whoever asks a model in it has a span of its own for that, which
/// says what the conventions want: tokens must not be counted twice.
pub(crate) fn call_span(backend: &str, attempt: u32) -> Span {
    tracing::info_span!(
        "foldback.summary_call",
        backend,
        attempt,
        input_tokens = Empty,
        output_tokens = Empty,
        "error.type" = Empty,
        "otel.status_code" = Empty,
    )
}

/// Records what a call to a backend used.
pub(crate) fn used(span: &Span, usage: &Usage) {
    span.record("input_tokens", usage.prompt_tokens().0);
    span.record("output_tokens", usage.output_tokens.0);
}

/// Records why a call to a backend came to nothing.
pub(crate) fn refused(span: &Span, error: &BackendError) {
    span.record("error.type", &*error.error_type());
    span.record("otel.status_code", "ERROR");
}

impl BackendError {
    /// The kind of error in a word of few, as OpenTelemetry's `error.type` wants it: the status where the
    /// server answered with one, else `cancelled`, `context_overflow`, `connection`, `timeout`, `malformed`,
    /// `failed` or `unavailable`.
    pub fn error_type(&self) -> Cow<'static, str> {
        match self {
            Self::Server { status, .. } | Self::Unauthorized { status } | Self::Rejected { status, .. } => {
                status.to_string().into()
            }
            Self::RateLimited { .. } => "429".into(),
            Self::Cancelled => "cancelled".into(),
            Self::Overflow { .. } => "context_overflow".into(),
            Self::Connection { .. } => "connection".into(),
            Self::Timeout { .. } => "timeout".into(),
            Self::Malformed { .. } => "malformed".into(),
            Self::Failed(_) => "failed".into(),
            Self::Unavailable { .. } => "unavailable".into(),
        }
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
