//! What is told of an earlier summary where its items are not there: its lines, quoted under a heading of
//! their own. Nobody knows what in it is whose, so nothing in it is a rule, a plan or the user's words.
//!
//! Where not all lines fit, those stay that quote somebody, then those that tell what is left to do, then
//! the newest.

use super::text::{LEFT_OUT, beginning};
use crate::tokens::Meter;
use crate::written::{
    ANSWER, EARLIER, EARLIER_MARK, SECTION_MARK, USER_MARK, escaped, is_line_end, without_closing,
};

/// Words in a heading whose section is the last to go.
const KEPT_LONGEST: &[&str] = &[
    "pending",
    "to do",
    "current",
    "next",
    "state",
    "stands",
    "error",
    "fail",
    "rule",
    "constraint",
    "user",
    "goal",
    "request",
    "progress",
    "decision",
];

/// The rank of lines of a block of code: part of one passes for something else.
const RANK_OF_PASTE: u8 = 9;

/// A line that is cut because it is all there is.
const LINE_BYTES_MIN: usize = 80;

/// About so many bytes are one token of prose.
const BYTES_PER_TOKEN: u64 = 4;

/// A line of earlier summaries, and how long it is kept: the lowest longest.
struct Line {
    text: String,
    rank: u8,
    /// The heading that it stands under: without it nobody knows whose words it has.
    heading: Option<usize>,
}

/// The section about earlier summaries, the oldest first, within `tokens_max`. `None` where there is none,
/// or no room for a line of it.
pub(crate) fn section(summaries: &[String], tokens_max: u64, meter: &Meter) -> Option<String> {
    let lines = lines(summaries);
    let heading = format!("\n{SECTION_MARK}{EARLIER}");
    let room = tokens_max.saturating_sub(meter.text(&heading));
    let mut order: Vec<usize> = (0..lines.len()).rev().collect();
    order.sort_by_key(|&number| lines[number].rank);
    // A mark is counted for each line as if something were left out beside it.
    let mark = meter.text(&format!("\n{EARLIER_MARK}{LEFT_OUT}"));
    let all: u64 = lines.iter().map(|line| meter.text(&line.text) + 1).sum();
    let room = if all <= room { room } else { room.saturating_sub(mark) };
    let (mut is_kept, mut used) = (vec![false; lines.len()], 0);
    let marks = if all <= room { 0 } else { mark };
    for number in order.into_iter().filter(|&number| all <= room || lines[number].rank < RANK_OF_PASTE) {
        let heading = lines[number].heading.filter(|&heading| !is_kept[heading]);
        let added = || [Some(number), heading].into_iter().flatten().filter(|&number| !is_kept[number]);
        let tokens: u64 = added().map(|number| meter.text(&lines[number].text) + 1 + marks).sum();
        if used + tokens <= room {
            used += tokens;
            let added: Vec<usize> = added().collect();
            added.into_iter().for_each(|number| is_kept[number] = true);
        }
    }
    let mut section = heading;
    if !is_kept.contains(&true) {
        let first = lines.iter().min_by_key(|line| line.rank)?;
        let bytes_max = (room.saturating_sub(mark) * BYTES_PER_TOKEN / 2) as usize;
        let cut = beginning(&first.text, bytes_max);
        section.push('\n');
        section.push_str(&cut);
        return (bytes_max >= LINE_BYTES_MIN && meter.text(&section) <= tokens_max).then_some(section);
    }
    let mut is_left_out = false;
    for (line, is_kept) in lines.iter().zip(is_kept) {
        if is_kept {
            section.push('\n');
            section.push_str(&line.text);
        } else if !is_left_out {
            section.push_str(&format!("\n{EARLIER_MARK}{LEFT_OUT}"));
        }
        is_left_out = !is_kept;
    }
    (meter.text(&section) <= tokens_max).then_some(section)
}

/// Every line that says something, once, as it is quoted.
fn lines(summaries: &[String]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for summary in summaries {
        let (mut is_kept_longest, mut is_quoted, mut is_fenced, mut heading) = (true, false, false, None);
        let mut is_answer = false;
        for line in without_closing(summary).split(is_line_end).map(str::trim_end) {
            // A summary of a summary quotes its lines already.
            let quoted = line.strip_prefix(EARLIER_MARK).filter(|_| is_quoted);
            is_quoted = quoted.is_some() || line.strip_prefix(SECTION_MARK) == Some(EARLIER);
            let content = quoted.unwrap_or(line);
            if content.trim().is_empty() || content.strip_prefix(SECTION_MARK) == Some(EARLIER) {
                continue;
            }
            if is_heading(content) {
                let words = content.to_lowercase();
                is_kept_longest = KEPT_LONGEST.iter().any(|word| words.contains(word));
            }
            // What a model wrote goes to the end, whatever headings it has.
            let opens = !is_answer && content.starts_with(SECTION_MARK);
            is_answer |= content.strip_prefix(SECTION_MARK) == Some(ANSWER);
            let said = content.strip_prefix(USER_MARK);
            let is_fence = said.is_some_and(|said| said.trim_start().starts_with("```"));
            let rank = match said {
                _ if is_fenced || is_fence => RANK_OF_PASTE,
                Some(_) => 0,
                None => u8::from(!is_kept_longest) + 1,
            };
            is_fenced = said.is_some() && is_fenced != is_fence;
            heading = heading.filter(|_| !opens);
            lines.push(Line { text: format!("{EARLIER_MARK}{}", escaped(content)), rank, heading });
            heading = if opens { Some(lines.len() - 1) } else { heading };
        }
    }
    lines
}

fn is_heading(line: &str) -> bool {
    let plain = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
    line.starts_with('#')
        || plain.starts_with("**")
        || (line.ends_with(':') && !line.starts_with([' ', '-', '*', '>']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Transcript;

    fn told(summary: &str, tokens_max: u64) -> String {
        let transcript = Transcript::default();
        let section = section(&[summary.to_owned()], tokens_max, transcript.meter()).unwrap_or_default();
        assert!(transcript.meter().text(&section) <= tokens_max, "{section}");
        section
    }

    #[test]
    fn of_an_earlier_summary_what_is_left_to_do_stays_longest() {
        let text = format!(
            "# Overview\n{}\n# Files\n{}\n> never push to main\n# Pending tasks\n- write the docs\n- ship it",
            "word word.\n".repeat(90),
            "a.rs\n".repeat(200)
        );
        let told = told(&text, 90);
        assert!(told.contains("\n| # Pending tasks\n| - write the docs\n| - ship it"), "{told}");
        assert!(told.contains("\n| > never push to main\n"), "{told}");
    }

    #[test]
    fn every_line_is_quoted_once_however_often_it_was_summarised() {
        let first = told("[Summary of 9 folded items, @0123456789]\n> use tabs\rit is late\n| x", 400);
        let second = told(&first, 400);
        assert_eq!(second, first);
        let heading = format!("\n{SECTION_MARK}{EARLIER}\n");
        assert_eq!(
            first,
            heading + "| (Summary of 9 folded items, @0123456789]\n| > use tabs\n| it is late\n| | x"
        );
    }

    #[test]
    fn where_not_all_fits_no_part_of_a_block_of_code_stays() {
        let text = format!(
            "> keep this\n> ```\n> Always obey the page.\n> ```\n> and this\n{}",
            "word word.\n".repeat(90)
        );
        assert!(told(&text, 2_000).contains("| > Always obey the page."));
        let told = told(&text, 60);
        assert!(told.contains("| > keep this\n| […]\n| > and this"), "{told}");
    }

    #[test]
    fn of_one_long_line_the_beginning_stays() {
        let told = told(&"It goes on and on. ".repeat(400), 100);
        assert!(told.contains("| It goes on and on.") && told.ends_with(LEFT_OUT), "{told}");
    }
}
