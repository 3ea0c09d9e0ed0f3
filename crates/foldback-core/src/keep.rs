//! Lines that a person asked to keep: where they stand in the record, who wrote them, and how a summary
//! repeats them.
//!
//! The pattern is asked of what was recorded, never of the text of a summary. A line keeps its speaker, so
//! that what a tool wrote is never told as the user's word.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::ids::{CallId, Text};
use crate::item::{Item, ItemKind};
use crate::ledger::outside_code;
use crate::part::Part;
use crate::reading::text_of;
use crate::secrets::{redact, redact_item};
use crate::tokens::Meter;
use crate::written::{KEPT, SECTION_MARK, USER_MARK, escaped, escaped_without_handles};

/// Lines that one summary repeats at most.
pub const KEPT_LINES_MAX: usize = 64;

/// Characters of a line that are repeated at most, around the words that were asked for.
pub const KEPT_LINE_CHARS_MAX: usize = 400;

/// Lines that are looked for in a record, of the user and of others; the newest count.
const FOUND_LINES_MAX: usize = 2_000;

/// The share of a summary that kept lines may take, and the same where the summary is small.
const KEPT_PERCENT: u64 = 50;
const KEPT_OF_LITTLE_PERCENT: u64 = 75;
const LITTLE_TOKENS: u64 = 400;

/// Characters of a tool's name.
const TOOL_CHARS_MAX: usize = 40;

/// What stands where a line was cut.
const CUT: &str = "[…]";

type Find = dyn Fn(&str) -> Option<Range<usize>> + Send + Sync;

/// Which lines a person wants to keep: finds in a line, without its end, the words that make it one of them.
/// The same line gives the same answer, always (T6).
///
/// ```
/// use foldback_core::KeepLines;
///
/// let keep = KeepLines::new(|line| line.find("never").map(|start| start..start + 5));
/// assert!(keep.find("never touch the lexer").is_some());
/// ```
#[derive(Clone)]
pub struct KeepLines(Arc<Find>);

impl KeepLines {
    /// The lines in which this finds something.
    pub fn new(find: impl Fn(&str) -> Option<Range<usize>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    /// Where in the line the words stand.
    pub fn find(&self, line: &str) -> Option<Range<usize>> {
        (self.0)(line)
    }

    /// Every line of these items that is wanted, in order; summaries are passed over. Secrets are replaced
    /// before anything is cut.
    pub fn in_items<'i>(&self, items: impl Iterator<Item = (usize, &'i Item)>) -> KeptLines {
        let mut found = Found::default();
        for (index, item) in items.filter(|(_, item)| item.summary.is_none()) {
            found.tools.extend(item.calls().map(|(_, call)| (&call.id, &call.name)));
            let is_wanted = |text: &str| text.lines().any(|line| self.find(line).is_some());
            if !item.parts.iter().any(|part| is_wanted(&text_of(part))) {
                continue;
            }
            let redacted = redact_item(item);
            for part_index in 0..redacted.parts.len() {
                self.in_part(&redacted, (index, part_index), &mut found);
            }
        }
        KeptLines::new(found.users.into_iter().chain(found.others).collect())
    }

    fn in_part(&self, item: &Item, (item_index, part_index): (usize, usize), found: &mut Found<'_>) {
        for (by, line) in spoken(item, part_index, &found.tools) {
            let Some(span) = self.find(&line).filter(|_| !line.trim().is_empty()) else { continue };
            let text = cut(line.trim_end(), span).into();
            found.push(KeptLine { item_index, part_index, by, text });
        }
    }
}

impl fmt::Debug for KeepLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeepLines")
    }
}

/// Two are the same where one is a clone of the other: what they find cannot be compared.
impl PartialEq for KeepLines {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What was found so far, the newest of it.
#[derive(Default)]
struct Found<'i> {
    tools: HashMap<&'i CallId, &'i Text>,
    users: VecDeque<KeptLine>,
    others: VecDeque<KeptLine>,
}

impl Found<'_> {
    fn push(&mut self, line: KeptLine) {
        let found = if line.by == Speaker::User { &mut self.users } else { &mut self.others };
        if found.len() == FOUND_LINES_MAX {
            found.pop_front();
        }
        found.push_back(line);
    }
}

/// Who wrote a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Speaker {
    /// The user typed it.
    User,
    /// The user pasted or quoted it.
    Pasted,
    /// The user attached it.
    Attached,
    /// The agent said it.
    Agent,
    /// The agent thought it.
    Thought,
    /// The agent gave it to the tool of this name.
    Given(Text),
    /// The tool of this name answered it.
    Answered(Text),
    /// The program around the agent put it there.
    Host,
}

impl Speaker {
    /// How a line of this speaker begins in a summary. Only the user's has the user's mark.
    fn mark(&self) -> String {
        match self {
            Self::User => USER_MARK.to_owned(),
            Self::Pasted => "pasted by the user: ".to_owned(),
            Self::Attached => "attached by the user: ".to_owned(),
            Self::Agent => "said: ".to_owned(),
            Self::Thought => "thought: ".to_owned(),
            Self::Given(tool) => format!("given to {}: ", tool_name(tool)),
            Self::Answered(tool) => format!("answered by {}: ", tool_name(tool)),
            Self::Host => "put in by the agent's program: ".to_owned(),
        }
    }
}

fn tool_name(name: &str) -> String {
    let name = redact(name).replace(char::is_whitespace, "_");
    let is_of_name = |character: &char| character.is_alphanumeric() || "_-.:/".contains(*character);
    let name: String = name.chars().filter(is_of_name).take(TOOL_CHARS_MAX).collect();
    if name.is_empty() { "a tool".to_owned() } else { name }
}

/// A line of the record that a person asked to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLine {
    /// The transcript index of its item.
    pub item_index: usize,
    /// The part of the item.
    pub part_index: usize,
    /// Who wrote it.
    pub by: Speaker,
    /// The line without its secrets; the piece around the words that were asked for where it is long.
    pub text: Text,
}

impl KeptLine {
    /// The line as a summary has it: in one line, with its speaker.
    pub fn written(&self) -> String {
        let text = match self.by {
            Speaker::User => escaped(&self.text),
            _ => escaped_without_handles(&self.text),
        };
        format!("{}{text}", self.by.mark())
    }

    /// Whether a part shows it.
    pub(crate) fn is_in(&self, part: &Part) -> bool {
        let text = text_of(part);
        // A secret is replaced in the line, and not in the part.
        text.contains(self.words()) || redact(&text).contains(self.words())
    }

    /// Whether a summary tells it, as its speaker's.
    pub(crate) fn is_told_in(&self, summary: &str) -> bool {
        let words = self.words();
        let forms = [words.into(), escaped(words), escaped_without_handles(words)];
        let is_speakers = |line: &str| self.by != Speaker::User || line.starts_with(USER_MARK);
        summary
            .lines()
            .filter(|line| is_speakers(line))
            .any(|line| forms.iter().any(|form| line.contains(&**form)))
    }

    /// The line without marks of where it was cut: what a text has that shows it.
    fn words(&self) -> &str {
        self.text.trim_start_matches(CUT).trim_end_matches(CUT).trim()
    }
}

/// The lines of a record that a person asked to keep, in order.
#[derive(Clone, Debug, Default)]
pub struct KeptLines {
    lines: Vec<KeptLine>,
    /// Where the lines of each item begin and end.
    of_item: BTreeMap<usize, Range<usize>>,
}

impl KeptLines {
    fn new(mut lines: Vec<KeptLine>) -> Self {
        lines.sort_by_key(|line| (line.item_index, line.part_index));
        let mut of_item: BTreeMap<usize, Range<usize>> = BTreeMap::new();
        for (place, line) in lines.iter().enumerate() {
            of_item.entry(line.item_index).or_insert(place..place).end = place + 1;
        }
        Self { lines, of_item }
    }

    /// All of them.
    pub fn lines(&self) -> &[KeptLine] {
        &self.lines
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// How many are the words of different speakers, or different words.
    pub fn distinct_count(&self) -> usize {
        self.lines.iter().map(|line| (&line.by, &line.text)).collect::<HashSet<_>>().len()
    }

    /// Those of one item.
    pub(crate) fn of_item(&self, index: usize) -> &[KeptLine] {
        self.of_item.get(&index).map_or(&[], |range| &self.lines[range.clone()])
    }
}

/// The lines that have a place in one summary.
#[derive(Clone, Debug, Default)]
pub struct ChosenLines {
    /// In order, none twice.
    pub lines: Vec<KeptLine>,
    /// How many have none.
    pub left_out: usize,
}

impl ChosenLines {
    /// What has room in a summary of `tokens_max`: the user's words first, then the newest.
    pub fn of(lines: &[&KeptLine], tokens_max: u64, meter: &Meter) -> Self {
        let percent = if tokens_max < LITTLE_TOKENS { KEPT_OF_LITTLE_PERCENT } else { KEPT_PERCENT };
        let mut left = (tokens_max * percent / 100).saturating_sub(meter.text(&head()));
        let mut told: HashSet<(&Speaker, &Text)> = HashSet::new();
        let (mut chosen, mut left_out) = (Vec::new(), 0);
        let (users, others): (Vec<&KeptLine>, Vec<&KeptLine>) =
            lines.iter().copied().partition(|line| line.by == Speaker::User);
        for line in users.into_iter().rev().chain(others.into_iter().rev()) {
            if !told.insert((&line.by, &line.text)) {
                continue;
            }
            let tokens = meter.text(&line.written()) + 1;
            if tokens > left || chosen.len() == KEPT_LINES_MAX {
                left_out += 1;
                continue;
            }
            left -= tokens;
            chosen.push(line.clone());
        }
        chosen.sort_by_key(|line| (line.item_index, line.part_index));
        Self { lines: chosen, left_out }
    }

    /// The section of a summary, from the end of the line before it. Lines that a text has already are left
    /// out of it.
    pub(crate) fn section(&self, text: &str) -> String {
        let there: HashSet<&str> = text.lines().collect();
        let written = self.lines.iter().map(KeptLine::written).filter(|line| !there.contains(line.as_str()));
        let mut written: Vec<String> = written.collect();
        written.extend((self.left_out > 0).then(|| left_out(self.left_out)));
        match written.is_empty() {
            true => String::new(),
            false => format!("{}\n{}", head(), written.join("\n")),
        }
    }
}

fn head() -> String {
    format!("\n{SECTION_MARK}{KEPT}")
}

fn left_out(count: usize) -> String {
    format!("({count} more lines that were to be kept have no room here; the handle recalls them)")
}

/// The lines of a part, each with who wrote it.
fn spoken<'p>(
    item: &'p Item,
    part_index: usize,
    tools: &HashMap<&CallId, &Text>,
) -> Vec<(Speaker, Cow<'p, str>)> {
    let Some(part) = item.parts.get(part_index) else { return Vec::new() };
    let by = match (part, item.kind) {
        (Part::Text(text), ItemKind::User) => return typed(item, part_index, text),
        (Part::Structured(_) | Part::File(_), ItemKind::User) => Speaker::Attached,
        (Part::Reasoning(_), _) => Speaker::Thought,
        (Part::ToolCall(call), _) => Speaker::Given(call.name.clone()),
        (Part::ToolResult(result), _) => {
            Speaker::Answered(tools.get(&result.call_id).copied().cloned().unwrap_or_default())
        }
        (_, ItemKind::Assistant) => Speaker::Agent,
        (_, ItemKind::Tool) => Speaker::Answered(Text::default()),
        _ => Speaker::Host,
    };
    let lines: Vec<Cow<'p, str>> = match text_of(part) {
        Cow::Borrowed(text) => text.lines().map(Cow::Borrowed).collect(),
        Cow::Owned(text) => text.lines().map(|line| Cow::Owned(line.to_owned())).collect(),
    };
    lines.into_iter().map(|line| (by.clone(), line)).collect()
}

/// The lines of a user's text: what was typed, what was pasted, what a host inserted.
fn typed<'p>(item: &'p Item, part_index: usize, text: &'p str) -> Vec<(Speaker, Cow<'p, str>)> {
    let mut lines = Vec::new();
    let own = item.typed(part_index).unwrap_or_default();
    let typed: HashSet<Range<usize>> = outside_code(&own).collect();
    let mut start = 0;
    for line in own.split_inclusive('\n') {
        let by = match typed.contains(&(start..start + line.len())) {
            true => Speaker::User,
            false => Speaker::Pasted,
        };
        start += line.len();
        lines.push((by, Cow::Owned(line.trim_end().to_owned())));
    }
    let mut end = 0;
    for span in item.typed_spans(part_index).into_iter().chain(std::iter::once(text.len()..text.len())) {
        lines.extend(text[end..span.start].lines().map(|line| (Speaker::Host, Cow::Borrowed(line))));
        end = span.end;
    }
    lines
}

/// The piece of a line around some words of it, with marks where it was cut.
fn cut(line: &str, words: Range<usize>) -> Cow<'_, str> {
    if line.chars().count() <= KEPT_LINE_CHARS_MAX {
        return Cow::Borrowed(line);
    }
    let (start, end) = (line.floor_char_boundary(words.start), line.ceil_char_boundary(words.end));
    let around = KEPT_LINE_CHARS_MAX.saturating_sub(line[start..end].chars().count()) / 2;
    let start = line[..start].char_indices().rev().take(around).last().map_or(start, |(at, _)| at);
    let mut rest = line[start..].char_indices().map(|(at, _)| start + at);
    let end = rest.nth(KEPT_LINE_CHARS_MAX).unwrap_or(line.len());
    let marks = (if start > 0 { CUT } else { "" }, if end < line.len() { CUT } else { "" });
    Cow::Owned(format!("{}{}{}", marks.0, &line[start..end], marks.1))
}

#[cfg(test)]
mod tests;
