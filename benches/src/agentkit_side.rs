//! The `agentkit-pipeline` cases: three strategies over an in-memory transcript.
//!
//! How agentkit is driven: its loop hands a compactor the transcript as a slice
//! (`Compactor::compact(&self, &[Item], ..)`), and `StrategyCompactor`, the compactor that runs a
//! pipeline, first copies it (`transcript.to_vec()`), because a strategy takes it by value. Then
//! the pipeline copies it again for each of its strategies (`strategy.apply(request.clone(), ..)`).
//! The printed number is that call: it is what every user of its loop pays. The one without the
//! first copy, the pipeline handed a transcript that nobody needs any more, is printed on stderr.
//!
//! Left out, to agentkit's advantage: the loop then drops the transcript it replaced and validates
//! the new one. Ids, usage and times of items are left empty.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use agentkit_compaction::{
    CompactionContext, CompactionPipeline, CompactionReason, CompactionRequest, CompactionStrategy,
    Compactor, DropFailedToolResultsStrategy, DropReasoningStrategy, KeepRecentStrategy, StrategyCompactor,
};
use agentkit_core::{
    Item, ItemKind, Part, ReasoningPart, TextPart, ToolCallPart, ToolOutput, ToolResultPart,
};
use foldback_core::Transcript;

use crate::conversation::{Neutral, Outcome, content_bytes, conversation};
use crate::foldback_side;
use crate::measure::{Effort, compare, owning_side, show, side};
use crate::pairing::{Half, Pairing};

const KEEP_RECENT: usize = 8;
const SEED: u64 = 0xA6E7;

/// Runs the case and returns its line.
pub(crate) fn run(name: &str, item_count: usize, effort: Effort) -> String {
    let conversation = conversation("a", SEED, item_count);
    let bytes = content_bytes(&conversation);
    let items = items(&conversation);
    let transcript: Transcript = foldback_side::items(&conversation).into_iter().collect();
    drop(conversation);

    let compactor = StrategyCompactor::new(|_, _| Some(REASON), pipeline());
    let pipeline = pipeline();
    let comparison = compare(
        effort,
        &mut side(&transcript, foldback_side::pipeline),
        &mut side(&items, |items| compact(&compactor, items)),
        vec![&mut owning_side(|| items.clone(), |items| apply(&pipeline, items))],
    );

    let theirs = compact(&compactor, &items);
    let ours = foldback_side::pipeline(&transcript);
    eprintln!("{name}: {item_count} items, {bytes} bytes of content");
    for &nanos in &comparison.variants {
        eprintln!("{name}: peer without the hand-over copy {}", show(nanos));
    }
    eprintln!("{name}: peer keeps {} items, {}", theirs.len(), pairing(&theirs));
    eprintln!("{name}: foldback keeps {} items, {}", ours.len(), foldback_side::pairing(&ours));
    comparison.line(name)
}

const REASON: CompactionReason = CompactionReason::TranscriptTooLong;

fn pipeline() -> CompactionPipeline {
    CompactionPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(
            KeepRecentStrategy::new(KEEP_RECENT)
                .preserve_kind(ItemKind::System)
                .preserve_kind(ItemKind::Context),
        )
}

fn compact(compactor: &StrategyCompactor, items: &[Item]) -> Vec<Item> {
    finish(compactor.compact(items, REASON, None)).expect("strategies without a backend do not fail")
}

fn apply(pipeline: &CompactionPipeline, items: Vec<Item>) -> Vec<Item> {
    let mut context = CompactionContext::new();
    let request = CompactionRequest::new(items, REASON);
    let result = finish(pipeline.apply(request, &mut context));
    result.expect("strategies without a backend do not fail").transcript
}

/// Drives a future that never waits, so that no runtime's cost is charged to the peer.
fn finish<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a strategy without a backend has nothing to wait for"),
    }
}

fn items(conversation: &[Neutral]) -> Vec<Item> {
    conversation.iter().map(item).collect()
}

fn item(neutral: &Neutral) -> Item {
    match neutral {
        Neutral::System(text) => Item::text(ItemKind::System, text),
        Neutral::Context(text) => Item::text(ItemKind::Context, text),
        Neutral::User(text) => Item::text(ItemKind::User, text),
        Neutral::Assistant { reasoning, text, calls } => {
            let reasoning = reasoning.iter().map(|text| Part::Reasoning(ReasoningPart::summary(text)));
            let text = text.iter().map(|text| Part::Text(TextPart::new(text)));
            let calls = calls.iter().map(|call| {
                Part::ToolCall(ToolCallPart::new(call.id.as_str(), &call.name, call.input.clone()))
            });
            Item::new(ItemKind::Assistant, reasoning.chain(text).chain(calls).collect())
        }
        Neutral::ToolResult { call_id, text, outcome, tool_name: _ } => {
            let output = ToolOutput::text(text);
            let result = match outcome {
                Outcome::Success => ToolResultPart::success(call_id.as_str(), output),
                Outcome::Failure => ToolResultPart::error(call_id.as_str(), output),
            };
            Item::new(ItemKind::Tool, vec![Part::ToolResult(result)])
        }
    }
}

fn pairing(items: &[Item]) -> Pairing {
    Pairing::of(items.iter().flat_map(|item| &item.parts).filter_map(|part| match part {
        Part::ToolCall(call) => Some(Half::Call(&call.id.0)),
        Part::ToolResult(result) => Some(Half::Result(&result.call_id.0)),
        _ => None,
    }))
}
