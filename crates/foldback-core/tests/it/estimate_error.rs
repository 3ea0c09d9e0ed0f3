//! How far the estimating counter is from exact `o200k_base` counts, by kind of text.
//!
//! `cargo test -p foldback-core estimate_error -- --nocapture` prints the table that the
//! counter's documentation quotes. The weights were corrected by hand after a look at the seen
//! texts, so only the held-out ones say how far a new text may be off: do not tune to those.

use foldback_core::{EstimatingCounter, Precision, TokenCounter};

/// The documented bound of the mean error of a kind, on texts that were seen while tuning.
const SEEN_ERROR_MAX: f64 = 0.15;

/// The documented bound of the mean error of a kind, on texts that were not.
const HELD_OUT_ERROR_MAX: f64 = 0.20;

/// Shorter paragraphs are mostly rounding.
const SAMPLE_BYTES_MIN: usize = 100;

struct Kind {
    name: &'static str,
    seen: &'static str,
    held_out: &'static str,
}

macro_rules! kind {
    ($name:literal, $file:literal) => {
        Kind {
            name: $name,
            seen: include_str!(concat!("estimate_error/", $file)),
            held_out: include_str!(concat!("estimate_error/held_out/", $file)),
        }
    };
}

const KINDS: [Kind; 7] = [
    kind!("English", "english.txt"),
    kind!("code", "code.txt"),
    kind!("JSON", "json.txt"),
    kind!("Chinese", "chinese.txt"),
    kind!("Japanese", "japanese.txt"),
    kind!("Korean", "korean.txt"),
    kind!("Cyrillic", "cyrillic.txt"),
];

#[derive(Debug)]
struct Sample {
    estimated: f64,
    exact: f64,
}

fn samples(text: &str) -> Vec<Sample> {
    let exact = bpe_openai::o200k_base();
    text.split("\n\n")
        .filter(|paragraph| paragraph.len() >= SAMPLE_BYTES_MIN)
        .map(|paragraph| Sample {
            estimated: EstimatingCounter.count(paragraph).0 as f64,
            exact: exact.count(paragraph) as f64,
        })
        .collect()
}

fn mean_error(samples: &[Sample]) -> f64 {
    let errors = samples.iter().map(|sample| (sample.estimated / sample.exact - 1.0).abs());
    errors.sum::<f64>() / samples.len() as f64
}

/// The largest real count, as a multiple of the estimate.
fn worst(samples: &[Sample]) -> f64 {
    samples.iter().map(|sample| sample.exact / sample.estimated).fold(0.0, f64::max)
}

fn upper_factor() -> f64 {
    match EstimatingCounter.precision() {
        Precision::Estimate { upper_factor } => upper_factor,
        Precision::Exact => panic!("an estimate must not call itself exact"),
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is what the command in the documentation is for")]
fn the_mean_error_of_every_kind_is_inside_the_documented_bound() {
    println!("| text | bytes/4 | seen: mean error | held out: mean error | worst real/estimate |");
    println!("|---|---:|---:|---:|---:|");
    for kind in KINDS {
        let (seen, held_out) = (samples(kind.seen), samples(kind.held_out));
        let exact: f64 = bpe_openai::o200k_base().count(kind.seen) as f64;
        let quarter = kind.seen.len() as f64 / 4.0 / exact - 1.0;
        println!(
            "| {} | {:+.0}% | {:.1}% | {:.1}% | {:.2} |",
            kind.name,
            quarter * 100.0,
            mean_error(&seen) * 100.0,
            mean_error(&held_out) * 100.0,
            worst(&seen).max(worst(&held_out))
        );
        assert!(seen.len() >= 4 && held_out.len() >= 2, "{} needs more text", kind.name);
        assert!(mean_error(&seen) <= SEEN_ERROR_MAX, "{}: {}", kind.name, mean_error(&seen));
        assert!(mean_error(&held_out) <= HELD_OUT_ERROR_MAX, "{}: {}", kind.name, mean_error(&held_out));
    }
}

#[test]
fn no_real_count_is_above_the_upper_bound() {
    for kind in KINDS {
        for sample in samples(kind.seen).iter().chain(&samples(kind.held_out)) {
            assert!(sample.exact <= sample.estimated * upper_factor(), "{}: {sample:?}", kind.name);
        }
    }
}

#[test]
fn hashes_base64_and_white_space_stay_under_the_upper_bound() {
    let hash = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
    let base64 = "U2hhcmVkIHByZWZpeGVzIGFyZSBjaGVhcCwgcmV3cml0dGVuIG9uZXMgYXJlIG5vdC4gS2VlcCB0aGVtLg==";
    let spaced = "id          name                 size      changed\n";
    let exact = bpe_openai::o200k_base();
    for text in [hash, base64, spaced, "\n\n\n\n", "----------------", "🙂🚀✅", "x"] {
        let text = text.repeat(20);
        let (real, estimated) = (exact.count(&text) as f64, EstimatingCounter.count(&text).0 as f64);
        assert!(real <= estimated * upper_factor(), "{text:?}: {real} real, {estimated} estimated");
    }
}
