//! The `count-mixed` cases: exact o200k token counts of message-sized texts.
//!
//! How tiktoken-rs is driven: `count_ordinary` on its shared o200k instance, loaded beforehand.
//! It has no call that counts in parallel, so with two cores its user writes the threads: one for
//! each half of the texts, each with an o200k instance of its own. Two threads on the shared
//! instance, the obvious way, hardly gain anything (the copies of its regular expression that it
//! keeps for threads share one compiled program and its scratch space); that time is on stderr.

use std::sync::LazyLock;

use foldback_core::TokenCounter;
use foldback_tokens::BpeCounter;
use tiktoken_rs::CoreBPE;

use crate::measure::{Effort, Nanos, Side, compare, show, side};
use crate::random::Random;
use crate::text::{self, Flavour};

/// The exact o200k counter, one text after the other.
fn foldback_count(texts: &[&str]) -> u64 {
    let counter = BpeCounter::o200k();
    texts.iter().map(|text| counter.count(text).0).sum()
}

/// The exact o200k counter, given all texts at once: it uses the cores there are.
fn foldback_count_on_two_cores(texts: &[&str]) -> u64 {
    BpeCounter::o200k().count_all(texts).into_iter().map(|tokens| tokens.0).sum()
}

/// How many threads both sides use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cores {
    One,
    Two,
}

const CORPUS_BYTES: usize = 8 << 20;
const SEED: u64 = 0xC0;
const TEXT_BYTES_MIN: usize = 200;
const TEXT_BYTES_MAX: usize = 8_000;

/// Runs the case and returns its line.
pub(crate) fn run(name: &str, cores: Cores, effort: Effort) -> String {
    let corpus = corpus();
    let texts: Vec<&str> = corpus.iter().map(String::as_str).collect();
    let mut one_core = side(&*texts, foldback_count);
    let mut shared =
        side(&*texts, |texts| peer_count_on_two_cores(texts, tiktoken_rs::o200k_base_singleton()));
    let (ours, theirs, variants): (Count, Count, Vec<&mut dyn Side>) = match cores {
        Cores::One => (foldback_count, peer_count, Vec::new()),
        Cores::Two => {
            let theirs = |texts: &[&str]| peer_count_on_two_cores(texts, &SECOND_INSTANCE);
            (foldback_count_on_two_cores, theirs, vec![&mut one_core, &mut shared])
        }
    };
    let comparison = compare(effort, &mut side(&*texts, ours), &mut side(&*texts, theirs), variants);

    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let differing = texts.iter().filter(|text| foldback_count(&[text]) != peer_count(&[text])).count();
    let speed = |nanos: Nanos| bytes as f64 * 1e3 / nanos;
    eprintln!("{name}: {} texts, {bytes} bytes, {} tokens", texts.len(), peer_count(&texts));
    eprintln!(
        "{name}: foldback {:.1} MB/s, peer {:.1} MB/s",
        speed(comparison.foldback),
        speed(comparison.peer)
    );
    eprintln!("{name}: counts differ in {differing} of {} texts", texts.len());
    match comparison.variants[..] {
        [one_core, shared] => {
            eprintln!("{name}: foldback on one core {}", show(one_core));
            eprintln!("{name}: peer with both threads on the shared instance {}", show(shared));
            format!("{} speedup={:.2}", comparison.line(name), one_core / comparison.foldback)
        }
        _ => comparison.line(name),
    }
}

type Count = fn(&[&str]) -> u64;

/// What the second thread counts with.
static SECOND_INSTANCE: LazyLock<CoreBPE> =
    LazyLock::new(|| tiktoken_rs::o200k_base().expect("the vocabulary that comes with the crate loads"));

fn peer_count(texts: &[&str]) -> u64 {
    peer_count_with(tiktoken_rs::o200k_base_singleton(), texts)
}

fn peer_count_with(counter: &CoreBPE, texts: &[&str]) -> u64 {
    texts.iter().map(|text| counter.count_ordinary(text) as u64).sum()
}

fn peer_count_on_two_cores(texts: &[&str], second_instance: &CoreBPE) -> u64 {
    let (first, second) = texts.split_at(texts.len() / 2);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| peer_count_with(second_instance, second));
        let first = peer_count(first);
        first + second.join().expect("counting does not panic on these texts")
    })
}

/// Texts of every flavour in equal parts of bytes, mixed.
fn corpus() -> Vec<String> {
    let mut random = Random::seeded(SEED);
    let mut written = [0; Flavour::ALL.len()];
    let mut texts = Vec::new();
    while written.iter().sum::<usize>() < CORPUS_BYTES {
        let flavour_index = random.below(Flavour::ALL.len());
        if written[flavour_index] < CORPUS_BYTES / Flavour::ALL.len() {
            let bytes = random.size(TEXT_BYTES_MIN, TEXT_BYTES_MAX);
            let text = text::write(&mut random, Flavour::ALL[flavour_index], bytes);
            written[flavour_index] += text.len();
            texts.push(text);
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flavour_outweighs_another() {
        let bytes: usize = corpus().iter().map(String::len).sum();
        assert!((CORPUS_BYTES..CORPUS_BYTES + 5 * (TEXT_BYTES_MAX + 512)).contains(&bytes), "{bytes}");
    }
}
