//! Drops the model's thinking, except in the loop in flight, where providers demand it back.

use serde::{Deserialize, Serialize};

use super::Strategy;
use crate::budget::Budget;
use crate::draft::{Draft, EmptyItems};
use crate::edit::Reason;

const ID: &str = "drop-reasoning";

/// Drops reasoning parts outside the loop in flight.
///
/// ```
/// use foldback_core::{DropReasoningStrategy, Item, Part, Transcript, View, plan};
///
/// let thinking = Item::assistant("a", vec![Part::reasoning("hm"), Part::text("Done.")]);
/// let transcript: Transcript = [Item::user("u", "Tidy up"), thinking].into_iter().collect();
/// let plan = plan(&View::of(&transcript), &DropReasoningStrategy::new(), None)?;
/// assert_eq!(plan.edits().len(), 1);
/// # Ok::<(), foldback_core::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DropReasoningStrategy {
    #[serde(rename = "drop_empty_items", with = "super::drop_empty_items")]
    empty_items: EmptyItems,
}

impl Default for DropReasoningStrategy {
    fn default() -> Self {
        Self { empty_items: EmptyItems::Drop }
    }
}

impl DropReasoningStrategy {
    /// Drops items that consist of reasoning only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses what becomes of items that consist of reasoning only.
    #[must_use]
    pub fn drop_empty_items(mut self, drop_empty_items: bool) -> Self {
        self.empty_items = if drop_empty_items { EmptyItems::Drop } else { EmptyItems::Keep };
        self
    }
}

impl Strategy for DropReasoningStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let reason = Reason::new(ID, "reasoning outside the loop in flight");
        for position in draft.view().with_reasoning() {
            draft.remove_reasoning(position, self.empty_items, &reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::part::{Part, ToolResult};
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;

    fn thinking_call(id: &str, call: &str) -> Item {
        Item::assistant(
            id,
            vec![Part::reasoning("let me see"), Part::call(call, "ls", &serde_json::json!({}))],
        )
    }

    fn reasoning_count(view: &View) -> usize {
        let parts = view.items().flat_map(|item| item.parts.clone());
        parts.filter(|part| matches!(part, Part::Reasoning(_))).count()
    }

    #[test]
    fn the_loop_in_flight_keeps_its_reasoning() {
        let mut transcript: Transcript = [
            Item::user("u1", "look"),
            thinking_call("a1", "c1"),
            Item::tool("t1", ToolResult::text("c1", "files")),
            Item::assistant("a2", vec![Part::reasoning("so"), Part::text("two files")]),
            Item::user("u2", "again"),
            thinking_call("a3", "c3"),
            Item::tool("t3", ToolResult::text("c3", "files")),
            thinking_call("a4", "c4"),
            Item::tool("t4", ToolResult::text("c4", "files")),
        ]
        .into_iter()
        .collect();
        let strategy = DropReasoningStrategy::new();
        let compacted = plan(&View::of(&transcript), &strategy, None).unwrap().apply_floor();
        assert_eq!(reasoning_count(&compacted.view), 2, "both units of the loop in flight think");
        transcript.push(Item::assistant("a5", vec![Part::text("done")]));
        let compacted = plan(&View::of(&transcript), &strategy, None).unwrap().apply_floor();
        assert_eq!(reasoning_count(&compacted.view), 0);
    }

    #[test]
    fn an_item_of_nothing_but_reasoning_goes_unless_kept() {
        let transcript: Transcript = [
            Item::user("u", "hi"),
            Item::assistant("a", vec![Part::reasoning("hm")]),
            Item::user("v", "well?"),
        ]
        .into_iter()
        .collect();
        let view = View::of(&transcript);
        let dropped = plan(&view, &DropReasoningStrategy::new(), None).unwrap().apply_floor();
        assert_eq!(dropped.view.len(), 2);
        let keeping = DropReasoningStrategy::new().drop_empty_items(false);
        let kept = plan(&view, &keeping, None).unwrap().apply_floor();
        assert_eq!(kept.view.len(), 3);
        assert!(kept.view.get(1).unwrap().item().parts.is_empty());
    }
}
