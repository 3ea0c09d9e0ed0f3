//! What both databases keep in rows, and what follows from it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use foldback_core::{CompactionReason, LoopId, Metadata, Timestamp};
use foldback_engine::StoreError;
use foldback_engine::store::{BlockNumber, LoopInfo, Origin, StackPoint, StoredBlock, Version};

use crate::body::{corrupt, decode_block};

/// The version of the tables. Those of another version are refused; 1 to 5 were never released.
pub(crate) const SCHEMA_VERSION: u32 = 6;

/// The number of a loop in its database.
pub(crate) type LoopKey = i64;

/// Where a loop comes from, as a number.
const ORIGIN_ROOT: i64 = 0;
const ORIGIN_AFTER: i64 = 1;
const ORIGIN_BRANCH: i64 = 2;

/// What is becoming of a job, as a number.
pub(crate) const JOB_IDLE: i64 = 0;
pub(crate) const JOB_WAITING: i64 = 1;
pub(crate) const JOB_RUNNING: i64 = 2;
pub(crate) const JOB_FAILED: i64 = 3;

/// Why a compaction without blocks is refused: there would be nothing to undo.
pub(crate) const NO_BLOCK: &str = "the compaction has no block";

/// A session as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub(crate) key: i64,
    pub(crate) version: Version,
}

/// Where a loop comes from, as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Lineage {
    pub(crate) origin: i64,
    pub(crate) parent: Option<LoopKey>,
    pub(crate) shared: i64,
    pub(crate) top: Option<i64>,
}

impl Lineage {
    pub(crate) fn root() -> Self {
        Self { origin: ORIGIN_ROOT, parent: None, shared: 0, top: None }
    }

    /// After another loop.
    pub(crate) fn after(parent: &LoopRow) -> Self {
        Self { origin: ORIGIN_AFTER, parent: Some(parent.key), ..Self::root() }
    }

    /// With the first items of another loop, and those of its blocks in force that reach no further.
    pub(crate) fn branch(parent: &LoopRow, item_count: usize, blocks: &Blocks) -> Result<Self, StoreError> {
        let shared = as_row(item_count);
        if shared > parent.item_count {
            let count = index(parent.item_count);
            return Err(StoreError::OutOfRange { what: "item", index: item_count, count });
        }
        let top = blocks.within(parent.top, shared)?;
        Ok(Self { origin: ORIGIN_BRANCH, parent: Some(parent.key), shared, top })
    }
}

/// A loop as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct LoopRow {
    pub(crate) key: LoopKey,
    pub(crate) name: String,
    pub(crate) origin: i64,
    pub(crate) parent: Option<LoopKey>,
    pub(crate) shared: i64,
    pub(crate) item_count: i64,
    pub(crate) top: Option<i64>,
    pub(crate) tip: Option<i64>,
    pub(crate) original_bytes: i64,
    pub(crate) created_at: i64,
    pub(crate) metadata: String,
}

/// The loops of a session by their number.
pub(crate) type Loops = HashMap<LoopKey, LoopRow>;

impl LoopRow {
    /// The same with other blocks in force.
    pub(crate) fn at(self, point: StackPoint) -> Self {
        let row = |number: BlockNumber| number.0 as i64;
        Self { top: point.top.map(row), tip: point.tip.map(row), ..self }
    }

    /// Which blocks are in force.
    pub(crate) fn stack(&self) -> StackPoint {
        StackPoint { top: self.top.map(number), tip: self.tip.map(number) }
    }

    /// What is told about it.
    pub(crate) fn info(&self, loops: &Loops) -> Result<LoopInfo, StoreError> {
        let parent = || {
            let row = self.parent.and_then(|parent| loops.get(&parent));
            row.map(|row| LoopId::from(row.name.as_str()))
                .ok_or_else(|| corrupt(format!("loop {} has lost its parent", self.name)))
        };
        let origin = match self.origin {
            ORIGIN_ROOT => Origin::Root,
            ORIGIN_AFTER => Origin::After(parent()?),
            _ => Origin::Branch { parent: parent()?, item_count: index(self.shared) },
        };
        Ok(LoopInfo {
            id: self.name.as_str().into(),
            origin,
            item_count: index(self.item_count),
            stack: self.stack(),
            original_bytes: self.original_bytes.unsigned_abs(),
            created_at: Timestamp(self.created_at),
            metadata: read_metadata(&self.metadata)?,
        })
    }
}

/// A loop, with what is needed to read it; all of one moment.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) session: SessionRow,
    pub(crate) loops: Loops,
    pub(crate) row: LoopRow,
}

impl Opened {
    pub(crate) fn of(session: SessionRow, loops: Loops, loop_id: &LoopId) -> Result<Self, StoreError> {
        let row = loops.values().find(|row| row.name == loop_id.as_str()).cloned();
        let missing = || StoreError::NotFound { what: "loop", id: loop_id.to_string() };
        Ok(Self { row: row.ok_or_else(missing)?, session, loops })
    }
}

/// Which loops hold the items of a range of `row`, in order: its own, and those of the loops it
/// branched off.
pub(crate) fn segments(
    loops: &Loops,
    row: &LoopRow,
    range: &Range<usize>,
) -> Result<Vec<(LoopKey, Range<i64>)>, StoreError> {
    let (from, mut to) = (as_row(range.start), as_row(range.end).min(row.item_count));
    let mut segments = Vec::new();
    let mut holder = row;
    // Every step goes to another loop of the session, so there are never more steps than loops.
    for _ in 0..=loops.len() {
        if from >= to {
            segments.reverse();
            return Ok(segments);
        }
        let own_from = from.max(holder.shared);
        if own_from < to {
            segments.push((holder.key, own_from..to));
            to = own_from;
        }
        if from < to {
            holder = holder
                .parent
                .and_then(|parent| loops.get(&parent))
                .ok_or_else(|| corrupt(format!("loop {} has lost its parent", holder.name)))?;
        }
    }
    Err(corrupt(format!("loop {} is its own parent", row.name)))
}

/// The chain of blocks from `top` down, by their parents.
pub(crate) fn chain(parents: &HashMap<i64, Option<i64>>, top: Option<i64>) -> Result<Vec<i64>, StoreError> {
    let mut chain = Vec::new();
    let mut next = top;
    while let Some(block) = next {
        if chain.len() > parents.len() {
            return Err(corrupt(format!("block {block} stands on itself")));
        }
        chain.push(block);
        next = *parents.get(&block).ok_or_else(|| corrupt(format!("block {block} is missing")))?;
    }
    Ok(chain)
}

/// The blocks of a session: what each stands on, which belong to the compaction of the one below, and
/// how far they reach.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) parents: HashMap<i64, Option<i64>>,
    pub(crate) reaches: HashMap<i64, i64>,
    joined: HashSet<i64>,
}

impl Blocks {
    /// From rows of number, parent, whether it is joined, and reach.
    pub(crate) fn of(rows: impl IntoIterator<Item = (i64, Option<i64>, bool, i64)>) -> Self {
        let mut blocks = Self::default();
        for (number, parent, is_joined, reach) in rows {
            blocks.parents.insert(number, parent);
            blocks.reaches.insert(number, reach);
            if is_joined {
                blocks.joined.insert(number);
            }
        }
        blocks
    }

    /// Refuses a base that is not in force up to `top`.
    pub(crate) fn check_base(&self, top: Option<i64>, base: Option<i64>) -> Result<(), StoreError> {
        match base {
            Some(base) if !chain(&self.parents, top)?.contains(&base) => {
                Err(StoreError::InvalidBlock { why: format!("block {base} below it is not in force") })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a stack with blocks that are not there, out of order, or made for more items.
    pub(crate) fn check_stack(&self, stack: &LoopRow) -> Result<(), StoreError> {
        let missing =
            [stack.top, stack.tip].into_iter().flatten().find(|block| !self.parents.contains_key(block));
        if let Some(block) = missing {
            return Err(StoreError::NotFound { what: "block", id: block.to_string() });
        }
        let way = chain(&self.parents, stack.tip)?;
        if stack.top.is_some_and(|top| !way.contains(&top)) {
            let why = "the newest block in force does not lie below the one redo leads to".to_owned();
            return Err(StoreError::InvalidBlock { why });
        }
        let furthest = way.iter().filter_map(|block| self.reaches.get(block)).max().copied().unwrap_or(0);
        if furthest > stack.item_count {
            let (index, count) = (index(furthest), index(stack.item_count));
            return Err(StoreError::OutOfRange { what: "block with item", index, count });
        }
        Ok(())
    }

    /// The last block that a branch has in force, of those up to `top`: it has those that speak of
    /// nothing it does not have. Blocks stand on each other, so these are the whole compactions below
    /// the lowest that reaches further.
    pub(crate) fn within(&self, top: Option<i64>, item_count: i64) -> Result<Option<i64>, StoreError> {
        let mut kept = None;
        let mut way = chain(&self.parents, top)?;
        way.reverse();
        for compaction in way.chunk_by(|_, block| self.joined.contains(block)) {
            let fits = |block: &i64| self.reaches.get(block).is_some_and(|reach| *reach <= item_count);
            if !compaction.iter().all(fits) {
                break;
            }
            kept = compaction.last().copied();
        }
        Ok(kept)
    }
}

/// Which blocks of a session a loop has: its own, and those that it has or had in force.
#[derive(Debug)]
pub(crate) struct Listing<'l> {
    loops: &'l Loops,
    row: &'l LoopRow,
    in_force: HashSet<i64>,
    inherited: HashSet<i64>,
}

impl<'l> Listing<'l> {
    pub(crate) fn of(loops: &'l Loops, row: &'l LoopRow, blocks: &Blocks) -> Result<Self, StoreError> {
        let in_force = chain(&blocks.parents, row.top)?.into_iter().collect();
        let inherited = chain(&blocks.parents, row.tip)?.into_iter().collect();
        Ok(Self { loops, row, in_force, inherited })
    }

    pub(crate) fn has(&self, block: i64, holder: LoopKey) -> bool {
        holder == self.row.key || self.in_force.contains(&block) || self.inherited.contains(&block)
    }

    /// A block as it is told about, from its row.
    pub(crate) fn stored(
        &self,
        (block, holder, parent, stored_at): (i64, LoopKey, Option<i64>, i64),
        data: &[u8],
    ) -> Result<StoredBlock, StoreError> {
        let holder = self.loops.get(&holder);
        let holder = holder.ok_or_else(|| corrupt(format!("the loop of block {block} is missing")))?;
        Ok(StoredBlock {
            number: number(block),
            loop_id: holder.name.as_str().into(),
            parent: parent.map(number),
            is_in_force: self.in_force.contains(&block),
            stored_at: Timestamp(stored_at),
            block: Arc::new(decode_block(data)?),
        })
    }
}

/// What is said of a loop whose items are not as many as it says.
pub(crate) fn miscounted(said: i64, found: i64, is_end_lost: bool) -> String {
    let what = format!("says {said} items and has {found} without a gap");
    match is_end_lost {
        true => {
            format!("{what}: the last ones are lost; restore a backup, or repair it to go on without them")
        }
        false => what,
    }
}

/// Notes as they are kept.
pub(crate) fn write_metadata(metadata: &Metadata) -> String {
    serde_json::to_string(metadata).expect("metadata is JSON")
}

/// Notes that were kept.
pub(crate) fn read_metadata(text: &str) -> Result<Metadata, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt(format!("metadata cannot be read ({error})")))
}

/// A reason as it is kept.
pub(crate) fn write_reason(reason: &CompactionReason) -> String {
    serde_json::to_string(reason).expect("a reason is JSON")
}

/// A reason that was kept.
pub(crate) fn read_reason(text: &str) -> Result<CompactionReason, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt(format!("a reason cannot be read ({error})")))
}

/// A version from a row.
pub(crate) fn version(row: i64) -> Version {
    Version(row.unsigned_abs())
}

/// The number of a block.
pub(crate) fn number(row: i64) -> BlockNumber {
    BlockNumber(row.unsigned_abs())
}

/// An index from a row; never negative.
pub(crate) fn index(row: i64) -> usize {
    usize::try_from(row).unwrap_or(0)
}

/// An index in a row.
pub(crate) fn as_row(index: usize) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: LoopKey, parent: Option<LoopKey>, shared: i64, item_count: i64) -> LoopRow {
        LoopRow {
            key,
            name: format!("loop-{key}"),
            origin: if parent.is_some() { ORIGIN_BRANCH } else { ORIGIN_ROOT },
            parent,
            shared,
            item_count,
            top: None,
            tip: None,
            original_bytes: 0,
            created_at: 0,
            metadata: "{}".to_owned(),
        }
    }

    fn loops(rows: &[LoopRow]) -> Loops {
        rows.iter().map(|row| (row.key, row.clone())).collect()
    }

    #[test]
    fn a_branch_of_a_branch_reads_each_item_from_the_loop_that_holds_it() {
        let rows =
            [row(1, None, 0, 10), row(2, Some(1), 6, 9), row(3, Some(2), 8, 12), row(4, Some(2), 3, 5)];
        let of = |key: usize, range| segments(&loops(&rows), &rows[key - 1], &range).unwrap();
        assert_eq!(of(3, 0..100), [(1, 0..6), (2, 6..8), (3, 8..12)]);
        assert_eq!(of(3, 7..9), [(2, 7..8), (3, 8..9)]);
        assert_eq!(of(4, 0..100), [(1, 0..3), (4, 3..5)], "its parent's own items begin later");
        assert_eq!(of(1, 20..30), []);
    }

    #[test]
    fn a_loop_that_is_its_own_ancestor_is_an_error() {
        let rows = [row(1, Some(2), 5, 10), row(2, Some(1), 5, 10)];
        let answer = segments(&loops(&rows), &rows[0], &(0..10));
        assert!(matches!(answer, Err(StoreError::Corrupt { .. })), "{answer:?}");
    }

    #[test]
    fn a_branch_has_whole_compactions_only() {
        let rows =
            [(1, None, false, 5), (2, Some(1), true, 9), (3, Some(2), false, 9), (4, Some(3), true, 12)];
        let blocks = Blocks::of(rows);
        assert_eq!(blocks.within(Some(4), 12), Ok(Some(4)));
        assert_eq!(blocks.within(Some(4), 9), Ok(Some(2)));
        assert_eq!(blocks.within(Some(4), 8), Ok(None), "half a compaction is none");
    }
}
