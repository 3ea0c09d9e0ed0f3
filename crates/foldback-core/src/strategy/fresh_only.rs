//! Lets a strategy see to fresh tool results and nothing else.

use super::Strategy;
use crate::budget::Budget;
use crate::draft::Draft;

/// What another strategy makes of tool results that no call has read yet.
///
/// Whatever else that strategy would edit stays as it is: nothing that stands in a prompt cache is
/// rewritten. That strategy must shorten results of the unit in flight, as
/// [`TruncateToolOutputsStrategy::shorten_fresh`] does.
///
/// [`TruncateToolOutputsStrategy::shorten_fresh`]: super::TruncateToolOutputsStrategy::shorten_fresh
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshOnlyStrategy<S> {
    strategy: S,
}

impl<S: Strategy> FreshOnlyStrategy<S> {
    /// Takes from `strategy` what it does to fresh tool results.
    pub fn new(strategy: S) -> Self {
        Self { strategy }
    }
}

impl<S: Strategy> Strategy for FreshOnlyStrategy<S> {
    fn id(&self) -> &'static str {
        self.strategy.id()
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        let unread = draft.view().unread();
        if unread.is_empty() {
            return;
        }
        let mut whole = Draft::new(draft.view());
        self.strategy.plan(&mut whole, budget);
        draft.shorten_as(&whole, unread);
    }

    fn needs_budget(&self) -> bool {
        self.strategy.needs_budget()
    }

    fn describe(&self) -> String {
        self.strategy.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Tokens;
    use crate::item::Item;
    use crate::part::{Part, ToolResult};
    use crate::strategy::{
        ClearToolResultsStrategy, DropReasoningStrategy, StrategyPipeline, TruncateToolOutputsStrategy, plan,
    };
    use crate::transcript::Transcript;
    use crate::view::View;
    use serde_json::json;

    fn push_round(transcript: &mut Transcript, number: usize, calls: usize) {
        let id = |call: usize| format!("c{number}-{call}");
        let parts = (0..calls).map(|call| Part::call(id(call), "read", &json!({})));
        let parts = [Part::reasoning("hm")].into_iter().chain(parts).collect();
        transcript.push(Item::assistant(format!("a{number}"), parts));
        for call in 0..calls {
            let output = ToolResult::text(id(call), "a line of what it says\n".repeat(500));
            transcript.push(Item::tool(format!("t{number}-{call}"), output));
        }
    }

    fn rounds(count: usize) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("u", "go"));
        (0..count).for_each(|number| push_round(&mut transcript, number, 2));
        transcript
    }

    fn edited(transcript: &Transcript, strategy: impl Strategy) -> Vec<usize> {
        let after = plan(&View::of(transcript), &strategy, None).unwrap().apply_floor().view;
        let entries = after.iter().zip(transcript.items());
        let changed = entries.enumerate().filter(|(_, (entry, item))| *entry.item() != **item);
        changed.map(|(position, _)| position).collect()
    }

    #[test]
    fn only_results_that_no_call_has_read_are_shortened() {
        let shorten = || TruncateToolOutputsStrategy::by_tokens(Tokens(60)).unwrap().shorten_fresh();
        let mut transcript = rounds(3);
        assert_eq!(edited(&transcript, shorten()), [2, 3, 5, 6, 8, 9]);
        assert_eq!(edited(&transcript, FreshOnlyStrategy::new(shorten())), [8, 9]);
        let more = StrategyPipeline::new()
            .with_strategy(DropReasoningStrategy::new())
            .with_strategy(ClearToolResultsStrategy::new(0))
            .with_strategy(shorten());
        assert_eq!(edited(&transcript, FreshOnlyStrategy::new(more)), [8, 9]);
        transcript.push(Item::user("more", "Go on."));
        assert_eq!(edited(&transcript, FreshOnlyStrategy::new(shorten())), [8, 9], "also behind a prompt");
        transcript.push(Item::assistant("end", vec![Part::text("read")]));
        assert!(edited(&transcript, FreshOnlyStrategy::new(shorten())).is_empty(), "all was read");
    }

    #[test]
    fn what_was_shortened_stays_as_it_is() {
        let fresh = || {
            FreshOnlyStrategy::new(
                TruncateToolOutputsStrategy::by_tokens(Tokens(60)).unwrap().shorten_fresh(),
            )
        };
        let first = plan(&View::of(&rounds(1)), &fresh(), None).unwrap().apply_floor().view;
        assert!(plan(&first, &fresh(), None).unwrap().is_empty());
    }
}
