//! Which items of two views belong together, in time that grows with the views but for a logarithm: views
//! of long sessions differ in tens of thousands of items.

use std::collections::HashMap;
use std::ops::Range;

use foldback_core::{CallId, Item, ItemId, View};

/// Items with the calls of another that are tried for it, where ids are used again and again.
const CANDIDATES_MAX: usize = 16;

/// Positions of the same thing in both lists, rising in both. Of what is there several times, the last
/// belong together: compactions keep the end.
pub(super) fn kept(old: &[u64], new: &[u64]) -> Vec<(usize, usize)> {
    let same = |(one, other): &(&u64, &u64)| one == other;
    let head = old.iter().zip(new).take_while(same).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(same).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    (head..old_end).for_each(|place| places.entry(old[place]).or_default().push(place));
    let pair = |place: usize| Some((places.get_mut(&new[place])?.pop()?, place));
    let mut pairs: Vec<(usize, usize)> = (head..new_end).rev().filter_map(pair).collect();
    pairs.reverse();
    let first = (0..head).map(|place| (place, place));
    let last = (0..tail).map(|place| (old_end + place, new_end + place));
    first.chain(rising(&pairs)).chain(last).collect()
}

/// As many of the pairs as rise in their first half.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The pair with which a run of each length ends lowest, and the one before each pair in its run.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    for (index, (place, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].0 < *place);
        before[index] = length.checked_sub(1).map(|last| ends[last]);
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut run: Vec<(usize, usize)> = std::iter::successors(ends.last().copied(), |&index| before[index])
        .map(|index| pairs[index])
        .collect();
    run.reverse();
    run
}

/// Items of a view that may have been rewritten, by what a rewrite leaves as it was.
#[derive(Debug)]
pub(super) struct Rewritable<'v> {
    view: &'v View,
    by_call: HashMap<&'v CallId, Vec<usize>>,
    by_id: HashMap<&'v ItemId, Vec<usize>>,
}

impl<'v> Rewritable<'v> {
    pub(super) fn new(view: &'v View, positions: Range<usize>) -> Self {
        let (mut by_call, mut by_id) = (HashMap::<_, Vec<usize>>::new(), HashMap::<_, Vec<usize>>::new());
        for (position, entry) in positions.clone().zip(view.range(positions)) {
            by_id.entry(&entry.item().id).or_default().push(position);
            for id in call_ids(entry.item()) {
                let places = by_call.entry(id).or_default();
                if places.last() != Some(&position) {
                    places.push(position);
                }
            }
        }
        Self { view, by_call, by_id }
    }

    /// The first position from `start` on of an item that this is with some parts replaced or removed.
    pub(super) fn position_of(&self, item: &Item, start: usize) -> Option<usize> {
        let mut ids = call_ids(item);
        let places = match ids.next() {
            Some(id) => self.by_call.get(id)?,
            None => self.by_id.get(&item.id)?,
        };
        let later = places.get(places.partition_point(|&place| place < start)..)?;
        let is_at = |place: &usize, id| {
            self.by_call.get(id).is_some_and(|places| places.binary_search(place).is_ok())
        };
        later.iter().take(CANDIDATES_MAX).copied().find(|place| {
            let is_same_kind = self.view.get(*place).is_some_and(|entry| entry.item().kind == item.kind);
            is_same_kind && call_ids(item).all(|id| is_at(place, id))
        })
    }
}

/// The calls that an item makes, and those that it answers.
fn call_ids(item: &Item) -> impl Iterator<Item = &CallId> {
    let made = item.calls().map(|(_, call)| &call.id);
    made.chain(item.results().map(|(_, result)| &result.call_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each list as text, one letter for each item.
    fn aligned(old: &str, new: &str) -> String {
        let keys = |text: &str| text.bytes().map(u64::from).collect::<Vec<_>>();
        let pairs = kept(&keys(old), &keys(new));
        assert!(pairs.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "{pairs:?}");
        pairs.iter().map(|&(place, _)| old.as_bytes()[place] as char).collect()
    }

    #[test]
    fn what_is_there_in_both_is_kept() {
        assert_eq!(aligned("abcdef", "abcdef"), "abcdef");
        assert_eq!(aligned("abcdef", "aSef"), "aef");
        assert_eq!(aligned("abcdef", "xyz"), "");
        assert_eq!(aligned("", "a"), "");
        assert_eq!(aligned("abcd", "bcda"), "bcd");
        assert_eq!(aligned("xokyokz", "Syokz"), "yokz");
        assert_eq!(aligned("axbxcx", "axSxcx"), "axxcx");
    }

    #[test]
    fn sessions_of_any_length_are_compared_in_one_look() {
        let old: Vec<u64> = (0..200_000).collect();
        let new: Vec<u64> =
            (0..200_000).map(|key| if key % 3 == 0 { key } else { key + 1_000_000 }).collect();
        assert_eq!(kept(&old, &new).len(), old.len().div_ceil(3));
        let turned: Vec<u64> = old.iter().rev().copied().collect();
        assert_eq!(kept(&old, &turned).len(), 1);
    }
}
