//! The project's own commands: `cargo xtask test`, and the pieces it is made of.
//!
//! They live in a program and not in shell scripts so that they run wherever cargo runs, and so
//! that the rules on crates (A1 to A4 in ARCHITECTURE.md) are themselves tested.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program reports by printing")]

mod cargo;
mod edges;
mod fuzz;
mod generate;
mod kill;
mod llama;
mod mutate;
mod postgres;
mod purity;
mod sessions;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

use fuzz::Effort;

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  test                            everything that must pass before a merge; the one command to run
  edges                           only the rules: which crate may use which, what core may contain
  fuzz [--seconds N] [target]     fuzz one target or all, N seconds each (default 20)
  fuzz --repeatable [target]      the same inputs each time, as `test` does
  props --cases N                 the property tests with N cases each
  postgres COMMAND…               a PostgreSQL server of our own, and a command beside it
  kill --rounds N --store STORE   end writers at random moments; STORE is sqlite or postgres
  workers [--seconds N]           three processes on one PostgreSQL, ended at random (default 60)
  appends [--seconds N]           appends beside pgbench on one PostgreSQL, N seconds each turn (default 5)
  generate --megabytes N FILE     a Claude Code session of that size, the same each time
  sessions [--megabytes N]        the command line on such a session, beside Python's json
  faults [--runs N] [--seed S] [--first I]
                                  compactions against servers that fail in every way (default 10000 runs,
                                  from the first; --first I --runs 1 is run I alone)
  llama [--model NAME] [--context N] [--port N]
                                  a llama.cpp server on loopback, until enter is pressed; the model is
                                  parrot, which says one sentence, or smollm2
  peers [filter…]                 compare with other compaction libraries (release build of benches/)
";

/// Test targets that hold the property tests.
const PROPERTY_TESTS: [&str; 3] = ["properties", "dialect", "splice"];

/// Fault runs unless told otherwise.
const FAULT_RUNS_DEFAULT: u32 = 10_000;

/// What a compaction against a failing server may take beyond its deadline.
const FAULT_GRACE_SECONDS: u32 = 5;

/// Why a command did not do what was asked.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The command line makes no sense; exit code 2.
    Misuse(String),
    /// The work was done and the answer is no, or it could not be done; exit code 1.
    Failed(String),
}

#[derive(Debug, PartialEq, Eq)]
enum Command {
    Help,
    Test,
    Edges,
    Fuzz { effort: Effort, target: Option<String> },
    Props { cases: u32 },
    Postgres { words: Vec<String> },
    Kill { rounds: u32, store: kill::Store },
    Workers { seconds: u32 },
    Appends { seconds: u32 },
    Peers { filters: Vec<String> },
    Generate { megabytes: u32, path: PathBuf },
    Sessions { megabytes: u32 },
    Faults { runs: u32, seed: u64, first: u64 },
    Llama(llama::Options),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Misuse(reason)) => {
            eprint!("error: {reason}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Failure::Failed(reason)) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Help => {
            print!("{USAGE}");
            Ok(())
        }
        Command::Test => suite::run(),
        Command::Edges => edges::run(),
        Command::Fuzz { effort, target } => fuzz::run(effort, target.as_deref()),
        Command::Props { cases } => cargo::run(
            cargo::cargo(&["test", "--workspace", "--locked"])
                .args(PROPERTY_TESTS.iter().flat_map(|target| ["--test", target]))
                .env("PROPTEST_CASES", cases.to_string()),
        ),
        Command::Postgres { words } => postgres::run(&words),
        Command::Kill { rounds, store } => kill::run(rounds, store),
        Command::Workers { seconds } => kill::run_workers(seconds),
        Command::Appends { seconds } => kill::run_appends(seconds),
        Command::Generate { megabytes, path } => generate::run(megabytes, &path),
        Command::Sessions { megabytes } => sessions::run(megabytes),
        Command::Faults { runs, seed, first } => cargo::run(
            cargo::cargo(&["test", "--release", "--locked", "--package", "foldback-backends"])
                .args(["--test", "faults", "--", "--nocapture"])
                .env("FOLDBACK_FAULT_RUNS", runs.to_string())
                .env("FOLDBACK_FAULT_GRACE_SECONDS", FAULT_GRACE_SECONDS.to_string())
                .env("FOLDBACK_FAULT_SEED", seed.to_string())
                .env("FOLDBACK_FAULT_FIRST", first.to_string()),
        ),
        Command::Llama(options) => llama::run(&options),
        Command::Peers { filters } => cargo::run(
            cargo::cargo(&["run", "--release", "--manifest-path", "benches/Cargo.toml", "--"]).args(filters),
        ),
    }
}

fn parse(arguments: &[String]) -> Result<Command, Failure> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::Misuse("which command?".to_owned()));
    };
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(Command::Help);
    }
    match (name.as_str(), rest) {
        ("help" | "--help" | "-h", []) => Ok(Command::Help),
        ("test", []) => Ok(Command::Test),
        ("edges", []) => Ok(Command::Edges),
        ("fuzz", rest) => parse_fuzz(rest),
        ("props", [flag, cases]) if flag == "--cases" => {
            Ok(Command::Props { cases: positive(flag, Some(cases))? })
        }
        ("props", _) => Err(Failure::Misuse("props wants --cases and a number".to_owned())),
        ("generate", [flag, size, path]) if flag == "--megabytes" => {
            Ok(Command::Generate { megabytes: positive(flag, Some(size))?, path: path.into() })
        }
        ("generate", _) => Err(Failure::Misuse("generate wants --megabytes, a number and a file".to_owned())),
        ("postgres", words) => Ok(Command::Postgres { words: words.to_vec() }),
        ("kill", rest) => kill::parse(rest).map(|(rounds, store)| Command::Kill { rounds, store }),
        ("workers", []) => Ok(Command::Workers { seconds: kill::WORKER_SECONDS_DEFAULT }),
        ("workers", [flag, seconds]) if flag == "--seconds" => {
            Ok(Command::Workers { seconds: positive(flag, Some(seconds))? })
        }
        ("workers", _) => Err(Failure::Misuse("workers takes --seconds and a number".to_owned())),
        ("appends", []) => Ok(Command::Appends { seconds: kill::APPEND_SECONDS_DEFAULT }),
        ("appends", [flag, seconds]) if flag == "--seconds" => {
            Ok(Command::Appends { seconds: positive(flag, Some(seconds))? })
        }
        ("appends", _) => Err(Failure::Misuse("appends takes --seconds and a number".to_owned())),
        ("sessions", []) => Ok(Command::Sessions { megabytes: sessions::MEGABYTES_DEFAULT }),
        ("sessions", [flag, size]) if flag == "--megabytes" => {
            Ok(Command::Sessions { megabytes: positive(flag, Some(size))? })
        }
        ("sessions", _) => Err(Failure::Misuse("sessions takes --megabytes and a number".to_owned())),
        ("faults", rest) => parse_faults(rest),
        ("llama", rest) => parse_llama(rest),
        ("peers", filters) => Ok(Command::Peers { filters: filters.to_vec() }),
        ("help" | "--help" | "-h" | "test" | "edges", [extra, ..]) => {
            Err(Failure::Misuse(format!("{name} takes no argument, but was given {extra}")))
        }
        _ => Err(Failure::Misuse(format!("there is no command {name}"))),
    }
}

fn parse_fuzz(arguments: &[String]) -> Result<Command, Failure> {
    let (mut effort, mut target) = (Effort::Seconds(fuzz::SECONDS_DEFAULT), None);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => effort = Effort::Seconds(positive(argument, arguments.next())?),
            "--repeatable" => effort = Effort::Repeatable,
            flag if flag.starts_with('-') => {
                return Err(Failure::Misuse(format!("fuzz has no option {flag}")));
            }
            name if target.is_none() => target = Some(name.to_owned()),
            extra => {
                return Err(Failure::Misuse(format!("fuzz takes one target, but was also given {extra}")));
            }
        }
    }
    Ok(Command::Fuzz { effort, target })
}

fn parse_faults(arguments: &[String]) -> Result<Command, Failure> {
    let (mut runs, mut seed, mut first) = (FAULT_RUNS_DEFAULT, 0, 0);
    let whole = |flag: &str, value: Option<&String>| {
        let number = value.and_then(|value| value.parse().ok());
        number.ok_or_else(|| Failure::Misuse(format!("{flag} wants a whole number")))
    };
    for pair in arguments.chunks(2) {
        match (pair[0].as_str(), pair.get(1)) {
            ("--runs", value) => runs = positive("--runs", value)?,
            ("--seed", value) => seed = whole("--seed", value)?,
            ("--first", value) => first = whole("--first", value)?,
            (other, _) => return Err(Failure::Misuse(format!("faults has no option {other}"))),
        }
    }
    Ok(Command::Faults { runs, seed, first })
}

fn parse_llama(arguments: &[String]) -> Result<Command, Failure> {
    let mut options = llama::Options::default();
    for pair in arguments.chunks(2) {
        match (pair[0].as_str(), pair.get(1)) {
            ("--model", Some(name)) => options.model.clone_from(name),
            ("--model", None) => return Err(Failure::Misuse("--model wants a name".to_owned())),
            ("--context", value) => options.context = positive("--context", value)?,
            ("--port", value) => options.port = positive("--port", value)?,
            (other, _) => return Err(Failure::Misuse(format!("llama has no option {other}"))),
        }
    }
    Ok(Command::Llama(options))
}

fn positive(flag: &str, value: Option<&String>) -> Result<u32, Failure> {
    let number = value.and_then(|value| value.parse().ok()).filter(|&number| number > 0);
    number.ok_or_else(|| Failure::Misuse(format!("{flag} wants a whole number above zero")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, Failure> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn command_lines_are_understood() {
        assert_eq!(parse_line("test"), Ok(Command::Test));
        assert_eq!(parse_line("fuzz"), Ok(Command::Fuzz { effort: Effort::Seconds(20), target: None }));
        let target = Some("native".to_owned());
        let effort = Effort::Seconds(3);
        assert_eq!(parse_line("fuzz native --seconds 3"), Ok(Command::Fuzz { effort, target }));
        let repeatable = Command::Fuzz { effort: Effort::Repeatable, target: None };
        assert_eq!(parse_line("fuzz --repeatable"), Ok(repeatable));
        assert_eq!(parse_line("props --cases 9"), Ok(Command::Props { cases: 9 }));
        assert_eq!(parse_line("peers codex"), Ok(Command::Peers { filters: vec!["codex".to_owned()] }));
        assert_eq!(parse_line("appends --seconds 2"), Ok(Command::Appends { seconds: 2 }));
        assert_eq!(parse_line("fuzz --help"), Ok(Command::Help));
        let faults = Command::Faults { runs: 10_000, seed: 7, first: 0 };
        assert_eq!(parse_line("faults --seed 7"), Ok(faults));
        let one = Command::Faults { runs: 1, seed: 0, first: 9 };
        assert_eq!(parse_line("faults --first 9 --runs 1"), Ok(one));
        let smollm2 = llama::Options { model: "smollm2".to_owned(), context: 512, port: 0 };
        assert_eq!(parse_line("llama --model smollm2 --context 512"), Ok(Command::Llama(smollm2)));
    }

    #[test]
    fn misuse_is_told_apart_from_failure() {
        for line in
            ["", "tset", "test now", "props", "props --cases 0", "fuzz --seconds", "fuzz a b", "fuzz --fast"]
                .into_iter()
                .chain([
                    "faults --runs",
                    "faults --seed x",
                    "faults --first",
                    "faults 5",
                    "llama --model",
                    "llama --port 0",
                ])
                .chain(["kill", "workers 3", "appends 3"])
        {
            assert!(matches!(parse_line(line), Err(Failure::Misuse(_))), "{line}");
        }
    }
}
