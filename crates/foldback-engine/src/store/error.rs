//! What can go wrong with a store, and what to do about it.

use foldback_core::{BlockError, SessionId};

use super::records::Version;

/// Why a store did not do what was asked. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Something was named that is not there.
    #[error("there is no {what} {id}; it may have been deleted, or belong to another store")]
    NotFound {
        /// What it would be.
        what: &'static str,
        /// Its name.
        id: String,
    },
    /// Something of this name is there already.
    #[error("there is a {what} {id} already; choose another name")]
    Exists {
        /// What it is.
        what: &'static str,
        /// Its name.
        id: String,
    },
    /// Somebody else changed the session first.
    #[error("session {session} is at version {actual}, not {expected}; read what is new and try again")]
    Conflict {
        /// Which session.
        session: SessionId,
        /// What the writer had seen.
        expected: Version,
        /// What it is.
        actual: Version,
    },
    /// A place behind the end of a loop.
    #[error("{what} {index} is out of range: the loop has {count}")]
    OutOfRange {
        /// What was addressed.
        what: &'static str,
        /// Where.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A block that does not belong to the loop.
    #[error("the block does not fit the loop: {why}; compact again on what the store holds")]
    InvalidBlock {
        /// What is wrong with it.
        why: String,
    },
    /// There is nothing to undo or to redo.
    #[error("there is nothing to {action} in this loop")]
    NothingTo {
        /// `undo` or `redo`.
        action: &'static str,
    },
    /// A query that cannot be read.
    #[error("the query cannot be read: {why}")]
    Query {
        /// What is wrong with it.
        why: String,
    },
    /// The lease ran out and somebody else may have the job.
    #[error("the lease on session {session} has ended; stop this compaction, another worker has the job")]
    LeaseLost {
        /// Whose job it was.
        session: SessionId,
    },
    /// The store was made by another version of foldback.
    #[error(
        "the store has version {found}, this foldback reads {known}; open it with the foldback that made \
         it, or choose another location for a new one"
    )]
    OtherVersion {
        /// The version of the store.
        found: u32,
        /// The version that this program reads and writes.
        known: u32,
    },
    /// A file or database that holds something else.
    #[error("{location} is no store of foldback: {why}; choose another location")]
    NotAStore {
        /// Where.
        location: String,
        /// How that was seen.
        why: String,
    },
    /// What is stored is damaged.
    #[error("the store is damaged: {what}; run `foldback store verify --repair`, or restore a backup")]
    Corrupt {
        /// What is damaged.
        what: String,
    },
    /// There is no room.
    #[error("no room to write {location}; free some space and try again, nothing was lost")]
    Full {
        /// Where.
        location: String,
    },
    /// The store may only be read.
    #[error("{location} is read-only; change its permissions or choose another location")]
    ReadOnly {
        /// Where.
        location: String,
    },
    /// Somebody else held the store for too long.
    #[error("{location} is busy; try again, or end the program that holds it")]
    Busy {
        /// Where.
        location: String,
    },
    /// The store cannot be reached.
    #[error("cannot open {location}: {why}")]
    Unreachable {
        /// Where.
        location: String,
        /// What the system says.
        why: String,
    },
    /// Anything else.
    #[error("{operation} failed: {why}")]
    Failed {
        /// What was being done.
        operation: &'static str,
        /// What the database says.
        why: String,
    },
}

impl From<BlockError> for StoreError {
    fn from(error: BlockError) -> Self {
        Self::InvalidBlock { why: error.to_string() }
    }
}
