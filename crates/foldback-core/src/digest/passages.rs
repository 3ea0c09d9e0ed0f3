//! Texts cut into passages, and the names that occur in them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use foldhash::{HashMap, HashMapExt};

use super::cut::{Cut, Line, Mention, counted, hash_of};
use super::findings::PartFindings;
use super::sources::{Author, Source, Sources, Subject, TopicIndex};
use crate::ledger::{FactKind, scan};
use crate::tokens::Meter;

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
    /// Where it is kept what it costs in a list.
    tokens: Option<&'s OnceLock<u32>>,
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
            tokens: None,
        }
    }

    /// Takes in that it is mentioned in a source.
    fn use_in(&mut self, source: &Source<'_>, is_note: bool) {
        let item = source.item_index;
        self.mention_count += 1;
        self.item_count += u32::from(self.newest_item != item);
        self.newest_item = item;
        self.topic = source.topic;
        self.text_bytes_min = self.text_bytes_min.min(source.text.len());
        match source.author {
            Author::Agent if is_note => self.is_said = true,
            Author::Agent => self.is_given = true,
            Author::Tool => {
                self.answer_count += u32::from(self.newest_answer != item);
                self.newest_answer = item;
            }
            Author::User | Author::Thought | Author::Host => {}
        }
    }

    /// What it costs in a list; counted once where findings are kept.
    pub(super) fn tokens(&self, count: impl FnOnce(&str) -> u64) -> u64 {
        match self.tokens {
            Some(kept) => counted(kept, || count(self.text)),
            None => count(self.text),
        }
    }
}

/// Counts names with the space before them: some share a token with it, figures do not.
pub(super) struct NameCounter<'m> {
    meter: &'m Meter,
    spaced: String,
}

impl<'m> NameCounter<'m> {
    pub(super) fn new(meter: &'m Meter) -> Self {
        Self { meter, spaced: String::new() }
    }

    pub(super) fn count(&mut self, name: &str) -> u64 {
        self.spaced.clear();
        self.spaced.extend([" ", name]);
        self.meter.text(&self.spaced)
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
    /// Names by what they hash to; where two hash to the same, the later one by the next number.
    index: HashMap<u32, NameIndex>,
}

impl<'s> Passages<'s> {
    /// Cuts all texts.
    pub(super) fn of(sources: &'s Sources<'_>) -> Self {
        let cuts: Vec<Cow<'s, Cut>> = sources.texts.iter().map(cut_of).collect();
        let mut passages = Self::with_capacity(&cuts);
        for ((source_index, source), cut) in (0_u32..).zip(&sources.texts).zip(&cuts) {
            let is_note = sources.topic(source.topic).subject == Subject::Notes;
            let first = passages.listed.len() as u32;
            passages.listed_starts.push(first);
            for mention in &cut.names {
                let name = passages.mention(mention, source);
                passages.names[name.0 as usize].use_in(source, is_note);
            }
            if let Cow::Borrowed(cut) = cut {
                passages.keep_tokens(&cut.names, first);
            }
            passages.push_windows(source_index, cut, first);
        }
        passages.find_parts();
        for topic in &sources.topics {
            let Subject::File(path) = &topic.subject else { continue };
            if let Ok(name) = passages.find(path, hash_of(path)) {
                let name = &mut passages.names[name.0 as usize];
                name.is_read = topic.read_count > 0;
                name.is_changed = topic.change_count > 0;
            }
        }
        passages
    }

    fn with_capacity(cuts: &[Cow<'_, Cut>]) -> Self {
        let count = |of: fn(&Cut) -> usize| cuts.iter().map(|cut| of(cut)).sum();
        let mention_count = count(|cut| cut.names.len());
        Self {
            pieces: Vec::with_capacity(count(|cut| cut.lines.len())),
            passages: Vec::with_capacity(count(|cut| cut.windows.len())),
            names: Vec::with_capacity(mention_count),
            listed: Vec::with_capacity(mention_count),
            listed_starts: Vec::with_capacity(cuts.len()),
            index: HashMap::with_capacity(mention_count),
            ..Self::default()
        }
    }

    /// The name that is mentioned; a new one where it is the first time.
    fn mention(&mut self, mention: &Mention, source: &'s Source<'_>) -> NameIndex {
        let text = &source.text[mention.span.start as usize..mention.span.end as usize];
        let name = self.find(text, mention.hash).unwrap_or_else(|free| {
            let name = NameIndex(self.names.len() as u32);
            self.names.push(Name::new(text, mention.kind, source.topic));
            self.index.insert(free, name);
            name
        });
        self.listed.push(name);
        name
    }

    /// The name with this text, or else where it belongs in the index.
    fn find(&self, text: &str, hash: u32) -> Result<NameIndex, u32> {
        let mut place = hash;
        while let Some(&name) = self.index.get(&place) {
            if self.names[name.0 as usize].text == text {
                return Ok(name);
            }
            place = place.wrapping_add(1);
        }
        Err(place)
    }

    /// Notes where the names listed from `first` on are counted.
    fn keep_tokens(&mut self, mentions: &'s [Mention], first: u32) {
        for (mention, name) in mentions.iter().zip(&self.listed[first as usize..]) {
            self.names[name.0 as usize].tokens.get_or_insert(&mention.tokens);
        }
    }

    /// Pieces and passages of a source whose names are listed from `first` on.
    fn push_windows(&mut self, source: u32, cut: &Cut, first: u32) {
        let mut windows = cut.windows.iter();
        let mut windows_start = 0;
        for (line, Line { span, windows_end, tokens }) in (0_u32..).zip(&cut.lines) {
            let piece = self.pieces.len() as u32;
            self.pieces.push(Piece { source, span: span.clone(), line, tokens: tokens.get().copied() });
            for window in windows.by_ref().take((windows_end - windows_start) as usize) {
                let names = first + window.names.start..first + window.names.end;
                let (span, hash) = (window.span.clone(), window.hash);
                self.passages.push(Passage { piece, span, names, hash });
            }
            windows_start = *windows_end;
        }
    }

    /// What a piece costs; counted once where its source's findings are kept.
    pub(super) fn piece_tokens(&self, sources: &Sources<'_>, index: u32, count: impl Fn(&str) -> u64) -> u64 {
        let piece = &self.pieces[index as usize];
        if let Some(tokens) = piece.tokens {
            return u64::from(tokens);
        }
        let source = &sources.texts[piece.source as usize];
        match cut_of_known(source) {
            Some(cut) => cut.lines[piece.line as usize].count(&source.text, count),
            None => count(&source.text[piece.span.start as usize..piece.span.end as usize]),
        }
    }

    /// Finds the names that stand in longer ones, as `parser.rs` does in `src/parser.rs`.
    fn find_parts(&mut self) {
        let mut joints = Vec::with_capacity(JOINTS_MAX + 1);
        self.part_spans.reserve_exact(self.names.len());
        for name in &self.names {
            let first = self.parts.len() as u32;
            find_joints(name.text, &mut joints);
            for (position, joint) in joints.iter().enumerate() {
                for end in &joints[position + 1..] {
                    let part = name.text.get(joint.after..end.before).unwrap_or("");
                    if !(PART_BYTES_MIN..name.text.len()).contains(&part.len()) {
                        continue;
                    }
                    let known = self.find(part, hash_of(part)).ok();
                    let new = known.filter(|part| !self.parts[first as usize..].contains(part));
                    self.parts.extend(new);
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
            let text = &text[found.span];
            if let Ok(name) = self.find(text, hash_of(text)) {
                known(name);
            }
        });
    }
}

/// Cuts a text, and counts its lines and the names in it.
pub(super) fn read_ahead(text: &str, author: Author, known: &PartFindings, meter: &Meter) {
    let cut = known.cut(|| Cut::of(text, author));
    for line in &cut.lines {
        line.count(text, |text| meter.text(text));
    }
    let mut counter = NameCounter::new(meter);
    for mention in &cut.names {
        mention.count(text, |name| counter.count(name));
    }
}

/// The cut of a source: the one that is kept, or a new one; of what was said long ago, nothing.
fn cut_of<'r>(source: &'r Source<'_>) -> Cow<'r, Cut> {
    if source.is_old {
        return Cow::Owned(Cut::default());
    }
    cut_of_known(source).map_or_else(|| Cow::Owned(Cut::of(&source.text, source.author)), Cow::Borrowed)
}

fn cut_of_known<'r>(source: &'r Source<'_>) -> Option<&'r Cut> {
    source.known.map(|known| known.cut(|| Cut::of(&source.text, source.author)))
}

/// No name is shorter.
const PART_BYTES_MIN: usize = 2;

/// Longer names are taken apart only this often.
const JOINTS_MAX: usize = 12;

fn is_joint(character: char) -> bool {
    !character.is_alphanumeric() && character != '_'
}

fn is_ascii_joint(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && byte != b'_'
}

/// A place where a name can be taken apart.
struct Joint {
    /// Where the word before it ends.
    before: usize,
    /// Where the word behind it begins.
    after: usize,
}

impl Joint {
    fn at(name: &str, place: usize) -> Self {
        let before = name[..place].trim_end_matches(is_joint).len();
        let after = name.len() - name[place..].trim_start_matches(is_joint).len();
        Self { before, after }
    }
}

/// Where a name can be taken apart, its ends included; nowhere, if it is one word.
fn find_joints(name: &str, joints: &mut Vec<Joint>) {
    joints.clear();
    joints.push(Joint::at(name, 0));
    let left = JOINTS_MAX - 1;
    if name.is_ascii() {
        let inside = name.bytes().enumerate().skip(1).filter(|&(_, byte)| is_ascii_joint(byte));
        joints.extend(inside.map(|(place, _)| Joint::at(name, place)).take(left));
    } else {
        let inside = name.char_indices().filter(|&(place, character)| place > 0 && is_joint(character));
        joints.extend(inside.map(|(place, _)| Joint::at(name, place)).take(left));
    }
    match joints.len() {
        1 if !name.starts_with(is_joint) => joints.clear(),
        _ => joints.push(Joint::at(name, name.len())),
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
        let ends: Vec<&str> = joints.iter().map(|joint| &name[joint.after..]).collect();
        assert_eq!(ends, ["src/parser.rs", "parser.rs", "rs", ""]);
        let starts: Vec<&str> = joints.iter().map(|joint| &name[..joint.before]).collect();
        assert_eq!(starts, ["", "src", "src/parser", "src/parser.rs"]);
        find_joints(&"a.".repeat(500), &mut joints);
        assert!(joints.len() <= JOINTS_MAX + 1);
        find_joints("scan_token", &mut joints);
        assert!(joints.is_empty());
    }
}
