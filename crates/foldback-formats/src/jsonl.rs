//! Files of one JSON record per line: read on all cores, line by line, whatever single lines hold.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use serde::Deserialize;

use crate::error::{Fault, Problem};
use crate::json;

/// One record and where it stands.
#[derive(Debug)]
pub(crate) struct Line<'a, T> {
    /// Counted from 1, blank lines included.
    pub(crate) number: usize,
    /// The line without its end.
    pub(crate) text: &'a str,
    /// What it says.
    pub(crate) record: T,
}

/// Fewer bytes than this are read on the calling thread.
const PARALLEL_BYTES_MIN: usize = 512 * 1024;

/// No room is made beforehand for lines that are shorter than this on average: a file of nothing
/// but line ends would ask for many times its size.
const LINE_BYTES_EXPECTED_MIN: usize = 256;

/// Bytes whose lines are counted to know how many there are.
const SAMPLE_BYTES: usize = 1024 * 1024;

/// At most this many threads read together.
const THREADS_MAX: usize = 16;

/// Reads every line as a record. Blank lines mean nothing; a line that is no record is a problem,
/// and the lines around it are read.
pub(crate) fn read<'a, T: Deserialize<'a> + Send>(bytes: &'a [u8]) -> (Vec<Line<'a, T>>, Vec<Problem>) {
    read_with(bytes, |json| json::from_str(json))
}

/// As [`read`], where records are not simply deserialised.
pub(crate) fn read_with<'a, T: Send>(
    bytes: &'a [u8],
    parse: impl Fn(&'a str) -> Result<T, serde_json::Error> + Copy + Send,
) -> (Vec<Line<'a, T>>, Vec<Problem>) {
    let cores = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let threads = if bytes.len() < PARALLEL_BYTES_MIN { 1 } else { cores };
    let chunks = chunks(bytes, threads);
    let line_counts: Vec<usize> = chunks.iter().map(|chunk| expected_lines(chunk)).collect();
    let mut read: Vec<Chunk<'a, T>> = thread::scope(|scope| {
        let (first, others) =
            chunks.split_first().map_or((&bytes[..0], &[][..]), |(first, others)| (*first, others));
        let others: Vec<_> = others
            .iter()
            .zip(line_counts.iter().skip(1))
            .map(|(&chunk, &line_count)| scope.spawn(move || read_chunk(chunk, line_count, parse)))
            .collect();
        // The others' lines are put behind those of the first.
        let mut read = vec![read_chunk(first, line_counts.iter().sum(), parse)];
        read.extend(
            others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))),
        );
        read
    });
    let mut lines_before = 0;
    for chunk in &mut read {
        chunk.lines.iter_mut().for_each(|line| line.number += lines_before);
        chunk.problems.iter_mut().for_each(|problem| problem.line += lines_before);
        lines_before += chunk.line_count;
    }
    let mut all = read.into_iter();
    let Chunk { mut lines, mut problems, .. } = all.next().expect("there is always a first chunk");
    for chunk in all {
        lines.extend(chunk.lines);
        problems.extend(chunk.problems);
    }
    (lines, problems)
}

struct Chunk<'a, T> {
    lines: Vec<Line<'a, T>>,
    problems: Vec<Problem>,
    line_count: usize,
}

/// About `count` pieces of equal length, each of whole lines.
fn chunks(bytes: &[u8], count: usize) -> Vec<&[u8]> {
    let mut chunks = Vec::with_capacity(count);
    let mut rest = bytes;
    for left in (1..=count).rev() {
        let at = rest.len() / left;
        let end = memchr::memchr(b'\n', &rest[at..]).map_or(rest.len(), |newline| at + newline + 1);
        let (chunk, after) = rest.split_at(end);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

/// How many lines to make room for, by the first of them. Lists that grow are copied, and records
/// are large.
fn expected_lines(bytes: &[u8]) -> usize {
    let sample = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let ends = memchr::memchr_iter(b'\n', sample).count();
    let expected = (ends + ends / 8) as u64 * bytes.len() as u64 / sample.len().max(1) as u64;
    (expected as usize).min(bytes.len() / LINE_BYTES_EXPECTED_MIN) + 1
}

fn read_chunk<'a, T>(
    bytes: &'a [u8],
    line_count: usize,
    parse: impl Fn(&'a str) -> Result<T, serde_json::Error>,
) -> Chunk<'a, T> {
    let mut chunk = Chunk { lines: Vec::with_capacity(line_count), problems: Vec::new(), line_count: 0 };
    for (number, line) in (1..).zip(lines(bytes)) {
        chunk.line_count = number;
        match parse_line(line, number, &parse) {
            Ok(Some((text, record))) => chunk.lines.push(Line { number, text, record }),
            Ok(None) => {}
            Err(problem) => chunk.problems.push(problem),
        }
    }
    chunk
}

/// The lines without their ends.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
        let (line, after) = rest.split_at(end);
        rest = after;
        Some(without_end(line))
    })
}

/// A line without what ends it.
pub(crate) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// One line as a record; nothing where it is blank.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    line: &'a [u8],
    number: usize,
) -> Result<Option<(&'a str, T)>, Problem> {
    parse_line(line, number, |json| json::from_str(json))
}

/// As [`parse`], where records are not simply deserialised.
pub(crate) fn parse_line<'a, T>(
    line: &'a [u8],
    number: usize,
    parse: impl Fn(&'a str) -> Result<T, serde_json::Error>,
) -> Result<Option<(&'a str, T)>, Problem> {
    let not_text = |_| {
        let valid_len = std::str::from_utf8(line).map_or_else(|error| error.valid_up_to(), str::len);
        Problem { line: number, column: Some(valid_len + 1), fault: Fault::NotUtf8 }
    };
    let text = simdutf8::basic::from_utf8(line).map_err(not_text)?;
    let json = text.trim_start_matches('\u{feff}');
    if json.trim_ascii().is_empty() {
        return Ok(None);
    }
    if json.trim_ascii_start().starts_with("//") {
        return Err(Problem { line: number, column: None, fault: Fault::Comment });
    }
    let record = parse(json).map_err(|error| Problem::of_json(&error, number, text.len() - json.len()))?;
    Ok(Some((json, record)))
}

/// What goes behind a file to add `records`, each on a line of its own, in the line ends that the
/// file uses.
pub(crate) fn added(bytes: &[u8], records: impl IntoIterator<Item = String>) -> Vec<u8> {
    let last_end = memchr::memrchr(b'\n', bytes);
    let is_crlf = last_end.is_some_and(|at| at > 0 && bytes[at - 1] == b'\r');
    let end: &[u8] = if is_crlf { b"\r\n" } else { b"\n" };
    let mut added = Vec::new();
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        added.extend_from_slice(end);
    }
    for record in records {
        added.extend_from_slice(record.as_bytes());
        added.extend_from_slice(end);
    }
    added
}

/// JSON as a line: line breaks stand between its tokens only, because in strings they are escaped.
pub(crate) fn one_line(json: String) -> String {
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn every_line_is_read_or_reported_with_its_number() {
        let bytes = b"\xef\xbb\xbf{\"a\":1}\r\n\n// note\n{\"a\":\"\\x\"}\n\xff\n{\"a\":2}\n{\"a\":";
        let (lines, problems) = read::<Value>(bytes);
        assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 6]);
        let found: Vec<_> = problems.iter().map(|problem| (problem.line, &problem.fault)).collect();
        assert!(matches!(
            found[..],
            [(3, Fault::Comment), (4, Fault::NotJson { .. }), (5, Fault::NotUtf8), (7, Fault::CutOff)]
        ));
    }

    #[test]
    fn many_threads_read_what_one_reads() {
        let text: String = (0..30_000).map(|n| format!("{{\"n\":{n},\"text\":\"some words\"}}\n")).collect();
        assert!(text.len() > PARALLEL_BYTES_MIN);
        let (lines, problems) = read::<Value>(text.as_bytes());
        assert!(problems.is_empty());
        assert!(
            lines
                .iter()
                .enumerate()
                .all(|(index, line)| line.number == index + 1 && line.record["n"] == index)
        );
        assert_eq!(lines.len(), 30_000);
    }

    #[test]
    fn records_are_added_in_the_line_ends_of_the_file() {
        let add = |bytes: &[u8]| String::from_utf8(added(bytes, ["x".to_owned()])).unwrap();
        assert_eq!(add(b"a\r\nb\r\n"), "x\r\n");
        assert_eq!(add(b"a\nb"), "\nx\n");
        assert_eq!(add(b""), "x\n");
    }
}
