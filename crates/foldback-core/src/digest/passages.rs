//! Texts cut into passages, and the names that occur in them.

use std::ops::Range;

use foldhash::HashMap;

use super::cut::{Cut, Line};
use super::sources::{Author, Source, Sources, Subject, TopicIndex};
use crate::ledger::{FactKind, scan};

/// A name, as an index into the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NameIndex(pub(super) u32);

/// A line of a text, or a piece of a long one.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) source: u32,
    /// Where it stands in its source.
    pub(super) span: Range<u32>,
    /// Which line of its source's cut it is.
    line: u32,
    /// What it costs, if somebody has counted.
    tokens: Option<u32>,
}

/// What can be quoted of a piece: all of it, or a window around a name.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    pub(super) piece: u32,
    /// Where it stands in the source of its piece.
    pub(super) span: Range<u32>,
    /// Where its names are listed.
    names: Range<u32>,
    /// What its text hashes to.
    pub(super) hash: u64,
}

/// Something that can be named again, and how it was used.
#[derive(Clone, Debug)]
pub(super) struct Name<'s> {
    pub(super) text: &'s str,
    pub(super) kind: FactKind,
    pub(super) mention_count: u32,
    pub(super) item_count: u32,
    pub(super) newest_item: usize,
    /// In how many answers of tools it stood, and the newest of them.
    pub(super) answer_count: u32,
    newest_answer: usize,
    /// Whether the agent gave it to a tool, and whether it spoke of it.
    pub(super) is_given: bool,
    pub(super) is_said: bool,
    /// The shortest text in which it stood.
    pub(super) text_bytes_min: usize,
    /// Whether it is a file that was read, or changed.
    pub(super) is_read: bool,
    pub(super) is_changed: bool,
    /// What it was last mentioned in.
    pub(super) topic: TopicIndex,
}

impl<'s> Name<'s> {
    /// A name that nobody has mentioned yet.
    pub(super) fn new(text: &'s str, kind: FactKind, topic: TopicIndex) -> Self {
        Self {
            text,
            kind,
            mention_count: 0,
            item_count: 0,
            newest_item: usize::MAX,
            answer_count: 0,
            newest_answer: usize::MAX,
            is_given: false,
            is_said: false,
            text_bytes_min: usize::MAX,
            is_read: false,
            is_changed: false,
            topic,
        }
    }
}

/// Everything that can be quoted, and every name.
#[derive(Debug, Default)]
pub(super) struct Passages<'s> {
    pub(super) pieces: Vec<Piece>,
    pub(super) passages: Vec<Passage>,
    pub(super) names: Vec<Name<'s>>,
    listed: Vec<NameIndex>,
    /// For each source, where the names in it begin to be listed.
    listed_starts: Vec<u32>,
    /// For each name, where the names that stand in it are listed in `parts`.
    part_spans: Vec<Range<u32>>,
    parts: Vec<NameIndex>,
    index: HashMap<&'s str, NameIndex>,
}

impl<'s> Passages<'s> {
    /// Cuts all texts.
    pub(super) fn of(sources: &'s Sources<'_>) -> Self {
        let mut passages = Self::default();
        passages.index.reserve(sources.texts.len() * NAMES_EACH);
        passages.names.reserve(sources.texts.len() * NAMES_EACH);
        for (source_index, source) in (0_u32..).zip(&sources.texts) {
            let text = &*source.text;
            let is_note = sources.topic(source.topic).subject == Subject::Notes;
            let cut = || Cut::of(text, source.author);
            let made;
            let cut = match source.known {
                Some(known) => known.cut(cut),
                None => {
                    made = cut();
                    &made
                }
            };
            let first = passages.listed.len() as u32;
            passages.listed_starts.push(first);
            for (name, kind) in &cut.names {
                let text = &text[name.start as usize..name.end as usize];
                passages.mention(text, *kind, source, is_note);
            }
            let mut windows = cut.windows.iter();
            let mut windows_start = 0;
            for (line, Line { span, windows_end, tokens }) in (0_u32..).zip(&cut.lines) {
                let piece = passages.pieces.len() as u32;
                let tokens = tokens.get().copied();
                passages.pieces.push(Piece { source: source_index, span: span.clone(), line, tokens });
                for window in windows.by_ref().take((windows_end - windows_start) as usize) {
                    let names = first + window.names.start..first + window.names.end;
                    let (span, hash) = (window.span.clone(), window.hash);
                    passages.passages.push(Passage { piece, span, names, hash });
                }
                windows_start = *windows_end;
            }
        }
        passages.find_parts();
        for topic in &sources.topics {
            let Subject::File(path) = &topic.subject else { continue };
            if let Some(&name) = passages.index.get(path.as_str()) {
                let name = &mut passages.names[name.0 as usize];
                name.is_read = topic.read_count > 0;
                name.is_changed = topic.change_count > 0;
            }
        }
        passages
    }

    fn mention(&mut self, text: &'s str, kind: FactKind, source: &Source<'_>, is_note: bool) {
        let next = NameIndex(self.names.len() as u32);
        let index = *self.index.entry(text).or_insert(next);
        if index == next {
            self.names.push(Name::new(text, kind, source.topic));
        }
        let name = &mut self.names[index.0 as usize];
        let item = source.item_index;
        name.mention_count += 1;
        name.item_count += u32::from(name.newest_item != item);
        name.newest_item = item;
        name.topic = source.topic;
        name.text_bytes_min = name.text_bytes_min.min(source.text.len());
        match source.author {
            Author::Agent if is_note => name.is_said = true,
            Author::Agent => name.is_given = true,
            Author::Tool => {
                name.answer_count += u32::from(name.newest_answer != item);
                name.newest_answer = item;
            }
            Author::User | Author::Thought | Author::Host => {}
        }
        self.listed.push(index);
    }

    /// What a piece costs; counted once where its source's findings are kept.
    pub(super) fn piece_tokens(&self, sources: &Sources<'_>, index: u32, count: impl Fn(&str) -> u64) -> u64 {
        let piece = &self.pieces[index as usize];
        if let Some(tokens) = piece.tokens {
            return u64::from(tokens);
        }
        let source = &sources.texts[piece.source as usize];
        let counted = || count(&source.text[piece.span.start as usize..piece.span.end as usize]);
        let Some(known) = source.known else { return counted() };
        let line = &known.cut(|| Cut::of(&source.text, source.author)).lines[piece.line as usize];
        u64::from(*line.tokens.get_or_init(|| u32::try_from(counted()).unwrap_or(u32::MAX)))
    }

    /// Finds the names that stand in longer ones, as `parser.rs` does in `src/parser.rs`.
    fn find_parts(&mut self) {
        let mut joints = Vec::with_capacity(JOINTS_MAX + 1);
        for name in &self.names {
            let first = self.parts.len() as u32;
            find_joints(name.text, &mut joints);
            for (position, &start) in joints.iter().enumerate() {
                for &end in &joints[position + 1..] {
                    let part = name.text[start..end].trim_matches(is_joint);
                    let known = self.index.get(part).filter(|_| part.len() < name.text.len());
                    let new = known.filter(|part| !self.parts[first as usize..].contains(part));
                    self.parts.extend(new.copied());
                }
            }
            self.part_spans.push(first..self.parts.len() as u32);
        }
    }

    /// The names that stand in a longer one.
    pub(super) fn parts_of(&self, name: NameIndex) -> &[NameIndex] {
        let span = &self.part_spans[name.0 as usize];
        &self.parts[span.start as usize..span.end as usize]
    }

    pub(super) fn names_of(&self, passage: u32) -> &[NameIndex] {
        let passage = &self.passages[passage as usize];
        &self.listed[passage.names.start as usize..passage.names.end as usize]
    }

    /// The names that stand in a source.
    pub(super) fn names_in(&self, source: usize) -> &[NameIndex] {
        let end = self.listed_starts.get(source + 1).map_or(self.listed.len(), |&end| end as usize);
        &self.listed[self.listed_starts[source] as usize..end]
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

/// About how many names a text is the first to mention: room is made for them at once.
const NAMES_EACH: usize = 8;

/// Longer names are taken apart only this often.
const JOINTS_MAX: usize = 12;

fn is_joint(character: char) -> bool {
    !character.is_alphanumeric() && character != '_'
}

/// Where a name can be taken apart, its ends included; nowhere, if it is one word.
fn find_joints(name: &str, joints: &mut Vec<usize>) {
    joints.clear();
    let inside = name.char_indices().filter(|&(_, character)| is_joint(character)).map(|(at, _)| at);
    joints.extend([0].into_iter().chain(inside.filter(|&at| at > 0)).take(JOINTS_MAX));
    match joints.len() {
        1 if !name.starts_with(is_joint) => joints.clear(),
        _ => joints.push(name.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_taken_apart_where_its_words_meet() {
        let name = "src/parser.rs";
        let mut joints = Vec::new();
        find_joints(name, &mut joints);
        let ends: Vec<&str> = joints.iter().map(|&at| name[at..].trim_start_matches(is_joint)).collect();
        assert_eq!(ends, ["src/parser.rs", "parser.rs", "rs", ""]);
        find_joints(&"a.".repeat(500), &mut joints);
        assert!(joints.len() <= JOINTS_MAX + 1);
        find_joints("scan_token", &mut joints);
        assert!(joints.is_empty());
    }
}
