//! Random strategies and pipelines, every built-in one among them.

use foldback_core::strategy::TailClamp;
use foldback_core::*;
use proptest::prelude::{Just, Strategy as Generator, any, prop, prop_oneof};

fn kinds() -> impl Generator<Value = Vec<ItemKind>> {
    prop::collection::vec(prop::sample::select(ItemKind::ALL.to_vec()), 0..3)
}

/// Where a summary may stand.
pub fn placement() -> impl Generator<Value = SummaryPlacement> {
    use SummaryPlacement::{AfterKept, AfterTail, BeforeKept};
    prop::sample::select(vec![BeforeKept, AfterKept, AfterTail])
}

fn placed(steps: impl Generator<Value = StrategyConfig>) -> impl Generator<Value = StrategyConfig> {
    (steps, prop::option::of(placement())).prop_map(|(step, placement)| match placement {
        Some(placement) => step.with_summary_placement(placement),
        None => step,
    })
}

/// One random strategy.
pub fn strategy() -> impl Generator<Value = StrategyConfig> {
    placed(one())
}

fn one() -> impl Generator<Value = StrategyConfig> {
    let structural = prop_oneof![
        any::<bool>().prop_map(|drop| DropReasoningStrategy::new().drop_empty_items(drop).into()),
        (any::<bool>(), any::<bool>()).prop_map(|(drop, keep)| {
            let strategy = DropFailedToolResultsStrategy::new().drop_empty_items(drop);
            if keep { strategy.keep_newest_failure().into() } else { strategy.into() }
        }),
        (0usize..12, kinds()).prop_map(|(n, kinds)| {
            kinds.into_iter().fold(KeepRecentStrategy::new(n), KeepRecentStrategy::preserve_kind).into()
        }),
        (0usize..6, 0usize..6).prop_map(|(first, recent)| DropMiddleStrategy::new(first, recent).into()),
        Just(KeepNewestThatFitStrategy::new().into()),
    ];
    prop_oneof![
        structural,
        one_folding(),
        rewriting(),
        prop_oneof![
            Just(LadderStrategy::new().into()),
            (0usize..4, 0usize..4, 40u64..3_000).prop_map(|(first, recent, tokens)| {
                let strategy = DefaultCompaction::new().keep_first_turns(first).keep_recent_turns(recent);
                strategy.max_summary_tokens(Tokens(tokens)).into()
            }),
        ]
    ]
}

/// One random strategy that folds, and needs no budget for it.
pub fn folding() -> impl Generator<Value = StrategyConfig> {
    placed(one_folding())
}

fn one_folding() -> impl Generator<Value = StrategyConfig> {
    let summary = 20u64..3_000;
    prop_oneof![
        (0usize..12, kinds(), summary.clone()).prop_map(|(n, kinds, tokens)| {
            let strategy = SummarizeOlderStrategy::new(n).summary_tokens_max(Tokens(tokens));
            kinds.into_iter().fold(strategy, SummarizeOlderStrategy::preserve_kind).into()
        }),
        (0u64..5_000, summary.clone()).prop_map(|(tokens, summary)| {
            let strategy = PreserveUserMessagesStrategy::new().tokens_max(Tokens(tokens));
            strategy.summary_tokens_max(Tokens(summary)).into()
        }),
        (0u32..=10, summary.clone(), any::<[bool; 2]>()).prop_map(
            |(tenths, summary, [of_view, at_users])| {
                let strategy = PreserveRecentFractionStrategy::new(f64::from(tenths) / 10.0);
                let mut strategy =
                    strategy.expect("tenths are fractions").summary_tokens_max(Tokens(summary));
                if of_view {
                    strategy = strategy.of_the_view();
                }
                if at_users { strategy.only_at_user_items().into() } else { strategy.into() }
            }
        ),
        (0usize..6, 0usize..8, summary.clone()).prop_map(|(first, recent, tokens)| {
            KeepFirstAndRecentItemsStrategy::new(first, recent).summary_tokens_max(Tokens(tokens)).into()
        }),
        (0usize..5, 0u64..2_000, summary.clone()).prop_map(|(turns, tokens, summary)| {
            let clamp = TailClamp::new(25, Tokens(tokens / 2), Tokens(tokens)).expect("half is less");
            PreserveRecentTurnsStrategy::new(turns).clamp(clamp).summary_tokens_max(Tokens(summary)).into()
        }),
        (0u64..2_000).prop_map(|tokens| {
            let clamp = TailClamp::new(25, Tokens(tokens / 2), Tokens(tokens)).expect("half is less");
            PreserveRecentTurnsStrategy::within_tail().clamp(clamp).into()
        }),
        (0usize..5, 0usize..5, summary).prop_map(|(first, recent, tokens)| {
            KeepFirstAndRecentTurnsStrategy::new(first, recent).summary_tokens_max(Tokens(tokens)).into()
        }),
    ]
}

fn rewriting() -> impl Generator<Value = StrategyConfig> {
    prop_oneof![
        (1usize..80, 32u64..3_000, any::<bool>(), 0usize..3).prop_map(|(lines, tokens, fresh, spared)| {
            let strategy =
                TruncateToolOutputsStrategy::by_lines(lines).and_then(|s| s.tokens_max(Tokens(tokens)));
            let strategy = strategy.expect("both limits are in range").spare_first_turns(spared);
            if fresh { strategy.shorten_fresh().into() } else { strategy.into() }
        }),
        (0usize..6, 0u64..500, any::<bool>()).prop_map(|(keep, at_least, inputs)| {
            let strategy = ClearToolResultsStrategy::new(keep).clear_at_least(Tokens(at_least));
            if inputs { strategy.clear_inputs().into() } else { strategy.exclude_tool("shell").into() }
        }),
        (0u64..3_000, 400usize..3_000).prop_map(|(tokens, characters)| {
            CapToolOutputsStrategy::new(Tokens(tokens), characters).expect("the limit is in range").into()
        }),
        (0u64..800).prop_map(|tokens| TruncateToolInputsStrategy::new(Tokens(tokens)).into()),
        (0usize..3).prop_map(|keep| ReplaceMediaStrategy::new(keep).into()),
        Just(SupersedeStrategy::new().into()),
    ]
}

/// A pipeline of one to four random strategies.
pub fn pipeline() -> impl Generator<Value = StrategyPipeline> {
    prop::collection::vec(strategy(), 1..=4)
        .prop_map(|steps| steps.into_iter().fold(StrategyPipeline::new(), StrategyPipeline::with_strategy))
}

/// A preset, some with their summaries elsewhere.
pub fn policy() -> impl Generator<Value = Policy> {
    let presets = prop::sample::select(Policy::all().collect::<Vec<_>>());
    (presets, prop::option::of(placement())).prop_map(|(preset, placement)| match placement {
        Some(placement) => preset.with_summary_placement(placement),
        None => preset,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;

    /// Strategies that are drawn before each of them must have come up.
    const DRAWN_MAX: usize = 5_000;

    #[test]
    fn every_built_in_strategy_is_drawn() {
        let mut runner = TestRunner::deterministic();
        let mut ids = BTreeSet::new();
        for _ in 0..DRAWN_MAX {
            let drawn = strategy().new_tree(&mut runner).expect("a strategy can be drawn").current();
            ids.insert(Strategy::id(&drawn).to_owned());
        }
        assert_eq!(ids.len(), StrategyConfig::COUNT, "{ids:?}");
    }
}
