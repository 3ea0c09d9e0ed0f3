//! Running the tests: one set of flags, so that no step builds what another has built.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::{cargo, read, run as run_command, target_folder};
use crate::llama::{self, Llama};
use crate::postgres::{self, Server};
use crate::{Failure, agents};

/// What every step builds: everything, with every feature.
pub(crate) const EVERYTHING: [&str; 3] = ["--workspace", "--all-features", "--locked"];

/// Names a folder of recorded sessions, for the tests that need some.
const SESSIONS_VARIABLE: &str = "FOLDBACK_SESSIONS";

/// Tests that need recorded sessions are in modules of this name.
const NEEDS_SESSIONS: &str = "test(/(^|::)recorded::/)";

/// How many random cases a test draws, and from where: `foldback_testkit::effort` reads them.
const CASES_VARIABLE: &str = "FOLDBACK_CASES";
pub(crate) const SEED_VARIABLE: &str = "FOLDBACK_SEED";

/// How one run of the tests draws its random cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    pub(crate) cases: u32,
    pub(crate) seed: u64,
}

impl Search {
    /// So many cases, from a seed that nobody had before.
    pub(crate) fn fresh(cases: u32) -> Self {
        Self { cases, seed: fresh_seed() }
    }

    /// Makes the tests of a command draw like this, and says so.
    pub(crate) fn set(self, command: &mut Command) -> &mut Command {
        eprintln!("random cases: {self}");
        command.env(CASES_VARIABLE, self.cases.to_string()).env(SEED_VARIABLE, self.seed.to_string())
    }
}

/// Six digits are enough to be new each time, and can be typed.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()) % 1_000_000
}

/// The seed that the variable names; if it is not set, one that nobody had before.
pub(crate) fn seed() -> Result<u64, Failure> {
    let Ok(asked) = std::env::var(SEED_VARIABLE) else { return Ok(fresh_seed()) };
    asked.parse().map_err(|_| Failure::Misuse(format!("{SEED_VARIABLE} is {asked}, not a whole number")))
}

impl std::fmt::Display for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{SEED_VARIABLE}={} {CASES_VARIABLE}={}", self.seed, self.cases)
    }
}

/// The servers that some tests need, until this is dropped.
#[derive(Debug)]
pub(crate) struct Servers {
    llama: Llama,
    postgres: Server,
}

impl Servers {
    pub(crate) fn start() -> Result<Self, Failure> {
        let llama = Llama::start(&llama::Options::default())?;
        eprintln!("started llama.cpp at {}", llama.url());
        Ok(Self { llama, postgres: Server::start()? })
    }
}

/// Builds every test, example and program.
pub(crate) fn build() -> Result<(), Failure> {
    run_command(cargo(&["nextest", "run", "--no-run", "--cargo-quiet"]).args(EVERYTHING))
}

/// Runs the tests that need no server. Answers how many there were and what was left out.
pub(crate) fn run_alone(search: Search) -> Result<(u64, String), Failure> {
    let count = run(cargo(&["nextest", "run", "--profile", "default"]).args(EVERYTHING), search)?;
    let left_out = ignored_count()?;
    let told = format!(
        "{left_out} tests that need PostgreSQL, llama.cpp, recorded sessions, a small file system or \
         agents; `cargo xtask test` runs all but those with agents"
    );
    Ok((count, told))
}

/// Runs all tests whose names contain the filter, beside servers; those with agents only where there is a
/// folder of them. Answers how many, and what was left out.
pub(crate) fn run_all(
    servers: &Servers,
    agents_folder: Option<&Path>,
    search: Search,
    profile: &str,
    filter: Option<&str>,
) -> Result<(u64, Option<String>), Failure> {
    let has_sessions = std::env::var_os(SESSIONS_VARIABLE).is_some();
    let mut command = cargo(&["nextest", "run", "--run-ignored", "all", "--profile", profile]);
    command.args(EVERYTHING).args(filter);
    command.env(llama::URL_VARIABLE, servers.llama.url()).env(postgres::URL_VARIABLE, servers.postgres.url());
    let mut left_out: Vec<(&str, String)> = Vec::new();
    if !has_sessions {
        let told = format!("tests on recorded sessions; {SESSIONS_VARIABLE} names a folder of them");
        left_out.push((NEEDS_SESSIONS, told));
    }
    match agents_folder {
        Some(folder) => _ = command.env(agents::FOLDER_VARIABLE, folder),
        None => left_out
            .push((agents::NEEDS_AGENTS, "tests with agents; `cargo xtask agents` runs them".to_owned())),
    }
    let (unmet, told): (Vec<_>, Vec<_>) = left_out.into_iter().unzip();
    if !unmet.is_empty() {
        command.args(["--filterset", &format!("not ({})", unmet.join(" or "))]);
    }
    let count = run(&mut command, search)?;
    Ok((count, (!told.is_empty()).then(|| told.join("\nleft out: "))))
}

fn run(command: &mut Command, search: Search) -> Result<u64, Failure> {
    let command = search.set(command);
    let profile = command.get_args().skip_while(|argument| *argument != "--profile").nth(1);
    let profile = profile.map(|profile| profile.to_string_lossy().into_owned()).unwrap_or_default();
    run_command(command)?;
    let path = target_folder()?.join("nextest").join(profile).join("junit.xml");
    let report = std::fs::read_to_string(&path)
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    counted(&report).ok_or_else(|| Failure::Failed(format!("{} counts no tests", path.display())))
}

/// How many tests a report of nextest's says were run.
fn counted(report: &str) -> Option<u64> {
    let suites = report.split("<testsuites ").nth(1)?;
    suites.split("tests=\"").nth(1)?.split('"').next()?.parse().ok()
}

/// How many tests are marked as needing something.
fn ignored_count() -> Result<usize, Failure> {
    let listed = read(cargo(&["nextest", "list", "--message-format", "json"]).args(EVERYTHING))?;
    let listed: Value = serde_json::from_str(&listed)
        .map_err(|error| Failure::Failed(format!("cargo nextest list: {error}")))?;
    let suites = listed["rust-suites"].as_object().into_iter().flatten();
    let cases = suites.flat_map(|(_, suite)| suite["testcases"].as_object().into_iter().flatten());
    Ok(cases.filter(|(_, case)| case["ignored"] == true).count())
}

/// Runs the examples in the docs, which nextest cannot. Answers how many there were.
pub(crate) fn run_doc_tests() -> Result<u64, Failure> {
    run_counting(cargo(&["test", "--doc", "--quiet"]).args(EVERYTHING))
}

/// Runs tests with the usual harness. Answers how many passed.
pub(crate) fn run_counting(command: &mut Command) -> Result<u64, Failure> {
    let failed = |reason: String| Failure::Failed(format!("cargo test: {reason}"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
    let mut count = 0;
    for line in child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines()) {
        let line = line.map_err(|error| failed(error.to_string()))?;
        count += passed(&line).unwrap_or(0);
        println!("{line}");
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if status.success() { Ok(count) } else { Err(failed(format!("ended with {status}"))) }
}

/// How many tests a closing line of the usual harness says have passed.
fn passed(line: &str) -> Option<u64> {
    line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse().ok()
}

/// Runs every example that somebody can run without arguments, from what the tests have built.
pub(crate) fn run_examples() -> Result<u64, Failure> {
    let folder = target_folder()?.join("debug").join("examples");
    for name in EXAMPLES {
        read(Command::new(folder.join(name)).current_dir(crate::cargo::root()))?;
    }
    Ok(EXAMPLES.len() as u64)
}

/// `appends` is not among them: it measures, beside a server.
const EXAMPLES: [&str; 2] = ["agent", "fold"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_from_what_the_runners_say() {
        let report = r#"<?xml version="1.0"?><testsuites name="nextest-run" tests="1126" failures="1">"#;
        assert_eq!(counted(report), Some(1_126));
        assert_eq!(counted("<html>"), None);
        assert_eq!(passed("test result: ok. 7 passed; 0 failed; 0 ignored"), Some(7));
        assert_eq!(passed("running 7 tests"), None);
    }
}
