//! Shapes: one line per item, for people, snapshots and dry runs.

use std::fmt::Write;

use crate::edit::Edit;
use crate::part::Part;
use crate::placeholder::one_line;
use crate::plan::Plan;
use crate::sequence::{Entry, Sequence};

/// Characters of text in a shape's line.
const PREVIEW_CHARACTERS_MAX: usize = 40;

/// Characters of a call's id; some agents join several ids to one of eighty.
const ID_CHARACTERS_MAX: usize = 32;

impl Sequence {
    /// One line per item: position, kind, tokens, parts.
    pub fn shape(&self) -> String {
        let mut shape = String::new();
        for (position, entry) in self.iter().enumerate() {
            push_line(&mut shape, ' ', position, entry);
        }
        shape
    }
}

impl Plan {
    /// One line per item of the view with what would become of it: kept ` `, rewritten `~`, dropped
    /// `-`, folded `S`; then one line per edit with its reason.
    pub fn shape(&self) -> String {
        let mut shape = String::new();
        for (position, entry) in self.view().iter().enumerate() {
            push_line(&mut shape, self.mark(entry), position, entry);
        }
        for edit in self.edits() {
            // Writing into a string cannot fail.
            let _ = match edit {
                Edit::Drop(drop) => writeln!(shape, "- {:?} {}", drop.range, drop.reason),
                Edit::Rewrite(rewrite) => {
                    let (item, part, tokens) = (rewrite.item_index, rewrite.part_index, rewrite.tokens);
                    writeln!(shape, "~ {item}.{part} now {tokens}t, {} {}", rewrite.handle, rewrite.reason)
                }
                Edit::Fold(fold) => {
                    let (before, max) = (fold.tokens_before, fold.spec.tokens_max);
                    let (range, handle, reason) = (&fold.range, &fold.handle, &fold.reason);
                    writeln!(shape, "S {range:?} {before}t, a summary of at most {max}t, {handle} {reason}")
                }
            };
        }
        shape
    }

    fn mark(&self, entry: &Entry) -> char {
        let index = entry.span().start;
        let marks = self.edits().iter().map(|edit| match edit {
            Edit::Drop(drop) if drop.range.contains(&index) => '-',
            Edit::Rewrite(rewrite) if rewrite.item_index == index => '~',
            Edit::Fold(fold) if fold.hides(index) => 'S',
            Edit::Drop(_) | Edit::Rewrite(_) | Edit::Fold(_) => ' ',
        });
        marks.into_iter().find(|&mark| mark != ' ').unwrap_or(' ')
    }
}

fn push_line(shape: &mut String, mark: char, position: usize, entry: &Entry) {
    let item = entry.item();
    let pin = if item.is_pinned() { " pinned" } else { "" };
    let kind = if item.summary.is_some() { "summary" } else { item.kind.as_str() };
    let _ = write!(shape, "{mark}{position:>4} {kind:<12} {:>7}t{pin}", entry.tokens().total);
    for part in &item.parts {
        let _ = match part {
            Part::Text(text) => write!(shape, " {:?}", preview(text)),
            Part::Reasoning(_) => write!(shape, " reasoning"),
            Part::ToolCall(call) => write!(shape, " call:{}({})", call.name, short_id(&call.id)),
            Part::ToolResult(result) => {
                let failed = if result.is_error { "!" } else { "" };
                let id = short_id(&result.call_id);
                write!(shape, " result{failed}({id}) {:?}", preview(result.first_line()))
            }
            Part::Media(media) => write!(shape, " {}", media.media_type),
            Part::File(file) => write!(shape, " file:{}", file.label()),
            Part::Structured(json) => write!(shape, " json {:?}", preview(json.as_str())),
            Part::Opaque(opaque) => write!(shape, " opaque:{}", opaque.source),
        };
    }
    shape.push('\n');
}

fn preview(text: &str) -> String {
    shortened(one_line(text.trim_start()), PREVIEW_CHARACTERS_MAX)
}

fn short_id(id: &str) -> String {
    shortened(id.to_owned(), ID_CHARACTERS_MAX)
}

fn shortened(text: String, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Item;

    #[test]
    fn a_long_id_leaves_room_on_its_line() {
        let id = format!("call_{}|fc_{}", "a".repeat(24), "b".repeat(50));
        let call = Item::assistant("a", vec![Part::call(id.as_str(), "ls", &serde_json::json!({}))]);
        let transcript: crate::Transcript = [call].into_iter().collect();
        let shape = transcript.shape();
        assert!(shape.contains("call:ls(call_aaaaaaaaaaaaaaaaaaaaaaaa|fc…)"), "{shape}");
    }
}
