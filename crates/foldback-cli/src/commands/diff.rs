//! `foldback diff`: what a compaction changed, item by item.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use foldback_core::{Entry, Item, TokenCounter, Tokens, View};
use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::args::{Diff, Extent, Shared};
use crate::counting;
use crate::failure::{Exit, Failure};
use crate::input::{self, Opened};
use crate::output;
use crate::picture::headline;
use crate::scene::Scene;
use crate::terminal::{FAINT, GREEN, RED, STRONG, YELLOW, counted, note, number, styled, width};

pub(crate) fn run(shared: &Shared, arguments: &Diff) -> Result<Exit, Failure> {
    let counter = counting::counter(shared);
    let before = input::look_at(shared, &arguments.before)?;
    tell_left_out(shared, &before);
    let (old, new) = match &arguments.after {
        Some(after) => {
            let after = input::look_at(shared, after)?;
            tell_left_out(shared, &after);
            (view(&before, &counter, Extent::View)?, view(&after, &counter, Extent::View)?)
        }
        None => (view(&before, &counter, Extent::History)?, view(&before, &counter, Extent::View)?),
    };
    let changes = changes(&old, &new);
    let is_same = changes.iter().all(|change| matches!(change, Change::Kept { .. }));
    match shared.json {
        true => output::print_json(&DiffReport {
            tokens_before: old.tokens().0,
            tokens_after: new.tokens().0,
            changes,
        })?,
        false => output::print(&text(&old, &new, &changes))?,
    }
    Ok(if is_same { Exit::Success } else { Exit::Negative })
}

fn tell_left_out(shared: &Shared, opened: &Opened) {
    let others = opened.session.conversations().len().saturating_sub(1);
    if others > 0 && !shared.quiet {
        let others = counted(others, "other conversation");
        note(&format!("{}: the first conversation, without {others} of the file", opened.path.display()));
    }
}

fn view(opened: &Opened, counter: &Arc<dyn TokenCounter>, from: Extent) -> Result<View, Failure> {
    let [conversation, ..] = opened.session.conversations() else {
        return Err(Failure::NoSessions { path: opened.path.clone() });
    };
    Ok(Scene::counted(conversation, counter, opened.session.dialect()).view(from))
}

#[derive(Serialize)]
struct DiffReport {
    tokens_before: u64,
    tokens_after: u64,
    changes: Vec<Change>,
}

/// What became of items; places are positions in the two views.
#[derive(Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
enum Change {
    Kept { before: usize, after: usize, count: usize, tokens: u64 },
    Removed { before: usize, item: String, tokens: u64 },
    Rewritten { before: usize, after: usize, item: String, tokens_before: u64, tokens_after: u64 },
    Added { after: usize, item: String, tokens: u64 },
}

fn changes(old: &View, new: &View) -> Vec<Change> {
    let keys = |view: &View| view.items().map(|item| key(item)).collect::<Vec<u64>>();
    let operations = capture_diff_slices(Algorithm::Myers, &keys(old), &keys(new));
    let mut changes = Vec::new();
    for operation in operations {
        match operation {
            DiffOp::Equal { old_index, new_index, len } => changes.push(Change::Kept {
                before: old_index,
                after: new_index,
                count: len,
                tokens: old.tokens_of(old_index..old_index + len).0,
            }),
            DiffOp::Delete { old_index, old_len, .. } => {
                changes.extend((old_index..old_index + old_len).filter_map(|before| removed(old, before)));
            }
            DiffOp::Insert { new_index, new_len, .. } => {
                changes.extend((new_index..new_index + new_len).filter_map(|after| added(new, after)));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                let (before, after) = (old_index..old_index + old_len, new_index..new_index + new_len);
                replaced(old, new, before, after, &mut changes);
            }
        }
    }
    changes
}

/// Pairs an item with its rewritten form: the next one that is the same but for its content.
fn replaced(
    old: &View,
    new: &View,
    before: std::ops::Range<usize>,
    after: std::ops::Range<usize>,
    changes: &mut Vec<Change>,
) {
    let mut rest = before;
    for new_position in after {
        let Some(entry) = new.get(new_position) else { continue };
        let same = rest.clone().find(|&old_position| {
            old.get(old_position).is_some_and(|earlier| is_rewritten(earlier.item(), entry.item()))
        });
        match same {
            Some(old_position) => {
                changes.extend((rest.start..old_position).filter_map(|position| removed(old, position)));
                rest.start = old_position + 1;
                changes.push(Change::Rewritten {
                    before: old_position,
                    after: new_position,
                    item: headline(entry.item()),
                    tokens_before: old.tokens_of(old_position..old_position + 1).0,
                    tokens_after: entry.tokens().total.0,
                });
            }
            None => changes.extend(added(new, new_position)),
        }
    }
    changes.extend(rest.filter_map(|position| removed(old, position)));
}

/// Whether one is the other with some parts replaced or removed.
fn is_rewritten(old: &Item, new: &Item) -> bool {
    let calls = |item: &Item| {
        let made = item.calls().map(|(_, call)| call.id.clone());
        made.chain(item.results().map(|(_, result)| result.call_id.clone())).collect::<Vec<_>>()
    };
    let (of_old, of_new) = (calls(old), calls(new));
    old.kind == new.kind
        && match of_new.is_empty() {
            true => old.id == new.id,
            false => of_new.iter().all(|id| of_old.contains(id)),
        }
}

fn removed(old: &View, before: usize) -> Option<Change> {
    old.get(before).map(|entry| Change::Removed {
        before,
        item: headline(entry.item()),
        tokens: tokens(entry),
    })
}

fn added(new: &View, after: usize) -> Option<Change> {
    new.get(after).map(|entry| Change::Added { after, item: headline(entry.item()), tokens: tokens(entry) })
}

fn tokens(entry: &Entry) -> u64 {
    let Tokens(tokens) = entry.tokens().total;
    tokens
}

/// What an item says; ids and times make no difference.
fn key(item: &Item) -> u64 {
    let mut hasher = DefaultHasher::new();
    item.kind.hash(&mut hasher);
    format!("{:?}", item.parts).hash(&mut hasher);
    hasher.finish()
}

fn text(old: &View, new: &View, changes: &[Change]) -> String {
    let (before, after) = (number(old.tokens().0), number(new.tokens().0));
    let (items_before, items_after) = (number(old.len() as u64), number(new.len() as u64));
    let mut text = format!(
        "{}\n",
        styled(STRONG, format!("{before} → {after} tokens, {items_before} → {items_after} items"))
    );
    let room = width().saturating_sub(30);
    let cut = |item: &str| item.chars().take(room).collect::<String>();
    for change in changes {
        let line = match change {
            Change::Kept { count, tokens, .. } => {
                styled(FAINT, format!("  = {count} items as they were, {} tokens", number(*tokens)))
            }
            Change::Removed { before, item, tokens } => {
                styled(RED, format!("  - {before:>5} {:>8} {}", number(*tokens), cut(item)))
            }
            Change::Rewritten { before, item, tokens_before, tokens_after, .. } => {
                let sizes = format!("{} → {}", number(*tokens_before), number(*tokens_after));
                styled(YELLOW, format!("  ~ {before:>5} {sizes} {}", cut(item)))
            }
            Change::Added { after, item, tokens } => {
                styled(GREEN, format!("  + {after:>5} {:>8} {}", number(*tokens), cut(item)))
            }
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}
