//! `cargo xtask test` and `cargo xtask quick`: steps in order, and a table of them at the end.

use std::time::{Duration, Instant};

use crate::cargo::{cargo, run as run_command};
use crate::fuzz::{self, Effort};
use crate::runner::{self, EVERYTHING, Search, Servers};
use crate::{Failure, adapters, dependencies, edges, tools};

/// Workspaces of their own: what they need, a normal build should not pay for.
const EXCLUDED: [&str; 3] = [adapters::MANIFEST, "benches/Cargo.toml", "fuzz/Cargo.toml"];

/// Cases that a cheap property draws. More are drawn by `cargo xtask soak`.
const CASES_QUICK: u32 = 256;
const CASES_TEST: u32 = 1_000;

/// What a step has to say for itself.
#[derive(Debug, Default)]
struct Done {
    test_count: Option<u64>,
    left_out: Option<String>,
}

type Step = (&'static str, fn() -> Result<Done, Failure>);

/// Cheap steps first: a missing semicolon should not wait for a fuzzer.
const TEST: [Step; 12] = [
    ("tools", || {
        tools::ensure_basics()?;
        fuzz::compiler().map(|_| Done::default())
    }),
    ("format", check_format),
    ("rules", || edges::run().map(|()| Done::default())),
    ("dependencies", || dependencies::check().map(|left_out| Done { left_out, ..Done::default() })),
    ("lints", lint),
    ("build", || runner::build().map(|()| Done::default())),
    ("tests", || {
        let servers = Servers::start()?;
        let (count, left_out) = runner::run_all(&servers, None, Search::fresh(CASES_TEST), "default", None)?;
        Ok(Done { test_count: Some(count), left_out })
    }),
    ("doc tests", || {
        runner::run_doc_tests().map(|count| Done { test_count: Some(count), ..Done::default() })
    }),
    ("examples", || runner::run_examples().map(|count| Done { test_count: Some(count), ..Done::default() })),
    ("adapters", || {
        let count = adapters::run(Search::fresh(CASES_TEST))?;
        Ok(Done { test_count: Some(count), ..Done::default() })
    }),
    ("docs", || {
        let mut command = cargo(&["doc", "--no-deps"]);
        run_command(command.args(EVERYTHING).env("RUSTDOCFLAGS", "-D warnings")).map(|()| Done::default())
    }),
    ("fuzz", || fuzz::run(Effort::Repeatable, None).map(|()| Done::default())),
];

const QUICK: [Step; 6] = [
    ("tools", || tools::ensure_basics().map(|()| Done::default())),
    ("format", check_format),
    ("rules", || edges::run().map(|()| Done::default())),
    ("lints", lint),
    ("build", || runner::build().map(|()| Done::default())),
    ("tests", || {
        let (count, left_out) = runner::run_alone(Search::fresh(CASES_QUICK))?;
        Ok(Done { test_count: Some(count), left_out: Some(left_out) })
    }),
];

/// Everything that guards a merge.
pub(crate) fn run_test() -> Result<(), Failure> {
    run(&TEST)
}

/// What one runs while working: no servers, no fuzzers.
pub(crate) fn run_quick() -> Result<(), Failure> {
    run(&QUICK)
}

/// Runs the steps in order and stops at the first that fails. The table is printed either way.
fn run(steps: &[Step]) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut failure = None;
    for (name, step) in steps {
        eprintln!("\n=== {name} ===");
        let started = Instant::now();
        let done = step();
        let row = (*name, started.elapsed(), done.as_ref().ok().and_then(|done| done.test_count));
        rows.push(row);
        match done {
            Ok(Done { left_out, .. }) => left_out.iter().for_each(|told| eprintln!("left out: {told}")),
            Err(Failure::Misuse(reason) | Failure::Failed(reason)) => {
                failure = Some(Failure::Failed(format!("step `{name}` failed: {reason}")));
                break;
            }
        }
    }
    print!("\n{}", table(&rows));
    failure.map_or(Ok(()), Err)
}

/// Each step, its time and how many tests it ran.
fn table(rows: &[(&str, Duration, Option<u64>)]) -> String {
    let line = |name: &str, time: Duration, count: Option<u64>| {
        let count = count.map(|count| count.to_string()).unwrap_or_default();
        format!("{name:<14}{:>9.1} s{count:>8}\n", time.as_secs_f64())
    };
    let time = rows.iter().map(|(_, time, _)| *time).sum();
    let count = rows.iter().filter_map(|(_, _, count)| *count).sum();
    let lines: String = rows.iter().map(|&(name, time, count)| line(name, time, count)).collect();
    format!("step               time   tests\n{lines}{}", line("all", time, Some(count)))
}

fn check_format() -> Result<Done, Failure> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    for manifest in EXCLUDED {
        run_command(&mut cargo(&["fmt", "--all", "--check", "--manifest-path", manifest]))?;
    }
    Ok(Done::default())
}

/// Clippy on everything, and on what is left of the facade without its features.
fn lint() -> Result<Done, Failure> {
    let deny = ["--", "-D", "warnings"];
    run_command(cargo(&["clippy", "--all-targets", "--quiet"]).args(EVERYTHING).args(deny))?;
    let bare = ["clippy", "--package", "foldback", "--no-default-features", "--locked", "--quiet"];
    run_command(cargo(&bare).args(deny))?;
    Ok(Done::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_adds_up_times_and_tests() {
        let rows =
            [("format", Duration::from_millis(1_500), None), ("tests", Duration::from_secs(90), Some(12))];
        let expected = "step               time   tests\n\
                        format              1.5 s        \n\
                        tests              90.0 s      12\n\
                        all                91.5 s      12\n";
        assert_eq!(table(&rows), expected);
    }
}
