//! Which tools were called where, by number: to name thousands of calls, a summary would otherwise
//! follow three pointers for each.

use rpds::HashTrieMapSync;

use super::FixedHasher;
use crate::chunked::ChunkedVec;
use crate::ids::Text;

#[derive(Clone, Debug)]
pub(super) struct Tools {
    /// The name of each tool, by its number.
    names: ChunkedVec<Text>,
    numbers: HashTrieMapSync<Text, u32, FixedHasher>,
    /// Every call in order: the item that makes it, the number of its tool.
    calls: ChunkedVec<(u32, u32)>,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            names: ChunkedVec::default(),
            numbers: HashTrieMapSync::new_with_hasher_and_ptr_kind(FixedHasher::default()),
            calls: ChunkedVec::default(),
        }
    }
}

impl Tools {
    /// Notes a call of the tool `name`.
    pub(super) fn push(&mut self, item_index: u32, name: &Text) {
        let number = self.numbers.get(name).copied().unwrap_or_else(|| {
            let number = u32::try_from(self.names.len()).expect("tools are at most as many as calls");
            self.names.push(name.clone());
            self.numbers.insert_mut(name.clone(), number);
            number
        });
        self.calls.push((item_index, number));
    }

    /// The names in order of their numbers.
    pub(super) fn names(&self) -> impl Iterator<Item = &Text> {
        self.names.iter()
    }

    /// Every call in order: the item that makes it, the number of its tool.
    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, usize)> {
        self.calls.iter().map(|&(item_index, number)| (item_index as usize, number as usize))
    }
}
