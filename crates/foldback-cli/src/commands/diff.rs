//! `foldback diff`: what a compaction changed, item by item.

mod alignment;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use foldback_core::{Entry, Item, TokenCounter, Tokens, View};
use serde::Serialize;

use self::alignment::Rewritable;
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
    let kept = alignment::kept(&keys(old), &keys(new));
    let mut changes = Vec::new();
    let (mut before, mut after) = (0, 0);
    let is_next = |one: &(usize, usize), next: &(usize, usize)| (one.0 + 1, one.1 + 1) == *next;
    for run in kept.chunk_by(is_next) {
        let (old_start, new_start) = run[0];
        replaced(old, new, before..old_start, after..new_start, &mut changes);
        (before, after) = (old_start + run.len(), new_start + run.len());
        changes.push(Change::Kept {
            before: old_start,
            after: new_start,
            count: run.len(),
            tokens: old.tokens_of(old_start..before).0,
        });
    }
    replaced(old, new, before..old.len(), after..new.len(), &mut changes);
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
    let rewritable = Rewritable::new(old, before.clone());
    let mut rest = before;
    for new_position in after {
        let Some(entry) = new.get(new_position) else { continue };
        match rewritable.position_of(entry.item(), rest.start) {
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
