//! Generators, fixtures and independent oracles for testing foldback. Never part of a product.

pub mod fixture;
pub mod kernel;
pub mod recipe;
pub mod strategies;

/// How many random cases a property runs: `PROPTEST_CASES`, or 10,000.
pub fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10_000)
}

/// The configuration of every property test: seeds of failures are printed, not written to files.
pub fn config() -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 4_096,
        ..proptest::test_runner::Config::default()
    }
}
