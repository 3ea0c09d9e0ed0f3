//! Bodies: what is stored of an item, under the name that its content gives it; and packs, in which
//! bodies that were stored together are compressed together.

use std::cell::RefCell;

use foldback_core::{CompactionBlock, Item, Splice};
use foldback_engine::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zstd::bulk::Compressor;

/// A pack is closed once it holds this many bytes: large enough to compress well, small enough to be
/// read for one item.
pub(crate) const PACK_BYTES: usize = 64 * 1024;

/// Bytes of one piece of an original file.
pub(crate) const ORIGINAL_BYTES: usize = 256 * 1024;

/// The largest thing that is stored in one piece; databases refuse values of a gigabyte.
pub(crate) const BODY_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Shorter ones do not get smaller.
const COMPRESSED_BYTES_MIN: usize = 128;

/// Fast enough not to be seen beside a durable write; higher levels gain a few percent.
const LEVEL: i32 = 3;

/// What precedes bytes that are stored as they are, and compressed ones with their length.
const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

/// Bytes of the length that precedes compressed bytes.
const LENGTH_BYTES: usize = 4;

/// What a body is part of. The same bytes may be both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// An item in its native form.
    Item = 0,
    /// A piece of the file that a loop was read from.
    Original = 1,
}

/// The name of a body.
pub(crate) type BodyHash = [u8; 32];

/// The name that content gives itself.
pub(crate) fn hash(bytes: &[u8]) -> BodyHash {
    *blake3::hash(bytes).as_bytes()
}

/// The first bytes of a name, for an index.
pub(crate) fn prefix(hash: &BodyHash) -> i64 {
    let (first, _) = hash.split_first_chunk().expect("a hash is longer than eight bytes");
    i64::from_le_bytes(*first)
}

/// Adds what is stored of an item.
pub(crate) fn write_item(target: &mut Vec<u8>, item: &Item) -> Result<(), StoreError> {
    let before = target.len();
    serde_json::to_writer(&mut *target, item).expect("an item has only string keys and finite numbers");
    check_length(target.len() - before)
}

/// The item in a body that is what its name says.
pub(crate) fn decode_item(bytes: &[u8], name: &[u8]) -> Result<Item, StoreError> {
    check(bytes, name)?;
    parse_item(bytes)
}

/// The item in bytes that were checked.
pub(crate) fn parse_item(bytes: &[u8]) -> Result<Item, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| corrupt(format!("an item cannot be read ({error})")))
}

/// Refuses bytes that are not what their name says.
pub(crate) fn check(bytes: &[u8], name: &[u8]) -> Result<(), StoreError> {
    if hash(bytes) == name { Ok(()) } else { Err(corrupt(format!("body {} has changed", hex(name)))) }
}

/// A block as it is stored.
pub(crate) fn encode_block(block: &CompactionBlock) -> Result<Vec<u8>, StoreError> {
    encode(block)
}

/// A block that was stored.
pub(crate) fn decode_block(data: &[u8]) -> Result<CompactionBlock, StoreError> {
    decode(data, "a block")
}

/// A splice as it is stored.
pub(crate) fn encode_splice(splice: &Splice) -> Result<Vec<u8>, StoreError> {
    encode(splice)
}

/// A splice that was stored.
pub(crate) fn decode_splice(data: &[u8]) -> Result<Splice, StoreError> {
    decode(data, "a splice")
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let json = serde_json::to_vec(value).map_err(|error| failed("encoding", &error))?;
    check_length(json.len())?;
    seal(&json)
}

fn decode<T: DeserializeOwned>(data: &[u8], what: &str) -> Result<T, StoreError> {
    serde_json::from_slice(&unseal(data)?)
        .map_err(|error| corrupt(format!("{what} cannot be read ({error})")))
}

fn check_length(length: usize) -> Result<(), StoreError> {
    if length <= BODY_BYTES_MAX {
        return Ok(());
    }
    let why = format!("{length} bytes in one piece, at most {BODY_BYTES_MAX} are stored");
    Err(StoreError::Failed { operation: "storing", why })
}

/// Bytes as they are stored: compressed where that pays.
pub(crate) fn seal(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    if bytes.len() >= COMPRESSED_BYTES_MIN {
        let compressed = compress(bytes).map_err(|error| failed("compressing", &error))?;
        if compressed.len() + LENGTH_BYTES < bytes.len() {
            let length = u32::try_from(bytes.len()).map_err(|error| failed("compressing", &error))?;
            let mut sealed = Vec::with_capacity(1 + LENGTH_BYTES + compressed.len());
            sealed.push(ZSTD);
            sealed.extend_from_slice(&length.to_le_bytes());
            sealed.extend_from_slice(&compressed);
            return Ok(sealed);
        }
    }
    let mut sealed = Vec::with_capacity(1 + bytes.len());
    sealed.push(PLAIN);
    sealed.extend_from_slice(bytes);
    Ok(sealed)
}

thread_local! {
    /// Kept between packs: making one costs as much as compressing one.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

fn compress(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(LEVEL)?),
        };
        compressor.compress(bytes)
    })
}

/// What was sealed.
pub(crate) fn unseal(sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
    match sealed.split_first() {
        Some((&PLAIN, bytes)) => Ok(bytes.to_vec()),
        Some((&ZSTD, rest)) => {
            let (length, compressed) =
                rest.split_first_chunk().ok_or_else(|| corrupt("a pack is cut off".to_owned()))?;
            let length = u32::from_le_bytes(*length) as usize;
            if length > BODY_BYTES_MAX + PACK_BYTES {
                return Err(corrupt("a pack has an impossible length".to_owned()));
            }
            let bytes = zstd::bulk::decompress(compressed, length)
                .map_err(|error| corrupt(format!("a pack cannot be read ({error})")))?;
            if bytes.len() == length { Ok(bytes) } else { Err(corrupt("a pack is cut off".to_owned())) }
        }
        Some(_) | None => Err(corrupt("a pack has no form that is known".to_owned())),
    }
}

/// The bytes of one body in its pack.
pub(crate) fn slice(pack: &[u8], start: i64, length: i64) -> Result<&[u8], StoreError> {
    let range = usize::try_from(start).ok().zip(usize::try_from(length).ok());
    range
        .and_then(|(start, length)| pack.get(start..start.checked_add(length)?))
        .ok_or_else(|| corrupt("a body lies outside its pack".to_owned()))
}

/// A body on its way into a pack.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) id: i64,
    pub(crate) hash: BodyHash,
    pub(crate) start: i64,
    pub(crate) length: i64,
}

/// A pack as it is stored, and the bodies in it.
#[derive(Debug)]
pub(crate) struct ClosedPack {
    pub(crate) data: Vec<u8>,
    pub(crate) bodies: Vec<Packed>,
}

/// Bodies that will be one pack.
#[derive(Debug, Default)]
pub(crate) struct OpenPack {
    bytes: Vec<u8>,
    bodies: Vec<Packed>,
}

impl OpenPack {
    /// Takes a body in.
    pub(crate) fn push(&mut self, id: i64, hash: BodyHash, bytes: &[u8]) {
        let (start, length) = (self.bytes.len() as i64, bytes.len() as i64);
        self.bodies.push(Packed { id, hash, start, length });
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether it is time to close it.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= PACK_BYTES
    }

    /// The pack; nothing where it is empty.
    pub(crate) fn close(&mut self) -> Result<Option<ClosedPack>, StoreError> {
        if self.bodies.is_empty() {
            return Ok(None);
        }
        let data = seal(&self.bytes)?;
        self.bytes.clear();
        Ok(Some(ClosedPack { data, bodies: std::mem::take(&mut self.bodies) }))
    }
}

/// The error for what cannot be as it is.
pub(crate) fn corrupt(what: String) -> StoreError {
    StoreError::Corrupt { what }
}

/// The error for what should not go wrong.
pub(crate) fn failed(operation: &'static str, error: &dyn std::error::Error) -> StoreError {
    StoreError::Failed { operation, why: error.to_string() }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #![proptest_config(foldback_testkit::config())]

        #[test]
        fn what_was_sealed_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..400), times in 1usize..40) {
            let bytes = bytes.repeat(times);
            prop_assert_eq!(unseal(&seal(&bytes).unwrap()).unwrap(), bytes);
        }

        #[test]
        fn damaged_bytes_are_an_error_and_never_a_panic(
            mut sealed in prop::collection::vec(any::<u8>(), 0..200),
            form in 0u8..3,
        ) {
            if let Some(first) = sealed.first_mut() {
                *first = form;
            }
            if let Err(error) = unseal(&sealed) {
                prop_assert_eq!(matches!(error, StoreError::Corrupt { .. }), true);
            }
        }
    }

    fn encode_item(item: &Item) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        write_item(&mut bytes, item).map(|()| bytes)
    }

    #[test]
    fn a_body_that_changed_is_not_given_out() {
        let bytes = encode_item(&Item::user("u", "hello")).unwrap();
        let name = hash(&bytes);
        assert!(decode_item(&bytes, &name).is_ok());
        let changed = encode_item(&Item::user("u", "hellO")).unwrap();
        assert!(matches!(decode_item(&changed, &name), Err(StoreError::Corrupt { .. })));
    }
}
