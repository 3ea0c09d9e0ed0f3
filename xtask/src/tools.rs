//! Programs that the steps use, installed where they are missing.

use std::path::PathBuf;
use std::process::Command;

use crate::Failure;
use crate::cargo::{answers, cargo, run as run_command, target_folder};

/// Versions that are known to work; others that are installed already are taken as they are.
const NEXTEST_VERSION: &str = "0.9.143";
const DENY_VERSION: &str = "0.20.2";

/// rustfmt, clippy and cargo-nextest: what `quick` needs.
pub(crate) fn ensure_basics() -> Result<(), Failure> {
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if !answers(cargo(&[subcommand]).arg("--version")) {
            eprintln!("installing {component}");
            run_command(Command::new("rustup").args(["component", "add", component])).map_err(|_| {
                Failure::Failed(format!("{component} is missing; install it with your Rust toolchain"))
            })?;
        }
    }
    if !answers(cargo(&["nextest"]).arg("--version")) {
        let version = ["--version", NEXTEST_VERSION];
        run_command(cargo(&["install", "--locked", "cargo-nextest"]).args(version))?;
    }
    Ok(())
}

/// cargo-deny, from the path or from the target folder, where it is installed if it is in neither.
pub(crate) fn deny() -> Result<Command, Failure> {
    let root = target_folder()?.join("tools");
    let installed = root.join("bin").join("cargo-deny");
    let found = [PathBuf::from("cargo-deny"), installed.clone()];
    if let Some(program) = found.into_iter().find(|program| answers(Command::new(program).arg("--version"))) {
        return Ok(Command::new(program));
    }
    // Unoptimised: it builds in a quarter of the time, and its work takes a second.
    let arguments = ["install", "--locked", "--debug", "cargo-deny", "--version", DENY_VERSION];
    run_command(cargo(&arguments).arg("--root").arg(&root))?;
    Ok(Command::new(installed))
}
