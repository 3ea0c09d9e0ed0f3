//! When and how the loops of a session are compacted.

use std::sync::Arc;

use foldback_core::strategy::TruncateLimitError;
use foldback_core::{
    Budget, BudgetError, BudgetTrigger, CompactionReason, DefaultCompaction, Dialect, KeepLines,
    LadderStrategy, Strategy, Text, Tokens,
};

use super::scope::CompactionScope;
use super::strategy::{BlockCompactionStrategy, DefaultBlockCompaction};
use crate::ask::{DigestBackend, SummaryLimits};
use crate::backend::GuardedBackend;
use crate::compactor::{StrategyCompactor, StrategyCompactorBuildError};
use crate::hooks::CompactionHooks;

/// When and how the loops of a session are compacted. The size of the window is no field, because it belongs to
/// the model and not to the policy: it is passed with each call. A trigger with a strategy for an agent without
/// sessions is a [`StrategyCompactor`](crate::StrategyCompactor).
#[derive(Clone, Debug)]
pub struct CompactionConfig {
    /// The share of the window that may be in use.
    pub compact_at_pct: f64,
    /// A compaction is due when less than this share of the window is left below it.
    pub compact_budget_threshold_pct: f64,
    /// How many earlier loops are loaded.
    pub compaction_scope: CompactionScope,
    /// Turns kept verbatim at the beginning of the most recent loop; none is a valid number.
    pub keep_first_turns: usize,
    /// Turns kept at its end, with shortened tool outputs.
    pub keep_recent_turns: usize,
    /// What the summary of a loop may cost.
    pub max_summary_tokens: Tokens,
    /// Lines kept of each tool output of the recent turns. Zero counts as one.
    pub tool_output_max_lines: usize,
    /// What compacts further where the sections of a loop leave it over the target, and what
    /// compacts where there is no session. The ladder by default, because it always reaches the target;
    /// [`default_compaction`](Self::default_compaction) makes the three levels.
    pub in_memory_strategy: Arc<dyn Strategy>,
    /// What divides a loop into sections.
    pub block_strategy: Arc<dyn BlockCompactionStrategy>,
    /// Writes the summaries. Without one, and where it fails, the digest does.
    pub backend: Option<GuardedBackend>,
    /// How it is asked.
    pub limits: SummaryLimits,
    /// What summaries should attend to.
    pub focus: Option<Text>,
    /// Which lines of the record summaries repeat word for word where nothing else shows them.
    pub keep: Option<KeepLines>,
    /// What a request holds beside the context: a system prompt that is not recorded, tool schemas.
    pub overhead_tokens: Tokens,
    /// Whose rules a context must keep. Without one, those that all providers share.
    pub dialect: Option<Dialect>,
    /// What runs around the compaction of each loop, and who is told of it.
    pub hooks: CompactionHooks,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            compact_at_pct: 0.90,
            compact_budget_threshold_pct: 0.05,
            compaction_scope: CompactionScope::default(),
            keep_first_turns: 2,
            keep_recent_turns: 10,
            max_summary_tokens: Tokens(2_000),
            tool_output_max_lines: 50,
            in_memory_strategy: Arc::new(LadderStrategy::new()),
            block_strategy: Arc::new(DefaultBlockCompaction),
            backend: None,
            limits: SummaryLimits::default(),
            focus: None,
            keep: None,
            overhead_tokens: Tokens::ZERO,
            dialect: None,
            hooks: CompactionHooks::default(),
        }
    }
}

impl CompactionConfig {
    /// The levels for a window of this size. The target lies well below the trigger, so that a
    /// compaction is not due again on the next turn.
    pub fn budget(&self, max_context_tokens: Tokens) -> Result<Budget, BudgetError> {
        let (at, threshold) = (self.compact_at_pct, self.compact_budget_threshold_pct);
        Budget::with_compact_at(max_context_tokens, self.overhead_tokens, at, threshold)?.build()
    }

    /// Why a context of so many tokens is to be compacted now, if it is.
    pub fn should_compact(
        &self,
        tokens: Tokens,
        max_context_tokens: Tokens,
    ) -> Result<Option<CompactionReason>, BudgetError> {
        let level = self.budget(max_context_tokens)?.trigger();
        Ok((tokens >= level).then_some(CompactionReason::BudgetReached { tokens, level }))
    }

    /// What compacts where there is no session: the in-memory strategy, at the level of this configuration,
    /// with its backend and hooks.
    pub fn compactor(
        &self,
        max_context_tokens: Tokens,
    ) -> Result<StrategyCompactor, StrategyCompactorBuildError> {
        let budget = self.budget(max_context_tokens)?;
        let mut builder = StrategyCompactor::builder()
            .compaction_trigger(BudgetTrigger::new(&budget))
            .strategy(Arc::clone(&self.in_memory_strategy))
            .budget(budget)
            .backend(self.backend.clone().unwrap_or_else(|| DigestBackend.into()))
            .hooks(self.hooks.clone());
        if let Some(dialect) = self.dialect {
            builder = builder.dialect(dialect);
        }
        builder.build()
    }

    /// The three levels of compaction without a session, with the numbers of this configuration.
    pub fn default_compaction(&self) -> Result<DefaultCompaction, TruncateLimitError> {
        DefaultCompaction::new()
            .keep_first_turns(self.keep_first_turns)
            .keep_recent_turns(self.keep_recent_turns)
            .max_summary_tokens(self.max_summary_tokens)
            .tool_output_max_lines(self.tool_output_max_lines)
    }
}
