//! `cargo xtask sessions`: the command line on a large session, beside Python's `json` on the same
//! lines. Everything runs in turns, several times, so that what else the machine does hits all alike.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cargo::{answers, cargo, run as run_command, target_folder};
use crate::{Failure, generate};

/// What the comparison is made on unless told otherwise.
pub(crate) const MEGABYTES_DEFAULT: u32 = 100;

/// How often each command runs; the median is reported with the spread.
const ROUNDS: usize = 5;

/// How often the memory of a running program is looked at.
const MEMORY_EVERY: Duration = Duration::from_millis(2);

/// Python's reading of the same lines, as fast as it can be written.
const PYTHON: &str = "import json,sys\nfor line in open(sys.argv[1],encoding='utf-8'): json.loads(line)";

struct Case {
    name: &'static str,
    command: Vec<String>,
}

/// Generates a session, runs the commands on it and prints one line for each.
pub(crate) fn run(megabytes: u32) -> Result<(), Failure> {
    run_command(&mut cargo(&["build", "--release", "--locked", "--package", "foldback-cli"]))?;
    let target = target_folder()?;
    let file = target.join(format!("session-{megabytes}mb.jsonl"));
    generate::run(megabytes, &file)?;
    let foldback = target.join("release/foldback");
    let output = target.join("compacted.jsonl");
    let mut times: Vec<Vec<Measured>> = Vec::new();
    let cases = cases(&foldback, &file, &output);
    for _ in 0..ROUNDS {
        for (index, case) in cases.iter().enumerate() {
            // Replacing a file waits for the disk on some file systems; a new one does not.
            let _not_there = std::fs::remove_file(&output);
            let measured = measure(case)?;
            match times.get_mut(index) {
                Some(all) => all.push(measured),
                None => times.push(vec![measured]),
            }
        }
    }
    report(&cases, &times, &file);
    Ok(())
}

fn cases(foldback: &Path, file: &Path, output: &Path) -> Vec<Case> {
    let (program, file) = (foldback.display().to_string(), file.display().to_string());
    let output = output.display().to_string();
    let case = |name, words: &[&str]| {
        let command = std::iter::once(program.as_str()).chain(words.iter().copied()).map(str::to_owned);
        Case { name, command: command.collect() }
    };
    let compact =
        |counter| ["compact", &file, "--target", "50000", "--counter", counter, "-q", "-o", &output];
    let mut cases = vec![
        case("help", &["--help"]),
        case("stats-estimate", &["stats", &file, "--json", "--counter", "estimate"]),
        case("compact-estimate", &compact("estimate")),
        case("stats-exact", &["stats", &file, "--json", "--counter", "o200k"]),
        case("compact-exact", &compact("o200k")),
    ];
    if answers(Command::new("python3").arg("--version")) {
        let command = ["python3", "-c", PYTHON, &file].map(str::to_owned).to_vec();
        cases.push(Case { name: "python-json", command });
    } else {
        eprintln!("skipped: python3 is not there to compare with");
    }
    cases
}

struct Measured {
    seconds: f64,
    memory_bytes: u64,
}

fn measure(case: &Case) -> Result<Measured, Failure> {
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", case.name));
    let Some((program, arguments)) = case.command.split_first() else {
        return Err(Failure::Failed(format!("{} has no command", case.name)));
    };
    let started = Instant::now();
    let mut child = Command::new(program).args(arguments).stdout(Stdio::null()).spawn().map_err(failed)?;
    let mut memory_bytes = 0;
    let status = loop {
        memory_bytes = memory_bytes.max(peak_memory(child.id()));
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None => std::thread::sleep(MEMORY_EVERY),
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    match status.success() {
        true => Ok(Measured { seconds, memory_bytes }),
        false => Err(Failure::Failed(format!("{} ended with {status}", case.name))),
    }
}

/// The most memory a running program has held, where the system says so.
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1_024
}

fn report(cases: &[Case], times: &[Vec<Measured>], file: &Path) {
    let bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    let median = |measured: &[Measured]| sorted(measured)[measured.len() / 2];
    let python = cases.iter().position(|case| case.name == "python-json").map(|index| median(&times[index]));
    for (case, measured) in cases.iter().zip(times) {
        let seconds = sorted(measured);
        let (least, most) = (seconds[0], seconds[seconds.len() - 1]);
        let memory = measured.iter().map(|measured| measured.memory_bytes).max().unwrap_or(0);
        let ratio = python
            .map_or_else(String::new, |python| format!(" python/this={:.2}", python / median(measured)));
        println!(
            "{} seconds={:.3} ({least:.3}..{most:.3}) MB/s={:.0} peak-memory/file={:.2}{ratio}",
            case.name,
            median(measured),
            bytes as f64 / 1e6 / median(measured),
            memory as f64 / bytes as f64,
        );
    }
}

fn sorted(measured: &[Measured]) -> Vec<f64> {
    let mut seconds: Vec<f64> = measured.iter().map(|measured| measured.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}
