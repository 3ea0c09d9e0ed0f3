//! What the dependencies are: their licences, versions and known defects (`deny.toml`), and the oldest
//! Rust that builds them and us.

use std::process::Command;

use serde_json::Value;

use crate::cargo::{metadata, read, root, run as run_command, target_folder};
use crate::runner::EVERYTHING;
use crate::{Failure, tools};

/// Answers what could not be checked.
pub(crate) fn check() -> Result<Option<String>, Failure> {
    run_command(tools::deny()?.current_dir(root()).args(["check", "licenses", "bans", "sources"]))?;
    check_minimum_rust()?;
    check_advisories()
}

/// Known defects, where their list can be had: it comes from the network.
fn check_advisories() -> Result<Option<String>, Failure> {
    if read(tools::deny()?.current_dir(root()).args(["fetch", "db"])).is_err() {
        return Ok(Some(
            "known defects of dependencies: the list of advisories cannot be fetched".to_owned(),
        ));
    }
    run_command(tools::deny()?.current_dir(root()).args(["check", "--disable-fetch", "advisories"]))?;
    Ok(None)
}

/// We build with the Rust that we promise. Where that is the one we run, the build shows it.
fn check_minimum_rust() -> Result<(), Failure> {
    let promised = promised(&metadata("Cargo.toml")?)?;
    let running = read(Command::new("rustc").arg("--version").current_dir(root()))?;
    if is_release(&running, &promised) {
        return Ok(());
    }
    eprintln!("checking with Rust {promised}, the oldest that is promised");
    let install = ["toolchain", "install", &promised, "--profile", "minimal"];
    run_command(Command::new("rustup").args(install))?;
    let mut check = Command::new("rustup");
    check.args(["run", &promised, "cargo", "check", "--quiet"]).args(EVERYTHING).arg("--target-dir");
    run_command(check.arg(target_folder()?.join("minimum-rust")).env_remove("CARGO").current_dir(root()))
}

/// The version that every crate of the workspace promises.
fn promised(metadata: &Value) -> Result<String, Failure> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut versions: Vec<&str> = packages.filter_map(|package| package["rust_version"].as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    match versions.as_slice() {
        [version] => Ok((*version).to_owned()),
        _ => Err(Failure::Failed(format!("crates promise different versions of Rust: {versions:?}"))),
    }
}

/// Whether what `rustc --version` prints is a release of this version.
fn is_release(printed: &str, version: &str) -> bool {
    let running = printed.split(' ').nth(1).unwrap_or_default();
    running.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_release_is_the_promised_version_and_another_minor_is_not() {
        assert!(is_release("rustc 1.95.0 (59807616e 2026-04-14)", "1.95"));
        assert!(!is_release("rustc 1.950.0 (0 2026-04-14)", "1.95"));
        assert!(!is_release("rustc 1.96.0 (0 2026-06-14)", "1.95"));
    }

    #[test]
    fn all_crates_promise_the_same_rust() {
        assert_eq!(promised(&metadata("Cargo.toml").unwrap()).unwrap(), "1.95");
        let mixed = serde_json::json!({"packages": [{"rust_version": "1.80"}, {"rust_version": "1.95"}]});
        assert!(promised(&mixed).is_err());
    }
}
