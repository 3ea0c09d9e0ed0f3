//! Generators, fixtures and independent oracles for testing foldback. Never part of a product.

pub mod fixture;
pub mod kernel;
pub mod recipe;
pub mod server;
pub mod spans;
pub mod strategies;

use proptest::test_runner::{Config, RngSeed};

/// Cases that each property runs in the normal test run.
const CASES_DEFAULT: u32 = 10_000;

/// The configuration of every property test.
///
/// The normal run draws the same transcripts every time, so that a failure belongs to the change
/// under test. `PROPTEST_CASES` asks for another number of cases, and then for new ones each time.
pub fn config() -> Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    Config {
        cases: asked.unwrap_or(CASES_DEFAULT),
        rng_seed: if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(0) },
        failure_persistence: None,
        max_shrink_iters: 4_096,
        ..Config::default()
    }
}
