//! What the ladder must keep, computed again and differently: the oracle for `BudgetInfeasible`.
//!
//! It shares nothing with core's kernel but the floors, which say what a shortened part looks like,
//! because their wording is the fact to be counted.

use std::collections::{BTreeMap, BTreeSet};

use foldback_core::kernel::{Floors, REPEATED_INSTRUCTIONS_MAX};
use foldback_core::{Handle, Item, ItemKind, Meter, Part, Tokens, Transcript};

/// What the items that must stay cost at their smallest for a target.
pub fn kernel_tokens(transcript: &Transcript, target: Tokens) -> Tokens {
    let floors = Floors::for_target(target);
    let items: Vec<&Item> = transcript.items().map(|item| &**item).collect();
    let unit_of = units(&items);
    let users: Vec<usize> = (0..items.len()).filter(|&i| items[i].kind == ItemKind::User).collect();
    let in_flight = in_flight_start(&items, &unit_of);
    let mut kept: BTreeSet<usize> =
        (0..items.len()).filter(|&i| must_stay(&items, i, &users, in_flight)).collect();
    let units_kept: BTreeSet<usize> = kept.iter().map(|&i| unit_of[i]).collect();
    kept.extend((0..items.len()).filter(|&i| units_kept.contains(&unit_of[i])));
    add_opener(&items, &mut kept);
    let newest_user = users.last().copied();
    let scene_end = users.first().copied().unwrap_or_else(|| speaks_first(&items));
    let cost = |&i: &usize| {
        let sets_scene =
            items[i].kind == ItemKind::Developer || (items[i].kind == ItemKind::Context && i < scene_end);
        if sets_scene && !items[i].is_pinned() && i < in_flight {
            return smallest(transcript, i, |part, handle, meter| floors.of_scene(part, handle, meter));
        }
        let is_begun = items[i..].iter().any(|item| item.kind == ItemKind::Assistant);
        let is_task = users.first() == Some(&i)
            && (is_begun || newest_user != Some(i))
            && !items[i].is_pinned()
            && i < in_flight;
        let is_in_flight = i >= in_flight && !items[i].is_pinned();
        smallest(transcript, i, |part, handle, meter| match (is_task, is_in_flight) {
            (true, _) => floors.of_task(part, handle, meter),
            (_, true) => floors.in_flight(items[i].kind, part, handle, meter),
            _ => None,
        })
    };
    kept.iter().map(cost).sum()
}

fn must_stay(items: &[&Item], index: usize, users: &[usize], in_flight: usize) -> bool {
    let item = items[index];
    let scene_end = users.first().copied().unwrap_or_else(|| speaks_first(items));
    (matches!(item.kind, ItemKind::System | ItemKind::Developer) && !is_said_again(items, index))
        || (item.kind == ItemKind::Context && index < scene_end && item.summary.is_none())
        || item.is_pinned()
        || users.first() == Some(&index)
        || users.last() == Some(&index)
        || index >= in_flight
}

fn speaks_first(items: &[&Item]) -> usize {
    let is_scene = |kind| matches!(kind, ItemKind::System | ItemKind::Developer | ItemKind::Context);
    items.iter().position(|item| !is_scene(item.kind)).unwrap_or(items.len())
}

/// Whether one of the newest different instructions before an instruction is the same.
fn is_said_again(items: &[&Item], index: usize) -> bool {
    let mut said: Vec<&Item> = Vec::new();
    let mut is_again = false;
    for item in items[..=index].iter().filter(|item| item.kind.is_instruction() && !item.is_pinned()) {
        let newest = &said[said.len().saturating_sub(REPEATED_INSTRUCTIONS_MAX)..];
        is_again = newest.iter().any(|other| other.kind == item.kind && other.parts == item.parts);
        if !is_again {
            said.push(item);
        }
    }
    is_again
}

/// For each item the smallest index of its unit, by merging until nothing changes.
fn units(items: &[&Item]) -> Vec<usize> {
    let mut unit_of: Vec<usize> = (0..items.len()).collect();
    let mut merge = |a: usize, b: usize| {
        let (from, to) = (unit_of[a].max(unit_of[b]), unit_of[a].min(unit_of[b]));
        unit_of.iter_mut().filter(|unit| **unit == from).for_each(|unit| *unit = to);
    };
    let mut open: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        // Instructions may be sent apart, and items without parts are not sent.
        let is_spoken = |i: &usize| !items[*i].kind.is_instruction() && !items[*i].parts.is_empty();
        let ends_in_thinking = |i: &usize| {
            items[*i].kind == ItemKind::Assistant
                && matches!(items[*i].parts.last(), Some(Part::Reasoning(_)))
        };
        if item.kind == ItemKind::Assistant
            && is_spoken(&index)
            && let Some(thinking) = (0..index).rev().find(is_spoken).filter(ends_in_thinking)
        {
            merge(thinking, index);
        }
        for part in &item.parts {
            match part {
                Part::ToolCall(call) => open.entry(&call.id).or_default().push(index),
                Part::ToolResult(result) => {
                    if let Some(caller) = open.get_mut(&*result.call_id).and_then(Vec::pop) {
                        merge(caller, index);
                    }
                }
                _ => {}
            }
        }
    }
    unit_of
}

/// Where the unit in flight starts; the end if there is none.
fn in_flight_start(items: &[&Item], unit_of: &[usize]) -> usize {
    let is_aside = |kind: ItemKind| matches!(kind, ItemKind::Context | ItemKind::Notification);
    let Some(last) = (0..items.len()).rev().find(|&i| !is_aside(items[i].kind)) else { return items.len() };
    let holds = |is_wanted: fn(&Part) -> bool| items[last].parts.iter().any(is_wanted);
    let waits = match items[last].kind {
        ItemKind::Tool => holds(|part| matches!(part, Part::ToolResult(_))),
        ItemKind::Assistant => holds(|part| matches!(part, Part::ToolCall(_))),
        _ => false,
    };
    if !waits {
        return items.len();
    }
    let is_cut =
        |cut: usize| (0..cut).all(|before| (cut..items.len()).all(|after| unit_of[before] != unit_of[after]));
    let cut_before = |index: usize| (0..=index).rev().find(|&cut| is_cut(cut)).unwrap_or(0);
    let mut start = cut_before(last);
    let mut looked_at = start;
    while looked_at > 0 {
        let previous = looked_at - 1;
        looked_at = cut_before(previous);
        if items[previous].kind == ItemKind::Assistant && has_open_call(items, looked_at..start) {
            start = looked_at;
        } else if !is_aside(items[previous].kind) {
            break;
        }
    }
    start
}

fn has_open_call(items: &[&Item], range: std::ops::Range<usize>) -> bool {
    let mut open: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        for part in &item.parts {
            match part {
                Part::ToolCall(call) => open.entry(&call.id).or_default().push(index),
                Part::ToolResult(result) => {
                    open.get_mut(&*result.call_id).and_then(Vec::pop);
                }
                _ => {}
            }
        }
    }
    open.values().flatten().any(|index| range.contains(index))
}

fn add_opener(items: &[&Item], kept: &mut BTreeSet<usize>) {
    let is_sent = |i: usize| !items[i].parts.is_empty() && !items[i].kind.is_instruction();
    let Some(first) = kept.iter().copied().find(|&i| is_sent(i)) else { return };
    let listens =
        |i: usize| matches!(items[i].kind, ItemKind::User | ItemKind::Context | ItemKind::Notification);
    if !listens(first) {
        kept.extend((0..first).rev().find(|&i| is_sent(i) && listens(i)));
    }
}

fn smallest(
    transcript: &Transcript,
    index: usize,
    floor: impl Fn(&Part, &Handle, &Meter) -> Option<Part>,
) -> Tokens {
    let (meter, item) = (transcript.meter(), transcript.items().nth(index).expect("it is recorded"));
    let parts = item.parts.iter().enumerate().map(|(part_index, part)| {
        let handle = Handle::of_part(index, &item.id, part_index);
        floor(part, &handle, meter).unwrap_or_else(|| part.clone())
    });
    meter.item(&Item::new(item.id.clone(), item.kind, parts.collect())).total
}
