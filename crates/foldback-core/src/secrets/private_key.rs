//! Private keys in the form of PEM, whole or in part: output is cut off at either end.

use std::ops::Range;

use memchr::memmem;

use super::{Secret, SecretKind};

/// Ends both the first and the last line of a key.
const LABEL: &str = "PRIVATE KEY-----";
/// A name may stand before the label: `RSA`, `ENCRYPTED`, `OPENSSH`.
const NAME_BYTES_MAX: usize = 24;

/// Shorter lines of a key without its end are not told from words.
const LINE_BYTES_MIN: usize = 16;

/// One of the two lines around a key.
struct Mark {
    span: Range<usize>,
    is_begin: bool,
}

pub(super) fn find(text: &str, found: &mut Vec<Secret>) {
    let marks: Vec<Mark> =
        memmem::find_iter(text.as_bytes(), LABEL).filter_map(|at| mark(text, at)).collect();
    let mut at = 0;
    let mut free = 0;
    while let Some(mark) = marks.get(at) {
        let next = marks.get(at + 1);
        let next_start = next.map_or(text.len(), |next| next.span.start);
        let span = match (mark.is_begin, next) {
            (true, Some(end)) if !end.is_begin => {
                at += 1;
                mark.span.start..end.span.end
            }
            (true, _) => mark.span.start..body_end(&text[..next_start], mark.span.end),
            (false, _) => body_start(text, free, mark.span.start)..mark.span.end,
        };
        free = span.end;
        found.push(Secret { kind: SecretKind::PrivateKey, span });
        at += 1;
    }
}

/// The line whose label stands at `at`.
fn mark(text: &str, at: usize) -> Option<Mark> {
    let from = text.ceil_char_boundary(at.saturating_sub(NAME_BYTES_MAX + "-----BEGIN ".len()));
    let before = &text[from..at];
    let start_of = |opening: &str| before.rfind(opening).map(|start| from + start);
    let (begin, end) = (start_of("-----BEGIN "), start_of("-----END "));
    let start = begin.max(end)?;
    Some(Mark { span: start..at + LABEL.len(), is_begin: begin > end })
}

fn is_body_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// The length of the line end at the start of `bytes`: real, or escaped as in JSON.
fn line_end(bytes: &[u8]) -> usize {
    match bytes {
        [b'\r', b'\n', ..] | [b'\\', b'n', ..] => 2,
        [b'\n', ..] => 1,
        _ => 0,
    }
}

/// Where the lines of a key end that has lost its end.
fn body_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = start;
    loop {
        let gap = line_end(&bytes[end..]);
        let line = end + gap;
        let length = bytes[line..].iter().take_while(|byte| is_body_byte(**byte)).count();
        let is_last = length > 0 && bytes[line + length - 1] == b'=';
        if gap == 0 || (length < LINE_BYTES_MIN && !is_last) {
            return end;
        }
        end = line + length;
    }
}

/// Where the lines of a key start that has lost its start; not before `free`.
fn body_start(text: &str, free: usize, end: usize) -> usize {
    let bytes = text.as_bytes();
    let mut start = end;
    loop {
        let before = &bytes[free..start];
        let gap = match before {
            [.., b'\\', b'n'] | [.., b'\r', b'\n'] => 2,
            [.., b'\n'] => 1,
            _ => 0,
        };
        let line = &before[..before.len() - gap];
        // In JSON the `n` of a line end is no part of the line after it.
        let mut length = line.iter().rev().take_while(|byte| is_body_byte(**byte)).count();
        let is_escaped = length < line.len() && line[line.len() - length - 1] == b'\\';
        if is_escaped && length > 0 && line[line.len() - length] == b'n' {
            length -= 1;
        }
        if gap == 0 || length == 0 || (length < LINE_BYTES_MIN && line[line.len() - 1] != b'=') {
            return start;
        }
        start = free + line.len() - length;
    }
}
