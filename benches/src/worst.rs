//! The `count-worst` cases: exact counts of texts that tokenizers are slow on, because the whole
//! text is one piece to be merged.
//!
//! Without a peer: tiktoken-rs merges such a piece as a whole. Every sample counts a text that
//! was not counted before, since the tokenizer remembers the pieces it has seen.

use foldback_core::TokenCounter;
use foldback_tokens::BpeCounter;

use crate::measure::{Effort, alone, owning_side};
use crate::random::Random;

const BYTES: usize = 2 << 20;

/// What the text is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    OneLetter,
    Spaces,
    RandomLetters,
}

/// Runs the case and returns its line.
pub(crate) fn run(name: &str, made: Made, effort: Effort) -> String {
    let counter = BpeCounter::o200k();
    counter.warm();
    let mut random = Random::seeded(made as u64);
    let mut tokens = 0;
    let mut counting =
        owning_side(|| write(made, &mut random), |text: String| tokens = counter.count(&text).0);
    let measured = alone(effort, &mut counting);
    drop(counting);
    eprintln!("{name}: {BYTES} bytes, {tokens} tokens, {:.1} MB/s", BYTES as f64 * 1e3 / measured.foldback);
    measured.line(name)
}

fn write(made: Made, random: &mut Random) -> String {
    match made {
        // Another letter each time.
        Made::OneLetter => letter(random).to_string().repeat(BYTES),
        Made::Spaces => " ".repeat(BYTES),
        Made::RandomLetters => (0..BYTES).map(|_| letter(random)).collect(),
    }
}

fn letter(random: &mut Random) -> char {
    char::from(b'a' + random.below(26) as u8)
}
