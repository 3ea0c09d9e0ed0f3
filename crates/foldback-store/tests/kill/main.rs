//! Writers that are ended at random moments, with `kill -9`: what they were told is stored is stored.
//!
//! Without arguments, a few rounds of everything. `kill sqlite N`, `kill postgres N` and
//! `workers SECONDS` do one thing for longer; `appends SECONDS` writes undisturbed and says how fast.
//! `cargo xtask kill`, `cargo xtask workers` and `cargo xtask appends` ask for it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "processes talk by printing")]

mod appends;
mod rounds;
mod target;
mod workers;
mod writer;

use std::process::ExitCode;

use target::Target;

/// Rounds and seconds of the normal test run.
const ROUNDS_SQLITE: u32 = 12;
const ROUNDS_POSTGRES: u32 = 6;
const WORKER_SECONDS: u32 = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut runtime = match words.first() {
        // Clients beside each other, as those of pgbench are.
        Some(&"appends") => tokio::runtime::Builder::new_multi_thread(),
        Some(_) | None => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build().expect("a runtime starts");
    let done = runtime.block_on(async {
        match words.as_slice() {
            ["writer", target, seed] => writer::run(&Target::parse(target)?, number(seed)?).await,
            ["worker", schema, name, seed] => workers::work(schema, name, number(seed)?).await,
            ["kill", "sqlite", count] => rounds::run(Target::sqlite()?, number(count)?).await,
            ["kill", "postgres", count] => rounds::run(Target::postgres()?, number(count)?).await,
            ["appends", seconds] => appends::run(number(seconds)?).await,
            ["workers", seconds] => workers::run(number(seconds)?).await,
            // Whatever else cargo passes on is for the usual harness.
            _ => {
                rounds::run(Target::sqlite()?, ROUNDS_SQLITE).await?;
                rounds::run(Target::postgres()?, ROUNDS_POSTGRES).await?;
                workers::run(WORKER_SECONDS).await
            }
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// What went wrong, for a person.
type Failure = String;

fn number<T: std::str::FromStr>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
