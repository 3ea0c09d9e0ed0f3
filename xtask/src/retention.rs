//! `cargo xtask retention`: how many statements of a chat survive a compaction, beside the compactors of
//! compaction-conformance-kit, which generates the chats and scores all of them.

use std::fs;
use std::process::Command;

use crate::Failure;
use crate::cargo::{cargo, root, run as run_command, target_folder};
use crate::runner::SEED_VARIABLE;
use crate::tools;

/// Chats of one run: enough for a mean, in a minute.
const CHAT_COUNT: u64 = 20;

const SCRIPT: &str = "xtask/retention/compare.py";
const REQUIREMENTS: &str = "xtask/retention/requirements.txt";

/// Compares on chats that nobody has tuned for; fails where foldback keeps less than its share of what the
/// best of the kit keeps, resolves fewer updates than any of them, or exceeds its budget.
pub(crate) fn run(seed: u64) -> Result<(), Failure> {
    run_command(&mut cargo(&["build", "--release", "--locked", "--package", "foldback-cli"]))?;
    let target = target_folder()?;
    let folder = target.join("retention");
    fs::create_dir_all(&folder).map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())))?;
    let python = tools::python(&folder, REQUIREMENTS)?;
    eprintln!("repeat with: {SEED_VARIABLE}={seed} cargo xtask retention");
    run_command(
        Command::new(python)
            .arg(root().join(SCRIPT))
            .arg("--gate")
            .arg("--foldback")
            .arg(target.join("release/foldback"))
            .arg(format!("{seed}-{}", seed.saturating_add(CHAT_COUNT - 1))),
    )
}
