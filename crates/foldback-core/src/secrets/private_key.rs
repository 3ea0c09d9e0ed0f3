//! Private keys in the form of PEM, whole or in part: output is cut off at either end.

use std::ops::Range;

use memchr::memmem;

use super::alphabet::{BASE64, HEX, is_in};
use super::{Secret, SecretKind};

/// What the first and the last line of a key are called.
const LABELS: &[&str] = &["PRIVATE KEY", "OpenVPN Static key V1", "PRIVATE MAC"];

/// Words before a label (`RSA`, `OPENSSH`) and behind it (`BLOCK`) are no longer than this.
const NAME_BYTES_MAX: usize = 32;

/// Shorter lines of a key without its end are not told from words.
const LINE_BYTES_MIN: usize = 16;

/// What stands before a line of a key that is quoted: its number, a sign of a difference, a margin.
const MARGIN_BYTES_MAX: usize = 24;

const KIND: SecretKind = SecretKind("private key");

/// One of the two lines around a key.
struct Mark {
    span: Range<usize>,
    is_begin: bool,
}

pub(super) fn find(text: &str, found: &mut Vec<Secret>) {
    let mut marks: Vec<Mark> = Vec::new();
    for label in LABELS {
        let places = memmem::find_iter(text.as_bytes(), label);
        marks.extend(places.filter_map(|at| mark(text, at, label.len())));
    }
    marks.sort_by_key(|mark| mark.span.start);
    let (mut at, mut free) = (0, 0);
    while let Some(mark) = marks.get(at) {
        let next = marks.get(at + 1);
        // The dashes between two lines may belong to both.
        let next_start = next.map_or(text.len(), |next| next.span.start.max(mark.span.end));
        let span = match (mark.is_begin, next) {
            (true, Some(end))
                if !end.is_begin && is_key(text.get(mark.span.end..end.span.start).unwrap_or("")) =>
            {
                at += 1;
                mark.span.start..end.span.end
            }
            (true, _) => mark.span.start..body_end(&text[..next_start], mark.span.end),
            (false, _) => body_start(text, free.min(mark.span.start), mark.span.start)..mark.span.end,
        };
        free = span.end;
        // The lines around a key alone are what programs look for.
        if span != mark.span {
            found.push(Secret { kind: KIND, span });
        }
        at += 1;
    }
    find_putty(text, found);
}

/// Whether most of what stands between two lines is that of a key, however it is laid out.
fn is_key(between: &str) -> bool {
    const BYTES_MAX: usize = 64 * 1024;
    const RUN_BYTES_MIN: usize = 12;
    if between.len() > BYTES_MAX {
        return false;
    }
    let runs = between.split(|c: char| !c.is_ascii() || !is_in(c as u8, BASE64));
    let in_key: usize = runs.map(str::len).filter(|length| *length >= RUN_BYTES_MIN).sum();
    in_key > 0 && in_key * 2 >= between.len()
}

/// The line whose label stands at `at`.
fn mark(text: &str, at: usize, length: usize) -> Option<Mark> {
    let from = text.ceil_char_boundary(at.saturating_sub(NAME_BYTES_MAX + "-----BEGIN ".len()));
    let before = &text[from..at];
    let start_of = |opening: &str| before.rfind(opening);
    let (begin, end) = (start_of("BEGIN "), start_of("END "));
    let word = begin.max(end)?;
    let start = before[..word].trim_end_matches([' ', '-']).len();
    let behind = &text[at + length..text.floor_char_boundary((at + length + NAME_BYTES_MAX).min(text.len()))];
    let dashes = behind.find("----")?;
    let is_label = before[start..word].contains("----")
        && behind[..dashes].bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' ');
    let stop = dashes + behind[dashes..].bytes().take_while(|byte| *byte == b'-').count();
    is_label.then(|| Mark { span: from + start..at + length + stop, is_begin: begin > end })
}

/// The line breaks at the start of `bytes`: real, or escaped as in JSON, once or more often.
fn line_break(bytes: &[u8]) -> usize {
    let escapes = bytes.iter().take(8).take_while(|byte| **byte == b'\\').count();
    match bytes.get(escapes) {
        Some(b'n' | b'r') if escapes > 0 => escapes + 1,
        Some(b'\r') if escapes == 0 => 1 + usize::from(bytes.get(1) == Some(&b'\n')),
        Some(b'\n') if escapes == 0 => 1,
        _ => 0,
    }
}

/// What may stand at either end of a line of a key beside the key.
fn is_margin(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t' | b'+' | b'-' | b'>' | b'|' | b'#' | b'*' | b':' | b'"' | b'\'' | b',' | b'0'..=b'9'
    ) || byte >= 0x80
}

/// Where the lines of a key end that has lost its end.
fn body_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = start;
    loop {
        let behind = bytes[end..].iter().take(MARGIN_BYTES_MAX);
        let behind = behind.take_while(|byte| is_margin(**byte) && !is_in(**byte, BASE64)).count();
        let mut line = end + behind;
        let mut breaks = 0;
        while let gap @ 1.. = line_break(&bytes[line..]) {
            line += gap;
            breaks += 1;
        }
        if breaks == 0 {
            return end;
        }
        match body_line(bytes, line) {
            Some(length) => end = line + length,
            None => return end,
        }
    }
}

/// How long the line of a key at a place is, with its margin.
fn body_line(bytes: &[u8], start: usize) -> Option<usize> {
    let run = |at: usize| bytes[at..].iter().take_while(|byte| is_in(**byte, BASE64)).count();
    let is_body = |at: usize, length: usize| {
        length >= LINE_BYTES_MIN
            || (length > 0 && bytes[at + length - 1] == b'=')
            || is_last(bytes, at, length)
    };
    let whole = run(start);
    if is_body(start, whole) {
        return Some(whole);
    }
    let margin = bytes[start..].iter().take(MARGIN_BYTES_MAX).take_while(|byte| is_margin(**byte)).count();
    let length = run(start + margin);
    if margin > 0 && is_body(start + margin, length) {
        return Some(margin + length);
    }
    // A line about the key: `Proc-Type: 4,ENCRYPTED`.
    let line = bytes[start..]
        .iter()
        .take(LINE_BYTES_MIN * 8)
        .take_while(|byte| !matches!(byte, b'\n' | b'\r' | b'\\'));
    let line: Vec<u8> = line.copied().collect();
    let is_header = ["Proc-Type:", "DEK-Info:", "Comment:", "Version:"]
        .iter()
        .any(|name| line.starts_with(name.as_bytes()));
    is_header.then_some(line.len())
}

/// Whether a short line ends the text: it was cut there.
fn is_last(bytes: &[u8], at: usize, length: usize) -> bool {
    length > 0 && at + length == bytes.len() && at > 0 && bytes[at..].iter().any(|byte| is_in(*byte, HEX))
}

/// Where the lines of a key start that has lost its start; not before `free`.
fn body_start(text: &str, free: usize, end: usize) -> usize {
    let bytes = text.as_bytes();
    let mut start = end;
    loop {
        let mut line_end = start;
        // The margin of the line that was taken last.
        let margin = bytes[free..line_end].iter().rev().take(MARGIN_BYTES_MAX);
        let margin = margin.take_while(|byte| is_margin(**byte)).count();
        let mut has_break = false;
        for skipped in [0, margin] {
            let at = line_end - skipped;
            let gap = break_before(&bytes[free..at]);
            if gap > 0 {
                line_end = at - gap;
                has_break = true;
                break;
            }
        }
        let before = &bytes[free..line_end];
        let trailing = before
            .iter()
            .rev()
            .take(2)
            .take_while(|byte| is_margin(**byte) && !is_in(**byte, BASE64))
            .count();
        let line = &before[..before.len() - trailing];
        // In JSON the `n` of a line end is no part of the line after it.
        let mut length = line.iter().rev().take_while(|byte| is_in(**byte, BASE64)).count();
        let is_escaped = length < line.len() && line[line.len() - length - 1] == b'\\';
        if is_escaped && length > 0 && line[line.len() - length] == b'n' {
            length -= 1;
        }
        if !has_break || length == 0 || (length < LINE_BYTES_MIN && line[line.len() - 1] != b'=') {
            return start;
        }
        start = free + line.len() - length;
    }
}

/// The length of the line break at the end of `before`.
fn break_before(before: &[u8]) -> usize {
    match before {
        [.., b'\r', b'\n'] => 2,
        [.., b'\n'] => 1,
        [rest @ .., b'n'] => match rest.iter().rev().take(8).take_while(|byte| **byte == b'\\').count() {
            0 => 0,
            escapes => escapes + 1,
        },
        _ => 0,
    }
}

/// Keys of PuTTY: `Private-Lines: 8` and as many lines.
fn find_putty(text: &str, found: &mut Vec<Secret>) {
    const LINES: &str = "Private-Lines: ";
    for at in memmem::find_iter(text.as_bytes(), LINES) {
        let digits = text[at + LINES.len()..].bytes().take_while(u8::is_ascii_digit).count();
        let start = at + LINES.len() + digits;
        let span = start..body_end(text, start);
        if !span.is_empty() {
            found.push(Secret { kind: KIND, span });
        }
    }
}
