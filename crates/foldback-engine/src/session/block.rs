//! What a loop is loaded as, in turns: its first turns, a summary, its recent turns.

use std::ops::Range;
use std::sync::Arc;

use foldback_core::{
    BlockKind, Budget, Draft, Fate, Item, ItemId, ItemKind, Meter, Plan, Reason, Strategy, SummaryError,
    SummarySpec, Timestamp, Tokens, TurnMap, TurnRange, View,
};

use foldback_core::summary::SUMMARY_TOKENS_MIN;

use super::record::LoopPlace;
use super::strategy::LoopTurns;

const ID: &str = "session-block";

/// Turns that are loaded in another form than they were recorded in.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactedSection {
    /// The turns.
    pub range: TurnRange,
    /// What is loaded in their place.
    pub messages: Vec<Arc<Item>>,
}

/// What a loop is loaded as. Turns that no section covers are loaded as they were recorded, so that
/// nothing vanishes; no turn is in two sections, so that nothing is loaded twice.
///
/// It is not stored: a strategy proposes it, and [`LoopRecord::compaction_block`] reads it back from
/// what is stored, which is [`foldback_core::CompactionBlock`]. So it is not serialised either, and a block
/// that was proposed without a date has none.
///
/// [`LoopRecord::compaction_block`]: super::LoopRecord::compaction_block
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompactionBlock {
    /// The first turns, verbatim. The most recent loop only.
    pub keep_first: Option<TurnRange>,
    /// A summary: of the middle of the most recent loop, of the whole of an older one. Pins and
    /// instructions among the turns stay beside it.
    pub keep_compacted: Option<CompactedSection>,
    /// The recent turns, every item of them, with shortened tool outputs. The most recent loop only.
    pub keep_recent: Option<CompactedSection>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
}

/// Sections that do not belong to their loop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SectionError {
    /// A section covers turns that the loop does not have.
    #[error("turns {range} were asked for, the loop has {turn_count}")]
    BeyondLoop {
        /// What it covers.
        range: TurnRange,
        /// How many turns there are.
        turn_count: usize,
    },
    /// A turn would be loaded twice, or turns out of order.
    #[error("turns {first} and turns {second} overlap or are out of order")]
    OutOfOrder {
        /// The section that is loaded first.
        first: TurnRange,
        /// The section after it.
        second: TurnRange,
    },
    /// Recent turns hold every recorded item, in order, with the parts it was recorded with.
    #[error("the recent turns have {given} where item {recorded} was recorded; rewrite parts, drop nothing")]
    NotRecorded {
        /// What was recorded, or the end of it.
        recorded: ItemId,
        /// What was given, or the end of it.
        given: ItemId,
    },
    /// An older loop is loaded as its summary.
    #[error("an older loop has no first and no recent turns")]
    OlderLoop,
}

impl CompactionBlock {
    /// What `view` shows of a loop, in turns; nothing where no compaction is in force. Loading it
    /// gives what the view shows.
    pub fn of(view: &View, messages: LoopTurns<'_>) -> Option<Self> {
        let newest = view.overlay().blocks().iter().rfind(|block| block.kind != BlockKind::Undo)?;
        let (fates, turns) = (view.fates(), messages.turns);
        let turn_count = turns.turn_count();
        let in_turn = |turn: usize| fates[turns.turn_msg_range(turn)].iter();
        let is_verbatim = |turn: &usize| in_turn(*turn).all(|fate| *fate == Fate::Visible);
        let is_summary =
            |entry: &&foldback_core::Entry| !fates.get(entry.span().start).is_some_and(Fate::is_visible);
        let summaries = || view.iter().filter(is_summary).filter_map(|entry| turns.turn_of(entry.anchor()));
        let changed = (0..turn_count).find(|turn| !is_verbatim(turn)).unwrap_or(turn_count);
        let first_end = summaries().min().unwrap_or(changed).min(changed);
        let is_folded = |turn: &usize| in_turn(*turn).any(|fate| matches!(fate, Fate::Folded(_)));
        let folded_end = (0..turn_count).rev().find(is_folded).into_iter().chain(summaries()).max();
        let recent_start = folded_end.map_or(first_end, |turn| turn + 1);
        let section = |turns_range: Range<usize>| {
            let range = TurnRange::new(turns_range.start, turns_range.end.checked_sub(1)?).ok()?;
            let items = turns.messages_for_range(range);
            let shown = view.iter().filter(|entry| items.contains(&entry.anchor()));
            Some(CompactedSection { range, messages: shown.map(|entry| Arc::clone(entry.item())).collect() })
        };
        Some(Self {
            keep_first: first_end.checked_sub(1).and_then(|last| TurnRange::new(0, last).ok()),
            keep_compacted: section(first_end..recent_start),
            keep_recent: section(recent_start..turn_count),
            created_at: newest.created_at,
        })
    }

    /// The items that it loads, in order.
    pub fn load(&self, messages: LoopTurns<'_>) -> Vec<Arc<Item>> {
        let turn_count = messages.turns.turn_count();
        let sections = [self.keep_compacted.as_ref(), self.keep_recent.as_ref()];
        let mut loaded = Vec::new();
        let mut turn = 0;
        while turn < turn_count {
            let section = sections.into_iter().flatten().find(|section| section.range.contains(turn));
            match section {
                Some(section) => {
                    loaded.extend(section.messages.iter().cloned());
                    turn = section.range.end_turn() + 1;
                }
                None => {
                    let items = messages.transcript.range(messages.turns.turn_msg_range(turn));
                    loaded.extend(items.map(|entry| Arc::clone(entry.item())));
                    turn += 1;
                }
            }
        }
        loaded
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.keep_compacted.is_none() && self.keep_recent.is_none()
    }

    /// Whether it can be loaded in this place of this loop.
    pub fn check(&self, messages: LoopTurns<'_>, place: LoopPlace) -> Result<(), SectionError> {
        if place == LoopPlace::Older && (self.keep_first.is_some() || self.keep_recent.is_some()) {
            return Err(SectionError::OlderLoop);
        }
        let range_of = |section: &Option<CompactedSection>| section.as_ref().map(|section| section.range);
        let ranges = [self.keep_first, range_of(&self.keep_compacted), range_of(&self.keep_recent)];
        let turn_count = messages.turns.turn_count();
        let mut before: Option<TurnRange> = None;
        for range in ranges.into_iter().flatten() {
            if range.end_turn() >= turn_count {
                return Err(SectionError::BeyondLoop { range, turn_count });
            }
            if let Some(first) = before.filter(|before| before.end_turn() >= range.start_turn()) {
                return Err(SectionError::OutOfOrder { first, second: range });
            }
            before = Some(range);
        }
        self.keep_recent.as_ref().map_or(Ok(()), |recent| recent.check_recorded(messages))
    }
}

/// Who wrote a digest, as its origin says.
const DIGEST: &str = "digest";

impl CompactedSection {
    fn tokens(&self, meter: &Meter) -> Tokens {
        self.messages.iter().map(|item| meter.item(item).total).sum()
    }

    /// Whether it was written without a model, and not by the strategy itself.
    pub(super) fn is_digest(&self) -> bool {
        let is_digest = |item: &Arc<Item>| {
            item.summary.as_ref().is_some_and(|origin| origin.written_by.as_str() == DIGEST)
        };
        self.messages.iter().all(is_digest)
    }

    fn check_recorded(&self, messages: LoopTurns<'_>) -> Result<(), SectionError> {
        let nothing = || ItemId::from("nothing");
        let mut given = self.messages.iter();
        for entry in messages.transcript.range(messages.turns.messages_for_range(self.range)) {
            let recorded = entry.item();
            let is_same = |given: &&Arc<Item>| {
                given.id == recorded.id
                    && given.kind == recorded.kind
                    && given.parts.len() == recorded.parts.len()
            };
            let message = given.next();
            if message.filter(is_same).is_none() {
                let given = message.map_or_else(nothing, |item| item.id.clone());
                return Err(SectionError::NotRecorded { recorded: recorded.id.clone(), given });
            }
        }
        match given.next() {
            Some(item) => Err(SectionError::NotRecorded { recorded: nothing(), given: item.id.clone() }),
            None => Ok(()),
        }
    }
}

/// A block as a strategy: it folds the summarised turns and rewrites the recent ones, within the rules that a
/// draft keeps whatever is asked for.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    pub(super) block: CompactionBlock,
    pub(super) turns: TurnMap,
    pub(super) strategy: String,
    /// What goes on where the sections leave more than the target.
    pub(super) further: Option<Arc<dyn Strategy>>,
    /// What a summary may cost that is written in place of a digest.
    pub(super) summary_max: Tokens,
}

impl Strategy for Sections {
    fn id(&self) -> &'static str {
        ID
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        if let Some(section) = &self.block.keep_compacted {
            self.fold(draft, section);
        }
        if let Some(section) = &self.block.keep_recent {
            self.shorten(draft, section);
        }
        if let Some((further, target)) = self.further.as_ref().zip(budget.map(Budget::target))
            && draft.tokens() > target
        {
            further.plan(draft, budget);
        }
    }

    fn needs_budget(&self) -> bool {
        self.further.as_ref().is_some_and(|further| further.needs_budget())
    }

    fn describe(&self) -> String {
        match &self.further {
            Some(further) => format!("{} → {}", self.strategy, further.describe()),
            None => self.strategy.clone(),
        }
    }
}

impl Sections {
    /// The summary that the block proposes for the fold of a plan, where it tells just that. A digest of
    /// another range, or of items that are seen otherwise than they were recorded, is written anew.
    pub(super) fn summary(&self, plan: &Plan) -> Result<Option<Vec<Item>>, SummaryError> {
        let (Some(request), Some(section)) = (plan.requests().next(), &self.block.keep_compacted) else {
            return Ok(None);
        };
        let (fold, is_digest) = (request.fold(), section.is_digest());
        let items = self.turns.messages_for_range(section.range);
        let is_of_fold =
            |item: &Arc<Item>| item.summary.as_ref().is_none_or(|origin| origin.handle == fold.handle);
        let is_as_recorded = plan.view().overlay().blocks().is_empty();
        let tells_it = items.start <= fold.range.start
            && fold.range.end <= items.end
            && section.tokens(plan.view().transcript().meter()) <= fold.spec.tokens_max
            && (!is_digest || (is_as_recorded && section.messages.iter().all(is_of_fold)));
        let summary = || section.messages.iter().map(|item| Item::clone(item)).collect();
        if tells_it && !is_digest {
            plan.apply(vec![summary()])?;
        }
        Ok(tells_it.then(summary))
    }

    fn positions(&self, draft: &Draft<'_>, range: TurnRange) -> Range<usize> {
        let items = self.turns.messages_for_range(range);
        position_of(draft.view(), items.start)..position_of(draft.view(), items.end)
    }

    fn fold(&self, draft: &mut Draft<'_>, section: &CompactedSection) {
        let keep = |_: usize, kind: ItemKind| kind.is_instruction();
        let positions = self.positions(draft, section.range);
        let members = draft.hideable(positions.clone(), keep);
        let folded: Tokens = members.iter().map(|&position| draft.tokens_at(position)).sum();
        let cost = section.tokens(draft.meter()).max(Tokens(SUMMARY_TOKENS_MIN));
        if folded + draft.summary_tokens() > cost {
            let reason = Reason::new(ID, format!("turns {} are summarised", section.range));
            let tokens_max = if section.is_digest() { cost.max(self.summary_max) } else { cost };
            draft.fold(positions, keep, SummarySpec::new(tokens_max), reason);
        }
    }

    fn shorten(&self, draft: &mut Draft<'_>, section: &CompactedSection) {
        let items = self.turns.messages_for_range(section.range);
        let reason = Reason::new(ID, format!("turns {} are recent", section.range));
        for position in self.positions(draft, section.range) {
            let Some(entry) = draft.view().get(position).filter(|entry| items.contains(&entry.anchor()))
            else {
                continue;
            };
            let message = section.messages.get(entry.anchor() - items.start);
            let Some(message) = message.filter(|message| message.id == entry.item().id) else { continue };
            let changed = |part_index: &usize| {
                entry.item().parts.get(*part_index) != message.parts.get(entry.recorded_part(*part_index))
            };
            for part_index in (0..entry.part_count()).filter(changed) {
                if let Some(part) = message.parts.get(entry.recorded_part(part_index)) {
                    draft.rewrite(position, part_index, part.clone(), reason.clone());
                }
            }
        }
    }
}

/// How many entries of a view stand before this place of the transcript. Anchors never decrease.
fn position_of(view: &View, index: usize) -> usize {
    let (mut start, mut end) = (0, view.len());
    while start < end {
        let middle = start + (end - start) / 2;
        match view.get(middle).is_some_and(|entry| entry.anchor() < index) {
            true => start = middle + 1,
            false => end = middle,
        }
    }
    start
}
