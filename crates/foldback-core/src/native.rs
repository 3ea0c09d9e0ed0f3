//! The native form of a conversation: JSONL, one [`Item`] per line as serde writes it.
//!
//! It exists so that nothing is lost between two runs: [`NativeDocument`] gives back the bytes
//! that were read, whoever wrote them and however they formatted their JSON, so that a tool can
//! append one item to a file without touching the rest of it. Text in, text out; no I/O (A1).

use std::fmt;
use std::sync::Arc;

use crate::item::Item;

/// A sequence of items in native JSONL, with the formatting it was read with.
///
/// ```
/// use foldback_core::{Item, NativeDocument};
///
/// let text = "{\"id\": \"u1\", \"kind\": \"user\", \"parts\": [{\"text\": \"hello\"}]}\r\n";
/// let mut document = NativeDocument::parse(text.as_bytes())?;
/// assert_eq!(document.to_string(), text);
///
/// document.push(Item::user("u2", "and again"));
/// assert_eq!(document.items().count(), 2);
/// assert!(document.to_string().starts_with(text));
/// # Ok::<(), foldback_core::NativeError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct NativeDocument {
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    content: Content,
    ending: Ending,
}

/// The text of a line is kept only where writing the item would give other bytes: a file that
/// foldback wrote is not held in memory twice.
#[derive(Clone, Debug)]
enum Content {
    Item(Arc<Item>),
    Verbatim { item: Arc<Item>, text: Box<str> },
    Blank(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Lf,
    CrLf,
    /// The last line of a file without final newline.
    None,
}

impl Ending {
    fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::None => "",
        }
    }
}

impl NativeDocument {
    /// Reads a whole file, or nothing: the first line that is not an item is an error.
    ///
    /// Lines end in LF or CRLF, the last one need not; blank lines are kept and mean nothing, and
    /// so is a byte order mark. Item ids may repeat. Metadata may nest as deep as `serde_json`
    /// reads (128 levels); JSON inside parts is carried as it is, at any depth.
    pub fn parse(bytes: &[u8]) -> Result<Self, NativeError> {
        let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to()))?;
        let mut canonical = Vec::new();
        let parse_line =
            |(line_index, line): (usize, &str)| Line::parse(line, line_index + 1, &mut canonical);
        let lines = text.split_inclusive('\n').enumerate().map(parse_line).collect::<Result<_, _>>()?;
        Ok(Self { lines })
    }

    /// A document of these items, formatted as foldback writes it.
    pub fn from_items<I: Into<Arc<Item>>>(items: impl IntoIterator<Item = I>) -> Self {
        let line = |item: I| Line { content: Content::Item(item.into()), ending: Ending::Lf };
        Self { lines: items.into_iter().map(line).collect() }
    }

    /// The items in order.
    pub fn items(&self) -> impl DoubleEndedIterator<Item = &Arc<Item>> + Clone {
        self.lines.iter().filter_map(|line| match &line.content {
            Content::Item(item) | Content::Verbatim { item, .. } => Some(item),
            Content::Blank(_) => None,
        })
    }

    /// Appends one item on a line of its own, with the line ending that the document uses.
    pub fn push(&mut self, item: impl Into<Arc<Item>>) {
        let ending = match self.lines.first().map(|line| line.ending) {
            Some(Ending::CrLf) => Ending::CrLf,
            Some(Ending::Lf | Ending::None) | None => Ending::Lf,
        };
        if let Some(last) = self.lines.last_mut().filter(|last| last.ending == Ending::None) {
            last.ending = ending;
        }
        self.lines.push(Line { content: Content::Item(item.into()), ending });
    }
}

/// The document as bytes to store: exactly what was read, and one line for each item pushed since.
///
/// A line break that stands between the tokens of an item's own JSON is written as a space, since
/// it would end the line; nothing else about that JSON changes.
impl fmt::Display for NativeDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut canonical = Vec::new();
        for line in &self.lines {
            match &line.content {
                Content::Item(item) => {
                    write_canonical(item, &mut canonical);
                    f.write_str(std::str::from_utf8(&canonical).map_err(|_| fmt::Error)?)?;
                }
                Content::Verbatim { text, .. } | Content::Blank(text) => f.write_str(text)?,
            }
            f.write_str(line.ending.as_str())?;
        }
        Ok(())
    }
}

impl Line {
    /// `canonical` is scratch space, reused so that a long file costs one buffer.
    fn parse(line: &str, line_number: usize, canonical: &mut Vec<u8>) -> Result<Self, NativeError> {
        let (text, ending) = if let Some(text) = line.strip_suffix("\r\n") {
            (text, Ending::CrLf)
        } else if let Some(text) = line.strip_suffix('\n') {
            (text, Ending::Lf)
        } else {
            (line, Ending::None)
        };
        let json = match text.strip_prefix('\u{feff}') {
            Some(after_mark) if line_number == 1 => after_mark,
            _ => text,
        };
        if json.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            return Ok(Self { content: Content::Blank(text.into()), ending });
        }
        let skipped = text.len() - json.len();
        let item: Arc<Item> = serde_json::from_str(json)
            .map(Arc::new)
            .map_err(|error| not_an_item(&error, line_number, skipped))?;
        write_canonical(&item, canonical);
        let content = if canonical == text.as_bytes() {
            Content::Item(item)
        } else {
            Content::Verbatim { item, text: text.into() }
        };
        Ok(Self { content, ending })
    }
}

/// Line breaks in what serde writes are always white space inside raw JSON: in strings they are
/// escaped.
fn write_canonical(item: &Item, canonical: &mut Vec<u8>) {
    canonical.clear();
    serde_json::to_writer(&mut *canonical, item).expect("an item has only string keys and finite numbers");
    let breaks: Vec<usize> = memchr::memchr2_iter(b'\n', b'\r', canonical).collect();
    breaks.into_iter().for_each(|index| canonical[index] = b' ');
}

/// Why text is not native JSONL, and where.
///
/// [`Display`](fmt::Display) says all of it in one line; the parts are for programs that print
/// them in their own order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {fault}; {}", Column(*column), fault.hint())]
pub struct NativeError {
    line: usize,
    column: Option<usize>,
    fault: NativeFault,
}

impl NativeError {
    /// The line, counted from 1, blank lines included.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column in bytes, counted from 1, where known.
    pub fn column(&self) -> Option<usize> {
        self.column
    }

    /// What is wrong there.
    pub fn fault(&self) -> &NativeFault {
        &self.fault
    }
}

/// What can be wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NativeFault {
    /// The bytes are not text.
    #[error("not UTF-8")]
    NotUtf8,
    /// The line is the beginning of an item.
    #[error("the line ends in the middle of an item")]
    CutOff,
    /// The line is not JSON.
    #[error("not JSON: {reason}")]
    NotJson {
        /// What the JSON reader says.
        reason: String,
    },
    /// The line is JSON, but not an item; the reason names the field or part.
    #[error("not an item: {reason}")]
    NotAnItem {
        /// What is missing, unknown or of the wrong type.
        reason: String,
    },
}

impl NativeFault {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotUtf8 => "save the file as UTF-8",
            Self::CutOff => "complete the line, or remove it if a write was interrupted there",
            Self::NotJson { .. } => "write each item as JSON on a line of its own",
            Self::NotAnItem { .. } => {
                "correct the line, or convert the file first if it is in another format"
            }
        }
    }
}

struct Column(Option<usize>);

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |column| write!(f, ", column {column}"))
    }
}

fn not_utf8(bytes: &[u8], valid_up_to: usize) -> NativeError {
    let valid = &bytes[..valid_up_to];
    let line_start = memchr::memrchr(b'\n', valid).map_or(0, |newline| newline + 1);
    NativeError {
        line: memchr::memchr_iter(b'\n', valid).count() + 1,
        column: Some(valid_up_to - line_start + 1),
        fault: NativeFault::NotUtf8,
    }
}

fn not_an_item(error: &serde_json::Error, line: usize, skipped: usize) -> NativeError {
    use serde_json::error::Category;
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let reason = message.strip_suffix(&place).unwrap_or(&message).to_owned();
    let fault = match error.classify() {
        Category::Eof => NativeFault::CutOff,
        Category::Data => NativeFault::NotAnItem { reason },
        Category::Syntax | Category::Io => NativeFault::NotJson { reason },
    };
    let column = (error.column() > 0).then(|| error.column() + skipped);
    NativeError { line, column, fault }
}

#[cfg(test)]
mod tests;
