//! The tree that the entries form, and the conversation along one way through it.

use std::collections::HashMap;

use foldback_core::{Item, ItemKind, Text};

use super::{Body, CompactionEntry, Entry, FirstKept};
use crate::conversation::{Conversation, FilePlace, Made, Seen, Shown};
use crate::jsonl;
use crate::lowering::found_summary;

/// Branches that are read; each is a whole conversation.
const BRANCH_COUNT_MAX: usize = 64;

/// All entries but the header, each with its parent: always one that stands before it.
pub(super) struct Tree<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) session_id: Option<Text>,
}

pub(super) struct Node<'a> {
    line: usize,
    /// Counted over all records of the file, its header included.
    record_index: usize,
    pub(super) entry: Entry<'a>,
    parent: Option<usize>,
}

impl<'a> Tree<'a> {
    pub(super) fn of(lines: Vec<jsonl::Line<'a, Entry<'a>>>) -> Self {
        let mut tree = Self { nodes: Vec::with_capacity(lines.len()), session_id: None };
        for (record_index, line) in lines.into_iter().enumerate() {
            let mut entry = line.record;
            match &mut entry.body {
                Body::Header => {
                    tree.session_id = tree.session_id.or_else(|| entry.id.map(Text::from));
                    continue;
                }
                Body::Item { item, .. } if entry.id.is_none() => {
                    item.id = format!("m{}", line.number).into();
                }
                Body::Item { .. } | Body::Compaction(_) | Body::State => {}
            }
            tree.nodes.push(Node { line: line.number, record_index, entry, parent: None });
        }
        tree.link();
        tree
    }

    /// Finds the parents. Where one is not there, or nothing is said, it is the entry before: so a
    /// line that could not be read does not cut off what led to it.
    fn link(&mut self) {
        let is_tree = self.nodes.iter().any(|node| node.entry.parent_id.is_some());
        let mut by_id: HashMap<String, usize> = HashMap::new();
        for index in 0..self.nodes.len() {
            let before = index.checked_sub(1);
            let entry = &self.nodes[index].entry;
            let parent = match (&entry.id, &entry.parent_id) {
                (Some(_), Some(parent)) => by_id.get(&**parent).copied().or(before),
                (Some(_), None) if is_tree => None,
                _ => before,
            };
            if let Some(id) = &entry.id {
                by_id.insert(id.to_string(), index);
            }
            self.nodes[index].parent = parent;
        }
    }

    /// The nodes from the root to this one.
    pub(super) fn path_to(&self, leaf: usize) -> Vec<&Node<'a>> {
        // Parents stand before their children, so this ends.
        let up = std::iter::successors(Some(leaf), |&index| self.nodes[index].parent);
        let mut path: Vec<&Node<'a>> = up.map(|index| &self.nodes[index]).collect();
        path.reverse();
        path
    }

    /// Leaves other than the last entry.
    pub(super) fn other_leaves(&self) -> Vec<usize> {
        let mut is_leaf = vec![true; self.nodes.len()];
        self.nodes.iter().filter_map(|node| node.parent).for_each(|parent| is_leaf[parent] = false);
        is_leaf.pop();
        (0..is_leaf.len()).filter(|&index| is_leaf[index]).take(BRANCH_COUNT_MAX).collect()
    }
}

pub(super) fn conversation_along(path: &[&Node<'_>]) -> Conversation {
    let mut conversation = Conversation::new();
    // What the item of each step became.
    let mut items: Vec<Option<Seen>> = Vec::with_capacity(path.len());
    while let Some(node) = path.get(items.len()) {
        let step = items.len();
        let place = FilePlace::line(node.line);
        match &node.entry.body {
            Body::Item { item, .. } => {
                let item = Item::clone(item);
                items.push(Some(Seen::Item(conversation.push(item, place))));
            }
            Body::Header | Body::State => items.push(None),
            Body::Compaction(entry) => {
                let copies = || path[step + 1..].iter().take_while(|node| node.entry.copy.is_some());
                let note = entry.foldback.as_ref().and_then(|own| own.note.clone());
                if note.is_some_and(|note| conversation.take(note, entry.tokens_before, place)) {
                    items.push(None);
                    let seen = |at: usize| conversation.visible().get(at).copied();
                    items.extend(copies().map(|node| node.entry.copy.and_then(seen)));
                    continue;
                }
                let mut shown = match conversation.left_at() {
                    None => shown_after(entry, node, &path[..step], &items, conversation.len()),
                    Some(_) => Vec::new(),
                };
                items.push(None);
                let copies_start = shown.len();
                let mut turn = 0;
                for copy in copies() {
                    let Body::Item { item, .. } = &copy.entry.body else { break };
                    let mut item = Item::clone(item);
                    turn += usize::from(item.kind == ItemKind::User);
                    item.turn_id = Some(format!("{}-turn-{turn}", item_id(node)).into());
                    shown.push(Shown::New(item));
                }
                let mut made = Made::by(entry.by(), place);
                made.created_at = node.entry.timestamp;
                made.tokens_before = entry.tokens_before;
                let copies = copies_start..shown.len();
                conversation.replace(&made, shown);
                // What is shown is what is visible now, one for one.
                items.extend(copies.map(|position| conversation.visible().get(position).copied()));
            }
        }
    }
    conversation
}

pub(super) fn item_id(node: &Node<'_>) -> String {
    node.entry.id.as_ref().map_or_else(|| format!("m{}", node.line), |id| id.to_string())
}

/// The summary, then what the compaction keeps of the steps before it.
fn shown_after(
    entry: &CompactionEntry,
    node: &Node<'_>,
    before: &[&Node<'_>],
    items: &[Option<Seen>],
    item_count: usize,
) -> Vec<Shown> {
    let first_kept = match &entry.first_kept {
        FirstKept::Id(id) => before.iter().position(|node| node.entry.id.as_deref() == Some(id)),
        FirstKept::RecordIndex(index) => before.iter().position(|node| node.record_index >= *index),
        FirstKept::Nothing => None,
    };
    let kept = items[first_kept.unwrap_or(before.len())..].iter().flatten();
    let kept: Vec<Shown> = kept.map(|&seen| Shown::Kept(seen)).collect();
    let mut shown = Vec::with_capacity(kept.len() + 1);
    if !entry.summary.is_empty() {
        let mut item = Item::new(item_id(node), ItemKind::Context, entry.summary.clone());
        item.created_at = node.entry.timestamp;
        let tokens_before = entry.tokens_before.unwrap_or_default();
        let folded = item_count.saturating_sub(kept.len());
        shown.push(Shown::New(found_summary(item, entry.by(), folded, tokens_before)));
    }
    shown.extend(kept);
    shown
}
