//! Reads items before a digest of them is written: what it will look for is found, and kept.

use super::findings::{Findings, PartFindings};
use super::sources::{Author, Depth, author_of, size_of};
use super::words::Said;
use super::{Told, passages, write};
use crate::holds::Holds;
use crate::item::ItemKind;
use crate::part::Part;
use crate::reading::text_of;
use crate::tokens::Meter;

/// An item that a digest will look into, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub(crate) index: usize,
    pub(crate) depth: Depth,
}

impl Reading {
    /// Nothing where a digest looks for nothing in the item.
    pub(crate) fn new(index: usize, depth: Depth, kind: ItemKind, holds: Holds) -> Option<Self> {
        let is_told = depth == Depth::Whole || kind == ItemKind::User || holds.contains(Holds::CHANGE);
        is_told.then_some(Self { index, depth })
    }
}

/// Finds in an item all that a digest will ask for; `asked` says which part of which item a part of
/// it answers.
pub(crate) fn read_ahead<'r>(
    told: &Told<'r>,
    asked: impl Fn(usize) -> Option<(Told<'r>, usize)>,
    meter: &Meter,
) {
    for (part_index, part) in told.item.parts.iter().enumerate() {
        let Some(known) = findings_of(told, part_index) else { continue };
        let author = author_of(told.kind, part);
        match part {
            Part::ToolCall(call) => {
                known.actions(call);
                read_text(known.call_text(part), author, known, meter);
            }
            Part::ToolResult(result) => {
                // A result is about what its call asked for.
                if let Some((caller, place)) = asked(part_index)
                    && let Some(Part::ToolCall(call)) = caller.item.parts.get(place)
                    && let Some(known_of_call) = findings_of(&caller, place)
                {
                    known.outcome(result, known_of_call.actions(call));
                }
                read_text(&text_of(part), author, known, meter);
            }
            _ => {
                let text = text_of(part);
                read_text(&text, author, known, meter);
                if author == Author::User {
                    known.said(|| Said::of(&text));
                } else if author == Author::Agent {
                    known.decisions(|| write::decisions_told(&text));
                }
            }
        }
    }
}

/// What was found in a part, where it is kept.
pub(super) fn findings_of<'r>(told: &Told<'r>, part_index: usize) -> Option<&'r PartFindings> {
    // What an earlier summary says is read anew each time.
    let findings = told.findings.filter(|_| told.item.summary.is_none())?;
    findings.get().part(told.item, part_index, size_of(told.item.parts.get(part_index)?))
}

fn read_text(text: &str, author: Author, known: &PartFindings, meter: &Meter) {
    if !text.trim().is_empty() {
        passages::read_ahead(text, author, known, meter);
    }
}

/// Finds in an item of long ago what a digest will ask for.
pub(crate) fn read_old_ahead(told: &Told<'_>) {
    if told.kind == ItemKind::User {
        for (part_index, part) in told.item.parts.iter().enumerate() {
            if author_of(told.kind, part) == Author::User
                && let Some(known) = findings_of(told, part_index)
            {
                known.said(|| Said::of(&text_of(part)));
            }
        }
    } else if told.holds.contains(Holds::CHANGE) {
        told.findings.map(Findings::get).map(|findings| findings.changes(told.item));
    }
}
