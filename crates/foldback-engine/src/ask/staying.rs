//! What stays visible beside a summary, for whoever writes it: the first task and the newest items. It
//! says what is wanted now and what is unfinished.

use std::sync::Arc;

use foldback_core::{FoldRequest, Item, ItemKind, Meter, Tokens};

use super::piece::{readable, shortened};

/// All that is shown costs no more than this.
pub(super) const STAYING_TOKENS_MAX: Tokens = Tokens(6_000);

/// A part keeps its head and its tail above this.
const PART_TOKENS_MAX: Tokens = Tokens(500);

/// What a line costs that stands for items which are not shown.
const GAP_TOKENS: Tokens = Tokens(24);

/// What stays, in order, without instructions and with long parts shortened.
pub(super) fn shown(request: &FoldRequest<'_>) -> Vec<Arc<Item>> {
    let meter = request.view().transcript().meter();
    let staying = request.staying().into_iter();
    let said = staying.filter(|item| !item.kind.is_instruction() && item.summary.is_none());
    said.filter_map(|item| readable(&item)).map(|item| shorter(item, request, meter)).collect()
}

fn shorter(item: Arc<Item>, request: &FoldRequest<'_>, meter: &Meter) -> Arc<Item> {
    let handle = &request.fold().handle;
    let shorter: Vec<_> =
        item.parts.iter().map(|part| shortened(part, PART_TOKENS_MAX, handle, meter)).collect();
    if shorter.iter().all(Option::is_none) {
        return item;
    }
    let parts = item.parts.iter().zip(shorter);
    let parts = parts.map(|(part, shorter)| shorter.unwrap_or_else(|| part.clone()));
    Arc::new(item.with_parts(parts.enumerate()))
}

/// As many of these as cost no more than `tokens_max`: the first message of the user, then the newest
/// items, then the newest messages before those. A line stands for what is left out.
pub(super) fn newest(items: &[Arc<Item>], tokens_max: Tokens, meter: &Meter) -> Vec<Arc<Item>> {
    let mut left = tokens_max.saturating_sub(GAP_TOKENS);
    let mut is_shown = vec![false; items.len()];
    let is_user = |index: &usize| items[*index].kind == ItemKind::User;
    let task = (0..items.len()).find(is_user);
    let mut is_tail = true;
    for index in task.into_iter().chain((0..items.len()).rev().filter(|&index| Some(index) != task)) {
        if !is_tail && !is_user(&index) {
            continue;
        }
        let gap = if is_tail { Tokens::ZERO } else { GAP_TOKENS };
        let tokens = meter.item(&items[index]).total + gap;
        is_shown[index] = tokens <= left;
        left = if is_shown[index] { left.saturating_sub(tokens) } else { left };
        is_tail &= is_shown[index] || Some(index) == task;
    }
    let mut shown = Vec::new();
    let mut index = 0;
    for run in is_shown.chunk_by(|one, next| one == next) {
        match run[0] {
            true => shown.extend(items[index..index + run.len()].iter().cloned()),
            false => {
                let line = format!("[{} more items stay that are not shown here]", run.len());
                shown.push(Arc::new(Item::text(format!("not-shown-{index}"), ItemKind::Context, line)));
            }
        }
        index += run.len();
    }
    // With no room for a single item there is none for the line either.
    if is_shown.contains(&true) { shown } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::Transcript;

    #[test]
    fn the_task_and_the_newest_items_are_shown_within_any_room() {
        let item = |n: usize| match n % 4 {
            0 => Item::user(format!("u{n}"), format!("wish {n} ")),
            _ => Item::assistant(
                format!("a{n}"),
                vec![foldback_core::Part::text("some work is done. ".repeat(5))],
            ),
        };
        let items: Vec<Arc<Item>> = (0..80).map(|n| Arc::new(item(n))).collect();
        let transcript = Transcript::default();
        let meter = transcript.meter();
        for room in [0, 30, 60, 200, 700, 1_500, 100_000] {
            let shown = newest(&items, Tokens(room), meter);
            let tokens: Tokens = shown.iter().map(|item| meter.item(item).total).sum();
            assert!(tokens <= Tokens(room), "{tokens} of {room}");
            let ids: Vec<&str> = shown.iter().map(|item| item.id.as_str()).collect();
            assert!(room < 60 || ids.first() == Some(&"u0"), "{room}: {ids:?}");
            assert!(room < 200 || ids.last() == Some(&"a79"), "{room}: {ids:?}");
            assert!(room != 700 || ids.contains(&"not-shown-1"), "{ids:?}");
        }
        assert_eq!(newest(&items, Tokens(100_000), meter), items);
    }
}
