//! What the user said, verbatim: the first request, rules, corrections; as much as there is room for.

use std::borrow::Cow;
use std::ops::Range;

use foldhash::{HashSet, HashSetExt};

use super::sources::{Author, Source, Sources};
use crate::ids::Text;
use crate::ledger::{RULES_BYTES_MAX, SENTENCE_BYTES_MAX, is_constraint, own_words};
use crate::reading::clipped;
use crate::tokens::Meter;

/// Messages up to this long were typed; they are kept whole where there is room.
const TYPED_BYTES_MAX: usize = 2_000;

/// Shorter sentences that are no rule say "go on".
const WORDS_MIN: usize = 3;

/// Share of all room that rules may take, and that all words together may take.
const RULES_FRACTION: f64 = 0.4;
const WORDS_FRACTION: f64 = 0.25;

/// More bytes of a sentence are no token of any counter's: what is longer than that does not fit.
const BYTES_PER_TOKEN_MAX: u64 = 16;

/// One sentence of a user.
#[derive(Clone, Debug)]
struct Sentence {
    source: u32,
    span: Range<usize>,
    rank: Rank,
}

/// What is kept first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Chooses what is quoted of the users' words. Of a message that is shortened beside the digest
/// those rules that were cut out of it; `kept` is what can still be seen.
pub(super) fn choose_words(sources: &Sources<'_>, kept: &[Text], tokens_max: u64, meter: &Meter) -> Words {
    let all = all_sentences(sources, kept);
    let rules_max = (tokens_max as f64 * RULES_FRACTION) as u64;
    let words_max = (tokens_max as f64 * WORDS_FRACTION) as u64;
    let mut words = Words::default();
    let mut quoted: HashSet<&str> = HashSet::new();
    let mut choose = |sentence: &Sentence| {
        let limit = if sentence.rank == Rank::Rule { rules_max } else { words_max };
        // Of a long past most sentences are far too long for what is left: they are not even counted.
        let tokens_least = 1 + sentence.span.len() as u64 / BYTES_PER_TOKEN_MAX;
        if words.tokens + tokens_least > limit {
            return;
        }
        let text = &sources.texts[sentence.source as usize].text[sentence.span.clone()];
        let tokens = meter.text(text) + 1;
        if words.tokens + tokens <= limit && quoted.insert(text) {
            words.tokens += tokens;
            words.spans.push((sentence.source, sentence.span.clone()));
        }
    };
    // Newer before older among equals; the first request from its beginning.
    for rank in [Rank::Rule, Rank::Task, Rank::Typed, Rank::Pasted] {
        let equals = all.iter().filter(|sentence| sentence.rank == rank);
        match rank {
            Rank::Task => equals.for_each(&mut choose),
            Rank::Rule | Rank::Typed | Rank::Pasted => equals.rev().for_each(&mut choose),
        }
    }
    words.spans.sort_by_key(|(source, span)| (*source, span.start));
    words
}

/// What users said, in order.
fn all_sentences(sources: &Sources<'_>, kept: &[Text]) -> Vec<Sentence> {
    let mut all = Vec::new();
    let users = (0_u32..).zip(&sources.texts).filter(|(_, source)| source.author == Author::User);
    for (number, (source_index, source)) in users.enumerate() {
        let said = said_in(source);
        for one in &said.sentences {
            let span = one.span.start as usize..one.span.end as usize;
            let is_seen = || kept.iter().any(|text| text.contains(&source.text[span.clone()]));
            if source.is_beside && (!one.is_rule || is_seen()) {
                continue;
            }
            let rank = match number {
                _ if one.is_rule && said.own_bytes <= RULES_BYTES_MAX => Rank::Rule,
                0 => Rank::Task,
                _ if said.own_bytes <= TYPED_BYTES_MAX => Rank::Typed,
                _ => Rank::Pasted,
            };
            all.push(Sentence { source: source_index, span, rank });
        }
    }
    all
}

/// What a user said in a text; nothing where it is somebody else's.
pub(super) fn said_in<'r>(source: &'r Source<'_>) -> Cow<'r, Said> {
    let said = || Said::of(&source.text);
    match source.known {
        _ if source.author != Author::User => Cow::Owned(Said::default()),
        Some(known) => Cow::Borrowed(known.said(said)),
        None => Cow::Owned(said()),
    }
}

/// What a user said in one text.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// Bytes of prose.
    own_bytes: usize,
    sentences: Vec<SaidSentence>,
}

/// A sentence that may be quoted.
#[derive(Clone, Debug)]
struct SaidSentence {
    span: Range<u32>,
    is_rule: bool,
}

impl Said {
    pub(super) fn of(text: &str) -> Self {
        let own = own_words(text);
        let own_bytes = own.iter().map(ExactSizeIterator::len).sum();
        let mut sentences = Vec::new();
        for span in own {
            let sentence = clipped(&text[span.clone()], SENTENCE_BYTES_MAX);
            let is_rule = is_constraint(sentence);
            let is_short = sentence.is_ascii() && sentence.split_whitespace().nth(WORDS_MIN - 1).is_none();
            if is_rule || !is_short {
                let span = span.start as u32..(span.start + sentence.len()) as u32;
                sentences.push(SaidSentence { span, is_rule });
            }
        }
        Self { own_bytes, sentences }
    }
}
