//! Ending writers at random moments: `kill` and `workers` run the test of foldback-store that does
//! it, for longer than the test run does. `appends` runs it undisturbed, beside pgbench.

use crate::Failure;
use crate::cargo::{cargo, run as run_command};
use crate::postgres::{Server, URL_VARIABLE};

/// How long three processes share a server.
pub(crate) const WORKER_SECONDS_DEFAULT: u32 = 60;

/// How long a side appends at a time, beside pgbench.
pub(crate) const APPEND_SECONDS_DEFAULT: u32 = 5;

/// Where the test looks for pgbench.
const PGBENCH_VARIABLE: &str = "PGBENCH";

/// The test that does it.
const PROGRAM: [&str; 7] = ["test", "--locked", "--package", "foldback-store", "--test", "kill", "--"];

/// Which store the writers write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Store {
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Reads `--rounds N --store sqlite|postgres`, in either order.
pub(crate) fn parse(arguments: &[String]) -> Result<(u32, Store), Failure> {
    let (mut rounds, mut store) = (None, None);
    let mut arguments = arguments.iter();
    while let Some(flag) = arguments.next() {
        let value = arguments.next();
        match (flag.as_str(), value.map(String::as_str)) {
            ("--rounds", _) => rounds = Some(crate::positive(flag, value)?),
            ("--store", Some("sqlite")) => store = Some(Store::Sqlite),
            ("--store", Some("postgres")) => store = Some(Store::Postgres),
            _ => return Err(misuse()),
        }
    }
    rounds.zip(store).ok_or_else(misuse)
}

fn misuse() -> Failure {
    Failure::Misuse("kill wants --rounds, a number, --store and sqlite or postgres".to_owned())
}

/// Ends a writer so many times.
pub(crate) fn run(rounds: u32, store: Store) -> Result<(), Failure> {
    let mut command = cargo(&PROGRAM);
    command.args(["kill", store.name(), &rounds.to_string()]);
    match store {
        Store::Sqlite => run_command(&mut command),
        Store::Postgres => {
            let server = Server::start()?;
            run_command(command.env(URL_VARIABLE, server.url()))
        }
    }
}

/// Three processes on one server for a while, ended and started again at random.
pub(crate) fn run_workers(seconds: u32) -> Result<(), Failure> {
    let server = Server::start()?;
    let mut command = cargo(&PROGRAM);
    run_command(command.args(["workers", &seconds.to_string()]).env(URL_VARIABLE, server.url()))
}

/// Appends beside pgbench, on the same server and in turns.
pub(crate) fn run_appends(seconds: u32) -> Result<(), Failure> {
    let server = Server::start()?;
    let mut command = cargo(&PROGRAM);
    command.args(["appends", &seconds.to_string()]).env(URL_VARIABLE, server.url());
    run_command(command.env(PGBENCH_VARIABLE, server.path_of("pgbench")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<(u32, Store), Failure> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn rounds_and_store_are_read_in_either_order() {
        assert_eq!(parse_line("--rounds 9 --store sqlite"), Ok((9, Store::Sqlite)));
        assert_eq!(parse_line("--store postgres --rounds 9"), Ok((9, Store::Postgres)));
        for line in
            ["", "--rounds 9", "--store sqlite", "--rounds 0 --store sqlite", "--store mysql --rounds 1"]
        {
            assert!(matches!(parse_line(line), Err(Failure::Misuse(_))), "{line}");
        }
    }
}
