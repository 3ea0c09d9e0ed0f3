//! What both databases share of tails: items as they were appended, one row or a few for each append, until
//! they are settled.
//!
//! An append is waited for, so it writes as little as can be: the items, once. Settling gives them their
//! names, compresses them together and lists them one by one; whoever needs that (the index, gc) does it
//! first, and a long tail is settled in the background.

use std::sync::Arc;

use foldback_core::{Item, ItemId};
use foldback_engine::StoreError;
use serde::Deserialize;

use crate::body::{self, BODY_BYTES_MAX, BodyHash, PACK_BYTES, corrupt};
use crate::rows::index;

/// Bytes at which a tail is settled in the background.
pub(crate) const TAIL_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes at which an append settles some of it first: what is appended faster than it is settled must
/// not grow for ever.
pub(crate) const TAIL_BYTES_MAX: u64 = 4 * TAIL_BYTES;

/// Items and bytes that are settled in one change, so that nobody waits long for it.
pub(crate) const SETTLED_ITEMS: usize = 200;
pub(crate) const SETTLED_BYTES: usize = 256 * 1024;

/// Bytes of the length that precedes each item.
const LENGTH_BYTES: usize = 4;

/// Some items on their way into a row.
#[derive(Debug)]
pub(crate) struct Piece {
    /// How many items of the append come before it.
    pub(crate) start: i64,
    pub(crate) count: i64,
    pub(crate) hash: BodyHash,
    pub(crate) data: Vec<u8>,
}

/// Cuts items into rows.
pub(crate) fn pieces(items: &[Arc<Item>]) -> Result<Vec<Piece>, StoreError> {
    let mut pieces = Vec::new();
    let (mut start, mut count) = (0, 0);
    let mut data = Vec::new();
    for (number, item) in items.iter().enumerate() {
        push(&mut data, item)?;
        count += 1;
        if data.len() >= PACK_BYTES || number + 1 == items.len() {
            let data = std::mem::take(&mut data);
            pieces.push(Piece { start, count, hash: body::hash(&data), data });
            start += count;
            count = 0;
        }
    }
    Ok(pieces)
}

/// Adds the length of an item and what is stored of it.
fn push(data: &mut Vec<u8>, item: &Item) -> Result<(), StoreError> {
    let before = data.len();
    data.extend_from_slice(&[0; LENGTH_BYTES]);
    body::write_item(data, item)?;
    let length = data.len() - before - LENGTH_BYTES;
    let length = u32::try_from(length).map_err(|error| body::failed("storing", &error))?;
    data[before..before + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// What is stored of each item of a row.
pub(crate) fn bodies(data: &[u8], count: i64) -> Result<Vec<&[u8]>, StoreError> {
    let cut_off = || corrupt("items that were appended are cut off".to_owned());
    let mut bodies = Vec::new();
    let mut rest = data;
    while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
        let length = u32::from_le_bytes(*length) as usize;
        let (body, behind) = behind.split_at_checked(length.min(BODY_BYTES_MAX)).ok_or_else(cut_off)?;
        bodies.push(body);
        rest = behind;
    }
    if rest.is_empty() && bodies.len() == index(count) { Ok(bodies) } else { Err(cut_off()) }
}

/// The id of an item, without the rest of it.
pub(crate) fn id_in(body: &[u8]) -> Result<ItemId, StoreError> {
    #[derive(Deserialize)]
    struct Named {
        id: ItemId,
    }
    let named: Named =
        serde_json::from_slice(body).map_err(|error| corrupt(format!("an item cannot be read ({error})")))?;
    Ok(named.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_rows_are_an_error_and_never_a_panic() {
        let mut data = Vec::new();
        push(&mut data, &Item::user("u", "hello")).unwrap();
        assert_eq!(bodies(&data, 1).unwrap().len(), 1);
        assert!(bodies(&data, 2).is_err());
        for end in 1..data.len() {
            assert!(bodies(&data[..end], 1).is_err(), "{end}");
        }
    }

    #[test]
    fn pieces_hold_every_item_once_and_in_order() {
        let items: Vec<Arc<Item>> =
            (0..50).map(|n| Arc::new(Item::user(format!("u{n}"), "x".repeat(n * 300)))).collect();
        let pieces = pieces(&items).unwrap();
        assert!(pieces.len() > 2, "{}", pieces.len());
        let mut position = 0;
        for piece in &pieces {
            assert_eq!(piece.start, position);
            for body in bodies(&piece.data, piece.count).unwrap() {
                assert_eq!(id_in(body).unwrap(), items[index(position)].id);
                position += 1;
            }
        }
        assert_eq!(index(position), items.len());
    }
}
