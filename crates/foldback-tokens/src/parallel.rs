//! Counts many texts on several threads.
//!
//! All texts are cut into the segments that counting one by one would cut them into, so the counts
//! cannot depend on how many threads there are. Threads then take batches of neighbouring segments
//! until none is left: a long text is shared between them, and short ones are not handed out one
//! by one.

use std::ops::Range;

use foldback_core::Tokens;

use crate::segment::segments;

/// Fewer bytes than this are counted on the calling thread: they take about a millisecond, and
/// starting a thread costs a good part of that.
pub const PARALLEL_BYTES_MIN: usize = 128 * 1024;

/// At most this many threads count together; more would mostly wait for the same memory.
pub const THREADS_MAX: usize = 16;

/// What a thread takes at a time: small enough that all finish together, large enough that taking
/// costs nothing.
const BATCH_BYTES_MIN: usize = 16 * 1024;

/// A part of one of the texts.
struct Segment<'a> {
    text_index: usize,
    text: &'a str,
}

/// The tokens of each text, in order, where `count` counts one segment.
pub(crate) fn count_all<F>(texts: &[&str], count: F) -> Vec<Tokens>
where
    F: Fn(&str) -> Tokens + Sync,
{
    let bytes = texts.iter().map(|text| text.len()).sum::<usize>();
    if bytes < PARALLEL_BYTES_MIN {
        return texts.iter().map(|text| segments(text).map(&count).sum()).collect();
    }
    count_on_threads(foldback_threads::threads(THREADS_MAX), texts, &count)
}

fn count_on_threads<F>(threads: usize, texts: &[&str], count: &F) -> Vec<Tokens>
where
    F: Fn(&str) -> Tokens + Sync,
{
    let segments: Vec<Segment<'_>> = texts
        .iter()
        .enumerate()
        .flat_map(|(text_index, text)| segments(text).map(move |text| Segment { text_index, text }))
        .collect();
    let counted = foldback_threads::map(threads, batches(&segments), |batch| {
        let counts = segments[batch].iter().map(|segment| (segment.text_index, count(segment.text)));
        counts.collect::<Vec<_>>()
    });
    let mut totals = vec![Tokens::ZERO; texts.len()];
    for (text_index, tokens) in counted.into_iter().flatten() {
        totals[text_index] += tokens;
    }
    totals
}

/// Neighbouring segments, put together until they are worth taking.
fn batches(segments: &[Segment<'_>]) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, segment) in segments.iter().enumerate() {
        bytes += segment.text.len();
        if bytes >= BATCH_BYTES_MIN || index + 1 == segments.len() {
            batches.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::corpus::Corpus;

    /// Counts words by their length, so that a byte lost or counted twice shows.
    fn words(text: &str) -> Tokens {
        Tokens(text.split_whitespace().map(|word| word.len() as u64 + 7).sum())
    }

    fn alone(texts: &[&str]) -> Vec<Tokens> {
        texts.iter().map(|text| segments(text).map(words).sum()).collect()
    }

    #[test]
    fn counts_do_not_depend_on_the_number_of_threads() {
        let mut owned: Vec<String> = Corpus::new(21).chunks(700).collect();
        owned.insert(3, owned.concat());
        owned.insert(5, String::new());
        let texts: Vec<&str> = owned.iter().map(String::as_str).collect();
        let expected = alone(&texts);
        for threads in [1, 2, 3, 8] {
            assert_eq!(count_on_threads(threads, &texts, &words), expected, "{threads} threads");
        }
        assert_eq!(count_all(&texts, words), expected);
    }

    #[test]
    fn a_small_batch_stays_on_the_calling_thread() {
        let caller = thread::current().id();
        let count = |text: &str| {
            assert_eq!(thread::current().id(), caller);
            words(text)
        };
        let half = "word ".repeat(PARALLEL_BYTES_MIN / 10 - 1);
        assert_eq!(count_all(&[&half, &half], count), alone(&[&half, &half]));
    }

    #[test]
    fn batches_hold_every_segment_once_and_enough_bytes() {
        let owned: Vec<String> = Corpus::new(22).chunks(300).collect();
        let segments: Vec<Segment<'_>> =
            owned.iter().enumerate().map(|(text_index, text)| Segment { text_index, text }).collect();
        let batches = batches(&segments);
        assert!(batches.len() > 2);
        assert_eq!(
            batches.iter().cloned().flatten().collect::<Vec<_>>(),
            (0..segments.len()).collect::<Vec<_>>()
        );
        for batch in &batches[..batches.len() - 1] {
            let bytes = segments[batch.clone()].iter().map(|segment| segment.text.len()).sum::<usize>();
            assert!(bytes >= BATCH_BYTES_MIN);
        }
    }

    #[test]
    fn no_texts_have_no_counts() {
        assert_eq!(count_on_threads(4, &[], &words), []);
    }
}
