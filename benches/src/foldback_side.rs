//! foldback's side of every case but counting (`count.rs`): the only file that calls its planning.
//!
//! What is timed is what a host does with a compaction: plan it, apply it with floor summaries,
//! check what comes out against Anthropic's rules, and take the finished list of items. Building
//! the strategy and dropping plan, view and block are part of it.

use std::sync::{Arc, LazyLock};

use foldback_core::{
    Budget, BudgetTrigger, DefaultCompaction, DropFailedToolResultsStrategy, DropReasoningStrategy, Item,
    ItemKind, Json, KeepRecentStrategy, LadderStrategy, MutationPoint, Part, Strategy, StrategyPipeline,
    Tokens, ToolCall, ToolInput, ToolResult, Transcript, Trigger, TriggerContext, View, dialect,
    dialect::Dialect, plan,
};

use crate::conversation::{Neutral, NeutralCall, Outcome};
use crate::pairing::{Half, Pairing};

const KEEP_RECENT: usize = 8;

/// Drop reasoning, drop failed tool results, keep the recent eight (System and Context stay).
pub(crate) fn pipeline(transcript: &Transcript) -> Vec<Arc<Item>> {
    let pipeline = StrategyPipeline::new()
        .with_strategy(DropReasoningStrategy::new())
        .with_strategy(DropFailedToolResultsStrategy::new())
        .with_strategy(
            KeepRecentStrategy::new(KEEP_RECENT)
                .preserve_kind(ItemKind::System)
                .preserve_kind(ItemKind::Context),
        );
    compact(transcript, &pipeline, None)
}

/// Shorten tool outputs, summarise older turns, drop the middle: as much of it as brings the
/// view to `max_tokens`.
pub(crate) fn three_level(transcript: &Transcript, max_tokens: u64) -> Vec<Arc<Item>> {
    compact(transcript, &DefaultCompaction::new(), Some(&budget(max_tokens)))
}

/// The default policy, to `max_tokens`.
pub(crate) fn ladder(transcript: &Transcript, max_tokens: u64) -> Vec<Arc<Item>> {
    compact(transcript, &LadderStrategy::new(), Some(&budget(max_tokens)))
}

/// The default policy, to `max_tokens`, with its digest.
pub(crate) fn digest(transcript: &Transcript, max_tokens: u64) -> Vec<Arc<Item>> {
    let budget = budget(max_tokens);
    let plan = plan(&View::of(transcript), &LadderStrategy::new(), Some(&budget));
    let view = plan.expect("these targets can be met").apply_digest().view;
    assert!(view.tokens() <= budget.target(), "a digest fits");
    view.items().map(Arc::clone).collect()
}

fn budget(max_tokens: u64) -> Budget {
    Budget::for_target(Tokens(max_tokens)).expect("a target above zero is a budget")
}

fn compact(transcript: &Transcript, strategy: &dyn Strategy, budget: Option<&Budget>) -> Vec<Arc<Item>> {
    let plan = plan(&View::of(transcript), strategy, budget).expect("these targets can be met");
    let view = plan.apply_floor().view;
    assert_eq!(check(view.items()), 0, "what comes out is what Anthropic accepts");
    view.items().map(Arc::clone).collect()
}

/// How many of Anthropic's rules `items` break.
pub(crate) fn check<'a>(items: impl IntoIterator<Item = &'a Arc<Item>>) -> usize {
    dialect::check(items, Some(Dialect::Anthropic)).len()
}

static TRIGGER: LazyLock<BudgetTrigger> =
    LazyLock::new(|| BudgetTrigger::at_percent_of_window(Tokens(100_000), 90.0).expect("90 is a percentage"));

/// Whether compaction is due. Asked after every push.
pub(crate) fn trigger_fires(transcript: &Transcript) -> bool {
    TRIGGER.fires(&TriggerContext::new(transcript, MutationPoint::AfterToolResult)).is_some()
}

/// The conversation as foldback's items.
pub(crate) fn items(conversation: &[Neutral]) -> Vec<Arc<Item>> {
    let named = conversation.iter().enumerate();
    named.map(|(index, neutral)| Arc::new(item(format!("item_{index}"), neutral))).collect()
}

fn item(id: String, neutral: &Neutral) -> Item {
    match neutral {
        Neutral::System(text) => Item::text(id, ItemKind::System, text.as_str()),
        Neutral::Context(text) => Item::text(id, ItemKind::Context, text.as_str()),
        Neutral::User(text) => Item::user(id, text.as_str()),
        Neutral::Assistant { reasoning, text, calls } => {
            let reasoning = reasoning.iter().map(|text| Part::reasoning(text.as_str()));
            let text = text.iter().map(|text| Part::text(text.as_str()));
            Item::assistant(id, reasoning.chain(text).chain(calls.iter().map(call)).collect())
        }
        Neutral::ToolResult { call_id, text, outcome, tool_name: _ } => {
            let result = match outcome {
                Outcome::Success => ToolResult::text(call_id.as_str(), text.as_str()),
                Outcome::Failure => ToolResult::error(call_id.as_str(), text.as_str()),
            };
            Item::tool(id, result)
        }
    }
}

fn call(call: &NeutralCall) -> Part {
    Part::ToolCall(ToolCall {
        id: call.id.as_str().into(),
        name: call.name.as_str().into(),
        input: ToolInput::Json(Json::from_value(&call.input)),
        signature: None,
    })
}

/// Whether calls and results in `items` pair up.
pub(crate) fn pairing(items: &[Arc<Item>]) -> Pairing {
    Pairing::of(items.iter().flat_map(|item| &item.parts).filter_map(|part| match part {
        Part::ToolCall(call) => Some(Half::Call(&call.id)),
        Part::ToolResult(result) => Some(Half::Result(&result.call_id)),
        Part::Text(_)
        | Part::Reasoning(_)
        | Part::Media(_)
        | Part::File(_)
        | Part::Structured(_)
        | Part::Opaque(_) => None,
    }))
}

/// What `items` cost by the transcript's own counter.
pub(crate) fn tokens(transcript: &Transcript, items: &[Arc<Item>]) -> u64 {
    items.iter().map(|item| transcript.meter().item(item).total.0).sum()
}
