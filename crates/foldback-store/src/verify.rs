//! What both databases share of verifying: what is noted, what a block must be, what a stack must be.

use std::collections::HashMap;

use foldback_core::{CompactionBlock, Splice};
use foldback_engine::StoreError;
use foldback_engine::store::{Problem, ProblemKind, Repairs, VerifyReport};

use crate::body;
use crate::rows::{LoopRow, chain};

/// Problems that are listed; a store with more has one cause.
const PROBLEMS_MAX: usize = 1_000;

/// What was found so far.
#[derive(Debug)]
pub(crate) struct Findings {
    repairs: Repairs,
    pub(crate) report: VerifyReport,
}

impl Findings {
    pub(crate) fn new(repairs: Repairs) -> Self {
        Self { repairs, report: VerifyReport::default() }
    }

    /// Notes a problem. One that can be repaired was, unless the caller only looks.
    pub(crate) fn found(&mut self, kind: ProblemKind, what: String, can_be_repaired: bool) {
        let is_repaired = can_be_repaired && self.repairs == Repairs::Derived;
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(Problem { kind, what, is_repaired });
        }
    }
}

/// The blocks of one session that can be read, with what they come to.
#[derive(Debug, Default)]
pub(crate) struct SoundBlocks {
    splices: HashMap<i64, Splice>,
    parents: HashMap<i64, Option<i64>>,
    reaches: HashMap<i64, i64>,
}

/// A block, and its splice where another is stored.
pub(crate) type Looked = (CompactionBlock, Option<Vec<u8>>);

impl SoundBlocks {
    /// Looks at the next block, in the order of their numbers: it can be read, stands on another, and its
    /// splice is what they come to. Answers the block and, where another is stored, its splice.
    pub(crate) fn look(
        &mut self,
        findings: &mut Findings,
        place: &str,
        (number, parent, reach): (i64, Option<i64>, i64),
        (data, stored): (&[u8], &[u8]),
    ) -> Result<Option<Looked>, StoreError> {
        let block = match body::decode_block(data) {
            Ok(block) => block,
            Err(error) => {
                findings.found(ProblemKind::Block, format!("{place}: {error}"), false);
                return Ok(None);
            }
        };
        let splice = match parent.map(|parent| self.splices.get(&parent)) {
            None => Splice::default().with(&block),
            Some(Some(below)) => below.with(&block),
            Some(None) => {
                findings.found(ProblemKind::Block, format!("{place} stands on one that is missing"), false);
                return Ok(None);
            }
        };
        let is_stored = body::decode_splice(stored).is_ok_and(|stored| stored == splice);
        let sealed = if is_stored { None } else { Some(body::encode_splice(&splice)?) };
        if sealed.is_some() {
            findings.found(ProblemKind::Splice, place.to_owned(), true);
        }
        self.splices.insert(number, splice);
        self.parents.insert(number, parent);
        self.reaches.insert(number, reach);
        Ok(Some((block, sealed)))
    }

    /// Looks at what a loop has in force. Answers the top that it is to have instead, where that is unsound.
    pub(crate) fn look_at_stack(
        &self,
        findings: &mut Findings,
        row: &LoopRow,
        place: &str,
    ) -> Option<Option<i64>> {
        let top = chain(&self.parents, row.top);
        let is_sound = match (&top, chain(&self.parents, row.tip)) {
            (Ok(_), Ok(way)) => row.top.is_none_or(|top| way.contains(&top)),
            (Ok(_) | Err(_), _) => false,
        };
        let kept = top.as_ref().ok().and(row.top);
        if !is_sound {
            let what = format!("{place} has blocks in force that are missing");
            findings.found(ProblemKind::Stack, what, true);
        }
        let reaches = |block: &i64| self.reaches.get(block).is_some_and(|reach| *reach > row.item_count);
        if top.is_ok_and(|top| top.iter().any(reaches)) {
            let what = format!("{place}: a block in force speaks of items that are missing");
            findings.found(ProblemKind::View, what, false);
        }
        (!is_sound).then_some(kept)
    }
}
