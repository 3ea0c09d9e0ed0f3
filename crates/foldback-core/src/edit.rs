//! What a compaction changes: [`Edit`]s, each with its [`Reason`].
//!
//! Edits speak of transcript indices, never of positions in some view, so that they stay true
//! however many compactions lie on top of each other.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::handle::Handle;
use crate::ids::{Text, Tokens};
use crate::part::Part;

/// Who proposed an edit, and why (T9).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The strategy's id.
    pub strategy: Cow<'static, str>,
    /// One clause for a person: "older than the newest 8 items". Shared, because thousands of edits
    /// give the same reason.
    pub why: Text,
}

impl Reason {
    /// A reason given by the strategy with this id.
    pub fn new(strategy: &'static str, why: impl Into<Text>) -> Self {
        Self { strategy: Cow::Borrowed(strategy), why: why.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.strategy, self.why)
    }
}

/// One change to a view. A new kind is a breaking change: whoever reads blocks has to apply it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Hides everything visible in a range. Shadows the trait of its name where it is imported: write `edit::Drop`.
    Drop(Drop),
    /// Replaces or removes one part of one item.
    Rewrite(Rewrite),
    /// Hides a range, except its holes, behind a summary.
    Fold(Fold),
}

impl Edit {
    /// Who proposed it, and why.
    pub fn reason(&self) -> &Reason {
        match self {
            Self::Drop(drop) => &drop.reason,
            Self::Rewrite(rewrite) => &rewrite.reason,
            Self::Fold(fold) => &fold.reason,
        }
    }

    /// The first transcript index it touches.
    pub fn first_index(&self) -> usize {
        match self {
            Self::Drop(drop) => drop.range.start,
            Self::Rewrite(rewrite) => rewrite.item_index,
            Self::Fold(fold) => fold.range.start,
        }
    }
}

/// Hides everything visible in a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drop {
    /// The transcript indices.
    pub range: Range<usize>,
    /// Who and why.
    pub reason: Reason,
}

/// Replaces or removes one part of one item. The newest rewrite of a part is in force (T3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// The item's transcript index.
    pub item_index: usize,
    /// The part's index in the recorded item, whatever was rewritten before.
    pub part_index: usize,
    /// What stands there now; nothing if it was removed.
    pub replacement: Option<Part>,
    /// What the replacement costs.
    pub tokens: u32,
    /// Recalls the part as it was recorded.
    pub handle: Handle,
    /// Who and why.
    pub reason: Reason,
}

/// Where a summary stands among the items that stay. Its fold's anchor fixes the place: what is said
/// later comes after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SummaryPlacement {
    /// Before the tail, `[summary, …tail]`: where the first folded item stood.
    #[default]
    BeforeKept,
    /// After the last user item that stays: where the last folded item stood, or directly after that
    /// user item if nothing behind it was folded.
    AfterKept,
    /// After the tail, `[…tail, summary]`: behind everything but the unit in flight. Providers want a
    /// user item first: where a tail begins inside a turn, the user item before it stays too. Where there
    /// is none, or a budget has no room for it, the summary opens instead, and the record says so.
    AfterTail,
}

impl SummaryPlacement {
    /// Whether nobody chose another.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a fold asks of whoever writes its summary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SummarySpec {
    /// The summary items may cost no more than this together, overhead included.
    pub tokens_max: Tokens,
    /// What the person asked the summary to attend to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<Text>,
    /// Where the summary stands.
    #[serde(default)]
    pub placement: SummaryPlacement,
}

impl SummarySpec {
    /// A summary of at most this many tokens, before the tail.
    pub fn new(tokens_max: Tokens) -> Self {
        Self { tokens_max, focus: None, placement: SummaryPlacement::BeforeKept }
    }

    /// The same, standing there.
    #[must_use]
    pub fn with_placement(mut self, placement: SummaryPlacement) -> Self {
        self.placement = placement;
        self
    }

    /// The same, attending to `focus`.
    #[must_use]
    pub fn with_focus(mut self, focus: Option<Text>) -> Self {
        self.focus = focus;
        self
    }
}

/// Hides a contiguous range, except its holes, behind a summary (T3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fold {
    /// The transcript indices; the first and the last are folded, never holes.
    pub range: Range<usize>,
    /// Indices inside the range that stay visible, in order.
    pub holes: Vec<Range<usize>>,
    /// The index whose place the summary takes or, if that item is visible, directly after which it
    /// stands; never between the members of a unit that stays.
    pub anchor: usize,
    /// What is asked of the summary.
    pub spec: SummarySpec,
    /// Recalls what was folded.
    pub handle: Handle,
    /// What the folded items cost in the view they were folded in.
    pub tokens_before: Tokens,
    /// Who and why.
    pub reason: Reason,
}

impl Fold {
    /// The folded sub-ranges: the range without its holes.
    pub fn folded(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let starts = std::iter::once(self.range.start).chain(self.holes.iter().map(|hole| hole.end));
        let ends = self.holes.iter().map(|hole| hole.start).chain([self.range.end]);
        starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty())
    }

    /// Whether it hides the item at `index`.
    pub fn hides(&self, index: usize) -> bool {
        let next_hole = self.holes.partition_point(|hole| hole.end <= index);
        let is_hole = self.holes.get(next_hole).is_some_and(|hole| hole.contains(&index));
        self.range.contains(&index) && !is_hole
    }

    /// How many transcript items it hides, those hidden before included.
    pub fn item_count(&self) -> usize {
        self.folded().map(|range| range.len()).sum()
    }
}
