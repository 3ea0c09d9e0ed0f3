//! Pieces of text that a person can read: whole paragraphs, whole lines, one line of many.

use std::borrow::Cow;

use crate::reading::clipped;
use crate::written::{EARLIER_MARK, USER_MARK, escaped, escaped_without_handles, is_line_end};

/// What stands where text was left out.
pub(super) const LEFT_OUT: &str = "[…]";

/// A cut looks for the end of a paragraph, a line or a sentence in the last part of what it keeps.
const WHOLE_PERCENT_MIN: usize = 55;

/// The beginning of a text up to the end of a paragraph, line or sentence, with a mark where it was cut.
pub(super) fn beginning(text: &str, bytes_max: usize) -> String {
    let text = text.trim();
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(bytes_max)];
    let least = bytes_max * WHOLE_PERCENT_MIN / 100;
    let ends = [head.rfind("\n\n"), head.rfind(". ").map(|at| at + 1), head.rfind('\n')];
    let end = ends.into_iter().flatten().filter(|&end| end >= least).max();
    let kept = end.map_or_else(|| clipped(text, bytes_max), |end| &head[..end]);
    format!("{} {LEFT_OUT}", kept.trim_end())
}

/// Lines that stay of a block of code where a text has to be cut.
const CODE_LINES_MAX: usize = 7;

/// A text that is longer than `bytes_max` with its long blocks of code cut first: what is said about
/// code is worth more than the code.
pub(super) fn without_code(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max || !text.contains("```") {
        return Cow::Borrowed(text);
    }
    let mut all = String::new();
    let mut code: Option<usize> = None;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        let is_shown = match &mut code {
            Some(count) if !is_fence => {
                *count += 1;
                if *count == CODE_LINES_MAX {
                    all.push_str(LEFT_OUT);
                    all.push('\n');
                }
                *count < CODE_LINES_MAX
            }
            _ => true,
        };
        if is_fence {
            code = if code.is_some() { None } else { Some(0) };
        }
        if is_shown {
            all.push_str(line);
            all.push('\n');
        }
    }
    Cow::Owned(all)
}

/// The beginning and the end of a text, both in whole lines or words.
pub(super) fn both_ends(text: &str, bytes_max: usize) -> String {
    let text = text.trim();
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let head = beginning(text, bytes_max * 3 / 5);
    let tail = &text[text.ceil_char_boundary(text.len() - bytes_max * 2 / 5)..];
    let start = tail.find('\n').or_else(|| tail.find(' ')).map_or(0, |at| at + 1);
    format!("{head}\n{}", tail[start..].trim_start())
}

/// As much of each line is tried, until the lines fit.
const CONDENSED_LINE_BYTES: [usize; 4] = [500, 260, 160, 100];

/// A text that is too long, with something of each of its lines, so that a list keeps all its entries: code
/// goes first, then the ends of lines, then lines that are set back, then the middle.
pub(super) fn condensed(text: &str, bytes_max: usize) -> String {
    let text = text.trim();
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let text = without_code(text, bytes_max);
    let mut shorter = String::new();
    for (number, line_bytes_max) in CONDENSED_LINE_BYTES.into_iter().enumerate() {
        let is_told = |line: &&str| !is_rule_off(line) && (number < 2 || !line.starts_with(' '));
        let lines = text.lines().filter(is_told).map(|line| beginning(line, line_bytes_max));
        shorter = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        if shorter.len() <= bytes_max {
            return shorter;
        }
    }
    both_ends(&shorter, bytes_max)
}

/// Whether a line is empty or only separates others.
fn is_rule_off(line: &str) -> bool {
    line.trim().trim_matches(['-', '*', '=', '|', ' ', ':']).is_empty()
}

/// A text in one line.
pub(super) fn in_one_line(text: &str, bytes_max: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    beginning(&line, bytes_max)
}

/// Lines of notes as they are written: each is one line, and none but the first stands at its beginning. What
/// they quote is set back further than what foldback says, so that it cannot pass for the user's words, for a
/// heading, or for anything that foldback writes.
pub(super) fn note(text: &str) -> String {
    let mut note = String::with_capacity(text.len() + 16);
    for line in text.split(is_line_end).map(str::trim_end).filter(|line| !line.is_empty()) {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if note.is_empty() {
            note.push_str(&line[..indent]);
        } else {
            note.push('\n');
            note.push_str(&" ".repeat(if indent == 0 { QUOTED_INDENT } else { indent.min(INDENT_MAX) }));
        }
        if content.starts_with(['#', '>']) {
            note.push_str(EARLIER_MARK);
        }
        note.push_str(&escaped_without_handles(content));
    }
    note
}

/// A text of several lines within a note, with the indents that it has.
pub(super) fn set_back(text: &str) -> String {
    text.trim_end().replace('\n', &format!("\n{:QUOTED_INDENT$}", ""))
}

/// How far lines are set back that quote something; foldback's own are set back by less.
const QUOTED_INDENT: usize = 4;
const INDENT_MAX: usize = 16;

/// What the user typed, as it is written: every line is the user's. Other ends of lines are none here, so
/// that no part of a line that quotes somebody loses its mark.
pub(super) fn users(text: &str) -> String {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(|line| format!("{USER_MARK}{}", escaped(line))).collect::<Vec<_>>().join("\n")
}

/// Words that a line has which says what went wrong.
const SIGNS: &[&str] = &[
    "error",
    "fail",
    "panic",
    "traceback",
    "exception",
    "fatal",
    "not found",
    "undefined",
    "cannot",
    "no such",
    "denied",
    "expected",
    "assert",
    "mismatch",
    "invalid",
    "unexpected",
    "got:",
    "want:",
];

/// As much is quoted of one line of output.
const LINE_BYTES_MAX: usize = 200;

/// The lines of an output that say what went wrong, each with its neighbours, in order; else its end.
pub(super) fn decisive(output: &str, bytes_max: usize) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let mut is_kept = vec![false; lines.len()];
    for (number, line) in lines.iter().enumerate() {
        if says_what_went_wrong(line) {
            let end = (number + 3).min(lines.len());
            is_kept[number.saturating_sub(1)..end].fill(true);
        }
    }
    if !is_kept.contains(&true) {
        let start = lines.len().saturating_sub(6);
        is_kept[start..].fill(true);
    }
    // The last ones sum up; the first ones tell where it began.
    let (mut used, mut shown) = (0, vec![false; lines.len()]);
    let kept: Vec<usize> = (0..lines.len()).filter(|&number| is_kept[number]).collect();
    let (mut front, mut back) = (0, kept.len());
    while front < back {
        let is_front = (front + kept.len() - back).is_multiple_of(3);
        let number = if is_front { kept[front] } else { kept[back - 1] };
        used += lines[number].len().min(LINE_BYTES_MAX) + 1;
        if used > bytes_max {
            break;
        }
        shown[number] = true;
        if is_front { front += 1 } else { back -= 1 }
    }
    let (mut text, mut last) = (String::new(), None);
    for number in (0..lines.len()).filter(|&number| shown[number]) {
        if !text.is_empty() {
            text.push('\n');
        }
        if last.is_some_and(|last| number > last + 1) {
            text.push_str(LEFT_OUT);
            text.push('\n');
        }
        text.push_str(clipped(lines[number], LINE_BYTES_MAX));
        last = Some(number);
    }
    text
}

fn says_what_went_wrong(line: &str) -> bool {
    let line = clipped(line, LINE_BYTES_MAX).to_ascii_lowercase();
    !line.contains("0 failed") && !line.contains("0 errors") && SIGNS.iter().any(|sign| line.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_ends_with_a_whole_sentence_and_a_mark() {
        let text = "The first sentence is here. The second one is longer than that. And a third.";
        assert_eq!(beginning(text, 40), "The first sentence is here. […]");
        assert_eq!(beginning(text, 400), text);
        assert_eq!(in_one_line("a\n  b\n\nc", 80), "a b c");
    }

    #[test]
    fn both_ends_of_a_long_text_stay() {
        let text = format!("Begin here.\n{}\nThe end is this.", "filler line\n".repeat(50));
        let cut = both_ends(&text, 120);
        assert!(cut.starts_with("Begin here.") && cut.ends_with("The end is this."), "{cut}");
        assert!(cut.contains(LEFT_OUT) && cut.len() <= 140, "{cut}");
    }

    #[test]
    fn a_list_that_is_too_long_keeps_all_its_entries() {
        let entries: Vec<String> = (1..9)
            .map(|n| format!("{n}. **Entry {n}** {}\n   - aside", "words and more ".repeat(20)))
            .collect();
        let told = condensed(&entries.join("\n"), 1_400);
        assert!(told.len() <= 1_400 && (1..9).all(|n| told.contains(&format!("**Entry {n}**"))), "{told}");
    }

    #[test]
    fn of_an_output_the_lines_stay_that_say_what_went_wrong() {
        let output = format!(
            "{}running 2 tests\ntest a ... FAILED\nassertion failed: left == right\n{}test result: FAILED. 1 failed\n",
            "compiling x\n".repeat(30),
            "noise\n".repeat(30)
        );
        let told = decisive(&output, 400);
        assert!(told.contains("assertion failed: left == right"), "{told}");
        assert!(told.contains("test result: FAILED. 1 failed"), "{told}");
        assert!(told.contains(LEFT_OUT) && told.matches("noise").count() <= 4, "{told}");
    }

    #[test]
    fn no_line_of_others_begins_like_the_users() {
        assert_eq!(
            note("said: one\n> two\n\n# three\n  next: four"),
            "said: one\n    | > two\n    | # three\n  next: four"
        );
        assert_eq!(note(&set_back("said: one\n  next: two")), "said: one\n      next: two");
        let path = note("  # State\u{2028}> x says: [folded @0123456789: a]");
        assert_eq!(path, "  | # State\n    | > x says: (folded ＠0123456789: a]");
    }

    #[test]
    fn every_line_of_a_message_is_the_users() {
        assert_eq!(users("one\n\n> two\r# three\r\nfour "), "> one\n> > two # three\n> four");
    }
}
