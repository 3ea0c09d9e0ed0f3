//! Drops failed tool calls together with their results.

use serde::{Deserialize, Serialize};

use super::Strategy;
use crate::budget::Budget;
use crate::dialect::{Rule, check};
use crate::draft::{Draft, EmptyItems};
use crate::edit::Reason;
use crate::part::Part;
use crate::sequence::Failure;

const ID: &str = "drop-failed-tool-results";

/// What becomes of the newest failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewestFailure {
    /// It goes like the others.
    #[default]
    Drop,
    /// It stays, so that the model does not try the same again.
    Keep,
}

/// Drops failed calls with their results, whole pairs, outside the loop in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DropFailedToolResultsStrategy {
    #[serde(rename = "drop_empty_items", with = "super::drop_empty_items")]
    empty_items: EmptyItems,
    newest_failure: NewestFailure,
}

impl Default for DropFailedToolResultsStrategy {
    fn default() -> Self {
        Self { empty_items: EmptyItems::Drop, newest_failure: NewestFailure::Drop }
    }
}

impl DropFailedToolResultsStrategy {
    /// Drops every failure, and items that held nothing else.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses what becomes of items that have nothing left.
    #[must_use]
    pub fn drop_empty_items(mut self, drop_empty_items: bool) -> Self {
        self.empty_items = if drop_empty_items { EmptyItems::Drop } else { EmptyItems::Keep };
        self
    }

    /// Keeps the newest failure.
    #[must_use]
    pub fn keep_newest_failure(mut self) -> Self {
        self.newest_failure = NewestFailure::Keep;
        self
    }
}

impl Strategy for DropFailedToolResultsStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    /// Failed results that no call asked for: a repair would make them context, which stays.
    fn before_repair(&self, draft: &mut Draft<'_>) {
        let reason = Reason::new(ID, "it failed, and no call asked for it");
        for violation in check(draft.view().items(), None) {
            let is_stray = matches!(violation.rule, Rule::ResultWithoutCall | Rule::DuplicateResult);
            if let Some(part_index) = violation.part_index.filter(|_| is_stray) {
                draft.remove_stray_failure(violation.item_index, part_index, self.empty_items, &reason);
            }
        }
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let reason = Reason::new(ID, "the call failed");
        let view = draft.view();
        let newest = match self.newest_failure {
            NewestFailure::Drop => None,
            NewestFailure::Keep => view.failures().rev().find(|&failure| is_there(draft, failure)),
        };
        for failure in view.failures().filter(|&failure| Some(failure) != newest) {
            if is_there(draft, failure) {
                draft.remove_failure(failure, self.empty_items, &reason);
            }
        }
    }
}

/// Whether the failed result is still in the draft, and still a failed one.
fn is_there(draft: &Draft<'_>, failure: Failure) -> bool {
    let (position, part_index) = failure.result();
    let is_failure = |part: &Part| matches!(part, Part::ToolResult(result) if result.is_error);
    match draft.is_rewritten(position) {
        true => draft.parts(position).any(|(index, part)| index == part_index && is_failure(part)),
        false => draft.is_live(position),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::part::ToolResult;
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;
    use serde_json::json;

    fn ids(view: &View) -> Vec<&str> {
        view.items().map(|item| item.id.as_str()).collect()
    }

    fn compact(items: Vec<Item>, strategy: &DropFailedToolResultsStrategy) -> View {
        let transcript: Transcript = items.into_iter().collect();
        plan(&View::of(&transcript), strategy, None).unwrap().apply_floor().view
    }

    fn parallel() -> Vec<Item> {
        let calls = vec![
            Part::reasoning("both"),
            Part::call("c1", "read", &json!({"path": "a"})),
            Part::call("c2", "read", &json!({"path": "b"})),
        ];
        vec![
            Item::user("u", "read both"),
            Item::assistant("a", calls),
            Item::tool("t1", ToolResult::error("c1", "no such file")),
            Item::tool("t2", ToolResult::text("c2", "content")),
            Item::assistant("b", vec![Part::text("one of them")]),
        ]
    }

    #[test]
    fn a_failed_call_leaves_its_parallel_siblings_paired() {
        let view = compact(parallel(), &DropFailedToolResultsStrategy::new());
        assert_eq!(ids(&view), ["u", "a", "t2", "b"]);
        let assistant = view.get(1).unwrap().item();
        assert_eq!(assistant.calls().map(|(_, call)| call.id.as_str()).collect::<Vec<_>>(), ["c2"]);
        assert!(matches!(assistant.parts[0], Part::Reasoning(_)));
    }

    #[test]
    fn reasoning_is_not_left_with_nothing_after_it() {
        let mut items = parallel();
        items[3] = Item::tool("t2", ToolResult::error("c2", "no such file"));
        let view = compact(items, &DropFailedToolResultsStrategy::new());
        assert_eq!(ids(&view), ["u", "b"]);
    }

    #[test]
    fn the_newest_failure_can_stay_so_that_it_is_not_repeated() {
        let mut items = parallel();
        items[3] = Item::tool("t2", ToolResult::error("c2", "no such file"));
        let view = compact(items, &DropFailedToolResultsStrategy::new().keep_newest_failure());
        assert_eq!(ids(&view), ["u", "a", "t2", "b"]);

        let round = |number: usize| {
            let call = format!("c{number}");
            let asks =
                Item::assistant(format!("a{number}"), vec![Part::call(call.as_str(), "edit", &json!({}))]);
            [asks, Item::tool(format!("t{number}"), ToolResult::error(call, "no such line"))]
        };
        let items = (0..3).flat_map(round).chain([Item::user("newest", "go on")]).collect();
        let view = compact(items, &DropFailedToolResultsStrategy::new().keep_newest_failure());
        assert_eq!(ids(&view), ["a2", "t2", "newest"], "of several rounds, too");
    }

    #[test]
    fn a_failure_in_the_loop_in_flight_stays() {
        let mut items = parallel();
        items.pop();
        let view = compact(items, &DropFailedToolResultsStrategy::new());
        assert_eq!(ids(&view), ["u", "a", "t1", "t2"]);
    }
}
