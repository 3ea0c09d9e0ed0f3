//! The project's own commands: `cargo xtask test`, and the pieces it is made of.
//!
//! They live in a program and not in shell scripts so that they run wherever cargo runs, and so
//! that the rules on crates (A1 to A4 in ARCHITECTURE.md) are themselves tested.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program reports by printing")]

mod adapters;
mod agents;
mod cargo;
mod dependencies;
mod edges;
mod fuzz;
mod generate;
mod layers;
mod llama;
mod mutate;
mod postgres;
mod purity;
mod retention;
mod runner;
mod sessions;
mod soak;
mod sources;
mod suite;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use agents::Agent;
use fuzz::Effort;

const USAGE: &str = "\
usage: cargo xtask <command>

commands:
  quick                           while working: format, rules, lints, tests that need no server
  test                            everything that must pass before a merge
  soak [--hours N] [filter]       everything that takes long, with new random cases each round (default 1)
  agents [NAME…] [-- ARGUMENT…]   the tests with real coding agents, which are installed from npm: claude-code,
                                  opencode, pi, or all; what follows -- is for nextest
  edges                           only the rules: which crate may use which, what sources may contain
  fuzz [--seconds N] [target]     fuzz one target or all, N seconds each (default 20)
  fuzz --repeatable [target]      the same inputs each time, as `test` does
  postgres COMMAND…               a PostgreSQL server of our own, and a command beside it
  llama [--model NAME] [--context N] [--port N]
                                  a llama.cpp server on loopback, until enter is pressed; the model is
                                  parrot, which says one sentence, or smollm2
  appends [--seconds N]           appends beside pgbench on one PostgreSQL, N seconds each turn (default 5)
  generate --megabytes N FILE     a Claude Code session of that size, the same each time
  sessions [--megabytes N]        the command line on such a session, beside Python's json
  retention                       what of a chat survives a compaction, beside a kit's own compactors;
                                  FOLDBACK_SEED draws the same chats again
  peers [filter…]                 compare with other compaction libraries (release build of benches/)
";

/// A soak that is longer than a month was a slip.
const HOURS_MAX: f64 = 720.0;

/// Why a command did not do what was asked.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The command line makes no sense; exit code 2.
    Misuse(String),
    /// The work was done and the answer is no, or it could not be done; exit code 1.
    Failed(String),
}

#[derive(Debug, PartialEq)]
enum Command {
    Help,
    Quick,
    Test,
    Soak { hours: f64, filter: Option<String> },
    Agents { agents: Vec<&'static Agent>, words: Vec<String> },
    Edges,
    Fuzz { effort: Effort, target: Option<String> },
    Postgres { words: Vec<String> },
    Llama(llama::Options),
    Appends { seconds: u32 },
    Generate { megabytes: u32, path: PathBuf },
    Sessions { megabytes: u32 },
    Retention,
    Peers { filters: Vec<String> },
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
        Command::Quick => suite::run_quick(),
        Command::Test => suite::run_test(),
        Command::Soak { hours, filter } => soak::run(hours, filter.as_deref()),
        Command::Agents { agents, words } => agents::run(&agents, &words),
        Command::Edges => edges::run(),
        Command::Fuzz { effort, target } => fuzz::run(effort, target.as_deref()),
        Command::Postgres { words } => postgres::run(&words),
        Command::Llama(options) => llama::run(&options),
        Command::Appends { seconds } => postgres::run_appends(seconds),
        Command::Generate { megabytes, path } => generate::run(megabytes, &path),
        Command::Sessions { megabytes } => sessions::run(megabytes),
        Command::Retention => retention::run(runner::seed()?),
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
        ("quick", []) => Ok(Command::Quick),
        ("test", []) => Ok(Command::Test),
        ("soak", rest) => parse_soak(rest),
        ("agents", rest) => parse_agents(rest),
        ("edges", []) => Ok(Command::Edges),
        ("fuzz", rest) => parse_fuzz(rest),
        ("generate", [flag, size, path]) if flag == "--megabytes" => {
            Ok(Command::Generate { megabytes: positive(flag, Some(size))?, path: path.into() })
        }
        ("generate", _) => Err(Failure::Misuse("generate wants --megabytes, a number and a file".to_owned())),
        ("postgres", words) => Ok(Command::Postgres { words: words.to_vec() }),
        ("appends", []) => Ok(Command::Appends { seconds: postgres::APPEND_SECONDS_DEFAULT }),
        ("appends", [flag, seconds]) if flag == "--seconds" => {
            Ok(Command::Appends { seconds: positive(flag, Some(seconds))? })
        }
        ("appends", _) => Err(Failure::Misuse("appends takes --seconds and a number".to_owned())),
        ("sessions", []) => Ok(Command::Sessions { megabytes: sessions::MEGABYTES_DEFAULT }),
        ("sessions", [flag, size]) if flag == "--megabytes" => {
            Ok(Command::Sessions { megabytes: positive(flag, Some(size))? })
        }
        ("sessions", _) => Err(Failure::Misuse("sessions takes --megabytes and a number".to_owned())),
        ("retention", []) => Ok(Command::Retention),
        ("llama", rest) => parse_llama(rest),
        ("peers", filters) => Ok(Command::Peers { filters: filters.to_vec() }),
        ("help" | "--help" | "-h" | "quick" | "test" | "edges" | "retention", [extra, ..]) => {
            Err(Failure::Misuse(format!("{name} takes no argument, but was given {extra}")))
        }
        _ => Err(Failure::Misuse(format!("there is no command {name}"))),
    }
}

fn parse_soak(arguments: &[String]) -> Result<Command, Failure> {
    let (hours, rest) = match arguments {
        [flag, rest @ ..] if flag == "--hours" => {
            let hours = rest
                .first()
                .and_then(|hours| hours.parse().ok())
                .filter(|hours| (0.0..=HOURS_MAX).contains(hours));
            let wanted = || Failure::Misuse(format!("--hours wants a number from 0 to {HOURS_MAX}"));
            (hours.ok_or_else(wanted)?, rest.get(1..).unwrap_or_default())
        }
        rest => (soak::HOURS_DEFAULT, rest),
    };
    match rest {
        [] => Ok(Command::Soak { hours, filter: None }),
        [filter] if !filter.starts_with('-') => Ok(Command::Soak { hours, filter: Some(filter.clone()) }),
        _ => Err(Failure::Misuse("soak takes --hours and a number, and then one filter".to_owned())),
    }
}

fn parse_agents(arguments: &[String]) -> Result<Command, Failure> {
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    let (names, words) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let unknown = |name: &String| Failure::Misuse(format!("agents knows {}, not {name}", agents::names()));
    let agents = names.iter().map(|name| agents::named(name).ok_or_else(|| unknown(name)));
    Ok(Command::Agents { agents: agents.collect::<Result<_, _>>()?, words: words.to_vec() })
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
        assert_eq!(parse_line("soak"), Ok(Command::Soak { hours: 1.0, filter: None }));
        let killing = Command::Soak { hours: 0.5, filter: Some("kill".to_owned()) };
        assert_eq!(parse_line("soak --hours 0.5 kill"), Ok(killing));
        assert_eq!(parse_line("peers codex"), Ok(Command::Peers { filters: vec!["codex".to_owned()] }));
        assert_eq!(parse_line("appends --seconds 2"), Ok(Command::Appends { seconds: 2 }));
        let words = vec!["resume".to_owned()];
        let agents = vec![agents::named("pi").unwrap()];
        assert_eq!(parse_line("agents pi -- resume"), Ok(Command::Agents { agents, words }));
        assert_eq!(parse_line("agents"), Ok(Command::Agents { agents: Vec::new(), words: Vec::new() }));
        assert_eq!(parse_line("retention"), Ok(Command::Retention));
        assert_eq!(parse_line("fuzz --help"), Ok(Command::Help));
        let smollm2 = llama::Options { model: "smollm2".to_owned(), context: 512, port: 0 };
        assert_eq!(parse_line("llama --model smollm2 --context 512"), Ok(Command::Llama(smollm2)));
    }

    #[test]
    fn misuse_is_told_apart_from_failure() {
        for line in [
            "",
            "tset",
            "test now",
            "quick now",
            "soak --hours",
            "soak --hours -1",
            "soak a b",
            "agents emacs",
            "soak --long",
            "fuzz --seconds",
            "fuzz a b",
            "fuzz --fast",
            "llama --model",
            "llama --port 0",
            "appends 3",
        ] {
            assert!(matches!(parse_line(line), Err(Failure::Misuse(_))), "{line}");
        }
    }
}
