//! Keeps the newest turns, each or all together within a clamp, and folds the rest.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::summary_options::{SummaryOptions, asks_for_a_summary};
use super::{Strategy, scene};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::item::ItemKind;

const ID: &str = "preserve-recent-turns";

/// How much of the usable context kept turns may take: a percentage between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "ClampFields", into = "ClampFields")]
pub struct TailClamp {
    percent: u8,
    tokens_min: Tokens,
    tokens_max: Tokens,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClampFields {
    percent: u8,
    tokens_min: Tokens,
    tokens_max: Tokens,
}

/// Bounds that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClampError {
    /// More than everything.
    #[error("a share of {percent}% was asked for; use a value from 0 to 100")]
    Percent {
        /// What was asked for.
        percent: u8,
    },
    /// The lower bound is above the upper.
    #[error("at least {tokens_min} and at most {tokens_max} tokens were asked for; swap them")]
    Bounds {
        /// The lower bound.
        tokens_min: Tokens,
        /// The upper bound.
        tokens_max: Tokens,
    },
}

impl TailClamp {
    /// `percent` of the usable context, at least `tokens_min`, at most `tokens_max`.
    pub fn new(percent: u8, tokens_min: Tokens, tokens_max: Tokens) -> Result<Self, ClampError> {
        if percent > 100 {
            return Err(ClampError::Percent { percent });
        }
        if tokens_min > tokens_max {
            return Err(ClampError::Bounds { tokens_min, tokens_max });
        }
        Ok(Self { percent, tokens_min, tokens_max })
    }

    /// The clamp's value; without a budget there is nothing to take a share of.
    fn tokens(&self, budget: Option<&Budget>) -> Tokens {
        let share = |budget: &Budget| Tokens(budget.usable().0 * u64::from(self.percent) / 100);
        budget.map_or(self.tokens_max, share).clamp(self.tokens_min, self.tokens_max)
    }
}

impl TryFrom<ClampFields> for TailClamp {
    type Error = ClampError;
    fn try_from(fields: ClampFields) -> Result<Self, ClampError> {
        Self::new(fields.percent, fields.tokens_min, fields.tokens_max)
    }
}

impl From<TailClamp> for ClampFields {
    fn from(clamp: TailClamp) -> Self {
        Self { percent: clamp.percent, tokens_min: clamp.tokens_min, tokens_max: clamp.tokens_max }
    }
}

/// What the clamp applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClampOn {
    EachTurn,
    WholeTail,
}

/// Keeps the newest turns verbatim and folds everything before. A turn that does not fit a clamp
/// of its own keeps its user item and its newest units; one that does not fit a clamp on the whole
/// tail keeps the units that do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreserveRecentTurnsStrategy {
    turns_max: Option<usize>,
    clamp: TailClamp,
    clamp_on: ClampOn,
    #[serde(flatten)]
    summary: SummaryOptions,
}

asks_for_a_summary!(PreserveRecentTurnsStrategy);

/// The last two turns, each within its clamp.
impl Default for PreserveRecentTurnsStrategy {
    fn default() -> Self {
        Self::new(2)
    }
}

impl PreserveRecentTurnsStrategy {
    /// Keeps the last `turns` turns, each within 25% of the usable context, 2,000 to 8,000 tokens.
    pub fn new(turns: usize) -> Self {
        Self {
            turns_max: Some(turns),
            clamp: TailClamp { percent: 25, tokens_min: Tokens(2_000), tokens_max: Tokens(8_000) },
            clamp_on: ClampOn::EachTurn,
            summary: SummaryOptions::default(),
        }
    }

    /// Keeps as many turns as fit together into 25% of the usable context, 2,000 to 15,000 tokens;
    /// the turn that does not fit is split.
    pub fn within_tail() -> Self {
        Self {
            turns_max: None,
            clamp: TailClamp { percent: 25, tokens_min: Tokens(2_000), tokens_max: Tokens(15_000) },
            clamp_on: ClampOn::WholeTail,
            summary: SummaryOptions::default(),
        }
    }

    /// Another clamp.
    #[must_use]
    pub fn clamp(mut self, clamp: TailClamp) -> Self {
        self.clamp = clamp;
        self
    }

    /// Which positions of the newest turns stay.
    fn kept(&self, draft: &Draft<'_>, budget: Option<&Budget>) -> Vec<bool> {
        let mut kept = vec![false; draft.len()];
        let clamp = self.clamp.tokens(budget);
        let turns_max = self.turns_max.unwrap_or(usize::MAX);
        match self.clamp_on {
            ClampOn::EachTurn => {
                let mut turn_end = draft.len();
                for turn_start in draft.turn_starts().rev().take(turns_max) {
                    keep_newest_units(draft, turn_start..turn_end, clamp, &mut kept);
                    turn_end = turn_start;
                }
            }
            ClampOn::WholeTail => keep_tail(draft, turns_max, clamp, &mut kept),
        }
        kept
    }
}

/// Nothing for a summary: the next run may find it elsewhere, and must not split a turn because of
/// it (T7).
fn cost(draft: &Draft<'_>, position: usize) -> Tokens {
    match draft.view().get(position) {
        Some(entry) if entry.holds().contains(Holds::SUMMARY) => Tokens::ZERO,
        _ => draft.tokens_at(position),
    }
}

/// Marks the newest units that fit together. Turns are not asked for: where one is split, its user
/// item goes with its older units. The newest user item stays whatever happens, so its room is
/// taken first.
fn keep_tail(draft: &Draft<'_>, turns_max: usize, room: Tokens, kept: &mut [bool]) {
    let newest_user = draft.turn_starts().next_back();
    let first = match turns_max.checked_sub(1) {
        Some(older) => draft.turn_starts().rev().nth(older).unwrap_or(0),
        None => draft.len(),
    };
    let mut used = newest_user.map_or(Tokens::ZERO, |user| cost(draft, user));
    let mut unit_end = draft.len();
    while unit_end > first {
        let unit_start = draft.view().cut_at_or_before(unit_end - 1).max(first);
        let members = (unit_start..unit_end).filter(|&position| newest_user != Some(position));
        let unit_tokens: Tokens = members.map(|position| cost(draft, position)).sum();
        if unit_tokens > Tokens::ZERO && used + unit_tokens > room {
            return;
        }
        used += unit_tokens;
        kept[unit_start..unit_end].fill(true);
        unit_end = unit_start;
    }
}

/// Marks the user item of a turn and as many of its newest units as fit.
fn keep_newest_units(draft: &Draft<'_>, turn: Range<usize>, room: Tokens, kept: &mut [bool]) {
    kept[turn.start] = true;
    let mut used = cost(draft, turn.start);
    let mut unit_end = turn.end;
    while unit_end > turn.start + 1 {
        let unit_start = draft.view().cut_at_or_before(unit_end - 1).max(turn.start + 1);
        let unit_tokens: Tokens = (unit_start..unit_end).map(|position| cost(draft, position)).sum();
        if unit_tokens > Tokens::ZERO && used + unit_tokens > room {
            return;
        }
        used += unit_tokens;
        kept[unit_start..unit_end].fill(true);
        unit_end = unit_start;
    }
}

impl Strategy for PreserveRecentTurnsStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        let kept = self.kept(draft, budget);
        let sets_the_scene = scene(draft);
        let reason = Reason::new(ID, "before the turns that are kept");
        let keep = |position: usize, kind: ItemKind| kept[position] || sets_the_scene(position, kind);
        draft.fold_as_asked(0..draft.len(), keep, self.summary.spec(), reason);
    }

    fn wants_backend(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        match self.turns_max {
            Some(turns) => format!("{ID}({turns})"),
            None => format!("{ID}(≤ {} tokens)", self.clamp.tokens_max),
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
    use serde_json::json;

    fn turn(transcript: &mut Transcript, name: &str, rounds: usize) {
        transcript.push(Item::user(format!("u-{name}"), "please work on it"));
        for number in 0..rounds {
            let call = format!("c-{name}-{number}");
            let input = json!({"n": number});
            transcript.push(Item::assistant(
                format!("a-{name}-{number}"),
                vec![Part::call(call.clone(), "run", &input)],
            ));
            transcript.push(Item::tool(
                format!("t-{name}-{number}"),
                ToolResult::text(call, "output\n".repeat(300)),
            ));
        }
        transcript.push(Item::assistant(format!("end-{name}"), vec![Part::text("done")]));
    }

    fn ids(view: &View) -> Vec<&str> {
        view.items().filter(|item| item.summary.is_none()).map(|item| item.id.as_str()).collect()
    }

    #[test]
    fn a_turn_over_its_clamp_keeps_its_prompt_and_its_newest_units() {
        let mut transcript = Transcript::default();
        turn(&mut transcript, "old", 3);
        turn(&mut transcript, "long", 60);
        turn(&mut transcript, "new", 1);
        let compacted =
            plan(&View::of(&transcript), &PreserveRecentTurnsStrategy::new(2), None).unwrap().apply_floor();
        let ids = ids(&compacted.view);
        assert_eq!(ids[0], "u-long");
        assert_eq!(ids[ids.len() - 4..], ["u-new", "a-new-0", "t-new-0", "end-new"]);
        assert!(ids.contains(&"a-long-59") && !ids.contains(&"a-long-0"), "{ids:?}");
    }

    #[test]
    fn the_tail_variant_stops_at_the_turn_it_has_to_split() {
        let mut transcript = Transcript::default();
        (0..20).for_each(|number| turn(&mut transcript, &number.to_string(), 4));
        let compacted = plan(&View::of(&transcript), &PreserveRecentTurnsStrategy::within_tail(), None)
            .unwrap()
            .apply_floor();
        let tail: Tokens =
            compacted.view.iter().filter(|e| e.item().summary.is_none()).map(|e| e.tokens().total).sum();
        assert!(tail <= Tokens(15_000) && tail > Tokens(10_000), "{tail}");
    }

    #[test]
    fn a_summary_after_a_prompt_that_does_not_fit_splits_no_turn() {
        let mut transcript = Transcript::default();
        turn(&mut transcript, "old", 3);
        transcript.push(Item::user("u-new", "a long prompt ".repeat(100)));
        let tight = TailClamp::new(25, Tokens(0), Tokens(0)).unwrap();
        let pipeline = super::super::StrategyPipeline::new()
            .with_strategy(super::super::PreserveUserMessagesStrategy::new())
            .with_strategy(PreserveRecentTurnsStrategy::within_tail().clamp(tight));
        let compacted = plan(&View::of(&transcript), &pipeline, None).unwrap().apply_floor();
        assert_eq!(ids(&compacted.view), ["u-old", "u-new"]);
        assert!(plan(&compacted.view, &pipeline, None).unwrap().is_empty(), "nothing was pushed (T7)");
    }

    #[test]
    fn contradicting_bounds_are_errors() {
        assert!(TailClamp::new(101, Tokens(1), Tokens(2)).is_err());
        assert!(TailClamp::new(10, Tokens(3), Tokens(2)).is_err());
    }
}
