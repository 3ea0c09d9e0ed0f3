//! The passages of a long text that a query asks for: a large fold is looked into, not paged through.

use std::fmt::Write;
use std::ops::Range;

use super::{excerpt, first_place, words_in};

/// Words of a query that are looked for.
const WORDS_MAX: usize = 16;

/// Lines that are shown before and after one that matches.
const LINES_BEFORE: usize = 2;
const LINES_AFTER: usize = 4;

/// A longer line is shown around its first match.
const LINE_BYTES_MAX: usize = 600;

/// A line that holds words of the query.
#[derive(Clone, Copy)]
struct Match {
    line: usize,
    /// Bit `n` stands for the word `n` of the query.
    words: u32,
}

/// What a text says about the words of a query, in at most about `bytes_max` bytes: the lines that hold most
/// and the rarest of them, with the lines around, in the order of the text. Each passage begins with its
/// lines and the byte at which a page of the whole text would begin with it. `None` where no word occurs.
///
/// One pass over the text; secrets in it are the caller's to replace before.
pub fn passages(text: &str, query: &str, bytes_max: usize) -> Option<String> {
    let words: Vec<String> = words_in(&query.to_lowercase()).into_iter().take(WORDS_MAX).collect();
    let lines = lines_of(text);
    let mut line_counts = vec![0_usize; words.len()];
    let mut matches = Vec::new();
    for (line, span) in lines.iter().enumerate() {
        let lower = text[span.clone()].to_lowercase();
        let mut found = 0;
        for (number, _) in words.iter().enumerate().filter(|(_, word)| lower.contains(word.as_str())) {
            line_counts[number] += 1;
            found |= 1 << number;
        }
        if found != 0 {
            matches.push(Match { line, words: found });
        }
    }
    if matches.is_empty() {
        return None;
    }
    let weight = |found: u32| {
        let rarity = |count: &usize| (1.0 + lines.len() as f64 / (*count).max(1) as f64).ln();
        let of_words = line_counts.iter().enumerate().filter(|(number, _)| found & (1 << number) != 0);
        of_words.map(|(_, count)| rarity(count)).sum::<f64>()
    };
    let mut ranked: Vec<(f64, usize)> = matches
        .iter()
        .enumerate()
        .map(|(place, one)| (weight(one.words) + weight(near(&matches, place)), one.line))
        .collect();
    // The first in the text among equals.
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let chosen = choose(&ranked, &lines, bytes_max);
    Some(written(text, &lines, &words, &chosen, &matches))
}

/// Where each line stands, without its end.
fn lines_of(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let line = |line: &str| {
        let span = start..start + line.trim_end_matches(['\n', '\r']).len();
        start += line.len();
        span
    };
    text.split_inclusive('\n').map(line).collect()
}

/// The words in the lines that would be shown around a match.
fn near(matches: &[Match], place: usize) -> u32 {
    let line = matches[place].line;
    let before = matches[..place].iter().rev().take_while(|one| one.line + LINES_BEFORE >= line);
    let after = matches[place..].iter().take_while(|one| one.line <= line + LINES_AFTER);
    before.chain(after).fold(0, |words, one| words | one.words)
}

/// The lines to show: those around the best matches that fit, one match at least.
fn choose(ranked: &[(f64, usize)], lines: &[Range<usize>], bytes_max: usize) -> Vec<bool> {
    let mut chosen = vec![false; lines.len()];
    let mut left = bytes_max;
    for (number, &(_, line)) in ranked.iter().enumerate() {
        let around = line.saturating_sub(LINES_BEFORE)..(line + LINES_AFTER + 1).min(lines.len());
        let new = around.filter(|&line| !chosen[line]).collect::<Vec<_>>();
        let bytes: usize = new.iter().map(|&line| lines[line].len().min(LINE_BYTES_MAX) + 1).sum();
        if bytes > left && number > 0 {
            break;
        }
        left = left.saturating_sub(bytes);
        new.into_iter().for_each(|line| chosen[line] = true);
    }
    chosen
}

fn written(
    text: &str,
    lines: &[Range<usize>],
    words: &[String],
    chosen: &[bool],
    matches: &[Match],
) -> String {
    let mut all = String::new();
    let mut at = 0;
    while let Some(first) = (at..lines.len()).find(|&line| chosen[line]) {
        let end = (first..lines.len()).find(|&line| !chosen[line]).unwrap_or(lines.len());
        let start = lines[first].start;
        // Writing into a string cannot fail.
        let _ = writeln!(all, "[lines {} to {end} of {}, from byte {start}]", first + 1, lines.len());
        for line in &lines[first..end] {
            all.push_str(&shown(&text[line.clone()], words));
            all.push('\n');
        }
        at = end;
    }
    let more = matches.iter().filter(|one| !chosen[one.line]).count();
    if more > 0 {
        let _ = writeln!(all, "[{more} more lines match; ask with rarer words to see them]");
    }
    all
}

/// A line, of a long one what stands around the first word.
fn shown(line: &str, words: &[String]) -> String {
    if line.len() <= LINE_BYTES_MAX {
        return line.to_owned();
    }
    let place = first_place(line, &line.to_lowercase(), words.iter().map(String::as_str)).unwrap_or(0..0);
    format!("…{}…", excerpt(line, &place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> String {
        let line = |n: usize| match n {
            7_000 => "the server listens on port 8443 for peers".to_owned(),
            n if n % 10 == 0 => format!("tick {n}: the server is idle"),
            n => format!("tick {n}: all is quiet"),
        };
        (0..20_000).map(|n| line(n) + "\n").collect()
    }

    #[test]
    fn the_lines_with_the_rarest_words_are_found_in_a_megabyte() {
        let log = log();
        let found = passages(&log, "which port does the server use", 2_000).unwrap();
        assert!(found.contains("the server listens on port 8443 for peers"), "{found}");
        assert!(found.len() < 3_000, "{}", found.len());
        assert!(found.contains("[lines 6999 to 7005 of 20000, from byte "), "{found}");
        assert!(found.contains("more lines match"), "{found}");
    }

    #[test]
    fn the_byte_of_a_passage_is_where_a_page_begins_with_it() {
        let log = log();
        let found = passages(&log, "8443", 2_000).unwrap();
        let (_, rest) = found.split_once("from byte ").unwrap();
        let offset: usize = rest.split(']').next().unwrap().parse().unwrap();
        let page = crate::recall::page(&log, offset, 500).unwrap();
        assert!(page.starts_with("tick 6998:"), "{page}");
    }

    #[test]
    fn a_place_with_all_words_near_each_other_comes_before_places_with_one() {
        let mut text = "alpha alone\nfiller\nfiller\nfiller\nfiller\nfiller\nfiller\n".repeat(50);
        text.push_str("alpha\nthen beta\n");
        let found = passages(&text, "alpha beta", 60).unwrap();
        assert!(found.contains("then beta"), "{found}");
    }

    #[test]
    fn a_long_line_is_shown_around_the_word_and_nothing_is_split() {
        let line = format!("{}needle{}", "приве́т ".repeat(3_000), "世界".repeat(3_000));
        let found = passages(&line, "NEEDLE", 1_000).unwrap();
        assert!(found.contains("needle") && found.len() < 1_500, "{found}");
        for query in ["", "\"", "absent", "İ"] {
            assert_eq!(passages(&line, query, 1_000), None, "{query}");
        }
    }
}
