//! Keeps the first and the newest items and folds those between.

use serde::{Deserialize, Serialize};

use super::summary_options::{SummaryOptions, asks_for_a_summary};
use super::{Kinds, Strategy, newest_start};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::holds::Holds;
use crate::ids::Tokens;

const ID: &str = "keep-first-and-recent-items";

/// Keeps the first and the newest items, whatever their kinds, and folds those between into a
/// summary in their place. Units stay whole, so a few more may remain.
///
/// For agents whose work is one long list of events: the first ones say what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepFirstAndRecentItemsStrategy {
    first_items: usize,
    recent_items: usize,
    #[serde(flatten)]
    summary: SummaryOptions,
}

asks_for_a_summary!(KeepFirstAndRecentItemsStrategy);

impl KeepFirstAndRecentItemsStrategy {
    /// Keeps this many items at either end; none is a valid number.
    pub fn new(first_items: usize, recent_items: usize) -> Self {
        Self { first_items, recent_items, summary: SummaryOptions::default() }
    }

    /// Where the first items end. Summaries and empty items do not count, as they do not at the
    /// other end.
    fn first_end(&self, draft: &Draft<'_>) -> usize {
        let Some(last) = self.first_items.checked_sub(1) else { return 0 };
        let mut counted = draft.live().filter(|(position, entry)| {
            !entry.holds().contains(Holds::SUMMARY) && draft.tokens_at(*position) > Tokens::ZERO
        });
        counted.nth(last).map_or(draft.len(), |(position, _)| position + 1)
    }
}

impl Strategy for KeepFirstAndRecentItemsStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let first_end = self.first_end(draft);
        let recent_start = newest_start(draft, self.recent_items, &Kinds::new());
        if first_end >= recent_start {
            return;
        }
        let reason = Reason::new(ID, "between the first and the newest items");
        draft.fold_as_asked(
            first_end..recent_start,
            |_, kind| kind.is_instruction(),
            self.summary.spec(),
            reason,
        );
    }

    fn wants_backend(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("{ID}({}, {})", self.first_items, self.recent_items)
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
    use serde_json::json;

    fn rounds(count: usize) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("task", "do it"));
        for number in 0..count {
            let call = Part::call(format!("c{number}"), "run", &json!({"n": number}));
            transcript.push(Item::assistant(format!("a{number}"), vec![call]));
            let output = ToolResult::text(format!("c{number}"), "line\n".repeat(40));
            transcript.push(Item::tool(format!("t{number}"), output));
        }
        transcript
    }

    fn ids(view: &View) -> Vec<String> {
        let label = |item: &Item| if item.summary.is_some() { "S".to_owned() } else { item.id.to_string() };
        view.items().map(|item| label(item)).collect()
    }

    #[test]
    fn units_at_either_cut_stay_whole() {
        let transcript = rounds(6);
        // The second item is a call, the third-newest a result: both bring the rest of their unit.
        let strategy = KeepFirstAndRecentItemsStrategy::new(2, 3);
        let view = plan(&View::of(&transcript), &strategy, None).unwrap().apply_floor().view;
        assert_eq!(ids(&view), ["task", "a0", "t0", "S", "a4", "t4", "a5", "t5"]);
        assert!(plan(&view, &strategy, None).unwrap().is_empty(), "nothing was pushed");
    }

    #[test]
    fn fewer_items_than_are_kept_are_left_alone() {
        let strategy = KeepFirstAndRecentItemsStrategy::new(4, 35);
        assert!(plan(&View::of(&rounds(19)), &strategy, None).unwrap().is_empty());
    }
}
