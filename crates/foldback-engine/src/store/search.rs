//! What is looked for in a store, and what is found.

use std::fmt;
use std::ops::Range;

use foldback_core::{FactKind, Handle, ItemId, ItemKind, LoopId, SessionId, Text, Timestamp};

/// Where content stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The items in these ranges: what a fold hides.
    Ranges(Vec<Range<usize>>),
    /// One part of an item.
    Part {
        /// The item's index.
        item_index: usize,
        /// The part's index.
        part_index: usize,
    },
    /// The unit that begins with an item.
    Unit {
        /// The item's index.
        item_index: usize,
    },
}

/// What to look for. Everything given must hold.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// Words; what stands in quotes stands together.
    pub text: Option<String>,
    /// A regular expression.
    pub regex: Option<String>,
    /// A fact of this kind, in which the words stand if there are any.
    pub fact_kind: Option<FactKind>,
    /// The name of a file, or the end of its path.
    pub file: Option<String>,
    /// Recorded at or after.
    pub since: Option<Timestamp>,
    /// Recorded before.
    pub until: Option<Timestamp>,
    /// Only in this session.
    pub session: Option<SessionId>,
    /// Only what an earlier answer did not come to: its [`SearchAnswer::next`].
    pub before: Option<SearchCursor>,
    /// How many hits at most.
    pub limit: usize,
}

/// How far a search came, from the newest items to the oldest. It means something to the store that gave it
/// only, and may be written down in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SearchCursor(pub u64);

impl fmt::Display for SearchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SearchQuery {
    /// Hits that are given unless asked for others.
    pub const LIMIT_DEFAULT: usize = 20;

    /// Looks for words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }
}

impl Default for SearchQuery {
    fn default() -> Self {
        Self {
            text: None,
            regex: None,
            fact_kind: None,
            file: None,
            since: None,
            until: None,
            session: None,
            before: None,
            limit: Self::LIMIT_DEFAULT,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchAnswer {
    /// The best first.
    pub hits: Vec<SearchHit>,
    /// Whether everything was looked at, and everything that was found is given: common words, or a regular
    /// expression over a large store, reach a cap first. The newest items are looked at first.
    pub is_complete: bool,
    /// Where older items are that were not looked at: [`SearchQuery::before`] goes on there.
    pub next: Option<SearchCursor>,
}

/// An item in which it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The session.
    pub session: SessionId,
    /// The loop.
    pub loop_id: LoopId,
    /// The item's index in it.
    pub item_index: usize,
    /// The item's id.
    pub item_id: ItemId,
    /// Who speaks.
    pub kind: ItemKind,
    /// When it was recorded.
    pub created_at: Option<Timestamp>,
    /// Recalls the unit that it begins, or it alone.
    pub handle: Handle,
    /// Whether the model sees it now.
    pub is_visible: bool,
    /// How well it fits: more is better, and only hits of one answer can be compared.
    pub score: f64,
    /// The text around the first place, as recorded: secrets are still in it.
    pub excerpt: Text,
}
