//! A summary and the newest units, for hosts that can show nothing between the two.

use super::{SUMMARY_TOKENS_DEFAULT, Strategy};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::{Reason, SummarySpec};
use crate::ids::{Text, Tokens};

const ID: &str = "summary-and-tail";

/// Folds everything but leading instructions and the newest units that fit, however little the user said
/// since: the newest user item too, where it stands before the tail.
///
/// For agents whose own record of a compaction is a summary and the place where the tail begins. Whoever
/// uses it tells the newest user item beside the summary ([`with_standing`](crate::with_standing)), which is
/// why no configuration names this strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryAndTailStrategy {
    tail: Tail,
    summary_tokens_max: Tokens,
    focus: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// The newest units within so many tokens, and the newest one however large it is.
    Within(Tokens),
    /// Nothing but what is in flight.
    Nothing,
}

impl SummaryAndTailStrategy {
    /// Keeps the newest units within `tail_tokens`, and the newest one however large it is.
    pub fn new(tail_tokens: Tokens) -> Self {
        Self { tail: Tail::Within(tail_tokens), summary_tokens_max: SUMMARY_TOKENS_DEFAULT, focus: None }
    }

    /// Keeps nothing but a unit in flight, for a host that puts what goes on behind the summary itself.
    pub fn without_tail() -> Self {
        Self { tail: Tail::Nothing, ..Self::new(Tokens::ZERO) }
    }

    /// Asks for a summary of at most this size.
    #[must_use]
    pub fn summary_tokens_max(mut self, tokens: Tokens) -> Self {
        self.summary_tokens_max = tokens;
        self
    }

    /// Asks the summary to attend to something.
    #[must_use]
    pub fn focus(mut self, focus: Option<Text>) -> Self {
        self.focus = focus;
        self
    }

    /// Where the tail starts.
    fn tail_start(&self, draft: &Draft<'_>) -> usize {
        let newest = match draft.unit_in_flight() {
            unit if unit.is_empty() => draft.len(),
            unit => unit.start,
        };
        let Tail::Within(mut room) = self.tail else { return newest };
        let mut start = newest;
        while start > 0 {
            let unit_start = draft.view().cut_at_or_before(start - 1);
            let unit_tokens: Tokens = (unit_start..start).map(|position| draft.tokens_at(position)).sum();
            if unit_tokens > room && start < draft.len() {
                break;
            }
            room = room.saturating_sub(unit_tokens);
            start = unit_start;
        }
        start
    }
}

impl Strategy for SummaryAndTailStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let is_leading = |(_, entry): &(usize, &crate::sequence::Entry)| entry.kind().is_instruction();
        let leading_count = draft.live().take_while(is_leading).count();
        let spec = SummarySpec::new(self.summary_tokens_max).with_focus(self.focus.clone());
        let reason = Reason::new(ID, "before the tail that is kept");
        let start = self.tail_start(draft);
        draft.release_newest_user();
        draft.fold_as_asked(leading_count.min(start)..start, |_, _| false, spec, reason);
    }

    fn describe(&self) -> String {
        match self.tail {
            Tail::Within(tokens) => format!("{ID}(≤ {tokens} tokens)"),
            Tail::Nothing => format!("{ID}(no tail)"),
        }
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

    /// One prompt and a long tool loop.
    fn one_prompt(rounds: usize) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::text("s", ItemKind::System, "Be brief."));
        transcript.push(Item::user("u", "Build it. Never touch main."));
        for round in 0..rounds {
            let call = Part::call(format!("c{round}"), "run", &json!({"round": round}));
            transcript.push(Item::assistant(format!("a{round}"), vec![call]));
            let output = ToolResult::text(format!("c{round}"), "some output\n".repeat(60));
            transcript.push(Item::tool(format!("t{round}"), output));
        }
        transcript
    }

    fn ids(view: &View) -> Vec<String> {
        let name = |item: &std::sync::Arc<Item>| match item.summary {
            Some(_) => "summary".to_owned(),
            None => item.id.to_string(),
        };
        view.items().map(name).collect()
    }

    #[test]
    fn nothing_stands_between_the_summary_and_the_tail() {
        let transcript = one_prompt(12);
        let strategy = SummaryAndTailStrategy::new(Tokens(500)).summary_tokens_max(Tokens(400));
        let view = plan(&View::of(&transcript), &strategy, None).unwrap().apply_digest().view;
        let shown = ids(&view);
        assert_eq!(shown[..2], ["s", "summary"], "{shown:?}");
        let tail: Vec<String> = ids(&View::of(&transcript)).split_off(26 - (shown.len() - 2));
        assert_eq!(shown[2..], tail);
        assert!(view.overlay().blocks()[0].folds().all(|(fold, _)| fold.holes.is_empty()));
        let again = plan(&view, &strategy, None).unwrap();
        assert!(again.edits().is_empty(), "T7");
    }

    #[test]
    fn without_a_tail_only_the_summary_is_left() {
        let mut transcript = one_prompt(6);
        transcript.push(Item::assistant("end", vec![Part::text("Done.")]));
        let strategy = SummaryAndTailStrategy::without_tail().summary_tokens_max(Tokens(200));
        let view = plan(&View::of(&transcript), &strategy, None).unwrap().apply_digest().view;
        assert_eq!(ids(&view), ["s", "summary"]);
    }

    #[test]
    fn the_newest_unit_stays_however_large_it_is() {
        let transcript = one_prompt(3);
        let strategy = SummaryAndTailStrategy::new(Tokens(1)).summary_tokens_max(Tokens(200));
        let view = plan(&View::of(&transcript), &strategy, None).unwrap().apply_digest().view;
        assert_eq!(ids(&view), ["s", "summary", "a2", "t2"]);
    }
}
