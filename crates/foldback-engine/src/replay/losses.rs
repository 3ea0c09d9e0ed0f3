//! What a compaction did to the facts that the view told before it.

use std::collections::BTreeMap;

pub use foldback_core::ledger::Losses;
use foldback_core::{FactKind, Ledger, View};

/// What became of the facts that `before` told now that `after` is what the model sees, by kind.
/// Both are views of one transcript, of which `after` may have recorded more. Reads all of it: who
/// asks again and again keeps a [`Ledger`].
pub fn losses(before: &View, after: &View) -> BTreeMap<FactKind, Losses> {
    Ledger::of(after.transcript()).account(before, after).by_kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::{Item, KeepRecentStrategy, SummarizeOlderStrategy, Transcript, plan};

    #[test]
    fn what_is_folded_can_be_recalled_and_what_is_dropped_is_lost() {
        let words = "nothing to name here, only words; ".repeat(20);
        let items = ["src/old.rs", "src/new.rs"].map(|path| Item::user(path, format!("{path} {words}")));
        let transcript: Transcript = items.into_iter().collect();
        let view = View::of(&transcript);
        let of = |strategy: &dyn foldback_core::Strategy| {
            let after = plan(&view, strategy, None).expect("no budget is needed").apply_digest().view;
            losses(&view, &after)[&FactKind::Path]
        };
        let dropped = of(&KeepRecentStrategy::new(1));
        assert_eq!(dropped, Losses { kept: 1, recoverable: 0, lost: 1 });
        let folded = of(&SummarizeOlderStrategy::new(1).summary_tokens_max(foldback_core::Tokens(40)));
        assert_eq!((folded.lost, folded.kept + folded.recoverable), (0, 2));
    }
}
