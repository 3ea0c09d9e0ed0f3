//! The span of one request to a model, by OpenTelemetry's conventions for generative AI. It holds names,
//! sizes and times, never contents, never keys.
//!
//! Attribute names are written out here, without a crate for them: the conventions are still moving.
//! `error.type` is what [`BackendError::error_type`] says. Arrays are written as JSON, because fields of
//! `tracing` are scalars.

use foldback_core::{FinishReason, Tokens};
use foldback_engine::BackendError;
use tracing::Span;
use tracing::field::Empty;

use super::{Line, ModelAnswer, Protocol};

/// The span around one request.
pub(super) fn request_span(line: &Line, tokens_max: Option<Tokens>) -> Span {
    let (model, address) = (&*line.model, line.endpoint.host());
    tracing::info_span!(
        "chat",
        "otel.name" = format!("chat {model}"),
        "otel.kind" = "client",
        "otel.status_code" = Empty,
        "gen_ai.operation.name" = "chat",
        "gen_ai.provider.name" = provider(address, line.protocol),
        "gen_ai.request.model" = model,
        "gen_ai.request.max_tokens" = tokens_max.map(|Tokens(tokens)| tokens),
        "gen_ai.response.model" = Empty,
        "gen_ai.response.finish_reasons" = Empty,
        "gen_ai.usage.input_tokens" = Empty,
        "gen_ai.usage.output_tokens" = Empty,
        "gen_ai.usage.cache_read.input_tokens" = Empty,
        "gen_ai.usage.cache_creation.input_tokens" = Empty,
        "server.address" = address,
        "server.port" = line.url.port_or_known_default(),
        "error.type" = Empty,
    )
}

/// Records how a request ended.
pub(super) fn ended(span: &Span, ended: &Result<ModelAnswer, BackendError>) {
    match ended {
        Ok(answer) => answered(span, answer),
        Err(error) => {
            span.record("error.type", &*error.error_type());
            span.record("otel.status_code", "ERROR");
        }
    }
}

fn answered(span: &Span, answer: &ModelAnswer) {
    if let Some(model) = answer.model.as_deref() {
        span.record("gen_ai.response.model", model);
    }
    if let Some(finish) = answer.finish {
        span.record("gen_ai.response.finish_reasons", format!("[\"{}\"]", finish_name(finish)));
    }
    let Some(usage) = &answer.usage else { return };
    span.record("gen_ai.usage.input_tokens", usage.prompt_tokens().0);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens.0);
    span.record("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens.0);
    span.record("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens.0);
}

/// The name that the conventions have for the end of an answer.
fn finish_name(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Interrupted => "interrupted",
        FinishReason::Error => "error",
        _ => "other",
    }
}

/// Hosts of providers that the conventions have a name for, and the name.
const PROVIDERS: [(&str, &str); 10] = [
    ("api.anthropic.com", "anthropic"),
    ("api.openai.com", "openai"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.perplexity.ai", "perplexity"),
    ("api.x.ai", "x_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("openai.azure.com", "azure.ai.openai"),
    ("amazonaws.com", "aws.bedrock"),
];

/// Who provides a model, to the best of our knowledge: its host where that is known, else whose protocol
/// it speaks, as the conventions want it.
fn provider(host: &str, protocol: Protocol) -> &'static str {
    let is_at =
        |known: &str| host == known || host.strip_suffix(known).is_some_and(|rest| rest.ends_with('.'));
    let known = PROVIDERS.iter().find(|(known, _)| is_at(known));
    let spoken = match protocol {
        Protocol::OpenAiChat | Protocol::OpenAiResponses => "openai",
        Protocol::Anthropic => "anthropic",
    };
    known.map_or(spoken, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_known_by_its_host_and_others_by_their_protocol() {
        assert_eq!(provider("api.anthropic.com", Protocol::OpenAiChat), "anthropic");
        assert_eq!(provider("mine.openai.azure.com", Protocol::OpenAiChat), "azure.ai.openai");
        assert_eq!(provider("evilapi.openai.com", Protocol::Anthropic), "anthropic");
        assert_eq!(provider("127.0.0.1", Protocol::OpenAiResponses), "openai");
    }
}
