//! `foldback session log`: compactions as a version history.

use std::sync::Arc;

use foldback_core::{Edit, SessionId};
use foldback_engine::Store;
use foldback_engine::store::StoredBlock;
use serde::Serialize;

use crate::args::Shared;
use crate::failure::Failure;
use crate::output;
use crate::store::time;
use crate::terminal::{FAINT, GREEN, STRONG, counted, number, styled};

/// One compaction.
#[derive(Serialize)]
struct Entry {
    number: u64,
    r#loop: String,
    in_force: bool,
    stored_at: String,
    strategy: String,
    reason: Option<String>,
    tokens_before: u64,
    tokens_after: u64,
    hidden_items: usize,
    rewritten_parts: usize,
    handles: Vec<String>,
}

impl Entry {
    fn of(stored: &StoredBlock) -> Self {
        let block = &stored.block;
        let (mut hidden_items, mut rewritten_parts, mut handles) = (0, 0, Vec::new());
        for edit in &block.edits {
            match edit {
                Edit::Drop(drop) => hidden_items += drop.range.len(),
                Edit::Rewrite(_) => rewritten_parts += 1,
                Edit::Fold(fold) => {
                    hidden_items += fold.item_count();
                    handles.push(fold.handle.to_string());
                }
            }
        }
        Self {
            number: stored.number.0,
            r#loop: stored.loop_id.to_string(),
            in_force: stored.is_in_force,
            stored_at: time(stored.stored_at),
            strategy: block.strategy.to_string(),
            reason: block.cause.as_ref().map(ToString::to_string),
            tokens_before: block.tokens_before.0,
            tokens_after: block.tokens_after.0,
            hidden_items,
            rewritten_parts,
            handles,
        }
    }

    fn text(&self) -> String {
        let mark = if self.in_force { styled(GREEN, "●") } else { styled(FAINT, "○") };
        let state = if self.in_force { "" } else { "  (undone)" };
        let mut text = format!(
            "{mark} {}  {}  {}{state}\n",
            styled(STRONG, format!("compaction {}", self.number)),
            self.stored_at,
            self.strategy,
        );
        let (before, after) = (number(self.tokens_before), number(self.tokens_after));
        text.push_str(&format!("  {before} → {after} tokens"));
        if let Some(reason) = &self.reason {
            text.push_str(&format!(", because: {reason}"));
        }
        let hidden = counted(self.hidden_items, "item");
        text.push_str(&format!("\n  {hidden} hidden, {} shortened", counted(self.rewritten_parts, "part")));
        if !self.handles.is_empty() {
            text.push_str(&format!("; recall {}", self.handles.join(" ")));
        }
        text.push('\n');
        text
    }
}

pub(super) async fn run(shared: &Shared, store: &Arc<dyn Store>, id: &str) -> Result<(), Failure> {
    let id = SessionId::from(id);
    let info = store.session(&id).await?;
    let blocks = store.blocks(&id, &info.current_loop).await?;
    let mut text = String::new();
    for entry in blocks.iter().rev().map(Entry::of) {
        match shared.json {
            true => output::print_json(&entry)?,
            false => text.push_str(&entry.text()),
        }
    }
    if blocks.is_empty() && !shared.json {
        text = format!("{id} was never compacted\n");
    }
    output::print(&text)
}
