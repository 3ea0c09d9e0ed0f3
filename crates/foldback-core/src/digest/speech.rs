//! What is said, by its wording: an answer that names choices, an acknowledgement, filler, a finding.

use crate::ledger::is_decision;

/// A longer remark says more than what comes next.
const FILLER_BYTES_MAX: usize = 160;

/// A longer answer says something.
const ACKNOWLEDGEMENT_BYTES_MAX: usize = 60;

/// Choices have numbers up to this.
const CHOICE_NUMBER_MAX: u32 = 40;

/// The numbers in a short answer that may name choices.
pub(super) fn numbers_in(answer: &str) -> Vec<u32> {
    const BEFORE: &[&str] = &[
        "", "and", "or", "skip", "do", "option", "on", "number", "no", "only", "just", "fix", "with",
        "choose", "pick", "the",
    ];
    let mut numbers = Vec::new();
    let mut before = "";
    for word in answer.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        match word.parse() {
            Ok(number) if number <= CHOICE_NUMBER_MAX && BEFORE.contains(&before.to_lowercase().as_str()) => {
                numbers.push(number)
            }
            // The next number belongs to the same list.
            Ok(_) => {}
            Err(_) => before = word,
        }
    }
    numbers
}

/// The number of a line in a list.
pub(super) fn number_of(line: &str) -> Option<u32> {
    let line = line.trim_start_matches(['*', '#', '|', '-', '(', ' ']);
    let line = line.strip_prefix("Option ").unwrap_or(line);
    let end = line.find(|c: char| !c.is_ascii_digit())?;
    line[end..].starts_with(['.', ')', ':', ' ']).then(|| line[..end].parse().ok())?
}

/// Whether an agent only says that it heard.
pub(super) fn is_acknowledgement(text: &str) -> bool {
    text.len() < ACKNOWLEDGEMENT_BYTES_MAX
        && text.is_ascii()
        && !text.contains(|c: char| c.is_ascii_digit() || matches!(c, '`' | '?' | '/' | '\n'))
        && !is_telling(text)
}

/// What an agent says while it works and nobody needs later: what it is about to do next.
pub(super) fn is_filler(text: &str) -> bool {
    const OPENINGS: &[&str] = &[
        "now ",
        "let me",
        "i'll ",
        "i’ll ",
        "i need to",
        "next",
        "good",
        "great",
        "perfect",
        "ok",
        "no response",
    ];
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    if is_acknowledgement(text) {
        return true;
    }
    text.len() < FILLER_BYTES_MAX
        && !text.contains('\n')
        && OPENINGS.iter().any(|opening| lower.starts_with(opening))
        && !is_telling(text)
}

/// Words with which an agent tells a finding or a reason.
const TELLING: &[&str] = &[
    "confirmed",
    "verified",
    "found",
    "fixed",
    "fails",
    "failed",
    "wrong",
    "skip",
    "reason",
    "removed",
    "bug",
    "issue",
    "problem",
    "merged",
    "pr #",
    "conclusion",
    "keep ",
    "so that",
    "already",
    "missing",
    "should",
    "decid",
];

pub(super) fn is_telling(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    TELLING.iter().any(|word| lower.contains(word)) || is_decision(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_found_that_a_short_answer_names() {
        assert_eq!(numbers_in("skip 5, 7 and do 12"), [5, 7, 12]);
        for (line, number) in
            [("1. fix it", 1), ("**2)** leave it", 2), ("### 3. Raw errors", 3), ("Option 4: none", 4)]
        {
            assert_eq!(number_of(line), Some(number), "{line}");
        }
        assert_eq!(number_of("I would fix 2."), None);
    }

    #[test]
    fn what_an_agent_is_about_to_do_is_filler_and_what_it_found_is_not() {
        assert!(is_filler("Now let me run the linter again."));
        assert!(!is_filler("Now the build fails because of a missing import."));
    }
}
