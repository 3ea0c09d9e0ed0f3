//! What is kept of an earlier summary where not all of it fits: whole sections, those first that tell
//! what is left to do.

use super::text::{LEFT_OUT, beginning};

/// Words in a heading whose section is the last to go.
const KEPT_LONGEST: &[&str] = &[
    "pending",
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

/// The sections of a summary that fit, in its order.
pub(super) fn cut(text: &str, bytes_max: usize) -> String {
    let text = text.trim();
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let sections = sections(text);
    let is_kept_longest = |section: &&str| {
        let heading = section.lines().next().unwrap_or("").to_lowercase();
        KEPT_LONGEST.iter().any(|word| heading.contains(word))
    };
    let mut order: Vec<usize> = (0..sections.len()).collect();
    order.sort_by_key(|&number| !is_kept_longest(&sections[number]));
    let mut chosen: Vec<Option<String>> = vec![None; sections.len()];
    let mut left = bytes_max;
    for (rank, number) in order.into_iter().enumerate() {
        let share = if rank == 0 { left } else { left / 2 };
        let section = beginning(sections[number], share.max(80));
        if section.len() <= left {
            left -= section.len();
            chosen[number] = Some(section);
        }
    }
    let mut all = String::new();
    for section in chosen {
        all.push_str(if all.is_empty() { "" } else { "\n" });
        all.push_str(section.as_deref().unwrap_or(LEFT_OUT));
    }
    all
}

/// A summary by its headings.
fn sections(text: &str) -> Vec<&str> {
    let is_heading = |line: &str| {
        let plain = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
        line.starts_with('#')
            || plain.starts_with("**")
            || (line.ends_with(':') && !line.starts_with([' ', '-', '*']))
    };
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > 0 && is_heading(line.trim_end()) {
            starts.push(at);
        }
        at += line.len();
    }
    starts.push(text.len());
    starts
        .windows(2)
        .map(|two| text[two[0]..two[1]].trim_end())
        .filter(|section| !section.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_earlier_summary_what_is_left_to_do_stays_longest() {
        let text = format!(
            "# Overview\n{}\n# Files\n{}\n# Pending tasks\n- write the docs\n- ship it",
            "word ".repeat(200),
            "a.rs ".repeat(200)
        );
        let cut = cut(&text, 300);
        assert!(cut.contains("# Pending tasks\n- write the docs\n- ship it"), "{cut}");
        assert!(cut.len() < 340, "{cut}");
    }
}
