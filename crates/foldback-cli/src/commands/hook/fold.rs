//! Compaction for hosts that keep their own records: a summary, and whole records behind it.
//!
//! Such a host puts one text in the place of its older records. It cannot shorten a record: on the next start
//! it reads its own file again. So older units are folded, and nothing else is changed.

use std::sync::Arc;

use foldback_core::{
    BlockKind, CompactionBlock, Item, Overlay, Part, SummaryAndTailStrategy, Text, Tokens, View,
    with_standing,
};
use foldback_engine::Outcome;
use foldback_formats::{Conversation, Recorded, Step, StepAction};

/// What the summary takes of the room, in percent, and at most: the tail has the rest.
const SUMMARY_PERCENT: f64 = 40.0;
const SUMMARY_TOKENS_MAX: Tokens = Tokens(12_000);

/// Folds what is older than fits into `target` beside its summary, and into what a tail may have at most.
pub(super) fn strategy(target: Tokens, tail_max: Tokens, focus: Option<Text>) -> SummaryAndTailStrategy {
    if tail_max == Tokens::ZERO {
        return strategy_without_tail(target, focus);
    }
    let summary = summary_tokens(target);
    let tail = target.saturating_sub(summary).min(tail_max);
    SummaryAndTailStrategy::new(tail).summary_tokens_max(summary).focus(focus)
}

/// Folds everything.
pub(super) fn strategy_without_tail(target: Tokens, focus: Option<Text>) -> SummaryAndTailStrategy {
    SummaryAndTailStrategy::without_tail().summary_tokens_max(summary_tokens(target)).focus(focus)
}

/// What was said since the newest compaction.
pub(super) fn since_newest(view: &View, conversation: &Conversation) -> Tokens {
    let mut steps = conversation.steps().iter().rev();
    let item_count = steps.find(|step| step.action != StepAction::Undo).map_or(0, Step::item_count);
    let count = view.iter().rev().take_while(|entry| entry.anchor() >= item_count).count();
    view.tokens_of(view.len() - count..view.len())
}

fn summary_tokens(target: Tokens) -> Tokens {
    target.scaled_down(SUMMARY_PERCENT / 100.0).min(SUMMARY_TOKENS_MAX)
}

/// What a host is to show from now on.
#[derive(Debug)]
pub(super) struct Shown {
    /// The view with a summary that tells what no record shows any more.
    pub(super) view: View,
    pub(super) summary: Text,
    pub(super) handle: Option<Text>,
    /// The record at which the tail starts that stays as it is.
    pub(super) first_kept: Option<Text>,
}

/// What an outcome shows; nothing where it has no summary.
pub(super) fn shown(outcome: &Outcome, conversation: &Conversation) -> Option<Shown> {
    let told = outcome.summaries().next()?;
    let text = with_standing(&told.parts.iter().map(text_of).collect::<String>(), folded_user(outcome));
    let view = with_summary(&outcome.view, &text);
    Some(Shown {
        summary: text.into(),
        handle: told.summary.as_ref().map(|origin| origin.handle.to_string().into()),
        first_kept: first_kept(outcome, conversation),
        view,
    })
}

fn text_of(part: &Part) -> &str {
    match part {
        Part::Text(text) => text,
        _ => "",
    }
}

/// The newest message of the user, where it stands before the tail.
fn folded_user(outcome: &Outcome) -> Option<&Item> {
    let newest = outcome.before.newest_user().and_then(|position| outcome.before.get(position))?;
    let is_gone = outcome.view.items().all(|item| item.id != newest.item().id);
    is_gone.then(|| &**newest.item())
}

/// The same view with another text in the summary of its newest compaction.
fn with_summary(view: &View, text: &str) -> View {
    let blocks = view.overlay().blocks();
    let newest = blocks.iter().rposition(|block| block.kind == BlockKind::Compaction);
    let told = |(index, block): (usize, &Arc<CompactionBlock>)| {
        let mut block = CompactionBlock::clone(block);
        let summary = block.summaries.first_mut().and_then(|items| items.first_mut());
        if let Some(summary) = summary.filter(|_| Some(index) == newest) {
            summary.parts = vec![Part::text(text)];
        }
        block
    };
    let overlay: Overlay = blocks.iter().enumerate().map(told).collect();
    View::through(view.transcript(), &overlay).expect("another text moves nothing")
}

/// The newest record of the item from which on nothing changed.
fn first_kept(outcome: &Outcome, conversation: &Conversation) -> Option<Text> {
    let (before, after) = (outcome.before.items().rev(), outcome.view.items().rev());
    let kept_count = before.zip(after).take_while(|(before, after)| before.id == after.id).count();
    let first = outcome.view.get(outcome.view.len() - kept_count)?;
    // What was recorded for a repair has no record yet: the host repairs by itself what it sends.
    let is_same = |recorded: &Recorded| recorded.item.id == first.item().id;
    let recorded = conversation.recorded();
    let index = if first.anchor() < recorded.len() {
        Some(first.anchor())
    } else {
        recorded.iter().rposition(is_same)
    };
    conversation.record_of(index?).map(Text::from)
}
