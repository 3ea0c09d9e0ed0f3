//! How a value is written behind its name: joints, quotes, escapes and ends.

use std::ops::Range;

/// A longer value is a text.
pub(super) const VALUE_BYTES_MAX: usize = 1024;

/// Space between a name and its value; more is a table.
pub(super) const SPACE_BYTES_MAX: usize = 16;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Quoted,
    /// Directly behind `=`, as in the environment and in queries.
    Joined,
    Bare,
    /// The value of a field, and all of it.
    Field,
}

/// What stands between a name and its value.
#[derive(Clone, Copy)]
pub(super) struct Joint {
    pub(super) end: usize,
    pub(super) has_space: bool,
    /// There is nothing but space.
    pub(super) is_space: bool,
    /// The name is that of an element, and the value its content.
    pub(super) is_element: bool,
}

impl Joint {
    pub(super) fn after(bytes: &[u8], name: &Range<usize>) -> Self {
        let quote = quote_at(bytes, name.end).map_or(0, |(_, length)| length);
        let at = name.end + quote;
        let space = space(bytes, at);
        let joint = bytes[at + space..].iter().take(2);
        let joint = joint.take_while(|byte| matches!(byte, b'=' | b':' | b'>')).count();
        // A path in code: `Token::End`.
        let joint = if bytes[at + space..].starts_with(b"::") { 0 } else { joint };
        let is_element = joint == 1 && bytes[at + space] == b'>' && space + quote == 0;
        let end = at + space + joint;
        let space_after = if joint > 0 { self::space(bytes, end) } else { 0 };
        let has_space = space + space_after > 0;
        Self { end: end + space_after, has_space, is_space: joint == 0, is_element }
    }
}

pub(super) fn space(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take(SPACE_BYTES_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Backslashes before a quote: text in text in text.
const ESCAPES_MAX: usize = 7;

/// A quote, and its length with the backslashes before it.
pub(super) fn quote_at(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let escapes =
        bytes[at.min(bytes.len())..].iter().take(ESCAPES_MAX).take_while(|byte| **byte == b'\\').count();
    let quote = bytes.get(at + escapes).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'))?;
    Some((*quote, escapes + 1))
}

/// Where a value stands.
pub(super) struct Value {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) form: Form,
}

impl Value {
    pub(super) fn at(bytes: &[u8], joint: Joint) -> Option<Self> {
        if let Some((quote, length)) = quote_at(bytes, joint.end) {
            let start = joint.end + length;
            return Some(Self {
                start,
                end: quoted_end(bytes, start, quote, length - 1)?,
                form: Form::Quoted,
            });
        }
        let (start, end) = (joint.end, bare_end(bytes, joint.end));
        let form = match joint {
            Joint { is_element: true, .. } if is_content(bytes, start, end) => Form::Quoted,
            Joint { has_space: false, is_space: false, .. } => Form::Joined,
            _ => Form::Bare,
        };
        Some(Self { start, end, form })
    }
}

/// Whether a value is the content of an element, and no pattern that looks like one.
fn is_content(bytes: &[u8], start: usize, end: usize) -> bool {
    bytes.get(end) == Some(&b'<') && !bytes[start..end].iter().any(|byte| matches!(byte, b'(' | b')'))
}

/// The end of a value that was opened by a quote behind so many backslashes, on the same line.
fn quoted_end(bytes: &[u8], start: usize, quote: u8, escapes: usize) -> Option<usize> {
    let end_max = bytes.len().min(start + VALUE_BYTES_MAX + 1);
    let mut at = start;
    while at < end_max {
        let before = bytes[at..end_max].iter().take_while(|byte| **byte == b'\\').count();
        match bytes.get(at + before)? {
            b'\n' => return None,
            byte if *byte == quote && (before == escapes || (escapes == 0 && before % 2 == 0)) => {
                return Some(if escapes == 0 { at + before } else { at });
            }
            _ => at += before + 1,
        }
    }
    None
}

fn bare_end(bytes: &[u8], start: usize) -> usize {
    let goes_on = |byte: &u8| {
        byte.is_ascii_graphic()
            && !matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b'&' | b'\\' | b'|' | b'<')
    };
    let length = bytes[start..].iter().take(VALUE_BYTES_MAX + 1).take_while(|byte| goes_on(byte)).count();
    // The end of a sentence, or of what stands in brackets.
    let trailing = bytes[start..start + length]
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b'.' | b')' | b'!' | b'?'));
    let trailing = trailing.count();
    start + if trailing == 1 { length - 1 } else { length }
}

pub(super) fn line_end(bytes: &[u8], start: usize, bytes_max: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\' | b'`');
    start + bytes[start..].iter().take(bytes_max).take_while(|byte| !ends(byte)).count()
}
