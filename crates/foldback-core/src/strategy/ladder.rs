//! The default policy: rungs of growing loss, stopping at the first that brings the view to its
//! target. No rung needs a model; the summary is better with one.
//!
//! 1. supersede: what was read again, run again or replaced becomes a pointer to what is newer
//! 2. clear old tool outputs and large tool inputs outside the protected tail
//! 3. shorten what is large: head and tail, errors kept; media to placeholders
//! 4. drop reasoning outside the loop in flight
//! 5. fold older units into one summary; an existing one is updated, never stacked
//! 6. shrink the summary and the tail, oldest first, down to the kernel
//! 7. still over: [`BudgetInfeasible`](crate::plan::BudgetInfeasible), naming the kernel
//!
//! A step may free much more than was missing. What the steps after it, or a part of it, would have done
//! without goes back to the view: see [`give_back`].
//!
//! Where the target is a small part of the view, rungs 1 to 3 would clear everything and still leave
//! the rest to be folded: then they only touch the tail, and the summary speaks for what is older. It
//! is chosen from the whole past, which as many tokens of emptied rounds are not.

mod give_back;
mod shorten;

use std::cmp::Reverse;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use self::give_back::give_back;
use self::shorten::shortened;
use super::clear_tool_results::cleared_result;
use super::replace_media::replace_media;
use super::supersede::{Scope, supersede};
use super::truncate_tool_inputs::shorten_inputs;
use super::{Strategy, tail_start};
use crate::budget::Budget;
use crate::draft::{Draft, EmptyItems};
use crate::edit::{Reason, SummaryPlacement, SummarySpec};
use crate::handle::Handle;
use crate::holds::Holds;
use crate::ids::{CallId, Text, Tokens};
use crate::item::{Item, ItemKind};
use crate::kernel::{Floors, Kernel, RESULT_FLOOR_TOKENS_MIN};
use crate::part::Part;
use crate::sequence::Entry;
use crate::summary::SUMMARY_TOKENS_MIN;
use crate::tokens::Meter;
use crate::tools::Action;

const ID: &str = "ladder";

/// Share of the target that the newest items take before rung 2 may touch their results.
const PROTECTED_TAIL_PERCENT: u64 = 40;

/// Results below this are not worth clearing: the placeholder costs nearly as much.
const CLEAR_TOKENS_MIN: u32 = 100;

/// Tool inputs above this are large.
const INPUT_TOKENS_MAX: Tokens = Tokens(400);

/// Results and texts above this are large.
const TEXT_TOKENS_MAX: Tokens = Tokens(1_200);

/// Share of what the kernel leaves that a summary may take; the tail has the rest. What stands in
/// the summary was chosen from the whole past, so it is worth more than as many tokens of tail.
const SUMMARY_PERCENT: u64 = 70;

/// What must stay is shortened until a summary can have this share of the target.
const SUMMARY_PERCENT_MIN: u64 = 40;

/// A summary is not asked to be longer than this share of all that it may stand for. Of little, more has
/// to be told: up to a page.
const SUMMARY_OF_FOLDED_PERCENT_MAX: u64 = 15;
const SUMMARY_OF_LITTLE_PERCENT_MAX: u64 = 60;
const PAGE_TOKENS: u64 = 400;

/// Beside a smaller room even the first task is folded: the summary quotes what it says.
const CRAMPED_TOKENS: Tokens = Tokens(200);
const CRAMPED_TOKENS_MIN: Tokens = Tokens(64);

/// In a smaller room all of it is the summary's: what it does not need is the tail's.
const SHARED_ROOM_TOKENS_MIN: u64 = 800;

/// Below this share of the view the target is reached by folding, not by clearing.
const GENTLE_PERCENT_MIN: u64 = 35;

/// What is in flight, the first task, and what set the scene are shortened where they take a larger
/// share of such a target, so that something is remembered beside them: the digest quotes from what
/// is cut out. What is in flight decides the next step, so it has the largest share.
const IN_FLIGHT_PERCENT_MAX: u64 = 12;
const IN_FLIGHT_OF_TAIL_PERCENT_MAX: u64 = 25;
const TASK_PERCENT_MAX: u64 = 6;
const SCENE_PERCENT_MAX: u64 = 4;

/// In a small target, results and texts above this share of what the tail may take are large.
const TEXT_OF_TAIL_PERCENT_MAX: u64 = 13;
const TAIL_TEXT_TOKENS_MIN: u64 = 160;

/// What can be looked at again is large above this part of that.
const TAIL_LOOK_DIVISOR: u64 = 4;
const TAIL_LOOK_TOKENS_MIN: u64 = 80;

/// The newest items that rung 1 looks at: it reads what they say, and the rungs after it do as well
/// for what is older than that.
const SUPERSEDE_ITEMS_MAX: usize = 8_192;

/// What a cleared result costs at least; how far back a tail can reach at best.
const CLEARED_TOKENS_LEAST: u64 = 24;

/// Works down the rungs until the view is at its budget's target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LadderStrategy {
    #[serde(skip_serializing_if = "Option::is_none")]
    focus: Option<Text>,
    #[serde(skip_serializing_if = "SummaryPlacement::is_default")]
    summary_placement: SummaryPlacement,
}

impl LadderStrategy {
    /// The default policy.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the summary to attend to something.
    #[must_use]
    pub fn focus(mut self, focus: impl Into<Text>) -> Self {
        self.focus = Some(focus.into());
        self
    }

    /// Where the summary stands: before the tail or after it.
    #[must_use]
    pub fn summary_placement(mut self, placement: SummaryPlacement) -> Self {
        self.summary_placement = placement;
        self
    }

    fn spec(&self, tokens_max: Tokens) -> SummarySpec {
        SummarySpec::new(tokens_max).with_focus(self.focus.clone()).with_placement(self.summary_placement)
    }
}

impl Strategy for LadderStrategy {
    fn id(&self) -> &'static str {
        ID
    }

    fn needs_budget(&self) -> bool {
        true
    }

    fn plan(&self, draft: &mut Draft<'_>, budget: Option<&Budget>) {
        let Some(target) = budget.map(Budget::target) else { return };
        if draft.tokens() <= target {
            return;
        }
        if let Some(infeasible) = Kernel::of(draft).exceeds(draft, target) {
            draft.declare_infeasible(infeasible);
            return;
        }
        let mark = draft.mark();
        if target.0.saturating_mul(100) < draft.tokens().0.saturating_mul(GENTLE_PERCENT_MIN) {
            let room = tail_room(draft, target);
            let large = Large::in_tail(room);
            let room = draft.summaries_max().map_or(room, |most| target.saturating_sub(most).max(room));
            shorten_large(draft, target, tail_reach(draft, room, &large), &large);
            leave_room(draft, target);
        } else {
            let reach = reach(draft, target);
            // What stands in a file that was changed since is mostly still true: in the tail it stays.
            let outdated_end = protected_tail_start(draft, target);
            let newest = draft.len().saturating_sub(SUPERSEDE_ITEMS_MAX);
            let scope = Scope { results: reach.max(newest)..draft.len(), outdated_end, target: Some(target) };
            supersede(draft, &scope, ID);
            clear_old(draft, target, reach);
            shorten_large(draft, target, reach, &Large { texts: TEXT_TOKENS_MAX, looks: TEXT_TOKENS_MAX });
        }
        drop_reasoning(draft, target);
        if draft.tokens() > target {
            self.fold_older(draft, target);
        }
        // What a summary leaves unused is for more of the tail before it is for the rest, and how much that
        // is shows when the summary is written: then it is planned once more.
        if !draft.is_folding() || draft.summaries_max().is_some() {
            give_back(draft, target, mark);
        }
        debug_assert!(draft.tokens() <= target, "the kernel fits, so the ladder does");
    }
}

/// What a tail may be made of: a summary behind it takes none of its room.
fn newest_first<'v>(draft: &Draft<'v>) -> impl Iterator<Item = (usize, &'v Entry)> {
    draft.live_rev().filter(|(_, entry)| !entry.is_summary_behind())
}

/// The oldest position that the gentle rungs can save from being folded: even with every result
/// cleared, what stands before it does not fit.
fn reach(draft: &Draft<'_>, target: Tokens) -> usize {
    let mut room = target;
    let mut reach = 0;
    for (position, entry) in newest_first(draft) {
        let least = match entry.kind() {
            ItemKind::Tool => Tokens(CLEARED_TOKENS_LEAST.min(draft.tokens_at(position).0)),
            _ if entry.holds().intersects(Holds::CALL | Holds::REASONING | Holds::MEDIA) => {
                Tokens(CLEARED_TOKENS_LEAST)
            }
            _ => Tokens(draft.tokens_at(position).0.min(TEXT_TOKENS_MAX.0)),
        };
        if least > room {
            reach = position + 1;
            break;
        }
        room = room.saturating_sub(least);
    }
    reach
}

/// What earlier summaries stand for, as it was recorded.
fn summarised(draft: &Draft<'_>) -> Tokens {
    let summaries = draft.view().holding(0..draft.len(), Holds::SUMMARY);
    summaries
        .filter_map(|position| draft.item(position)?.summary.as_ref())
        .map(|origin| origin.tokens_before)
        .sum()
}

fn share(tokens: Tokens, percent: u64) -> Tokens {
    Tokens(tokens.0 * percent / 100)
}

/// What the texts of a tail are shortened to fit. No more where a summary may leave more: what is cut out
/// has to be told, and with everything cut there is none to tell it. A summary that is written has told it.
fn tail_room(draft: &Draft<'_>, target: Tokens) -> Tokens {
    let left = draft.summaries_written().map(|written| target.saturating_sub(written));
    left.unwrap_or_default().max(share(target, 100 - SUMMARY_PERCENT))
}

/// The oldest position that may be part of a tail once large texts are shortened.
fn tail_reach(draft: &Draft<'_>, mut room: Tokens, large: &Large) -> usize {
    for (position, _) in newest_first(draft) {
        let tokens = draft.tokens_at(position).min(large.texts);
        if tokens > room {
            return position + 1;
        }
        room = room.saturating_sub(tokens);
    }
    0
}

/// Rung 2: clears results and shortens inputs outside the protected tail, oldest first.
fn clear_old(draft: &mut Draft<'_>, target: Tokens, reach: usize) {
    let tail_start = protected_tail_start(draft, target);
    let old = (reach..tail_start).zip(draft.view().range(reach..tail_start));
    for (position, entry) in old {
        if draft.tokens() <= target {
            return;
        }
        if entry.holds().contains(Holds::CALL) && entry.tokens().total > INPUT_TOKENS_MAX {
            shorten_inputs(draft, position, INPUT_TOKENS_MAX, ID);
        }
        if entry.holds().contains(Holds::RESULT) {
            clear_results(draft, position);
        }
    }
}

fn clear_results(draft: &mut Draft<'_>, position: usize) {
    let is_worth_it = |&(part_index, part): &(usize, &Part)| {
        matches!(part, Part::ToolResult(_)) && draft.part_tokens(position, part_index) >= CLEAR_TOKENS_MIN
    };
    let large: Vec<usize> =
        draft.parts(position).filter(is_worth_it).map(|(part_index, _)| part_index).collect();
    for part_index in large {
        if let Some(part) = cleared_result(draft, position, part_index) {
            let reason = Reason::new(ID, "an old tool result, or one that can be had again");
            draft.rewrite(position, part_index, part, reason);
        }
    }
}

fn protected_tail_start(draft: &Draft<'_>, target: Tokens) -> usize {
    let mut room = share(target, PROTECTED_TAIL_PERCENT);
    for (position, _) in newest_first(draft) {
        let tokens = draft.tokens_at(position);
        if tokens > room {
            return position + 1;
        }
        room = room.saturating_sub(tokens);
    }
    0
}

/// What is large.
struct Large {
    /// A result or a text.
    texts: Tokens,
    /// What a look at something showed that can be looked at again.
    looks: Tokens,
}

impl Large {
    /// In the room of a tail beside a summary.
    fn in_tail(room: Tokens) -> Self {
        let texts =
            share(room, TEXT_OF_TAIL_PERCENT_MAX).max(Tokens(TAIL_TEXT_TOKENS_MIN)).min(TEXT_TOKENS_MAX);
        Self { texts, looks: Tokens(texts.0 / TAIL_LOOK_DIVISOR).max(Tokens(TAIL_LOOK_TOKENS_MIN)) }
    }

    fn of(&self, item: &Item, looks: &HashSet<CallId>) -> Tokens {
        let is_look = |part: &Part| match part {
            Part::ToolResult(result) => !result.is_error && looks.contains(&result.call_id),
            _ => false,
        };
        if item.parts.iter().all(is_look) { self.looks } else { self.texts }
    }
}

/// The calls of an item that only look at something.
fn looks_in(item: &Item) -> impl Iterator<Item = CallId> {
    let calls = item.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) if Action::only_look(&Action::of(call)) => Some(call.id.clone()),
        _ => None,
    });
    calls.collect::<Vec<_>>().into_iter()
}

/// Rung 3: shortens large results and texts, replaces media, oldest first. What the user said is
/// left alone here: it is folded whole, or kept.
fn shorten_large(draft: &mut Draft<'_>, target: Tokens, reach: usize, large: &Large) {
    let mut looks: HashSet<CallId> = HashSet::new();
    let positions = (reach..draft.len()).zip(draft.view().range(reach..draft.len()));
    for (position, entry) in positions {
        if draft.tokens() <= target {
            return;
        }
        if entry.holds().contains(Holds::CALL) {
            looks.extend(looks_in(entry.item()));
        }
        let is_spoken = matches!(entry.kind(), ItemKind::User | ItemKind::System | ItemKind::Developer);
        let tokens_max = large.of(entry.item(), &looks);
        if draft.tokens_at(position) > tokens_max && !is_spoken && !entry.holds().contains(Holds::SUMMARY) {
            match tokens_max == large.looks && large.looks < large.texts {
                // Both ends of a file say nothing about it.
                true => clear_results(draft, position),
                false => shorten_texts(draft, position, tokens_max),
            }
            if entry.holds().contains(Holds::CALL) && large.looks < large.texts {
                shorten_inputs(draft, position, tokens_max, ID);
            }
        }
        // Last, because what is replaced is counted with all that stands beside it.
        if entry.holds().contains(Holds::MEDIA) {
            replace_media(draft, position, ID);
        }
    }
}

fn shorten_texts(draft: &mut Draft<'_>, position: usize, tokens_max: Tokens) {
    let meter = draft.meter();
    let shorter = |(part_index, part): (usize, &Part)| {
        let tokens = Tokens(u64::from(draft.part_tokens(position, part_index)));
        let handle = draft.part_handle(position, part_index);
        Some((part_index, shortened(part, tokens, tokens_max, &handle, meter)?))
    };
    let shorter: Vec<_> = draft.parts(position).filter_map(shorter).collect();
    for (part_index, part) in shorter {
        draft.rewrite(position, part_index, part, Reason::new(ID, "large: its beginning and end are kept"));
    }
}

/// Rung 4: drops reasoning, oldest first.
fn drop_reasoning(draft: &mut Draft<'_>, target: Tokens) {
    let reason = Reason::new(ID, "reasoning outside the loop in flight");
    for position in draft.view().with_reasoning() {
        if draft.tokens() <= target {
            return;
        }
        draft.remove_reasoning(position, EmptyItems::Drop, &reason);
    }
}

impl LadderStrategy {
    /// Rungs 5 and 6.
    fn fold_older(&self, draft: &mut Draft<'_>, target: Tokens) {
        let kernel = Kernel::of(draft);
        if self.fold_task(draft, &kernel, target) {
            return;
        }
        if self.fold_to(draft, &kernel, target) {
            return;
        }
        let floors = Floors::for_target(target);
        shorten_task(draft, &kernel, &floors);
        shorten_scene(draft, &kernel, &floors);
        if self.fold_to(draft, &kernel, target) {
            return;
        }
        for (position, part_index) in parts_in_flight(draft) {
            if shorten_in_flight(draft, position, part_index, &floors) && self.fold_to(draft, &kernel, target)
            {
                return;
            }
        }
        let reason = Reason::new(ID, "no room for a summary beside the kernel");
        draft.drop_units_at_last(0..draft.len(), |position, _| kernel.contains(position), reason.clone());
        draft.drop_summaries(reason);
    }

    /// Where a summary beside the first task would have no room to speak of, folds the task with the rest.
    fn fold_task(&self, draft: &mut Draft<'_>, kernel: &Kernel, target: Tokens) -> bool {
        let room =
            |draft: &Draft<'_>, kernel: &Kernel| target.saturating_sub(Foldable::of(draft, kernel).fixed);
        if kernel.task().is_none() || room(draft, kernel) >= CRAMPED_TOKENS {
            return false;
        }
        let kernel = kernel.clone().without_task();
        let room = room(draft, &kernel);
        let keep = |position: usize, _: ItemKind| kernel.contains(position);
        let spec = self.spec(room);
        let reason = Reason::new(ID, "there is no room for a summary beside the first task");
        room >= CRAMPED_TOKENS_MIN
            && draft.refold(0..draft.len(), keep, spec, reason)
            && draft.tokens() <= target
    }

    /// Folds everything before the longest tail that fits beside the kernel and a summary. Returns
    /// whether that brings the draft to the target; where it cannot, nothing changes.
    fn fold_to(&self, draft: &mut Draft<'_>, kernel: &Kernel, target: Tokens) -> bool {
        if draft.tokens() <= target {
            return true;
        }
        let keep = |position: usize, _: ItemKind| kernel.contains(position);
        let Foldable { hideable, fixed, summary_max } = Foldable::of(draft, kernel);
        let room = target.saturating_sub(fixed);
        if room.0 < SUMMARY_TOKENS_MIN {
            return false;
        }
        let percent = if room.0 < SHARED_ROOM_TOKENS_MIN { 100 } else { SUMMARY_PERCENT };
        let summary_tokens = share(room, percent).min(summary_max).max(Tokens(SUMMARY_TOKENS_MIN));
        let split_point = tail_start(draft, &hideable, room.saturating_sub(summary_tokens));
        // What the tail leaves because the next unit is too large for it, the summary takes.
        let tail = hideable.iter().filter(|&&position| position >= split_point);
        let tail_tokens: Tokens = tail.map(|&position| draft.tokens_at(position)).sum();
        let summary_tokens = room.saturating_sub(tail_tokens).min(summary_max).max(summary_tokens);
        let spec = self.spec(summary_tokens);
        let reason = Reason::new(ID, "older than the newest items that fit");
        if !draft.refold(0..split_point, keep, spec, reason.clone()) {
            // Too little to be worth a summary: it goes without one.
            draft.drop_units_at_last(0..split_point, keep, reason);
        }
        draft.tokens() <= target
    }
}

/// What a summary could stand for.
struct Foldable {
    hideable: Vec<usize>,
    /// What the rest costs.
    fixed: Tokens,
    /// A longer summary is not asked for.
    summary_max: Tokens,
}

impl Foldable {
    fn of(draft: &Draft<'_>, kernel: &Kernel) -> Self {
        let hideable = draft.hideable(0..draft.len(), |position, _| kernel.contains(position));
        let tokens: Tokens = hideable.iter().map(|&position| draft.tokens_at(position)).sum();
        let fixed = draft.tokens().saturating_sub(tokens + draft.summary_tokens());
        let little = |tokens: Tokens| share(tokens, SUMMARY_OF_LITTLE_PERCENT_MAX).min(Tokens(PAGE_TOKENS));
        let folded = |tokens: Tokens| share(tokens, SUMMARY_OF_FOLDED_PERCENT_MAX).max(little(tokens));
        // A summary may be all that is left of what it stands for, and not know how much that was.
        let summary_max = folded(tokens + summarised(draft)).max(folded(tokens) + draft.summary_tokens());
        let summary_max = draft.summaries_max().map_or(summary_max, |written| written.min(summary_max));
        Self { hideable, fixed, summary_max }
    }
}

/// Shortens what must stay where it would leave too little room for a summary: what is in flight,
/// what set the scene, and the first task.
fn leave_room(draft: &mut Draft<'_>, target: Tokens) {
    let floors = Floors::for_target(target);
    let kernel = Kernel::of(draft);
    let lacks_room = |draft: &Draft<'_>| {
        let foldable = Foldable::of(draft, &kernel);
        foldable.fixed + foldable.summary_max.min(share(target, SUMMARY_PERCENT_MIN)) > target
    };
    if lacks_room(draft) {
        shorten_all_in_flight(draft, target, &floors);
    }
    while kernel.scene_tokens(draft) > share(target, SCENE_PERCENT_MAX) && lacks_room(draft) {
        if !shorten_largest_of_scene(draft, &kernel, &floors) {
            break;
        }
    }
    let is_long = |task: usize| draft.tokens_at(task) > share(target, TASK_PERCENT_MAX);
    if kernel.task().is_some_and(is_long) && lacks_room(draft) {
        shorten_task(draft, &kernel, &floors);
    }
}

/// Shortens what is in flight to its share of the target.
fn shorten_all_in_flight(draft: &mut Draft<'_>, target: Tokens, floors: &Floors) {
    // Beside a summary that is written, what is newest has a share of what is left.
    let written =
        draft.summaries_written().map(|_| share(tail_room(draft, target), IN_FLIGHT_OF_TAIL_PERCENT_MAX));
    let room = share(target, IN_FLIGHT_PERCENT_MAX).max(written.unwrap_or_default());
    let parts = parts_in_flight(draft);
    let tokens_of = |draft: &Draft<'_>, (position, part_index): (usize, usize)| {
        Tokens(u64::from(draft.part_tokens(position, part_index)))
    };
    let in_flight: Tokens = parts.iter().map(|&part| tokens_of(draft, part)).sum();
    if in_flight <= room {
        return;
    }
    // Small parts leave the rest of their share to the large ones.
    let mut sizes: Vec<Tokens> = parts.iter().map(|&part| tokens_of(draft, part)).collect();
    sizes.sort_unstable();
    let (mut left, mut fair) = (room, room);
    for (position, &size) in sizes.iter().enumerate() {
        fair = Tokens(left.0 / (sizes.len() - position) as u64);
        if size > fair {
            break;
        }
        left = left.saturating_sub(size);
    }
    // Many small answers may be shorter each than one alone.
    let result = fair.max(RESULT_FLOOR_TOKENS_MIN);
    let floors = Floors { result, input: fair.max(floors.input), ..*floors };
    for (position, part_index) in parts {
        shorten_in_flight(draft, position, part_index, &floors);
    }
}

/// The parts of the unit in flight, as position and index.
fn parts_in_flight(draft: &Draft<'_>) -> Vec<(usize, usize)> {
    let parts = |position: usize| draft.parts(position).map(move |(part_index, _)| (position, part_index));
    draft.unit_in_flight().flat_map(parts).collect()
}

fn shorten_in_flight(draft: &mut Draft<'_>, position: usize, part_index: usize, floors: &Floors) -> bool {
    let handle = draft.part_handle(position, part_index);
    // From what the view shows, so that a second step comes as far down as a single one.
    let shortened = draft
        .item(position)
        .and_then(|item| floors.in_flight(item.kind, item.parts.get(part_index)?, &handle, draft.meter()));
    let Some(floor) = shortened else { return false };
    let reason = Reason::new(ID, "in flight, and there is no room for all of it");
    draft.shorten_in_flight(position, part_index, floor, reason)
}

fn shorten_task(draft: &mut Draft<'_>, kernel: &Kernel, floors: &Floors) {
    let Some(position) = kernel.task() else { return };
    let reason = Reason::new(ID, "the first task is longer than fits");
    for (part_index, part) in
        smallest(draft, position, |part, handle, meter| floors.of_task(part, handle, meter))
    {
        draft.shorten_task(position, part_index, part, reason.clone());
    }
}

/// Developer items and context before the first user item: rules and beginning stay.
fn shorten_scene(draft: &mut Draft<'_>, kernel: &Kernel, floors: &Floors) {
    while shorten_largest_of_scene(draft, kernel, floors) {}
}

/// Shortens the longest of what set the scene. Returns whether there was something to shorten.
fn shorten_largest_of_scene(draft: &mut Draft<'_>, kernel: &Kernel, floors: &Floors) -> bool {
    let mut longest_first: Vec<usize> = kernel.scene().collect();
    longest_first.sort_by_key(|&position| Reverse(draft.tokens_at(position)));
    for position in longest_first {
        let reason = Reason::new(ID, "what set the scene is longer than fits; its rules are kept");
        let shorter = smallest(draft, position, |part, handle, meter| floors.of_scene(part, handle, meter));
        let mut is_shorter = false;
        for (part_index, part) in shorter {
            is_shorter |= draft.rewrite_at_last(position, part_index, part, reason.clone());
        }
        if is_shorter {
            return true;
        }
    }
    false
}

/// The parts at `position` that have something smaller, each with it.
fn smallest(
    draft: &Draft<'_>,
    position: usize,
    floor: impl Fn(&Part, &Handle, &Meter) -> Option<Part>,
) -> Vec<(usize, Part)> {
    let floor = |(part_index, part): (usize, &Part)| {
        let handle = draft.part_handle(position, part_index);
        Some((part_index, floor(part, &handle, draft.meter())?))
    };
    draft.parts(position).filter_map(floor).collect()
}

#[cfg(test)]
mod tests;
