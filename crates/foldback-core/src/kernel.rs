//! The kernel: what no compaction may take away, each item at its smallest. If it is larger than
//! the target, nothing fits.

use std::collections::BTreeSet;

use crate::draft::Draft;
use crate::handle::Handle;
use crate::holds::Holds;
use crate::ids::Tokens;
use crate::item::{Item, ItemKind};
use crate::part::{Part, ResultPart, ToolCall, ToolResult};
use crate::placeholder::{HeadPercent, placeholder_text, shorten_input, shorten_to_rules, shorten_to_tokens};
use crate::plan::{BudgetInfeasible, KernelItem};
use crate::sequence::Entry;
use crate::summary::SUMMARY_TOKENS_MIN;
use crate::tokens::{CALL_OVERHEAD_TOKENS, Meter};

/// A result in the unit in flight is not shortened below this, or below a share of a small target;
/// where there are many, each may be as short as the least of such shares.
pub(crate) const RESULT_FLOOR_TOKENS: Tokens = Tokens(200);
pub(crate) const RESULT_FLOOR_TOKENS_MIN: Tokens = Tokens(50);
const RESULT_FLOOR_DIVISOR: u64 = 25;

/// The input of a call in flight is not shortened below this share of the target.
const INPUT_FLOOR_DIVISOR: u64 = 25;
const INPUT_FLOOR_TOKENS_MIN: u64 = 100;

/// Each text of the first task is shortened to this, or to a share of a small target, where there
/// is no room for more.
pub(crate) const TASK_TOKENS_MAX: Tokens = Tokens(2_000);
const TASK_TOKENS_MIN: u64 = 100;
const TASK_DIVISOR: u64 = 20;

/// Each text that sets the scene is shortened to this share of the target where there is no room
/// for more.
const SCENE_DIVISOR: u64 = 70;
const SCENE_TOKENS_MIN: u64 = 40;

/// Earlier instructions that one is compared with.
pub const REPEATED_INSTRUCTIONS_MAX: usize = 16;

/// How small the parts of the kernel may become for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floors {
    /// A result in the unit in flight.
    pub result: Tokens,
    /// The input of a call in the unit in flight.
    pub input: Tokens,
    /// A text of the first task.
    pub task: Tokens,
    /// A text of a developer item, or of context given before the first user item. Hosts give both
    /// again when they start a session, so they may shrink to their rules; a system prompt may not.
    pub scene: Tokens,
}

impl Floors {
    /// The floors for a target.
    pub fn for_target(target: Tokens) -> Self {
        let share = |of: u64, min: u64, max: u64| Tokens((target.0 / of).clamp(min, max));
        Self {
            result: share(RESULT_FLOOR_DIVISOR, RESULT_FLOOR_TOKENS_MIN.0, RESULT_FLOOR_TOKENS.0),
            input: share(INPUT_FLOOR_DIVISOR, INPUT_FLOOR_TOKENS_MIN, u64::MAX),
            task: share(TASK_DIVISOR, TASK_TOKENS_MIN, TASK_TOKENS_MAX.0),
            scene: share(SCENE_DIVISOR, SCENE_TOKENS_MIN, u64::MAX),
        }
    }

    /// A part of an item of this kind in the unit in flight at its smallest: a result and a
    /// notification keep head and tail of their text, the input of a call its shape. `None` where the
    /// part is something else, small enough, or signed.
    pub fn in_flight(&self, kind: ItemKind, part: &Part, handle: &Handle, meter: &Meter) -> Option<Part> {
        match part {
            // What another agent reports, say.
            Part::Text(text) if kind == ItemKind::Notification => {
                let floor =
                    Part::text(shorten_to_tokens(text, self.result, HeadPercent::HALF, handle, meter)?);
                (meter.part(&floor) < meter.part(part)).then_some(floor)
            }
            Part::ToolResult(result) => self.result_part(part, result, handle, meter),
            Part::ToolCall(call) if call.signature.is_none() => {
                let input = shorten_input(&call.input, self.input, handle, meter)?;
                let floor = Part::ToolCall(ToolCall { input, ..call.clone() });
                (meter.part(&floor) < meter.part(part)).then_some(floor)
            }
            Part::ToolCall(_)
            | Part::Text(_)
            | Part::Reasoning(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_) => None,
        }
    }

    fn result_part(&self, part: &Part, result: &ToolResult, handle: &Handle, meter: &Meter) -> Option<Part> {
        let tokens = meter.part(part);
        if u64::from(tokens) <= self.result.0 {
            return None;
        }
        let texts: Vec<&str> = result.content.iter().filter_map(ResultPart::as_text).collect();
        let text = texts.join("\n");
        let room = Tokens(self.result.0 - CALL_OVERHEAD_TOKENS);
        let shortened = match text.trim().is_empty() {
            true => placeholder_text(handle, "result", tokens, ""),
            false => shorten_to_tokens(&text, room, HeadPercent::HALF, handle, meter).unwrap_or(text).into(),
        };
        let content = vec![ResultPart::Text(shortened)];
        let floor = Part::ToolResult(ToolResult { content, ..result.clone() });
        (meter.part(&floor) < tokens).then_some(floor)
    }

    /// A part of what set the scene at its smallest: its rules, and its beginning. `None` where it is
    /// small enough.
    pub fn of_scene(&self, part: &Part, handle: &Handle, meter: &Meter) -> Option<Part> {
        let Part::Text(text) = part else { return None };
        let floor = Part::text(shorten_to_rules(text, self.scene, handle, meter)?);
        (meter.part(&floor) < meter.part(part)).then_some(floor)
    }

    /// A part of the first task at its smallest. `None` where it is small enough.
    pub fn of_task(&self, part: &Part, handle: &Handle, meter: &Meter) -> Option<Part> {
        let tokens = meter.part(part);
        let floor = match part {
            Part::Text(text) => {
                Part::text(shorten_to_tokens(text, self.task, HeadPercent::HALF, handle, meter)?)
            }
            Part::Media(media) => Part::Text(placeholder_text(handle, &media.media_type, tokens, "")),
            Part::File(file) => Part::Text(placeholder_text(handle, file.label(), tokens, "")),
            Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Structured(_)
            | Part::Opaque(_) => return None,
        };
        (meter.part(&floor) < tokens).then_some(floor)
    }
}

/// The positions that stay, and what they cost at their smallest.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    positions: BTreeSet<usize>,
    task: Option<usize>,
    /// Those of the positions that set the scene, and may be shortened.
    scene: BTreeSet<usize>,
    /// Room for the smallest summary, where only a summary keeps an assistant item from opening.
    summary_tokens: Tokens,
}

impl Kernel {
    /// System and developer items, context before the first user item, pins, the first task, the
    /// newest user item, the unit in flight; each with its whole unit.
    pub(crate) fn of(draft: &Draft<'_>) -> Self {
        let first_user = draft.turn_starts().next();
        let scene_end = first_user.unwrap_or_else(|| first_speaker(draft));
        let is_member = |position: usize, entry: &Entry| {
            let is_scene = entry.kind() == ItemKind::Context
                && position < scene_end
                && !entry.holds().contains(Holds::SUMMARY);
            entry.kind().is_instruction()
                || is_scene
                || Some(position) == first_user
                || draft.is_protected(position)
        };
        let mut positions = BTreeSet::new();
        let mut instructions: Vec<&Item> = Vec::new();
        for (position, entry) in draft.live().filter(|&(position, entry)| is_member(position, entry)) {
            if entry.kind().is_instruction() && !draft.is_protected(position) {
                let item = &**entry.item();
                if is_repeated(item, &instructions) {
                    continue;
                }
                instructions.push(item);
            }
            positions.extend(draft.unit_members(position).filter(|&member| draft.is_live(member)));
        }
        let mut summary_tokens = Tokens::ZERO;
        if let Some(first) = opened_by_assistant(draft, &positions) {
            match opener(draft, first) {
                Some(position) => {
                    positions.insert(position);
                }
                None if draft.summary_tokens() > Tokens::ZERO => summary_tokens = Tokens(SUMMARY_TOKENS_MIN),
                None => {}
            }
        }
        let sets_scene = |&position: &usize| {
            let kind = draft.item(position).map(|item| item.kind);
            let is_scene = match kind {
                Some(ItemKind::Developer) => true,
                Some(ItemKind::Context) => position < scene_end,
                _ => false,
            };
            is_scene && !draft.is_protected(position)
        };
        let scene = positions.iter().copied().filter(sets_scene).collect();
        Self { positions, task: draft.task(), scene, summary_tokens }
    }

    /// The same, with the first task among what may be folded.
    pub(crate) fn without_task(mut self) -> Self {
        if let Some(task) = self.task.take() {
            self.positions.remove(&task);
        }
        self
    }

    pub(crate) fn contains(&self, position: usize) -> bool {
        self.positions.contains(&position)
    }

    /// The first task, if it may be shortened.
    pub(crate) fn task(&self) -> Option<usize> {
        self.task
    }

    /// What set the scene, as far as it may be shortened.
    pub(crate) fn scene(&self) -> impl Iterator<Item = usize> {
        self.scene.iter().copied()
    }

    /// What that costs now.
    pub(crate) fn scene_tokens(&self, draft: &Draft<'_>) -> Tokens {
        self.scene.iter().map(|&position| draft.tokens_at(position)).sum()
    }

    /// What the kernel costs at its smallest, if that is more than `target`.
    pub(crate) fn exceeds(&self, draft: &Draft<'_>, target: Tokens) -> Option<BudgetInfeasible> {
        let floors = Floors::for_target(target);
        let tokens_of = |&position: &usize| self.tokens_at_smallest(draft, &floors, position);
        let kernel_tokens = self.positions.iter().map(tokens_of).sum::<Tokens>() + self.summary_tokens;
        if kernel_tokens <= target {
            return None;
        }
        let name = |position: &usize| {
            let item = draft.item(*position)?;
            Some(KernelItem { id: item.id.clone(), kind: item.kind, tokens: tokens_of(position) })
        };
        let mut kernel: Vec<KernelItem> = self.positions.iter().filter_map(name).collect();
        kernel.sort_by(|a, b| b.tokens.cmp(&a.tokens).then_with(|| a.id.cmp(&b.id)));
        Some(BudgetInfeasible { kernel, kernel_tokens, target })
    }

    fn tokens_at_smallest(&self, draft: &Draft<'_>, floors: &Floors, position: usize) -> Tokens {
        let smallest = |part_index: usize, part: &Part| {
            if self.task == Some(position) {
                floors.of_task(part, &draft.part_handle(position, part_index), draft.meter())
            } else if self.scene.contains(&position) {
                floors.of_scene(part, &draft.part_handle(position, part_index), draft.meter())
            } else if draft.unit_in_flight().contains(&position) && !is_pinned(draft, position) {
                let handle = draft.part_handle(position, part_index);
                draft
                    .item(position)
                    .and_then(|item| floors.in_flight(item.kind, part, &handle, draft.meter()))
            } else {
                None
            }
        };
        let saved = |(part_index, part): (usize, &Part)| {
            let now = draft.part_tokens(position, part_index);
            smallest(part_index, part).map_or(0, |part| now.saturating_sub(draft.meter().part(&part)))
        };
        let saved: u64 = draft.parts(position).map(|part| u64::from(saved(part))).sum();
        draft.tokens_at(position).saturating_sub(Tokens(saved))
    }
}

/// Hosts that compact by themselves give their instructions again, word for word: once is enough.
fn is_repeated(item: &Item, earlier: &[&Item]) -> bool {
    let newest = earlier.iter().rev().take(REPEATED_INSTRUCTIONS_MAX);
    newest.into_iter().any(|other| other.kind == item.kind && other.parts == item.parts)
}

fn is_pinned(draft: &Draft<'_>, position: usize) -> bool {
    draft.item(position).is_some_and(Item::is_pinned)
}

/// The first live item that is neither an instruction nor context.
fn first_speaker(draft: &Draft<'_>) -> usize {
    let speaks = |entry: &Entry| !entry.kind().is_instruction() && entry.kind() != ItemKind::Context;
    draft.live().find(|(_, entry)| speaks(entry)).map_or(draft.len(), |(position, _)| position)
}

/// The first item that would be sent, if it is not one that may open a conversation.
fn opened_by_assistant(draft: &Draft<'_>, positions: &BTreeSet<usize>) -> Option<usize> {
    let is_spoken = |&position: &usize| {
        let kind = draft.item(position).map(|item| item.kind);
        draft.tokens_at(position) > Tokens::ZERO && kind.is_some_and(|kind| !kind.is_instruction())
    };
    let first = positions.iter().copied().find(is_spoken)?;
    let kind = draft.item(first).map(|item| item.kind);
    kind.is_some_and(|kind| !kind.has_user_authority()).then_some(first)
}

/// The nearest item before `first` that has a user's authority, because a provider may reject a
/// conversation that an assistant opens.
fn opener(draft: &Draft<'_>, first: usize) -> Option<usize> {
    let may_open = |&(position, entry): &(usize, &Entry)| {
        entry.kind().has_user_authority()
            && !entry.holds().contains(Holds::SUMMARY)
            && draft.tokens_at(position) > Tokens::ZERO
    };
    let earlier = draft.live().take_while(|&(position, _)| position < first);
    earlier.filter(may_open).last().map(|(position, _)| position)
}
