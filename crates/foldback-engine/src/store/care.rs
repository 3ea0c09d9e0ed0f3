//! Looking after a store: what may go, what is wrong, what it takes.

use foldback_core::{SessionId, Timestamp};

/// What `gc` may remove. Sessions with a running job and sessions that are named stay in any case.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    /// Sessions that were changed last before this go. Without it, none go.
    pub changed_before: Option<Timestamp>,
    /// Sessions that stay however old they are.
    pub keep: Vec<SessionId>,
}

/// What `gc` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// The sessions that are gone.
    pub sessions: Vec<SessionId>,
    /// How many bodies nothing referred to.
    pub body_count: usize,
    /// How many bodies were moved together, where they take less room.
    pub packed_count: usize,
}

/// Whether `verify` may change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repairs {
    /// Only look.
    None,
    /// Make anew what can be derived: splices, counts, the search index, handles.
    Derived,
}

/// What can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The database itself is damaged.
    Database,
    /// A body is missing, cannot be read, or is not what its name says.
    Body,
    /// The items of a loop have gaps or are not as many as the loop says.
    Items,
    /// A block cannot be read, or stands on one that is not there.
    Block,
    /// The stored splice of a block is not what its blocks come to.
    Splice,
    /// A loop has blocks in force that do not exist.
    Stack,
    /// What the model would see cannot be made.
    View,
    /// A handle of a block is not listed.
    Handle,
    /// The file that a loop was read from is not complete.
    Original,
    /// The search index cannot be read.
    Search,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What.
    pub kind: ProblemKind,
    /// Where, and how that was seen.
    pub what: String,
    /// Whether it was repaired.
    pub is_repaired: bool,
}

/// What `verify` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// How many sessions were read.
    pub session_count: usize,
    /// How many items.
    pub item_count: usize,
    /// How many bodies.
    pub body_count: usize,
}

impl VerifyReport {
    /// Whether nothing is wrong now.
    pub fn is_clean(&self) -> bool {
        self.problems.iter().all(|problem| problem.is_repaired)
    }
}

/// What a store takes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Everything but the search index.
    pub data_bytes: u64,
    /// The search index.
    pub search_bytes: u64,
}
