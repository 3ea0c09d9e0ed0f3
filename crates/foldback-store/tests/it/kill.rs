//! Writers that are ended at random moments, with `kill -9`: everything that a writer was told is stored
//! is stored.
//!
//! Each test starts its own program again as the process that is ended, with [`PROCESS`] set. How many
//! rounds there are and how long workers live follows `foldback_testkit::effort`.

mod rounds;
mod target;
mod workers;
mod writer;

use std::process::{Child, Command, Stdio};

use foldback_testkit::effort;
use target::Target;

/// Set in a process that will be ended: what it has to do, a word on each line.
const PROCESS: &str = "FOLDBACK_STORE_PROCESS";

/// What a round costs, beside a case of a cheap property.
const ROUND_COST_SQLITE: u32 = 20;
const ROUND_COST_POSTGRES: u32 = 40;

/// What a second of three workers costs.
const SECOND_COST: u32 = 60;

/// What went wrong, for a person.
type Failure = String;

#[test]
fn whatever_a_killed_writer_was_told_is_in_the_file() {
    run(async { rounds::run(Target::sqlite()?, effort::cases(ROUND_COST_SQLITE)).await });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn whatever_a_killed_writer_was_told_is_on_the_server() {
    run(async { rounds::run(Target::postgres(), effort::cases(ROUND_COST_POSTGRES)).await });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn three_workers_that_are_killed_lose_nothing_and_do_nothing_twice() {
    run(async { workers::run(effort::cases(SECOND_COST)).await });
}

/// Runs a test, or the process that it started.
fn run(test: impl Future<Output = Result<(), Failure>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(async {
        let Ok(words) = std::env::var(PROCESS) else {
            effort::tell();
            return test.await;
        };
        match words.split('\n').collect::<Vec<_>>().as_slice() {
            ["writer", target, seed] => writer::run(&Target::parse(target)?, number(seed)?).await,
            ["worker", schema, name, seed] => workers::work(schema, name, number(seed)?).await,
            _ => Err(format!("{PROCESS} is {words:?}")),
        }
    });
    done.unwrap_or_else(|reason| panic!("{reason}"));
}

/// Starts this test again as a process that will be ended. What it says, it writes to stderr: the
/// harness writes to stdout.
fn start(words: &str) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let this = std::thread::current();
    let mut command = Command::new(program);
    command.args(["--include-ignored", "--exact", this.name().ok_or("a test has a name")?]);
    command.env(PROCESS, words).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().map_err(|error| error.to_string())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
