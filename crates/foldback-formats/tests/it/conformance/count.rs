//! How many items, calls, results and unanswered calls a file has: counted a second time, straight
//! from its JSON and without foldback's readers. One function for each format.

mod claude_code;
mod codex;
mod copilot_cli;
mod dialects;
mod gemini_cli;
mod opencode;
mod pi;
mod recordings;

use std::collections::BTreeMap;
use std::sync::Arc;

use foldback_core::{Dialect, Item, Part};
use foldback_formats::{Conversation, Format};
use serde_json::Value;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Messages of the history that have content.
    pub(crate) items: usize,
    pub(crate) calls: usize,
    pub(crate) results: usize,
    pub(crate) unanswered: usize,
}

impl Counts {
    /// From the ids of calls and results in order: a result answers one call with its id.
    pub(crate) fn new(items: usize, calls: &[String], results: &[String]) -> Self {
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        calls.iter().for_each(|id| *open.entry(id).or_default() += 1);
        for id in results {
            if let Some(count) = open.get_mut(id.as_str()) {
                *count = count.saturating_sub(1);
            }
        }
        Self { items, calls: calls.len(), results: results.len(), unanswered: open.values().sum() }
    }
}

pub(crate) fn of_conversation(format: Format, conversation: &Conversation) -> Counts {
    let (mut calls, mut results, mut items) = (Vec::new(), Vec::new(), 0);
    // Agents mark summaries of a past that the file does not have; in requests they are messages.
    let is_request = format.dialect().is_some_and(|dialect| dialect != Dialect::Gemini);
    let is_said = |item: &&Arc<Item>| is_request || item.summary.is_none();
    for item in conversation.history().map(|recorded| &recorded.item).filter(is_said) {
        items += usize::from(!item.parts.is_empty());
        for part in &item.parts {
            match part {
                Part::ToolCall(call) => calls.push(call.id.to_string()),
                Part::ToolResult(result) => results.push(result.call_id.to_string()),
                _ => {}
            }
        }
    }
    Counts::new(items, &calls, &results)
}

/// The records of a JSONL file that are JSON.
pub(crate) fn records(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// What each conversation of a file holds.
pub(crate) fn of_bytes(format: Format, bytes: &[u8]) -> Vec<Counts> {
    match format {
        Format::Native => vec![native(&records(bytes))],
        Format::Anthropic => dialects::anthropic(bytes),
        Format::OpenaiChat => dialects::openai_chat(bytes),
        Format::OpenaiResponses => dialects::openai_responses(bytes),
        Format::Gemini => dialects::gemini(bytes),
        Format::ClaudeCode => claude_code::count(bytes),
        Format::Codex => codex::count(bytes),
        Format::GeminiCli => gemini_cli::count(bytes),
        Format::Opencode => opencode::count(bytes),
        Format::Pi => pi::count(bytes),
        Format::CopilotCli => copilot_cli::count(bytes),
        Format::Cline => recordings::cline(bytes),
        Format::SweAgent => recordings::swe_agent(bytes),
        Format::MiniSweAgent => recordings::mini_swe_agent(bytes),
        Format::OpenHands => recordings::openhands(bytes),
        Format::LlmLog => recordings::llm_log(bytes),
        Format::Atif => recordings::atif(bytes),
        Format::Forge => recordings::forge(bytes),
        Format::Moatless => recordings::moatless(bytes),
        Format::TauBench => recordings::tau_bench(bytes),
        other => panic!("{other} has no independent count"),
    }
}

fn native(records: &[Value]) -> Counts {
    let (mut calls, mut results, mut items) = (Vec::new(), Vec::new(), 0);
    for record in records.iter().filter(|record| record.get("kind").is_some()) {
        let parts = record["parts"].as_array().unwrap();
        items += usize::from(!parts.is_empty());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        calls.extend(parts.iter().filter_map(|part| part.get("tool_call").map(|call| text(&call["id"]))));
        results.extend(
            parts.iter().filter_map(|part| part.get("tool_result").map(|result| text(&result["call_id"]))),
        );
    }
    Counts::new(items, &calls, &results)
}
