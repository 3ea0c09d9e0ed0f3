//! Ids for records that foldback adds: unlike any in the file, and the same each time (T6).

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::file_end::FileEnd;

/// Draws ids that derive from the content of a file.
#[derive(Debug)]
pub(crate) struct NewIds {
    bytes_hash: [u8; 16],
    drawn: u64,
}

impl NewIds {
    /// Ids for records of a file that begins with these bytes, or is made from them. A long file is
    /// known by its length and its end: whatever is added to it changes both.
    pub(crate) fn for_end(end: &FileEnd<'_>) -> Self {
        let last = end.last();
        let length_before = (end.byte_count() - last.len()) as u64;
        Self { bytes_hash: xxh3_128_with_seed(last, length_before).to_be_bytes(), drawn: 0 }
    }

    /// The same where all of it is in memory.
    pub(crate) fn for_file(bytes: &[u8]) -> Self {
        Self::for_end(&FileEnd::whole(bytes))
    }

    fn draw(&mut self) -> u128 {
        self.drawn += 1;
        xxh3_128_with_seed(&self.bytes_hash, self.drawn)
    }

    /// In the form of a random UUID.
    pub(crate) fn uuid(&mut self) -> String {
        let random = self.draw();
        let (version, variant) = (0x4_u128 << 76, 0x8_u128 << 60);
        let bits = random & !(0xF << 76) & !(0xC << 60) | version | variant;
        let hex = format!("{bits:032x}");
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// So many hexadecimal digits, 32 at most.
    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let mut hex = format!("{:032x}", self.draw());
        hex.truncate(digits);
        hex
    }
}
