//! What becomes a request: whose rules a format keeps, and which calls still wait for a result.

use std::sync::Arc;

use foldback_core::{Dialect, Item, Rule, check_request};
use foldback_formats::Format;

use crate::terminal::{counted, warning};

/// The dialect whose rules sessions of a format keep; none where the agent sees to that for whatever
/// provider it talks to.
pub(crate) fn spoken(format: Format) -> Option<Dialect> {
    match format {
        Format::ClaudeCode => Some(Dialect::Anthropic),
        Format::Codex => Some(Dialect::OpenaiResponses),
        Format::GeminiCli => Some(Dialect::Gemini),
        Format::Opencode | Format::CopilotCli => Some(Dialect::OpenaiChat),
        _ => format.dialect(),
    }
}

/// How many calls have no result, also at the very end: a repair leaves those, because a session may stop
/// there, and a provider takes no request that does. None is counted where nothing is sent.
pub(crate) fn unanswered_calls<'a>(
    items: impl Iterator<Item = &'a Arc<Item>>,
    dialect: Option<Dialect>,
) -> usize {
    let Some(dialect) = dialect else { return 0 };
    let violations = check_request(items, Some(dialect));
    violations.iter().filter(|violation| violation.rule == Rule::UnansweredCall).count()
}

/// Says that a request is not complete yet.
pub(crate) fn tell_waiting(at: &str, waiting_count: usize, format: Format) {
    if waiting_count > 0 {
        let calls = counted(waiting_count, "call");
        let have = if waiting_count == 1 { "has" } else { "have" };
        warning(&format!(
            "{at}: {calls} at the end {have} no result yet: {format} refuses the request until results follow"
        ));
    }
}
