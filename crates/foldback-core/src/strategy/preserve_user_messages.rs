//! Keeps what the user said and folds the work.

use serde::{Deserialize, Serialize};

use super::summary_options::{SummaryOptions, asks_for_a_summary};
use super::{Strategy, scene};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::{Reason, SummaryPlacement};
use crate::ids::Tokens;
use crate::item::ItemKind;
use crate::part::Part;
use crate::placeholder::{HeadPercent, shorten_to_tokens};

const ID: &str = "preserve-user-messages";

/// Less room than this is not worth a cut message.
const CUT_TOKENS_MIN: u64 = 64;

/// Keeps user items, newest first, up to a number of tokens; the one that does not fit is cut in
/// its middle. Everything else is folded into a summary after the last of them.
///
/// For conversations where the prompts are the durable record and the work can be redone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreserveUserMessagesStrategy {
    tokens_max: Tokens,
    #[serde(flatten)]
    summary: SummaryOptions,
}

asks_for_a_summary!(PreserveUserMessagesStrategy);

impl Default for PreserveUserMessagesStrategy {
    fn default() -> Self {
        Self { tokens_max: Tokens(20_000), summary: SummaryOptions::default() }
    }
}

impl PreserveUserMessagesStrategy {
    /// Keeps up to 20,000 tokens of user items.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps up to this many tokens of user items.
    #[must_use]
    pub fn tokens_max(mut self, tokens: Tokens) -> Self {
        self.tokens_max = tokens;
        self
    }

    /// The oldest user item that is kept; cut to what room is left for it.
    fn oldest_kept(&self, draft: &mut Draft<'_>) -> usize {
        let mut room = self.tokens_max;
        let users: Vec<usize> =
            draft.live_rev().filter(|(_, entry)| entry.kind() == ItemKind::User).map(|(p, _)| p).collect();
        let mut oldest_kept = draft.len();
        for position in users {
            let is_too_large = draft.tokens_at(position) > room;
            if is_too_large && !cut_to(draft, position, room) {
                break;
            }
            room = room.saturating_sub(draft.tokens_at(position));
            oldest_kept = position;
            // A cut may leave a little room; it is not for a piece of the next message.
            if is_too_large {
                break;
            }
        }
        oldest_kept
    }
}

/// Cuts the one large text of an item so that the item costs at most `room`.
fn cut_to(draft: &mut Draft<'_>, position: usize, room: Tokens) -> bool {
    let largest = draft
        .parts(position)
        .filter_map(|(part_index, part)| match part {
            Part::Text(text) => Some((draft.part_tokens(position, part_index), part_index, text.clone())),
            _ => None,
        })
        .max_by_key(|&(tokens, part_index, _)| (tokens, std::cmp::Reverse(part_index)));
    let Some((text_tokens, part_index, text)) = largest else { return false };
    let others = draft.tokens_at(position).saturating_sub(Tokens(u64::from(text_tokens)));
    let text_room = room.saturating_sub(others);
    if text_room.0 < CUT_TOKENS_MIN {
        return false;
    }
    let handle = draft.part_handle(position, part_index);
    let shortened = shorten_to_tokens(&text, text_room, HeadPercent::HALF, &handle, draft.meter());
    let reason = Reason::new(ID, "the message that only fits in part");
    shortened.is_some_and(|text| draft.rewrite(position, part_index, Part::text(text), reason))
}

impl Strategy for PreserveUserMessagesStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let oldest_kept = self.oldest_kept(draft);
        let spec = self.summary.spec_placed(SummaryPlacement::AfterKept);
        let reason = Reason::new(ID, "not what the user said");
        let sets_the_scene = scene(draft);
        let keep = |position: usize, kind: ItemKind| {
            sets_the_scene(position, kind) || (kind == ItemKind::User && position >= oldest_kept)
        };
        draft.fold_as_asked(0..draft.len(), keep, spec, reason);
    }

    fn wants_backend(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("{ID}({})", self.tokens_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;
    use crate::strategy::plan;
    use crate::transcript::Transcript;
    use crate::view::View;

    fn conversation() -> Transcript {
        let mut transcript = Transcript::default();
        for number in 0..6 {
            transcript.push(Item::user(format!("u{number}"), format!("request {number} ").repeat(60)));
            let answer = Part::text(format!("answer {number} ").repeat(200));
            transcript.push(Item::assistant(format!("a{number}"), vec![answer]));
        }
        transcript
    }

    #[test]
    fn the_summary_follows_the_last_kept_user_message() {
        let transcript = conversation();
        let compacted =
            plan(&View::of(&transcript), &PreserveUserMessagesStrategy::new(), None).unwrap().apply_floor();
        let ids: Vec<_> = compacted.view.items().map(|item| item.id.as_str()).collect();
        assert_eq!(ids[..6], ["u0", "u1", "u2", "u3", "u4", "u5"]);
        assert!(compacted.view.get(6).unwrap().item().summary.is_some());
        assert_eq!(compacted.view.len(), 7);
    }

    fn order(view: &View) -> String {
        let label = |item: &Item| if item.summary.is_some() { "S".into() } else { item.id.to_string() };
        view.items().map(|item| label(item)).collect::<Vec<_>>().join(" ")
    }

    fn compacted(view: &View, strategy: &dyn Strategy) -> View {
        plan(view, strategy, None).unwrap().apply_floor().view
    }

    #[test]
    fn the_summary_follows_a_prompt_that_has_just_arrived() {
        let mut transcript = conversation();
        transcript.push(Item::user("u6", "and now?"));
        let strategy = PreserveUserMessagesStrategy::new();
        let first = compacted(&View::of(&transcript), &strategy);
        assert_eq!(order(&first), "u0 u1 u2 u3 u4 u5 u6 S");
        assert!(plan(&first, &strategy, None).unwrap().is_empty(), "nothing was pushed");
        transcript.push(Item::assistant("a6", vec![Part::text("working on it ".repeat(200))]));
        transcript.push(Item::user("u7", "thank you"));
        let grown = View::through(&transcript, first.overlay()).unwrap();
        assert_eq!(order(&grown), "u0 u1 u2 u3 u4 u5 u6 S a6 u7");
        assert_eq!(order(&compacted(&grown, &strategy)), "u0 u1 u2 u3 u4 u5 u6 u7 S");
    }

    #[test]
    fn the_summary_stands_between_the_newest_prompt_and_the_work_in_flight() {
        let mut transcript = conversation();
        transcript.push(Item::user("u6", "and now?"));
        transcript.push(Item::assistant("a6", vec![Part::call("c", "read", &serde_json::json!({}))]));
        let view = compacted(&View::of(&transcript), &PreserveUserMessagesStrategy::new());
        assert_eq!(order(&view), "u0 u1 u2 u3 u4 u5 u6 S a6");
        transcript.push(Item::tool("t6", crate::part::ToolResult::text("c", "output")));
        let grown = View::through(&transcript, view.overlay()).unwrap();
        assert_eq!(order(&grown), "u0 u1 u2 u3 u4 u5 u6 S a6 t6");
    }

    #[test]
    fn prompt_and_summary_can_go_one_without_the_other() {
        let mut transcript = conversation();
        transcript.push(Item::user("u6", "and now?"));
        let view = compacted(&View::of(&transcript), &PreserveUserMessagesStrategy::new());
        transcript.push(Item::assistant("a6", vec![Part::text("this")]));
        transcript.push(Item::user("u7", "thank you"));
        let grown = View::through(&transcript, view.overlay()).unwrap();
        let recent = super::super::KeepRecentStrategy::new(2);
        assert_eq!(order(&compacted(&grown, &recent)), "S a6 u7");
        let mut draft = Draft::new(&grown);
        draft.drop_summaries(Reason::new("test", "no room"));
        let without = draft.finish("test".into()).unwrap().apply_floor().view;
        assert_eq!(order(&without), "u0 u1 u2 u3 u4 u5 u6 a6 u7");
    }

    #[test]
    fn the_message_that_does_not_fit_is_cut_and_older_ones_are_folded() {
        let transcript = conversation();
        let one = transcript.get(0).unwrap().tokens().total;
        let strategy = PreserveUserMessagesStrategy::new().tokens_max(Tokens(one.0 * 2 + one.0 * 2 / 3));
        let compacted = plan(&View::of(&transcript), &strategy, None).unwrap().apply_floor();
        let ids: Vec<_> = compacted.view.items().map(|item| item.id.as_str()).collect();
        assert_eq!(ids[..3], ["u3", "u4", "u5"]);
        assert_ne!(compacted.view.get(0).unwrap().item(), transcript.get(6).unwrap().item());
        assert_eq!(compacted.view.get(1).unwrap().item(), transcript.get(8).unwrap().item());
    }
}
