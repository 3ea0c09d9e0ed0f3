//! A conversation from the records of one branch: messages put together, compactions understood.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use foldback_core::{Item, ItemKind, Part, ResultPart, Text, Tokens, ToolResult, TurnId};
use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use smallvec::SmallVec;

use super::name::Key;
use super::record::{Compact, Kind, Parent, Record};
use crate::conversation::Extension;
use crate::conversation::{Cleared, Conversation, FilePlace, Made, Seen, Shown};
use crate::lowering;
use crate::pieces::Line;

/// What Claude Code shows in the place of a result that it cleared.
const CLEARED: &str = "[Old tool result content cleared]";

/// Who made a compaction that foldback did not write.
const BY: &str = "claude-code";

/// Who made one that it did.
const BY_FOLDBACK: &str = "foldback";

/// Lines between foldback's record and the boundary that it belongs to: what Claude Code notes meanwhile.
const NOTE_LINES_MAX: usize = 64;

/// The records of `branch`, in the order of the file, as a conversation. `said` gives the items of a
/// record, by its line index; it is asked once for each.
pub(super) fn conversation(
    lines: &[Line<Record>],
    branch: &[usize],
    said: impl FnMut(usize) -> Vec<Arc<Item>>,
) -> Conversation {
    let mut builder = Builder::new(lines, branch, said);
    for &index in branch {
        builder.push(index);
    }
    builder.conversation
}

struct Builder<'b, S> {
    said: S,
    lines: &'b [Line<Record>],
    branch: &'b [usize],
    /// Made when it is asked for: most branches were never compacted.
    by_uuid: OnceCell<HashMap<Key<'b>, usize>>,
    conversation: Conversation,
    /// The item that holds a message, by the message's id.
    messages: HashMap<&'b str, usize>,
    /// What each record became, by the record's line index.
    items: Vec<SmallVec<[Seen; 2]>>,
    /// Where the result of a call is, item and part, in the records of the branch up to `results_end`:
    /// few agents clear results, so that they are looked for when one does.
    results: HashMap<&'b str, (usize, usize)>,
    results_end: usize,
    /// Records that a boundary before them already showed.
    shown: HashSet<usize>,
}

impl<'b, S: FnMut(usize) -> Vec<Arc<Item>>> Builder<'b, S> {
    fn new(lines: &'b [Line<Record>], branch: &'b [usize], said: S) -> Self {
        Self {
            said,
            lines,
            branch,
            by_uuid: OnceCell::new(),
            conversation: Conversation::new(),
            messages: HashMap::with_capacity(branch.len() / 4),
            items: vec![SmallVec::new(); lines.len()],
            results: HashMap::new(),
            results_end: 0,
            shown: HashSet::new(),
        }
    }

    /// The record of the branch that has this uuid; of several, the last.
    fn record_named(&self, uuid: Key<'_>) -> Option<usize> {
        let named = |&index: &usize| self.lines[index].record.uuid.as_ref().map(|uuid| (uuid.key(), index));
        let by_uuid = self.by_uuid.get_or_init(|| self.branch.iter().filter_map(named).collect());
        by_uuid.get(&uuid).copied()
    }

    fn place(&self, index: usize) -> FilePlace {
        FilePlace::line(self.lines[index].number)
    }

    fn push(&mut self, index: usize) {
        let lines = self.lines;
        let record = &lines[index].record;
        match record.kind {
            _ if self.shown.contains(&index) => {}
            Kind::Foldback | Kind::Other => {}
            Kind::CompactBoundary => self.compact(index, record.compact()),
            Kind::MicrocompactBoundary => self.clear(index, record.compact()),
            // A summary whose boundary is not there.
            Kind::User if record.is_summary => self.compact_to(index, &Compact::default(), vec![index]),
            Kind::User | Kind::Assistant | Kind::Attachment => self.say(index),
        }
    }

    /// Appends what a record says to the history.
    fn say(&mut self, index: usize) {
        let lines = self.lines;
        let record = &lines[index].record;
        let message_id = record.message_id.as_deref().filter(|_| record.kind == Kind::Assistant);
        let began = message_id.and_then(|id| self.messages.get(id).copied());
        let mut at = SmallVec::new();
        for item in (self.said)(index) {
            match began.filter(|_| item.kind == ItemKind::Assistant) {
                Some(began) => {
                    let Item { usage, finish_reason, parts, .. } = Arc::unwrap_or_clone(item);
                    self.conversation.extend_item(began, parts);
                    self.conversation.amend_item(began, |item| {
                        item.usage = usage.or(item.usage);
                        item.finish_reason = finish_reason.or(item.finish_reason);
                    });
                    at.push(Seen::Item(began));
                }
                None => at.push(Seen::Item(self.conversation.push(item, self.place(index)))),
            }
        }
        if let (Some(id), None, Some(&Seen::Item(item))) = (message_id, began, at.last()) {
            self.messages.insert(id, item);
        }
        self.items[index] = at;
    }

    /// Finds the results of the records before this one.
    fn find_results(&mut self, index: usize) {
        let end = self.branch.partition_point(|&other| other < index);
        let lines = self.lines;
        for &earlier in &self.branch[self.results_end.min(end)..end] {
            if let Some(&Seen::Item(item)) = self.items[earlier].first() {
                let calls = lines[earlier].record.answered().enumerate();
                self.results.extend(calls.map(|(part_index, call)| (call, (item, part_index))));
            }
        }
        self.results_end = end;
    }

    /// A boundary: what the model sees after it are the records that it put in, or its summary and
    /// what it preserved.
    fn compact(&mut self, index: usize, compact: &Compact) {
        let start = self.branch.partition_point(|&other| other <= index);
        let after = &self.branch[start..];
        let is_boundary = |&&other: &&usize| self.lines[other].record.kind == Kind::CompactBoundary;
        let until = after.iter().position(|other| is_boundary(&other)).unwrap_or(after.len());
        if let Some(noted) = self.noted(index, compact) {
            return self.compact_as_noted(index, noted, start..start + until);
        }
        let copies =
            compact.foldback.as_ref().map(|own| own.copies.iter().map(|(uuid, _)| Key::from(&**uuid)));
        let copies: Option<HashSet<Key<'_>>> = copies.map(Iterator::collect);
        let is_put_in = |&index: &usize| {
            let record = &self.lines[index].record;
            match &copies {
                None => record.is_summary,
                Some(copies) => record.uuid.as_ref().is_some_and(|uuid| copies.contains(&uuid.key())),
            }
        };
        let mut put_in: Vec<usize> = after[..until].iter().copied().filter(is_put_in).collect();
        if put_in.is_empty() && compact.is_bare() {
            // Prompts that a module keeps may stand before its summary.
            let prompts = after[..until].iter().copied();
            let mut prompts = prompts.take_while(|&other| self.lines[other].record.kind != Kind::Assistant);
            put_in.extend(prompts.find(|&other| self.lines[other].record.begins_as_summary));
        }
        let (place, own) = (self.place(index), compact.foldback.as_ref());
        let note = own.and_then(|own| own.note.clone());
        if note.is_some_and(|note| self.conversation.take(note, None, place)) {
            self.repeat(own.map_or(&[][..], |own| &own.copies));
            self.end(index, put_in);
        } else {
            self.compact_to(index, compact, put_in);
        }
    }

    /// The record of a boundary that a module answered: it stands in a line before it. Such a boundary keeps
    /// nothing itself.
    fn noted(&self, index: usize, compact: &Compact) -> Option<&'b Extension> {
        let before =
            self.lines[..index].iter().rev().take(if compact.is_bare() { NOTE_LINES_MAX } else { 0 });
        let mut before = before.take_while(|line| line.record.kind != Kind::CompactBoundary);
        let note = before.find(|line| line.record.kind == Kind::Foldback)?;
        note.record.compact().foldback.as_ref()
    }

    /// A boundary behind which Claude Code wrote the messages of a module. They are named by their numbers;
    /// what it wrote between them goes with them.
    fn compact_as_noted(&mut self, index: usize, noted: &Extension, behind: Range<usize>) {
        let row_count = noted.copies.iter().filter_map(|(number, _)| number.parse::<usize>().ok()).max();
        let row_count = row_count.map_or(0, |last| last + 1);
        let (mut put_in, mut rows) = (Vec::new(), Vec::new());
        for &other in &self.branch[behind] {
            if rows.len() == row_count {
                break;
            }
            let record = &self.lines[other].record;
            put_in.push(other);
            if record.is_said() && !record.is_meta {
                rows.push(other);
            }
        }
        let note = noted.note.clone();
        if rows.len() < row_count
            || !note.is_some_and(|note| self.conversation.take(note, None, self.place(index)))
        {
            return self.compact_to(index, &Compact::default(), put_in);
        }
        for (number, position) in &noted.copies {
            let row = number.parse::<usize>().ok().and_then(|number| rows.get(number));
            let seen = self.conversation.visible().get(*position).copied();
            if let (Some(&row), Some(seen)) = (row, seen) {
                self.items[row].push(seen);
            }
        }
        self.end(index, put_in);
    }

    /// Takes records for what they repeat.
    fn repeat(&mut self, copies: &[(Text, usize)]) {
        for (uuid, position) in copies {
            let seen = self.conversation.visible().get(*position).copied();
            if let (Some(record), Some(seen)) = (self.record_named((&**uuid).into()), seen) {
                self.items[record].push(seen);
            }
        }
    }

    /// Leaves what a boundary at `index` put in, and what is hidden now, as it is.
    fn end(&mut self, index: usize, put_in: Vec<usize>) {
        self.shown.extend(put_in);
        // What is hidden now must not grow.
        self.messages.clear();
        self.results.clear();
        self.results_end = self.branch.partition_point(|&other| other <= index);
    }

    fn compact_to(&mut self, index: usize, compact: &Compact, put_in: Vec<usize>) {
        let place = self.place(index);
        let mut preserved: Vec<Seen> = Vec::new();
        let mut is_new = HashSet::new();
        // A file that asks for more than is followed is not worked out any further.
        let is_left = self.conversation.left_at().is_some();
        let records = if is_left { Vec::new() } else { self.preserved(compact) };
        for record in records {
            let items = self.items[record].iter().copied();
            preserved.extend(items.filter(|&item| is_new.insert(item)));
        }
        let by = if compact.foldback.is_some() { BY_FOLDBACK } else { BY };
        let tokens_before = compact.tokens_before.unwrap_or(Tokens::ZERO);
        let hidden_count = self.conversation.visible().len().saturating_sub(preserved.len());
        let mut shown: Vec<Shown> = Vec::new();
        let mut turn: Option<TurnId> = None;
        for &copy in &put_in {
            let record = &self.lines[copy].record;
            for item in (self.said)(copy) {
                let mut item = Arc::unwrap_or_clone(item);
                if record.is_summary || (compact.is_bare() && record.begins_as_summary) {
                    item = lowering::found_summary(item, by, hidden_count, tokens_before);
                }
                if item.kind == ItemKind::User {
                    turn = Some(format!("turn-at-line-{}", self.lines[copy].number).into());
                }
                item.turn_id = turn.clone();
                shown.push(Shown::New(item));
            }
        }
        shown.extend(preserved.into_iter().map(Shown::Kept));
        let mut made = Made::by(by, place);
        made.created_at = self.lines[index].record.created_at;
        made.tokens_before = compact.tokens_before;
        self.conversation.replace(&made, shown);
        self.end(index, put_in);
    }

    /// The records that a boundary keeps, in order.
    fn preserved(&self, compact: &Compact) -> Vec<usize> {
        let find = |uuid: &str| self.record_named(uuid.into());
        if !compact.preserved.is_empty() {
            return compact.preserved.iter().filter_map(|uuid| find(uuid)).collect();
        }
        let Some((head, tail)) = &compact.segment else { return Vec::new() };
        let (Some(head), Some(tail)) = (find(head), find(tail)) else { return Vec::new() };
        let mut chain = vec![tail];
        while let Some(&last) = chain.last().filter(|&&last| last != head && chain.len() <= self.branch.len())
        {
            match &self.lines[last].record.parent {
                Parent::Uuid(uuid) => match self.record_named(uuid.key()) {
                    Some(parent) => chain.push(parent),
                    None => break,
                },
                Parent::Nothing | Parent::Absent => break,
            }
        }
        chain.reverse();
        chain
    }

    fn clear(&mut self, index: usize, compact: &Compact) {
        let mut cleared = Vec::new();
        self.find_results(index);
        for call in &compact.cleared_calls {
            let Some(&(item_index, part_index)) = self.results.get(&**call) else { continue };
            let recorded = self.conversation.recorded().get(item_index);
            let Some(Part::ToolResult(result)) =
                recorded.and_then(|recorded| recorded.item.parts.get(part_index))
            else {
                continue;
            };
            let content = vec![ResultPart::Text(Text::from(CLEARED))];
            let replacement = Some(Part::ToolResult(ToolResult { content, ..result.clone() }));
            cleared.push(Cleared { item_index, part_index, replacement });
        }
        for uuid in &compact.cleared_attachments {
            let record = self.record_named((&**uuid).into());
            for &seen in record.map_or(&[][..], |record| &self.items[record]) {
                let Seen::Item(item_index) = seen else { continue };
                let parts =
                    self.conversation.recorded().get(item_index).map_or(0, |one| one.item.parts.len());
                let gone = |part_index| Cleared { item_index, part_index, replacement: None };
                cleared.extend((0..parts).map(gone));
            }
        }
        let mut made = Made::by(BY, self.place(index));
        made.created_at = self.lines[index].record.created_at;
        made.tokens_before = compact.tokens_before;
        self.conversation.clear(&made, cleared);
    }
}
