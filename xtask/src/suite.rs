//! `cargo xtask test`: everything that must pass, in one command, from a fresh checkout.

use std::process::Command;
use std::time::Instant;

use crate::cargo::{answers, cargo, complaint, read, root, run as run_command};
use crate::fuzz::{self, Effort};
use crate::llama::{self, Llama};
use crate::postgres::{self, Server};
use crate::{Failure, edges};

/// Workspaces of their own: what they need, a normal build should not pay for.
const EXCLUDED: [&str; 2] = ["benches/Cargo.toml", "fuzz/Cargo.toml"];

type Step = (&'static str, fn() -> Result<(), Failure>);

/// Cheap steps first: a missing semicolon should not wait for a fuzzer.
const STEPS: [Step; 9] = [
    ("tools", install_components),
    ("format", check_format),
    ("rules", edges::run),
    ("lints", || {
        let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        run_command(&mut cargo(&arguments))
    }),
    ("tests", run_tests),
    ("docs", || {
        let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
        run_command(command.env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("first command", run_first_command),
    ("examples", run_examples),
    ("fuzz", || fuzz::run(Effort::Repeatable, None)),
];

/// Runs the steps in order and stops at the first that fails.
pub(crate) fn run() -> Result<(), Failure> {
    let started = Instant::now();
    let mut durations = Vec::new();
    for (name, step) in STEPS {
        eprintln!("\n=== {name} ===");
        let step_started = Instant::now();
        step().map_err(|failure| match failure {
            Failure::Misuse(reason) | Failure::Failed(reason) => {
                Failure::Failed(format!("step `{name}` failed: {reason}"))
            }
        })?;
        let duration = format!("{name} {:.1} s", step_started.elapsed().as_secs_f64());
        eprintln!("=== {duration}, passed ===");
        durations.push(duration);
    }
    eprintln!("\nall passed in {:.1} s ({})", started.elapsed().as_secs_f64(), durations.join(", "));
    Ok(())
}

/// rustfmt and clippy are parts of the toolchain that a minimal installation leaves out.
fn install_components() -> Result<(), Failure> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !answers(&mut cargo(&[subcommand, "--version"])) {
            eprintln!("installing {component}");
            run_command(Command::new("rustup").args(["component", "add", component])).map_err(|_| {
                Failure::Failed(format!("{component} is missing; install it with your Rust toolchain"))
            })?;
        }
    }
    fuzz::compiler().map(|_| ())
}

fn check_format() -> Result<(), Failure> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))?;
    for manifest in EXCLUDED.into_iter().filter(|manifest| root().join(manifest).exists()) {
        run_command(&mut cargo(&["fmt", "--check", "--manifest-path", manifest]))?;
    }
    Ok(())
}

/// All tests, with the servers that they need.
fn run_tests() -> Result<(), Failure> {
    let llama = Llama::start(&llama::Options::default())?;
    eprintln!("a llama.cpp server runs at {} until the tests are over", llama.url());
    let server = Server::start()?;
    run_command(
        cargo(&["test", "--workspace", "--locked"])
            .env(llama::URL_VARIABLE, llama.url())
            .env(postgres::URL_VARIABLE, server.url()),
    )?;
    // Features that nothing in the workspace turns on.
    for package in ["foldback-backends", "foldback-loop"] {
        let telemetry = ["test", "--package", package, "--features", "otel", "--lib", "--test", "telemetry"];
        run_command(cargo(&telemetry).arg("--locked"))?;
    }
    Ok(())
}

/// Runs the README's first command; what it prints is what the README says it prints.
fn run_first_command() -> Result<(), Failure> {
    let arguments = ["run", "--locked", "--quiet", "--package", "foldback-cli", "--", "compact"];
    let session =
        ["crates/foldback/examples/session.jsonl", "--target", "4000", "-o", "target/compacted.jsonl"];
    let printed = complaint(cargo(&arguments).args(session))?;
    let readme = root().join("README.md");
    let told = std::fs::read_to_string(&readme)
        .map_err(|error| Failure::Failed(format!("{}: {error}", readme.display())))?;
    if told.contains(printed.trim()) {
        return Ok(());
    }
    let hint = "README.md shows another output of its first command; paste what it prints now";
    Err(Failure::Failed(format!("{hint}:\n{printed}")))
}

/// Runs the examples of the library and of the agent loop.
fn run_examples() -> Result<(), Failure> {
    read(&mut cargo(&["run", "--locked", "--quiet", "--package", "foldback-loop", "--example", "agent"]))?;
    read(&mut cargo(&["run", "--locked", "--quiet", "--package", "foldback", "--example", "fold"]))
        .map(|_| ())
}
