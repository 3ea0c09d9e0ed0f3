//! Counts many items on several threads, for transcripts that are read at once.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use foldback_core::{Item, ItemTokens, Meter};

use crate::parallel::threads;

/// What a thread takes at a time.
const BATCH_ITEMS: usize = 32;

/// What each item costs, in order, by `meter`. The answer does not depend on the number of
/// threads, and an item that occurs several times is counted once.
pub fn count_items(meter: &Meter, items: &[Arc<Item>]) -> Vec<ItemTokens> {
    let mut distinct: Vec<&Item> = Vec::with_capacity(items.len());
    let mut place_of: HashMap<*const Item, usize> = HashMap::with_capacity(items.len());
    let places: Vec<usize> = items
        .iter()
        .map(|item| {
            *place_of.entry(Arc::as_ptr(item)).or_insert_with(|| {
                distinct.push(item);
                distinct.len() - 1
            })
        })
        .collect();
    let counted = count_on_threads(threads(), meter, &distinct);
    if distinct.len() == items.len() {
        return counted;
    }
    places.into_iter().map(|place| counted[place].clone()).collect()
}

fn count_on_threads(threads: usize, meter: &Meter, items: &[&Item]) -> Vec<ItemTokens> {
    let batch_count = items.len().div_ceil(BATCH_ITEMS);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut counted: Vec<(usize, Vec<ItemTokens>)> = Vec::new();
        loop {
            let batch = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch_items) = items.chunks(BATCH_ITEMS).nth(batch) else { return counted };
            counted.push((batch, batch_items.iter().map(|item| meter.item(item)).collect()));
        }
    };
    let mut batches: Vec<Vec<ItemTokens>> = vec![Vec::new(); batch_count];
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(batch_count)).map(|_| scope.spawn(work)).collect();
        let mut keep = |counted: Vec<(usize, Vec<ItemTokens>)>| {
            counted.into_iter().for_each(|(batch, tokens)| batches[batch] = tokens);
        };
        keep(work());
        for other in others {
            keep(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    batches.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foldback_core::Transcript;

    #[test]
    fn items_counted_together_cost_what_they_cost_one_by_one() {
        let mut items: Vec<Arc<Item>> =
            (0..1_000).map(|n| Arc::new(Item::user(format!("u{n}"), "word ".repeat(n % 90)))).collect();
        items.extend_from_within(10..20);
        let transcript: Transcript = items.iter().cloned().collect();
        let counted = count_items(transcript.meter(), &items);
        let alone: Vec<ItemTokens> = items.iter().map(|item| transcript.meter().item(item)).collect();
        assert_eq!(counted, alone);
        assert_eq!(count_items(transcript.meter(), &[]), []);
    }
}
