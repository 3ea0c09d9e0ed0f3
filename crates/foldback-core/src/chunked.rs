//! A vector that clones in O(1): sealed chunks are shared, only the last one is copied when two
//! owners go different ways. It is what makes a transcript cheap to share while it grows.

use std::sync::Arc;

/// Elements in a chunk. A write to shared storage copies at most this many.
const CHUNK_LEN: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct ChunkedVec<T> {
    /// Every sealed chunk holds exactly `CHUNK_LEN` elements.
    sealed: Arc<Vec<Arc<Vec<T>>>>,
    /// Fewer than `CHUNK_LEN` elements.
    tail: Arc<Vec<T>>,
}

impl<T> Default for ChunkedVec<T> {
    fn default() -> Self {
        Self { sealed: Arc::default(), tail: Arc::default() }
    }
}

impl<T: Clone> ChunkedVec<T> {
    pub(crate) fn len(&self) -> usize {
        self.sealed_len() + self.tail.len()
    }

    /// How many of the first elements stand in storage that clones go on sharing while they grow.
    fn sealed_len(&self) -> usize {
        self.sealed.len() * CHUNK_LEN
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match self.sealed.get(index / CHUNK_LEN) {
            Some(chunk) => chunk.get(index % CHUNK_LEN),
            None => self.tail.get(index.checked_sub(self.sealed_len())?),
        }
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.tail.last().or_else(|| self.sealed.last().and_then(|chunk| chunk.last()))
    }

    pub(crate) fn push(&mut self, element: T) {
        let tail = Arc::make_mut(&mut self.tail);
        if tail.capacity() == 0 {
            tail.reserve_exact(CHUNK_LEN);
        }
        tail.push(element);
        if tail.len() == CHUNK_LEN {
            let full = std::mem::take(&mut self.tail);
            Arc::make_mut(&mut self.sealed).push(full);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.tail.is_empty() {
            self.tail = Arc::make_mut(&mut self.sealed).pop()?;
        }
        Arc::make_mut(&mut self.tail).pop()
    }

    /// Changes one element in place, copying its chunk if it is shared.
    pub(crate) fn update(&mut self, index: usize, change: impl FnOnce(&mut T)) {
        let sealed_len = self.sealed_len();
        let slot = if index < sealed_len {
            let chunk = &mut Arc::make_mut(&mut self.sealed)[index / CHUNK_LEN];
            Arc::make_mut(chunk).get_mut(index % CHUNK_LEN)
        } else {
            Arc::make_mut(&mut self.tail).get_mut(index - sealed_len)
        };
        change(slot.expect("the index was taken from this vector"));
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.sealed.iter().map(|chunk| &**chunk).chain([&*self.tail]).flatten()
    }

    /// The elements of `range`, chunk by chunk.
    pub(crate) fn range(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = &T> {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        let chunks = start / CHUNK_LEN..end.div_ceil(CHUNK_LEN);
        chunks.flat_map(move |chunk_index| {
            let chunk = self.sealed.get(chunk_index).unwrap_or(&self.tail);
            let chunk_start = chunk_index * CHUNK_LEN;
            &chunk[start.saturating_sub(chunk_start)..chunk.len().min(end - chunk_start)]
        })
    }

    /// The number of leading elements for which `is_before` holds, if it holds for a prefix.
    pub(crate) fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        let chunk_count = self.sealed.partition_point(|chunk| chunk.last().is_some_and(&mut is_before));
        match self.sealed.get(chunk_count) {
            Some(chunk) => chunk_count * CHUNK_LEN + chunk.partition_point(is_before),
            None => chunk_count * CHUNK_LEN + self.tail.partition_point(is_before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_behaves_like_a_vec_across_chunk_borders() {
        let mut chunked = ChunkedVec::default();
        let mut plain = Vec::new();
        for step in 0..4 * CHUNK_LEN {
            chunked.push(step);
            plain.push(step);
            if step % 3 == 0 {
                assert_eq!(chunked.pop(), plain.pop());
            }
        }
        assert_eq!(chunked.len(), plain.len());
        assert_eq!(chunked.last(), plain.last());
        assert!(chunked.iter().eq(&plain));
        assert!(chunked.iter().rev().eq(plain.iter().rev()));
        for start in [0, 1, CHUNK_LEN - 1, CHUNK_LEN, 2 * CHUNK_LEN + 7] {
            assert!(chunked.range(start..start + 300).eq(plain[start..].iter().take(300)), "{start}");
            assert_eq!(chunked.partition_point(|&e| e < start), plain.partition_point(|&e| e < start));
        }
        while let Some(element) = chunked.pop() {
            assert_eq!(Some(element), plain.pop());
        }
        assert!(plain.is_empty());
    }

    #[test]
    fn a_clone_keeps_what_it_saw_while_the_original_changes() {
        let mut original = ChunkedVec::default();
        (0..CHUNK_LEN + 10).for_each(|element| original.push(element));
        let clone = original.clone();
        original.update(3, |element| *element = 999);
        original.push(7);
        assert_eq!(clone.get(3), Some(&3));
        assert_eq!(clone.len(), CHUNK_LEN + 10);
        assert_eq!(original.get(3), Some(&999));
        assert_eq!(original.get(CHUNK_LEN + 10), Some(&7));
        assert_eq!(original.get(CHUNK_LEN + 11), None);
    }
}
