//! Spans and events for `tracing`: sizes, names and times, never contents, never keys.
//!
//! With the feature `otel` the spans also carry the attributes of OpenTelemetry's conventions for
//! generative AI, under names that this module defines itself: the conventions are still moving.

use foldback_core::Usage;
use tracing::Span;
use tracing::field::Empty;

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

/// The span of one call to a backend.
pub(crate) fn call_span(backend: &str, attempt: u32) -> Span {
    #[cfg(feature = "otel")]
    let span = tracing::info_span!(
        "foldback.summary_call",
        backend,
        attempt,
        "gen_ai.operation.name" = "chat",
        "gen_ai.request.model" = model_of(backend),
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
    );
    #[cfg(not(feature = "otel"))]
    let span = tracing::info_span!(
        "foldback.summary_call",
        backend,
        attempt,
        input_tokens = Empty,
        output_tokens = Empty
    );
    span
}

/// Records what a call to a backend used.
pub(crate) fn used(span: &Span, usage: &Usage) {
    let names = match cfg!(feature = "otel") {
        true => ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        false => ("input_tokens", "output_tokens"),
    };
    span.record(names.0, usage.prompt_tokens().0);
    span.record(names.1, usage.output_tokens.0);
}

/// The model behind a backend's name, which is `provider:model` where there is one.
#[cfg(feature = "otel")]
fn model_of(backend: &str) -> &str {
    backend.split_once(':').map_or(backend, |(_, model)| model)
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
