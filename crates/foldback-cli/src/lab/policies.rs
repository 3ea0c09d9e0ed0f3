//! The policies that can be replayed, by name: the one place that makes them.

use std::sync::Arc;

use foldback_core::{
    Budget, BudgetError, BudgetTrigger, ClearToolResultsStrategy, CompactionPipeline, DefaultCompaction,
    DropFailedToolResultsStrategy, DropReasoningStrategy, ItemCountTrigger, LadderStrategy, Level,
    PreserveRecentFractionStrategy, PreserveRecentTurnsStrategy, PreserveUserMessagesStrategy, Strategy,
    SummarizeOlderStrategy, Tokens, Trigger,
};
use foldback_engine::replay::{EqualTokensStrategy, ReplayPolicy, Sizing, Writer};

use crate::failure::Failure;
use crate::values::no_such;

/// Stands for every policy.
const ALL: &str = "all";

/// The names, in the order of tables.
pub(crate) const NAMES: &[&str] =
    &["ladder", "agentkit", "phi", "codex", "gemini", "opencode", "anthropic-edit", "truncate"];

/// Items after which the `agentkit` preset compacts, and what it keeps of them.
const AGENTKIT_ITEMS: (usize, usize) = (12, 8);

/// Tokens at which the `anthropic-edit` preset clears, and the results that it keeps.
const ANTHROPIC_EDIT: (Tokens, usize) = (Tokens(100_000), 3);

/// The newest share of a session that the `gemini` preset keeps.
const GEMINI_FRACTION: f64 = 0.3;

/// The longest answer that the `opencode` preset leaves room for.
const OPENCODE_OUTPUT_MAX: Tokens = Tokens(32_000);

/// The policies that `names` stand for, at a window; each once. Of all, those that the window has room
/// for.
pub(crate) fn named(names: &[String], window: Tokens) -> Result<Vec<ReplayPolicy>, Failure> {
    let mut policies: Vec<ReplayPolicy> = Vec::new();
    for name in names {
        let made = match name == ALL {
            true => NAMES.iter().filter_map(|name| make(name, window).ok()).collect(),
            false => vec![one(name, window)?],
        };
        for policy in made {
            if policies.iter().all(|earlier| earlier.name != policy.name) {
                policies.push(policy);
            }
        }
    }
    Ok(policies)
}

/// The policy called `name`, at a window.
pub(crate) fn one(name: &str, window: Tokens) -> Result<ReplayPolicy, Failure> {
    if !NAMES.contains(&name) {
        let what = format!("{name}: {}", no_such("policy", name, NAMES.iter().copied()));
        return Err(Failure::usage(what, "see `foldback replay --help`"));
    }
    make(name, window).map_err(|error| {
        Failure::usage(format!("a window of {window} tokens: {error}"), "give a larger --window")
    })
}

fn make(name: &str, window: Tokens) -> Result<ReplayPolicy, BudgetError> {
    let at = |percent| Budget::builder(window).trigger(Level::PercentOfWindow(percent)).build();
    let (budget, strategy, sizing): (Budget, Arc<dyn Strategy>, Sizing) = match name {
        "agentkit" => {
            let pipeline = CompactionPipeline::new()
                .with_strategy(DropReasoningStrategy::new())
                .with_strategy(DropFailedToolResultsStrategy::new())
                .with_strategy(SummarizeOlderStrategy::new(AGENTKIT_ITEMS.1));
            (at(100.0)?, Arc::new(pipeline), Sizing::EqualTokens)
        }
        "phi" => {
            let budget = Budget::with_compact_at(window, Tokens::ZERO, 0.90, 0.05)?.build()?;
            (budget, Arc::new(DefaultCompaction::new()), Sizing::EqualTokens)
        }
        "codex" => (at(90.0)?, Arc::new(PreserveUserMessagesStrategy::new()), Sizing::EqualTokens),
        "gemini" => {
            let tail = PreserveRecentFractionStrategy::new(GEMINI_FRACTION).expect("a share of one");
            (at(50.0)?, Arc::new(tail), Sizing::EqualTokens)
        }
        "opencode" => {
            let budget = Budget::with_input_limit(window, OPENCODE_OUTPUT_MAX).build()?;
            (budget, Arc::new(PreserveRecentTurnsStrategy::within_tail()), Sizing::EqualTokens)
        }
        "anthropic-edit" => {
            let budget = Budget::builder(window).trigger(ANTHROPIC_EDIT.0.min(window)).build()?;
            (budget, Arc::new(ClearToolResultsStrategy::new(ANTHROPIC_EDIT.1)), Sizing::EqualTokens)
        }
        "truncate" => {
            let budget = at(100.0)?;
            let newest = EqualTokensStrategy::new(Arc::new(CompactionPipeline::new()), budget);
            (budget, Arc::new(newest), Sizing::Target)
        }
        _ => (Budget::builder(window).build()?, Arc::new(LadderStrategy::new()), Sizing::Target),
    };
    let trigger: Arc<dyn Trigger> = match name {
        "agentkit" => Arc::new(ItemCountTrigger::new(AGENTKIT_ITEMS.0)),
        _ => Arc::new(BudgetTrigger::new(&budget)),
    };
    let writer = match sizing {
        Sizing::Target => Writer::Digest,
        Sizing::EqualTokens => Writer::Model,
    };
    Ok(ReplayPolicy { name: name.to_owned(), trigger, strategy, budget, sizing, writer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_can_be_made_and_a_mistyped_one_is_told_the_others() {
        let count = |window| {
            let all = named(&["ladder".to_owned(), ALL.to_owned()], Tokens(window));
            all.map_or(0, |policies| policies.len())
        };
        assert_eq!(count(32_000), NAMES.len());
        assert_eq!(count(8_000), NAMES.len() - 1, "one of them reserves more than that for an answer");
        let Err(Failure::Usage { what, .. }) = one("laddr", Tokens(32_000)) else { panic!("it is known") };
        assert!(what.contains("did you mean ladder?") && what.contains("truncate"), "{what}");
    }
}
