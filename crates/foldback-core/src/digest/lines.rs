//! What is chosen, as lines: quotations and names under the file or command they belong to, or
//! behind what the agent said before they came up.

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;

use super::choose::{AMPLE_FRACTION, Choice};
use super::passages::{Name, Passages};
use super::sources::{Sources, Subject, Topic, TopicIndex};
use super::write::{JOINT, NAMES, QUOTE_MARK};
use crate::ledger::FactKind;
use crate::reading::clipped;

/// How names are introduced that belong nowhere else.
const KINDS: [(FactKind, &str); 5] = [
    (FactKind::Path, "files and folders"),
    (FactKind::Url, "addresses"),
    (FactKind::Hash, "hashes"),
    (FactKind::Number, "figures"),
    (FactKind::Identifier, "names"),
];

/// Windows of a line that are no further apart are quoted as one.
const JOINED_BYTES_MAX: u32 = 8;

/// Quotations stand on one line up to this much.
const QUOTES_BYTES_MAX: usize = 240;

/// A note begins and ends with its sentence, where no more than this is missing: with scarce room, and
/// how much more with room for everything.
const SENTENCE_BYTES_MIN: usize = 20;
const SENTENCE_BYTES_MORE: f64 = 120.0;

/// A line of a file or an answer is quoted whole, where no more is missing and there is ample room.
const AMPLE_LINE_BYTES_MAX: usize = 30;

/// Fewer names wait for the next note.
const NOTED_NAMES_MIN: usize = 6;

/// Where there is room for this share of the names that are wanted, those that belong to something
/// that is not written about are introduced by it, if there are so many.
const LABEL_FRACTION: f64 = 0.3;
const LABELLED_NAMES_MIN: usize = 6;

/// As much of a command introduces names.
const LABEL_BYTES_MAX: usize = 40;

/// What is chosen, as lines.
pub(super) struct Lines {
    /// For each topic, what stands under its heading.
    pub(super) topics: Vec<String>,
    pub(super) notes: Vec<Note>,
    /// Names that belong to neither.
    pub(super) others: String,
}

/// What the agent said, and when.
pub(super) struct Note {
    item_index: usize,
    pub(super) lines: String,
}

impl Lines {
    pub(super) fn of(sources: &Sources<'_>, passages: &Passages<'_>, choice: &Choice) -> Self {
        let topics = vec![String::new(); sources.topics.len()];
        let mut lines = Self { topics, notes: Vec::new(), others: String::new() };
        lines.push_quotes(sources, passages, choice);
        lines.push_names(sources, passages, choice);
        lines
    }

    fn push_quotes(&mut self, sources: &Sources<'_>, passages: &Passages<'_>, choice: &Choice) {
        let is_ample = choice.room_share >= AMPLE_FRACTION;
        let line_bytes_max = if is_ample { AMPLE_LINE_BYTES_MAX } else { 0 };
        let more = SENTENCE_BYTES_MORE * choice.room_share.powi(3);
        let sentence_bytes_max = SENTENCE_BYTES_MIN + more as usize;
        let mut line_bytes = vec![usize::MAX; sources.topics.len()];
        for (piece, span) in quotes(passages, choice) {
            let source = &sources.texts[passages.pieces[piece as usize].source as usize];
            let topic = source.topic.0 as usize;
            if sources.topics[topic].subject == Subject::Notes {
                let mut note = Note { item_index: source.item_index, lines: "\n- ".to_owned() };
                push_folded(&mut note.lines, widened(&source.text, span, ". ", sentence_bytes_max));
                self.notes.push(note);
                continue;
            }
            let text = widened(&source.text, span, "\n", line_bytes_max);
            // Notes are sentences; lines of files and answers are short, and stand side by side.
            let is_joined = line_bytes[topic].saturating_add(text.len()) <= QUOTES_BYTES_MAX;
            line_bytes[topic] = if is_joined { line_bytes[topic] + text.len() } else { text.len() };
            let group = &mut self.topics[topic];
            if is_joined {
                group.push_str(JOINT);
            } else {
                group.push('\n');
                group.push_str(QUOTE_MARK);
            }
            push_folded(group, text);
        }
    }

    /// Pushes names under what they were last mentioned in of what is written about, else behind what
    /// the agent said last before; else what they belong to introduces them, or their kind.
    fn push_names(&mut self, sources: &Sources<'_>, passages: &Passages<'_>, choice: &Choice) {
        let separator = if choice.room_share >= AMPLE_FRACTION { ", " } else { " " };
        let places = self.places(sources, passages, choice);
        let mut under: Vec<Vec<&str>> = vec![Vec::new(); self.topics.len()];
        let mut behind: Vec<Vec<&str>> = vec![Vec::new(); self.notes.len()];
        let mut others = Vec::new();
        for index in &choice.names {
            let name = &passages.names[index.0 as usize];
            let notes_before = self.notes.partition_point(|note| note.item_index <= name.newest_item);
            match (places[index.0 as usize], notes_before.checked_sub(1)) {
                (Some(TopicIndex(topic)), _) => under[topic as usize].push(name.text),
                (None, Some(note)) => behind[note].push(name.text),
                (None, None) => others.push(name),
            }
        }
        gather(&mut behind);
        let notes = self.notes.iter_mut().map(|note| &mut note.lines);
        let lists = self.topics.iter_mut().zip(under).chain(notes.zip(behind));
        for (lines, names) in lists.filter(|(_, names)| !names.is_empty()) {
            // Writing into a string cannot fail.
            let _ = write!(lines, "\n  {NAMES}{}", names.join(separator));
        }
        self.others = introduced(&others, sources, choice.room_share >= LABEL_FRACTION, separator);
    }

    /// For each name the newest topic it was mentioned in of those whose headings are written.
    fn places(
        &self,
        sources: &Sources<'_>,
        passages: &Passages<'_>,
        choice: &Choice,
    ) -> Vec<Option<TopicIndex>> {
        let is_written: Vec<bool> = std::iter::zip(&sources.topics, &self.topics)
            .zip(&choice.is_open)
            .map(|((topic, lines), is_open)| has_heading(topic) && (*is_open || !lines.is_empty()))
            .collect();
        let mut places = vec![None; passages.names.len()];
        for (index, source) in sources.texts.iter().enumerate() {
            if is_written[source.topic.0 as usize] {
                for name in passages.names_in(index) {
                    places[name.0 as usize] = Some(source.topic);
                }
            }
        }
        places
    }
}

/// What is quoted: a piece and where in its source, windows of a piece that meet as one.
fn quotes(passages: &Passages<'_>, choice: &Choice) -> Vec<(u32, Range<u32>)> {
    let mut chosen: Vec<(u32, Range<u32>)> = choice
        .passages
        .iter()
        .map(|&index| &passages.passages[index as usize])
        .map(|passage| (passage.piece, passage.span.clone()))
        .collect();
    chosen.sort_unstable_by_key(|(piece, span)| (*piece, span.start, span.end));
    chosen.dedup_by(|(piece, span), (piece_before, before)| {
        let do_meet = piece == piece_before && span.start <= before.end + JOINED_BYTES_MAX;
        if do_meet {
            before.end = before.end.max(span.end);
        }
        do_meet
    });
    chosen
}

/// A quotation with the rest of its sentence or line on either side, where that is at most
/// `bytes_max`. `end` is what a sentence ends with, besides the end of its line.
fn widened<'t>(text: &'t str, span: Range<u32>, end: &str, bytes_max: usize) -> &'t str {
    let (from, to) = (span.start as usize, span.end as usize);
    let line_start = text[..from].rfind('\n').map_or(0, |at| at + 1);
    let start = text[line_start..from].rfind(end).map_or(line_start, |at| line_start + at + end.len());
    let start = if from - start <= bytes_max { start } else { from };
    let line_end = text[to..].find('\n').map_or(text.len(), |at| to + at);
    // The quotation may end with the full stop.
    let rest = if text[..to].ends_with('.') { to - 1 } else { to };
    let stop = text[rest..line_end].find(end).map_or(line_end, |at| to.max(rest + at + 1));
    let stop = if stop - to <= bytes_max { stop } else { to };
    &text[start..stop]
}

/// Pushes a text with every run of white space as one space.
fn push_folded(lines: &mut String, text: &str) {
    for (position, word) in text.split_whitespace().enumerate() {
        lines.push_str(if position == 0 { "" } else { " " });
        lines.push_str(word);
    }
}

/// Moves names on until there are enough for a line.
fn gather(lists: &mut [Vec<&str>]) {
    let mut waiting = Vec::new();
    let last = lists.len().saturating_sub(1);
    for (index, list) in lists.iter_mut().enumerate() {
        waiting.append(list);
        if waiting.len() >= NOTED_NAMES_MIN || index == last {
            *list = std::mem::take(&mut waiting);
        }
    }
}

/// Names that stand under no heading, introduced by what they belong to or by their kind.
fn introduced(names: &[&Name<'_>], sources: &Sources<'_>, is_labelled: bool, separator: &str) -> String {
    let mut by_topic: Vec<Vec<&Name<'_>>> = vec![Vec::new(); sources.topics.len()];
    names.iter().for_each(|name| by_topic[name.topic.0 as usize].push(name));
    let mut by_kind: [Vec<&str>; KINDS.len()] = Default::default();
    let mut lines = String::new();
    for (topic, names) in sources.topics.iter().zip(by_topic) {
        let is_worth_it = is_labelled && names.len() >= LABELLED_NAMES_MIN;
        if let Some(label) = label(topic).filter(|_| is_worth_it) {
            let names: Vec<&str> = names.iter().map(|name| name.text).collect();
            let _ = write!(lines, "\n- in {label}: {}", names.join(separator));
            continue;
        }
        for name in names {
            let kind = KINDS.iter().position(|(kind, _)| *kind == name.kind).unwrap_or(KINDS.len() - 1);
            by_kind[kind].push(name.text);
        }
    }
    for ((_, title), names) in KINDS.iter().zip(by_kind).filter(|(_, names)| !names.is_empty()) {
        let _ = write!(lines, "\n- {title}: {}", names.join(separator));
    }
    lines
}

fn has_heading(topic: &Topic<'_>) -> bool {
    matches!(topic.subject, Subject::File(_) | Subject::Command(_) | Subject::Tool(_))
}

/// What is short for a topic that can have a heading.
fn label<'t>(topic: &'t Topic<'_>) -> Option<Cow<'t, str>> {
    match &topic.subject {
        Subject::File(path) => Some(Cow::Borrowed(path.rsplit(['/', '\\']).next().unwrap_or(path))),
        Subject::Command(command) => {
            let line = command.lines().next().unwrap_or(command);
            Some(Cow::Owned(format!("`{}`", clipped(line, LABEL_BYTES_MAX))))
        }
        Subject::Tool(name) => Some(Cow::Borrowed(name)),
        Subject::Notes | Subject::Scene | Subject::Earlier => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::digest::digest_of;
    use crate::ids::Tokens;
    use crate::item::Item;
    use crate::part::{Part, ToolResult};
    use crate::transcript::Transcript;
    use serde_json::json;

    #[test]
    fn a_quotation_is_widened_to_its_sentence_and_no_further() {
        let text = "First one. The parser backtracks in scan_token() because it must. Last.\nOther line";
        let start = text.find("backtracks").unwrap() as u32;
        let span = start..start + "backtracks in".len() as u32;
        let sentence = "The parser backtracks in scan_token() because it must.";
        assert_eq!(widened(text, span.clone(), ". ", 100), sentence);
        assert_eq!(widened(text, span.clone(), ". ", 12), "The parser backtracks in", "the end is too far");
        assert_eq!(widened(text, span.clone(), ". ", 0), "backtracks in");
        assert_eq!(widened(text, span, "\n", 100), text.lines().next().unwrap());
        let whole = text.find("The").unwrap() as u32..text.find(" Last").unwrap() as u32;
        assert_eq!(widened(text, whole, ". ", 100), sentence, "it ends where it ended");
    }

    #[test]
    fn names_wait_for_a_note_with_enough_of_them_and_none_is_lost() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut lists: Vec<Vec<&str>> = vec![names[..2].to_vec(), names[2..7].to_vec(), names[7..].to_vec()];
        gather(&mut lists);
        assert_eq!(lists, [Vec::new(), names[..7].to_vec(), names[7..].to_vec()]);
    }

    /// A session that reads a file, says something, and runs a command that names what is in the file.
    fn digest(tokens_max: u64) -> String {
        let line = |number| {
            format!(
                "let scan_rule_{number} = compile everything that the rule needs, then wait for the rest\n"
            )
        };
        let names = |from: usize| (from..from + 40).map(line);
        let body: String = names(0).collect();
        let mut items = vec![Item::user("task", "Make src/scanner.rs faster.")];
        for (id, name, input, answer) in [
            ("a", "Read", json!({"file_path": "src/scanner.rs"}), body.clone()),
            ("b", "Bash", json!({"command": "grep -rn scan_rule src"}), body),
            ("c", "Bash", json!({"command": "ls --all"}), names(50).collect()),
        ] {
            let note = format!("The slow part may well be in what {name} shows next, as step_{id} says.");
            items.push(Item::assistant(id, vec![Part::text(note), Part::call(id, name, &input)]));
            items.push(Item::tool(format!("r{id}"), ToolResult::text(id, answer)));
        }
        let items: Vec<Arc<Item>> = items.into_iter().map(Arc::new).collect();
        digest_of(&items, Tokens(tokens_max), Transcript::default().meter()).unwrap()
    }

    #[test]
    fn every_list_of_names_says_what_mentions_them() {
        for tokens_max in [200, 300, 500, 800, 2_000] {
            let text = digest(tokens_max);
            let mut before = "";
            for line in text.lines().filter(|line| !line.starts_with(QUOTE_MARK)) {
                let is_list = line.trim_start().starts_with(NAMES);
                assert!(!is_list || before.starts_with("- "), "{tokens_max}: {line}\n{text}");
                let is_introduced = line.split_once(": ").is_some() || !line.contains("scan_rule_1 ");
                assert!(is_introduced, "{tokens_max}: {line}\n{text}");
                before = line;
            }
        }
    }

    #[test]
    fn with_ample_room_names_are_told_apart_and_notes_are_sentences() {
        let text = digest(1_000);
        let mut lists = text.lines().filter_map(|line| line.trim_start().strip_prefix(NAMES)).peekable();
        assert!(lists.peek().is_some(), "{text}");
        assert!(lists.all(|list| list.split(' ').rev().skip(1).all(|name| name.ends_with(','))), "{text}");
        assert!(
            text.contains("- The slow part may well be in what Read shows next, as step_a says."),
            "{text}"
        );
    }
}
