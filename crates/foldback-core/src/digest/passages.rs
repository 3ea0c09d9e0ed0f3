//! Texts cut into passages, and the names that occur in them.

use std::ops::Range;

use foldhash::HashMap;

use super::sources::{Author, Sources, TopicIndex};
use crate::ledger::{FactKind, scan};

/// A passage is a line; longer lines are cut between words into pieces of about this size.
const PASSAGE_BYTES: usize = 80;

/// A piece may be longer rather than leave a scrap behind.
const PASSAGE_BYTES_SLACK: usize = 30;

/// A word that does not end is cut here.
const WORD_BYTES_MAX: usize = 400;

/// Shorter lines say nothing.
const LINE_BYTES_MIN: usize = 4;

/// Numbers of lines have no more digits.
const LINE_DIGITS_MAX: usize = 6;

/// A name, as an index into the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NameIndex(pub(super) u32);

/// A piece of a text that can be quoted.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    pub(super) source: u32,
    /// Where it stands in its source.
    pub(super) span: Range<u32>,
    /// Where its names are listed.
    names: Range<u32>,
}

/// Something that can be named again, and how it was used.
#[derive(Clone, Debug)]
pub(super) struct Name<'s> {
    pub(super) text: &'s str,
    pub(super) kind: FactKind,
    pub(super) mention_count: u32,
    pub(super) item_count: u32,
    pub(super) newest_item: usize,
    pub(super) agent_item_count: u32,
    pub(super) newest_agent_item: usize,
    pub(super) is_users: bool,
    /// What it was last mentioned in.
    pub(super) topic: TopicIndex,
}

/// Everything that can be quoted, and every name.
#[derive(Debug, Default)]
pub(super) struct Passages<'s> {
    pub(super) passages: Vec<Passage>,
    pub(super) names: Vec<Name<'s>>,
    listed: Vec<NameIndex>,
    index: HashMap<&'s str, NameIndex>,
}

impl<'s> Passages<'s> {
    /// Cuts all texts.
    pub(super) fn of(sources: &'s Sources<'_>) -> Self {
        let mut passages = Self::default();
        for (source_index, source) in (0_u32..).zip(&sources.texts) {
            let text = &*source.text;
            for span in spans(text) {
                let first = passages.listed.len();
                let line = &text[span.clone()];
                let line = if source.author == Author::Tool { without_number(line) } else { line };
                scan(line, |found| {
                    let text = &line[found.span];
                    passages.mention(text, found.kind, source.item_index, source.author, source.topic);
                });
                if passages.listed.len() > first {
                    passages.passages.push(Passage {
                        source: source_index,
                        span: span.start as u32..span.end as u32,
                        names: first as u32..passages.listed.len() as u32,
                    });
                }
            }
        }
        passages
    }

    fn mention(&mut self, text: &'s str, kind: FactKind, item: usize, author: Author, topic: TopicIndex) {
        let next = NameIndex(self.names.len() as u32);
        let index = *self.index.entry(text).or_insert(next);
        if index == next {
            self.names.push(Name {
                text,
                kind,
                mention_count: 0,
                item_count: 0,
                newest_item: usize::MAX,
                agent_item_count: 0,
                newest_agent_item: usize::MAX,
                is_users: false,
                topic,
            });
        }
        let name = &mut self.names[index.0 as usize];
        name.mention_count += 1;
        name.item_count += u32::from(name.newest_item != item);
        name.newest_item = item;
        name.topic = topic;
        match author {
            Author::Agent => {
                name.agent_item_count += u32::from(name.newest_agent_item != item);
                name.newest_agent_item = item;
            }
            Author::User => name.is_users = true,
            Author::Thought | Author::Tool | Author::Host => {}
        }
        self.listed.push(index);
    }

    pub(super) fn names_in(&self, passage: &Passage) -> &[NameIndex] {
        &self.listed[passage.names.start as usize..passage.names.end as usize]
    }

    /// The names that stand in some other text.
    pub(super) fn known_in(&self, text: &str, mut known: impl FnMut(NameIndex)) {
        scan(text, |found| {
            if let Some(&name) = self.index.get(&text[found.span]) {
                known(name);
            }
        });
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
    for line in text.split('\n') {
        let trimmed = line.trim();
        let at = start + (line.len() - line.trim_start().len());
        start += line.len() + 1;
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

fn pieces(line: &str, mut push: impl FnMut(Range<usize>)) {
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
}
