//! Keeps the first and the newest turns and drops the middle without a summary.

use serde::{Deserialize, Serialize};

use super::{Strategy, middle_turns};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;

const ID: &str = "drop-middle";

/// Keeps the first and the newest turns and drops those between. Cheap, and forgets everything:
/// prefer [`KeepFirstAndRecentTurnsStrategy`](super::KeepFirstAndRecentTurnsStrategy).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DropMiddleStrategy {
    first_turns: usize,
    recent_turns: usize,
}

impl Default for DropMiddleStrategy {
    fn default() -> Self {
        Self { first_turns: 2, recent_turns: 10 }
    }
}

impl DropMiddleStrategy {
    /// Keeps this many turns at either end; none is a valid number.
    pub fn new(first_turns: usize, recent_turns: usize) -> Self {
        Self { first_turns, recent_turns }
    }
}

impl Strategy for DropMiddleStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let middle = middle_turns(draft, self.first_turns, self.recent_turns);
        let reason = Reason::new(ID, "between the first and the newest turns");
        draft.drop_units(middle, |_, kind| kind.is_instruction(), reason);
    }

    fn describe(&self) -> String {
        format!("{ID}({}, {})", self.first_turns, self.recent_turns)
    }
}
