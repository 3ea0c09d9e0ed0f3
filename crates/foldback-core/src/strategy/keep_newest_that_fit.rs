//! Keeps the newest items that fit and drops the rest.

use serde::{Deserialize, Serialize};

use super::{Strategy, tail_start};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::ids::Tokens;
use crate::item::ItemKind;

const ID: &str = "keep-newest-that-fit";

/// Openers that are tried: each may cost more room than the one before it left.
const OPENER_ROUNDS_MAX: usize = 4;

/// Keeps instructions and the newest items that fit the target; everything older is dropped without
/// a summary. Where that would begin with an assistant item, the nearest earlier user item is kept
/// too, because providers want one first.
///
/// What a person would write first. It makes no promise beyond the target: the task, rules and
/// decisions go with their age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeepNewestThatFitStrategy {}

/// What stays: everything from a position on, and perhaps one item before it.
#[derive(Clone, Copy)]
struct Tail {
    start: usize,
    opener: Option<usize>,
}

impl KeepNewestThatFitStrategy {
    /// Keeps what fits.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The longest tail that fits into `room`, with the item that has to open it.
fn longest_tail(draft: &Draft<'_>, hideable: &[usize], room: Tokens) -> Tail {
    let mut tail = Tail { start: tail_start(draft, hideable, room), opener: None };
    for _ in 0..OPENER_ROUNDS_MAX {
        let opener = missing_opener(draft, hideable, tail.start);
        if opener == tail.opener {
            return tail;
        }
        let cost = opener.map_or(Tokens::ZERO, |position| draft.tokens_at(position));
        if cost > room {
            break;
        }
        tail = Tail { start: tail_start(draft, hideable, room.saturating_sub(cost)), opener };
    }
    // No earlier user item leaves room for the tail it would open: the tail begins at a later one.
    let next_user = draft.turn_starts().find(|&user| user >= tail.start);
    Tail { start: next_user.unwrap_or(tail.start), opener: None }
}

/// The nearest earlier user item, where the tail from `start` on begins with somebody else.
fn missing_opener(draft: &Draft<'_>, hideable: &[usize], start: usize) -> Option<usize> {
    let is_hidden = |position: usize| position < start && hideable.binary_search(&position).is_ok();
    let mut spoken = draft.live().filter(|&(position, entry)| {
        !entry.kind().is_instruction() && !is_hidden(position) && draft.tokens_at(position) > Tokens::ZERO
    });
    let (first, entry) = spoken.next()?;
    if entry.kind().has_user_authority() {
        return None;
    }
    draft.turn_starts().rev().find(|&user| user < first && draft.tokens_at(user) > Tokens::ZERO)
}

impl Strategy for KeepNewestThatFitStrategy {
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
        let hideable = draft.hideable(0..draft.len(), |_, kind| kind.is_instruction());
        let droppable: Tokens = hideable.iter().map(|&position| draft.tokens_at(position)).sum();
        let room = target.saturating_sub(draft.tokens().saturating_sub(droppable));
        let Tail { start, opener } = longest_tail(draft, &hideable, room);
        let keep = |position: usize, kind: ItemKind| kind.is_instruction() || opener == Some(position);
        draft.drop_units(0..start, keep, Reason::new(ID, "older than what fits"));
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
            let call = Part::call(format!("c-{name}-{number}"), "run", &json!({"n": number}));
            transcript.push(Item::assistant(format!("a-{name}-{number}"), vec![call]));
            let output = ToolResult::text(format!("c-{name}-{number}"), "output\n".repeat(50));
            transcript.push(Item::tool(format!("t-{name}-{number}"), output));
        }
        transcript.push(Item::assistant(format!("end-{name}"), vec![Part::text("done")]));
    }

    fn kept(transcript: &Transcript, target: u64) -> Vec<String> {
        let budget = Budget::for_target(Tokens(target)).unwrap();
        let strategy = KeepNewestThatFitStrategy::new();
        let view = plan(&View::of(transcript), &strategy, Some(&budget)).unwrap().apply_floor().view;
        assert!(view.tokens() <= Tokens(target), "{}", view.shape());
        assert!(plan(&view, &strategy, Some(&budget)).unwrap().is_empty(), "nothing was pushed");
        view.items().map(|item| item.id.to_string()).collect()
    }

    #[test]
    fn the_newest_items_stay_with_the_instructions() {
        let mut transcript = Transcript::default();
        transcript.push(Item::text("system", ItemKind::System, "You are careful."));
        for name in ["one", "two", "three"] {
            turn(&mut transcript, name, 1);
        }
        let last_turn = transcript.tokens_of(9..13).0;
        let system = transcript.tokens_of(0..1).0;
        let expected = ["system", "u-three", "a-three-0", "t-three-0", "end-three"];
        assert_eq!(kept(&transcript, system + last_turn), expected);
        assert_eq!(kept(&transcript, transcript.tokens().0).len(), 13);
    }

    #[test]
    fn a_tail_inside_a_turn_keeps_the_prompt_that_opened_it() {
        let mut transcript = Transcript::default();
        turn(&mut transcript, "one", 1);
        turn(&mut transcript, "long", 9);
        transcript.push(Item::user("next", "and now?"));
        let kept = kept(&transcript, transcript.tokens().0 / 2);
        assert_eq!(kept.first().map(String::as_str), Some("u-long"));
        assert_eq!(kept[kept.len() - 3..], ["t-long-8", "end-long", "next"]);
    }

    #[test]
    fn an_opener_too_large_to_keep_gives_way_to_a_later_one() {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("huge", "word ".repeat(5_000)));
        transcript.push(Item::assistant("answer", vec![Part::text("an answer ".repeat(30))]));
        transcript.push(Item::user("next", "and now?"));
        transcript.push(Item::assistant("end", vec![Part::text("this")]));
        assert_eq!(kept(&transcript, 500), ["next", "end"]);
    }
}
