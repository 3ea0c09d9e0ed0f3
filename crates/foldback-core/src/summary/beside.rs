//! What stays visible beside a summary: for whoever writes it, and in words for whoever reads it.

use std::collections::HashMap;
use std::sync::Arc;

use super::FoldRequest;
use crate::edit::{Edit, Fold};
use crate::item::{Item, ItemKind};
use crate::part::Part;
use crate::placeholder::one_line;
use crate::secrets::redact;
use crate::sequence::Entry;
use crate::view::covers;
use crate::written::closing;

/// The share of a summary that its last line may take.
const CLOSING_DIVISOR: u64 = 8;

impl<'p> FoldRequest<'p> {
    /// The items that stay visible beside the summary, in order and as the model will see them.
    pub fn staying(&self) -> Vec<Arc<Item>> {
        let rewritten = self.edits.iter().filter_map(|edit| match edit {
            Edit::Rewrite(rewrite) => {
                Some(((rewrite.item_index, rewrite.part_index), rewrite.replacement.as_ref()))
            }
            Edit::Drop(_) | Edit::Fold(_) => None,
        });
        let rewritten: HashMap<(usize, usize), Option<&Part>> = rewritten.collect();
        let shown = |entry: &Entry| {
            let place = |part_index: usize| (entry.anchor(), entry.recorded_part(part_index));
            let parts = 0..entry.item().parts.len();
            if rewritten.is_empty() || !parts.clone().any(|index| rewritten.contains_key(&place(index))) {
                return Arc::clone(entry.item());
            }
            let item = entry.item();
            let part = |index: usize| rewritten.get(&place(index)).copied().unwrap_or(item.parts.get(index));
            let shown = parts.filter_map(|index| Some((index, part(index)?.clone())));
            Arc::new(item.with_parts(shown))
        };
        self.left_visible().map(shown).collect()
    }

    /// What a summary must say of the user's messages behind it: they look newer than it, and what it tells
    /// last came after them. A line of its own, for its end. Nothing where none stands there, or where there
    /// is no room for more than a few lines.
    pub fn closing(&self) -> Option<String> {
        let tokens_max = self.fold.spec.tokens_max.0 / CLOSING_DIVISOR;
        self.older_behind().filter(|line| self.view.transcript().meter().text(line) <= tokens_max)
    }

    /// The same, however little room there is.
    pub(super) fn older_behind(&self) -> Option<String> {
        let Fold { range, anchor, .. } = self.fold;
        let is_behind = |entry: &&Entry| {
            let index = entry.anchor();
            entry.kind() == ItemKind::User && index > *anchor && index < range.end
        };
        let messages: Vec<&Entry> = self.left_visible().filter(is_behind).collect();
        let newest = messages.last()?;
        let later: usize = self
            .covered()
            .iter()
            .map(|covered| covered.end.saturating_sub(covered.start.max(newest.anchor())))
            .sum();
        let said = (0..newest.part_count()).find_map(|part_index| newest.item().typed(part_index))?;
        let said = redact(&said);
        let said = one_line(said.trim().lines().next()?);
        let messages = match messages.len() {
            1 => format!("message “{said}” behind this summary is not new"),
            count => format!("{count} messages up to “{said}” behind this summary are not new"),
        };
        Some(closing(&messages, later))
    }

    /// The entries of the view that the whole plan leaves visible.
    pub(super) fn left_visible(&self) -> impl Iterator<Item = &'p Entry> {
        let hidden = self.edits.iter().flat_map(|edit| match edit {
            Edit::Drop(drop) => vec![drop.range.clone()],
            Edit::Fold(fold) => fold.folded().collect(),
            Edit::Rewrite(_) => Vec::new(),
        });
        let mut hidden: Vec<_> = hidden.collect();
        hidden.sort_by_key(|range| range.start);
        self.view.iter().filter(move |entry| !covers(&hidden, entry.span().start))
    }
}
