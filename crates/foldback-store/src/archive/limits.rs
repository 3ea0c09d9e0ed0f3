//! How much an archive may unpack to: a few kilobytes can be made that unpack to terabytes.

use crate::body::BODY_BYTES_MAX;

/// Bytes of one record, of any archive: the largest item, and what says where it belongs.
pub(super) const RECORD_BYTES_MAX: u64 = BODY_BYTES_MAX as u64 + (1 << 20);

/// Every archive may unpack to this much, however small it is.
const BYTES_FREE: u64 = 1 << 30;

/// In every archive a record may have this many bytes, however small the archive is.
const RECORD_BYTES_FREE: u64 = 128 << 20;

/// And so many objects: each takes a hundred bytes of memory, and a dozen of the archive.
const OBJECTS_FREE: usize = 2_000_000;

/// Records of this many bytes cannot hold objects that fill the memory.
pub(super) const FEW_OBJECTS_BYTES: usize = 16 << 20;

/// Beyond that, to so many times its size. Real sessions are compressed to a fifth or a tenth.
const FACTOR_MAX: u64 = 100;

/// What a reader of an archive unpacks at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// All of it.
    pub(super) bytes_max: u64,
    /// One record, which is in memory as a whole.
    pub(super) record_bytes_max: u64,
    /// Objects of one record.
    pub(super) objects_max: usize,
}

impl Bounds {
    /// For an archive that was written a moment ago.
    pub(super) const NONE: Self =
        Self { bytes_max: u64::MAX, record_bytes_max: RECORD_BYTES_MAX, objects_max: usize::MAX };

    /// For an archive of this size.
    pub(super) fn of_size(bytes: u64) -> Self {
        let usual = bytes.saturating_mul(FACTOR_MAX);
        let record_bytes_max = usual.clamp(RECORD_BYTES_FREE, RECORD_BYTES_MAX);
        Self { bytes_max: usual.max(BYTES_FREE), record_bytes_max, objects_max: OBJECTS_FREE }
    }

    /// For an archive that somebody trusts to be this large.
    pub(super) fn given(bytes_max: u64) -> Self {
        Self { bytes_max, record_bytes_max: RECORD_BYTES_MAX.min(bytes_max), objects_max: usize::MAX }
    }
}
