//! How hard the tests search. Two variables say it for every test that draws random cases: property
//! blocks, faults of servers, killed writers.
//!
//! - `FOLDBACK_CASES`: how many cases the cheapest property draws ([`CASES_DEFAULT`] if not set). A test
//!   with expensive cases draws a fixed fraction of it ([`cases`]).
//! - `FOLDBACK_SEED`: where drawing starts; a new one in each process if not set.
//!
//! A failing test prints both as part of the command that repeats it. proptest also writes the failing
//! case to `proptest-regressions/`: commit that file, and every later run tries the case first.
#![expect(clippy::print_stderr, reason = "the harness shows it where the test fails")]

use std::sync::OnceLock;

use proptest::test_runner::{Config, FileFailurePersistence, RngSeed};

/// Enough to notice a broken rule; `cargo xtask soak` asks for many more.
pub const CASES_DEFAULT: u32 = 256;

const CASES_VARIABLE: &str = "FOLDBACK_CASES";
const SEED_VARIABLE: &str = "FOLDBACK_SEED";

/// The fewest cases that a test draws, however expensive they are.
const CASES_MIN: u32 = 4;

/// Where proptest keeps failing cases, beside the crate's `src` or the folder of the test program.
const REGRESSIONS: &str = "proptest-regressions";

/// The configuration of a property whose cases are cheap.
pub fn config() -> Config {
    costly(1)
}

/// The configuration of a property whose cases each take as long as `cost` cheap ones.
pub fn costly(cost: u32) -> Config {
    tell();
    Config {
        cases: cases(cost),
        rng_seed: RngSeed::Fixed(seed()),
        failure_persistence: Some(Box::new(FileFailurePersistence::SourceParallel(REGRESSIONS))),
        max_shrink_iters: 4_096,
        ..Config::default()
    }
}

/// How many cases to draw of a kind that takes as long as `cost` cheap ones.
pub fn cases(cost: u32) -> u32 {
    (asked(CASES_VARIABLE).unwrap_or(CASES_DEFAULT) / cost).max(CASES_MIN)
}

/// Where drawing starts: the same for all tests of a process.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| asked(SEED_VARIABLE).unwrap_or_else(|| fastrand::u64(..)))
}

/// Prints the command that repeats the running test. The harness keeps it back unless the test fails.
pub fn tell() {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let thread = std::thread::current();
    eprintln!(
        "repeat with: {SEED_VARIABLE}={} {CASES_VARIABLE}={} cargo test --package {package} -- --include-ignored --exact {}",
        seed(),
        cases(1),
        thread.name().unwrap_or_default(),
    );
}

/// The number in a variable, if it is set.
///
/// # Panics
/// Where it is not a number.
pub fn asked<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}, which is not a whole number")))
}
