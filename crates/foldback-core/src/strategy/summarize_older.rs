//! Folds everything but the newest items into a summary.

use serde::{Deserialize, Serialize};

use super::summary_options::{SummaryOptions, asks_for_a_summary};
use super::{Kinds, Strategy, newest_start, preserved};
use crate::budget::Budget;
use crate::draft::Draft;
use crate::edit::Reason;
use crate::item::ItemKind;

const ID: &str = "summarize-older";

/// Folds everything but the newest `keep_last` items into one summary, which stands where the first of
/// them stood or, if so asked, after the newest. Preserved kinds stay whatever their age and do not count.
/// Without anybody who writes summaries it is an error, also where nothing is older: a host learns it with the
/// first compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SummarizeOlderStrategy {
    #[serde(alias = "n")]
    keep_last: usize,
    #[serde(default)]
    preserve_kinds: Kinds,
    #[serde(flatten)]
    summary: SummaryOptions,
}

asks_for_a_summary!(SummarizeOlderStrategy);

impl SummarizeOlderStrategy {
    /// Keeps the newest `keep_last` items of any kind.
    pub fn new(keep_last: usize) -> Self {
        Self { keep_last, preserve_kinds: Kinds::new(), summary: SummaryOptions::default() }
    }

    /// Keeps every item of `kind` as well.
    #[must_use]
    pub fn preserve_kind(mut self, kind: ItemKind) -> Self {
        self.preserve_kinds.insert(kind);
        self
    }
}

impl Strategy for SummarizeOlderStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let start = newest_start(draft, self.keep_last, &self.preserve_kinds);
        let reason = Reason::new(ID, format!("older than the newest {} items", self.keep_last));
        let is_preserved = preserved(&self.preserve_kinds);
        draft.fold_as_asked(0..start, |_, kind| is_preserved(kind), self.summary.spec(), reason);
    }

    fn wants_backend(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("{ID}({})", self.keep_last)
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

    fn talk(transcript: &mut Transcript, count: usize) {
        for _ in 0..count {
            let number = transcript.len();
            let words = "a sentence that says something worth remembering; ".repeat(10);
            transcript.push(Item::user(format!("u{number}"), words.clone()));
            transcript.push(Item::assistant(format!("a{number}"), vec![Part::text(words)]));
        }
    }

    #[test]
    fn five_rounds_leave_one_summary_not_five() {
        let mut transcript = Transcript::default();
        let mut overlay = crate::block::Overlay::default();
        let strategy = SummarizeOlderStrategy::new(4);
        for _ in 0..5 {
            talk(&mut transcript, 10);
            let view = View::through(&transcript, &overlay).unwrap();
            let compacted = plan(&view, &strategy, None).unwrap().apply_floor();
            overlay = compacted.view.overlay().clone();
            let summaries = compacted.view.items().filter(|item| item.summary.is_some()).count();
            assert_eq!(summaries, 1);
            assert_eq!(compacted.view.len(), 5);
        }
        assert_eq!(overlay.blocks().len(), 5);
    }

    #[test]
    fn the_summary_stands_where_the_first_replaced_item_stood() {
        let mut transcript = Transcript::default();
        transcript.push(Item::text("s", ItemKind::System, "be kind"));
        talk(&mut transcript, 10);
        let strategy = SummarizeOlderStrategy::new(2).preserve_kind(ItemKind::System);
        let compacted = plan(&View::of(&transcript), &strategy, None).unwrap().apply_floor();
        let kinds: Vec<_> = compacted.view.items().map(|item| item.kind).collect();
        assert_eq!(kinds, [ItemKind::System, ItemKind::Context, ItemKind::User, ItemKind::Assistant]);
    }
}
