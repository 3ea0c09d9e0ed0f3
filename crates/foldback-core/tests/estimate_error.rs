//! How far the estimating counter is from exact `o200k_base` counts, by kind of text.
//!
//! `cargo test -p foldback-core --test estimate_error -- --nocapture` prints the table that the
//! counter's documentation quotes.

use foldback_core::{EstimatingCounter, Precision, TokenCounter};

/// The documented bound of the mean error of a kind.
const MEAN_ERROR_MAX: f64 = 0.15;

const KINDS: [(&str, &str); 7] = [
    ("English", include_str!("estimate_error/english.txt")),
    ("code", include_str!("estimate_error/code.txt")),
    ("JSON", include_str!("estimate_error/json.txt")),
    ("Chinese", include_str!("estimate_error/chinese.txt")),
    ("Japanese", include_str!("estimate_error/japanese.txt")),
    ("Korean", include_str!("estimate_error/korean.txt")),
    ("Cyrillic", include_str!("estimate_error/cyrillic.txt")),
];

/// Shorter paragraphs are mostly rounding.
const SAMPLE_BYTES_MIN: usize = 100;

#[derive(Debug)]
struct Sample {
    estimated: f64,
    exact: f64,
}

impl Sample {
    fn error(&self) -> f64 {
        self.estimated / self.exact - 1.0
    }
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

fn upper_factor() -> f64 {
    match EstimatingCounter.precision() {
        Precision::Estimate { upper_factor } => upper_factor,
        Precision::Exact => panic!("an estimate must not call itself exact"),
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is what the command in the documentation is for")]
fn the_mean_error_of_every_kind_is_inside_the_documented_bound() {
    println!("| text | bytes/4 | mean error | bias | worst real/estimate |");
    println!("|---|---:|---:|---:|---:|");
    for (kind, text) in KINDS {
        let samples = samples(text);
        let mean = samples.iter().map(|sample| sample.error().abs()).sum::<f64>() / samples.len() as f64;
        let estimated: f64 = samples.iter().map(|sample| sample.estimated).sum();
        let exact: f64 = samples.iter().map(|sample| sample.exact).sum();
        let worst = samples.iter().map(|sample| sample.exact / sample.estimated).fold(0.0, f64::max);
        let quarter = text.len() as f64 / 4.0 / exact - 1.0;
        println!(
            "| {kind} | {:+.0}% | {:.1}% | {:+.1}% | {worst:.2} |",
            quarter * 100.0,
            mean * 100.0,
            (estimated / exact - 1.0) * 100.0
        );
        assert!(samples.len() >= 4, "{kind} needs more text");
        assert!(mean <= MEAN_ERROR_MAX, "{kind}: mean error {mean:.3}");
    }
}

#[test]
fn no_real_count_is_above_the_upper_bound() {
    for (kind, text) in KINDS {
        for sample in samples(text) {
            assert!(sample.exact <= sample.estimated * upper_factor(), "{kind}: {sample:?}");
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
