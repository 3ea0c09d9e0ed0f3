//! Keeps the first and the newest turns and folds the middle.

use serde::{Deserialize, Serialize};

use super::summary_options::{SummaryOptions, asks_for_a_summary};
use super::{Strategy, middle_turns};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;

const ID: &str = "keep-first-and-recent-turns";

/// Keeps the first and the newest turns verbatim and folds those between. What stands before the
/// first turn stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeepFirstAndRecentTurnsStrategy {
    first_turns: usize,
    recent_turns: usize,
    #[serde(flatten)]
    summary: SummaryOptions,
}

asks_for_a_summary!(KeepFirstAndRecentTurnsStrategy);

impl Default for KeepFirstAndRecentTurnsStrategy {
    fn default() -> Self {
        Self { first_turns: 2, recent_turns: 10, summary: SummaryOptions::default() }
    }
}

impl KeepFirstAndRecentTurnsStrategy {
    /// Keeps this many turns at either end; none is a valid number.
    pub fn new(first_turns: usize, recent_turns: usize) -> Self {
        Self { first_turns, recent_turns, ..Self::default() }
    }
}

impl Strategy for KeepFirstAndRecentTurnsStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let middle = middle_turns(draft, self.first_turns, self.recent_turns);
        let reason = Reason::new(ID, "between the first and the newest turns");
        draft.fold_as_asked(middle, |_, kind| kind.is_instruction(), self.summary.spec(), reason);
    }

    fn wants_backend(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("{ID}({}, {})", self.first_turns, self.recent_turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::part::Part;
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;

    fn turns(count: usize) -> Transcript {
        let turn = |number: usize| {
            let words = "words ".repeat(100);
            [
                Item::user(format!("u{number}"), words.clone()),
                Item::assistant(format!("a{number}"), vec![Part::text(words)]),
            ]
        };
        (0..count).flat_map(turn).collect()
    }

    fn ids(transcript: &Transcript, strategy: &KeepFirstAndRecentTurnsStrategy) -> Vec<String> {
        let compacted = plan(&View::of(transcript), strategy, None).unwrap().apply_floor();
        let label = |item: &Item| if item.summary.is_some() { "S".to_owned() } else { item.id.to_string() };
        compacted.view.items().map(|item| label(item)).collect()
    }

    /// The defect of phi-core: `keep_first_turns = 0` still keeps a turn.
    #[test]
    fn keeping_no_first_turn_keeps_none() {
        let strategy = KeepFirstAndRecentTurnsStrategy::new(0, 1);
        assert_eq!(ids(&turns(4), &strategy), ["S", "u3", "a3"]);
    }

    #[test]
    fn the_middle_is_folded_in_place() {
        let strategy = KeepFirstAndRecentTurnsStrategy::new(1, 1);
        assert_eq!(ids(&turns(4), &strategy), ["u0", "a0", "S", "u3", "a3"]);
    }
}
