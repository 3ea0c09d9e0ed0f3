//! Compaction in memory, in three levels, without a session.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{PlanError, plan};
use super::{
    SUMMARY_TOKENS_DEFAULT, Strategy, TruncateLimitError, TruncateToolOutputsStrategy, middle_turns, scene,
    tail_start,
};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::{Reason, SummaryPlacement, SummarySpec};
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::item::{Item, ItemKind};
use crate::summary::SUMMARY_TOKENS_MIN;
use crate::transcript::Transcript;
use crate::view::View;

const ID: &str = "three-level";

/// Three levels, stopping as soon as the view fits:
///
/// 1. shorten tool outputs to so many lines;
/// 2. fold the turns between the first and the newest ones into a summary of one line each;
/// 3. widen the folded middle, oldest units first, until what is left fits: nothing is dropped without a line
///    in the summary, and everything can be recalled.
///
/// Unlike [`LadderStrategy`](super::LadderStrategy) it makes no promise: what rule T4 protects may
/// be larger than the target, and then it does what it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DefaultCompaction {
    keep_first_turns: usize,
    keep_recent_turns: usize,
    max_summary_tokens: Tokens,
    #[serde(skip_serializing_if = "SummaryPlacement::is_default")]
    summary_placement: SummaryPlacement,
    tool_outputs: TruncateToolOutputsStrategy,
}

impl Default for DefaultCompaction {
    fn default() -> Self {
        Self {
            keep_first_turns: 2,
            keep_recent_turns: 10,
            max_summary_tokens: SUMMARY_TOKENS_DEFAULT,
            summary_placement: SummaryPlacement::default(),
            tool_outputs: TruncateToolOutputsStrategy::default(),
        }
    }
}

impl DefaultCompaction {
    /// 2 first turns, 10 recent turns, 2,000 tokens of summary, 50 lines per tool output.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns kept verbatim at the beginning; none is a valid number.
    #[must_use]
    pub fn keep_first_turns(mut self, turns: usize) -> Self {
        self.keep_first_turns = turns;
        self
    }

    /// Turns kept at the end.
    #[must_use]
    pub fn keep_recent_turns(mut self, turns: usize) -> Self {
        self.keep_recent_turns = turns;
        self
    }

    /// How large the summary may be.
    #[must_use]
    pub fn max_summary_tokens(mut self, tokens: Tokens) -> Self {
        self.max_summary_tokens = tokens;
        self
    }

    /// Where the summary stands: before the tail or after it.
    #[must_use]
    pub fn summary_placement(mut self, placement: SummaryPlacement) -> Self {
        self.summary_placement = placement;
        self
    }

    /// Lines kept of each tool output.
    pub fn tool_output_max_lines(mut self, lines: usize) -> Result<Self, TruncateLimitError> {
        self.tool_outputs = self.tool_outputs.lines_max(lines)?;
        Ok(self)
    }

    fn summary(&self, target: Tokens) -> SummarySpec {
        let share = Tokens(target.0 / 4);
        let tokens_max = self.max_summary_tokens.min(share).max(Tokens(SUMMARY_TOKENS_MIN));
        SummarySpec::new(tokens_max).with_placement(self.summary_placement)
    }

    /// Level 2: the turns between the first and the newest ones go behind the summary.
    fn fold_middle(&self, draft: &mut Draft<'_>, target: Tokens) {
        let middle = middle_turns(draft, self.keep_first_turns, self.keep_recent_turns);
        let reason = Reason::new(ID, "level 2: between the first and the newest turns");
        draft.fold(middle, |_, kind| kind.is_instruction(), self.summary(target), reason);
    }

    /// Level 3: everything but the scene and a tail that fits goes behind the summary.
    fn widen(&self, draft: &mut Draft<'_>, target: Tokens) {
        let first_turns_end = draft.turn_starts().nth(self.keep_first_turns).unwrap_or(0);
        let sets_the_scene = scene(draft);
        let keep_first =
            |position: usize, kind: ItemKind| position < first_turns_end || sets_the_scene(position, kind);
        if !self.fold_until(draft, target, keep_first) {
            self.fold_until(draft, target, &sets_the_scene);
        }
    }

    fn fold_until(
        &self,
        draft: &mut Draft<'_>,
        target: Tokens,
        keep: impl Fn(usize, ItemKind) -> bool,
    ) -> bool {
        let hideable = draft.hideable(0..draft.len(), &keep);
        let foldable: Tokens = hideable.iter().map(|&position| draft.tokens_at(position)).sum();
        let fixed = draft.tokens().saturating_sub(foldable + draft.summary_tokens());
        let spec = self.summary(target);
        let room = target.saturating_sub(fixed + spec.tokens_max);
        let split_point = tail_start(draft, &hideable, room);
        draft.fold(
            0..split_point,
            keep,
            spec,
            Reason::new(ID, "level 3: between the first turns and what fits"),
        );
        draft.tokens() <= target
    }
}

impl Strategy for DefaultCompaction {
    fn id(&self) -> &'static str {
        ID
    }

    fn needs_budget(&self) -> bool {
        true
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        let Some(target) = budget.map(Budget::target) else { return };
        if draft.tokens() <= target {
            return;
        }
        // Level 1 cannot be enough where everything but results is too much already. It is put off
        // then until level 2 has folded its turns, whose results need no shortening: the view is
        // the same, and thousands of results are not touched in vain.
        let is_level_1_put_off = tokens_beside_results(draft) > target;
        if !is_level_1_put_off {
            self.tool_outputs.plan(draft, budget);
            if draft.tokens() <= target {
                return;
            }
        }
        self.fold_middle(draft, target);
        if is_level_1_put_off {
            self.tool_outputs.plan(draft, budget);
        }
        if draft.tokens() > target {
            self.widen(draft, target);
        }
    }
}

/// What shortening tool outputs cannot touch.
fn tokens_beside_results(draft: &Draft<'_>) -> Tokens {
    let others = draft.live_marks().filter(|(_, mark)| !mark.holds.contains(Holds::RESULT));
    others.map(|(position, _)| draft.tokens_at(position)).sum()
}

/// Compacts items in memory to a budget, with floor summaries: nothing to set up, nothing to store. A session's
/// `CompactionConfig` makes both arguments, by `default_compaction` and `budget`.
pub fn compact_messages(
    items: impl IntoIterator<Item = Arc<Item>>,
    config: &DefaultCompaction,
    budget: &Budget,
) -> Result<Vec<Arc<Item>>, PlanError> {
    let transcript: Transcript = items.into_iter().collect();
    let plan = plan(&View::of(&transcript), config, Some(budget))?;
    Ok(plan.apply_floor().view.items().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Part, ToolResult};
    use crate::strategy::StrategyPipeline;
    use serde_json::json;

    fn turns(count: usize, lines: usize) -> Vec<Arc<Item>> {
        let turn = |number: usize| {
            let call = format!("c{number}");
            [
                Item::user(format!("u{number}"), "please do the next thing"),
                Item::assistant(
                    format!("a{number}"),
                    vec![Part::call(call.clone(), "run", &json!({"n": number}))],
                ),
                Item::tool(format!("t{number}"), ToolResult::text(call, "output\n".repeat(lines))),
                Item::assistant(format!("e{number}"), vec![Part::text("done with it")]),
            ]
        };
        (0..count).flat_map(turn).map(Arc::new).collect()
    }

    fn compact(items: &[Arc<Item>], target: u64) -> Transcript {
        let budget = Budget::for_target(Tokens(target)).unwrap();
        let compacted = compact_messages(items.iter().cloned(), &DefaultCompaction::new(), &budget).unwrap();
        compacted.into_iter().collect()
    }

    #[test]
    fn each_level_stops_as_soon_as_it_fits() {
        let items = turns(30, 200);
        let whole: Transcript = items.iter().cloned().collect();
        assert_eq!(compact(&items, whole.tokens().0).len(), items.len());
        let first = compact(&items, whole.tokens().0 / 2);
        assert_eq!(first.len(), items.len(), "level 1 shortens outputs and keeps every item");
        let second = compact(&items, 4_000);
        assert_eq!(second.turn_count(), 12, "level 2 keeps 2 first and 10 recent turns");
        let third = compact(&items, 1_000);
        assert!(third.turn_count() < 12 && third.tokens() <= Tokens(1_000), "{}", third.shape());
        assert!(third.items().any(|item| item.id.as_str() == "u0"), "the first turns go last");
    }

    #[test]
    fn putting_level_1_off_leads_to_the_same_view() {
        let transcript: Transcript = turns(200, 80).into_iter().collect();
        let budget = Budget::for_target(Tokens(5_000)).unwrap();
        let view = View::of(&transcript);
        assert!(tokens_beside_results(&Draft::new(&view)) > budget.target(), "level 1 is put off");
        let in_order = StrategyPipeline::new()
            .with_strategy(TruncateToolOutputsStrategy::default())
            .with_strategy(DefaultCompaction::new());
        let items = |strategy: &dyn Strategy| {
            let compacted = plan(&view, strategy, Some(&budget)).unwrap().apply_floor();
            compacted.view.items().cloned().collect::<Vec<_>>()
        };
        let put_off = items(&DefaultCompaction::new());
        assert!(put_off.len() > 12 * 4, "levels 1 and 2 are enough: {}", put_off.len());
        assert_eq!(put_off, items(&in_order));
    }

    /// The defect of phi-core: one oversized newest message drops everything else.
    #[test]
    fn one_oversized_newest_message_does_not_drop_the_rest() {
        let mut items = turns(5, 10);
        items.push(Arc::new(Item::user("huge", "x".repeat(400_000))));
        let compacted = compact(&items, 10_000);
        assert!(compacted.items().any(|item| item.id.as_str() == "huge"));
        assert!(compacted.items().any(|item| item.summary.is_some()), "the rest is in the summary");
    }
}
