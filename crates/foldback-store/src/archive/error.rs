//! What can be wrong with an archive. A damaged archive is no damaged store.

use std::fmt;
use std::io;

use foldback_core::SessionId;
use foldback_engine::StoreError;

use super::Contents;

/// Where in an archive: records count from 1, the line that names the form is the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchivePlace {
    /// Which record.
    pub record_number: u64,
    /// Where it begins, in bytes of the unpacked archive.
    pub byte_offset: u64,
}

impl fmt::Display for ArchivePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} (byte {} unpacked)", self.record_number, self.byte_offset)
    }
}

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The store that is read or written failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file holds something else.
    #[error("this is no backup of foldback: {why}; name a file that `foldback store backup` wrote")]
    NotAnArchive {
        /// How that was seen.
        why: String,
    },
    /// Another version of foldback wrote it.
    #[error(
        "the backup has form {found}, this foldback reads forms up to {known}; restore it with the foldback \
         that wrote it"
    )]
    OtherForm {
        /// The form of the backup.
        found: u32,
        /// The newest form that this program reads.
        known: u32,
    },
    /// The archive is not what was written.
    #[error("the backup is damaged at {place}: {what}; nothing was restored, use another backup")]
    Damaged {
        /// Where.
        place: ArchivePlace,
        /// How that was seen.
        what: String,
    },
    /// It unpacks to more than its size explains.
    #[error(
        "the backup is larger than is unpacked without a word: {place} lies beyond {bytes_max} bytes, or is \
         longer than {record_bytes_max} or full of tiny objects; nothing was restored; if you trust the \
         backup, allow more with `--unpacked-max`"
    )]
    TooLarge {
        /// The record that was not read.
        place: ArchivePlace,
        /// What the archive may unpack to.
        bytes_max: u64,
        /// What one record may.
        record_bytes_max: u64,
    },
    /// The store has a session of this name.
    #[error(
        "session {session} of the backup is in the store already; nothing was restored, choose a store \
         without it"
    )]
    Exists {
        /// Which.
        session: SessionId,
    },
    /// The store holds less of a session than the archive.
    #[error(
        "session {session} of the backup was not restored whole: {what}; nothing was restored, use another \
         backup"
    )]
    Incomplete {
        /// Which.
        session: SessionId,
        /// What is not as it should be.
        what: String,
    },
    /// A restore failed, and what it had written could not be taken away.
    #[error("{cause}; except that {} could not be removed again ({why}): delete it", listed(sessions))]
    LeftBehind {
        /// What is still there.
        sessions: Vec<SessionId>,
        /// Why it could not be removed.
        why: StoreError,
        /// Why the restore failed.
        cause: Box<ArchiveError>,
    },
    /// What was written cannot be read.
    #[error(
        "the backup cannot be read back at {place}: {what}; it is of no use, check the disk and try again"
    )]
    NotReadBack {
        /// Where.
        place: ArchivePlace,
        /// How that was seen.
        what: String,
    },
    /// What was written is not what is read.
    #[error(
        "the backup was written with {written:?} and read back with {found:?}; it is of no use, check the \
         disk and try again"
    )]
    Miscounted {
        /// What was written.
        written: Contents,
        /// What was read.
        found: Contents,
    },
    /// Something is too long for one record.
    #[error(
        "a record of {bytes} bytes does not fit a backup, at most {bytes_max} do; export its session and \
         delete it"
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
    /// The archive could not be written.
    #[error("the backup cannot be written: {0}; free some space or choose another place")]
    Write(#[source] io::Error),
    /// The archive could not be read.
    #[error("the backup cannot be read: {0}; nothing was restored, copy it to another disk and try again")]
    Read(#[source] io::Error),
}

impl ArchiveError {
    /// What is wrong with an archive that was written a moment ago.
    pub(super) fn not_read_back(error: Self) -> Self {
        match error {
            Self::Damaged { place, what } => Self::NotReadBack { place, what },
            Self::NotAnArchive { why } => Self::NotReadBack { place: ArchivePlace::default(), what: why },
            other => other,
        }
    }

    /// Why a store did not take a record: the record is at fault where it makes no sense.
    pub(super) fn refused(place: ArchivePlace, error: StoreError) -> Self {
        let what = match error {
            StoreError::InvalidBlock { why } => format!("a block does not fit its loop ({why})"),
            StoreError::NotFound { what, id } => format!("it names a {what} {id} that was not there before"),
            StoreError::Exists { what: "session", id } => return Self::Exists { session: id.into() },
            StoreError::Exists { what, id } => format!("it begins the {what} {id} twice"),
            StoreError::OutOfRange { .. } => error.to_string(),
            other => return Self::Store(other),
        };
        Self::Damaged { place, what }
    }
}

fn listed(sessions: &[SessionId]) -> String {
    let names: Vec<String> = sessions.iter().map(|id| format!("session {id}")).collect();
    names.join(", ")
}
