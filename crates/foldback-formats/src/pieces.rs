//! Long files of one JSON record per line, read piece by piece on all cores: a piece that is read into
//! the same memory as the one before stays near the processor, and no memory is asked for.
//!
//! Only for records that borrow nothing. A line belongs to the piece in which it begins.

use std::fmt;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::Problem;
use crate::jsonl;

/// A file that is not in memory.
///
/// An implementor gives the same bytes whenever it is asked, from several threads at once; where it
/// cannot, it says so, and what was read of it is worth nothing.
pub trait Source: Sync + fmt::Debug {
    /// How many bytes it has.
    fn byte_count(&self) -> usize;

    /// Fills `buffer` with what stands at `at`.
    fn read_at(&self, buffer: &mut [u8], at: usize) -> io::Result<()>;
}

/// One record and where it stands.
#[derive(Debug)]
pub(crate) struct Line<T> {
    /// Counted from 1, blank lines included.
    pub(crate) number: usize,
    /// The line among the bytes of the file, without its end.
    pub(crate) range: Range<usize>,
    /// What it says; where it is, so that it stays there when the pieces are put together.
    pub(crate) record: Box<T>,
}

/// Where lines are.
#[derive(Debug)]
pub(crate) enum Lines<'a> {
    Held(&'a [u8]),
    At(&'a dyn Source),
}

/// Bytes of a piece: about what a core keeps at hand.
const PIECE_BYTES: usize = 1024 * 1024;

/// What is read first of a line that goes beyond its piece; then twice as much each time.
const BEYOND_BYTES: usize = 16 * 1024;

/// What is read begins at a multiple of this in the file and in memory. Some processors copy three times
/// slower where the lower bits of a destination are a little above those of its source.
const PAGE_BYTES: usize = 4096;

/// At most this many threads read together.
const THREADS_MAX: usize = 16;

/// Reads every line as a record. Blank lines mean nothing; a line that is no record is a problem,
/// and the lines around it are read.
pub(crate) fn read<T: Send>(
    lines: &Lines<'_>,
    parse: impl Fn(&str) -> Result<T, serde_json::Error> + Sync,
) -> io::Result<(Vec<Line<T>>, Vec<Problem>)> {
    read_pieces_of(lines, PIECE_BYTES, parse)
}

fn read_pieces_of<T: Send>(
    lines: &Lines<'_>,
    piece_bytes: usize,
    parse: impl Fn(&str) -> Result<T, serde_json::Error> + Sync,
) -> io::Result<(Vec<Line<T>>, Vec<Problem>)> {
    let piece_count = lines.byte_count().div_ceil(piece_bytes);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(THREADS_MAX).min(piece_count).max(1);
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<Vec<(usize, Piece<T>)>> {
        let mut buffer = Buffer::default();
        let mut read = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= piece_count {
                return Ok(read);
            }
            let start = index * piece_bytes;
            let (bytes, at) = lines.beginning_in(start..start + piece_bytes, &mut buffer)?;
            read.push((index, Piece::read(bytes, at, &parse)));
        }
    };
    let mut pieces = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut pieces = work()?;
        for other in others {
            pieces.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        io::Result::Ok(pieces)
    })?;
    pieces.sort_unstable_by_key(|(index, _)| *index);
    Ok(joined(pieces.into_iter().map(|(_, piece)| piece).collect()))
}

/// The lines of all pieces, numbered from the first.
fn joined<T>(pieces: Vec<Piece<T>>) -> (Vec<Line<T>>, Vec<Problem>) {
    let mut lines = Vec::with_capacity(pieces.iter().map(|piece| piece.lines.len()).sum());
    let mut problems = Vec::new();
    let mut lines_before = 0;
    for piece in pieces {
        lines.extend(piece.lines.into_iter().map(|line| Line { number: line.number + lines_before, ..line }));
        let found = piece.problems.into_iter();
        problems.extend(found.map(|problem| Problem { line: problem.line + lines_before, ..problem }));
        lines_before += piece.line_count;
    }
    (lines, problems)
}

impl Lines<'_> {
    fn byte_count(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::At(source) => source.byte_count(),
        }
    }

    /// The lines that begin in `range`, whole, and where they stand. What is not in memory is read into
    /// `buffer`.
    fn beginning_in<'b>(
        &'b self,
        range: Range<usize>,
        buffer: &'b mut Buffer,
    ) -> io::Result<(&'b [u8], usize)> {
        // Whether a line begins at the start shows in the byte before.
        let before = range.start.saturating_sub(1);
        let from = before - before % PAGE_BYTES;
        let mut to = range.end.min(self.byte_count());
        self.fill(from..to, 0, buffer)?;
        let first = match range.start {
            0 => Some(0),
            _ => {
                let newline = memchr::memchr(b'\n', &self.bytes(from..to, buffer)[before - from..]);
                newline.map(|newline| before - from + newline + 1)
            }
        };
        let Some(first) = first.filter(|&first| from + first < to) else { return Ok((&[], from)) };
        let mut beyond = BEYOND_BYTES;
        while to < self.byte_count() && !self.bytes(from..to, buffer).ends_with(b"\n") {
            let read = to - from;
            to = (to + beyond).min(self.byte_count());
            beyond *= 2;
            self.fill(from..to, read, buffer)?;
            if let Some(newline) = memchr::memchr(b'\n', &self.bytes(from..to, buffer)[read..]) {
                to = from + read + newline + 1;
            }
        }
        Ok((&self.bytes(from..to, buffer)[first..], from + first))
    }

    /// Reads what is not in memory of `range` but for its first `read` bytes, which were read before.
    fn fill(&self, range: Range<usize>, read: usize, buffer: &mut Buffer) -> io::Result<()> {
        let Self::At(source) = self else { return Ok(()) };
        source.read_at(&mut buffer.of(range.len())[read..], range.start + read)
    }

    /// The bytes of `range`, which was read.
    fn bytes<'b>(&'b self, range: Range<usize>, buffer: &'b Buffer) -> &'b [u8] {
        match self {
            Self::Held(bytes) => &bytes[range],
            Self::At(_) => &buffer.bytes[buffer.start..buffer.start + range.len()],
        }
    }
}

/// Memory into which one piece after the other is read.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Where a page begins, when it was made.
    start: usize,
}

impl Buffer {
    /// Its first `len` bytes; what was read into it stays.
    fn of(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes.resize(PIECE_BYTES + 2 * BEYOND_BYTES + PAGE_BYTES, 0);
            self.start = self.bytes.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        }
        if self.bytes.len() < self.start + len {
            self.bytes.resize(self.start + len, 0);
        }
        &mut self.bytes[self.start..self.start + len]
    }
}

struct Piece<T> {
    lines: Vec<Line<T>>,
    problems: Vec<Problem>,
    line_count: usize,
}

impl<T> Piece<T> {
    /// Reads whole lines, which stand at `at` in the file. They are numbered from the first.
    fn read(bytes: &[u8], at: usize, parse: impl Fn(&str) -> Result<T, serde_json::Error>) -> Self {
        let mut piece = Self { lines: Vec::new(), problems: Vec::new(), line_count: 0 };
        let mut start = at;
        let ends = memchr::memchr_iter(b'\n', bytes).map(|newline| newline + 1);
        let ends = ends.chain((!bytes.ends_with(b"\n") && !bytes.is_empty()).then_some(bytes.len()));
        for (number, end) in (1..).zip(ends) {
            piece.line_count = number;
            let line = jsonl::without_end(&bytes[start - at..end]);
            match jsonl::parse_line(line, number, &parse) {
                Ok(Some((json, record))) => {
                    let json_end = start + line.len();
                    let range = json_end - json.len()..json_end;
                    piece.lines.push(Line { number, range, record: Box::new(record) });
                }
                Ok(None) => {}
                Err(problem) => piece.problems.push(problem),
            }
            start = at + end;
        }
        piece
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::Value;

    /// A file in memory that is read as if it were not.
    #[derive(Debug)]
    pub(crate) struct Elsewhere<'a>(pub(crate) &'a [u8]);

    impl Source for Elsewhere<'_> {
        fn byte_count(&self) -> usize {
            self.0.len()
        }

        fn read_at(&self, buffer: &mut [u8], at: usize) -> io::Result<()> {
            let bytes = self.0.get(at..at + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            buffer.copy_from_slice(bytes);
            Ok(())
        }
    }

    fn told((lines, problems): &(Vec<Line<Value>>, Vec<Problem>)) -> Vec<String> {
        let lines = lines.iter().map(|line| format!("{} {:?} {}", line.number, line.range, line.record));
        lines.chain(problems.iter().map(|problem| format!("{problem:?}"))).collect()
    }

    #[test]
    fn pieces_of_any_size_give_the_lines_that_the_whole_file_gives() {
        let broken = "\u{feff}{\"a\":1}\r\n\n// note\n{\"a\":\"\\x\"}\n";
        let long = format!("{{\"a\":\"{}\"}}\n", "long ".repeat(20_000));
        for text in ["", "\n", "1", "1\n", "\n\n1\n\n", broken, &format!("1\n{long}{broken}{long}2")] {
            let bytes = text.as_bytes();
            let (whole, problems) = jsonl::read::<Value>(bytes);
            let numbers: Vec<usize> = whole.iter().map(|line| line.number).collect();
            let parse = |json: &str| serde_json::from_str::<Value>(json);
            let expected = told(&read(&Lines::Held(bytes), parse).unwrap());
            assert_eq!(expected.len(), whole.len() + problems.len());
            for piece_bytes in [1, 2, 7, 100, 99_999, 100_013, 1 << 20] {
                // Every byte as a piece of a long text takes long.
                if bytes.len() / piece_bytes > 10_000 {
                    continue;
                }
                let held = read_pieces_of(&Lines::Held(bytes), piece_bytes, parse).unwrap();
                assert_eq!(held.0.iter().map(|line| line.number).collect::<Vec<_>>(), numbers);
                assert!(
                    held.0.iter().zip(&whole).all(|(held, whole)| text[held.range.clone()] == *whole.text)
                );
                assert_eq!(told(&held), expected, "pieces of {piece_bytes} of {} bytes", bytes.len());
                let source = read_pieces_of(&Lines::At(&Elsewhere(bytes)), piece_bytes, parse).unwrap();
                assert_eq!(told(&source), expected, "pieces of {piece_bytes} of {} bytes", bytes.len());
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_to_its_end_gives_nothing() {
        #[derive(Debug)]
        struct Shorter;
        impl Source for Shorter {
            fn byte_count(&self) -> usize {
                3 * PIECE_BYTES
            }
            fn read_at(&self, buffer: &mut [u8], at: usize) -> io::Result<()> {
                buffer.fill(b'\n');
                if at > PIECE_BYTES { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
            }
        }
        assert!(read(&Lines::At(&Shorter), |json| serde_json::from_str::<Value>(json)).is_err());
    }
}
