//! Names as the ledger keeps them: those that [`scan`] finds, with the unit that stands beside a
//! number, and paths without what changes nothing about where they lead.

use std::ops::Range;

use super::FactKind;
use super::scan::{Found, scan, unit_beside};

/// Calls `found` for every name in a text, in order.
pub(crate) fn names(text: &str, mut found: impl FnMut(FactKind, Range<usize>)) {
    scan(text, |Found { kind, mut span }| {
        match kind {
            FactKind::Number => span.end = unit_beside(text, span.end).unwrap_or(span.end),
            FactKind::Path => {
                let path = &text[span.clone()];
                span.start += path.len() - path.trim_start_matches("./").len();
            }
            FactKind::Command
            | FactKind::TestResult
            | FactKind::Error
            | FactKind::Identifier
            | FactKind::Url
            | FactKind::Hash
            | FactKind::Constraint
            | FactKind::Decision
            | FactKind::Todo
            | FactKind::Question
            | FactKind::Job => {}
        }
        if !span.is_empty() {
            found(kind, span);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_unit_with_it_and_a_path_no_idle_start() {
        let text = "It took 340 ms for ./src/a.rs, 1200 times, 99% of 512 MB.";
        let mut all = Vec::new();
        names(text, |_, span| all.push(&text[span]));
        assert_eq!(all, ["340 ms", "src/a.rs", "1200", "99%", "512 MB"]);
    }
}
