//! What a context costs now: real usage from the newest response, and counts for what came after it.

use crate::ids::Tokens;
use crate::item::{Item, Usage};
use crate::sequence::Sequence;
use crate::tokens::{Calibration, ItemTokens, Precision, TokenBounds};

/// The newest report that still describes the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UsageReport {
    item_index: usize,
    usage: Usage,
}

/// Real usage from the last response, plus estimates for what came after.
#[derive(Clone, Debug, Default)]
pub struct ContextTracker {
    calibration: Calibration,
    newest: Option<UsageReport>,
    seen_count: usize,
    counted: Tokens,
}

impl ContextTracker {
    /// Tracks counts of this precision.
    pub fn new(precision: Precision) -> Self {
        Self::with_calibration(Calibration::new(precision))
    }

    /// Tracks with what has been learned before.
    pub fn with_calibration(calibration: Calibration) -> Self {
        Self { calibration, newest: None, seen_count: 0, counted: Tokens::ZERO }
    }

    /// Looks at the items pushed since the last look. O(those items).
    pub fn observe(&mut self, sequence: &Sequence) {
        for index in self.seen_count..sequence.len() {
            let Some(entry) = sequence.get(index) else { return };
            self.on_push(index, entry.item(), entry.tokens());
        }
    }

    /// Takes note of one item, in order. O(1).
    pub fn on_push(&mut self, index: usize, item: &Item, tokens: &ItemTokens) {
        if let Some(usage) = item.usage.filter(|usage| usage.prompt_tokens() > Tokens::ZERO) {
            self.calibration.observe(self.counted, &usage);
            self.newest = Some(UsageReport { item_index: index, usage });
        }
        self.seen_count = index + 1;
        self.counted += tokens.total;
    }

    /// Starts over on the view that a compaction left: what its items reported was the cost of a
    /// prefix that is gone. What was learned stays.
    pub fn reset(&mut self, sequence: &Sequence) {
        self.changed_from(0, sequence);
    }

    /// Goes on with a view of which nothing is another before the item at `first_changed`: a report of an
    /// item before it still says what the context cost up to there.
    pub fn changed_from(&mut self, first_changed: usize, sequence: &Sequence) {
        self.newest = self.newest.filter(|report| report.item_index < first_changed);
        self.seen_count = sequence.len();
        self.counted = sequence.tokens();
    }

    /// What the whole context costs: everything reported, cached and output tokens included, and
    /// what was counted after it. O(1).
    pub fn bounds(&self, sequence: &Sequence) -> TokenBounds {
        match self.newest {
            Some(report) if report.item_index < sequence.len() => {
                let after = sequence.tokens_of(report.item_index + 1..sequence.len());
                TokenBounds::exact(report.usage.context_tokens()) + self.calibration.added(after)
            }
            _ => self.calibration.bounds(sequence.tokens()),
        }
    }

    /// The newest report that still describes the context.
    pub fn reported(&self) -> Option<Usage> {
        self.newest.map(|report| report.usage)
    }

    /// What has been learned.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Transcript;

    fn usage(fresh: u64, cached: u64, output: u64) -> Usage {
        Usage {
            input_tokens: Tokens(fresh),
            cached_tokens: Tokens(cached),
            output_tokens: Tokens(output),
            ..Usage::default()
        }
    }

    #[test]
    fn the_tracker_adds_what_came_after_the_report() {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("1", "fix the bug ".repeat(200)));
        transcript.push(Item::assistant("2", vec![]).with_usage(usage(2_000, 90_000, 300)));
        let mut tracker = ContextTracker::new(transcript.meter().counter().precision());
        tracker.observe(&transcript);
        assert_eq!(tracker.bounds(&transcript), TokenBounds::exact(Tokens(92_300)));
        transcript.push(Item::user("3", "and now the other one ".repeat(50)));
        tracker.observe(&transcript);
        let added = transcript.tokens_of(2..3);
        assert!(tracker.bounds(&transcript).estimate > Tokens(92_300) + Tokens(added.0 / 2));
        assert!(tracker.bounds(&transcript).upper >= Tokens(92_300) + added);
    }

    #[test]
    fn a_report_outlives_changes_of_what_came_after_it() {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("1", "fix the bug"));
        transcript.push(Item::assistant("2", vec![]).with_usage(usage(2_000, 0, 300)));
        transcript.push(Item::user("3", "and now the other one ".repeat(500)));
        let mut tracker = ContextTracker::new(Precision::Exact);
        tracker.observe(&transcript);
        let mut view: Transcript = transcript.items().take(2).cloned().collect();
        view.push(Item::user("3", "and now"));
        tracker.changed_from(2, &view);
        assert_eq!(tracker.reported(), Some(usage(2_000, 0, 300)));
        assert!(tracker.bounds(&view).estimate < Tokens(2_350), "{:?}", tracker.bounds(&view));
        tracker.changed_from(1, &view);
        assert_eq!(tracker.reported(), None);
    }

    #[test]
    fn after_a_compaction_old_reports_are_forgotten_and_ratios_are_not() {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("1", "fix the bug ".repeat(2_000)));
        let counted = transcript.tokens();
        transcript.push(Item::assistant("2", vec![]).with_usage(usage(counted.0 * 3 / 2, 0, 300)));
        let mut tracker = ContextTracker::new(Precision::Exact);
        tracker.observe(&transcript);
        let mut view = Transcript::default();
        view.push(Item::user("1", "fix the bug"));
        view.extend(transcript.items().skip(1).cloned());
        tracker.reset(&view);
        tracker.observe(&view);
        assert_eq!(tracker.reported(), None);
        assert_eq!(tracker.bounds(&view).estimate, view.tokens().scaled_up(1.5));
        view.push(Item::assistant("3", vec![]).with_usage(usage(500, 0, 20)));
        tracker.observe(&view);
        assert_eq!(tracker.bounds(&view), TokenBounds::exact(Tokens(520)));
    }
}
