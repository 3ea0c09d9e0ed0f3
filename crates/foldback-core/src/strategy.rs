//! Strategies: what to compact. Each is one file, pure, usable alone and in a pipeline.
//!
//! A strategy sees a [`Draft`] and a [`Budget`] and nothing else (A2). The draft keeps the rules;
//! a strategy only chooses.

mod cap_tool_outputs;
mod clear_tool_results;
mod default_compaction;
mod drop_failed_tool_results;
mod drop_middle;
mod drop_reasoning;
mod fresh_only;
mod keep_first_and_recent_items;
mod keep_first_and_recent_turns;
mod keep_newest_that_fit;
mod keep_recent;
mod ladder;
mod planning;
mod preserve_recent_fraction;
mod preserve_recent_turns;
mod preserve_user_messages;
mod replace_media;
mod summarize_older;
mod summary_and_tail;
mod summary_options;
mod supersede;
mod truncate_tool_inputs;
mod truncate_tool_outputs;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use cap_tool_outputs::{CapLimitError, CapToolOutputsStrategy};
pub use clear_tool_results::ClearToolResultsStrategy;
pub use default_compaction::{DefaultCompaction, compact_messages};
pub use drop_failed_tool_results::{DropFailedToolResultsStrategy, NewestFailure};
pub use drop_middle::DropMiddleStrategy;
pub use drop_reasoning::DropReasoningStrategy;
pub use fresh_only::FreshOnlyStrategy;
pub use keep_first_and_recent_items::KeepFirstAndRecentItemsStrategy;
pub use keep_first_and_recent_turns::KeepFirstAndRecentTurnsStrategy;
pub use keep_newest_that_fit::KeepNewestThatFitStrategy;
pub use keep_recent::KeepRecentStrategy;
pub use ladder::LadderStrategy;
pub(crate) use planning::Fitting;
pub use planning::{PlanError, plan};
pub use preserve_recent_fraction::{FractionError, PreserveRecentFractionStrategy};
pub use preserve_recent_turns::{ClampError, PreserveRecentTurnsStrategy, TailClamp};
pub use preserve_user_messages::PreserveUserMessagesStrategy;
pub use replace_media::ReplaceMediaStrategy;
pub use summarize_older::SummarizeOlderStrategy;
pub use summary_and_tail::SummaryAndTailStrategy;
pub use supersede::SupersedeStrategy;
pub use truncate_tool_inputs::TruncateToolInputsStrategy;
pub use truncate_tool_outputs::{TruncateLimitError, TruncateToolOutputsStrategy};

use crate::budget::Budget;
use crate::draft::{Draft, EmptyItems};
use crate::edit::SummaryPlacement;
use crate::holds::Holds;
use crate::ids::{Text, Tokens};
use crate::item::ItemKind;
use crate::sequence::Entry;

/// What a summary may cost where nobody says otherwise.
pub const SUMMARY_TOKENS_DEFAULT: Tokens = Tokens(2_000);

/// Says what to compact: pure, on a draft. `foldback_engine::CompactionStrategy` is the same for what is not
/// pure, such as a strategy that asks somebody; every strategy is one.
///
/// Implementors guarantee: the same draft and budget give the same edits (T6), and a second run on
/// the view that the first led to, with nothing pushed since, proposes none (T7).
pub trait Strategy: fmt::Debug + Send + Sync {
    /// The stable name used in configurations and reasons, such as `keep-recent`.
    fn id(&self) -> &'static str;

    /// Edits the draft.
    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>);

    /// Takes out what a repair would turn into something else, such as results that no call asked for.
    /// Runs before the view is repaired, and only where it needs to be; nothing by default.
    fn before_repair(&self, _draft: &mut Draft<'_>) {}

    /// Whether it aims at a size, so that planning without a budget is an error.
    fn needs_budget(&self) -> bool {
        false
    }

    /// Whether its summaries are meant to be written by a model, so that compacting without anybody
    /// who writes them is an error. What asks for summaries and says no here is content with the
    /// digest.
    fn wants_backend(&self) -> bool {
        false
    }

    /// The id with what matters of the configuration, such as `keep-recent(8)`.
    fn describe(&self) -> String {
        self.id().to_owned()
    }
}

macro_rules! forwarded {
    ($($pointer:ty),*) => {
        $(impl<S: Strategy + ?Sized> Strategy for $pointer {
            fn id(&self) -> &'static str {
                (**self).id()
            }
            fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
                (**self).plan(draft, budget);
            }
            fn before_repair(&self, draft: &mut Draft<'_>) {
                (**self).before_repair(draft);
            }
            fn needs_budget(&self) -> bool {
                (**self).needs_budget()
            }
            fn wants_backend(&self) -> bool {
                (**self).wants_backend()
            }
            fn describe(&self) -> String {
                (**self).describe()
            }
        })*
    };
}

forwarded!(&S, Arc<S>, Box<S>);

/// Strategies in order, each on the draft left by the one before. Is itself a strategy. Pipelines with steps
/// of a host's own are `foldback_engine::CompactionPipeline`, of which runs of pure steps become this.
#[derive(Clone, Default)]
pub struct StrategyPipeline {
    steps: Vec<Arc<dyn Strategy>>,
}

impl StrategyPipeline {
    /// A pipeline without steps, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same pipeline with one more step at its end.
    #[must_use]
    pub fn with_strategy(mut self, strategy: impl Strategy + 'static) -> Self {
        self.steps.push(Arc::new(strategy));
        self
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Arc<dyn Strategy>] {
        &self.steps
    }
}

impl FromIterator<Arc<dyn Strategy>> for StrategyPipeline {
    fn from_iter<I: IntoIterator<Item = Arc<dyn Strategy>>>(steps: I) -> Self {
        Self { steps: steps.into_iter().collect() }
    }
}

impl Strategy for StrategyPipeline {
    fn id(&self) -> &'static str {
        "pipeline"
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        for step in &self.steps {
            step.plan(draft, budget);
            draft.keep_user_first();
        }
    }

    fn before_repair(&self, draft: &mut Draft<'_>) {
        self.steps.iter().for_each(|step| step.before_repair(draft));
    }

    fn needs_budget(&self) -> bool {
        self.steps.iter().any(|step| step.needs_budget())
    }

    fn wants_backend(&self) -> bool {
        self.steps.iter().any(|step| step.wants_backend())
    }

    fn describe(&self) -> String {
        self.steps.iter().map(|step| step.describe()).collect::<Vec<_>>().join(" → ")
    }
}

impl fmt::Debug for StrategyPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

macro_rules! built_in {
    ($($variant:ident($strategy:ty),)*) => {
        /// Every built-in strategy, as a configuration names it:
        /// `{"strategy": "keep-recent", "keep_last": 8}`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "strategy", rename_all = "kebab-case")]
        #[expect(missing_docs, reason = "each variant is documented at its strategy")]
        #[non_exhaustive]
        pub enum StrategyConfig {
            $($variant($strategy),)*
        }

        impl StrategyConfig {
            /// How many built-in strategies there are: a list of that length has no room for a gap.
            pub const COUNT: usize = [$(stringify!($variant)),*].len();

            fn strategy(&self) -> &dyn Strategy {
                match self {
                    $(Self::$variant(strategy) => strategy,)*
                }
            }
        }

        $(impl From<$strategy> for StrategyConfig {
            fn from(strategy: $strategy) -> Self {
                Self::$variant(strategy)
            }
        })*
    };
}

built_in! {
    DropReasoning(DropReasoningStrategy),
    DropFailedToolResults(DropFailedToolResultsStrategy),
    Supersede(SupersedeStrategy),
    KeepRecent(KeepRecentStrategy),
    SummarizeOlder(SummarizeOlderStrategy),
    PreserveUserMessages(PreserveUserMessagesStrategy),
    PreserveRecentFraction(PreserveRecentFractionStrategy),
    PreserveRecentTurns(PreserveRecentTurnsStrategy),
    KeepFirstAndRecentTurns(KeepFirstAndRecentTurnsStrategy),
    KeepFirstAndRecentItems(KeepFirstAndRecentItemsStrategy),
    KeepNewestThatFit(KeepNewestThatFitStrategy),
    CapToolOutputs(CapToolOutputsStrategy),
    TruncateToolOutputs(TruncateToolOutputsStrategy),
    ClearToolResults(ClearToolResultsStrategy),
    TruncateToolInputs(TruncateToolInputsStrategy),
    ReplaceMedia(ReplaceMediaStrategy),
    DropMiddle(DropMiddleStrategy),
    ThreeLevel(DefaultCompaction),
    Ladder(LadderStrategy),
}

/// A step changed where it asks for a summary with options of its own, and as it was elsewhere.
macro_rules! where_it_asks {
    ($step:expr, $strategy:ident => $changed:expr) => {
        match $step {
            StrategyConfig::SummarizeOlder($strategy) => $changed.into(),
            StrategyConfig::PreserveUserMessages($strategy) => $changed.into(),
            StrategyConfig::PreserveRecentFraction($strategy) => $changed.into(),
            StrategyConfig::PreserveRecentTurns($strategy) => $changed.into(),
            StrategyConfig::KeepFirstAndRecentTurns($strategy) => $changed.into(),
            StrategyConfig::KeepFirstAndRecentItems($strategy) => $changed.into(),
            StrategyConfig::Ladder($strategy) => $changed.into(),
            unchanged @ (StrategyConfig::DropReasoning(_)
            | StrategyConfig::DropFailedToolResults(_)
            | StrategyConfig::Supersede(_)
            | StrategyConfig::KeepRecent(_)
            | StrategyConfig::KeepNewestThatFit(_)
            | StrategyConfig::CapToolOutputs(_)
            | StrategyConfig::TruncateToolOutputs(_)
            | StrategyConfig::ClearToolResults(_)
            | StrategyConfig::TruncateToolInputs(_)
            | StrategyConfig::ReplaceMedia(_)
            | StrategyConfig::DropMiddle(_)
            | StrategyConfig::ThreeLevel(_)) => unchanged,
        }
    };
}

impl StrategyConfig {
    /// The same step with its summary attending to something; unchanged where it asks for none.
    #[must_use]
    pub fn with_focus(self, focus: impl Into<Text>) -> Self {
        where_it_asks!(self, strategy => strategy.focus(focus))
    }

    /// The same step with its summary standing there; unchanged where it asks for none.
    #[must_use]
    pub fn with_summary_placement(self, placement: SummaryPlacement) -> Self {
        match self {
            Self::ThreeLevel(strategy) => strategy.summary_placement(placement).into(),
            step => where_it_asks!(step, strategy => strategy.summary_placement(placement)),
        }
    }
}

impl Strategy for StrategyConfig {
    fn id(&self) -> &'static str {
        self.strategy().id()
    }
    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        self.strategy().plan(draft, budget);
    }
    fn before_repair(&self, draft: &mut Draft<'_>) {
        self.strategy().before_repair(draft);
    }
    fn needs_budget(&self) -> bool {
        self.strategy().needs_budget()
    }
    fn wants_backend(&self) -> bool {
        self.strategy().wants_backend()
    }
    fn describe(&self) -> String {
        self.strategy().describe()
    }
}

/// Kinds that a strategy leaves alone whatever their age.
type Kinds = BTreeSet<ItemKind>;

/// Tells which kinds are preserved, without searching a set for every item.
fn preserved(kinds: &Kinds) -> impl Fn(ItemKind) -> bool + use<> {
    let mask = kinds.iter().fold(0_u32, |mask, &kind| mask | 1 << kind as u32);
    move |kind| mask >> kind as u32 & 1 == 1
}

/// The position from which on the newest `count` items stand that are neither of a preserved kind
/// nor summaries.
fn newest_start(draft: &Draft<'_>, count: usize, preserved: &Kinds) -> usize {
    let Some(skipped) = count.checked_sub(1) else { return draft.len() };
    let counts = |position: usize, entry: &Entry| {
        !preserved.contains(&entry.kind())
            && !entry.holds().contains(Holds::SUMMARY)
            && draft.tokens_at(position) > Tokens::ZERO
    };
    let mut counted = draft.live_rev().filter(|&(position, entry)| counts(position, entry));
    counted.nth(skipped).map_or(0, |(position, _)| position)
}

/// Tells which items set the scene: instructions, and context given before the first user item.
fn scene(draft: &Draft<'_>) -> impl Fn(usize, ItemKind) -> bool + use<> {
    let first_user = draft.turn_starts().next().unwrap_or(draft.len());
    move |position, kind| kind.is_instruction() || (kind == ItemKind::Context && position < first_user)
}

/// The turns between the first and the newest ones; empty if there are none.
fn middle_turns(draft: &Draft<'_>, first_turns: usize, recent_turns: usize) -> Range<usize> {
    let starts: Vec<usize> = draft.turn_starts().collect();
    let nowhere = draft.len()..draft.len();
    let Some(recent) = starts.len().checked_sub(recent_turns) else { return nowhere };
    let start_of = |turn: usize| starts.get(turn).copied().unwrap_or(draft.len());
    if first_turns < recent { start_of(first_turns)..start_of(recent) } else { nowhere }
}

/// Where the longest tail starts whose hideable positions cost no more than `room`: at the very
/// beginning if all of them fit, else at a legal cut, so that no unit is torn.
fn tail_start(draft: &Draft<'_>, hideable: &[usize], room: Tokens) -> usize {
    let mut left = room;
    let mut start = draft.len();
    for &position in hideable.iter().rev() {
        let tokens = draft.tokens_at(position);
        if tokens > left {
            return draft.view().cut_at_or_after(start);
        }
        left = left.saturating_sub(tokens);
        start = position;
    }
    0
}

/// The name of the tool that a call went to. Asks the transcript: the call itself may be hidden.
fn tool_name<'d>(draft: &Draft<'d>, call_id: &crate::ids::CallId) -> &'d str {
    draft.view().transcript().call(call_id).map_or("tool", |call| call.name.as_str())
}

/// As serde sees [`EmptyItems`]: the `drop_empty_items` of a configuration.
mod drop_empty_items {
    use super::EmptyItems;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        empty_items: &EmptyItems,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(*empty_items == EmptyItems::Drop)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<EmptyItems, D::Error> {
        let drop = bool::deserialize(deserializer)?;
        Ok(if drop { EmptyItems::Drop } else { EmptyItems::Keep })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every built-in strategy.
    pub(super) fn built_in() -> [StrategyConfig; StrategyConfig::COUNT] {
        [
            DropReasoningStrategy::new().into(),
            DropFailedToolResultsStrategy::new().into(),
            SupersedeStrategy::new().into(),
            KeepRecentStrategy::new(8).preserve_kind(ItemKind::System).into(),
            SummarizeOlderStrategy::new(8).focus("the parser").into(),
            PreserveUserMessagesStrategy::new().into(),
            PreserveRecentFractionStrategy::new(0.3).unwrap().into(),
            PreserveRecentTurnsStrategy::new(2).into(),
            KeepFirstAndRecentTurnsStrategy::default().into(),
            KeepFirstAndRecentItemsStrategy::new(4, 35).into(),
            KeepNewestThatFitStrategy::new().into(),
            CapToolOutputsStrategy::default().into(),
            TruncateToolOutputsStrategy::default().into(),
            ClearToolResultsStrategy::new(3).exclude_tool("todo").into(),
            TruncateToolInputsStrategy::default().into(),
            ReplaceMediaStrategy::new(1).into(),
            DropMiddleStrategy::default().into(),
            DefaultCompaction::new().into(),
            LadderStrategy::new().into(),
        ]
    }

    #[test]
    fn every_strategy_is_configured_under_its_own_id() {
        let ids: BTreeSet<String> = built_in().iter().map(|strategy| strategy.id().to_owned()).collect();
        assert_eq!(ids.len(), StrategyConfig::COUNT, "each stands there once");
        for strategy in built_in() {
            let written = serde_json::to_value(&strategy).unwrap();
            assert_eq!(written["strategy"], strategy.id());
            assert_eq!(serde_json::from_value::<StrategyConfig>(written).unwrap(), strategy);
        }
    }

    #[test]
    fn defaults_may_be_left_out_and_mistakes_may_not() {
        let read = |json: &str| serde_json::from_str::<StrategyConfig>(json);
        assert_eq!(
            read(r#"{"strategy":"clear-tool-results"}"#).unwrap(),
            ClearToolResultsStrategy::default().into()
        );
        assert!(read(r#"{"strategy":"keep-recent"}"#).is_err(), "n has no default");
        assert!(read(r#"{"strategy":"keep-recent","keep_last":8,"preserv_kinds":[]}"#).is_err());
        assert!(read(r#"{"strategy":"keep-resent","keep_last":8}"#).is_err());
    }

    #[test]
    fn a_pipeline_reads_as_what_it_does() {
        let pipeline = StrategyPipeline::new()
            .with_strategy(DropReasoningStrategy::new())
            .with_strategy(KeepRecentStrategy::new(8));
        assert_eq!(format!("{pipeline:?}"), "drop-reasoning → keep-recent(8)");
        assert!(!pipeline.needs_budget());
        assert!(pipeline.with_strategy(LadderStrategy::new()).needs_budget());
    }
}
