//! The tree that the entries form.

use std::collections::HashMap;

use foldback_core::Text;

use super::along::Along;
use super::{Body, Entry};
use crate::conversation::Conversation;
use crate::jsonl;

/// Branches that are read; each is a whole conversation.
const BRANCH_COUNT_MAX: usize = 64;

/// All entries but the header, each with its parent: always one that stands before it.
pub(super) struct Tree<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) session_id: Option<Text>,
}

pub(super) struct Node<'a> {
    pub(super) line: usize,
    /// Counted over all records of the file, its header included.
    pub(super) record_index: usize,
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
                Body::Item { .. } | Body::Compaction(_) | Body::Edit(_) | Body::State => {}
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
    Along::of(path).conversation
}

pub(super) fn item_id(node: &Node<'_>) -> String {
    node.entry.id.as_ref().map_or_else(|| format!("m{}", node.line), |id| id.to_string())
}
