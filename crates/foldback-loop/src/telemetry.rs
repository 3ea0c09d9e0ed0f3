//! The spans of turns and of tools, by OpenTelemetry's conventions for generative AI. The client that asks
//! a model makes the spans of requests. A span holds names, sizes and kinds, never contents.

use foldback_core::{SessionId, ToolCall, TurnId};
use tracing::Span;
use tracing::field::Empty;

use crate::error::LoopError;
use crate::model::Model;
use crate::session::TurnResult;

/// What `error.type` says of a tool that answered with an error, or did not answer.
const TOOL_ERROR: &str = "tool_error";

/// The span of a turn: one invocation of the agent.
pub(crate) fn turn_span(session_id: &SessionId, turn_id: &TurnId, model: &dyn Model) -> Span {
    // A model is named `protocol:model`; the provider is the conventions' word for whose protocol it is.
    let (protocol, name) = model.name().split_once(':').unwrap_or(("", model.name()));
    let provider = match protocol {
        "" => "_OTHER",
        protocol => protocol.split_once('-').map_or(protocol, |(provider, _)| provider),
    };
    tracing::info_span!(
        "invoke_agent",
        "otel.name" = "invoke_agent",
        "otel.kind" = "internal",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "invoke_agent",
        "gen_ai.provider.name" = provider,
        "gen_ai.request.model" = name,
        "gen_ai.conversation.id" = %session_id,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "error.type" = Empty,
        turn = %turn_id,
    )
}

/// Records how a turn ended.
pub(crate) fn turn_ended(span: &Span, result: &Result<TurnResult, LoopError>) {
    match result {
        Ok(result) => {
            span.record("gen_ai.usage.input_tokens", result.usage.prompt_tokens().0);
            span.record("gen_ai.usage.output_tokens", result.usage.output_tokens.0);
        }
        Err(error) => failed(span, &error.error_type()),
    }
}

/// The span of one call of a tool.
pub(crate) fn tool_span(call: &ToolCall) -> Span {
    tracing::info_span!(
        "execute_tool",
        "otel.name" = format!("execute_tool {}", call.name),
        "otel.kind" = "internal",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = &*call.name,
        "gen_ai.tool.call.id" = &*call.id,
        "gen_ai.tool.type" = "function",
        "error.type" = Empty,
    )
}

/// Records that a tool failed, was stopped, or does not exist.
pub(crate) fn tool_failed(span: &Span) {
    failed(span, TOOL_ERROR);
}

fn failed(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}
