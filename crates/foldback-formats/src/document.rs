//! Files that are one JSON value: finding pieces of it, and replacing or adding to them without
//! touching the rest.

use std::cell::Cell;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Fault, FormatError, Problem};
use crate::format::Format;

/// Text that is one JSON value.
#[derive(Clone, Debug)]
pub(crate) struct Document<'a> {
    text: &'a str,
    format: Format,
    /// An offset and its line: pieces are mostly asked for in order, and counting on from the last
    /// one keeps a long file from being counted anew for each of them.
    counted: Cell<(usize, usize)>,
}

impl<'a> Document<'a> {
    /// The file as text.
    pub(crate) fn new(bytes: &'a [u8], format: Format) -> Result<Self, FormatError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let line = line_of(bytes, error.valid_up_to());
            FormatError::Broken { format, problem: Problem { line, column: None, fault: Fault::NotUtf8 } }
        })?;
        Ok(Self { text, format, counted: Cell::new((0, 1)) })
    }

    /// All of it as a value.
    pub(crate) fn parse<T: Deserialize<'a>>(&self) -> Result<T, FormatError> {
        let json = self.text.trim_start_matches('\u{feff}');
        serde_json::from_str(json).map_err(|error| self.broken(&error, 0))
    }

    /// A piece of it as a value.
    pub(crate) fn parse_piece<T: Deserialize<'a>>(&self, piece: &'a RawValue) -> Result<T, FormatError> {
        serde_json::from_str(piece.get()).map_err(|error| self.broken(&error, self.offset_of(piece)))
    }

    /// As [`parse_piece`](Self::parse_piece), for pieces that may be passed over.
    pub(crate) fn read_piece<T: Deserialize<'a>>(&self, piece: &'a RawValue) -> Result<T, Problem> {
        serde_json::from_str(piece.get()).map_err(|error| self.problem(&error, self.offset_of(piece)))
    }

    fn broken(&self, error: &serde_json::Error, offset: usize) -> FormatError {
        FormatError::Broken { format: self.format, problem: self.problem(error, offset) }
    }

    fn problem(&self, error: &serde_json::Error, offset: usize) -> Problem {
        let bytes = self.text.as_bytes();
        let line_start = memchr::memrchr(b'\n', &bytes[..offset]).map_or(0, |newline| newline + 1);
        Problem::of_json(error, self.line_at(offset), offset - line_start)
    }

    /// The line on which a piece begins.
    pub(crate) fn line_of(&self, piece: &RawValue) -> usize {
        self.line_at(self.offset_of(piece))
    }

    fn line_at(&self, offset: usize) -> usize {
        let (from, line) = Some(self.counted.get()).filter(|(from, _)| *from <= offset).unwrap_or((0, 1));
        let line = line + memchr::memchr_iter(b'\n', &self.text.as_bytes()[from..offset]).count();
        self.counted.set((offset, line));
        line
    }

    /// The bytes that a piece takes.
    pub(crate) fn range_of(&self, piece: &RawValue) -> Range<usize> {
        let start = self.offset_of(piece);
        start..start + piece.get().len()
    }

    /// Pieces are borrowed from the text, so their addresses say where they stand. A piece of
    /// another text counts as standing at the start.
    fn offset_of(&self, piece: &RawValue) -> usize {
        let offset = (piece.get().as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        if offset <= self.text.len() { offset } else { 0 }
    }

    /// The file with other text in the place of a piece.
    pub(crate) fn with_replaced(&self, piece: &RawValue, replacement: &str) -> Vec<u8> {
        let Range { start, end } = self.range_of(piece);
        [&self.text[..start], replacement, &self.text[end..]].concat().into_bytes()
    }

    /// The file with more elements at the end of an array, indented like those before them.
    pub(crate) fn with_elements(&self, array: &RawValue, elements: &[String]) -> Vec<u8> {
        let Range { start, end } = self.range_of(array);
        let content = self.text[start..end].strip_suffix(']').unwrap_or(&self.text[start..end]);
        let filled = content.trim_ascii_end();
        // What separates `[` from the first element separates the new ones from those before.
        let after_bracket = filled.strip_prefix('[').unwrap_or("");
        let first = after_bracket.trim_ascii_start();
        let indent = &after_bracket[..after_bracket.len() - first.len()];
        let mut text = self.text[..start + filled.len()].to_owned();
        for (index, element) in elements.iter().enumerate() {
            let is_first = index == 0 && first.is_empty();
            text.push_str(if is_first { "" } else { "," });
            text.push_str(indent);
            text.push_str(element);
        }
        text.push_str(&self.text[start + filled.len()..]);
        text.into_bytes()
    }
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    memchr::memchr_iter(b'\n', &bytes[..offset.min(bytes.len())]).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        list: &'a RawValue,
    }

    fn added(text: &str) -> String {
        let document = Document::new(text.as_bytes(), Format::Gemini).unwrap();
        let body: Body<'_> = document.parse().unwrap();
        String::from_utf8(document.with_elements(body.list, &["7".to_owned(), "8".to_owned()])).unwrap()
    }

    #[test]
    fn elements_are_added_in_the_style_of_the_file() {
        assert_eq!(added(r#"{"list":[1, 2],"x":1}"#), r#"{"list":[1, 2,7,8],"x":1}"#);
        assert_eq!(added(r#"{"list":[] , "x":1.0}"#), r#"{"list":[7,8] , "x":1.0}"#);
        assert_eq!(added("{\n \"list\": [\n  1\n ]\n}\n"), "{\n \"list\": [\n  1,\n  7,\n  8\n ]\n}\n");
    }

    #[test]
    fn a_fault_is_reported_on_its_line_of_the_file() {
        let text = "{\n\"list\": [\n  {\"a\": 1},\n  {\"b\": 2}\n]}";
        let document = Document::new(text.as_bytes(), Format::Gemini).unwrap();
        let body: Body<'_> = document.parse().unwrap();
        let elements: Vec<&RawValue> = serde_json::from_str(body.list.get()).unwrap();
        assert_eq!(document.line_of(elements[1]), 4);
        let problem = document.read_piece::<u32>(elements[1]).unwrap_err();
        assert_eq!(problem.line, 4);
    }
}
