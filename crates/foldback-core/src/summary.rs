//! Summaries of folds: what is asked for, how an answer is judged, and the floor summary that
//! answers whenever nothing better does.

mod material;
mod written;

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::digest::digest;
use crate::edit::{Edit, Fold};
use crate::handle::Handle;
use crate::ids::{Text, Tokens};
use crate::item::{Item, ItemKind, Pin, SummaryOrigin};
use crate::part::Part;
use crate::placeholder::{HeadPercent, one_line, shorten_to_tokens};
use crate::sequence::{Entry, Holds};
use crate::tokens::ITEM_OVERHEAD_TOKENS;
use crate::view::{Fate, View};
pub(crate) use written::said_by_user;
pub use written::{ModelSummary, SummaryForm, WrittenFloor};

/// No summary is asked to be smaller: this much holds a handle and a count.
pub const SUMMARY_TOKENS_MIN: u64 = 40;

/// Who wrote a floor summary.
const FLOOR: &str = "floor";

/// Who wrote a digest.
const DIGEST: &str = "digest";

/// What whoever writes a summary is given.
#[derive(Clone, Copy, Debug)]
pub struct FoldRequest<'p> {
    fold: &'p Fold,
    view: &'p View,
    edits: &'p [Edit],
}

impl<'p> FoldRequest<'p> {
    pub(crate) fn new(fold: &'p Fold, view: &'p View, edits: &'p [Edit]) -> Self {
        Self { fold, view, edits }
    }

    /// The fold: its range, size, focus.
    pub fn fold(&self) -> &'p Fold {
        self.fold
    }

    /// The view that is compacted.
    pub fn view(&self) -> &'p View {
        self.view
    }

    /// What the model saw of the folded range so far: items, and summaries that are taken in.
    pub fn entries(&self) -> impl Iterator<Item = &'p Entry> {
        let (fold, view) = (self.fold, self.view);
        view.iter().filter(|entry| fold.hides(entry.span().start))
    }

    /// Earlier summaries that the new one replaces.
    pub fn previous(&self) -> impl Iterator<Item = &'p Entry> {
        let (fold, view) = (self.fold, self.view);
        let summaries = view.holding(0..view.len(), Holds::SUMMARY).filter_map(|position| view.get(position));
        summaries.filter(|entry| fold.hides(entry.span().start))
    }

    /// The range as it was recorded, without what earlier folds and drops did to it.
    pub fn recorded(&self) -> impl Iterator<Item = &'p Arc<Item>> {
        let (fold, view) = (self.fold, self.view);
        fold.folded().flat_map(move |range| view.transcript().range(range)).map(Entry::item)
    }

    /// Makes text into the summary item of this fold. It is context, never a user message in
    /// disguise, and says what it stands for.
    pub fn item(&self, text: impl Into<Text>, written_by: impl Into<Text>) -> Item {
        let id = format!("summary-{}", self.fold.handle.as_str().trim_start_matches('@'));
        let mut item = Item::text(id, ItemKind::Context, text);
        item.summary = Some(self.origin(written_by.into()));
        item
    }

    fn origin(&self, written_by: Text) -> SummaryOrigin {
        let transcript = self.view.transcript();
        let covered = self.covered();
        SummaryOrigin {
            handle: self.fold.handle.clone(),
            item_count: self.item_count(&covered),
            tokens_before: covered.into_iter().map(|range| transcript.tokens_of(range)).sum(),
            written_by,
        }
    }

    /// The folded ranges without what earlier compactions dropped: that is not this fold's to tell.
    fn covered(&self) -> Vec<Range<usize>> {
        let dropped = self.view.overlay().blocks().iter().flat_map(|block| &block.edits);
        let has_drops = dropped.into_iter().any(|edit| matches!(edit, Edit::Drop(_)));
        if !has_drops {
            return self.fold.folded().collect();
        }
        let fates = self.view.fates();
        let mut covered: Vec<Range<usize>> = Vec::new();
        for index in self.fold.folded().flatten() {
            if matches!(fates[index], Fate::Dropped(_)) {
                continue;
            }
            match covered.last_mut() {
                Some(range) if range.end == index => range.end += 1,
                _ => covered.push(index..index + 1),
            }
        }
        covered
    }

    /// How many items those ranges stand for: a summary that was recorded stands for many.
    fn item_count(&self, covered: &[Range<usize>]) -> u32 {
        let transcript = self.view.transcript();
        let items: usize = covered.iter().map(ExactSizeIterator::len).sum();
        let summaries = covered.iter().flat_map(|range| transcript.holding(range.clone(), Holds::SUMMARY));
        let origins = summaries.filter_map(|index| transcript.get(index)?.item().summary.as_ref());
        let stood_for: usize = origins.map(|origin| (origin.item_count as usize).saturating_sub(1)).sum();
        u32::try_from(items.saturating_add(stood_for)).unwrap_or(u32::MAX)
    }

    /// The line with which a summary begins that a model wrote: it names the handle, so that what was
    /// folded can be recalled, and later compactions recognise the summary by it.
    pub fn header(&self) -> String {
        SummaryForm::Model.header(self.item_count(&self.covered()), &self.fold.handle)
    }

    /// Takes an answer as the summary of this fold, or says why not: there must be something in it,
    /// it may be no larger than asked for, and nothing but text with the authority of context. What
    /// is taken says what it stands for, whoever wrote it, and can be taken in by the next fold.
    pub(crate) fn accept(&self, mut items: Vec<Item>) -> Result<Vec<Item>, SummaryError> {
        let handle = || self.fold.handle.clone();
        for item in &mut items {
            if item.kind != ItemKind::Context {
                return Err(SummaryError::WrongKind { handle: handle(), kind: item.kind });
            }
            let is_text = |part: &&Part| matches!(part, Part::Text(_) | Part::Structured(_));
            if let Some(part) = item.parts.iter().find(|part| !is_text(part)) {
                return Err(SummaryError::WrongPart { handle: handle(), part: part.kind_name() });
            }
            let written_by =
                item.summary.take().map_or_else(|| Text::from("host"), |origin| origin.written_by);
            item.summary = Some(self.origin(written_by));
            item.pin = Pin::Free;
        }
        let says_something = |part: &Part| !matches!(part, Part::Text(text) if text.trim().is_empty());
        if !items.iter().flat_map(|item| &item.parts).any(says_something) {
            return Err(SummaryError::Empty { handle: handle() });
        }
        let meter = self.view.transcript().meter();
        let tokens: Tokens = items.iter().map(|item| meter.item(item).total).sum();
        let tokens_max = self.fold.spec.tokens_max;
        if tokens > tokens_max {
            return Err(SummaryError::Inflated { handle: handle(), tokens, tokens_max });
        }
        Ok(items)
    }

    /// The digest: what was said, done and named in the folded range, written without a model. Where
    /// there is no room for one, the floor summary.
    pub fn digest(&self) -> Item {
        let tokens_max = self.fold.spec.tokens_max.0.saturating_sub(ITEM_OVERHEAD_TOKENS);
        let covered = self.covered();
        let header = SummaryForm::Digest.header(self.item_count(&covered), &self.fold.handle);
        let meter = self.view.transcript().meter();
        let room = tokens_max.saturating_sub(meter.text(&header) + 1);
        let digest = digest(&self.material(&covered), room, meter);
        let text = digest.map(|text| header + &text).filter(|text| meter.text(text) <= tokens_max);
        match text {
            Some(text) => self.item(text, DIGEST),
            None => self.floor(),
        }
    }

    /// The floor summary: one line per folded unit with its handle, tool and first line, merged
    /// until it fits, covering the whole range.
    pub fn floor(&self) -> Item {
        let tokens_max = self.fold.spec.tokens_max.0.saturating_sub(ITEM_OVERHEAD_TOKENS);
        let text = self.floor_text(tokens_max);
        self.item(text, FLOOR)
    }

    fn floor_text(&self, tokens_max: u64) -> String {
        let meter = self.view.transcript().meter();
        let covered = self.covered();
        let item_count = self.item_count(&covered);
        let header = SummaryForm::Floor.header(item_count, &self.fold.handle);
        let prologue = self.prologue(tokens_max / 2);
        let units = self.labelled_units(&covered);
        let mut counts = vec![0; units.names.len()];
        let lines_max = (tokens_max / LINE_TOKENS_MIN).max(1) as usize;
        let mut group_len = units.units.len().div_ceil(lines_max).max(1);
        while group_len <= units.units.len() {
            let mut text = header.clone();
            text.push_str(&prologue);
            for group_start in (0..units.units.len()).step_by(group_len) {
                text.push('\n');
                self.push_line(&mut text, &units, group_start..group_start + group_len, &mut counts);
            }
            if meter.text(&text) <= tokens_max {
                return text;
            }
            group_len *= 2;
        }
        let shrinking = [header.clone() + &prologue, header];
        let fitting = shrinking.into_iter().find(|text| meter.text(text) <= tokens_max);
        fitting.unwrap_or_else(|| written::short_header(item_count, &self.fold.handle))
    }

    /// What an earlier summary says that its items, if they are recorded here at all, do not. The
    /// lines of a floor summary are taken over as lines: one header is enough.
    fn prologue(&self, tokens_max: u64) -> String {
        let mut prologue = String::new();
        for entry in self.previous().filter(|entry| !self.is_regenerated(entry)) {
            for part in &entry.item().parts {
                if let Part::Text(text) = part {
                    let lines = WrittenFloor::parse(text).map_or(text.as_str(), |floor| floor.lines);
                    prologue.push_str(if lines.is_empty() { "" } else { "\n" });
                    prologue.push_str(lines);
                }
            }
        }
        let meter = self.view.transcript().meter();
        let mut group_len = 1;
        while meter.text(&prologue) > tokens_max && group_len < MERGED_LINES_MAX {
            group_len *= 2;
            let Some(merged) = merge_lines(&prologue, group_len) else { break };
            prologue = merged;
        }
        let handle = &self.fold.handle;
        let shortened = shorten_to_tokens(&prologue, Tokens(tokens_max), HeadPercent::HALF, handle, meter);
        shortened.unwrap_or(prologue)
    }

    /// Whether a summary's lines are made anew from the items it stands for.
    fn is_regenerated(&self, entry: &Entry) -> bool {
        let is_ours = |origin: &SummaryOrigin| [FLOOR, DIGEST].contains(&origin.written_by.as_str());
        entry.item().summary.as_ref().is_some_and(is_ours) && !self.is_recorded_summary(entry)
    }

    /// Whether a summary is itself an item of the transcript: a host took a compacted view as its
    /// new history, and what the summary stands for is not there.
    fn is_recorded_summary(&self, entry: &Entry) -> bool {
        let recorded = self.view.transcript().get(entry.anchor());
        recorded.is_some_and(|recorded| Arc::ptr_eq(recorded.item(), entry.item()))
    }

    /// The units to be named, as transcript indices of their first members.
    fn units(&self, covered: &[Range<usize>]) -> Vec<usize> {
        let transcript = self.view.transcript();
        let told: Vec<Range<usize>> =
            self.previous().filter(|entry| !self.is_regenerated(entry)).map(Entry::span).collect();
        let is_told = |index: usize| told.iter().any(|span| span.contains(&index));
        let starts = covered.iter().cloned().flat_map(|range| transcript.unit_starts(range));
        starts.filter(|&index| !is_told(index)).collect()
    }

    /// The units to be named, with what each is named by: the tools it calls, or the kind of its
    /// only item. Looked up once for all attempts at a summary that fits.
    fn labelled_units(&self, covered: &[Range<usize>]) -> LabelledUnits<'p> {
        let transcript = self.view.transcript();
        let kinds = ItemKind::ALL.map(ItemKind::as_str);
        let names: Vec<&str> = kinds.into_iter().chain(transcript.tool_names()).collect();
        let mut calls = transcript.tool_calls().peekable();
        let (mut units, mut labels) = (Vec::new(), Vec::new());
        for unit in self.units(covered) {
            let label_start = labels.len();
            while let Some((caller, tool)) = calls.next_if(|&(caller, _)| caller <= unit) {
                if caller == unit {
                    labels.push(kinds.len() + tool);
                }
            }
            if labels.len() == label_start {
                labels.extend(transcript.mark(unit).map(|mark| mark.kind as usize));
            }
            units.push(LabelledUnit { unit, label_start });
        }
        LabelledUnits { units, labels, names }
    }

    fn push_line(
        &self,
        text: &mut String,
        units: &LabelledUnits<'p>,
        group: Range<usize>,
        counts: &mut [usize],
    ) {
        let (group, group_labels) = units.group(group);
        let transcript = self.view.transcript();
        let handle =
            |index: usize| transcript.get(index).map(|entry| Handle::of_item(index, &entry.item().id));
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let (first, last) = (first.unit, last.unit);
        let Some(first_handle) = handle(first) else { return };
        // Writing into a string cannot fail.
        let _ = write!(text, "{first_handle}");
        if let Some(last_handle) = handle(last).filter(|_| first != last) {
            let _ = write!(text, "…{last_handle}");
        }
        for (position, (label, count)) in units.tally(group_labels, counts).into_iter().enumerate() {
            text.push_str(if position == 0 { " " } else { ", " });
            text.push_str(&one_line(label));
            if count > 1 {
                let _ = write!(text, " ×{count}");
            }
        }
        if let Some(line) = self.quote(group) {
            text.push_str(": ");
            text.push_str(&one_line(line));
        }
    }

    /// The line that a group is remembered by: what the user said last, else what the model said
    /// last, else what a tool answered last.
    fn quote(&self, group: &[LabelledUnit]) -> Option<&'p str> {
        let kind = |unit: usize| self.view.transcript().mark(unit).map(|mark| mark.kind);
        let of_kind = |is_wanted: fn(ItemKind) -> bool| {
            let units = group.iter().rev().filter(|unit| kind(unit.unit).is_some_and(is_wanted));
            units.map(|unit| self.first_line(unit.unit)).find(|line| !line.is_empty())
        };
        let is_user = |kind| kind == ItemKind::User;
        of_kind(is_user).or_else(|| of_kind(|_| true))
    }

    /// The first line of a unit's last result, or of its own text.
    fn first_line(&self, unit: usize) -> &'p str {
        let transcript = self.view.transcript();
        let (_, last) = transcript.unit_ends(unit);
        let parts = [last, unit]
            .into_iter()
            .filter_map(|index| transcript.get(index))
            .flat_map(|entry| &entry.item().parts);
        let lines = parts.filter_map(|part| match part {
            Part::ToolResult(result) => Some(result.first_line()),
            Part::Text(text) => text.lines().map(str::trim).find(|line| !line.is_empty()),
            Part::Reasoning(_)
            | Part::ToolCall(_)
            | Part::Media(_)
            | Part::File(_)
            | Part::Structured(_)
            | Part::Opaque(_) => None,
        });
        lines.into_iter().find(|line| !line.is_empty()).unwrap_or("")
    }
}

/// Lines of an earlier summary that are merged into one.
const MERGED_LINES_MAX: usize = 1 << 16;

/// Neighbouring lines of a floor summary as one each: from the first handle to the last, with what
/// the last one says. `None` where something else stands among them.
fn merge_lines(lines: &str, group_len: usize) -> Option<String> {
    let parsed: Vec<(&str, &str, &str)> = lines
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (handles, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (first, last) = handles.split_once('…').unwrap_or((handles, handles));
            (Handle::parse(first).is_some() && first.starts_with('@')).then_some((first, last, rest))
        })
        .collect::<Option<_>>()?;
    let merged = parsed.chunks(group_len).map(|group| {
        let (first, last) = (group[0].0, group[group.len() - 1].1);
        let rest = group[group.len() - 1].2;
        if first == last { format!("\n{first} {rest}") } else { format!("\n{first}…{last} {rest}") }
    });
    Some(merged.collect())
}

/// Folded units and what they are named by.
struct LabelledUnits<'p> {
    units: Vec<LabelledUnit>,
    /// The labels of all units in order, as indices into `names`.
    labels: Vec<usize>,
    names: Vec<&'p str>,
}

struct LabelledUnit {
    /// The transcript index of its first member.
    unit: usize,
    label_start: usize,
}

impl<'p> LabelledUnits<'p> {
    /// How often each label occurs, the first few in order. `counts` has a zero for every name.
    fn tally(&self, labels: &[usize], counts: &mut [usize]) -> Vec<(&'p str, usize)> {
        let mut first: Vec<usize> = Vec::with_capacity(LABELS_MAX);
        for &label in labels {
            counts[label] += 1;
            if counts[label] == 1 && first.len() < LABELS_MAX {
                first.push(label);
            }
        }
        let tally = first.into_iter().map(|label| (self.names[label], counts[label])).collect();
        labels.iter().for_each(|&label| counts[label] = 0);
        tally
    }

    /// Neighbouring units and all their labels.
    fn group(&self, group: Range<usize>) -> (&[LabelledUnit], &[usize]) {
        let group = group.start..group.end.min(self.units.len());
        let label_at =
            |position: usize| self.units.get(position).map_or(self.labels.len(), |unit| unit.label_start);
        (&self.units[group.clone()], &self.labels[label_at(group.start)..label_at(group.end)])
    }
}

/// A line with a handle and a word or two costs about this much; how many lines to try first.
const LINE_TOKENS_MIN: u64 = 16;

/// Tools or kinds named in one merged line.
const LABELS_MAX: usize = 6;

/// Why an answer is not taken as the summary of a fold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SummaryError {
    /// There is nothing in it.
    #[error("the summary of {handle} is empty")]
    Empty {
        /// The fold.
        handle: Handle,
    },
    /// It is larger than what was asked for.
    #[error("the summary of {handle} is {tokens} tokens, more than the {tokens_max} asked for")]
    Inflated {
        /// The fold.
        handle: Handle,
        /// Its size.
        tokens: Tokens,
        /// The size asked for.
        tokens_max: Tokens,
    },
    /// There are not as many summaries as folds.
    #[error("{given} summaries were given for {expected} folds; give one list of items for each request")]
    Count {
        /// How many folds the plan has.
        expected: usize,
        /// How many summaries were given.
        given: usize,
    },
    /// It holds something other than text.
    #[error("the summary of {handle} holds a part of kind {part}; summaries are text")]
    WrongPart {
        /// The fold.
        handle: Handle,
        /// What it holds.
        part: &'static str,
    },
    /// It claims another authority than context has.
    #[error("the summary of {handle} has an item of kind {kind}; summaries are context")]
    WrongKind {
        /// The fold.
        handle: Handle,
        /// The kind it came with.
        kind: ItemKind,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::ToolResult;
    use crate::plan::{Plan, plan};
    use crate::strategy::SummarizeOlderStrategy;
    use crate::transcript::Transcript;
    use crate::view::Recalled;
    use serde_json::json;

    fn rounds(count: usize) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.push(Item::user("u", "Make the parser faster, and never touch the lexer"));
        for number in 0..count {
            let (call, tool) = (format!("c{number}"), if number % 3 == 0 { "shell" } else { "read_file" });
            transcript.push(Item::assistant(
                format!("a{number}"),
                vec![Part::call(call.clone(), tool, &json!({"n": number}))],
            ));
            let output = format!("line of round {number}\n{}", "more\n".repeat(40));
            transcript.push(Item::tool(format!("t{number}"), ToolResult::text(call, output)));
        }
        transcript.push(Item::user("v", "thanks"));
        transcript
    }

    fn fold(transcript: &Transcript, tokens_max: u64) -> Plan {
        let strategy = SummarizeOlderStrategy::new(1).summary_tokens_max(Tokens(tokens_max));
        plan(&View::of(transcript), &strategy, None).unwrap()
    }

    fn text(item: &Item) -> &str {
        match &item.parts[0] {
            Part::Text(text) => text,
            part => panic!("{part:?}"),
        }
    }

    #[test]
    fn a_digest_is_the_same_whether_its_items_were_read_before_or_not() {
        let written = |transcript: &Transcript| {
            let budget = crate::budget::Budget::for_target(Tokens(2_000)).unwrap();
            let ladder = crate::strategy::LadderStrategy::new();
            let plan = crate::plan::plan(&View::of(transcript), &ladder, Some(&budget)).unwrap();
            let requests: Vec<Item> = plan.requests().map(|request| request.digest()).collect();
            assert!(!requests.is_empty(), "something is folded");
            requests
        };
        let (cold, ahead) = (rounds(200), rounds(200));
        let first = written(&cold);
        assert_eq!(written(&cold), first, "read by the digest before");
        (0..ahead.len()).for_each(|index| ahead.read_ahead(index));
        assert_eq!(written(&ahead), first, "read one by one");
        let mut grown = cold;
        grown.push(Item::user("more", "Never touch src/lexer.rs."));
        let fresh: Transcript = grown.items().cloned().collect();
        assert_eq!(written(&grown), written(&fresh), "read in part");
    }

    #[test]
    fn a_floor_summary_has_a_line_for_each_unit_where_there_is_room() {
        let transcript = rounds(10);
        let plan = fold(&transcript, 2_000);
        let floor = plan.requests().next().unwrap().floor();
        let lines: Vec<&str> = text(&floor).lines().collect();
        assert_eq!(lines.len(), 1 + 11, "{}", text(&floor));
        assert!(lines[1].contains("user: Make the parser faster"), "{}", lines[1]);
        assert!(lines[2].contains("shell: line of round 0"), "{}", lines[2]);
        let handle = Handle::parse(lines[3].split(' ').next().unwrap()).unwrap();
        let Some(Recalled::Items(items)) = plan.apply_floor().view.recall(&handle) else {
            panic!("{handle}")
        };
        assert_eq!(items.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["a1", "t1"]);
    }

    #[test]
    fn lines_are_merged_until_the_whole_range_fits() {
        let transcript = rounds(400);
        for tokens_max in [SUMMARY_TOKENS_MIN, 60, 100, 300, 1_000] {
            let plan = fold(&transcript, tokens_max);
            let floor = plan.requests().next().unwrap().floor();
            let tokens = transcript.meter().item(&floor).total;
            assert!(tokens <= Tokens(tokens_max), "{tokens} of {tokens_max}");
            assert!(text(&floor).contains("801") || tokens_max < 300, "{}", text(&floor));
        }
        let plan = fold(&transcript, 1_000);
        let floor = plan.requests().next().unwrap().floor();
        assert!(text(&floor).contains("read_file ×"), "{}", text(&floor));
    }

    #[test]
    fn what_a_model_wrote_before_is_carried_on_when_the_floor_takes_over() {
        let mut transcript = rounds(30);
        let first = fold(&transcript, 500);
        let request = first.requests().next().unwrap();
        let written = request.item("The parser is slow because of the regex in scan().", "model");
        let compacted = first.apply(vec![vec![written]]).unwrap();
        for number in 0..20 {
            transcript.push(Item::user(format!("w{number}"), "and another thing to think about, please"));
        }
        let view = View::through(&transcript, compacted.view.overlay()).unwrap();
        let second = plan(&view, &SummarizeOlderStrategy::new(1), None).unwrap();
        let floor = second.requests().next().unwrap().floor();
        assert!(text(&floor).contains("because of the regex in scan()"), "{}", text(&floor));
        assert!(!text(&floor).contains("line of round"), "told already: {}", text(&floor));
        assert_eq!(second.apply_floor().view.items().filter(|item| item.summary.is_some()).count(), 1);
    }

    #[test]
    fn a_floor_summary_that_was_recorded_is_taken_in_line_by_line() {
        let folded = fold(&rounds(60), 800).apply_floor();
        // A host takes the compacted view as its new history.
        let mut transcript: Transcript = folded.view.items().cloned().collect();
        for tokens_max in [700, 400, 120] {
            transcript
                .push(Item::user(format!("w{tokens_max}"), "and another thing to think about ".repeat(30)));
            transcript
                .push(Item::user(format!("x{tokens_max}"), "thanks again, and go on with the rest of it"));
            let again = fold(&transcript, tokens_max).apply_floor();
            let summary = again.view.items().find(|item| item.summary.is_some()).unwrap();
            let text = text(summary);
            assert_eq!(text.matches("folded items").count(), 1, "{text}");
            let floor = WrittenFloor::parse(text).unwrap();
            assert!(floor.item_count > 121, "{text}");
            assert!(floor.lines.lines().all(|line| line.starts_with('@')), "{text}");
            transcript = again.view.items().cloned().collect();
        }
    }

    #[test]
    fn an_empty_or_inflated_or_disguised_summary_is_refused() {
        let transcript = rounds(30);
        let plan = fold(&transcript, 300);
        let request = plan.requests().next().unwrap();
        let refuse = |item: Item| plan.apply(vec![vec![item]]).map(|_| ()).unwrap_err();
        assert!(matches!(refuse(request.item(" \n", "model")), SummaryError::Empty { .. }));
        let long = request.item("word ".repeat(2_000), "model");
        assert!(matches!(refuse(long), SummaryError::Inflated { .. }));
        let acting = Item::new("s", ItemKind::Context, vec![Part::call("x", "rm", &json!({}))]);
        assert!(matches!(refuse(acting), SummaryError::WrongPart { .. }));
        let disguised = Item::user("s", "I asked for all of this");
        assert!(matches!(refuse(disguised), SummaryError::WrongKind { .. }));
        assert!(matches!(plan.apply(vec![Vec::new()]), Err(SummaryError::Empty { .. })));
        assert!(matches!(plan.apply(Vec::new()), Err(SummaryError::Count { expected: 1, given: 0 })));
    }

    #[test]
    fn a_summary_says_what_it_stands_for_whoever_wrote_it() {
        let transcript = rounds(30);
        let plan = fold(&transcript, 300);
        let bare = Item::text("note", ItemKind::Context, "Thirty rounds of reading.").pinned();
        let compacted = plan.apply(vec![vec![bare]]).unwrap();
        let summary = compacted.view.items().find(|item| item.summary.is_some()).unwrap();
        assert_eq!(summary.summary.as_ref().unwrap().item_count, 61);
        assert!(!summary.is_pinned(), "the next fold must be able to take it in");
    }
}
