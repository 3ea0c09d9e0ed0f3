//! Best of several: answers are scored by what they tell of what the folded items told.

use foldback_core::{Fact, FactKind, Ledger, Metadata, Tokens};
use serde_json::{Value, json};

use super::demands::Demands;

/// Summaries that are asked for where one is needed, at most.
pub(super) const CANDIDATES_MAX: usize = 16;

/// What a summary is scored against.
#[derive(Debug)]
pub(super) struct Scale<'s> {
    ledger: &'s Ledger,
    demands: &'s Demands,
    /// How many facts hold, and what they weigh together.
    pub(super) fact_count: usize,
    weight: f64,
}

/// What a text tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// The share of the facts that it tells, by weight, and the share of the demands: up to two.
    pub(super) score: f64,
    /// How many facts it tells.
    pub(super) told_count: usize,
}

impl<'s> Scale<'s> {
    pub(super) fn new(ledger: &'s Ledger, demands: &'s Demands) -> Self {
        let current = ledger.facts().iter().filter(|fact| fact.is_current());
        let (fact_count, weight) = weigh(current);
        Self { ledger, demands, fact_count, weight }
    }

    pub(super) fn score(&self, text: &str) -> Score {
        let (told_count, told) = weigh(self.ledger.told_in(text).filter(|fact| fact.is_current()));
        let demanded = self.demands.count();
        let met = demanded - self.demands.missing_in(text).count();
        Score { score: share(told, self.weight) + share(met as f64, demanded as f64), told_count }
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 1.0 }
}

fn weigh<'f>(facts: impl Iterator<Item = &'f Fact>) -> (usize, f64) {
    facts.fold((0, 0.0), |(count, sum), fact| (count + 1, sum + weight(fact.kind)))
}

/// What it is worth to have a fact of a kind: what nobody can look up weighs most.
fn weight(kind: FactKind) -> f64 {
    match kind {
        FactKind::Constraint => 4.0,
        FactKind::Decision | FactKind::Error | FactKind::Todo | FactKind::Question | FactKind::Job => 3.0,
        FactKind::Path | FactKind::Command | FactKind::TestResult => 2.0,
        _ => 1.0,
    }
}

/// An answer that can be taken.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// What it says, a text for each item.
    pub(super) texts: Vec<String>,
    pub(super) score: f64,
    pub(super) tokens: Tokens,
    /// What the call cost, where prices are known.
    pub(super) dollars: Option<f64>,
    /// What the backend has to say about it.
    pub(super) metadata: Metadata,
}

impl Candidate {
    /// For the metadata of the compaction.
    pub(super) fn report(&self) -> Value {
        json!({ "score": self.score, "tokens": self.tokens.0, "dollars": self.dollars })
    }
}

/// Indices, the one that tells most first; of equals the shorter one, then the earlier one.
pub(super) fn best_first(candidates: &[Candidate]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|&a, &b| {
        let (a, b) = (&candidates[a], &candidates[b]);
        b.score.total_cmp(&a.score).then(a.tokens.cmp(&b.tokens))
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::Item;

    fn candidate(score: f64, tokens: u64) -> Candidate {
        Candidate {
            texts: Vec::new(),
            score,
            tokens: Tokens(tokens),
            dollars: None,
            metadata: Metadata::new(),
        }
    }

    #[test]
    fn of_equals_the_shorter_and_then_the_first_is_taken() {
        assert_eq!(best_first(&[candidate(0.5, 1), candidate(0.7, 9)]), [1, 0]);
        assert_eq!(best_first(&[candidate(0.7, 9), candidate(0.7, 3), candidate(0.7, 3)]), [1, 2, 0]);
    }

    #[test]
    fn a_text_that_tells_more_scores_higher() {
        let mut ledger = Ledger::new();
        ledger.push(0, &Item::user("u", "Never touch src/lexer.rs. Fix parse_rule() in src/parser.rs."));
        let demands = Demands { rules: vec!["Never touch src/lexer.rs.".into()], ..Demands::default() };
        let scale = Scale::new(&ledger, &demands);
        let scores: Vec<f64> = [
            "The user wants the parser fixed.",
            "The user wants src/parser.rs fixed.",
            "Never touch src/lexer.rs. The user wants src/parser.rs fixed.",
        ]
        .map(|text| scale.score(text).score)
        .to_vec();
        assert!(scores.is_sorted() && scores[0] < scores[1] && scores[1] < scores[2], "{scores:?}");
    }
}
