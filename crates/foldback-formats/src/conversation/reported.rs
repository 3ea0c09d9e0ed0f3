//! What providers reported for the requests of a conversation, beside what is counted of each.

use std::ops::Range;

use foldback_core::{Reported, Tokens, Transcript, Usage};

use super::Conversation;

/// Views whose reports are looked at, the newest first.
const VIEW_COUNT_MAX: usize = 4;

/// The reports on one view: between two compactions, or after the last.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportsOnView {
    /// How many steps had been made by then.
    pub step_count: usize,
    /// Each request beside what its conversation counted, in order.
    pub requests: Vec<Reported>,
    /// The newest report, and the index of the item that answered.
    pub newest: (usize, Usage),
}

impl Conversation {
    /// What was reported on the newest views that anything was reported on, the newest first. A report
    /// is on the view that was in force when it was made: what a compaction keeps of older items says
    /// nothing of the view after it.
    pub fn reports(&self, transcript: &Transcript) -> Vec<ReportsOnView> {
        let mut end = transcript.len();
        let mut reports = Vec::new();
        for step_count in (0..=self.steps.len()).rev() {
            let start = step_count.checked_sub(1).map_or(0, |last| self.steps[last].item_count);
            reports.extend(self.reports_on(step_count, start..end, transcript));
            if reports.len() == VIEW_COUNT_MAX {
                break;
            }
            end = step_count.checked_sub(1).map_or(0, |last| self.steps[last].item_count_before());
        }
        reports
    }

    /// What was reported while the items of `range` were recorded, on the view after so many steps.
    fn reports_on(
        &self,
        step_count: usize,
        range: Range<usize>,
        transcript: &Transcript,
    ) -> Option<ReportsOnView> {
        let reported = |index: usize| {
            let usage = transcript.get(index)?.item().usage?;
            (usage.prompt_tokens() > Tokens::ZERO).then_some((index, usage))
        };
        let reports: Vec<(usize, Usage)> = range.filter_map(reported).collect();
        let newest = *reports.last()?;
        // What came after the step is seen as it is.
        let all = self.view_after(step_count, transcript).tokens();
        let request = |&(index, usage): &(usize, Usage)| Reported {
            counted: all.saturating_sub(transcript.tokens_of(index..transcript.len())),
            reported: usage.prompt_tokens(),
        };
        Some(ReportsOnView { step_count, requests: reports.iter().map(request).collect(), newest })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use foldback_core::{EstimatingCounter, Item, Part};

    use super::*;
    use crate::conversation::{FilePlace, Made, Seen, Shown};

    fn answer(id: &str, reported: u64) -> Item {
        let usage = Usage { input_tokens: Tokens(reported), ..Usage::default() };
        Item::assistant(id, vec![Part::Text("done".into())]).with_usage(usage)
    }

    fn push(conversation: &mut Conversation, items: Vec<Item>) {
        for item in items {
            let line = conversation.len() + 1;
            conversation.push(item, FilePlace::line(line));
        }
    }

    #[test]
    fn a_report_counts_for_the_view_that_it_was_made_on() {
        let mut conversation = Conversation::new();
        let long = "a long story of what is to be done ".repeat(100);
        push(&mut conversation, vec![Item::user("1", &*long), answer("2", 5_000), Item::user("3", "go on")]);
        push(&mut conversation, vec![answer("4", 5_100)]);
        let made = Made::by("an agent", FilePlace::line(5));
        // What is kept was reported on before.
        let kept = (2..4).map(|index| Shown::Kept(Seen::Item(index)));
        let summary = Shown::New(Item::user("s", "in short"));
        conversation.replace(&made, std::iter::once(summary).chain(kept));
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), None);
        let before = conversation.reports(&transcript);
        assert_eq!(before.iter().map(|view| view.step_count).collect::<Vec<_>>(), [0]);
        assert_eq!(before[0].requests[1].counted, transcript.tokens_of(0..3));
        assert_eq!(before[0].requests[1].reported, Tokens(5_100));

        push(&mut conversation, vec![Item::user("5", "more"), answer("6", 900)]);
        let transcript = conversation.transcript(Arc::new(EstimatingCounter), None);
        let after = conversation.reports(&transcript);
        assert_eq!(after.iter().map(|view| view.step_count).collect::<Vec<_>>(), [1, 0]);
        let (newest, _) = after[0].newest;
        let view = conversation.view_of(&transcript.first(newest));
        assert_eq!(after[0].requests, [Reported { counted: view.tokens(), reported: Tokens(900) }]);
        assert_eq!(after[1], before[0]);
    }
}
