//! Who wrote what in a user's message: hosts put reminders, files and wrappers around commands into it.
//!
//! This is decided here, once, while a format is read, and kept with the item
//! ([`Inserted`](foldback_core::item::Inserted)). A message that a host wrote from beginning to end is no
//! user item: it begins no turn and is nobody's task.

mod hosts;

use std::ops::Range;

use foldback_core::item::Inserted;
use foldback_core::{Item, ItemKind, Part, Tokens};

use crate::lowering::found_summary;

/// Something that hosts write.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    form: Form,
    written: Written,
}

/// What a message is that consists of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Context,
    Notification,
    Summary,
}

/// How it is recognised. All but the last stand at the beginning of a line, or behind something else
/// that was inserted: whoever mentions a tag in a sentence typed it.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// An element with this name, with or without attributes; or with this attribute, `name attribute=`.
    Element(&'static str),
    /// The tags of an element whose content the user typed.
    Wrapper(&'static str),
    /// From a line that begins so to the last line that begins so: the user's words follow.
    Preamble(&'static str, &'static str),
    /// From a line that begins so to the end of the message.
    Rest(&'static str),
    /// A line that begins and ends so.
    Line(&'static str, &'static str),
    /// A text that begins so.
    Opening(&'static str),
}

/// A stretch that a row describes.
struct Found {
    row: &'static Row,
    span: Range<usize>,
}

/// Who writes summaries that are known by how agents begin them.
const BY: &str = "agent";

/// An item as it was read, with what in it no user typed. A user item of which nothing is the user's becomes
/// what its host made it.
pub(crate) fn attributed(mut item: Item) -> Item {
    if item.kind != ItemKind::User || item.summary.is_some() {
        return item;
    }
    let Attribution { inserted, written, .. } = Attribution::of(&item.parts);
    match written {
        Some(Written::Context) => item.kind = ItemKind::Context,
        Some(Written::Notification) => item.kind = ItemKind::Notification,
        Some(Written::Summary) => return found_summary(item, BY, 0, Tokens::ZERO),
        None => item.inserted = inserted,
    }
    item
}

/// Whether an item with a user's authority says by its own text what it is: it needs no tag.
pub(crate) fn marks_itself(item: &Item) -> bool {
    let written = match item.kind {
        ItemKind::Context if item.summary.is_some() => Written::Summary,
        ItemKind::Context => Written::Context,
        ItemKind::Notification => Written::Notification,
        _ => return false,
    };
    Attribution::of(&item.parts).written == Some(written)
}

/// Who wrote what in the parts of a message.
#[derive(Default)]
struct Attribution {
    inserted: Vec<Inserted>,
    /// What the message is where no part of it is the user's.
    written: Option<Written>,
}

impl Attribution {
    fn of(parts: &[Part]) -> Self {
        let mut all = Self::default();
        let (mut has_typed, mut is_rest) = (false, false);
        for (part_index, part) in parts.iter().enumerate() {
            let Part::Text(text) = part else {
                // Pictures and documents were attached by somebody.
                has_typed = true;
                continue;
            };
            let found = if is_rest { Vec::new() } else { find(text) };
            let is_typed = !is_rest && gaps(text, &found).any(|gap| !gap.trim().is_empty());
            has_typed |= is_typed;
            // Between the same tags may stand what the user typed, or what imitates it: nobody's words then.
            if is_rest || (is_typed && is_enclosed(text, &found)) {
                all.inserted.push(Inserted { part_index, span: 0..text.len() });
            } else {
                let spans = found.iter().map(|found| found.span.clone());
                all.inserted.extend(spans.map(|span| Inserted { part_index, span }));
            }
            is_rest |= found.iter().any(|found| matches!(found.row.form, Form::Rest(_)));
            all.written = found.iter().fold(all.written, |written, found| joined(written, found.row.written));
        }
        all.written = all.written.filter(|_| !has_typed);
        all
    }
}

/// What two things make of a message together.
fn joined(one: Option<Written>, other: Written) -> Option<Written> {
    match one {
        None => Some(other),
        Some(one) if one == other => Some(one),
        Some(_) => Some(Written::Context),
    }
}

/// A text without what was found in it.
fn gaps<'t>(text: &'t str, found: &[Found]) -> impl Iterator<Item = &'t str> {
    let starts = std::iter::once(0).chain(found.iter().map(|found| found.span.end));
    let ends = found.iter().map(|found| found.span.start).chain([text.len()]);
    starts.zip(ends).map(|(start, end)| &text[start..end])
}

/// Whether a text begins and ends with elements of the same name.
fn is_enclosed(text: &str, found: &[Found]) -> bool {
    let (Some(first), Some(last)) = (found.first(), found.last()) else { return false };
    matches!(first.row.form, Form::Element(_))
        && first.row == last.row
        && text[..first.span.start].trim().is_empty()
        && text[last.span.end..].trim().is_empty()
}

/// Everything in a text that a row describes, in order.
fn find(text: &str) -> Vec<Found> {
    let begun = text.trim_start();
    if let Some(row) =
        hosts::rows().find(|row| matches!(row.form, Form::Opening(start) if begun.starts_with(start)))
    {
        return vec![Found { row, span: 0..text.len() }];
    }
    let mut search = Search { text, unclosed: Vec::new(), open: Vec::new() };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        // What stands between fences was pasted.
        if let Some(end) = fenced(&text[at..]) {
            at += end;
            continue;
        }
        let start = text.len() - text[at..].trim_start_matches([' ', '\t']).len();
        let line_end = memchr::memchr(b'\n', &text.as_bytes()[start..]).map_or(text.len(), |end| start + end);
        let line = start..line_end;
        let next =
            search.at(start).or_else(|| search.wrapper_end(line.clone())).or_else(|| search.at_end(line));
        at = next.as_ref().map_or(line_end + 1, |next| next.span.end);
        found.extend(next);
    }
    found
}

/// Where the block of code ends that a line begins, if it does end.
fn fenced(text: &str) -> Option<usize> {
    let fence = text.trim_start_matches([' ', '\t']).strip_prefix("```")?;
    let inside = text.len() - fence.len();
    let mut ends = fence.match_indices("\n").map(|(at, _)| inside + at + 1);
    let end = ends.find(|&line| text[line..].trim_start_matches([' ', '\t']).starts_with("```"))?;
    Some(memchr::memchr(b'\n', &text.as_bytes()[end..]).map_or(text.len(), |line| end + line + 1))
}

/// A tag and its attributes are no longer than this.
const TAG_BYTES_MAX: usize = 1_000;

struct Search<'t> {
    text: &'t str,
    /// Elements that no later tag closes.
    unclosed: Vec<&'static str>,
    /// Wrappers that wait for their end.
    open: Vec<(&'static Row, &'static str)>,
}

impl Search<'_> {
    /// What begins here.
    fn at(&mut self, start: usize) -> Option<Found> {
        let rest = &self.text[start..];
        hosts::rows().find_map(|row| {
            let end = match row.form {
                Form::Element(name) => self.element(start, name)?,
                Form::Wrapper(name) => {
                    let end = tag_end(rest, name)?;
                    if !self.open.iter().any(|(_, open)| *open == name) {
                        self.open.push((row, name));
                    }
                    start + end
                }
                Form::Preamble(opening, closing) if rest.starts_with(opening) => {
                    let last = rest.rmatch_indices(closing).find(|(at, _)| rest[..*at].ends_with('\n'));
                    last.map_or(self.text.len(), |(at, _)| start + at + closing.len())
                }
                Form::Rest(opening) if rest.starts_with(opening) => self.text.len(),
                Form::Line(opening, closing) if rest.starts_with(opening) => {
                    let line = rest.lines().next().filter(|line| line.trim_end().ends_with(closing))?;
                    start + line.len() + cut_element(&rest[line.len()..])
                }
                Form::Preamble(..) | Form::Rest(_) | Form::Line(..) | Form::Opening(_) => return None,
            };
            Some(Found { row, span: start..end })
        })
    }

    /// An element whose opening tag ends a line: hosts append such blocks to what was typed.
    fn at_end(&mut self, line: Range<usize>) -> Option<Found> {
        let content = self.text[line.clone()].trim_end();
        let start = line.start + content.rfind('<').filter(|_| content.ends_with('>'))?;
        hosts::rows().find_map(|row| {
            let Form::Element(name) = row.form else { return None };
            let end = self.element(start, name)?;
            let is_closed = self.text[..end].ends_with('>') && end > line.start + content.len();
            is_closed.then_some(Found { row, span: start..end })
        })
    }

    /// The end of a wrapper that was opened before.
    fn wrapper_end(&mut self, line: Range<usize>) -> Option<Found> {
        let content = &self.text[line.clone()];
        let closed = self.open.iter().enumerate().filter_map(|(place, (_, name))| {
            let closing = format!("</{name}>");
            Some((content.find(&closing)?, place, closing.len()))
        });
        let (at, place, length) = closed.min()?;
        let (row, _) = self.open.remove(place);
        let start = line.start + at;
        Some(Found { row, span: start..start + length })
    }

    /// Where the element ends that begins here. Without a closing tag it goes on to the end of the text,
    /// unless its tag only begins a sentence.
    fn element(&mut self, start: usize, opening: &'static str) -> Option<usize> {
        let rest = &self.text[start..];
        let tag_end = tag_end(rest, opening)?;
        let name = match opening.strip_suffix('=') {
            Some(attributed) => attributed.split(' ').next().unwrap_or(attributed),
            None => opening,
        };
        let closing = format!("</{name}>");
        let close = match self.unclosed.contains(&opening) {
            true => None,
            false => rest[tag_end..].find(&closing),
        };
        let Some(close) = close else {
            if !self.unclosed.contains(&opening) {
                self.unclosed.push(opening);
            }
            return (!rest[tag_end..].starts_with(' ')).then_some(self.text.len());
        };
        let mut end = tag_end + close + closing.len();
        // Another end without a beginning: what the host inserted had such a tag within.
        while let Some(stray) = rest[end..].find(&closing) {
            let stray_end = end + stray + closing.len();
            let is_begun = rest[end..end + stray].contains(&format!("<{name}"));
            let ends_line = rest[stray_end..].chars().next().is_none_or(|next| next == '\n' || next == '\r');
            if is_begun || !ends_line {
                break;
            }
            end = stray_end;
        }
        Some(start + end)
    }
}

/// How long the rest is of an element whose beginning was cut out of a message.
fn cut_element(rest: &str) -> usize {
    let elements = hosts::rows().filter_map(|row| {
        let Form::Element(name) = row.form else { return None };
        let end =
            rest.find(&format!("\n</{name}>")).filter(|&end| !rest[..end].contains(&format!("<{name}")))?;
        Some(end + "\n</>".len() + name.len())
    });
    elements.max().unwrap_or(0)
}

/// Where the opening tag ends that a text begins with.
fn tag_end(text: &str, opening: &str) -> Option<usize> {
    let rest = text.strip_prefix('<')?.strip_prefix(opening)?;
    let has_name = opening.ends_with('=') || rest.starts_with('>') || rest.starts_with(char::is_whitespace);
    let attributes = memchr::memchr(b'>', rest.as_bytes()).filter(|&end| has_name && end <= TAG_BYTES_MAX)?;
    Some(text.len() - rest.len() + attributes + 1)
}

#[cfg(test)]
mod tests;
