//! What divides a loop into sections: the seam, and what does it where nobody brings another.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use foldback_core::{
    Budget, Draft, Item, ItemKind, Reason, Strategy, SummarySpec, Timestamp, Transcript,
    TruncateToolOutputsStrategy, TurnMap, TurnRange, View, plan,
};

use super::block::{CompactedSection, CompactionBlock};
use super::config::CompactionConfig;
use super::record::LoopPlace;
use crate::compaction::CompactionError;
use crate::naming::type_name;

const ID: &str = "block-compaction";

/// The messages of a loop, and the turns they make: what a strategy is shown of a record, so that it cannot
/// depend on the blocks that are in force.
#[derive(Clone, Copy, Debug)]
pub struct LoopTurns<'a> {
    /// The messages.
    pub transcript: &'a Transcript,
    /// Their turns, which may be cut apart.
    pub turns: &'a TurnMap,
}

/// Divides a loop into sections.
///
/// Implementors guarantee: ranges do not overlap; the messages of the recent turns are the recorded
/// items with some parts replaced; a summary is context and says nothing in the user's name. What breaks
/// this is refused, and the loop stays what it is. A strategy that asks nobody gives the same sections for
/// the same loop and configuration.
///
/// ```
/// use async_trait::async_trait;
/// use foldback_core::{Item, ItemKind, TurnRange};
/// use foldback_engine::CompactionError;
/// use foldback_engine::session::{
///     BlockCompactionStrategy, CompactedSection, CompactionConfig, LoopPlace, LoopTurns,
/// };
///
/// /// Asks a service of the host's for a summary of all turns of a loop.
/// struct Summarised;
///
/// #[async_trait]
/// impl BlockCompactionStrategy for Summarised {
///     async fn keep_compacted(
///         &self,
///         messages: LoopTurns<'_>,
///         config: &CompactionConfig,
///         place: LoopPlace,
///     ) -> Result<Option<CompactedSection>, CompactionError> {
///         let kept_count = if place == LoopPlace::Older { 0 } else { config.keep_recent_turns };
///         let folded_count = messages.turns.turn_count().saturating_sub(kept_count);
///         let Some(last) = folded_count.checked_sub(1) else { return Ok(None) };
///         let range = TurnRange::new(0, last).map_err(|error| CompactionError::Failed(error.to_string()))?;
///         let told = format!("{folded_count} turns about the parser.");
///         let summary = Item::text("summary", ItemKind::Context, told);
///         Ok(Some(CompactedSection { range, messages: vec![summary.into()] }))
///     }
/// }
/// ```
#[async_trait]
pub trait BlockCompactionStrategy: Send + Sync {
    /// The name in records; the type's name by default.
    fn describe(&self) -> String {
        type_name::<Self>()
    }

    /// Whether it may ask somebody, such as a model. Then hooks run and events come before
    /// [`compact`](Self::compact), because it is not known whether there will be something to do.
    fn asks(&self) -> bool {
        true
    }

    /// The turns that the most recent loop begins with, verbatim; none by default.
    fn keep_first(&self, _messages: LoopTurns<'_>, _config: &CompactionConfig) -> Option<TurnRange> {
        None
    }

    /// The turns that the most recent loop ends with, shortened. Turns in no section are loaded as they
    /// were recorded, so none by default.
    fn keep_recent(&self, _messages: LoopTurns<'_>, _config: &CompactionConfig) -> Option<CompactedSection> {
        None
    }

    /// The summary: of what lies between in the most recent loop, of all of an older one. None where
    /// it would save nothing; the turns are then loaded as they were recorded. An error leaves the session
    /// as it is.
    async fn keep_compacted(
        &self,
        messages: LoopTurns<'_>,
        config: &CompactionConfig,
        place: LoopPlace,
    ) -> Result<Option<CompactedSection>, CompactionError>;

    /// All sections together. The time is passed in: a strategy reads no clock.
    async fn compact(
        &self,
        messages: LoopTurns<'_>,
        config: &CompactionConfig,
        place: LoopPlace,
        created_at: Option<Timestamp>,
    ) -> Result<CompactionBlock, CompactionError> {
        let is_most_recent = place == LoopPlace::MostRecent;
        Ok(CompactionBlock {
            keep_first: is_most_recent.then(|| self.keep_first(messages, config)).flatten(),
            keep_compacted: self.keep_compacted(messages, config, place).await?,
            keep_recent: is_most_recent.then(|| self.keep_recent(messages, config)).flatten(),
            created_at,
        })
    }
}

impl fmt::Debug for dyn BlockCompactionStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

/// First turns, a digest of all turns between, recent turns. Keeps nothing between calls: everything
/// comes from the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultBlockCompaction;

impl DefaultBlockCompaction {
    /// How many turns come first, and where the recent ones start. They never overlap: in a short loop
    /// the first turns come first.
    fn bounds(messages: LoopTurns<'_>, config: &CompactionConfig) -> (usize, usize) {
        let turn_count = messages.turns.turn_count();
        let first_count = config.keep_first_turns.min(turn_count);
        (first_count, turn_count.saturating_sub(config.keep_recent_turns).max(first_count))
    }

    /// The turns that are summarised, told without a model.
    fn digest(
        messages: LoopTurns<'_>,
        config: &CompactionConfig,
        place: LoopPlace,
    ) -> Option<CompactedSection> {
        let turn_count = messages.turns.turn_count();
        let (start, end) = match place {
            LoopPlace::MostRecent => Self::bounds(messages, config),
            LoopPlace::Older => (0, turn_count),
        };
        let range = TurnRange::new(start, end.checked_sub(1)?).ok()?;
        let fold = FoldTurns { messages, range, config };
        let mut view = View::of(messages.transcript);
        if place == LoopPlace::Older {
            view.push(said_next());
        }
        let plan = plan(&view, &fold, None).expect("folding turns needs no budget");
        let digests = plan.requests().map(|request| Arc::new(request.digest()));
        let messages: Vec<Arc<Item>> = digests.collect();
        (!messages.is_empty()).then_some(CompactedSection { range, messages })
    }
}

#[async_trait]
impl BlockCompactionStrategy for DefaultBlockCompaction {
    fn describe(&self) -> String {
        ID.to_owned()
    }

    fn asks(&self) -> bool {
        false
    }

    fn keep_first(&self, messages: LoopTurns<'_>, config: &CompactionConfig) -> Option<TurnRange> {
        let (first_count, _) = Self::bounds(messages, config);
        first_count.checked_sub(1).and_then(|last| TurnRange::new(0, last).ok())
    }

    fn keep_recent(&self, messages: LoopTurns<'_>, config: &CompactionConfig) -> Option<CompactedSection> {
        let (_, recent_start) = Self::bounds(messages, config);
        let range = TurnRange::new(recent_start, messages.turns.turn_count().checked_sub(1)?).ok()?;
        let items = messages.turns.messages_for_range(range);
        let transcript = messages.transcript;
        let spared = transcript.turn_starts().take_while(|&start| start < items.start).count();
        let shorten = TruncateToolOutputsStrategy::default()
            .lines_max(config.tool_output_max_lines.max(1))
            .expect("at least one line is kept")
            .spare_first_turns(spared);
        let plan = plan(&View::of(transcript), &shorten, None).expect("shortening needs no budget");
        let shortened = plan.apply_floor().view;
        let messages = shortened.range(items).map(|entry| Arc::clone(entry.item())).collect();
        Some(CompactedSection { range, messages })
    }

    async fn keep_compacted(
        &self,
        messages: LoopTurns<'_>,
        config: &CompactionConfig,
        place: LoopPlace,
    ) -> Result<Option<CompactedSection>, CompactionError> {
        Ok(Self::digest(messages, config, place))
    }
}

/// What stands behind an older loop: nothing in it is in flight any more, and its newest prompt is as old as
/// the rest. An item without parts stands for that: it costs nothing and is never recorded.
pub(super) fn said_next() -> Item {
    Item::new("next", ItemKind::User, Vec::new())
}

/// Folds turns into one summary.
#[derive(Debug)]
struct FoldTurns<'a> {
    messages: LoopTurns<'a>,
    range: TurnRange,
    config: &'a CompactionConfig,
}

impl Strategy for FoldTurns<'_> {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, _budget: Option<&Budget>) {
        let items = self.messages.turns.messages_for_range(self.range);
        let spec = SummarySpec::new(self.config.max_summary_tokens).with_focus(self.config.focus.clone());
        let reason = Reason::new(ID, format!("turns {} are summarised", self.range));
        draft.fold(items, |_, kind| kind.is_instruction(), spec, reason);
    }
}
