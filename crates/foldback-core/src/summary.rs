//! Summaries of folds: what is asked for, how an answer is judged, and the floor summary that
//! answers whenever nothing better does.

mod beside;
mod lines;
mod material;

use std::borrow::Cow;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use crate::digest::{digest, earlier_section};
use crate::edit::{Edit, Fold};
use crate::handle::Handle;
use crate::holds::Holds;
use crate::ids::{Text, Tokens};
use crate::item::{Item, ItemKind, Pin, SummaryOrigin};
use crate::keep::KeptLines;
use crate::part::Part;
use crate::placeholder::one_line;
use crate::reading::text_of;
use crate::secrets::{first_line, first_line_of, redact};
use crate::sequence::Entry;
use crate::tokens::ITEM_OVERHEAD_TOKENS;
use crate::view::{Fate, View};
use crate::written::{DIGEST, FLOOR, SummaryForm, short_header};
pub use lines::LineFates;

pub use crate::written::{ModelSummary, without_closing};

/// No summary is asked to be smaller: this much holds a handle and a count.
pub const SUMMARY_TOKENS_MIN: u64 = 40;

/// A smaller digest begins without a word about how to read it.
const LONG_HEADER_TOKENS_MIN: u64 = 400;

/// What whoever writes a summary is given.
#[derive(Clone, Copy, Debug)]
pub struct FoldRequest<'p> {
    fold: &'p Fold,
    view: &'p View,
    edits: &'p [Edit],
    lines: &'p KeptLines,
}

impl<'p> FoldRequest<'p> {
    pub(crate) fn new(fold: &'p Fold, view: &'p View, edits: &'p [Edit], lines: &'p KeptLines) -> Self {
        Self { fold, view, edits, lines }
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
        let mut item = Item::text(self.item_id(), ItemKind::Context, text);
        item.summary = Some(self.origin(written_by.into()));
        item
    }

    /// Makes several texts into the summary items of this fold, in order.
    pub fn items(&self, texts: impl IntoIterator<Item = String>, written_by: &str) -> Vec<Item> {
        let texts = texts.into_iter().enumerate();
        let item = |(index, text): (usize, String)| {
            let mut item = self.item(text, written_by);
            if index > 0 {
                item.id = format!("{}-{}", item.id, index + 1).into();
            }
            item
        };
        texts.map(item).collect()
    }

    fn item_id(&self) -> String {
        format!("summary-{}", self.fold.handle.as_str().trim_start_matches('@'))
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
    /// folded can be recalled.
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

    /// Takes over the items that were taken for a fold that hides more, under the names of this one. A
    /// digest is written anew.
    pub(crate) fn take_over(&self, wider: &Self, items: &[Item]) -> Result<Vec<Item>, SummaryError> {
        let is_ours = |item: &Item| {
            item.summary.as_ref().is_some_and(|origin| [FLOOR, DIGEST].contains(&origin.written_by.as_str()))
        };
        if items.iter().any(is_ours) {
            return Ok(vec![self.digest()]);
        }
        let (id, closings) = (wider.item_id(), (wider.closing(), self.older_behind()));
        let headers = (wider.header(), self.header());
        let renamed = |text: &Text| -> Text {
            let Some(lines) = text.strip_prefix(&*headers.0).and_then(|rest| rest.strip_prefix('\n')) else {
                return text.clone();
            };
            let old = closings.0.as_deref().and_then(|closing| lines.strip_suffix(closing));
            let new = old.and(closings.1.as_deref()).unwrap_or_default();
            format!("{}\n{}{new}", headers.1, old.unwrap_or(lines)).trim_end().into()
        };
        let items = items.iter().cloned().map(|mut item| {
            if let Some(number) = item.id.strip_prefix(&*id) {
                item.id = format!("{}{number}", self.item_id()).into();
            }
            for part in &mut item.parts {
                if let Part::Text(text) = part {
                    *text = renamed(text);
                }
            }
            item
        });
        self.accept(items.collect())
    }

    /// The digest: what was said, done and named in the folded range, written without a model. Where
    /// there is no room for one, the floor summary.
    pub fn digest(&self) -> Item {
        let tokens_max = self.fold.spec.tokens_max.0.saturating_sub(ITEM_OVERHEAD_TOKENS);
        let covered = self.covered();
        let item_count = self.item_count(&covered);
        let header = match tokens_max < LONG_HEADER_TOKENS_MIN {
            true => short_header(item_count, &self.fold.handle),
            false => SummaryForm::Digest.header(item_count, &self.fold.handle),
        };
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
        fitting.unwrap_or_else(|| short_header(item_count, &self.fold.handle))
    }

    /// What an earlier summary says that its items, if they are recorded here at all, do not: quoted.
    fn prologue(&self, tokens_max: u64) -> String {
        let previous = self.previous().filter(|entry| !self.is_regenerated(entry));
        let texts =
            previous.flat_map(|entry| &entry.item().parts).map(|part| redact(&text_of(part)).into_owned());
        let texts: Vec<String> = texts.collect();
        let meter = self.view.transcript().meter();
        earlier_section(&texts, tokens_max, meter).unwrap_or_default()
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
            text.push_str(&one_line(&redact(label)));
            if count > 1 {
                let _ = write!(text, " ×{count}");
            }
        }
        if let Some(line) = self.quote(group) {
            text.push_str(": ");
            text.push_str(&one_line(&line));
        }
    }

    /// The line that a group is remembered by: what the user said last, else what the model said
    /// last, else what a tool answered last.
    fn quote(&self, group: &[LabelledUnit]) -> Option<Cow<'p, str>> {
        let kind = |unit: usize| self.view.transcript().mark(unit).map(|mark| mark.kind);
        let of_kind = |is_wanted: fn(ItemKind) -> bool| {
            let units = group.iter().rev().filter(|unit| kind(unit.unit).is_some_and(is_wanted));
            units.map(|unit| self.first_line(unit.unit)).find(|line| !line.is_empty())
        };
        let is_user = |kind| kind == ItemKind::User;
        of_kind(is_user).or_else(|| of_kind(|_| true))
    }

    /// The first line of a unit's last result, or of its own text, without secrets; of the user's what was
    /// typed.
    fn first_line(&self, unit: usize) -> Cow<'p, str> {
        let transcript = self.view.transcript();
        let (_, last) = transcript.unit_ends(unit);
        let of_item = |item: &'p Arc<Item>| {
            let lines = item.parts.iter().enumerate().map(|(part_index, part)| match part {
                Part::ToolResult(result) => first_line_of(result),
                Part::Text(_) if item.kind == ItemKind::User => match item.typed(part_index) {
                    Some(Cow::Borrowed(text)) => first_line(text),
                    Some(Cow::Owned(text)) => Cow::Owned(first_line(&text).into_owned()),
                    None => Cow::Borrowed(""),
                },
                Part::Text(text) => first_line(text),
                Part::Reasoning(_)
                | Part::ToolCall(_)
                | Part::Media(_)
                | Part::File(_)
                | Part::Structured(_)
                | Part::Opaque(_) => Cow::Borrowed(""),
            });
            lines.into_iter().find(|line| !line.is_empty())
        };
        let items = [last, unit].into_iter().filter_map(|index| transcript.get(index)).map(Entry::item);
        items.into_iter().find_map(of_item).unwrap_or_default()
    }
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
#[non_exhaustive]
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
mod tests;
