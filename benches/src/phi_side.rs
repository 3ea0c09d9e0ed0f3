//! The `phi-three-level` cases: fit a conversation into 100,000 tokens.
//!
//! How phi-core is driven: `compact_messages` with its default configuration (window 100,000, of
//! which 4,000 are set aside for the system prompt). It takes the messages by value, and its loop
//! hands over the only copy there is (`std::mem::take(&mut context.messages)`), so no copy is
//! charged to it; the originals are gone afterwards. What a caller pays who keeps them, as
//! foldback does, is printed on stderr.
//!
//! phi-core has no system or context messages: the system prompt lives outside the list (and is
//! left out of it here), context is a user message.

use foldback_core::Transcript;
use phi_core::context::{ContextConfig, compact_messages, total_tokens};
use phi_core::types::{AgentMessage, Content, LlmMessage, Message, StopReason, Usage};

use crate::conversation::{Neutral, Outcome, content_bytes, conversation};
use crate::foldback_side;
use crate::measure::{Effort, compare, owning_side, show, side};
use crate::pairing::{Half, Pairing};

const MAX_TOKENS: usize = 100_000;
const SEED: u64 = 0x0941;
/// One moment for all: compaction copies times and never looks at them.
const TIMESTAMP: u64 = 1_770_000_000_000;

/// Runs the case and returns its line.
pub(crate) fn run(name: &str, item_count: usize, effort: Effort) -> String {
    let conversation = conversation("p", SEED, item_count);
    let bytes = content_bytes(&conversation);
    let messages = messages(&conversation);
    let transcript: Transcript = foldback_side::items(&conversation).into_iter().collect();
    drop(conversation);

    let config = ContextConfig { max_context_tokens: MAX_TOKENS, ..ContextConfig::default() };
    let comparison = compare(
        effort,
        &mut side(&transcript, |transcript| foldback_side::three_level(transcript, MAX_TOKENS as u64)),
        &mut owning_side(|| messages.clone(), |messages| compact_messages(messages, &config)),
        vec![&mut side(&messages, |messages| compact_messages(messages.clone(), &config))],
    );

    let budget = MAX_TOKENS - config.system_prompt_tokens;
    let tokens_before = total_tokens(&messages);
    let theirs = compact_messages(messages, &config);
    let tokens_after = total_tokens(&theirs);
    let ours = foldback_side::three_level(&transcript, MAX_TOKENS as u64);
    eprintln!("{name}: {item_count} items, {bytes} bytes of content");
    for &nanos in &comparison.variants {
        eprintln!("{name}: peer with a copy of the originals kept {}", show(nanos));
    }
    eprintln!(
        "{name}: peer keeps {} messages, {}, {tokens_before} -> {tokens_after} tokens by its counter, budget {budget}{}",
        theirs.len(),
        pairing(&theirs),
        if tokens_after <= budget { "" } else { ": OVER" },
    );
    eprintln!(
        "{name}: foldback keeps {} items, {}, {} -> {} tokens by its counter, budget {MAX_TOKENS}",
        ours.len(),
        foldback_side::pairing(&ours),
        transcript.tokens(),
        foldback_side::tokens(&transcript, &ours),
    );
    comparison.line(name)
}

fn messages(conversation: &[Neutral]) -> Vec<AgentMessage> {
    let messages = conversation.iter().filter_map(message);
    messages.map(|message| AgentMessage::Llm(LlmMessage::new(message))).collect()
}

fn message(neutral: &Neutral) -> Option<Message> {
    let timestamp = TIMESTAMP;
    match neutral {
        Neutral::System(_) => None,
        Neutral::Context(text) | Neutral::User(text) => {
            Some(Message::User { content: vec![text_content(text)], timestamp })
        }
        Neutral::Assistant { reasoning, text, calls } => {
            let thinking = reasoning
                .iter()
                .map(|thinking| Content::Thinking { thinking: thinking.clone(), signature: None });
            let text = text.iter().map(|text| text_content(text));
            let called = calls.iter().map(|call| Content::ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.input.clone(),
            });
            let stop_reason = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolUse };
            Some(Message::Assistant {
                content: thinking.chain(text).chain(called).collect(),
                stop_reason,
                model: "model".to_owned(),
                provider: "provider".to_owned(),
                usage: Usage::default(),
                timestamp,
                error_message: None,
            })
        }
        Neutral::ToolResult { call_id, tool_name, text, outcome } => Some(Message::ToolResult {
            tool_call_id: call_id.clone(),
            tool_name: tool_name.clone(),
            content: vec![text_content(text)],
            is_error: *outcome == Outcome::Failure,
            timestamp,
        }),
    }
}

fn text_content(text: &str) -> Content {
    Content::Text { text: text.to_owned() }
}

fn pairing(messages: &[AgentMessage]) -> Pairing {
    let mut halves = Vec::new();
    for message in messages {
        let AgentMessage::Llm(LlmMessage { message, .. }) = message else { continue };
        match message {
            Message::User { .. } => {}
            Message::Assistant { content, .. } => {
                halves.extend(content.iter().filter_map(|content| match content {
                    Content::ToolCall { id, .. } => Some(Half::Call(id)),
                    _ => None,
                }));
            }
            Message::ToolResult { tool_call_id, .. } => halves.push(Half::Result(tool_call_id)),
        }
    }
    Pairing::of(halves)
}
