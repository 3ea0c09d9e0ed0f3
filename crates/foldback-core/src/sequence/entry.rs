//! What a sequence keeps for each item: the entry with everything known about it, and the mark for
//! passes over many items.

use std::ops::Range;
use std::sync::Arc;

use crate::holds::Holds;
use crate::ids::Tokens;
use crate::item::{Item, ItemKind};
use crate::part::{Part, ResultPart};
use crate::tokens::ItemTokens;

/// One item with everything known about it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) kind: ItemKind,
    pub(super) holds: Holds,
    /// Which of the first 32 parts are reasoning.
    reasoning: u32,
    pub(super) tokens: ItemTokens,
    pub(super) item: Arc<Item>,
    pub(super) tokens_through: u64,
    span: (u32, u32),
    anchor: u32,
    lines_max: u32,
    /// Item and part of the call that the only part answers; found without following the pointer.
    pub(super) answers: Option<(u32, u32)>,
    /// Where each part stood in the recorded item, if some have been removed or replaced since.
    pub(super) recorded_parts: Option<Arc<Vec<u32>>>,
}

impl Entry {
    /// An item that has been counted. What it has to do with others is found out on push.
    pub(super) fn new(item: Arc<Item>, tokens: ItemTokens, span: Range<usize>, anchor: usize) -> Self {
        let narrow = |index: usize| u32::try_from(index).expect("a transcript holds fewer than 2^32 items");
        Self {
            tokens,
            tokens_through: 0,
            span: (narrow(span.start), narrow(span.end)),
            anchor: narrow(anchor),
            recorded_parts: None,
            lines_max: result_lines_max(&item),
            reasoning: reasoning_mask(&item),
            answers: None,
            kind: item.kind,
            holds: Holds::of(&item),
            item,
        }
    }

    /// The item itself, shared.
    pub fn item(&self) -> &Arc<Item> {
        &self.item
    }

    /// The item's kind, without following the pointer to it.
    pub fn kind(&self) -> ItemKind {
        self.kind
    }

    /// What the item holds.
    pub fn holds(&self) -> Holds {
        self.holds
    }

    /// What the item costs.
    pub fn tokens(&self) -> &ItemTokens {
        &self.tokens
    }

    /// What everything up to and including this item costs.
    pub fn tokens_through(&self) -> Tokens {
        Tokens(self.tokens_through)
    }

    /// The transcript indices it stands for: one for an item, many for a summary. The first of
    /// them names the entry, because nothing else in a view begins there: what hides it hides the
    /// entry.
    pub fn span(&self) -> Range<usize> {
        self.span.0 as usize..self.span.1 as usize
    }

    /// Whether it may arrive in the middle of a tool loop without ending it. A summary ends it: what
    /// it stands for did.
    pub(super) fn is_aside(&self) -> bool {
        matches!(self.kind, ItemKind::Context | ItemKind::Notification)
            && !self.holds.contains(Holds::SUMMARY)
    }

    /// Where this entry stands on the transcript: its own index, or that of the item whose place a
    /// summary took or directly after which it stands. Anchors never decrease along a view.
    pub fn anchor(&self) -> usize {
        self.anchor as usize
    }

    /// Whether it is a summary behind all that it stands for, such as one after a tail. It is not part
    /// of that tail, however new it looks.
    pub(crate) fn is_summary_behind(&self) -> bool {
        self.holds.contains(Holds::SUMMARY) && self.anchor >= self.span.1
    }

    /// The index that a part had when the item was recorded.
    pub fn recorded_part(&self, part_index: usize) -> usize {
        match &self.recorded_parts {
            Some(recorded) => recorded.get(part_index).map_or(part_index, |&part_index| part_index as usize),
            None => part_index,
        }
    }

    /// How many parts the item has, without following the pointer to it.
    pub fn part_count(&self) -> usize {
        self.tokens.parts.len()
    }

    /// Whether a part is reasoning. Does not follow the pointer to the item unless it has more than
    /// 32 parts: a pass over many items would mostly wait for memory.
    pub fn is_reasoning(&self, part_index: usize) -> bool {
        match part_index {
            0..32 => self.reasoning >> part_index & 1 == 1,
            _ => matches!(self.item.parts.get(part_index), Some(Part::Reasoning(_))),
        }
    }

    /// Whether it is part of the conversation wherever it is sent: instructions may be sent apart, and
    /// items without parts are not sent.
    pub(super) fn is_spoken(&self) -> bool {
        !self.kind.is_instruction() && self.part_count() > 0
    }

    /// Whether it ends in thinking that belongs to an assistant item after it: some recorders write
    /// it as an item of its own, and a provider wants it back in front of what it led to.
    pub(super) fn ends_in_thinking(&self) -> bool {
        self.kind == ItemKind::Assistant && self.holds.contains(Holds::REASONING_LAST)
    }

    /// Lines of the longest tool result in it.
    pub(crate) fn result_lines_max(&self) -> usize {
        self.lines_max as usize
    }
}

/// What a pass over many items needs to know of each, twelve bytes apiece: a pass that read whole
/// entries would mostly wait for memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) kind: ItemKind,
    /// Parts that are no reasoning; 255 stands for more.
    other_count: u8,
    pub(crate) holds: Holds,
    tokens: u32,
    tokens_without_reasoning: u32,
}

impl Mark {
    pub(super) fn of(entry: &Entry) -> Self {
        let narrow = |tokens: Tokens| u32::try_from(tokens.0).unwrap_or(u32::MAX);
        let tokens = narrow(entry.tokens.total);
        let others =
            (0..).zip(&entry.tokens.parts).filter(|&(part_index, _)| !entry.is_reasoning(part_index));
        let (other_count, tokens_without_reasoning) = match entry.holds.contains(Holds::REASONING) {
            true => {
                let others = ItemTokens::of_parts(others.map(|(_, &tokens)| tokens));
                (others.parts.len(), narrow(others.total))
            }
            false => (entry.part_count(), tokens),
        };
        let other_count = u8::try_from(other_count).unwrap_or(u8::MAX);
        let (kind, holds) = (entry.kind, entry.holds);
        Self { kind, other_count, holds, tokens, tokens_without_reasoning }
    }

    /// Parts that are no reasoning; there may be more if there are very many.
    pub(crate) fn other_count_min(self) -> usize {
        usize::from(self.other_count)
    }

    /// Whether the item is one call or one result, and at most thinking beside it.
    pub(crate) fn is_half_of_a_pair(self) -> bool {
        self.other_count == 1 && self.holds.intersects(Holds::CALL | Holds::RESULT)
    }

    /// What the item costs without its reasoning: nothing, if it is nothing else.
    pub(crate) fn tokens_without_reasoning(self) -> Tokens {
        Tokens(u64::from(self.tokens_without_reasoning))
    }

    /// What the item costs, unless that is too much for a mark.
    pub(crate) fn tokens(self) -> Option<Tokens> {
        (self.tokens < u32::MAX).then_some(Tokens(u64::from(self.tokens)))
    }
}

fn reasoning_mask(item: &Item) -> u32 {
    let first_parts = (0..32).zip(&item.parts);
    let reasoning = first_parts.filter(|(_, part)| matches!(part, Part::Reasoning(_)));
    reasoning.fold(0, |mask, (part_index, _)| mask | 1 << part_index)
}

fn result_lines_max(item: &Item) -> u32 {
    let lines = item.results().flat_map(|(_, result)| &result.content).filter_map(ResultPart::as_text);
    let count = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1;
    u32::try_from(lines.map(count).max().unwrap_or(0)).unwrap_or(u32::MAX)
}
