//! `foldback log` and `foldback session log`: compactions as a version history, of a file and of the store.

use std::collections::HashMap;
use std::sync::Arc;

use foldback_core::{BlockKind, CompactionBlock, Edit};
use foldback_engine::Store;
use serde::Serialize;

use crate::args::{Log, Shared};
use crate::failure::{Exit, Failure};
use crate::input;
use crate::output;
use crate::plain;
use crate::scene::Scene;
use crate::stats;
use crate::store::{self, time};
use crate::terminal::{FAINT, GREEN, STRONG, counted, number, styled};

/// Compactions of a file that are told, the newest; a session has a few.
const STEPS_MAX: usize = 1_000;

/// One compaction.
#[derive(Serialize)]
struct Entry {
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#loop: Option<String>,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    in_force: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    strategy: String,
    reason: Option<String>,
    /// The reason in words, for people.
    #[serde(skip)]
    why: Option<String>,
    tokens_before: u64,
    tokens_after: u64,
    hidden_items: usize,
    rewritten_parts: usize,
    handles: Vec<String>,
}

impl Entry {
    fn of(number: u64, block: &CompactionBlock) -> Self {
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
            number,
            r#loop: None,
            line: None,
            in_force: false,
            at: block.created_at.map(time),
            strategy: block.strategy.to_string(),
            reason: block.cause.as_ref().map(ToString::to_string),
            why: block.cause.as_ref().map(plain::why),
            tokens_before: block.tokens_before.0,
            tokens_after: block.tokens_after.0,
            hidden_items,
            rewritten_parts,
            handles,
        }
    }

    /// What taking a compaction off led to.
    fn undo(number: u64, taken_off: &CompactionBlock) -> Self {
        let (before, after) = (taken_off.tokens_after.0, taken_off.tokens_before.0);
        let block = CompactionBlock::default();
        Self { tokens_before: before, tokens_after: after, ..Self::of(number, &block) }
    }

    fn text(&self) -> String {
        let mark = if self.in_force { styled(GREEN, "●") } else { styled(FAINT, "○") };
        let state = if self.in_force { "" } else { "  (not in force)" };
        let by = match self.strategy.is_empty() {
            true => String::new(),
            false => format!("by {}", plain::by(&self.strategy)),
        };
        let line = self.line.map(|line| format!("line {line}"));
        let places = [line, self.at.clone()].into_iter().flatten().map(|place| place + "  ");
        let mut text = format!(
            "{mark} {}  {}{}{state}\n",
            styled(STRONG, format!("compaction {}", self.number)),
            places.collect::<String>(),
            by,
        );
        let (before, after) = (number(self.tokens_before), number(self.tokens_after));
        text.push_str(&format!("  {before} → {after} tokens"));
        if let Some(why) = &self.why {
            text.push_str(&format!(", because {why}"));
        }
        if self.hidden_items + self.rewritten_parts > 0 {
            let hidden = counted(self.hidden_items, "item");
            let shortened = counted(self.rewritten_parts, "part");
            text.push_str(&format!("\n  {hidden} hidden, {shortened} shortened"));
        }
        if !self.handles.is_empty() {
            text.push_str(&format!("; `foldback recall {}` shows what was hidden", self.handles.join(" ")));
        }
        text.push('\n');
        text
    }
}

/// The blocks in force, by what tells most of them apart.
struct InForce<'b>(HashMap<(usize, u64, u64), Vec<&'b Arc<CompactionBlock>>>);

impl<'b> InForce<'b> {
    fn of(blocks: &'b [Arc<CompactionBlock>]) -> Self {
        let mut by_key: HashMap<_, Vec<_>> = HashMap::new();
        blocks.iter().for_each(|block| by_key.entry(Self::key(block)).or_default().push(block));
        Self(by_key)
    }

    fn key(block: &CompactionBlock) -> (usize, u64, u64) {
        (block.item_count, block.tokens_before.0, block.tokens_after.0)
    }

    fn has(&self, block: &Arc<CompactionBlock>) -> bool {
        self.0.get(&Self::key(block)).is_some_and(|blocks| blocks.contains(&block))
    }
}

/// Tells entries, the newest first.
fn tell(shared: &Shared, name: &str, entries: &[Entry]) -> Result<(), Failure> {
    if shared.json {
        return entries.iter().rev().try_for_each(output::print_json);
    }
    output::print(&match entries.is_empty() {
        true => format!("{name} was never compacted\n"),
        false => entries.iter().rev().map(Entry::text).collect(),
    })
}

/// The compactions of session files.
pub(crate) fn run(shared: &Shared, arguments: &Log) -> Result<Exit, Failure> {
    input::for_each(shared, &arguments.inputs, |opened| {
        for conversation in opened.session.own_conversations() {
            let scene = Scene::estimated(conversation, opened.session.dialect());
            let view = conversation.view_of(&scene.transcript);
            let in_force = InForce::of(view.overlay().blocks());
            let steps = conversation.steps();
            let first = steps.len().saturating_sub(STEPS_MAX);
            let metered = steps.iter().zip(conversation.metered_steps(&scene.transcript));
            let entries = (1..).zip(metered).skip(first).map(|(number, (step, metered))| {
                let made = metered.blocks.iter().rfind(|block| block.kind != BlockKind::Undo);
                let taken_off = step.blocks.first();
                let mut entry = match (made, taken_off) {
                    (Some(made), _) => Entry::of(number, made),
                    (None, Some(taken_off)) => Entry::undo(number, taken_off),
                    (None, None) => Entry::of(number, &CompactionBlock::default()),
                };
                entry.line = Some(step.place.line);
                entry.strategy = stats::by(step);
                entry.in_force = made.is_some_and(|made| in_force.has(made));
                entry
            });
            tell(shared, &opened.path.display().to_string(), &entries.collect::<Vec<_>>())?;
        }
        Ok(Exit::Success)
    })
}

/// The compactions of a session in the store.
pub(crate) async fn of_session(shared: &Shared, store: &Arc<dyn Store>, id: &str) -> Result<(), Failure> {
    let id = store::find(store, id).await?;
    let info = store.session(&id).await?;
    let blocks = store.blocks(&id, &info.current_loop).await?;
    let entries = blocks.iter().map(|stored| Entry {
        r#loop: Some(stored.loop_id.to_string()),
        in_force: stored.is_in_force,
        at: Some(time(stored.stored_at)),
        ..Entry::of(stored.number.0, &stored.block)
    });
    tell(shared, &id, &entries.collect::<Vec<_>>())
}
