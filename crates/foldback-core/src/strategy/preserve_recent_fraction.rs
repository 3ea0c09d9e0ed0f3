//! Keeps the newest fraction of the tokens and folds the rest.

use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::summary_options::{SummaryOptions, asks_for_a_summary};
use super::{Strategy, scene, tail_start};
use crate::block::CompactionBlock;
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::{Edit, Reason};
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::sequence::Entry;

const ID: &str = "preserve-recent-fraction";

/// Walks back to a fraction of the transcript's tokens, snaps to the next user item, and folds
/// everything before it. Where no user item follows, it snaps to the next cut between units: one
/// prompt with 300 tool rounds can be folded too. [`only_at_user_items`] gives that up.
///
/// For conversations where the last exchanges decide.
///
/// [`only_at_user_items`]: PreserveRecentFractionStrategy::only_at_user_items
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreserveRecentFractionStrategy {
    #[serde(default = "default_fraction", deserialize_with = "checked_fraction")]
    fraction: f64,
    #[serde(default)]
    of: FractionOf,
    #[serde(default)]
    cuts: Cuts,
    #[serde(flatten)]
    summary: SummaryOptions,
}

asks_for_a_summary!(PreserveRecentFractionStrategy);

/// The newest 0.3 of the tokens recorded.
impl Default for PreserveRecentFractionStrategy {
    fn default() -> Self {
        let (of, cuts) = (FractionOf::Recorded, Cuts::Units);
        Self { fraction: default_fraction(), of, cuts, summary: SummaryOptions::default() }
    }
}

/// What the fraction is a fraction of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FractionOf {
    #[default]
    Recorded,
    View,
}

/// Where the tail may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Cuts {
    #[default]
    Units,
    UserItems,
}

fn default_fraction() -> f64 {
    0.3
}

fn checked_fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let strategy = PreserveRecentFractionStrategy::new(f64::deserialize(deserializer)?);
    strategy.map(|strategy| strategy.fraction).map_err(D::Error::custom)
}

/// A fraction outside 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a fraction of {fraction} was asked for; use a value from 0 to 1, such as 0.3")]
pub struct FractionError {
    /// What was asked for.
    pub fraction: f64,
}

impl PreserveRecentFractionStrategy {
    /// Keeps the newest `fraction` of the tokens, between 0 and 1.
    pub fn new(fraction: f64) -> Result<Self, FractionError> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(FractionError { fraction });
        }
        Ok(Self { fraction, ..Self::default() })
    }

    /// Takes the fraction of what the model sees instead of everything recorded. A view that has not
    /// grown since it was folded is left alone, or every run would fold a fraction of the rest (T7).
    #[must_use]
    pub fn of_the_view(mut self) -> Self {
        self.of = FractionOf::View;
        self
    }

    /// Cuts at user items only. Where none follows, a running tool loop is not folded at all, and
    /// a finished one is folded up to its last unit.
    #[must_use]
    pub fn only_at_user_items(mut self) -> Self {
        self.cuts = Cuts::UserItems;
        self
    }

    /// Where the tail starts; nowhere if everything that could be folded fits into it.
    fn split_point(&self, draft: &Draft<'_>) -> Option<usize> {
        let start = match self.of {
            FractionOf::Recorded => {
                let hideable = draft.hideable(0..draft.len(), scene(draft));
                tail_start(draft, &hideable, draft.raw_tokens().scaled_down(self.fraction))
            }
            FractionOf::View => self.start_in_view(draft)?,
        };
        if start == 0 {
            return None;
        }
        let is_boundary = |&position: &usize| position >= start && draft.is_cut(position);
        let next_user = draft.turn_starts().find(is_boundary);
        // The newest unit stays, whatever its size: folding it would answer nobody.
        let mut units = draft.live_rev().filter(|(_, entry)| !entry.holds().contains(Holds::SUMMARY));
        let (last_unit, _) = draft.unit_ends(units.next()?.0);
        match (next_user, self.cuts) {
            (Some(user), _) => Some(user.min(last_unit)),
            (None, Cuts::Units) => Some(start.min(last_unit)),
            (None, Cuts::UserItems) => draft.loop_in_flight().is_empty().then_some(last_unit),
        }
    }

    /// The first position with all but the fraction of the view before it.
    fn start_in_view(&self, draft: &Draft<'_>) -> Option<usize> {
        if draft.is_folding() || !has_grown(draft) {
            return None;
        }
        let sets_the_scene = scene(draft);
        let spoken = || draft.live().filter(|(position, entry)| !sets_the_scene(*position, entry.kind()));
        let total: Tokens = spoken().map(|(position, _)| draft.tokens_at(position)).sum();
        let older_min = total.saturating_sub(total.scaled_down(self.fraction));
        // A summary stands for what is older, wherever it stands itself.
        let is_behind = |&(_, entry): &(usize, &Entry)| entry.is_summary_behind();
        let mut older: Tokens =
            spoken().filter(is_behind).map(|(position, _)| draft.tokens_at(position)).sum();
        let reaches = |(position, _): (usize, &Entry)| {
            let is_reached = older >= older_min && older > Tokens::ZERO;
            older += draft.tokens_at(position);
            is_reached.then_some(position)
        };
        let start = spoken().filter(|one| !is_behind(one)).find_map(reaches).unwrap_or(draft.len());
        (start..=draft.len()).find(|&position| draft.is_cut(position))
    }
}

/// Whether the view costs more than the last fold left.
fn has_grown(draft: &Draft<'_>) -> bool {
    let folds = |block: &&Arc<CompactionBlock>| block.edits.iter().any(|edit| matches!(edit, Edit::Fold(_)));
    let last_fold = draft.view().overlay().blocks().iter().rev().find(folds);
    last_fold.is_none_or(|block| draft.view().tokens() > block.tokens_after)
}

impl Strategy for PreserveRecentFractionStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let Some(split_point) = self.split_point(draft) else { return };
        let reason = Reason::new(ID, format!("before the newest {} of the tokens", self.fraction));
        let sets_the_scene = scene(draft);
        draft.fold_as_asked(0..split_point, sets_the_scene, self.summary.spec(), reason);
    }

    fn wants_backend(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("{ID}({})", self.fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Item, ItemKind};
    use crate::part::{Part, ToolResult};
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;
    use serde_json::json;

    /// The defect of Gemini CLI: no user boundary in the tail, so no compression at all.
    #[test]
    fn one_prompt_followed_by_300_tool_rounds_is_folded() {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("u", "do it all"));
        for number in 0..300 {
            let call = format!("c{number}");
            transcript.push(Item::assistant(
                format!("a{number}"),
                vec![Part::call(call.clone(), "run", &json!({"step": number}))],
            ));
            transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, "line\n".repeat(50))));
        }
        let strategy = PreserveRecentFractionStrategy::new(0.3).unwrap();
        let compacted = plan(&View::of(&transcript), &strategy, None).unwrap().apply_floor();
        let tail = compacted.view.iter().filter(|entry| entry.item().summary.is_none());
        let tail: Tokens = tail.map(|entry| entry.tokens().total).sum();
        let share = tail.0 as f64 / transcript.tokens().0 as f64;
        assert!((0.25..0.32).contains(&share), "{share}");
        let kinds: Vec<_> = compacted.view.items().map(|item| item.kind).take(3).collect();
        assert_eq!(kinds, [ItemKind::User, ItemKind::Context, ItemKind::Assistant]);
    }

    #[test]
    fn the_tail_starts_at_a_user_item_where_there_is_one() {
        let mut transcript = Transcript::default();
        for number in 0..10 {
            transcript.push(Item::user(format!("u{number}"), "please ".repeat(30)));
            transcript.push(Item::assistant(format!("a{number}"), vec![Part::text("sure ".repeat(70))]));
        }
        let strategy = PreserveRecentFractionStrategy::new(0.35).unwrap();
        let compacted = plan(&View::of(&transcript), &strategy, None).unwrap().apply_floor();
        let ids: Vec<_> = compacted.view.items().skip(1).map(|item| item.id.to_string()).collect();
        assert_eq!(ids, ["u7", "a7", "u8", "a8", "u9", "a9"]);
    }

    #[test]
    fn where_nobody_says_otherwise_the_newest_three_tenths_stay() {
        let read: PreserveRecentFractionStrategy = serde_json::from_str("{}").unwrap();
        assert_eq!(read, PreserveRecentFractionStrategy::default());
        assert_eq!(Ok(read), PreserveRecentFractionStrategy::new(0.3));
    }

    #[test]
    fn a_fraction_over_one_is_an_error() {
        assert!(PreserveRecentFractionStrategy::new(1.5).is_err());
        assert!(PreserveRecentFractionStrategy::new(f64::NAN).is_err());
        assert!(serde_json::from_str::<PreserveRecentFractionStrategy>(r#"{"fraction":-0.1}"#).is_err());
    }
}
