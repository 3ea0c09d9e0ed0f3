//! Turns as a recorder marked them: which items belong to which turn, and ranges of turns.
//!
//! [`Sequence`] finds turns by user items. A stored session names them instead:
//! every item carries the id of its turn, and a block says which turns it covers.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::item::{Item, ItemKind};
use crate::sequence::Sequence;

/// Where each turn of a list of items starts and ends. It answers with ranges of indices, not with slices: so
/// it borrows nothing, and serves a transcript, whose items lie in chunks, as well as a list.
///
/// A turn is a run of neighbouring items with one turn id; an item without turn id is a turn of
/// its own. A turn id that returns after another one starts a new turn, so that a turn is always
/// one contiguous range and every item is in exactly one.
///
/// ```
/// use std::sync::Arc;
/// use foldback_core::{Item, TurnMap, TurnRange};
///
/// let items = [("u1", "t1"), ("a1", "t1"), ("u2", "t2")]
///     .map(|(id, turn)| Arc::new(Item::user(id, "…").with_turn_id(turn)));
/// let turns = TurnMap::from_messages(&items);
/// assert_eq!(turns.turn_count(), 2);
/// assert_eq!(turns.turn_msg_range(0), 0..2);
/// assert_eq!(items[turns.messages_for_range(TurnRange::new(1, 1)?)].len(), 1);
/// # Ok::<(), foldback_core::TurnRangeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnMap {
    starts: Vec<usize>,
    item_count: usize,
}

impl TurnMap {
    /// Groups `items` by turn id.
    pub fn from_messages<'a>(items: impl IntoIterator<Item = &'a Arc<Item>>) -> Self {
        let mut map = Self::default();
        let mut current = None;
        for item in items {
            let turn_id = item.turn_id.as_ref();
            if turn_id.is_none() || turn_id != current {
                map.starts.push(map.item_count);
            }
            current = turn_id;
            map.item_count += 1;
        }
        map
    }

    /// Groups the items of a sequence into turns that may be cut apart: by turn id where a recorder
    /// gave one, else at user items. What stands before the first turn belongs to it, and where a
    /// cut would tear a unit, two turns are one.
    pub fn of(sequence: &Sequence) -> Self {
        let mut map = Self::default();
        let (mut current, mut is_begun) = (None, false);
        for item in sequence.items() {
            let turn_id = item.turn_id.as_ref();
            let begins = match turn_id {
                Some(_) => turn_id != current,
                None => item.kind == ItemKind::User,
            };
            let is_legal = || sequence.cut_at_or_before(map.item_count) == map.item_count;
            if map.item_count == 0 || (begins && is_begun && is_legal()) {
                map.starts.push(map.item_count);
            }
            is_begun |= begins;
            if begins || turn_id.is_some() {
                current = turn_id;
            }
            map.item_count += 1;
        }
        map
    }

    /// How many turns there are.
    pub fn turn_count(&self) -> usize {
        self.starts.len()
    }

    /// The turn that the item at `item_index` belongs to; none where there is no such item.
    pub fn turn_of(&self, item_index: usize) -> Option<usize> {
        let turn_index = self.starts.partition_point(|&start| start <= item_index).checked_sub(1);
        turn_index.filter(|_| item_index < self.item_count)
    }

    /// The indices of the items of turn `turn_index`; empty where there is no such turn.
    pub fn turn_msg_range(&self, turn_index: usize) -> Range<usize> {
        self.start_of(turn_index)..self.start_of(turn_index.saturating_add(1))
    }

    /// The indices of the items of all turns in `range`; turns that do not exist add nothing.
    pub fn messages_for_range(&self, range: TurnRange) -> Range<usize> {
        self.start_of(range.start_turn)..self.start_of(range.end_turn.saturating_add(1))
    }

    fn start_of(&self, turn_index: usize) -> usize {
        self.starts.get(turn_index).copied().unwrap_or(self.item_count)
    }
}

/// Turns from `start_turn` to `end_turn`, both included; so there is always at least one. The bounds are read by
/// methods: a range that ends before it starts cannot be made, nor be read from JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Bounds", into = "Bounds")]
pub struct TurnRange {
    start_turn: usize,
    end_turn: usize,
}

impl TurnRange {
    /// The turns from `start_turn` to `end_turn`, counted from zero.
    pub fn new(start_turn: usize, end_turn: usize) -> Result<Self, TurnRangeError> {
        if start_turn > end_turn {
            return Err(TurnRangeError::StartAfterEnd { start_turn, end_turn });
        }
        Ok(Self { start_turn, end_turn })
    }

    /// The first turn.
    pub fn start_turn(self) -> usize {
        self.start_turn
    }

    /// The last turn.
    pub fn end_turn(self) -> usize {
        self.end_turn
    }

    /// How many turns it covers.
    #[expect(clippy::len_without_is_empty, reason = "a range of turns is never empty")]
    pub fn len(self) -> usize {
        (self.end_turn - self.start_turn).saturating_add(1)
    }

    /// Whether `turn_index` is one of its turns.
    pub fn contains(self, turn_index: usize) -> bool {
        (self.start_turn..=self.end_turn).contains(&turn_index)
    }

    /// Whether some turn is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.start_turn <= other.end_turn && other.start_turn <= self.end_turn
    }
}

impl fmt::Display for TurnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.start_turn, self.end_turn)
    }
}

/// The stored form of a range, before it is checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bounds {
    start_turn: usize,
    end_turn: usize,
}

impl TryFrom<Bounds> for TurnRange {
    type Error = TurnRangeError;
    fn try_from(bounds: Bounds) -> Result<Self, TurnRangeError> {
        Self::new(bounds.start_turn, bounds.end_turn)
    }
}

impl From<TurnRange> for Bounds {
    fn from(range: TurnRange) -> Self {
        Self { start_turn: range.start_turn, end_turn: range.end_turn }
    }
}

/// Ranges of which no two share a turn, in order; what makes sure that nothing is loaded twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<TurnRange>", into = "Vec<TurnRange>")]
pub struct TurnRanges(Vec<TurnRange>);

impl TurnRanges {
    /// Sorts the ranges; fails where two of them overlap.
    pub fn new(mut ranges: Vec<TurnRange>) -> Result<Self, TurnRangeError> {
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            if let &[first, second] = pair
                && first.overlaps(second)
            {
                return Err(TurnRangeError::Overlap { first, second });
            }
        }
        Ok(Self(ranges))
    }

    /// How many turns all ranges cover together.
    pub fn turn_count(&self) -> usize {
        self.0.iter().fold(0, |count: usize, range| count.saturating_add(range.len()))
    }
}

impl Deref for TurnRanges {
    type Target = [TurnRange];
    fn deref(&self) -> &[TurnRange] {
        &self.0
    }
}

impl TryFrom<Vec<TurnRange>> for TurnRanges {
    type Error = TurnRangeError;
    fn try_from(ranges: Vec<TurnRange>) -> Result<Self, TurnRangeError> {
        Self::new(ranges)
    }
}

impl From<TurnRanges> for Vec<TurnRange> {
    fn from(ranges: TurnRanges) -> Self {
        ranges.0
    }
}

/// Why turns are not a range, or ranges do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TurnRangeError {
    /// The range would end before it starts.
    #[error("a range of turns cannot start at turn {start_turn} and end at turn {end_turn}")]
    StartAfterEnd {
        /// The first turn that was asked for.
        start_turn: usize,
        /// The last turn that was asked for.
        end_turn: usize,
    },
    /// A turn would be covered twice.
    #[error("turns {first} and turns {second} overlap")]
    Overlap {
        /// The range that starts first.
        first: TurnRange,
        /// The other one.
        second: TurnRange,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn items(turn_ids: &[Option<&str>]) -> Vec<Arc<Item>> {
        let item = |turn_id: &Option<&str>| match turn_id {
            Some(turn_id) => Item::user("i", "…").with_turn_id(*turn_id).into(),
            None => Item::user("i", "…").into(),
        };
        turn_ids.iter().map(item).collect()
    }

    fn turns(turn_ids: &[Option<&str>]) -> Vec<Range<usize>> {
        let map = TurnMap::from_messages(&items(turn_ids));
        (0..map.turn_count()).map(|turn_index| map.turn_msg_range(turn_index)).collect()
    }

    fn range(start_turn: usize, end_turn: usize) -> TurnRange {
        TurnRange::new(start_turn, end_turn).unwrap()
    }

    #[test]
    fn neighbours_with_one_turn_id_are_one_turn() {
        assert_eq!(turns(&[Some("a"), Some("a"), Some("b"), Some("b"), Some("b")]), [0..2, 2..5]);
        assert!(turns(&[]).is_empty());
    }

    #[test]
    fn an_item_without_turn_id_is_a_turn_of_its_own() {
        assert_eq!(turns(&[None, None, Some("a"), None, Some("a")]), [0..1, 1..2, 2..3, 3..4, 4..5]);
    }

    #[test]
    fn a_turn_id_that_returns_starts_a_new_turn() {
        assert_eq!(turns(&[Some("a"), Some("b"), Some("a"), Some("a")]), [0..1, 1..2, 2..4]);
    }

    fn turns_of(items: Vec<Item>) -> Vec<Range<usize>> {
        let transcript: crate::Transcript = items.into_iter().collect();
        let map = TurnMap::of(&transcript);
        (0..map.turn_count()).map(|turn_index| map.turn_msg_range(turn_index)).collect()
    }

    #[test]
    fn without_turn_ids_turns_start_at_user_items_and_the_first_takes_in_the_scene() {
        let scene = Item::text("s", ItemKind::System, "…");
        let say = |id: &str| Item::assistant(id, vec![crate::Part::text("…")]);
        let items = vec![scene, Item::user("u1", "…"), say("a1"), Item::user("u2", "…"), say("a2")];
        assert_eq!(turns_of(items), [0..3, 3..5]);
        assert_eq!(turns_of(vec![say("a1"), say("a2")]), std::iter::once(0..2).collect::<Vec<_>>());
        assert!(turns_of(Vec::new()).is_empty());
    }

    #[test]
    fn a_turn_never_ends_between_a_call_and_its_result() {
        let call = crate::Part::call("c", "read", &serde_json::json!({}));
        let items = vec![
            Item::user("u1", "…").with_turn_id("a"),
            Item::assistant("a1", vec![call]).with_turn_id("a"),
            Item::user("u2", "…").with_turn_id("b"),
            Item::tool("t1", crate::ToolResult::text("c", "…")).with_turn_id("b"),
            Item::user("u3", "…").with_turn_id("c"),
        ];
        assert_eq!(turns_of(items), [0..4, 4..5]);
    }

    #[test]
    fn what_lies_outside_is_clipped_or_empty() {
        let map = TurnMap::from_messages(&items(&[Some("a"), Some("a"), Some("b")]));
        assert_eq!(map.messages_for_range(range(0, 1)), 0..3);
        assert_eq!(map.messages_for_range(range(1, usize::MAX)), 2..3);
        assert_eq!(map.messages_for_range(range(usize::MAX, usize::MAX)), 3..3);
        assert_eq!(map.turn_msg_range(2), 3..3);
        assert_eq!(map.turn_msg_range(usize::MAX), 3..3);
        assert_eq!(TurnMap::default().messages_for_range(range(0, 5)), 0..0);
    }

    #[test]
    fn a_range_cannot_end_before_it_starts() {
        let error = TurnRange::new(3, 2).unwrap_err();
        assert_eq!(error, TurnRangeError::StartAfterEnd { start_turn: 3, end_turn: 2 });
        assert_eq!(error.to_string(), "a range of turns cannot start at turn 3 and end at turn 2");
        assert_eq!(range(2, 2).len(), 1);
        assert_eq!(range(0, usize::MAX).len(), usize::MAX);
    }

    #[test]
    fn overlapping_ranges_are_rejected_by_name() {
        let error = TurnRanges::new(vec![range(5, 8), range(0, 2), range(2, 4)]).unwrap_err();
        assert_eq!(error, TurnRangeError::Overlap { first: range(0, 2), second: range(2, 4) });
        assert_eq!(error.to_string(), "turns 0 to 2 and turns 2 to 4 overlap");
        let ranges = TurnRanges::new(vec![range(5, 8), range(0, 2)]).unwrap();
        assert_eq!(*ranges, [range(0, 2), range(5, 8)]);
        assert_eq!(ranges.turn_count(), 7);
    }

    #[test]
    fn what_is_read_is_checked() {
        let text = r#"[{"start_turn":0,"end_turn":2},{"start_turn":5,"end_turn":8}]"#;
        let ranges: TurnRanges = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&ranges).unwrap(), text);
        for (wrong, reason) in [
            (r#"[{"start_turn":3,"end_turn":2}]"#, "cannot start at turn 3"),
            (r#"[{"start_turn":0,"end_turn":2},{"start_turn":1,"end_turn":8}]"#, "overlap"),
            (r#"[{"start_turn":0,"end_turn":2,"step":1}]"#, "unknown field `step`"),
        ] {
            let error = serde_json::from_str::<TurnRanges>(wrong).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn turns_cover_every_item_once_and_in_order(
            turn_ids in prop::collection::vec(prop::sample::select(vec![None, Some("a"), Some("b")]), 0..20),
            (start, length) in (0..25_usize, 0..25_usize),
        ) {
            let items = items(&turn_ids);
            let map = TurnMap::from_messages(&items);
            let covered: Vec<usize> = (0..map.turn_count()).flat_map(|turn| map.turn_msg_range(turn)).collect();
            prop_assert!(covered.into_iter().eq(0..items.len()));
            for item_index in 0..items.len() + 2 {
                let holds = |turn: &usize| map.turn_msg_range(*turn).contains(&item_index);
                prop_assert_eq!(map.turn_of(item_index), (0..map.turn_count()).find(holds));
            }

            let range = range(start, start + length);
            let expected: Vec<usize> =
                (start..=start + length).flat_map(|turn| map.turn_msg_range(turn)).collect();
            prop_assert!(map.messages_for_range(range).eq(expected));
        }

        #[test]
        fn ranges_overlap_exactly_where_they_share_a_turn(
            (a, b) in (0..8_usize, 0..8_usize), (c, d) in (0..8_usize, 0..8_usize),
        ) {
            let (one, other) = (range(a.min(b), a.max(b)), range(c.min(d), c.max(d)));
            let shares = (0..8).any(|turn| one.contains(turn) && other.contains(turn));
            prop_assert_eq!(one.overlaps(other), shares);
            prop_assert_eq!(TurnRanges::new(vec![one, other]).is_err(), shares);
        }
    }
}
