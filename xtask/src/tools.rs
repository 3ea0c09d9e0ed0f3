//! Programs that the steps use, installed where they are missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::cargo::{answers, cargo, read, root, run as run_command, target_folder};

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

/// A Python with the packages that a file of the repository lists, in an environment inside the folder;
/// installed again where the list has changed.
pub(crate) fn python(folder: &Path, requirements: &str) -> Result<PathBuf, Failure> {
    let (venv, stamp) = (folder.join("venv"), folder.join("installed.txt"));
    let python = venv.join("bin/python");
    let wanted = fs::read_to_string(root().join(requirements))
        .map_err(|error| Failure::Failed(format!("{requirements}: {error}")))?;
    let is_installed = fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted);
    if is_installed && answers(Command::new(&python).arg("--version")) {
        return Ok(python);
    }
    eprintln!("installing {requirements} from PyPI into {}", venv.display());
    ensure_venv()?;
    read(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run_command(
        Command::new(&python)
            .args(pip)
            .args(["--no-deps", "--only-binary", ":all:", "--requirement"])
            .arg(root().join(requirements))
            .env("PIP_CACHE_DIR", folder.join("pip")),
    )?;
    fs::write(&stamp, wanted).map_err(|error| Failure::Failed(format!("{}: {error}", stamp.display())))?;
    Ok(python)
}

/// Debian packs the module that makes environments separately.
fn ensure_venv() -> Result<(), Failure> {
    let has_venv = || answers(Command::new("python3").args(["-c", "import venv, ensurepip"]));
    if has_venv() {
        return Ok(());
    }
    let apt = |words: &[&str]| {
        answers(Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let packages = ["install", "--yes", "--quiet", "--no-install-recommends", "python3-venv"];
    if apt(&["update", "--quiet"]) && apt(&packages) && has_venv() {
        return Ok(());
    }
    Err(Failure::Failed("python3 has no venv; install python3-venv".to_owned()))
}
