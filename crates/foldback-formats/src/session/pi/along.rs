//! The conversation along one way through the tree: items, compactions, and edits of what is shown.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldback_core::{Item, ItemKind, Part, Text, ToolResult};
use serde_json::value::RawValue;

use super::tree::{Node, item_id};
use super::{Body, CompactionEntry, ContextEdit, FirstKept, block};
use crate::conversation::{Cleared, Conversation, FilePlace, Made, Seen, Shown};
use crate::lowering::found_summary;

/// Who edits what is shown: pi, after a failed attempt, or one of its extensions.
const BY: &str = "pi";

/// Entries that edits in a row may show again: each is looked for along the whole path.
const BACK_COUNT_MAX: usize = 64;

/// A conversation that is read, entry by entry.
pub(super) struct Along<'p> {
    pub(super) conversation: Conversation,
    path: &'p [&'p Node<'p>],
    /// What each entry so far shows.
    seen: Vec<Option<Seen>>,
    /// Where on the path the entries so far are.
    by_id: HashMap<&'p str, usize>,
    /// What entries showed until an edit left them out.
    left_out: HashMap<usize, Seen>,
    /// What was recorded again, and as what.
    again: HashMap<Seen, Seen>,
}

impl<'p> Along<'p> {
    pub(super) fn of(path: &'p [&'p Node<'p>]) -> Self {
        let mut along = Self {
            conversation: Conversation::new(),
            path,
            seen: Vec::with_capacity(path.len()),
            by_id: HashMap::with_capacity(path.len()),
            left_out: HashMap::new(),
            again: HashMap::new(),
        };
        while let Some(node) = path.get(along.seen.len()) {
            match &node.entry.body {
                Body::Item { item, .. } => {
                    let index = along.conversation.push(Item::clone(item), FilePlace::line(node.line));
                    along.pass(Some(Seen::Item(index)));
                }
                Body::Header | Body::State => along.pass(None),
                Body::Compaction(entry) => along.compact(entry, node),
                Body::Edit(_) => along.edit(node),
            }
        }
        along
    }

    /// Goes on behind an entry that shows this.
    fn pass(&mut self, seen: Option<Seen>) {
        if let Some(id) = &self.path[self.seen.len()].entry.id {
            self.by_id.insert(id, self.seen.len());
        }
        self.seen.push(seen);
    }

    fn compact(&mut self, entry: &CompactionEntry, node: &Node<'_>) {
        let step = self.seen.len();
        let copies = self.path[step + 1..].iter().take_while(|node| node.entry.copy.is_some());
        let place = FilePlace::line(node.line);
        self.left_out.clear();
        let note = entry.foldback.as_ref().and_then(|own| own.note.clone());
        if note.is_some_and(|note| self.conversation.take(note, entry.tokens_before, place)) {
            self.pass(None);
            for copy in copies {
                let seen = copy.entry.copy.and_then(|at| self.conversation.visible().get(at).copied());
                self.pass(seen);
                if let Some(seen) = seen {
                    self.conversation.repeat(seen, item_id(copy));
                }
            }
            return self.show_system(entry, node);
        }
        let mut shown = match self.conversation.left_at() {
            None => self.shown_after(entry, node),
            Some(_) => Vec::new(),
        };
        let copies_start = shown.len();
        let mut turn = 0;
        for copy in copies {
            let Body::Item { item, .. } = &copy.entry.body else { break };
            let mut item = Item::clone(item);
            turn += usize::from(item.kind == ItemKind::User);
            item.turn_id = Some(format!("{}-turn-{turn}", item_id(node)).into());
            shown.push(Shown::New(item));
        }
        let copies = copies_start..shown.len();
        self.replace(&made(entry, node), shown.into_iter().map(kept_or_new).collect());
        self.pass(None);
        // What is shown is what is visible now, one for one.
        for position in copies {
            self.pass(self.conversation.visible().get(position).copied());
        }
    }

    /// The checkpoint of the system prompt, the summary, then what the compaction keeps of the steps before it.
    fn shown_after(&self, entry: &CompactionEntry, node: &Node<'_>) -> Vec<Shown> {
        let before = &self.path[..self.seen.len()];
        let first_kept = match &entry.first_kept {
            FirstKept::Id(id) => self.by_id.get(&**id).copied(),
            FirstKept::RecordIndex(index) => before.iter().position(|node| node.record_index >= *index),
            FirstKept::Nothing => None,
        };
        let kept = self.seen[first_kept.unwrap_or(before.len())..].iter().flatten();
        let is_kept = |seen: &&Seen| entry.system.is_none() || !self.is_system(**seen);
        let kept: Vec<Shown> = kept.filter(is_kept).map(|&seen| Shown::Kept(self.now(seen))).collect();
        let mut shown = Vec::with_capacity(kept.len() + 2);
        shown.extend(entry.system.as_ref().map(|text| self.system(text, node)));
        if !entry.summary.is_empty() {
            let mut item = Item::new(item_id(node), ItemKind::Context, entry.summary.clone());
            item.created_at = node.entry.timestamp;
            let tokens_before = entry.tokens_before.unwrap_or_default();
            let folded = self.conversation.len().saturating_sub(kept.len() + shown.len());
            shown.push(Shown::New(found_summary(item, entry.by(), folded, tokens_before)));
        }
        shown.extend(kept);
        shown
    }

    /// Shows the checkpoint of the system prompt where what foldback noted shows another one.
    fn show_system(&mut self, entry: &CompactionEntry, node: &Node<'_>) {
        let Some(text) = &entry.system else { return };
        let visible = self.conversation.visible();
        let mut prompts = visible.iter().filter(|seen| self.is_system(**seen));
        if let (Some(&prompt), None) = (prompts.next(), prompts.next())
            && self.says(prompt, text)
        {
            return;
        }
        let others = visible.iter().filter(|seen| !self.is_system(**seen)).map(|&seen| Shown::Kept(seen));
        let shown = std::iter::once(self.system(text, node)).chain(others).map(kept_or_new).collect();
        self.replace(&made(entry, node), shown);
        self.conversation.join_steps();
    }

    /// Has the model see these, of which some show what was seen before.
    fn replace(&mut self, made: &Made, shown: Vec<(Option<Seen>, Shown)>) {
        let (before, shown): (Vec<Option<Seen>>, Vec<Shown>) = shown.into_iter().unzip();
        self.conversation.replace(made, shown);
        if self.conversation.left_at().is_none() {
            // What is shown is what is visible now, one for one.
            let pairs = before.into_iter().zip(self.conversation.visible());
            let moved = pairs.filter_map(|(before, &now)| Some((before?, now)));
            self.again.extend(moved.filter(|(before, now)| before != now));
        }
    }

    /// What stands for it now. Whatever is recorded again comes later, so this ends.
    fn now(&self, seen: Seen) -> Seen {
        std::iter::successors(Some(seen), |seen| self.again.get(seen).copied()).last().unwrap_or(seen)
    }

    /// A system prompt of this text: one that is shown already, or a new one.
    fn system(&self, text: &Text, node: &Node<'_>) -> Shown {
        let visible = self.conversation.visible();
        let same = visible.iter().find(|seen| self.is_system(**seen) && self.says(**seen, text));
        let new = || {
            let mut item = Item::text(format!("{}-system", item_id(node)), ItemKind::System, text.clone());
            item.created_at = node.entry.timestamp;
            Shown::New(item)
        };
        same.map_or_else(new, |&seen| Shown::Kept(seen))
    }

    fn is_system(&self, seen: Seen) -> bool {
        self.conversation.item(seen).is_some_and(|item| item.kind == ItemKind::System)
    }

    fn says(&self, seen: Seen, text: &Text) -> bool {
        let item = self.conversation.item(seen);
        item.is_some_and(|item| matches!(&item.parts[..], [Part::Text(said)] if said == text))
    }

    /// Takes in an edit of what is shown and those that follow it at once. The newest of an entry counts.
    fn edit(&mut self, first: &Node<'_>) {
        let mut newest: BTreeMap<usize, &ContextEdit<'_>> = BTreeMap::new();
        while let Some(Body::Edit(edit)) = self.path.get(self.seen.len()).map(|node| &node.entry.body) {
            if let Some(&target) = self.by_id.get(&*edit.target) {
                newest.insert(target, edit);
            }
            self.pass(None);
        }
        let mut made = Made::by(BY, FilePlace::line(first.line));
        made.created_at = first.entry.timestamp;
        if !self.conversation.may_look() {
            return self.conversation.leave(&made);
        }
        let visible: HashSet<Seen> = self.conversation.visible().iter().copied().collect();
        let mut edits = Edits::default();
        for (target, edit) in newest {
            let now = |seen| if visible.contains(&seen) { seen } else { self.now(seen) };
            match self.seen[target].map(now) {
                Some(seen) if visible.contains(&seen) && !self.is_system(seen) => {
                    self.change(seen, edit, &mut edits);
                    if edit.content.is_none() {
                        self.left_out.insert(target, seen);
                        self.seen[target] = None;
                    }
                }
                Some(_) => {}
                None if edits.back.len() == BACK_COUNT_MAX => {}
                None => {
                    let Some((content, seen)) = edit.content.zip(self.left_out.remove(&target)) else {
                        continue;
                    };
                    let item = self.conversation.item(seen);
                    edits.back.extend(item.map(|item| {
                        let parts = replaced(item, content);
                        (target, seen, Item { parts, ..Item::clone(item) })
                    }));
                    self.seen[target] = Some(seen);
                }
            }
        }
        let is_both = !edits.cleared.is_empty() && edits.moves();
        if !edits.cleared.is_empty() {
            self.conversation.clear(&made, std::mem::take(&mut edits.cleared));
        }
        if edits.moves() {
            self.show(&made, edits);
        }
        if is_both {
            self.conversation.join_steps();
        }
    }

    /// What an edit does to an item that is shown.
    fn change(&self, seen: Seen, edit: &ContextEdit<'_>, edits: &mut Edits) {
        let (Seen::Item(item_index), Some(item)) = (seen, self.conversation.item(seen)) else { return };
        let Some(content) = edit.content else {
            edits.moved.insert(seen, None);
            return;
        };
        let parts = replaced(item, content);
        if parts.len() > item.parts.len() {
            edits.moved.insert(seen, Some(Item { parts, ..Item::clone(item) }));
            return;
        }
        let mut parts = parts.into_iter();
        let part = |part_index| Cleared { item_index, part_index, replacement: parts.next() };
        edits.cleared.extend((0..item.parts.len()).map(part));
    }

    /// Shows items in another form, not at all, or again.
    fn show(&mut self, made: &Made, mut edits: Edits) {
        let mut shown: Vec<(Option<Seen>, Shown)> = Vec::with_capacity(self.conversation.visible().len());
        for &seen in self.conversation.visible() {
            match edits.moved.remove(&seen) {
                None => shown.push((Some(seen), Shown::Kept(seen))),
                Some(Some(item)) => shown.push((Some(seen), Shown::New(item))),
                Some(None) => {}
            }
        }
        for (target, seen, item) in edits.back {
            // Before the first that is shown of the entries behind it.
            let behind = self.seen[target + 1..].iter().flatten();
            let behind: HashSet<Option<Seen>> = behind.map(|&seen| Some(self.now(seen))).collect();
            let at = shown.iter().position(|(other, _)| behind.contains(other)).unwrap_or(shown.len());
            shown.insert(at, (Some(seen), Shown::New(item)));
        }
        self.replace(made, shown);
    }
}

fn kept_or_new(shown: Shown) -> (Option<Seen>, Shown) {
    match shown {
        Shown::Kept(seen) => (Some(seen), shown),
        Shown::New(_) => (None, shown),
    }
}

/// What edits come to.
#[derive(Default)]
struct Edits {
    /// Parts that stand where the old ones stood.
    cleared: Vec<Cleared>,
    /// Items in a form with more parts, or left out.
    moved: HashMap<Seen, Option<Item>>,
    /// Items that were left out before, with the entries they are from.
    back: Vec<(usize, Seen, Item)>,
}

impl Edits {
    fn moves(&self) -> bool {
        !(self.moved.is_empty() && self.back.is_empty())
    }
}

/// The parts of an item with other content.
fn replaced(item: &Item, content: &RawValue) -> Vec<Part> {
    match &item.parts[..] {
        [Part::ToolResult(result)] => {
            let content = block::result_parts(Some(content));
            vec![Part::ToolResult(ToolResult { content, ..result.clone() })]
        }
        _ => block::parts(Some(content)),
    }
}

fn made(entry: &CompactionEntry, node: &Node<'_>) -> Made {
    let mut made = Made::by(entry.by(), FilePlace::line(node.line));
    made.created_at = node.entry.timestamp;
    made.tokens_before = entry.tokens_before;
    made
}
