//! Repairs of calls and their results: ids, places, order.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::Rule;
use super::super::pairing::{Call, CallPlace, Displaced, Home};
use super::bench::Bench;
use crate::ids::CallId;
use crate::item::ItemKind;
use crate::part::{Part, ToolResult};

const NO_RESULT: &str = "no result was recorded for this call";

/// Gives a repeated call id a number, in the call and in its result.
pub(super) fn rename_repeats(bench: &mut Bench) {
    let repeats: Vec<(CallId, CallPlace, Option<CallPlace>)> = bench.with_pairing(|pairing| {
        let repeats = pairing.calls.iter().filter(|call| pairing.needs_other_id(call));
        repeats.map(|call| (call.id.clone(), call.place, call.answer.map(|answer| answer.place))).collect()
    });
    for (call_id, call_place, result_place) in repeats {
        let fresh = bench.fresh_call_id(&call_id);
        for place in [Some(call_place), result_place].into_iter().flatten() {
            let detail = format!("renamed call {call_id} to {fresh}");
            let item = bench.rewrite(place.item_index, Rule::DuplicateCallId, detail);
            match &mut item.parts[place.part_index] {
                Part::ToolCall(call) => call.id = fresh.clone(),
                Part::ToolResult(result) => result.call_id = fresh.clone(),
                Part::Text(_)
                | Part::Reasoning(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Structured(_)
                | Part::Opaque(_) => debug_assert!(false, "a pair is a call and a result"),
            }
        }
    }
}

/// A result that is missing or stands too far from its call.
struct Homeless {
    call_id: CallId,
    call_place: CallPlace,
    found: Option<CallPlace>,
    home: Home,
}

impl Homeless {
    fn rule(&self) -> Rule {
        match self.found {
            None => Rule::UnansweredCall,
            Some(_) => Rule::ResultNotAdjacent,
        }
    }

    fn detail(&self) -> String {
        match self.found {
            None => format!("answered call {} with an error: it has no result", self.call_id),
            Some(_) => format!("moved the result of call {} up to its message", self.call_id),
        }
    }
}

/// Changes to the parts of one item, each at the index of a part as it was.
type PartEdits = Vec<(usize, PartEdit)>;

enum PartEdit {
    Take,
    PutBefore(Part),
}

/// Moves distant results next to their message, and makes up the missing ones.
pub(super) fn bring_home(bench: &mut Bench) {
    let homeless: Vec<Homeless> = bench.with_pairing(|pairing| {
        let of_call = |(call, home): (&Call<'_>, Home)| Homeless {
            call_id: call.id.clone(),
            call_place: call.place,
            found: call.answer.map(|answer| answer.place),
            home,
        };
        pairing.homeless().map(of_call).collect()
    });
    let mut movable = movable_items(bench, &homeless);
    let mut edits: BTreeMap<usize, (Rule, PartEdits)> = BTreeMap::new();
    let mut edit = |item_index: usize, rule: Rule, part_index: usize, edit: PartEdit| {
        edits.entry(item_index).or_insert_with(|| (rule, Vec::new())).1.push((part_index, edit));
    };
    for result in &homeless {
        let rule = result.rule();
        if let (Some(found), Home::After { item_index }) = (result.found, result.home)
            && let Some(is_moved) = movable.get_mut(&found.item_index)
        {
            if !std::mem::replace(is_moved, true) {
                bench.move_item(found.item_index, item_index + 1, rule, result.detail());
            }
            continue;
        }
        let part = match result.found {
            None => Part::ToolResult(ToolResult::error(result.call_id.clone(), NO_RESULT)),
            Some(found) => {
                edit(found.item_index, rule, found.part_index, PartEdit::Take);
                bench.item(found.item_index).parts[found.part_index].clone()
            }
        };
        match result.home {
            Home::After { item_index } => {
                let source = Arc::clone(bench.item(result.found.unwrap_or(result.call_place).item_index));
                bench.insert(item_index + 1, &source, ItemKind::Tool, vec![part], rule, result.detail());
            }
            Home::Before(place) => edit(place.item_index, rule, place.part_index, PartEdit::PutBefore(part)),
        }
    }
    for (item_index, (rule, edits)) in edits {
        edit_parts(bench, item_index, rule, edits);
    }
}

/// Items that hold nothing but results with one new home: they move as they are. The value says
/// whether it has been done.
fn movable_items(bench: &Bench, homeless: &[Homeless]) -> BTreeMap<usize, bool> {
    let mut homes: BTreeMap<usize, Vec<Home>> = BTreeMap::new();
    for result in homeless {
        if let Some(found) = result.found {
            homes.entry(found.item_index).or_default().push(result.home);
        }
    }
    homes.retain(|item_index, homes| {
        let goes_whole = bench.item(*item_index).parts.len() == homes.len();
        goes_whole && homes.iter().all(|home| *home == homes[0] && matches!(home, Home::After { .. }))
    });
    homes.into_keys().map(|item_index| (item_index, false)).collect()
}

fn edit_parts(bench: &mut Bench, item_index: usize, rule: Rule, mut edits: PartEdits) {
    edits.sort_by_key(|(part_index, _)| *part_index);
    let item = Arc::clone(bench.item(item_index));
    let mut edits = edits.into_iter().peekable();
    let mut parts = Vec::with_capacity(item.parts.len());
    for (part_index, part) in item.parts.iter().enumerate() {
        let mut is_kept = true;
        while let Some((_, edit)) = edits.next_if(|(at, _)| *at == part_index) {
            match edit {
                PartEdit::Take => is_kept = false,
                PartEdit::PutBefore(part) => parts.push(part),
            }
        }
        if is_kept {
            parts.push(part.clone());
        }
    }
    let detail = "brought its results together with their calls".to_owned();
    bench.rewrite(item_index, rule, detail).parts = parts;
}

/// Puts the results of each message in the order of its calls. Items that hold one result each
/// change places; otherwise the results do.
pub(super) fn put_in_order(bench: &mut Bench) {
    let displaced: Vec<Displaced> = bench.with_pairing(|pairing| pairing.out_of_order().collect());
    for of_message in displaced.chunk_by(|a, b| a.message_index == b.message_index) {
        if of_message.iter().all(|one| bench.item(one.found.item_index).parts.len() == 1) {
            for one in of_message {
                let detail = "put in the order of the calls".to_owned();
                bench.move_item(one.wanted.item_index, one.found.item_index, Rule::ResultOrder, detail);
            }
            continue;
        }
        let part_at = |place: CallPlace| bench.item(place.item_index).parts[place.part_index].clone();
        let parts: Vec<(CallPlace, Part)> =
            of_message.iter().map(|one| (one.found, part_at(one.wanted))).collect();
        for (place, part) in parts {
            let detail = "put its results in the order of the calls".to_owned();
            bench.rewrite(place.item_index, Rule::ResultOrder, detail).parts[place.part_index] = part;
        }
    }
}
