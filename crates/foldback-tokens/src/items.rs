//! Counts many items on several threads, for transcripts that are read at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use foldback_core::{Item, ItemTokens, Meter};
use foldhash::{HashMap, HashMapExt};

use crate::parallel::THREADS_MAX;

/// What a thread takes at a time.
const BATCH_ITEMS: usize = 32;

/// Counts each item by `meter` and hands it to `take`, in order, while others are still being
/// counted. What is counted does not depend on the number of threads, and an item that occurs
/// several times is counted once.
pub fn count_items(meter: &Meter, items: &[Arc<Item>], mut take: impl FnMut(&Arc<Item>, &ItemTokens)) {
    let mut distinct: Vec<&Item> = Vec::with_capacity(items.len());
    let mut place_of: HashMap<*const Item, usize> = HashMap::with_capacity(items.len());
    let places = items.iter().map(|item| {
        *place_of.entry(Arc::as_ptr(item)).or_insert_with(|| {
            distinct.push(item);
            distinct.len() - 1
        })
    });
    let places: Vec<usize> = places.collect();
    let mut waiting = items.iter().zip(places).peekable();
    let mut counted: Vec<ItemTokens> = Vec::with_capacity(distinct.len());
    count_on_threads(foldback_threads::threads(THREADS_MAX), meter, &distinct, |batch| {
        counted.extend_from_slice(batch);
        while let Some((item, place)) = waiting.next_if(|(_, place)| *place < counted.len()) {
            take(item, &counted[place]);
        }
    });
}

/// Counts in batches; `take` gets every batch, in order, on the calling thread.
fn count_on_threads(threads: usize, meter: &Meter, items: &[&Item], mut take: impl FnMut(&[ItemTokens])) {
    let batches: Vec<OnceLock<Vec<ItemTokens>>> =
        (0..items.len().div_ceil(BATCH_ITEMS)).map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let count_one = || {
        let batch = next.fetch_add(1, Ordering::Relaxed);
        let (items, counted) = (items.chunks(BATCH_ITEMS).nth(batch)?, batches.get(batch)?);
        Some(counted.get_or_init(|| items.iter().map(|item| meter.item(item)).collect()))
    };
    let mut taken = batches.iter().peekable();
    let mut take_counted = || {
        while let Some(batch) = taken.peek().and_then(|batch| batch.get()) {
            take(batch);
            taken.next();
        }
    };
    let others = threads.min(batches.len()).saturating_sub(1);
    let count_all = || while count_one().is_some() {};
    foldback_threads::beside(others, count_all, || {
        while count_one().is_some() {
            take_counted();
        }
    });
    take_counted();
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
        let mut counted = Vec::new();
        count_items(transcript.meter(), &items, |item, tokens| counted.push((item.clone(), tokens.clone())));
        let alone = items.iter().map(|item| (item.clone(), transcript.meter().item(item)));
        assert_eq!(counted, alone.collect::<Vec<_>>());
        count_items(transcript.meter(), &[], |_, _| unreachable!("there is no item"));
    }
}
