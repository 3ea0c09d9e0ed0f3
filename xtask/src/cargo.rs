//! Running cargo and other programs from the workspace root.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::Failure;

/// The workspace root: where every command runs.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// What cargo tells the program that it runs about that program: build scripts would take it for a change.
const ABOUT_US: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// The cargo that runs us, with these arguments.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| ABOUT_US.iter().any(|start| name.starts_with(start))) {
        command.env_remove(name);
    }
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> Result<PathBuf, Failure> {
    let metadata = metadata("Cargo.toml")?;
    let folder = metadata["target_directory"].as_str().map(PathBuf::from);
    folder.ok_or_else(|| Failure::Failed("cargo metadata does not name the target directory".to_owned()))
}

/// Runs a command with our own output; fails where it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| Failure::Failed(format!("{}: {error}", line(command))))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("{} ended with {status}", line(command))))
    }
}

/// Runs a command for what it prints.
pub(crate) fn read(command: &mut Command) -> Result<String, Failure> {
    output(command).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn output(command: &mut Command) -> Result<Output, Failure> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::Failed(format!("{}: {error}", line(command))))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::Failed(format!("{} said:\n{}", line(command), complaint.trim_end())));
    }
    Ok(output)
}

/// Whether a program is there and answers.
pub(crate) fn answers(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

/// What cargo knows about the packages of one workspace, without their dependencies.
pub(crate) fn metadata(manifest: &str) -> Result<Value, Failure> {
    let printed =
        read(&mut cargo(&["metadata", "--format-version", "1", "--no-deps", "--manifest-path", manifest]))?;
    serde_json::from_str(&printed).map_err(|error| Failure::Failed(format!("cargo metadata: {error}")))
}

/// The command as one would type it, without the directory of the program.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
