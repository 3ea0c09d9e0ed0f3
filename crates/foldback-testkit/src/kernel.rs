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
    let arrives_meanwhile = |item: &Item| {
        use ItemKind::{Context, Developer, Notification, System};
        item.parts.is_empty() || matches!(item.kind, System | Developer | Context | Notification)
    };
    let is_step = |item: &Item| match item.kind {
        ItemKind::Tool => item.parts.iter().any(|part| matches!(part, Part::ToolResult(_))),
        ItemKind::Assistant => item.parts.iter().any(|part| matches!(part, Part::ToolCall(_))),
        _ => false,
    };
    let newest =
        (0..items.len()).rev().find(|&i| !arrives_meanwhile(items[i])).filter(|&i| is_step(items[i]));
    let Some(first) = first_waiting(items).or(newest) else { return items.len() };
    let is_cut =
        |cut: usize| (0..cut).all(|before| (cut..items.len()).all(|after| unit_of[before] != unit_of[after]));
    (0..=first).rev().find(|&cut| is_cut(cut)).unwrap_or(0)
}

/// The first item with a call that waits: behind it nothing that each provider is sent stands but calls, and
/// then results of calls.
fn first_waiting(items: &[&Item]) -> Option<usize> {
    let mut open: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut answers = vec![false; items.len()];
    for (index, item) in items.iter().enumerate() {
        let mut answered = Vec::new();
        for part in &item.parts {
            match part {
                Part::ToolCall(call) => open.entry(&call.id).or_default().push(index),
                Part::ToolResult(result) => {
                    answered.push(open.get_mut(&*result.call_id).and_then(Vec::pop).is_some());
                }
                _ => {}
            }
        }
        answers[index] = item.kind == ItemKind::Tool && !answered.is_empty() && !answered.contains(&false);
    }
    let is_sent = |&i: &usize| match items[i].kind {
        ItemKind::System | ItemKind::Developer => false,
        ItemKind::Tool => items[i].results().next().is_some(),
        _ => items[i].parts.iter().any(|part| !matches!(part, Part::Text(text) if text.is_empty())),
    };
    let has_calls = |&i: &usize| items[i].kind == ItemKind::Assistant && items[i].calls().next().is_some();
    let waits = |&i: &usize| {
        let behind = (i + 1..items.len()).filter(is_sent);
        behind.skip_while(has_calls).all(|later| answers[later])
    };
    let mut calling: Vec<usize> = open.into_values().flatten().collect();
    calling.sort_unstable();
    calling.into_iter().find(waits)
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
