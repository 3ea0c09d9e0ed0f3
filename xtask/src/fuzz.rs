//! Fuzzing on the stable toolchain.
//!
//! `fuzz/` is laid out for cargo-fuzz, which wants nightly for its sanitizers. Our code is safe
//! Rust, so coverage alone finds what there is to find, and coverage needs only flags that stable
//! accepts: the ones cargo-fuzz passes for `--sanitizer none`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::{answers, cargo, metadata, read, root, run as run_command, target_folder};
use crate::{Failure, mutate};

/// Long enough to find what a change broke in plain sight.
pub(crate) const SECONDS_DEFAULT: u32 = 20;

/// How a target is fuzzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// From what earlier runs found, to other inputs each time.
    Seconds(u32),
    /// With the same inputs each time: a change that breaks nothing is not blamed for what luck
    /// finds.
    Repeatable,
}

/// Inputs of a repeatable run: a few seconds of each target.
fn repeatable_input_count(name: &str) -> usize {
    match name {
        "formats" => 500,
        _ => 5_000,
    }
}

/// An input that takes longer than this is a finding.
const INPUT_SECONDS_MAX: u32 = 10;

const MANIFEST: &str = "fuzz/Cargo.toml";

const COVERAGE_FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 --cfg fuzzing";

/// Builds and runs `target`, or every target.
pub(crate) fn run(effort: Effort, target: Option<&str>) -> Result<(), Failure> {
    let known = targets()?;
    let chosen = match target {
        None => known,
        Some(name) if known.iter().any(|known| known == name) => vec![name.to_owned()],
        Some(name) => {
            let names = known.join(", ");
            return Err(Failure::Misuse(format!("there is no fuzz target {name}; there are: {names}")));
        }
    };
    let binaries = build()?;
    chosen.iter().try_for_each(|name| run_target(name, &binaries, effort))
}

fn targets() -> Result<Vec<String>, Failure> {
    let metadata = metadata(MANIFEST)?;
    let targets = metadata["packages"][0]["targets"].as_array().into_iter().flatten();
    Ok(targets.filter_map(|target| target["name"].as_str()).map(str::to_owned).collect())
}

/// Returns the folder of the built targets.
fn build() -> Result<PathBuf, Failure> {
    let host = host()?;
    let folder = fuzz_folder()?;
    let flags = match std::env::var("RUSTFLAGS") {
        Ok(flags) => format!("{flags} {COVERAGE_FLAGS}"),
        Err(_) => COVERAGE_FLAGS.to_owned(),
    };
    // With an explicit target the flags do not reach build scripts and macros, which would not link.
    let mut command = cargo(&["build", "--release", "--locked", "--bins", "--manifest-path", MANIFEST]);
    command.args(["--target", &host]).arg("--target-dir").arg(&folder);
    run_command(command.env("RUSTFLAGS", flags).env("CXX", compiler()?))?;
    Ok(folder.join(host).join("release"))
}

fn host() -> Result<String, Failure> {
    let version = read(Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into())).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::Failed("rustc -vV does not name the host".to_owned()))
}

/// A folder of its own inside the workspace's: the flags would make cargo build everything anew
/// each time if the two shared one.
fn fuzz_folder() -> Result<PathBuf, Failure> {
    target_folder().map(|folder| folder.join("fuzz"))
}

/// Runs one target over its committed seeds. All that it says goes to a log, what is worth reading
/// to our own output.
fn run_target(name: &str, binaries: &Path, effort: Effort) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("fuzz target {name}: {error}"));
    let corpus = corpus(&fuzz_folder()?, name, effort).map_err(failed)?;
    let artifacts = root().join("fuzz/artifacts").join(name);
    fs::create_dir_all(&artifacts).map_err(failed)?;
    let log_path = fuzz_folder()?.join(format!("{name}.log"));
    let mut log = File::create(&log_path).map_err(failed)?;

    let extent = match effort {
        Effort::Seconds(seconds) => {
            eprintln!("fuzzing {name} for {seconds} s");
            format!("-max_total_time={seconds}")
        }
        Effort::Repeatable => {
            let count = repeatable_input_count(name);
            eprintln!("fuzzing {name} with {count} inputs, the same each time");
            mutate::fill(&corpus, &seeds(name), count).map_err(failed)?;
            "-runs=0".to_owned()
        }
    };
    let mut child = Command::new(binaries.join(name))
        .arg(&corpus)
        .args(Some(seeds(name)).filter(|seeds| seeds.is_dir()))
        .arg(extent)
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .current_dir(root())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).split(b'\n')) {
        let line = String::from_utf8_lossy(&line.map_err(failed)?).into_owned();
        writeln!(log, "{line}").map_err(failed)?;
        if is_worth_showing(&line) {
            eprintln!("  {line}");
        }
    }
    if child.wait().map_err(failed)?.success() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "fuzz target {name} found something: the input is in fuzz/artifacts/{name}, the log is {}; \
         to run that input alone: {} <input>",
        log_path.display(),
        binaries.join(name).display(),
    )))
}

/// The folder of inputs: those that earlier runs found, or none yet.
fn corpus(folder: &Path, name: &str, effort: Effort) -> Result<PathBuf, std::io::Error> {
    let corpus = match effort {
        Effort::Seconds(_) => folder.join("corpus").join(name),
        Effort::Repeatable => {
            let corpus = folder.join("repeatable").join(name);
            if corpus.exists() {
                fs::remove_dir_all(&corpus)?;
            }
            corpus
        }
    };
    fs::create_dir_all(&corpus)?;
    Ok(corpus)
}

/// The committed inputs that a target starts from. Those of the formats are their test fixtures.
fn seeds(name: &str) -> PathBuf {
    match name {
        "formats" => root().join("crates/foldback-formats/fixtures"),
        _ => root().join("fuzz/seeds").join(name),
    }
}

fn is_worth_showing(line: &str) -> bool {
    let event = line.split_whitespace().nth(1).unwrap_or_default();
    let is_progress = line.starts_with('#') && !matches!(event, "pulse" | "DONE");
    let is_dictionary = line.starts_with('"') && line.contains("# Uses:");
    let is_chatter = ["INFO:", "WARNING: Failed to find function", "\tNEW_FUNC"]
        .iter()
        .any(|start| line.starts_with(start));
    !(is_progress || is_dictionary || is_chatter || line.trim().is_empty())
}

/// The C++ compiler that libFuzzer is built with; installs one where that is possible.
pub(crate) fn compiler() -> Result<OsString, Failure> {
    if let Some(compiler) = find_compiler() {
        return Ok(compiler);
    }
    let is_root = read(Command::new("id").arg("-u")).is_ok_and(|user| user.trim() == "0");
    if is_root && answers(Command::new("apt-get").arg("--version")) {
        eprintln!("no C++ compiler; installing g++");
        run_command(Command::new("apt-get").args(["update", "--quiet"]))?;
        let arguments = ["install", "--yes", "--quiet", "--no-install-recommends", "g++"];
        run_command(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    find_compiler().ok_or_else(|| {
        Failure::Failed(
            "no C++ compiler, which libFuzzer is built with; install g++ or clang \
             (Debian: apt-get install g++) or name one in CXX"
                .to_owned(),
        )
    })
}

fn find_compiler() -> Option<OsString> {
    let candidates = std::env::var_os("CXX").into_iter().chain(["c++", "g++", "clang++"].map(OsString::from));
    candidates.into_iter().find(|compiler| answers(Command::new(compiler).arg("--version")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds() {
        let targets = targets().unwrap();
        assert!(!targets.is_empty());
        for name in targets {
            let seeds = fs::read_dir(seeds(&name)).unwrap();
            assert!(seeds.count() > 0, "{name}");
        }
    }

    #[test]
    fn every_file_of_a_target_is_one_in_the_manifest() {
        let targets = targets().unwrap();
        for file in fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap() {
            let path = file.unwrap().path();
            let is_target = targets.iter().any(|name| path.file_stem().is_some_and(|stem| stem == &**name));
            assert!(is_target, "{} is never run", path.display());
        }
    }

    #[test]
    fn findings_are_shown_and_coverage_is_not() {
        assert!(!is_worth_showing("#123\tNEW    cov: 10 ft: 11 corp: 2/3b exec/s: 0 rss: 30Mb"));
        assert!(!is_worth_showing("INFO: Seed: 1"));
        assert!(!is_worth_showing("\"\\001\\006\" # Uses: 204"));
        assert!(is_worth_showing("thread '<unnamed>' panicked at fuzz_targets/native.rs:9:5:"));
        assert!(is_worth_showing("#8192\tpulse  cov: 10 ft: 11 corp: 2/3b"));
    }
}
