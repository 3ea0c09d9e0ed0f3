//! Counts with the vocabulary a model really uses.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldback_core::Tokens;
use foldback_core::tokens::{Precision, TokenCounter};
use splintr::{Backend, PretrainedVocab, Tokenizer, from_vocab};

use crate::parallel;
use crate::segment::{long_run_bytes, segments};
use foldback_core::Encoding;

/// The tokenizer remembers how it merged the pieces it has seen: a fixed number of them, but of any
/// length. It is made to forget them after this many bytes in long ones, which bounds what hostile
/// text can make it hold to a few times as much; ordinary text has no such pieces.
const REMEMBERED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Every piece of it has to be merged, so counting it builds the tables that merging needs.
const WARMING_TEXT: &str = "zqxjkvbwpy qzjxvkwbyp";

/// Counts exactly as `tiktoken` does for one [`Encoding`], without network.
///
/// A value is a name for a vocabulary that all counters of the process share: copy it freely. The
/// vocabulary is loaded at the first count, or by [`warm`](Self::warm).
///
/// Control tokens have no meaning here: `<|endoftext|>` is the text it looks like, as it is when
/// it stands in a message. Counts are exact unless a text holds a run of more than
/// [`SEGMENT_BYTES_MAX`](crate::SEGMENT_BYTES_MAX) bytes that no tokenizer would end a piece in,
/// such as that many equal letters; there, each `SEGMENT_BYTES_MAX` of it can be a token or two off.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BpeCounter {
    encoding: Encoding,
}

impl BpeCounter {
    /// The counter for `encoding`.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding }
    }

    /// The counter for `o200k_base`.
    pub fn o200k() -> Self {
        Self::new(Encoding::O200k)
    }

    /// The counter for `cl100k_base`.
    pub fn cl100k() -> Self {
        Self::new(Encoding::Cl100k)
    }

    /// The encoding it counts in.
    pub fn encoding(self) -> Encoding {
        self.encoding
    }

    /// Loads the vocabulary and builds its tables now, once per process, so that the first count
    /// does not pay for it.
    pub fn warm(self) {
        self.count(WARMING_TEXT);
    }
}

impl TokenCounter for BpeCounter {
    fn name(&self) -> &str {
        self.encoding.name()
    }

    fn count(&self, text: &str) -> Tokens {
        let vocabulary = Vocabulary::of(self.encoding);
        segments(text).map(|segment| vocabulary.count(segment)).sum()
    }

    fn precision(&self) -> Precision {
        Precision::Exact
    }

    /// Counts on several threads where there is enough to count; the answer is the same.
    fn count_all(&self, texts: &[&str]) -> Vec<Tokens> {
        let vocabulary = Vocabulary::of(self.encoding);
        parallel::count_all(texts, |segment| vocabulary.count(segment))
    }
}

impl fmt::Debug for BpeCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BpeCounter({})", self.encoding)
    }
}

/// A loaded vocabulary; there is at most one of each in a process.
struct Vocabulary {
    tokenizer: Tokenizer,
    /// In long pieces, since it last forgot them.
    remembered_bytes: AtomicUsize,
}

impl Vocabulary {
    fn of(encoding: Encoding) -> &'static Self {
        static O200K: OnceLock<Vocabulary> = OnceLock::new();
        static CL100K: OnceLock<Vocabulary> = OnceLock::new();
        match encoding {
            Encoding::O200k => O200K.get_or_init(|| Self::load(PretrainedVocab::O200kBase)),
            Encoding::Cl100k => CL100K.get_or_init(|| Self::load(PretrainedVocab::Cl100kBase)),
        }
    }

    fn load(vocabulary: PretrainedVocab) -> Self {
        let tokenizer = from_vocab(vocabulary).expect("a vocabulary that is compiled in can be read");
        let Backend::Bpe(tokenizer) = tokenizer.into_backend() else {
            unreachable!("both vocabularies are byte-pair encodings");
        };
        Self { tokenizer, remembered_bytes: AtomicUsize::new(0) }
    }

    fn count(&self, segment: &str) -> Tokens {
        let bytes = long_run_bytes(segment);
        // Two threads may both see the sum pass the cap, or one may count on while the other
        // forgets: either way only work is repeated, never a count changed.
        if bytes > 0 && self.remembered_bytes.fetch_add(bytes, Ordering::Relaxed) > REMEMBERED_BYTES_MAX {
            self.remembered_bytes.store(0, Ordering::Relaxed);
            self.tokenizer.clear_cache();
        }
        Tokens(self.tokenizer.encode_ordinary(segment).len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use foldback_testkit::effort;

    use super::*;
    use crate::corpus::{Corpus, peers};
    use crate::segment::SEGMENT_BYTES_MAX;

    /// Messages that are counted for each case of a cheap property.
    const MESSAGES_PER_CASE: u32 = 8;

    /// What a cut through a run without a boundary may change.
    const TOKENS_PER_FORCED_CUT_MAX: usize = 2;

    #[test]
    fn an_o200k_count_is_what_another_implementation_counts() {
        agrees_on_generated_messages(Encoding::O200k);
    }

    #[test]
    fn a_cl100k_count_is_what_another_implementation_counts() {
        agrees_on_generated_messages(Encoding::Cl100k);
    }

    fn agrees_on_generated_messages(encoding: Encoding) {
        let counter = BpeCounter::new(encoding);
        let peer = peer(encoding);
        effort::tell();
        let message_count = (effort::cases(1) * MESSAGES_PER_CASE) as usize;
        for (index, text) in Corpus::new(effort::seed()).chunks(message_count).enumerate() {
            let expected = peer.count(text.as_str());
            assert_eq!(counter.count(&text), Tokens(expected as u64), "{encoding}, chunk {index}: {text:?}");
        }
    }

    /// On sessions that agents recorded.
    mod recorded {
        use foldback_testkit::needs;

        use super::*;
        use crate::corpus::texts_of;

        #[test]
        #[ignore = "needs recorded sessions"]
        fn counts_are_what_another_implementation_counts() {
            for path in needs::session_files(&needs::sessions()) {
                let texts = texts_of(&path);
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                for (encoding, peer) in peers() {
                    let counts = BpeCounter::new(encoding).count_all(&texts);
                    for (text, count) in texts.iter().zip(counts) {
                        let expected = Tokens(peer.count(*text) as u64);
                        assert_eq!(count, expected, "{encoding}, {}: {text:?}", path.display());
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_text_counts_what_another_implementation_counts() {
        let text: String = Corpus::new(0x10ac).chunks(2_000).map(|chunk| chunk + "\nnext ").collect();
        assert!(text.len() > 20 * SEGMENT_BYTES_MAX);
        for (encoding, peer) in peers() {
            let counter = BpeCounter::new(encoding);
            let expected = Tokens(peer.count(text.as_str()) as u64);
            assert_eq!(counter.count(&text), expected);
            assert_eq!(counter.count_all(&[&text]), [expected]);
        }
    }

    #[test]
    fn control_tokens_are_ordinary_text() {
        for text in ["<|endoftext|>", "<|im_start|>user<|im_end|>", "<|fim_prefix|>"] {
            for (encoding, peer) in peers() {
                let count = BpeCounter::new(encoding).count(text);
                assert!(count.0 > 1, "{text} was read as a control token");
                assert_eq!(count, Tokens(peer.count(text) as u64));
            }
        }
    }

    #[test]
    fn runs_without_a_boundary_are_counted_within_two_tokens_of_each_cut() {
        const BYTES: usize = 400_000;
        let mut corpus = Corpus::new(0xbad);
        let letters: Vec<char> = ('a'..='z').collect();
        let cases: Vec<(&str, String)> = vec![
            ("one letter", "a".repeat(BYTES)),
            ("one letter, off the cap", "b".to_owned() + &"a".repeat(BYTES)),
            ("three letters", "xyz".repeat(BYTES / 3)),
            ("one capital", "A".repeat(BYTES)),
            ("spaces", " ".repeat(BYTES)),
            ("spaces before a word", " ".repeat(BYTES) + "x"),
            ("tabs", "\t".repeat(BYTES)),
            ("newlines", "\n".repeat(BYTES)),
            ("line ends", "\r\n".repeat(BYTES / 2)),
            ("random letters", corpus.draw_from(&letters, BYTES)),
            ("one emoji", "🙂".repeat(BYTES / 4)),
            ("one joined emoji", "👩‍💻".repeat(BYTES / 11)),
            ("one CJK character", "字".repeat(BYTES / 3)),
            (
                "mixed white space",
                corpus.draw_from(&[' ', '\t', '\n', '\r', '\u{a0}', '\u{3000}'], BYTES / 2),
            ),
            ("punctuation", "=-".repeat(BYTES / 2)),
            ("digits", "1234567890".repeat(BYTES / 10)),
            ("marks", "e\u{301}".repeat(BYTES / 3)),
            ("zero bytes", "\0".repeat(BYTES)),
        ];
        for (name, text) in &cases {
            for (encoding, peer) in peers() {
                let count = BpeCounter::new(encoding).count(text).0 as usize;
                let expected = peer.count(text.as_str());
                let allowed = TOKENS_PER_FORCED_CUT_MAX * (text.len() / SEGMENT_BYTES_MAX);
                let error = count.abs_diff(expected);
                assert!(error <= allowed, "{encoding}, {name}: {count} for {expected}");
            }
        }
    }

    #[test]
    fn long_pieces_are_forgotten_in_time_and_change_no_count() {
        let vocabulary = Vocabulary::load(PretrainedVocab::O200kBase);
        let mut corpus = Corpus::new(0x4e4);
        let letters: Vec<char> = ('a'..='z').collect();
        let first = corpus.draw_from(&letters, SEGMENT_BYTES_MAX);
        let expected = vocabulary.count(&first);
        let segment_count = 2 * REMEMBERED_BYTES_MAX / SEGMENT_BYTES_MAX;
        let mut most = 0;
        for _ in 0..segment_count {
            vocabulary.count(&" ".repeat(SEGMENT_BYTES_MAX));
            most = most.max(vocabulary.remembered_bytes.load(Ordering::Relaxed));
        }
        assert!(most >= REMEMBERED_BYTES_MAX, "the cap was not reached");
        assert!(most <= REMEMBERED_BYTES_MAX + 2 * SEGMENT_BYTES_MAX, "{most} bytes were remembered");
        assert_eq!(vocabulary.count(&first), expected);
    }

    #[test]
    fn no_text_is_no_tokens() {
        assert_eq!(BpeCounter::o200k().count(""), Tokens::ZERO);
        assert_eq!(BpeCounter::cl100k().count_all(&[]), []);
        assert_eq!(BpeCounter::cl100k().count_all(&["", ""]), [Tokens::ZERO; 2]);
    }

    fn peer(encoding: Encoding) -> &'static bpe_openai::Tokenizer {
        let found = peers().into_iter().find(|(other, _)| *other == encoding);
        found.expect("every encoding has a peer").1
    }
}
