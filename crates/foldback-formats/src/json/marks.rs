//! Where strings end and escapes begin: quotes and backslashes, found for a block of bytes at once.

use wide::u8x16;

/// Bytes that are looked at together, a bit for each.
const BLOCK_BYTES: usize = 64;

const LANE_BYTES: usize = 16;

/// The quotes and backslashes of a text.
#[derive(Debug)]
pub(super) struct Marks<'a> {
    bytes: &'a [u8],
    /// Where the block begins that was looked at last.
    block: usize,
    /// A bit for each mark in it.
    found: u64,
}

impl<'a> Marks<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        let mut marks = Self { bytes, block: 0, found: 0 };
        marks.look_at(0);
        marks
    }

    /// The first mark at or after `at`.
    #[inline(always)]
    pub(super) fn next(&mut self, at: usize) -> Option<usize> {
        let (block, offset) = (at - at % BLOCK_BYTES, at % BLOCK_BYTES);
        let found = self.found & u64::MAX << offset;
        if block == self.block && found != 0 {
            return Some(block + found.trailing_zeros() as usize);
        }
        self.next_beyond(at)
    }

    /// Apart from [`next`](Self::next), which is small enough to stand where it is called: strings with
    /// many escapes have the next mark in the same block.
    #[inline(never)]
    fn next_beyond(&mut self, at: usize) -> Option<usize> {
        let (block, offset) = (at - at % BLOCK_BYTES, at % BLOCK_BYTES);
        if block != self.block {
            self.look_at(block);
        }
        let mut found = self.found & u64::MAX << offset;
        while found == 0 {
            if self.block + BLOCK_BYTES >= self.bytes.len() {
                return None;
            }
            self.look_at(self.block + BLOCK_BYTES);
            found = self.found;
        }
        Some(self.block + found.trailing_zeros() as usize)
    }

    #[inline]
    fn look_at(&mut self, block: usize) {
        let rest = self.bytes.get(block..).unwrap_or_default();
        self.block = block;
        self.found = match rest.first_chunk() {
            Some(block) => marks_in(block),
            None => {
                let mut padded = [0; BLOCK_BYTES];
                padded[..rest.len()].copy_from_slice(rest);
                marks_in(&padded)
            }
        };
    }
}

#[inline]
fn marks_in(block: &[u8; BLOCK_BYTES]) -> u64 {
    let (lanes, _) = block.as_chunks::<LANE_BYTES>();
    let mut found = 0;
    for (index, lane) in lanes.iter().enumerate() {
        found |= marks_in_lane(lane) << (index * LANE_BYTES);
    }
    found
}

#[inline(always)]
fn marks_in_lane(lane: &[u8; LANE_BYTES]) -> u64 {
    let lane = u8x16::new(*lane);
    let marks = lane.simd_eq(u8x16::splat(b'"')) | lane.simd_eq(u8x16::splat(b'\\'));
    u64::from(marks.to_bitmask())
}
