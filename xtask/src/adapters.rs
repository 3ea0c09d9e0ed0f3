//! The adapters to other systems: a workspace of its own, whose crates use foldback as any program does.

use std::process::Command;

use serde_json::Value;

use crate::Failure;
use crate::cargo::{cargo, metadata, read, root, run as run_command, target_folder};
use crate::runner::{EVERYTHING, Search, run_counting};

pub(crate) const MANIFEST: &str = "adapters/Cargo.toml";

/// Examples that run offline, each of which checks what it shows.
const EXAMPLES: [&str; 3] = ["agentkit_rounds", "openai_rounds", "rig_chat"];

/// What an adapter may use of foldback, and beside it in tests.
const FACADE: &str = "foldback";
const IN_TESTS: &str = "foldback-testkit";

/// Lints the adapters, checks their docs, runs their tests and examples. Answers how many ran.
pub(crate) fn run(search: Search) -> Result<u64, Failure> {
    run_command(everything("clippy")?.args(["--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    run_command(everything("doc")?.args(["--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    let tested = run_counting(search.set(everything("test")?.arg("--quiet")))?;
    let folder = target_folder()?.join("debug").join("examples");
    for name in EXAMPLES {
        read(Command::new(folder.join(name)).current_dir(root()))?;
    }
    Ok(tested + EXAMPLES.len() as u64)
}

/// A command on all of them. They share the target folder, and so what was built of their dependencies.
fn everything(subcommand: &str) -> Result<Command, Failure> {
    let mut command = cargo(&[subcommand, "--manifest-path", MANIFEST]);
    command.args(EVERYTHING).arg("--target-dir").arg(target_folder()?);
    Ok(command)
}

/// One line for each use of a crate behind the facade.
pub(crate) fn uses_behind_the_facade() -> Result<Vec<String>, Failure> {
    Ok(behind_the_facade(&metadata(MANIFEST)?))
}

fn behind_the_facade(metadata: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let is_in_tests = dependency["kind"] == "dev" && used == IN_TESTS;
            if used.starts_with(FACADE) && used != FACADE && !is_in_tests {
                broken.push(format!("{name} may not use {used}: an adapter uses the facade alone"));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_use_of_a_crate_behind_the_facade_is_found() {
        let using = |name: &str, kind: Value| {
            let dependencies = json!([{"name": "rig-core", "kind": null}, {"name": name, "kind": kind}]);
            behind_the_facade(&json!({"packages": [{"name": "foldback-rig", "dependencies": dependencies}]}))
        };
        assert!(
            using("foldback", json!(null)).is_empty() && using("foldback-testkit", json!("dev")).is_empty()
        );
        assert_eq!(
            using("foldback-core", json!("dev")),
            ["foldback-rig may not use foldback-core: an adapter uses the facade alone"]
        );
    }

    #[test]
    fn every_example_is_run() {
        let metadata = metadata(MANIFEST).unwrap();
        let targets = metadata["packages"].as_array().unwrap().iter();
        let targets = targets.flat_map(|package| package["targets"].as_array().unwrap());
        let examples = targets.filter(|target| target["kind"][0] == "example");
        let mut names: Vec<&str> = examples.map(|target| target["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, EXAMPLES);
        assert!(fs::exists(root().join("adapters/Cargo.lock")).unwrap());
    }
}
