//! What is looked for in a store, and what is found.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use foldback_core::{FactKind, Handle, ItemId, ItemKind, LoopId, SessionId, Text, Timestamp};

/// Where content stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandleTarget {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchCursor {
    /// Items with lower numbers were not looked at.
    pub reached: u64,
    /// What of the others was found and not given: the best of several are given first.
    pub left: Option<SearchLeft>,
}

/// What was found and not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLeft {
    /// It was found among the items with lower numbers than this, from [`SearchCursor::reached`] on.
    pub end: u64,
    /// The number of the last item that was given: what is left fits less.
    pub given: u64,
}

/// Stands between the numbers of a cursor that is written down.
const BETWEEN_NUMBERS: char = '-';

impl SearchCursor {
    /// Where items with lower numbers were not looked at, and all that was found is given.
    pub fn at(reached: u64) -> Self {
        Self { reached, left: None }
    }
}

impl fmt::Display for SearchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left {
            None => write!(f, "{}", self.reached),
            Some(SearchLeft { end, given }) => {
                write!(f, "{}{BETWEEN_NUMBERS}{end}{BETWEEN_NUMBERS}{given}", self.reached)
            }
        }
    }
}

/// A text is no cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no place that a search named, such as 1234 or 1234-1300-1270")]
pub struct SearchCursorError;

impl FromStr for SearchCursor {
    type Err = SearchCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers: Result<Vec<u64>, _> = text.split(BETWEEN_NUMBERS).map(str::parse).collect();
        match numbers.map_err(|_| SearchCursorError)?.as_slice() {
            [reached] => Ok(Self::at(*reached)),
            [reached, end, given] => {
                Ok(Self { reached: *reached, left: Some(SearchLeft { end: *end, given: *given }) })
            }
            _ => Err(SearchCursorError),
        }
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
    /// Where to go on, with [`SearchQuery::before`]: first to what was found and not given, then to older
    /// items. So each item is given once, and the best first of those that were looked at together.
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
    /// The text around the first place, on one line: secrets are still in it.
    pub excerpt: Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_that_was_written_down_is_read_again() {
        let left = Some(SearchLeft { end: u64::MAX, given: 0 });
        for cursor in [SearchCursor::at(7), SearchCursor { reached: 0, left }] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "-", "7-", "7-8", "7-8-9-10", "-7", "7 ", "99999999999999999999"] {
            assert!(text.parse::<SearchCursor>().is_err(), "{text:?}");
        }
    }
}
