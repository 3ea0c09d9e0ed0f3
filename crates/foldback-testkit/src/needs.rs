//! What some tests need and a machine may not have. This is the one place that says where it is.
//!
//! Such a test is marked with one of the reasons below: `#[ignore = "needs PostgreSQL"]`. So
//! `cargo test` and `cargo xtask quick` leave it out and say so; `cargo xtask test` starts what is
//! needed and runs it, but for agents. A test that runs without what it needs fails.
//!
//! | reason | variable | who sets it |
//! |---|---|---|
//! | `needs PostgreSQL` | `FOLDBACK_POSTGRES_URL` | `cargo xtask test`, `cargo xtask postgres COMMAND` |
//! | `needs llama.cpp` | `FOLDBACK_LLAMA_URL` | `cargo xtask test`, `cargo xtask llama` |
//! | `needs recorded sessions` | `FOLDBACK_SESSIONS` | you: a folder of session files |
//! | `needs a small file system` | none | Linux, for a user who may mount one |
//! | `needs agents` | `FOLDBACK_AGENTS` | `cargo xtask agents`, `cargo xtask soak` |

use std::path::{Path, PathBuf};

/// The endings of session files.
const ENDINGS: [&str; 3] = ["json", "jsonl", "traj"];

/// The address of a PostgreSQL server that the tests may fill.
///
/// # Panics
/// Without one.
pub fn postgres() -> String {
    variable("FOLDBACK_POSTGRES_URL", "`cargo xtask postgres COMMAND` starts a server and sets it")
}

/// The address of a llama.cpp server.
///
/// # Panics
/// Without one.
pub fn llama() -> String {
    variable("FOLDBACK_LLAMA_URL", "`cargo xtask llama` starts a server and says what to set")
}

/// A folder of recorded sessions.
///
/// # Panics
/// Where there is none, or no session in it.
pub fn sessions() -> PathBuf {
    let folder = variable("FOLDBACK_SESSIONS", "set it to a folder of session files");
    // Cargo runs tests in the folder of their crate; people name folders from the repository's.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join(folder);
    assert!(!session_files(&folder).is_empty(), "no session files in {}", folder.display());
    folder
}

/// The command line of each coding agent: the program, and the words that stand before all others.
#[derive(Clone, Debug)]
pub struct Agents {
    /// Claude Code.
    pub claude_code: Vec<PathBuf>,
    /// opencode.
    pub opencode: Vec<PathBuf>,
    /// pi.
    pub pi: Vec<PathBuf>,
}

/// The agents that were installed. One that was not is found missing when it is started.
///
/// # Panics
/// Without any.
pub fn agents() -> Agents {
    let folder = PathBuf::from(variable("FOLDBACK_AGENTS", "`cargo xtask agents` installs them and sets it"));
    Agents {
        claude_code: vec![folder.join("claude-code/program/claude")],
        opencode: vec![folder.join("opencode/program/bin/opencode")],
        pi: vec![folder.join("pi/node/bin/node"), folder.join("pi/program/dist/bundle/cli.js")],
    }
}

/// Every session file below a folder, in the order of their paths.
pub fn session_files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("a folder can be listed").path()) {
            let has = |ending: &&str| path.extension().is_some_and(|found| found == *ending);
            match path.is_dir() {
                true => folders.push(path),
                false if ENDINGS.iter().any(has) => files.push(path),
                false => {}
            }
        }
    }
    files.sort();
    files
}

fn variable(name: &str, hint: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; {hint}"))
}
