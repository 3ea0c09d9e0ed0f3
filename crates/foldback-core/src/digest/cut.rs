//! A text cut into lines, and what can be quoted of each: all of it, or a window around a name.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use foldhash::fast::FixedState;
use memchr::memchr_iter;

use super::sources::Author;
use crate::ledger::{FactKind, scan};

/// A line is taken whole; longer lines are cut between words into pieces of about this size.
const PASSAGE_BYTES: usize = 80;

/// A piece may be longer rather than leave a scrap behind.
const PASSAGE_BYTES_SLACK: usize = 30;

/// A word that does not end is cut here.
const WORD_BYTES_MAX: usize = 400;

/// Pieces up to this long are quoted whole.
const WHOLE_BYTES_MAX: usize = 56;

/// So are longer ones, where they are full of names.
const WHOLE_NAMES_MIN: usize = 3;

/// A window around a name has so many characters at least, where its piece has: enough to tell what
/// the name is about, and a space at its end that is cut off. White space counts once.
const WINDOW_CHARACTERS: usize = 41;

/// A window is cut inside of a word rather than go on for longer than this.
const WINDOW_CHARACTERS_MAX: usize = 72;

/// The beginning of a line says most: it is not cut off if it is this short. Nor is its end.
const LEAD_BYTES_MAX: usize = 14;
const REST_BYTES_MAX: usize = 6;

/// Shorter lines say nothing.
const LINE_BYTES_MIN: usize = 4;

/// About how many names stand in a line that has any.
const NAMES_EACH: usize = 2;

/// Numbers of lines have no more digits.
const LINE_DIGITS_MAX: usize = 6;

/// A text cut into lines, with the names in each; lines without names are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    pub(super) lines: Vec<Line>,
    pub(super) names: Vec<Mention>,
    pub(super) windows: Vec<Window>,
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) span: Range<u32>,
    /// Where the windows of the next line begin.
    pub(super) windows_end: u32,
    /// What it costs, once somebody has counted.
    pub(super) tokens: OnceLock<u32>,
}

impl Line {
    /// What it costs, counted once.
    pub(super) fn count(&self, text: &str, count: impl Fn(&str) -> u64) -> u64 {
        counted(&self.tokens, || count(&text[self.span.start as usize..self.span.end as usize]))
    }
}

/// What something costs, counted once.
pub(super) fn counted(tokens: &OnceLock<u32>, count: impl FnOnce() -> u64) -> u64 {
    u64::from(*tokens.get_or_init(|| u32::try_from(count()).unwrap_or(u32::MAX)))
}

/// A name in a text.
#[derive(Clone, Debug)]
pub(super) struct Mention {
    pub(super) span: Range<u32>,
    pub(super) kind: FactKind,
    /// What it hashes to.
    pub(super) hash: u32,
    /// What it costs in a list, once somebody has counted.
    pub(super) tokens: OnceLock<u32>,
}

impl Mention {
    /// What it costs in a list, counted once.
    pub(super) fn count(&self, text: &str, count: impl FnOnce(&str) -> u64) -> u64 {
        counted(&self.tokens, || count(&text[self.span.start as usize..self.span.end as usize]))
    }
}

/// What a name hashes to. Different names may hash to the same.
pub(super) fn hash_of(name: &str) -> u32 {
    FixedState::default().hash_one(name.as_bytes()) as u32
}

/// What can be quoted of a line, and which names stand in it.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) span: Range<u32>,
    pub(super) names: Range<u32>,
    /// What its text hashes to: texts are told apart without reading them again.
    pub(super) hash: u64,
}

impl Cut {
    pub(super) fn of(text: &str, author: Author) -> Self {
        let spans = spans(text);
        let names_expected = spans.len() * NAMES_EACH;
        let mut cut = Self {
            lines: Vec::with_capacity(spans.len()),
            names: Vec::with_capacity(names_expected),
            windows: Vec::with_capacity(names_expected),
        };
        for span in spans {
            let first = cut.names.len();
            let line = &text[span.clone()];
            let line = if author == Author::Tool { without_number(line) } else { line };
            let start = span.end - line.len();
            scan(line, |found| {
                let span = (start + found.span.start) as u32..(start + found.span.end) as u32;
                let hash = hash_of(&line[found.span]);
                cut.names.push(Mention { span, kind: found.kind, hash, tokens: OnceLock::new() });
            });
            if cut.names.len() > first {
                cut.push_windows(text, &span, first);
                let span = span.start as u32..span.end as u32;
                let windows_end = cut.windows.len() as u32;
                cut.lines.push(Line { span, windows_end, tokens: OnceLock::new() });
            }
        }
        cut.lines.shrink_to_fit();
        cut.names.shrink_to_fit();
        cut.windows.shrink_to_fit();
        cut
    }

    /// The windows of the line at `line`, whose names are those from `first` on.
    fn push_windows(&mut self, text: &str, line: &Range<usize>, first: usize) {
        let Self { names, windows, .. } = self;
        let (found, text) = (&names[first..], &text[line.clone()]);
        let place = |span: &Range<u32>| span.start as usize - line.start..span.end as usize - line.start;
        let mut last = 0..0;
        let mut push = |window: Range<usize>| {
            let inside = |span: &Range<usize>| window.start <= span.start && span.end <= window.end;
            let places = || found.iter().map(|mention| place(&mention.span));
            let skipped = places().take_while(|span| span.start < window.start).count();
            let count = places().skip(skipped).take_while(inside).count();
            let names = (first + skipped) as u32..(first + skipped + count) as u32;
            let span = (line.start + window.start) as u32..(line.start + window.end) as u32;
            let hash = FixedState::default().hash_one(&text.as_bytes()[window]);
            windows.push(Window { span, names, hash });
        };
        let is_short = text.len() <= WHOLE_BYTES_MAX;
        if !is_short {
            for Mention { span, .. } in found {
                let window = window(text, &place(span));
                if window != last && window != (0..text.len()) {
                    last = window.clone();
                    push(window);
                }
            }
        }
        if is_short || found.len() >= WHOLE_NAMES_MIN || last.is_empty() {
            push(0..text.len());
        }
    }
}

/// What is quoted around a name of a piece: whole words, at least [`WINDOW_CHARACTERS`] of them.
fn window(piece: &str, name: &Range<usize>) -> Range<usize> {
    let classes: &[u8; 128] = &ASCII;
    match piece.is_ascii() {
        true => {
            let bytes = |span: Range<usize>| piece.as_bytes()[span].iter();
            window_of(piece, name, |span| bytes(span).map(|&byte| (1, classes[usize::from(byte & 0x7f)])))
        }
        false => {
            let class = |one: char| classes.get(one as usize).copied().unwrap_or_else(|| class_of(one));
            window_of(piece, name, |span| piece[span].chars().map(move |one| (one.len_utf8(), class(one))))
        }
    }
}

/// The same, by the lengths and classes of the characters in a span.
fn window_of<C: DoubleEndedIterator<Item = (usize, u8)>>(
    piece: &str,
    name: &Range<usize>,
    characters: impl Fn(Range<usize>) -> C,
) -> Range<usize> {
    let mut start = if name.start <= LEAD_BYTES_MAX { 0 } else { name.start };
    let mut end = name.end;
    let mut size = WindowSize::default();
    characters(start..end).for_each(|(_, class)| size.add(class));
    let mut before = BLANK;
    for (length, class) in characters(name.end..piece.len()) {
        if size.is_enough(before, class) {
            break;
        }
        size.add(class);
        before = class;
        end += length;
    }
    if piece.len() - end <= REST_BYTES_MAX {
        end = piece.len();
    }
    let mut behind = BLANK;
    for (length, class) in characters(0..start).rev() {
        if size.is_enough(class, behind) && (behind != BLANK || start < name.start) {
            break;
        }
        size.add(class);
        behind = class;
        start -= length;
    }
    let window = &piece[start..end];
    start += window.len() - window.trim_start().len();
    start..start + window.trim().len()
}

/// Classes of characters, as bits: white space, and what a window may be cut beside.
const SPACE: u8 = 1;
const PARTING: u8 = 2;
/// A blank itself, which is both.
const BLANK: u8 = 4 | SPACE | PARTING;

fn class_of(character: char) -> u8 {
    let is_joining = matches!(character, '_' | '/' | '.' | '-' | '@' | '~' | '$' | '%' | ':');
    match character {
        ' ' => BLANK,
        _ if character.is_whitespace() => SPACE | PARTING,
        _ if character.is_alphanumeric() || is_joining => 0,
        _ => PARTING,
    }
}

/// The classes of the characters that are bytes.
static ASCII: LazyLock<[u8; 128]> =
    LazyLock::new(|| std::array::from_fn(|byte| class_of(char::from(byte as u8))));

/// How many characters a window has, white space folded.
#[derive(Default)]
struct WindowSize {
    characters: usize,
    ends_in_space: bool,
}

impl WindowSize {
    fn add(&mut self, class: u8) {
        let is_space = class & SPACE != 0;
        self.characters += usize::from(!is_space || !self.ends_in_space);
        self.ends_in_space = is_space;
    }

    /// Whether a window may be cut between characters of these two classes.
    fn is_enough(&self, before: u8, after: u8) -> bool {
        self.characters >= WINDOW_CHARACTERS_MAX
            || (self.characters >= WINDOW_CHARACTERS && (before | after) & PARTING != 0)
    }
}

/// A line without the number that tools print before it: no name, and different after every change.
fn without_number(line: &str) -> &str {
    let rest = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let digits = line.len() - rest.len();
    let is_numbered = (1..=LINE_DIGITS_MAX).contains(&digits)
        && (rest.is_empty() || rest.starts_with(['\t', '→', '|', ':', ')']) || rest.starts_with("  "));
    if is_numbered { rest } else { line }
}

/// The lines of a text without the white space around them, long ones in pieces.
pub(super) fn spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let mut start = 0;
    for end in memchr_iter(b'\n', text.as_bytes()).chain([text.len()]) {
        let line = &text[start..end];
        let trimmed = trimmed(line);
        let at = start + trimmed.start;
        let trimmed = &line[trimmed];
        start = end + 1;
        if trimmed.len() < LINE_BYTES_MIN {
            continue;
        }
        if trimmed.len() <= PASSAGE_BYTES + PASSAGE_BYTES_SLACK {
            spans.push(at..at + trimmed.len());
        } else {
            pieces(trimmed, |piece| spans.push(at + piece.start..at + piece.end));
        }
    }
    spans
}

/// Where a line stands without the white space around it.
fn trimmed(line: &str) -> Range<usize> {
    let bytes = line.as_bytes();
    let is_ink = |byte: &u8| *byte != b' ' && *byte != b'\t';
    let start = bytes.iter().position(is_ink).unwrap_or(line.len());
    let end = bytes.iter().rposition(is_ink).map_or(start, |last| last + 1);
    let is_seen = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_graphic);
    if is_seen(bytes.get(start)) && is_seen(bytes[start..end].last()) {
        return start..end;
    }
    // Some other white space may stand there.
    let start = line.len() - line.trim_start().len();
    start..start + line.trim().len()
}

fn pieces(line: &str, push: impl FnMut(Range<usize>)) {
    match line.is_ascii() {
        true => ascii_pieces(line.as_bytes(), push),
        false => any_pieces(line, push),
    }
}

fn any_pieces(line: &str, mut push: impl FnMut(Range<usize>)) {
    let (mut start, mut last_space) = (0, None);
    for (at, character) in line.char_indices() {
        if character.is_whitespace() {
            last_space = Some(at);
        }
        let limit =
            if last_space.is_some_and(|space| space > start) { PASSAGE_BYTES } else { WORD_BYTES_MAX };
        if at.saturating_sub(start) >= limit && line.len() - start > PASSAGE_BYTES + PASSAGE_BYTES_SLACK {
            let end = last_space.filter(|&space| space > start).unwrap_or(at);
            push(start..end);
            start = end + line[end..].len() - line[end..].trim_start().len();
            last_space = None;
        }
    }
    if start < line.len() {
        push(start..line.len());
    }
}

/// The same for a line of ASCII, in steps of whole pieces.
fn ascii_pieces(line: &[u8], mut push: impl FnMut(Range<usize>)) {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let mut start = 0;
    while line.len() - start > PASSAGE_BYTES + PASSAGE_BYTES_SLACK {
        let rest = &line[start..];
        // The last space within a piece, else the next one, else where a word is cut.
        let within = rest[1..=PASSAGE_BYTES].iter().rposition(is_space).map(|at| at + 1);
        let word = &rest[..rest.len().min(WORD_BYTES_MAX + 1)];
        let beyond =
            || word.iter().skip(PASSAGE_BYTES + 1).position(is_space).map(|at| PASSAGE_BYTES + 1 + at);
        let cut = || (rest.len() > WORD_BYTES_MAX).then_some(WORD_BYTES_MAX);
        let Some(end) = within.or_else(beyond).or_else(cut) else { break };
        push(start..start + end);
        start += end + rest[end..].iter().take_while(|byte| is_space(byte)).count();
    }
    if start < line.len() {
        push(start..line.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_between_words_and_nothing_is_lost() {
        let line = "several words of prose that go on ".repeat(20);
        let text = format!("short line\n\n  {line}\nx");
        let pieces: Vec<&str> = spans(&text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(pieces[0], "short line");
        assert!(pieces[1..].iter().all(|piece| piece.len() <= PASSAGE_BYTES + PASSAGE_BYTES_SLACK));
        assert_eq!(pieces[1..].join(" "), line.trim());
    }

    #[test]
    fn lines_of_ascii_are_cut_where_others_are() {
        let words = ["a", "of", "longer", "\t", " ", "x/y", "0123456789012345678901234567890123456789"];
        for seed in 0..400_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut line = String::new();
            for _ in 0..seed {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                line.push_str(words[(state >> 33) as usize % words.len()]);
                line.push_str(if state >> 60 < seed % 16 { " " } else { "" });
            }
            let line = line.trim();
            let (mut quick, mut slow) = (Vec::new(), Vec::new());
            ascii_pieces(line.as_bytes(), |piece| quick.push(piece));
            any_pieces(line, |piece| slow.push(piece));
            assert_eq!(quick, slow, "{line}");
        }
    }

    #[test]
    fn windows_by_looked_up_classes_are_those_that_characters_give() {
        let text =
            "  let scan_token = self.parse(\tinput)?;  // see src/parser.rs:12, or not at all, as ever";
        for text in [text, &text.replace("see", "→ größe\u{3000}")] {
            let characters = |span: Range<usize>| {
                text[span].chars().map(|character| (character.len_utf8(), class_of(character)))
            };
            let borders = || (0..=text.len()).filter(|&at| text.is_char_boundary(at));
            for start in borders() {
                for end in borders().filter(|&end| end > start) {
                    let name = start..end;
                    assert_eq!(window(text, &name), window_of(text, &name, characters), "{name:?}");
                }
            }
        }
    }

    #[test]
    fn white_space_around_a_line_is_left_out_whatever_it_is() {
        let spaces = ["", " ", "\t ", "\r", "\u{b}", " \u{a0}", "\u{3000}", "\u{2028} "];
        for before in spaces {
            for behind in spaces {
                for ink in ["", "x", "a b", "größe", "\u{1}"] {
                    let line = format!("{before}{ink}{behind}");
                    assert_eq!(&line[trimmed(&line)], line.trim(), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_of_lines_are_no_names() {
        for line in ["153", "153\tlet x = 1;", "  12".trim(), "7  fn a()", "88: match", "9→let", "101| x"] {
            assert!(!without_number(line).starts_with(|c: char| c.is_ascii_digit()), "{line}");
        }
        for line in ["404 not found", "2026-01-05 ok", "3.14  pi", "1234567  ms"] {
            assert_eq!(without_number(line), line);
        }
    }

    #[test]
    fn a_word_without_end_is_cut_at_a_character() {
        for text in ["ü".repeat(3_000), "a".repeat(5_000), " b".repeat(900)] {
            let together: usize = spans(&text).into_iter().map(|span| text[span].trim().len()).sum();
            assert!(together >= text.trim().len() / 2);
        }
    }

    #[test]
    fn a_window_holds_its_name_and_whole_words_around_it() {
        let piece = "The first attempt failed because parse_rule(input) returns early when there is no input";
        let start = piece.find("parse_rule").unwrap();
        let window = window(piece, &(start..start + "parse_rule".len()));
        let quoted = &piece[window.clone()];
        assert!(quoted.contains("parse_rule") && quoted.len() < piece.len(), "{quoted}");
        assert!(quoted.chars().count() >= WINDOW_CHARACTERS - 1, "{quoted}");
        let is_letter = |character: char| character.is_alphanumeric();
        for at in [window.start, window.end] {
            assert!(!(piece[..at].ends_with(is_letter) && piece[at..].starts_with(is_letter)), "{quoted}");
        }
    }

    #[test]
    fn white_space_makes_no_window_longer() {
        let piece = format!("name_of_it{}and then some more words that go on and on", " ".repeat(60));
        let quoted = &piece[window(&piece, &(0..10))];
        let folded: Vec<&str> = quoted.split_whitespace().collect();
        assert!(folded.join(" ").chars().count() >= WINDOW_CHARACTERS - 1, "{quoted}");
    }
}
