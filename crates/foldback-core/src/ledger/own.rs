//! What somebody wrote with their own hands: prose, without code, logs and what a host added.

use std::borrow::Cow;
use std::ops::Range;

use super::constraint::each_sentence;

/// Tags that hosts put around what they add to a user's message: not the user's words.
const HOST_TAGS: &[&str] = &[
    "system-reminder",
    "environment_context",
    "environment_details",
    "command-name",
    "command-message",
    "command-args",
    "command-contents",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "bash-stdout",
    "bash-stderr",
    "ide_opened_file",
    "ide_selection",
    "task-notification",
    "user_instructions",
    "user-prompt-submit-hook",
    "current_datetime",
    "sql_tables",
];

/// How an item of a user begins that the host wrote.
const HOST_OPENINGS: &[&str] =
    &["[Request interrupted", "Caveat: The messages below", "Base directory for this skill"];

/// A message with more prose than this was pasted: its rules are a document's, not the user's.
pub(crate) const RULES_BYTES_MAX: usize = 16_000;

/// A sentence longer than this is quoted in part.
pub(crate) const SENTENCE_BYTES_MAX: usize = 1_200;

/// What a user typed: the message without what the host wrapped around it or put in its place.
pub(crate) fn typed(text: Cow<'_, str>) -> Cow<'_, str> {
    if wrapped(&text).is_some() {
        return Cow::Borrowed("");
    }
    if !text.contains('<') {
        return text;
    }
    let mut own = String::new();
    let mut rest: &str = &text;
    while let Some((start, end)) = next_wrapper(rest) {
        own.push_str(&rest[..start]);
        rest = &rest[end..];
    }
    if own.is_empty() && rest.len() == text.len() {
        return text;
    }
    own.push_str(rest);
    Cow::Owned(own)
}

/// The first thing that a host put into a message, as a span of it.
fn next_wrapper(text: &str) -> Option<(usize, usize)> {
    for (start, _) in text.match_indices('<') {
        let Some(tag) = HOST_TAGS.iter().find(|tag| opens(&text[start..], tag)) else { continue };
        let closing = format!("</{tag}>");
        if let Some(end) = text[start..].find(&closing) {
            return Some((start, start + end + closing.len()));
        }
        // Without its end it is the host's only where it begins a line.
        if text[..start].trim_end_matches([' ', '\t']).ends_with('\n') || text[..start].trim().is_empty() {
            return Some((start, text.len()));
        }
    }
    None
}

/// The text of an item of a user that a host wrote from beginning to end: a notice, or one element.
pub(crate) fn wrapped(text: &str) -> Option<&str> {
    let text = text.trim();
    if HOST_OPENINGS.iter().any(|opening| text.starts_with(opening)) {
        return Some(text);
    }
    let name = text.strip_prefix('<')?;
    let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')?];
    let is_one =
        !name.is_empty() && text.ends_with('>') && text[..text.len() - 1].ends_with(&format!("</{name}"));
    is_one.then_some(text)
}

/// The sentences of a message that its author wrote: nothing that the host added, no code, no logs.
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

/// The lines of a message that stand neither in a block of code nor in what the host added.
pub(super) fn outside_code(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut is_fenced = false;
    let mut host_tag: Option<&str> = None;
    let mut end = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let (start, trimmed) = (end, line.trim());
        end += line.len();
        if let Some(tag) = host_tag {
            host_tag = Some(tag).filter(|tag| !closes(trimmed, tag));
            return None;
        }
        let tag = trimmed.starts_with('<').then(|| HOST_TAGS.iter().find(|tag| opens(trimmed, tag)));
        if let Some(tag) = tag.flatten() {
            host_tag = Some(*tag).filter(|tag| !closes(trimmed, tag));
            return None;
        }
        let is_fence = trimmed.starts_with("```");
        is_fenced ^= is_fence;
        (!is_fence && !is_fenced).then_some(start..end)
    })
}

fn opens(line: &str, tag: &str) -> bool {
    line.strip_prefix('<').and_then(|rest| rest.strip_prefix(tag)).is_some_and(|rest| !rest.starts_with('-'))
}

fn closes(line: &str, tag: &str) -> bool {
    line.contains("</") && line.rsplit("</").next().is_some_and(|rest| rest.starts_with(tag))
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
    fn only_what_the_user_wrote_is_quoted() {
        let text = "Fix the parser. Never touch the lexer.\n<system-reminder>\nAlways obey me.\n</system-reminder>\n\
                    ```\nlet x = never();\n```\n<command-name>/compact</command-name>\n2024-01-01 12:00:00 [x] 1;2;3\n";
        let own: Vec<&str> = own_words(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(own, ["Fix the parser.", "Never touch the lexer."]);
    }
}
