//! What the user said, verbatim: the first request, rules, corrections; as much as there is room for.

use std::collections::HashSet;
use std::ops::Range;

use super::sources::{Author, Sources};
use crate::ledger::{is_constraint, sentences};
use crate::transcript::Meter;

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
];

/// Messages up to this long were typed; they are kept whole where there is room.
const TYPED_BYTES_MAX: usize = 2_000;

/// A sentence longer than this is quoted in part.
const SENTENCE_BYTES_MAX: usize = 1_200;

/// Shorter sentences that are no rule say "go on".
const WORDS_MIN: usize = 3;

/// Share of all room that rules may take, and that all words together may take.
const RULES_SHARE: f64 = 0.4;
const WORDS_SHARE: f64 = 0.25;

/// One sentence of a user.
#[derive(Clone, Debug)]
struct Sentence {
    source: u32,
    span: Range<usize>,
    tokens: u64,
    rank: Rank,
}

/// What is kept first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Rule,
    /// Of the first request.
    Task,
    Typed,
    /// Of a message that is mostly something pasted.
    Pasted,
}

/// Chosen sentences of users, as spans of their sources, in order.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) spans: Vec<(u32, Range<usize>)>,
    pub(super) tokens: u64,
}

/// Chooses what is quoted of the users' words.
pub(super) fn choose_words(sources: &Sources<'_>, tokens_max: u64, meter: &Meter) -> Words {
    let mut all = all_sentences(sources, meter);
    // Newer before older among equals; the first request from its beginning.
    all.sort_by_key(|sentence| {
        let at = i64::from(sentence.source) << 32 | sentence.span.start as i64;
        (sentence.rank, if sentence.rank == Rank::Task { at } else { -at })
    });
    let rules_max = (tokens_max as f64 * RULES_SHARE) as u64;
    let words_max = (tokens_max as f64 * WORDS_SHARE) as u64;
    let mut words = Words::default();
    for sentence in all {
        let limit = if sentence.rank == Rank::Rule { rules_max } else { words_max };
        if words.tokens + sentence.tokens <= limit {
            words.tokens += sentence.tokens;
            words.spans.push((sentence.source, sentence.span));
        }
    }
    words.spans.sort_by_key(|(source, span)| (*source, span.start));
    words
}

fn all_sentences(sources: &Sources<'_>, meter: &Meter) -> Vec<Sentence> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    let users = (0_u32..).zip(&sources.texts).filter(|(_, source)| source.author == Author::User);
    for (number, (source_index, source)) in users.enumerate() {
        let text = &*source.text;
        let own = own_words(text);
        let own_bytes: usize = own.iter().map(ExactSizeIterator::len).sum();
        for span in own {
            let end = span.start + super::sources::clipped(&text[span.clone()], SENTENCE_BYTES_MAX).len();
            let span = span.start..end;
            let sentence = &text[span.clone()];
            let is_rule = is_constraint(sentence);
            let is_short = sentence.is_ascii() && sentence.split_whitespace().nth(WORDS_MIN - 1).is_none();
            if (is_short && !is_rule) || !seen.insert(sentence) {
                continue;
            }
            let rank = match sentence {
                _ if is_rule && own_bytes <= 8 * TYPED_BYTES_MAX => Rank::Rule,
                _ if number == 0 => Rank::Task,
                _ if own_bytes <= TYPED_BYTES_MAX => Rank::Typed,
                _ => Rank::Pasted,
            };
            all.push(Sentence { source: source_index, span, tokens: meter.text(sentence) + 1, rank });
        }
    }
    all
}

/// The sentences of a user's message that the user wrote: nothing that the host added, no code, no
/// logs.
fn own_words(text: &str) -> Vec<Range<usize>> {
    let mut own = Vec::new();
    let mut is_fenced = false;
    let mut host_tag: Option<&str> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let (line_start, trimmed) = (start, line.trim());
        start += line.len();
        if let Some(tag) = host_tag {
            if closes(trimmed, tag) {
                host_tag = None;
            }
            continue;
        }
        if let Some(tag) = HOST_TAGS.iter().find(|tag| opens(trimmed, tag)) {
            host_tag = Some(tag).filter(|tag| !closes(trimmed, tag)).copied();
            continue;
        }
        if trimmed.starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        if !is_fenced {
            let spans = sentences(line).into_iter().filter(|span| is_prose(&line[span.clone()]));
            own.extend(spans.map(|span| line_start + span.start..line_start + span.end));
        }
    }
    own
}

fn opens(line: &str, tag: &str) -> bool {
    line.strip_prefix('<').and_then(|rest| rest.strip_prefix(tag)).is_some_and(|rest| !rest.starts_with('-'))
}

fn closes(line: &str, tag: &str) -> bool {
    line.contains("</") && line.rsplit("</").next().is_some_and(|rest| rest.starts_with(tag))
}

/// Whether a sentence is language rather than code or a log: mostly letters.
fn is_prose(sentence: &str) -> bool {
    let (mut letters, mut others) = (0, 0);
    for character in sentence.chars().filter(|character| !character.is_whitespace()) {
        match character.is_alphabetic() {
            true => letters += 1,
            false => others += 1,
        }
    }
    letters >= 2 && letters >= 3 * others && !is_log_line(sentence)
}

/// Whether it is a line of a stack trace or of a log: it names a place in a file.
fn is_log_line(sentence: &str) -> bool {
    let is_place = |word: &str| {
        let mut pieces = word.trim_end_matches([')', ',']).rsplit(':');
        let is_number = |piece: Option<&str>| piece.is_some_and(|piece| piece.parse::<u32>().is_ok());
        word.contains(['/', '.']) && is_number(pieces.next()) && pieces.next().is_some()
    };
    sentence.starts_with("at ") || sentence.split_whitespace().any(is_place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_user_wrote_is_quoted() {
        let text = "Fix the parser. Never touch the lexer.\n<system-reminder>\nAlways obey me.\n</system-reminder>\n\
                    ```\nlet x = never();\n```\n<command-name>/compact</command-name>\n2024-01-01 12:00:00 [x] 1;2;3\n";
        let own: Vec<&str> = own_words(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(own, ["Fix the parser.", "Never touch the lexer."]);
    }
}
