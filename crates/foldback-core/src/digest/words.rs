//! What the user said, verbatim: the first request, rules, corrections; as much as there is room for.

use std::collections::HashSet;
use std::ops::Range;

use super::sources::{Author, Sources};
use crate::ledger::{RULES_BYTES_MAX, SENTENCE_BYTES_MAX, is_constraint, own_words};
use crate::reading::clipped;
use crate::transcript::Meter;

/// Messages up to this long were typed; they are kept whole where there is room.
const TYPED_BYTES_MAX: usize = 2_000;

/// Shorter sentences that are no rule say "go on".
const WORDS_MIN: usize = 3;

/// Share of all room that rules may take, and that all words together may take.
const RULES_SHARE: f64 = 0.4;
const WORDS_SHARE: f64 = 0.25;

/// One sentence of a user.
#[derive(Clone, Debug)]
struct Sentence {
    source: u32,
    span: Range<usize>,
    tokens: u64,
    rank: Rank,
}

/// What is kept first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Rule,
    /// Of the first request.
    Task,
    Typed,
    /// Of a message that is mostly something pasted.
    Pasted,
}

/// Chosen sentences of users, as spans of their sources, in order.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) spans: Vec<(u32, Range<usize>)>,
    pub(super) tokens: u64,
}

/// Chooses what is quoted of the users' words.
pub(super) fn choose_words(sources: &Sources<'_>, tokens_max: u64, meter: &Meter) -> Words {
    let mut all = all_sentences(sources, meter);
    // Newer before older among equals; the first request from its beginning.
    all.sort_by_key(|sentence| {
        let at = i64::from(sentence.source) << 32 | sentence.span.start as i64;
        (sentence.rank, if sentence.rank == Rank::Task { at } else { -at })
    });
    let rules_max = (tokens_max as f64 * RULES_SHARE) as u64;
    let words_max = (tokens_max as f64 * WORDS_SHARE) as u64;
    let mut words = Words::default();
    for sentence in all {
        let limit = if sentence.rank == Rank::Rule { rules_max } else { words_max };
        if words.tokens + sentence.tokens <= limit {
            words.tokens += sentence.tokens;
            words.spans.push((sentence.source, sentence.span));
        }
    }
    words.spans.sort_by_key(|(source, span)| (*source, span.start));
    words
}

fn all_sentences(sources: &Sources<'_>, meter: &Meter) -> Vec<Sentence> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    let users = (0_u32..).zip(&sources.texts).filter(|(_, source)| source.author == Author::User);
    for (number, (source_index, source)) in users.enumerate() {
        let text = &*source.text;
        let own = own_words(text);
        let own_bytes: usize = own.iter().map(ExactSizeIterator::len).sum();
        for span in own {
            let end = span.start + clipped(&text[span.clone()], SENTENCE_BYTES_MAX).len();
            let span = span.start..end;
            let sentence = &text[span.clone()];
            let is_rule = is_constraint(sentence);
            let is_short = sentence.is_ascii() && sentence.split_whitespace().nth(WORDS_MIN - 1).is_none();
            if (is_short && !is_rule) || !seen.insert(sentence) {
                continue;
            }
            let rank = match sentence {
                _ if is_rule && own_bytes <= RULES_BYTES_MAX => Rank::Rule,
                _ if number == 0 => Rank::Task,
                _ if own_bytes <= TYPED_BYTES_MAX => Rank::Typed,
                _ => Rank::Pasted,
            };
            all.push(Sentence { source: source_index, span, tokens: meter.text(sentence) + 1, rank });
        }
    }
    all
}
