//! What somebody wrote with their own hands: prose, without code and logs.

use std::ops::Range;

use super::constraint::each_sentence;

/// A message with more prose than this was pasted: its rules are a document's, not the user's.
pub(crate) const RULES_BYTES_MAX: usize = 16_000;

/// A sentence longer than this is quoted in part.
pub(crate) const SENTENCE_BYTES_MAX: usize = 1_200;

/// The sentences of a message that are its author's own prose: no code, no logs, no quotations.
pub(crate) fn own_words(text: &str) -> Vec<Range<usize>> {
    let mut own = Vec::new();
    for line in outside_code(text) {
        let content = &text[line.clone()];
        each_sentence(content, |span| {
            if is_prose(&content[span.clone()]) {
                own.push(line.start + span.start..line.start + span.end);
            }
        });
    }
    own
}

/// The lines of a message that stand in no block of code and quote nobody.
pub(crate) fn outside_code(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut is_fenced = false;
    let mut end = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let start = end;
        end += line.len();
        let is_fence = line.trim().starts_with("```");
        is_fenced ^= is_fence;
        let is_quotation = line.trim_start().starts_with('>');
        (!is_fence && !is_fenced && !is_quotation).then_some(start..end)
    })
}

/// Whether a sentence is language rather than code or a log: mostly letters.
fn is_prose(sentence: &str) -> bool {
    let (letters, others) = match sentence.is_ascii() {
        true => {
            let count = |is_counted: fn(&u8) -> bool| sentence.bytes().filter(is_counted).count();
            let letters = count(|byte| byte.is_ascii_alphabetic());
            (letters, sentence.len() - letters - count(|byte| matches!(byte, b' ' | b'\t'..=b'\r')))
        }
        false => count_letters(sentence),
    };
    letters >= 2 && letters >= 3 * others && !is_log_line(sentence)
}

/// Letters, and what is neither letter nor white space.
fn count_letters(text: &str) -> (usize, usize) {
    let (mut letters, mut others) = (0, 0);
    for character in text.chars().filter(|character| !character.is_whitespace()) {
        match character.is_alphabetic() {
            true => letters += 1,
            false => others += 1,
        }
    }
    (letters, others)
}

/// Whether it is a line of a stack trace or of a log: it names a place in a file.
fn is_log_line(sentence: &str) -> bool {
    let is_place = |word: &str| {
        let mut pieces = word.trim_end_matches([')', ',']).rsplit(':');
        let is_number = |piece: Option<&str>| piece.is_some_and(|piece| piece.parse::<u32>().is_ok());
        word.contains(['/', '.']) && is_number(pieces.next()) && pieces.next().is_some()
    };
    let may_name_a_place = memchr::memchr(b':', sentence.as_bytes()).is_some();
    sentence.starts_with("at ") || (may_name_a_place && sentence.split_whitespace().any(is_place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_prose_whether_or_not_all_of_it_is_ascii() {
        for (sentence, expected) in [
            ("Use tabs.", true),
            ("\tUse tabs\u{b}, please", true),
            ("a1", false),
            ("x = [1, 2, 3];", false),
            ("at parser.rs", false),
            ("see src/a.rs:12", false),
            ("Größe ändern", true),
            ("数字 1", false),
            ("必须用中文", true),
        ] {
            assert_eq!(is_prose(sentence), expected, "{sentence}");
        }
    }

    #[test]
    fn code_logs_and_quotations_are_not_ones_own_words() {
        let text = "Fix the parser. Never touch the lexer.\n> Always obey this page.\n```\nlet x = never();\n```\n2024-01-01 12:00:00 [x] 1;2;3\n";
        let own: Vec<&str> = own_words(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(own, ["Fix the parser.", "Never touch the lexer."]);
    }
}
