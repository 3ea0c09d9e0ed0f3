//! How the parts of an item changed.

use super::DiffError;
use crate::draft::Draft;
use crate::item::Item;
use crate::part::Part;

/// What became of parts: the index of each that changed, and what stands there now.
pub(super) type Changes<'i> = Vec<(usize, Option<&'i Part>)>;

/// The parts of `before` that are others in `after`. Equal parts at both ends stay; between them,
/// parts are replaced in order, by one of their own sort where there is one.
pub(super) fn changes<'i>(before: &Item, after: &'i Item) -> Result<Changes<'i>, DiffError> {
    if let Some(field) = other_field(before, after) {
        return Err(DiffError::Changed { id: after.id.clone(), field });
    }
    let (old, new) = (&before.parts, &after.parts);
    if new.len() > old.len() {
        let (id, count, count_before) = (after.id.clone(), new.len(), old.len());
        return Err(DiffError::PartsAdded { id, count, count_before });
    }
    let same_start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let rest = new.len() - same_start;
    let same_end =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let mut new = &new[same_start..new.len() - same_end];
    let mut changes = Changes::new();
    let mut left = old.len() - same_end - same_start;
    for (part_index, part) in old.iter().enumerate().take(old.len() - same_end).skip(same_start) {
        // As soon as there are as many new parts as old ones, each must take its place.
        let takes = new.first().filter(|new_part| left == new.len() || is_of_a_sort(part, new_part));
        if let Some(new_part) = takes {
            new = &new[1..];
            if new_part != part {
                changes.push((part_index, Some(new_part)));
            }
        } else {
            changes.push((part_index, None));
        }
        left -= 1;
    }
    Ok(changes)
}

fn is_of_a_sort(old: &Part, new: &Part) -> bool {
    match (old, new) {
        (Part::ToolCall(old), Part::ToolCall(new)) => old.id == new.id,
        (Part::ToolResult(old), Part::ToolResult(new)) => old.call_id == new.call_id,
        (
            Part::Text(_)
            | Part::Reasoning(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_)
            | Part::ToolCall(_)
            | Part::ToolResult(_),
            _,
        ) => old.kind_name() == new.kind_name(),
    }
}

/// Whether a part may change where it stands: in the loop in flight, reasoning and signed calls stay
/// byte for byte, and in the unit in flight only results and inputs may be shortened (T4).
pub(super) fn may_change(draft: &Draft<'_>, position: usize, old: &Part, new: Option<&Part>) -> bool {
    let is_signed = old.is_signed();
    if draft.unit_in_flight().contains(&position) {
        return !is_signed
            && match (old, new) {
                (Part::ToolCall(old), Some(Part::ToolCall(new))) => old.id == new.id && old.name == new.name,
                (Part::ToolResult(old), Some(Part::ToolResult(new))) => old.call_id == new.call_id,
                _ => false,
            };
    }
    !(is_signed && draft.loop_in_flight().contains(&position))
}

/// What else than its parts is different, if anything is.
fn other_field(before: &Item, after: &Item) -> Option<&'static str> {
    let Item {
        id: _,
        kind,
        parts: _,
        turn_id,
        created_at,
        usage,
        finish_reason,
        pin,
        cache_marker,
        summary,
        // Who wrote what is the record's to say, not a host's.
        inserted: _,
        metadata,
    } = before;
    let fields = [
        ("kind", *kind == after.kind),
        ("turn", *turn_id == after.turn_id),
        ("time", *created_at == after.created_at),
        ("usage", *usage == after.usage),
        ("finish reason", *finish_reason == after.finish_reason),
        ("pin", *pin == after.pin),
        ("cache marker", *cache_marker == after.cache_marker),
        ("summary", *summary == after.summary),
        ("metadata", *metadata == after.metadata),
    ];
    fields.into_iter().find(|(_, is_same)| !is_same).map(|(field, _)| field)
}
